"""The sentences of a selection's page."""

import pytest

from corpusfit.reporting.selected import _summary


@pytest.mark.parametrize("foreign", [True, False])
def test_that_the_corpus_has_little_of_the_domain_is_said_first(foreign):
    selected = {"segments": 1, "rows": 1, "tokens": 9, "of_tokens": 90, "copies": None}
    manifest = {
        "counts": {"segments": 5, "rows": 5, "documents": 5, "rejected": 0},
        "selected": {**selected, "by_source": {"a": {"tokens": 9, "of_tokens": 90, "selected": 1}}},
        "method": {"name": "dsir"},
        "likeness": {"foreign": foreign},
        "warnings": ["little"],
        "remark": "",
    }
    assert (_summary(manifest)[0] == "little") == foreign
    assert "little" in _summary(manifest)
