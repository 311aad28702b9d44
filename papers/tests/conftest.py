"""Cache, engine and tiny models, which the tests of corpusfit share."""

from tests.conftest import *  # noqa: F403
