"""Random sequences of all one can do to an optimizer, crashes among them, against a model that is a dictionary."""

import math
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from journal_runs import SETTINGS, QuickDisk

import nestbo
from nestbo.codec import encode
from nestbo.errors import BudgetExhausted, TrialError
from nestbo.events import Told
from nestbo.journal import Journal

values = st.floats(-1e6, 1e6)
places = st.integers(0, 100)


class AnOptimizerAgainstADictionary(RuleBasedStateMachine):
    """Whatever happens, the optimizer knows what the model knows, and hands out again what is out."""

    def __init__(self):
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.disk, Journal.disk = Journal.disk, QuickDisk()
        self.crashes = 0
        self.known: list[float] = []
        self.answers: dict[int, float] = {}  # nan for a failure, in the order of the answers
        self.points: dict[int, bytes] = {}
        self.out: list[int] = []  # asked for and not answered, in the order of asking
        self.again: list[int] = []  # of these, what has to be handed out again, in order

    @property
    def path(self) -> Path:
        """The journal since the last crash."""
        return Path(self.folder.name) / f"{self.crashes}.jsonl"

    @initialize(noisy=st.booleans())
    def begin(self, noisy):
        """A new run."""
        self.budget = 30
        self.opt = nestbo.Optimizer(
            [(-1, 1)] * 5, budget=self.budget, rng=0, settings=SETTINGS, journal=self.path, noisy=noisy
        )

    @precondition(lambda self: not self.points)
    @rule(x=st.lists(st.floats(-1, 1), min_size=5, max_size=5), value=values)
    def add(self, x, value):
        """A known evaluation."""
        self.opt.add(x, value)
        self.known.append(value)

    @rule(count=st.integers(1, 4), synchronous=st.booleans())
    def ask(self, count, synchronous):
        """What is handed out is what is due again, then new trials."""
        new = count - len(self.again)
        if new > 0 and len(self.points) + new > self.budget:
            try:
                self.opt.ask_many(count, synchronous=synchronous)
            except BudgetExhausted:
                return
            raise AssertionError("more was handed out than the budget allows")
        trials = self.opt.ask_many(count, synchronous=synchronous)
        first = len(self.points)
        expected = [*self.again[:count], *range(first, first + max(0, new))]
        assert [trial.id for trial in trials] == expected
        del self.again[:count]
        for trial in trials:
            assert self.points.setdefault(trial.id, trial.x.tobytes()) == trial.x.tobytes(), "the same point again"
            if trial.id not in self.out:
                self.out.append(trial.id)

    def claimed(self) -> list[int]:
        """What somebody is evaluating."""
        return [trial for trial in self.out if trial not in self.again]

    @precondition(lambda self: self.claimed())
    @rule(place=places, value=values)
    def tell(self, place, value):
        """A value, for any trial that is out."""
        trial = self.claimed()[place % len(self.claimed())]
        self.opt.tell(trial, value)
        self.answers[trial] = value
        self.out.remove(trial)

    @precondition(lambda self: self.claimed())
    @rule(place=places, retry=st.booleans())
    def fail(self, place, retry):
        """No value, for good or for now."""
        trial = self.claimed()[place % len(self.claimed())]
        self.opt.fail(trial, "no luck", retry=retry)
        if retry:
            self.again.append(trial)
        else:
            self.answers[trial] = math.nan
            self.out.remove(trial)

    @precondition(lambda self: self.answers)
    @rule(place=places)
    def tell_twice(self, place):
        """A second answer is refused."""
        trial = list(self.answers)[place % len(self.answers)]
        try:
            self.opt.tell(trial, 0.0)
        except TrialError:
            return
        raise AssertionError("a trial was answered twice")

    @rule(more=st.integers(0, 3))
    def extend(self, more):
        """More budget."""
        self.budget += more
        self.opt.extend(self.budget)

    @rule(torn=st.integers(0, 60))
    def crash(self, torn):
        """The process is gone, what it was writing may be there in part; another goes on with a copy of the file."""
        data = self.path.read_bytes()
        self.opt.close()
        self.crashes += 1
        lost = encode(Told(12, 3.0, None, None), data.count(b"\n"))
        self.path.write_bytes(data + lost[:torn])
        self.opt = nestbo.Optimizer.resume(self.path)
        self.again = list(self.out)

    @rule()
    def reopen(self):
        """Closed and gone on with, in place."""
        self.opt.close()
        self.opt = nestbo.Optimizer.resume(self.path)
        self.again = list(self.out)

    @invariant()
    def agrees(self):
        """The optimizer's record is the model's."""
        if not hasattr(self, "opt"):
            return
        state = self.opt.state
        assert [repr(known.value) for known in state.known] == [repr(float(value)) for value in self.known]
        found = [(outcome.trial, repr(outcome.value)) for outcome in state.outcomes]
        assert found == [(trial, repr(float(value))) for trial, value in self.answers.items()]
        assert [trial.id for trial in self.opt.pending] == self.out
        assert self.opt.budget == self.budget
        told = [value for value in [*self.known, *self.answers.values()] if not math.isnan(value)]
        assert (self.opt.best is None) == (not told)
        assert not told or self.opt.best[0] == min(told)

    def teardown(self):
        """Put everything back."""
        if hasattr(self, "opt"):
            self.opt.close()
        Journal.disk = self.disk
        self.folder.cleanup()


TestModel = AnOptimizerAgainstADictionary.TestCase
TestModel.settings = settings(max_examples=40, stateful_step_count=25)
