"""BLAS threads are limited inside a suggestion and as before outside, whoever else wants to be inside at the time."""

import threading

import pytest
import threadpoolctl
from threadpoolctl import threadpool_info, threadpool_limits

from nestbo import Optimizer, Settings
from nestbo import propose as module
from nestbo.threads import blas_threads


def blas():
    """The numbers of threads of the BLAS libraries."""
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


@pytest.fixture(autouse=True)
def _two_threads():
    """Begin with a limit that is not the one that is set."""
    limits = threadpool_limits(2, user_api="blas")
    _release()
    assert blas() == {2}
    yield
    limits.restore_original_limits()
    _release()


def _release():
    """Recent versions of threadpoolctl let one thread at a time set limits; let it not be this one."""
    release = getattr(threadpoolctl.OpenBLASController, "clear_controlling_thread", None)
    if release is not None:
        release()


def fails_inside(count):
    """Raises inside the context."""
    with blas_threads(count):
        assert blas() == {count}
        raise ZeroDivisionError


def test_the_limit_lasts_as_long_as_the_context():
    """Inside it is what was asked for, afterwards what it was, also after an error."""
    with blas_threads(1):
        assert blas() == {1}
    assert blas() == {2}
    with pytest.raises(ZeroDivisionError):
        fails_inside(1)
    assert blas() == {2}


def test_contexts_nest():
    """The inner one does not lift the limit of the outer one."""
    with blas_threads(1):
        with blas_threads(1):
            pass
        assert blas() == {1}
    assert blas() == {2}


@pytest.mark.parametrize("count", [1, 2])
def test_who_comes_second_waits_and_the_original_is_restored(count):
    """Two threads never take each other's limit for the original, and each computes with its own number."""
    seen, done = [], threading.Event()

    def other():
        with blas_threads(count):
            seen.append(blas())
        done.set()

    thread = threading.Thread(target=other)
    with blas_threads(1):
        thread.start()
        assert not done.wait(0.05)
        assert blas() == {1}
    assert done.wait(10)
    thread.join(10)
    assert seen == [{count}]
    assert blas() == {2}


def test_a_suggestion_is_computed_with_the_recorded_threads_and_restores_them(monkeypatch):
    """Fit and draw see the setting, also in other threads; ask, tell and result leave the process as it was."""
    optimizer = Optimizer([(-1, 1)] * 4, budget=14, rng=0, noisy=True, settings=Settings(max_candidates=50))
    seen, propose = [], module.propose

    def spy(state, count, **how):
        seen.append(blas())
        return propose(state, count, **how)

    monkeypatch.setattr(module, "propose", spy)

    def work():
        for _ in range(3):
            optimizer.tell(optimizer.ask(), 1.0)
            optimizer.result()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert seen == [{1}] * 12
    assert blas() == {2}
    assert len(optimizer.result().values) == 12
