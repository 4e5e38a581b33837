"""Differential evolution, by `scipy.optimize.differential_evolution`.

It follows SciPy (Storn and Price, "Differential Evolution", 1997; the strategy `best1bin`, its dithered mutation and
its recombination are SciPy's defaults) in [-1, 1]^D, where integers are rounded and logarithmic scales are linear. It
differs from a plain call in these:

- The population. SciPy's 15 D points would spend the budget, or most of it, on the first population. Here it is a
  Latin hypercube (`init=`) of ten points and one more for every 200 evaluations of the budget, up to SciPy's. Of 7 to
  80 points on lasso-high, hartmann6@100 and rosenbrock@20 (three seeds each), 10 to 20 were the best at 500 and at
  1000 evaluations and 15 to 20 at 2000. Of the strategies none was better than the default on all three.
- `updating="deferred"`: the points of a generation do not depend on each other's values, so that all of them can be
  out at once. SciPy's default, "immediate", was about as good.
- `tol=0`: SciPy stops when the values of its population agree to 1% of their mean, which depends on an offset of the
  function. Here it stops when they are all the same, and another search begins on another Latin hypercube.
- `polish=False`: a polish takes its gradients from D + 1 evaluations each.
- x0, if given, is the first point of the first population.
- A failure is the worst value, infinity. (nan would be taken for the best of the first population, for good.) If the
  first population has no value at all, another one is drawn.
- A point that was evaluated before is not evaluated again, its value being known.

SciPy calls the function; it cannot be asked and told. But with the same generator and the same values it does the
same. So for each new generation it is run again from the beginning, the earlier ones being answered from the record
(through `workers=`, which is handed a whole population), and it ends with the points of the new one. No thread waits
for values, and a run that is dropped leaves nothing behind. The arithmetic is that of n (n + 1) / 2 generations for n
of them: about a millisecond per point at the hundredth.

Notation:
    D  inputs
    S  points of a population
    u  (D,) a point in [-1, 1]
"""

import math
from collections.abc import Iterable, Sequence
from functools import partial

import numpy as np

from nestbo.bench.methods.method import Method
from nestbo.bench.methods.search import Array, BaseSearch
from nestbo.bench.methods.surrogate import INITIAL, latin_hypercube
from nestbo.errors import TrialError
from nestbo.rng import stream
from nestbo.space import Space

NAME = "differential-evolution"
PER_MEMBER = 200
"""Evaluations of the budget for which the population has one more point."""
PER_INPUT = 15
"""The largest population, in points per input: SciPy's default."""
LONGEST = 1000
"""Generations after the first population at which a search ends: SciPy's default."""
BARREN = 100
"""Generations without a new point after which a random one is taken. Only integers run out of points."""


class DifferentialEvolution(BaseSearch):
    """One run of differential evolution.

    Args:
        space: Where to search.
        budget: Evaluations that may be asked for; they decide the size of the population.
        seed: Of the run.
        x0: (D,), the first trial and the first member of the population; None if no point is special.
    """

    def __init__(self, space: Space, *, budget: int, seed: int, x0: Array | None) -> None:
        super().__init__(space, budget=budget, x0=x0)
        self._rng = partial(stream, seed, "bench", NAME)
        self._size = min(INITIAL + budget // PER_MEMBER, PER_INPUT * space.dim)  # S
        self._starts = 0
        self._known: dict[bytes, float] = {}  # point -> value, infinite if it failed
        self._out: dict[int, bytes] = {}  # trial -> point, of those without an answer
        self._first: Array  # S x D, the population that the search began with
        self._told: list[Array]  # the values (S,) of each population before this one
        self._points: Array  # S x D, this population
        self._keys: list[bytes]  # S, its points
        self._begin(x0)

    def propose(self, number: int) -> Array:
        """The next point u (D,) of the generation, or the first of another one."""
        u = self._next()
        if u is None:
            u = self._rng("random", number).uniform(-1.0, 1.0, self._space.dim)
        self._out[number] = self._key(u)
        return u

    def learn(self, number: int, value: float) -> None:
        """The answer of a trial."""
        self._known[self._out.pop(number)] = math.inf if math.isnan(value) else value

    def _next(self) -> Array | None:
        """A point u (D,) of this or a later generation that is new; None if there seems to be none."""
        for _ in range(BARREN):
            if len(self._tried) >= self._space.size:
                break
            for place, key in enumerate(self._keys):
                if key not in self._tried:
                    u: Array = self._points[place]
                    return u
            self._advance()
        return None

    def _advance(self) -> None:
        """Learn from a generation, and go on to another one."""
        missing = len(set(self._keys) - self._known.keys())
        if missing:
            raise TrialError(
                f"differential evolution needs the answers of its whole generation before it goes on, {missing} are "
                "missing: tell or fail those trials first"
            )
        told = [*self._told, np.array([self._known[key] for key in self._keys])]  # of S each
        if not np.isfinite(told[0]).any() or len(told) > LONGEST:
            self._begin(None)
            return
        populations = evolution(self._first, told, self._rng("evolution", self._starts))
        if len(populations) == len(told):
            self._begin(None)
        else:
            points = populations[-1]  # S x D
            self._told, self._points, self._keys = told, points, [self._key(u) for u in points]

    def _begin(self, x0: Array | None) -> None:
        """Another population, with x0 (D,) in it if that is given."""
        start = self._starts + 1
        first = latin_hypercube(self._size, self._space.dim, self._rng("population", start))  # S x D
        if x0 is not None:
            first[0] = self._space.to_unit(x0)
        points = evolution(first, [], self._rng("evolution", start))[0]  # first, as SciPy rounds it
        keys = [self._key(u) for u in points]
        if x0 is not None:
            keys[0] = self._out[0] = self.key(x0)  # to the last bit, which u may have lost
        self._starts, self._first, self._told, self._points, self._keys = start, first, [], points, keys

    def _key(self, u: Array) -> bytes:
        return self.key(self._space.from_unit(u))


def evolution(first: Array, told: Sequence[Array], rng: np.random.Generator) -> list[Array]:
    """The populations (S, D) that SciPy evaluates, one after the other, when it is given these values.

    Args:
        first: The initial population (S, D) in [-1, 1].
        told: The values (S,) of each population, of which the first has one that is finite.
        rng: Fresh.

    Returns:
        One more population than were told, or as many if SciPy stops there.
    """
    from scipy.optimize import Bounds, differential_evolution  # noqa: PLC0415 - slow to import

    size, dim = first.shape
    answers = iter(told)
    populations: list[Array] = []

    def evaluate(function: object, population: Iterable[Array]) -> Array:
        del function
        populations.append(np.array(list(population)))  # S x D
        return next(answers, np.full(size, np.inf))  # S

    # The variance of values above 1e154 overflows. It is infinite or nan then, and the search goes on.
    with np.errstate(over="ignore", invalid="ignore"):
        differential_evolution(
            _not_called,
            Bounds(np.full(dim, -1.0), np.full(dim, 1.0)),
            maxiter=len(told),
            tol=0.0,
            init=first,
            polish=False,
            updating="deferred",
            workers=evaluate,
            seed=rng,  # SciPy before 1.15 does not know the argument as `rng`
        )
    return populations


def _not_called(u: Array) -> float:
    """What SciPy would evaluate if it were not for `workers`, which is handed whole populations instead."""
    raise AssertionError(f"SciPy has evaluated {u} by itself")


METHODS = (
    Method(
        NAME,
        "differential evolution (SciPy), with a population that suits the budget",
        DifferentialEvolution,
    ),
)
