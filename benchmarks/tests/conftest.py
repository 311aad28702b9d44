"""The scripts of benchmarks/ can be imported; no test uses the user's cache."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / path) for path in ("benchmarks", "benchmarks/torture")]


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CORPUSFIT_CACHE", str(tmp_path_factory.mktemp("corpusfit-cache")))
        yield


@pytest.fixture(scope="session")
def root(tmp_path_factory):
    """A folder for cases of torture, with the model that its commands use."""
    from commands import make_model

    folder = tmp_path_factory.mktemp("torture")
    make_model(folder / "base")
    return folder
