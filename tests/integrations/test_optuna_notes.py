"""What a proposal leaves in its trial: exact, in pieces that every storage takes, and harmless if damaged."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nestbo import Optimizer, Settings, Space
from nestbo.events import Asked
from nestbo.gp.hyper import Hyper
from nestbo.integrations.optuna import notes

KEY = "0123456789abcdef"


def proposal(d, seed=0, *, design=False):
    """A proposal of d target dimensions."""
    rng = np.random.default_rng(seed)
    hyper = None if design else Hyper.from_flat(rng.uniform(0.1, 1.0, d + 2))
    z = rng.uniform(-1.0, 1.0, (1, d))
    return Asked(7, 3, z, design, hyper, 0.8, 4, rng.random(), None, synchronous=False, seconds=0.1, time=2.0)


@given(st.integers(1, 40), st.integers(0, 99), st.booleans(), st.integers(64, 700))
def test_a_proposal_comes_back_bit_for_bit(d, seed, design, piece):
    """Whatever the number of pieces it is stored in."""
    asked = proposal(d, seed, design=design)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(notes, "PIECE", piece)
        attributes = dict(notes.written(KEY, asked))
    assert all(len(value) <= piece + 5 for value in attributes.values())
    back = notes.read(KEY, {"fixed_params": {}, **attributes})
    assert back.z.tobytes() == asked.z.tobytes()
    assert (back.region, back.design, back.tolerance, back.margin) == (3, design, 4, asked.margin)
    assert design or back.hyper.flat().tobytes() == asked.hyper.flat().tobytes()


def test_the_first_piece_is_written_last():
    """A reader that sees the first piece finds all others, whenever it looks."""
    names = [name for name, _ in notes.written(KEY, proposal(6000))]
    assert len(names) > 1
    assert names[-1] == "nestbo:0"


def test_a_note_of_a_thousand_dimensions_is_one_attribute_that_mysql_takes():
    """65,535 bytes is what a column of type TEXT holds there, quotes and escapes of JSON included."""
    import json

    ((_, value),) = notes.written(KEY, proposal(1000))
    assert len(json.dumps(value)) < 65_535
    assert all(len(json.dumps(value)) < 65_535 for _, value in notes.written(KEY, proposal(20_000)))


@pytest.mark.parametrize(
    "damage",
    [
        lambda a: {name: value for name, value in a.items() if name != "nestbo:0"},
        lambda a: {**a, "nestbo:0": a["nestbo:0"].replace(KEY, "f" * 16)},
        lambda a: {**a, "nestbo:0": a["nestbo:0"][:-3]},
        lambda a: {**a, "nestbo:0": a["nestbo:0"].replace('"region":3', '"region":4')},
        lambda a: {**a, "nestbo:0": "2" + a["nestbo:0"][1:]},
        lambda a: {**a, "nestbo:0": "nonsense"},
        lambda a: {**a, "nestbo:0": 5},
        lambda a: {**a, "nestbo:0": None},
    ],
)
def test_a_note_that_is_not_ours_is_none(damage):
    """Absent, of another search, torn or changed: no error, and no proposal."""
    attributes = dict(notes.written(KEY, proposal(3)))
    assert notes.read(KEY, attributes) is not None
    assert notes.read(KEY, damage(attributes)) is None


def test_the_key_tells_chains_of_embeddings_apart():
    """Seed, bounds, origin and the settings that shape embeddings change it; settings of the search do not."""

    def key(D=5, rng=0, x0=None, **options):
        return notes.chain_key(
            Optimizer(Space.of([(0.0, 1.0)] * D), budget=9, rng=rng, x0=x0, settings=Settings(**options)).state
        )

    assert key() == key() == key(margin=0.5) == key(halvings=3)
    assert len({key(), key(D=6), key(rng=1), key(bins=2), key(max_target_dim=3), key(x0=[0.2] * 5)}) == 6
