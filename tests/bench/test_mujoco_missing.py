"""What the MuJoCo problems promise where neither Gymnasium nor MuJoCo is installed; tests/extras has the others."""

import sys
import threading
from types import SimpleNamespace

import numpy as np
import pytest

from nestbo.bench.problems import mujoco
from nestbo.errors import NestboError, SettingsError

DIMENSIONS = {"ant": 888, "swimmer": 16, "half-cheetah": 102, "hopper": 33, "walker2d": 102, "humanoid": 6392}


@pytest.mark.parametrize("module", ["gymnasium", "mujoco"])
def test_a_missing_package_names_the_extra(module, monkeypatch):
    """Without Gymnasium or without MuJoCo a problem says what to install, already when it is asked for."""
    monkeypatch.setattr(mujoco, "_robots", threading.local())
    for name in ("gymnasium", "mujoco"):
        monkeypatch.setitem(sys.modules, name, SimpleNamespace())
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(NestboError, match=rf"ant needs gymnasium and mujoco, got .*{module}.*'nestbo\[mujoco\]'"):
        mujoco.locomotion_problem("ant", None, None)


def test_the_dimensions_are_those_of_the_paper():
    """There are the paper's six robots with its numbers of weights; another number is refused before anything else."""
    assert {name: task.D for name, task in mujoco.TASKS.items()} == DIMENSIONS
    with pytest.raises(SettingsError, match="walker2d always has 102 dimensions, got walker2d@120: write walker2d"):
        mujoco.locomotion_problem("walker2d", 120, None)


@pytest.mark.parametrize("task", mujoco.TASKS)
def test_statistics_can_be_divided_by(task):
    """Every robot has finite statistics of its observations, and none of them is scaled by nearly nothing."""
    mean, std = mujoco.statistics(task)
    assert mean.shape == std.shape == (mujoco.TASKS[task].observations,)
    assert np.isfinite(mean).all()
    assert np.isfinite(std).all()
    assert std.min() > 1e-3


def test_constant_observations_are_not_blown_up():
    """A standard deviation that is only rounding becomes 1, relative to the size of the mean; others stay."""
    mean = np.array([0.0, 0.0, 0.0, 1e6, 1e6])
    std = np.array([0.0, 1e-12, 1e-5, 1e-2, 10.0])
    np.testing.assert_array_equal(mujoco.guarded(mean, std).std, [1.0, 1.0, 1e-5, 1.0, 10.0])
    np.testing.assert_array_equal(std, [0.0, 1e-12, 1e-5, 1e-2, 10.0])


class Plank:
    """A robot with two motors that reports the clock and takes the sum of its actions as the reward."""

    def __init__(self, falls=False):
        self.action_space = SimpleNamespace(low=np.float32([-1, -0.5]), high=np.float32([1, 0.5]))
        self.falls, self.actions, self.starts = falls, [], []

    def reset(self, seed):
        """Begin an episode."""
        self.starts.append(seed)
        self.clock = 0
        return np.zeros(1), {}

    def step(self, action):
        """One of five steps; one that falls does so after three."""
        self.clock += 1
        self.actions.append(action)
        fell = self.falls and self.clock == 3
        return np.full(1, float(self.clock)), np.float64(action.sum()), fell, self.clock == 5, {}


@pytest.mark.parametrize(("falls", "expected"), [(True, 0.0 + 0.7 + 1.1), (False, 0.0 + 0.7 + 1.1 + 1.4 + 1.5)])
def test_an_episode_sums_rewards_of_clipped_actions_until_its_end(falls, expected):
    """Rewards add up until the robot falls or time is up, and no action leaves the range of its motor."""
    robot = Plank(falls)
    total = mujoco.rollout(robot, lambda seen: np.array([0.3, 0.4]) * seen, start=11)
    assert total == pytest.approx(expected, rel=1e-12)
    assert robot.starts == [11]
    actions = np.array(robot.actions)
    assert len(actions) == (3 if falls else 5)
    assert actions.max(axis=0) == pytest.approx([0.6, 0.5] if falls else [1.0, 0.5])


def test_the_weights_are_read_row_by_row():
    """Each action is a weighted sum of normalised observations: x holds the weights of the first action first."""
    normal = mujoco.Statistics(np.arange(8.0), np.arange(1.0, 9.0))
    x = np.arange(16.0)
    observation = np.linspace(-3, 3, 8)
    expected = [
        sum(x[8 * a + o] * (observation[o] - normal.mean[o]) / normal.std[o] for o in range(8)) for a in range(2)
    ]
    np.testing.assert_allclose(mujoco.linear_policy("swimmer", x, normal)(observation), expected, rtol=1e-14)


def test_the_value_is_the_negative_mean_over_episodes(monkeypatch):
    """Three episodes from three initial states, which only the seed decides; their mean return is negated."""
    starts = []

    def recording(_robot, _policy, start):
        starts.append(start)
        return float(start)

    monkeypatch.setattr(mujoco, "environment", lambda _: None)
    monkeypatch.setattr(mujoco, "rollout", recording)
    x = np.zeros(16)
    value = mujoco.PolicyLoss("swimmer", 1)(x)
    first = starts.copy()
    assert len(set(first)) == mujoco.ROLLOUTS == 3
    assert value == -np.mean(first)
    assert mujoco.PolicyLoss("swimmer", 1)(x) == value != mujoco.PolicyLoss("swimmer", 2)(x)
