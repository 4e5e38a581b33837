"""Points that do not depend on the values: uniform random ones, and a scrambled Sobol sequence."""

from nestbo.bench.methods.method import Method
from nestbo.bench.methods.search import Array, BaseSearch
from nestbo.errors import SettingsError
from nestbo.rng import stream
from nestbo.space import Space


class Sampling(BaseSearch):
    """A run that learns nothing."""

    def learn(self, number: int, value: float) -> None:
        """Values have no influence."""


class RandomSearch(Sampling):
    """Uniform random points."""

    def __init__(self, space: Space, *, budget: int, seed: int, x0: Array | None) -> None:
        super().__init__(space, budget=budget, x0=x0)
        self._seed = seed

    def propose(self, number: int) -> Array:
        """A point u (D,)."""
        return stream(self._seed, "bench", "random", number).uniform(-1.0, 1.0, self._space.dim)


class SobolSearch(Sampling):
    """The points of a Sobol sequence in order, scrambled by the seed."""

    def __init__(self, space: Space, *, budget: int, seed: int, x0: Array | None) -> None:
        from scipy.stats.qmc import Sobol  # noqa: PLC0415 - half a second

        super().__init__(space, budget=budget, x0=x0)
        if space.dim > Sobol.MAXDIM:
            raise SettingsError(
                f"sobol reaches {Sobol.MAXDIM} dimensions, got {space.dim}: take random, which has no such limit"
            )
        # SciPy before 1.15 does not know the argument as `rng`.
        self._engine = Sobol(space.dim, scramble=True, seed=stream(seed, "bench", "sobol"))

    def propose(self, number: int) -> Array:
        """The next point u (D,). One by one: SciPy warns of a first block that is not a power of two."""
        del number
        u: Array = 2.0 * self._engine.random(1)[0] - 1.0
        return u


METHODS = (
    Method("random", "uniform random points", RandomSearch),
    Method("sobol", "a scrambled Sobol sequence", SobolSearch),
)
