"""What all tests share: the Hypothesis profiles and the data beside the checkout."""

import os
import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# A gate must not be flaky: the same examples every time, and nothing that depends on how busy the machine is.
settings.register_profile(
    "default", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
# HYPOTHESIS_PROFILE=thorough looks for new examples, many of them; it is for people, not for the gate.
settings.register_profile("thorough", settings.get_profile("default"), derandomize=False, max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

# A shell's background jobs ignore Ctrl-C, and so would the processes that tests start and interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The directory of data sets that are too large to be part of the project; skips where it is missing."""
    if not SHARED_DATA.is_dir():
        pytest.skip("no ../shared/data beside the checkout: the data sets are not part of the project")
    return SHARED_DATA
