"""The chain of regions: a pure function of the seed, so that a region's number says all about its embedding.

A run begins in region 0. While the target dimension is below the largest one the next region is a split of the current
one; after that each is a restart with a fresh embedding. Whoever knows the seed, the dimensions and the number of new
bins can therefore say what a point of any region means.
"""

from nestbo.embedding import Embedding
from nestbo.events import Embedded, Restarted
from nestbo.rng import stream

VERSION = 1
"""To be raised when the same seed gives other embeddings than before: points of a region would mean something else."""


def first_region(D: int, d: int, *, seed: int, time: float) -> Embedded:
    """Region 0: an embedding of d target dimensions into D inputs."""
    embedding = Embedding.sample(D, d, stream(seed, "embed", 0))
    return Embedded(0, embedding.bin, embedding.sign, None, time)


def next_region(
    current: Embedding, region: int, *, bins: int, largest: int, seed: int, time: float
) -> Embedded | Restarted:
    """The region after the current one.

    Args:
        current: The embedding to split, if it can still grow.
        region: Number of the new region.
        bins: New bins per split.
        largest: The target dimension at which the next region is a restart.
        seed: The seed of the run.
        time: When, for the record.
    """
    rng = stream(seed, "split", region)
    if current.target_dim < largest:
        embedding, parent = current.split(bins, rng, max_dim=largest)
        return Embedded(region, embedding.bin, embedding.sign, parent, time)
    embedding = Embedding.sample(current.input_dim, largest, rng)
    return Restarted(region, embedding.bin, embedding.sign, None, time)
