"""Every method of this package that scores a corpus as a whole meets the contract."""

import pytest

from corpus_method_promises import *  # noqa: F403
from corpusfit.scoring import registry
from corpusfit.scoring.contract import CorpusMethod
from corpusfit.scoring.names import METHODS

pytestmark = pytest.mark.slow

OURS = list(METHODS.built_in())
NAMES = [name for name in OURS if issubclass(registry.load(name), CorpusMethod)]
