"""What integration tests of corpusfit share: a task, a corpus, and the command line."""

from tests.integration.conftest import *  # noqa: F403
