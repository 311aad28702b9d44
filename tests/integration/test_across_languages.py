"""Every method gives finite scores to a German corpus and to one without spaces between words."""

from pathlib import Path

import numpy as np
import pytest
from journeys import scores

import corpusfit
from corpusfit.core.plan import EmbedPlan
from corpusfit.core.types import Paired, read_as, text_array
from corpusfit.embed import load
from corpusfit.scoring import registry
from corpusfit.scoring.contract import CorpusMethod
from corpusfit.scoring.names import METHODS

pytestmark = pytest.mark.slow

TATOEBA = Path(__file__).parents[3] / "shared" / "data" / "parallel" / "tatoeba"
SENTENCES = {
    "de": "Die Ärztin {0} prüft das Röntgenbild. Am {1}. Mai größere Maßnahmen für die Übung!",
    "ja": "医師{0}は写真を調べます。{1}月に大きな対策があります。患者は静かに待っています。",
}
NAMES = [n for n in METHODS.built_in() if n != "oracle"]


@pytest.fixture(scope="module")
def encode(tiny_static):
    """Texts' vectors by the small static model, which knows no word of these languages."""
    encoder = load(EmbedPlan(str(tiny_static)))
    return encoder.encode


class Corpus:
    """One shard, in the form that a method reads."""

    def __init__(self, units):
        self.units = units

    def __iter__(self):
        yield 0, self.units


@pytest.mark.parametrize("language", SENTENCES)
@pytest.mark.parametrize("name", [n for n in NAMES if registry.load(n).family != "external"])
def test_scores_are_finite(name, language, encode):
    """A target in the language, and a corpus of which half is not."""
    texts = [SENTENCES[language].format(i, i % 11 + 1) for i in range(60)]
    english = [f"The doctor looks at picture {i} and waits for the patient." for i in range(30)]

    def units(texts, form):
        return read_as(Paired(text_array(texts), encode(texts)), form)

    method = registry.build(name, {})
    target, pile = texts[:25], texts[25:] + english
    corpus = Corpus(units(pile, method.reads))
    fits_on = [units(some, method.fits_on) for some in (target, pile)]
    if isinstance(method, CorpusMethod):
        ((_, scored),) = method.score_corpus(corpus, *fits_on, seed=0)
    else:
        scored = method.fit(*fits_on, seed=0).score(corpus.units)
    assert scored.shape == (65,)
    assert np.isfinite(scored).all()


@pytest.mark.skipif(not TATOEBA.is_dir(), reason="needs ../shared")
@pytest.mark.parametrize("name", ["dsir", "moore_lewis"])
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
    run = corpusfit.select(
        target=jsonl("task.jsonl", target),
        corpus=jsonl("pile.jsonl", pile),
        out=tmp_path / "out",
        method=name,
        embedder=str(embedder),
        machine=inline,
    )
    return np.array([row["score"] for row in scores(run)])


FOOD_AND_TRAVEL = {
    "th": ("ข้าว ปลา ผัก ผลไม้ น้ำตาล เกลือ", "รถไฟ เรือ ถนน เครื่องบิน สะพาน รถยนต์"),
    "km": ("បាយ ត្រី បន្លែ ផ្លែឈើ ស្ករ អំបិល", "រថភ្លើង កប៉ាល់ ផ្លូវ យន្តហោះ ស្ពាន ឡាន"),
    "lo": ("ເຂົ້າ ປາ ຜັກ ໝາກໄມ້ ນ້ຳຕານ ເກືອ", "ລົດໄຟ ເຮືອ ທາງ ຍົນ ຂົວ ລົດ"),
    "my": ("ထမင်း ငါး ဟင်းရွက် သစ်သီး သကြား ဆား", "ရထား သင်္ဘော လမ်း လေယာဉ် တံတား ကား"),
    "bo": ("འབྲས་ ཉ་ ཚལ་ ཤིང་ཏོག་ ཀ་ར་ ཚྭ་", "མེ་འཁོར་ གྲུ་ ལམ་ གནམ་གྲུ་ ཟམ་པ་ རླངས་འཁོར་"),
    "jv": ("ꦱꦼꦒ ꦲꦶꦮꦏ꧀ ꦱꦪꦸꦂ ꦮꦺꦴꦃ ꦒꦸꦭ ꦲꦸꦪꦃ", "ꦱꦼꦥꦸꦂ ꦥꦿꦲꦸ ꦢꦭꦤ꧀ ꦩꦺꦴꦤ꧀ꦠꦺꦴꦂ ꦏꦽꦠꦼꦒ꧀ ꦩꦺꦴꦠꦺꦴꦂ"),
    "ii": ("ꋚꎴ ꉬꉻ ꀉꂿ ꁱꂷ ꃴꄉ ꅐꆀ", "ꇁꈬ ꉐꊈ ꌠꍏ ꎭꐚ ꑭꒉ ꄮꋍ"),
}


@pytest.mark.parametrize("language", FOOD_AND_TRAVEL)
@pytest.mark.parametrize("name", ["moore_lewis", "dsir"])
def test_methods_on_words_find_a_topic_without_spaces_between_words(name, language):
    draw = np.random.default_rng(0)
    food, travel = (
        ["".join(draw.choice(topic.split(), 8)) for _ in range(80)]
        for topic in FOOD_AND_TRAVEL[language]
    )

    method = registry.build(name, {})
    target, corpus = text_array(food[:40]), text_array(food[40:] + travel)
    found = method.fit(target, corpus, seed=0).score(corpus)

    likely, unlikely = found[:40], found[40:]
    assert np.mean(likely[:, None] > unlikely[None, :]) > 0.9  # the area under the ROC curve
