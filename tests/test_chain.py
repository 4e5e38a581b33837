"""The chain of regions: what a run's embeddings are follows from its seed alone."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nestbo import Embedding, Optimizer, Settings
from nestbo.chain import first_region, next_region
from nestbo.events import Restarted


@given(st.integers(1, 200), st.integers(1, 4), st.integers(1, 50), st.integers(0, 9))
def test_regions_grow_to_the_largest_and_then_restart(D, bins, cap, seed):
    """Splits until the largest target dimension is reached exactly, restarts of that dimension for ever after."""
    largest = min(D, cap)
    event = first_region(D, 1, seed=seed, time=0.0)
    embedding = Embedding(event.bin, event.sign, 1)
    for region in range(1, 12):
        event = next_region(embedding, region, bins=bins, largest=largest, seed=seed, time=1.0)
        again = next_region(embedding, region, bins=bins, largest=largest, seed=seed, time=2.0)
        assert np.array_equal(event.bin, again.bin)
        assert np.array_equal(event.sign, again.sign)
        assert (event.region, event.time) == (region, 1.0)
        assert isinstance(event, Restarted) == (embedding.target_dim == largest)
        d = int(event.bin.max()) + 1
        assert embedding.target_dim < d <= largest or isinstance(event, Restarted)
        embedding = Embedding(event.bin, event.sign, d)


@pytest.mark.parametrize("cap", [None, 5])
def test_a_run_follows_the_chain(cap):
    """Whatever its results were, an optimizer's n-th region has the embedding that the chain has there."""
    settings = Settings(reach_input_dim_by=20, max_candidates=50, fit_iterations=3, max_target_dim=cap)
    optimizer = Optimizer([(-1.0, 1.0)] * 12, budget=80, rng=4, settings=settings)
    for _ in range(80):
        optimizer.tell(optimizer.ask(), 1.0)
    assert not optimizer.state.in_first_lineage
    event = first_region(12, optimizer.state.schedule.initial_dim, seed=4, time=0.0)
    embedding = Embedding(event.bin, event.sign, optimizer.state.schedule.initial_dim)
    for region, found in enumerate(optimizer.state.embeddings):
        if region:
            event = next_region(embedding, region, bins=3, largest=cap or 12, seed=4, time=0.0)
            embedding = Embedding(event.bin, event.sign, int(event.bin.max()) + 1)
        assert embedding == found
