"""Calls that take more time or memory than they may, from any thread."""

import sys
import threading
import time

import pytest

from corpusfit.training.bounded import LimitError, bounded

# the error may come while Hypothesis measures a collection of garbage
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits the memory")


def spin(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass
    return "done"


def outcome(seconds, function):
    try:
        return bounded(function, seconds, 1 << 28)
    except LimitError:
        return "limit"


def test_each_thread_has_its_own_time():
    found = {}

    def run(seconds):
        found[seconds] = outcome(seconds, lambda: spin(1.0))

    threads = [threading.Thread(target=run, args=(seconds,)) for seconds in (0.1, 60.0)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {0.1: "limit", 60.0: "done"}


def test_sleep_is_no_processor_time_and_nothing_is_raised_later():
    assert outcome(0.2, lambda: time.sleep(0.6)) is None
    assert outcome(0.2, lambda: spin(5.0)) == "limit"
    assert spin(0.6) == "done"


def test_code_that_catches_the_error_gets_it_again():
    def stubborn():
        for _ in range(2):
            try:
                spin(5.0)
            except LimitError:
                continue
        return "done"

    assert outcome(0.1, stubborn) == "done"
    with pytest.raises(ValueError, match="its own"):
        bounded(lambda: int("its own"), 1.0, 1 << 28)


@linux
def test_memory_is_limited_in_the_call_alone():
    assert outcome(60.0, lambda: len(bytes(1 << 29))) == "limit"
    assert outcome(60.0, lambda: len(bytes(1 << 20))) == 1 << 20
    assert len(bytes(1 << 29)) == 1 << 29
