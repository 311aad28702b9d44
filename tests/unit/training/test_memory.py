"""Memory kept between steps, measured by page faults and resident pages."""

import subprocess
import sys

import pytest

ASK = """
import ctypes, resource
from pathlib import Path
from corpusfit.training.schedule import kept_memory

libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p

def held():
    return int(Path("/proc/self/statm").read_text().split()[1])

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    place = ctypes.c_void_p(libc.malloc(64 << 20))
    ctypes.memset(place, 1, 64 << 20)
    libc.free(place)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

with kept_memory():
    first, again, inside = faults(), faults(), held()
print(first, again, faults(), (inside - held()) * resource.getpagesize() >> 20)
"""
"""Page faults of 64 MB at first, again, and afterwards; MB returned to the system at the end."""


def has_glibc() -> bool:
    import platform

    return sys.platform == "linux" and platform.libc_ver()[0] == "glibc"


@pytest.mark.skipif(not has_glibc(), reason="only glibc's allocator is configured")
def test_memory_is_allocated_once_and_returned_afterwards():
    done = subprocess.run([sys.executable, "-c", ASK], capture_output=True, text=True, check=True)
    first, again, after, returned = map(int, done.stdout.split())
    assert again < first / 10
    assert after > 10 * again
    assert returned >= 60
