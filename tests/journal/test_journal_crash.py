"""Runs that are killed lose nothing. `make crash-test` kills thousands."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from crash_harness import Harness
from journal_runs import SCENARIOS

HARNESS = Path(__file__).with_name("crash_harness.py")


@pytest.mark.slow
def test_two_hundred_kills_lose_nothing():
    """Killed by SIGKILL at any moment, a run still has every value whose `tell` returned, and ends up the same."""
    done = subprocess.run(
        [sys.executable, HARNESS, "--kills", "200"], capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, done.stdout + done.stderr
    kills, torn, resumes, runs, checked, _, lost, different = map(int, re.findall(r"\d+", done.stdout))
    assert kills >= 200
    assert torn >= 10, "some were killed in the middle of a line"
    assert resumes >= 100
    assert runs >= 6
    assert checked >= 500
    assert (lost, different) == (0, 0)


@pytest.mark.usefixtures("quick_disk")
def test_the_harness_would_notice(tmp_path):
    """A value that is missing, or another one, is counted as lost; the right ones are not."""
    path = tmp_path / "run.jsonl"
    values = SCENARIOS["failing"].run(path).values
    assert np.isnan(values).any()
    for reported, lost in [(dict(enumerate(values)), 0), ({len(values): 1.0}, 1), ({0: values[0] + 1e-15}, 1)]:
        harness = Harness(tmp_path, seed=0)
        harness._check(path, reported)
        assert (harness.checked, harness.lost) == (len(reported), lost)
