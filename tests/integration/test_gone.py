"""What a command no longer takes is refused with what to do instead."""

import pytest

import corpusfit
from corpusfit.core.errors import UsageError
from corpusfit.core.settings import GONE


@pytest.mark.parametrize("typed", GONE)
def test_what_is_gone_is_named_with_its_successor(cli, typed):
    done = cli(*typed.split())
    assert done.code == 2
    assert GONE[typed] in " ".join(done.err.split())


def test_in_python_one_page_shows_one_run():
    with pytest.raises(UsageError, match="each folder"):
        corpusfit.report(["a", "b"])
