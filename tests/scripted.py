"""An executor that does what a test says, when it says so; runs on it, and what their journals say."""

import math
from concurrent.futures import Executor, Future

from nestbo import Optimizer, Settings
from nestbo.evaluation import Task
from nestbo.events import Asked, Told
from nestbo.executors import Futures
from nestbo.journal import read, replay
from nestbo.loop import Loop

FAST = Settings(max_candidates=40, initial_points=3, fit_iterations=3)
BOX = [(-1.0, 1.0)] * 4


def bowl(x):
    return float(((x - 0.3) ** 2).sum())


class Scripted(Executor):
    """Keeps evaluations until the test ends them, by the number of the trial."""

    def __init__(self, workers=2):
        self._max_workers = workers
        self.out = {}  # trial -> (future, call), in the order of submission
        self.begun = []  # trials in the order of submission
        self.ended = []  # trials in the order of completion
        self.most = 0

    def submit(self, fn, /):
        """Keep an evaluation."""
        _, trial, _, _ = fn.args
        assert trial not in self.out, "it is out already"
        future = Future()
        self.out[trial] = future, fn
        self.begun.append(trial)
        self.most = max(self.most, len(self.out))
        return future

    def finish(self, trial):
        """Make an evaluation."""
        future, call = self.out.pop(trial)
        self.ended.append(trial)
        future.set_result(call())

    def drop(self, trial, error=None):
        """Let an evaluation be cancelled, or raise."""
        future, _ = self.out.pop(trial)
        if error is None:
            future.cancel()
            future.set_running_or_notify_cancel()
        else:
            future.set_exception(error)


class Stepwise(Futures):
    """Lets a function of the executor decide what happens whenever outcomes are waited for."""

    def __init__(self, task, executor, *, limit=None, script):
        super().__init__(task, executor, limit=limit)
        self._script = script

    def wait(self):
        """What is there after the script has been asked once."""
        self._script(self._executor)
        return super().wait()


def oldest(executor):
    """A script: the evaluation that began first ends first."""
    executor.finish(next(iter(executor.out)))


def newest(executor):
    """A script: the evaluation that began last ends first."""
    executor.finish(next(reversed(executor.out)))


def all_of_them(executor):
    """A script: all evaluations end, and are found at once."""
    for trial in list(executor.out):
        executor.finish(trial)


def run(path, script, *, workers=3, budget=12, limit=None, batch=None, fun=bowl, bounds=BOX, settings=FAST, **kwargs):
    """A run on a scripted executor; (result, executor)."""
    executor = Scripted(workers)
    evaluator = Stepwise(Task(fun, (), ()), executor, limit=limit or batch, script=script)
    with Optimizer(bounds, budget=budget, rng=0, settings=settings, journal=path) as optimizer:
        result = looped(optimizer, evaluator, batch=batch, **kwargs)
    return result, executor


def looped(optimizer, evaluator, *, batch=None, callback=None, max_time=math.inf, target=-math.inf):
    """Carry a run out."""
    return Loop(
        optimizer=optimizer,
        evaluator=evaluator,
        batch=batch,
        callback=callback,
        progress=None,
        max_time=max_time,
        target=target,
    ).until_done()


def proposals(path):
    """The points of each proposal."""
    return [event.z.tolist() for event in read(path) if isinstance(event, Asked)]


def consistent(path, budget):
    """Each trial of a run was asked for once and told once, and a replay agrees with itself; its state."""
    events = read(path)
    asked = [event.first_id + i for event in events if isinstance(event, Asked) for i in range(len(event.z))]
    answered = [event.trial for event in events if isinstance(event, Told)]
    assert asked == list(range(budget))
    assert sorted(answered) == asked
    return replay(events, path)
