"""When to grow: the initial target dimensionality, and how many failures each level may take.

Notation:
    D       input dimensionality
    b       new bins per split
    B       evaluations to be spread over the levels
    k       halvings of the trust region that a level is assumed to take
    d_init  initial target dimensionality, in 1..b unless it is given
    n       splits in the plan
    d_i     d_init (b+1)^i, the target dimensionality after i splits
    m_i     evaluations meant for level i

Everything here is integer arithmetic: a floating logarithm is wrong just where it matters, at exact powers of b + 1.
"""

from dataclasses import dataclass, field

from nestbo.checks import whole
from nestbo.embedding import LARGEST

HALVINGS = 6
"""k = floor(log_{1/2}(L_min / L_init)) with L_init = 0.8 and L_min = 2^-7 (section 3.4 of the paper)."""
DIRECTIONS, SPARED = 3, 100
"""A patient last level tolerates at least D / 3 failures in a row, or D - 100, if the budget allows it."""


@dataclass(frozen=True)
class Schedule:
    """How a budget is spread over growing target dimensionalities (section 3.4 of the paper).

    Attributes:
        input_dim: D, or the cap on the target dimensionality where there is one.
        initial_dim: d_init; `plan` chooses it.
        bins: b.
        budget: B.
        halvings: k.
        splits: n, derived.

    >>> plan = Schedule.plan(500)
    >>> plan.initial_dim, plan.splits, plan.levels
    (2, 4, (2, 8, 32, 128, 500))
    >>> [plan.split_budget(d) for d in plan.levels]
    [3, 12, 47, 188, 751]
    """

    input_dim: int
    initial_dim: int
    bins: int = 3
    budget: int = 1000
    halvings: int = HALVINGS
    splits: int = field(init=False)

    def __post_init__(self) -> None:
        D = whole("D", self.input_dim, least=1, most=LARGEST)
        b = whole("bins", self.bins, least=1)
        initial = min(whole("initial_dim", self.initial_dim, least=1), D)
        checked = {
            "input_dim": D,
            "initial_dim": initial,
            "bins": b,
            "budget": whole("budget", self.budget, least=0),
            "halvings": whole("halvings", self.halvings, least=1),
            "splits": _rounded_log(D, initial, b + 1),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    @classmethod
    def plan(
        cls,
        D: int,
        bins: int = 3,
        budget: int = 1000,
        halvings: int = HALVINGS,
        *,
        initial_dim: int | None = None,
    ) -> "Schedule":
        """The schedule for D inputs.

        Args:
            D: Input dimensionality.
            bins: b, new bins per split.
            budget: B, the evaluations by which D should be reached.
            halvings: k, halvings of the trust region that a level is assumed to take.
            initial_dim: d_init, more than D means D; None for the paper's choice.
        """
        if initial_dim is None:
            initial_dim = _start(whole("D", D, least=1, most=LARGEST), whole("bins", bins, least=1))
        return cls(D, initial_dim, bins, budget, halvings)

    @property
    def levels(self) -> tuple[int, ...]:
        """The target dimensionalities in order; the last is D."""
        below = [d for d in self._uncapped() if d < self.input_dim]
        return (*below, self.input_dim)

    def split_budget(self, d: int) -> int:
        """m_i, the evaluations meant for the level of target dimensionality d.

        Dimensionalities that are not in the plan (a HeSBO embedding has them, also beyond D) take their share by size.
        """
        d = whole("d", d, least=1)
        uncapped = self._uncapped()
        size = min(d, self.input_dim)
        if size == self.input_dim:
            size = max(size, uncapped[-1])  # a planned level counts in full, also where d was capped at D
        share = self.bins * self.budget * size
        all_levels = (self.bins + 1) * uncapped[-1] - self.initial_dim  # d_init ((b+1)^(n+1) - 1)
        return (2 * share + all_levels) // (2 * all_levels)  # nearest integer, halves up

    def failure_tolerance(self, d: int) -> int:
        """tau_fail, the failures in a row that halve the trust region at target dimensionality d."""
        return max(1, min(self.split_budget(d) // self.halvings, d))

    def patient_tolerance(self, available: int) -> int:
        """As `failure_tolerance(D)`, for a last level that has all evaluations to itself that are left.

        To end regions soon (k above the paper's) makes room for larger subspaces. Here there are none: a direction in
        three is tried in vain before the region is halved, and in many dimensions all but a hundred, as far as the
        paper's k allows it (decisions 0005 and 0007).

        Args:
            available: Evaluations that are left; the schedule's share counts if it is more.
        """
        D = self.input_dim
        share = max(self.split_budget(D), available)
        directions = max(D // DIRECTIONS, D - SPARED)
        return max(1, min(max(share // self.halvings, min(share // HALVINGS, directions)), D))

    def _uncapped(self) -> tuple[int, ...]:
        """d_i for i in 0..n."""
        return tuple(self.initial_dim * (self.bins + 1) ** i for i in range(self.splits + 1))


def _start(D: int, b: int) -> int:
    """The paper's d_init: the i in 1..b for which i (b+1)^{n_i} is nearest to D, the first on a tie."""
    if b >= D:
        return D  # i = D meets D exactly, no other i does
    return min(range(1, b + 1), key=lambda i: abs(i * (b + 1) ** _rounded_log(D, i, b + 1) - D))


def _rounded_log(D: int, i: int, base: int) -> int:
    """log_base(D / i) for D >= i, rounded to the nearest integer, halves up.

    How halves are rounded changes none of the paper's plans: D / i = base^(n + 1/2) needs base = s^2, and then another
    i is nearer to D. Where i was given, halves up makes the last level a planned one, which the budget covers.
    """
    n, reached = 0, i  # reached = i base^n
    while reached * base <= D:
        n, reached = n + 1, reached * base
    rounds_up = reached**2 * base <= D**2  # D / i >= base^(n + 1/2), squared
    return n + rounds_up
