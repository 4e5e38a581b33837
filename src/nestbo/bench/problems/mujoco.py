"""MuJoCo: six robots that learn to move, each with a linear policy (appendix of the paper on MuJoCo).

Notation:
    O, A        numbers of one observation, of one action
    D = A O     inputs
    M           the policy (A, O): x (D,) row by row
    mean, std   of the observations (O,), by which they are normalised

The action at an observation is `M (obs - mean) / std`, clipped to the range of the motors. The value is the negative of
the return, summed until the robot falls or 1000 steps have passed, and averaged over a few episodes. Their initial
states are drawn from the problem's seed and are the same in every evaluation, so that a value can be repeated.

Why version 4 of the environments: the paper used version 2, whose simulator is gone. Version 4 keeps its observations,
and its rewards but for the small cost of Humanoid's contacts. Version 5 leaves out observations that are always zero,
and with them 48 inputs of Ant and 476 of Humanoid.

The statistics are our own: `benchmarks/mujoco_statistics.py` made the file beside this module.
"""

import json
import logging
import threading
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nestbo.bench.problems.problem import Problem
from nestbo.errors import NestboError, ObjectiveError, SettingsError
from nestbo.rng import stream
from nestbo.space import Space

Vector = NDArray[np.float64]

ROLLOUTS = 3
"""Episodes per evaluation. The paper does not say how many."""

STATISTICS_FILE = "mujoco_statistics.json"

MIN_STD = 1e-6
"""An observation that varies less than this, relative to its mean, is constant up to rounding: it is not scaled."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Task:
    """One robot.

    Attributes:
        environment: Its name in Gymnasium.
        observations: O.
        actions: A.
        low: Lower bound of the weights.
        high: Upper bound of the weights.
        options: What Gymnasium needs to be told to give the observations of the paper.
    """

    environment: str
    observations: int
    actions: int
    low: float = -1.0
    high: float = 1.0
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def D(self) -> int:  # noqa: N802 - the paper's letter
        """Number of weights."""
        return self.actions * self.observations


TASKS: Mapping[str, Task] = MappingProxyType(
    {
        "ant": Task("Ant-v4", 111, 8, options=MappingProxyType({"use_contact_forces": True})),
        "swimmer": Task("Swimmer-v4", 8, 2),
        "half-cheetah": Task("HalfCheetah-v4", 17, 6),
        "hopper": Task("Hopper-v4", 11, 3, low=-1.4, high=1.4),
        "walker2d": Task("Walker2d-v4", 17, 6, low=-1.8, high=0.9),
        "humanoid": Task("Humanoid-v4", 376, 17),
    }
)


class Statistics(NamedTuple):
    """Mean and standard deviation (O,) of the observations."""

    mean: Vector
    std: Vector


@dataclass(frozen=True)
class PolicyLoss:
    """The negative mean return of a linear policy.

    Holds names only: every thread makes the robot for itself, once, and pickles are small.

    Attributes:
        task: One of `TASKS`.
        seed: Decides the initial states of the episodes.
    """

    task: str
    seed: int

    def __call__(self, x: Vector) -> float:
        """The value at x (D,)."""
        robot = environment(self.task)
        policy = linear_policy(self.task, x, statistics(self.task))
        starts = [int(stream(self.seed, "reset", episode).integers(2**31)) for episode in range(ROLLOUTS)]
        value = -float(np.mean([rollout(robot, policy, start) for start in starts]))
        if not np.isfinite(value):
            raise ObjectiveError(f"the simulation of {self.task} diverged, got a return of {-value}: try another point")
        return value


def linear_policy(task: str, x: Vector, normal: Statistics) -> Callable[[Vector], Vector]:
    """The policy of weights x (D,) as a function of an observation (O,), before its action (A,) is clipped."""
    M = x.reshape(TASKS[task].actions, TASKS[task].observations)  # A x O
    return lambda observation: M @ ((observation - normal.mean) / normal.std)


def rollout(robot: Any, policy: Callable[[Vector], Vector], start: int) -> float:
    """The return of one episode.

    Args:
        robot: What `environment` makes.
        policy: Maps an observation (O,) to an action (A,), which is clipped to the range of the motors.
        start: The seed of the initial state.
    """
    low, high = (bound.astype(np.float64) for bound in (robot.action_space.low, robot.action_space.high))  # A each
    observation, _ = robot.reset(seed=start)
    total, ended = 0.0, False
    while not ended:
        action = np.clip(policy(observation), low, high)  # A
        observation, reward, fell, out_of_time, _ = robot.step(action)
        total += float(reward)
        ended = fell or out_of_time
    return total


@cache
def statistics(task: str) -> Statistics:
    """The statistics of one robot, from the file; constant observations get the standard deviation 1."""
    text = files(__package__).joinpath(STATISTICS_FILE).read_text(encoding="utf-8")
    stored = json.loads(text)["tasks"][task]
    return guarded(np.array(stored["mean"]), np.array(stored["std"]))


def guarded(mean: Vector, std: Vector) -> Statistics:
    """Statistics that can be divided by: a standard deviation (O,) that is zero up to rounding becomes 1."""
    return Statistics(mean, np.where(std < MIN_STD * np.maximum(1.0, np.abs(mean)), 1.0, std))


_robots = threading.local()
_making = threading.Lock()


def environment(task: str) -> Any:
    """The robot of a task, made at the first call in a thread: a simulation is a state, which threads cannot share."""
    kept = vars(_robots)
    if task not in kept:
        kept[task] = _make(task)
    return kept[task]


def _make(task: str) -> Any:
    """A new robot, whose sizes are those of the paper."""
    try:
        import gymnasium  # noqa: PLC0415 - an optional dependency
        import mujoco  # noqa: PLC0415 - an optional dependency
    except ImportError as missing:
        raise NestboError(
            f"{task} needs gymnasium and mujoco, got {missing}: pip install 'nestbo[mujoco]'"
        ) from missing

    wanted = TASKS[task]
    # What the packages would say at each start is known: that there is a version 5, and that a model is written in an
    # older dialect, for which MuJoCo would leave a file MUJOCO_LOG.TXT in the working directory.
    with _making, warnings.catch_warnings():
        warnings.filterwarnings("ignore", r".*The environment \S+ is out of date", DeprecationWarning)
        handler = mujoco.get_mju_user_warning()
        mujoco.set_mju_user_warning(_log.debug)
        try:
            # The checker repeats at each step what the tests of Gymnasium have checked.
            robot = gymnasium.make(wanted.environment, disable_env_checker=True, **wanted.options)
        except gymnasium.error.Error as error:
            raise NestboError(
                f"{task} needs {wanted.environment}, which gymnasium {gymnasium.__version__} does not offer: "
                "pip install --upgrade 'nestbo[mujoco]'"
            ) from error
        finally:
            mujoco.set_mju_user_warning(handler)
    got = robot.observation_space.shape, robot.action_space.shape
    if got != ((wanted.observations,), (wanted.actions,)):
        raise NestboError(
            f"{task} has {wanted.observations} observations and {wanted.actions} actions, got {got} from gymnasium "
            f"{gymnasium.__version__}: pip install --upgrade 'nestbo[mujoco]'"
        )
    return robot


def locomotion_problem(task: str, dim: int | None, seed: int | None) -> Problem:
    """One of the six robots.

    Args:
        task: A name of `TASKS`.
        dim: None, or the number of its weights.
        seed: Decides the initial states of the episodes; None is 0.
    """
    chosen = TASKS[task]
    if dim not in (None, chosen.D):
        raise SettingsError(f"{task} always has {chosen.D} dimensions, got {task}@{dim}: write {task}")
    environment(task)  # what is missing should be said here, not at the first evaluation
    return Problem(
        name=task,
        space=Space.of(np.tile([chosen.low, chosen.high], (chosen.D, 1))),  # D x 2
        function=PolicyLoss(task, 0 if seed is None else seed),
    )
