"""Every method of this package that scores a corpus as a whole meets the contract."""

import pytest

from corpus_method_promises import *  # noqa: F403
from corpusfit.core.gone import PAPERS
from corpusfit.scoring import registry
from corpusfit.scoring.contract import CorpusMethod
from corpusfit.scoring.names import METHODS

pytestmark = pytest.mark.slow

OURS = [name for name in METHODS.plugins() if METHODS.package_of(name) == PAPERS]
NAMES = [name for name in OURS if issubclass(registry.load(name), CorpusMethod)]
