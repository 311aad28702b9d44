"""Every method gives finite scores to a German corpus and to one without spaces between words."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from journeys import scores

import corpusfit
from corpusfit.score.names import names as method_names

TATOEBA = Path(__file__).parents[3] / "shared" / "data" / "parallel" / "tatoeba"
SENTENCES = {
    "de": "Die Ärztin {0} prüft das Röntgenbild. Am {1}. Mai größere Maßnahmen für die Übung!",
    "ja": "医師{0}は写真を調べます。{1}月に大きな対策があります。患者は静かに待っています。",
}
NAMES = sorted({*method_names()} - {"oracle", "pyod"})


@pytest.mark.parametrize("language", SENTENCES)
@pytest.mark.parametrize("name", NAMES)
def test_scores_are_finite(name, language, jsonl, tmp_path, inline, tiny_static, tiny_encoder):
    """A target in the language, and a corpus of which half is not."""
    texts = [SENTENCES[language].format(i, i % 11 + 1) for i in range(60)]
    english = [f"The doctor looks at picture {i} and waits for the patient." for i in range(30)]
    found = _scored(name, texts[:25], texts[25:] + english, jsonl, tmp_path, inline,
                    tiny_encoder if name == "domain_finetune" else tiny_static)  # fmt: skip
    assert len(found) == 65
    assert np.isfinite(found).all()


@pytest.mark.skipif(not TATOEBA.is_dir(), reason="needs ../shared")
@pytest.mark.parametrize("name", ["dsir", "moore_lewis", "tfidf", "ngram_coverage"])
def test_japanese_of_tatoeba_is_told_from_german(name, jsonl, tmp_path, inline, tiny_static):
    """Methods on words find the target's language, without spaces too."""
    japanese, german = (
        (TATOEBA / f"tatoeba.{code}-eng.{code}").read_text("utf-8").splitlines()[:300]
        for code in ("jpn", "deu")
    )
    pile = japanese[150:] + german[150:]
    found = _scored(name, japanese[:150], pile, jsonl, tmp_path, inline, tiny_static)
    assert np.isfinite(found).all()
    above = (
        np.mean(found[:150, None] > found[None, 150:])
        + np.mean(found[:150, None] == found[None, 150:]) / 2
    )
    assert above > 0.85  # the area under the ROC curve


def _scored(name, target, pile, jsonl, tmp_path, inline, embedder):
    """float64 [n]: the scores of the pile's texts."""
    settings = ["method.epochs=1"] if name == "domain_finetune" else []
    run = corpusfit.score(
        target=jsonl("task.jsonl", target),
        corpus=jsonl("pile.jsonl", pile),
        out=tmp_path / "out",
        method=name,
        embedder=str(embedder),
        settings=settings,
        machine=inline,
    )
    return np.array([row["score"] for row in scores(run)])
