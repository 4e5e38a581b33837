"""An executor that does what a test says, when it says so."""

from concurrent.futures import Executor, Future

from nestbo.executors import Futures


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
