"""The sample of a selection."""

import numpy as np
import pytest

from corpusfit.reporting.selected import _sample, _summary
from corpusfit.selection.spread import count_spread


@pytest.mark.parametrize("share", [0.2, 0.5, 0.8])
def test_a_sample_shows_each_source_as_often_as_its_words_are_selected(share):
    """Examples of a source stand together, as in the corpus, and all scores are alike."""
    n = 40
    scores, tokens = np.ones(n, np.float32), np.full(n, 100)
    spread = count_spread(scores, tokens, tokens > 0, np.array([0.5], np.float32))
    first = round(share * n)
    examples = [
        {"score": 1.0, "characters": 500, "source": "b" if i < first else "a"} for i in range(n)
    ]
    shown = [row["source"] for row in _sample(spread, examples)]
    assert len(shown) == 9
    assert abs(shown.count("b") - 9 * share) <= 1


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
