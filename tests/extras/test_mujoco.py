import importlib.util
import pickle
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

gymnasium = pytest.importorskip("gymnasium")
pytest.importorskip("mujoco")

from nestbo.bench.problems import mujoco  # noqa: E402 - only where the simulator is installed
from nestbo.errors import NestboError, SpaceError  # noqa: E402

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "mujoco_statistics.py"
BOUNDS = dict.fromkeys(mujoco.TASKS, (-1.0, 1.0)) | {"hopper": (-1.4, 1.4), "walker2d": (-1.8, 0.9)}
QUICK = ["hopper", "walker2d", "humanoid"]  # they fall soon


def drawn(problem, key=0):
    """A random point of a problem."""
    return np.random.default_rng(key).uniform(problem.space.low, problem.space.high)


@pytest.mark.parametrize("task", mujoco.TASKS)
def test_each_robot_has_the_inputs_of_the_paper(task):
    """The installed environments have the observations of the paper, hence its dimensions; weights have its bounds."""
    problem = mujoco.locomotion_problem(task, None, None)
    assert problem.name == task
    assert problem.space.dim == mujoco.locomotion_problem(task, mujoco.TASKS[task].D, None).space.dim
    assert set(zip(problem.space.low, problem.space.high, strict=True)) == {BOUNDS[task]}
    observation, _ = mujoco.environment(task).reset(seed=0)
    assert observation.shape == (mujoco.TASKS[task].observations,)
    with pytest.raises(SpaceError):
        problem.evaluate(np.full(problem.space.dim, 2.0))


@pytest.mark.parametrize("task", mujoco.TASKS)
def test_the_same_seed_gives_the_same_value(task):
    """A value does not depend on what was evaluated before, only on the point and the seed, to the last bit."""
    problem = mujoco.locomotion_problem(task, None, 5)
    x = drawn(problem)
    value = problem.evaluate(x)
    assert np.isfinite(value)
    if task in QUICK:
        other = mujoco.locomotion_problem(task, None, 6)
        assert other.evaluate(x) != value
    assert mujoco.locomotion_problem(task, None, 5).evaluate(x) == value


def test_without_a_seed_the_problem_is_still_one():
    """None is a fixed seed, not a fresh one."""
    first, again = (mujoco.locomotion_problem("hopper", None, seed) for seed in (None, None))
    x = drawn(first)
    assert first.evaluate(x) == again.evaluate(x) == mujoco.locomotion_problem("hopper", None, 0).evaluate(x)


@pytest.mark.parametrize("task", ["walker2d", "humanoid"])
def test_the_value_is_that_of_a_plain_loop(task):
    """A rollout written out with an environment of its own, number by number, has the same return."""
    problem = mujoco.locomotion_problem(task, None, 0)
    x = drawn(problem, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        robot = gymnasium.make(mujoco.TASKS[task].environment)
    mean, std = mujoco.statistics(task)
    M = x.reshape(mujoco.TASKS[task].actions, -1)
    observation, _ = robot.reset(seed=42)
    total, ended = 0.0, False
    while not ended:
        action = np.clip(M @ ((observation - mean) / std), robot.action_space.low, robot.action_space.high)
        observation, reward, fell, late, _ = robot.step(action)
        total, ended = total + reward, fell or late
    policy = mujoco.linear_policy(task, x, mujoco.statistics(task))
    assert mujoco.rollout(mujoco.environment(task), policy, 42) == total


@pytest.mark.parametrize(
    ("task", "low", "high"),
    [
        ("ant", 900, 1000),  # stands for 1000 steps with a reward of 1 each
        ("swimmer", -30, 30),  # drifts
        ("half-cheetah", -10, 10),  # lies
        ("hopper", 50, 400),  # the rest are paid for standing until they fall: 1 a step, humanoid 5
        ("walker2d", 30, 300),
        ("humanoid", 100, 400),
    ],
)
def test_doing_nothing_earns_what_it_should(task, low, high):
    """All weights 0 is a robot that does not move: it is paid for standing, if at all."""
    problem = mujoco.locomotion_problem(task, None, 0)
    assert low < -problem.evaluate(np.zeros(problem.space.dim)) < high


def test_a_few_random_policies_beat_doing_nothing():
    """The policies of the box do something: the best of a handful swims forward."""
    problem = mujoco.locomotion_problem("swimmer", None, 0)
    best = min(problem.evaluate(drawn(problem, key)) for key in range(10))
    assert best < problem.evaluate(np.zeros(16)) - 20


def test_weights_of_constant_observations_do_not_matter():
    """Observations that never change, such as the forces on the world, are not blown up to matter."""
    problem = mujoco.locomotion_problem("ant", None, 0)
    x = drawn(problem).reshape(8, 111)
    robot, starts = mujoco.environment("ant"), (0, 1)
    constant = mujoco.statistics("ant").std == 1.0
    assert 6 <= constant.sum() < 60
    other = np.where(constant, -x, x)
    assert (other != x).any()
    first, second = (
        [mujoco.rollout(robot, mujoco.linear_policy("ant", weights, mujoco.statistics("ant")), s) for s in starts]
        for weights in (x, other)
    )
    assert first == second


def test_threads_do_not_share_a_robot():
    """Evaluations in several threads at once give the values they have one by one."""
    problem = mujoco.locomotion_problem("hopper", None, 0)
    points = [drawn(problem, key) for key in range(24)]
    expected = [problem.evaluate(x) for x in points]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(problem.evaluate, points)) == expected


def test_it_evaluates_elsewhere_in_silence(tmp_path):
    """A pickle is small and gives the same value in another process, which neither warns nor leaves a log behind."""
    problem = mujoco.locomotion_problem("half-cheetah", None, 7)
    x = drawn(problem)
    value = problem.evaluate(x)
    data = pickle.dumps((problem, x))
    assert len(data) < 20_000
    done = subprocess.run(
        [
            *[sys.executable, "-W", "error", "-c"],
            "import pickle, sys; p, x = pickle.load(sys.stdin.buffer); print(repr(p.evaluate(x)))",
        ],
        input=data,
        capture_output=True,
        check=True,
        cwd=tmp_path,
    )
    assert float(done.stdout) == value
    assert done.stderr == b""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"environment": "Ant-v99"}, r"ant needs Ant-v99, which gymnasium \S+ does not offer: pip install"),
        ({"options": {}}, r"ant has 111 observations and 8 actions, got \(\(27,\), \(8,\)\) from gymnasium"),
    ],
)
def test_an_unsuitable_gymnasium_is_explained(change, message, monkeypatch):
    """A version that lacks an environment, or has it with other observations, is an error that says so."""
    monkeypatch.setattr(mujoco, "TASKS", {"ant": replace(mujoco.TASKS["ant"], **change)})
    with pytest.raises(NestboError, match=message):
        mujoco._make("ant")


@pytest.fixture(scope="module")
def script():
    """The script that wrote the statistics."""
    spec = importlib.util.spec_from_file_location("mujoco_statistics", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_script_merges_episodes_exactly(script):
    """Statistics merged episode by episode are those of all observations together."""
    seen = []

    def recording(action, observation):
        seen.append(observation.copy())
        return action

    rng = np.random.default_rng(0)
    policies = (partial(recording, rng.uniform(-1, 1, 3)) for _ in iter(int, 1))
    mean, std = script.collected("hopper", policies, 400, rng)
    assert len(seen) >= 400
    np.testing.assert_allclose(mean, np.mean(seen, axis=0), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(std, np.std(seen, axis=0), rtol=1e-10)


def test_the_stored_statistics_are_those_of_the_script(script):
    """A short run of the script comes near to the file of the package."""
    stored = mujoco.statistics("hopper")
    found = script.measured("hopper", steps=2000, rounds=2, seed=1)
    assert np.abs((found.mean - stored.mean) / stored.std).max() < 1.0
    ratio = found.std / stored.std
    assert ratio.min() > 0.5
    assert ratio.max() < 2.0
