"""The order of finished trials: the fold is that of all of them, however they arrive, and little of it is kept."""

from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nestbo.integrations.optuna.timeline import Finished, Timeline

BEGAN = datetime(2026, 1, 1)  # noqa: DTZ001 - Optuna's times have no zone


def finished(number, seconds, *, failed=False):
    """A trial."""
    return Finished(BEGAN + timedelta(seconds=seconds), BEGAN, number, None, None, 0.0, 0.0, failed=failed)


class Counted:
    """A timeline of numbers that counts its steps."""

    def __init__(self):
        self.steps = 0
        self.timeline = Timeline((), self.after)

    def after(self, before, trial):
        """One more number."""
        self.steps += 1
        return (*before, trial.number)


TRIALS = st.lists(st.tuples(st.integers(0, 30), st.booleans(), st.booleans()), max_size=60)


@given(TRIALS, st.sets(st.integers(0, 59), max_size=8), st.integers(0, 60))
def test_the_fold_is_that_of_all_trials_in_order(arrivals, lost, when):
    """Whenever it is asked for, and when failed trials are taken out between."""
    counted, known = Counted(), []
    for number, (seconds, failed, looked_at) in enumerate(arrivals):
        known.append(finished(number, seconds, failed=failed))
        counted.timeline.insert(known[-1])
        if number == when:
            counted.timeline.remove_failed(lost)
            known = [trial for trial in known if not (trial.failed and trial.number in lost)]
        if looked_at:
            expected = tuple(trial.number for trial in sorted(known, key=lambda trial: trial.place))
            assert counted.timeline.latest() == expected
    assert counted.timeline.latest() == tuple(t.number for t in sorted(known, key=lambda t: t.place))


@pytest.mark.parametrize("late", [1, 3, 10, 100, 1000])
def test_a_late_trial_repeats_few_steps_and_few_states_are_kept(late):
    """About twice as many steps as it is late by; of two thousand states no more than a few dozen stay in memory."""
    counted = Counted()
    for number in range(2000):
        counted.timeline.insert(finished(number, 10 * number))
        counted.timeline.latest()
    assert counted.steps == 2000
    assert len(counted.timeline._checkpoints) < 40
    counted.timeline.insert(finished(2000, 10 * (2000 - late) - 5))
    counted.timeline.latest()
    assert counted.steps - 2000 <= 2 * late + 4
