"""`adapt` of sentence encoders, and `evaluate --frozen`, from end to end."""

import json

import numpy as np
import pytest
from journeys import prose, stamps

import corpusfit
from corpusfit.core.engine.progress import WarningCollector
from corpusfit.core.errors import ChangedInputError, UsageError
from corpusfit.core.plan import EmbedPlan
from corpusfit.embed import load

pytest.importorskip("accelerate", reason="the extra train is not installed")
pytestmark = pytest.mark.slow
ON_CPU = ["train.device=cpu", "train.precision=fp32"]
FROZEN = ["finetune.device=cpu", "finetune.precision=fp32"]
TEXTS = ["the market sold shares", "aspirin and the kinase", "quarterly"]


@pytest.fixture
def adapt(tmp_path, inline, tiny_encoder, jsonl):
    """`adapt` in this process, four steps of eight texts."""
    data = jsonl("data.jsonl", prose("task", 80, most=20) + prose("market", 40, most=20))

    def adapt(out, objective, settings=(), **words):
        given = {"model": str(tiny_encoder), "data": data, "max_steps": 4, "batch": 8, "length": 32}
        return corpusfit.adapt(
            out=tmp_path / out,
            objective=objective,
            settings=[*ON_CPU, "train.learning_rate=1e-3", *settings],
            machine=inline,
            **given | words,
        )

    return adapt


def vectors_of(folder, **words):
    plan = EmbedPlan(str(folder), device="cpu", precision="fp32", **words)
    return load(plan).encode(TEXTS)


def test_the_folder_is_a_sentence_encoder(adapt, tiny_encoder):
    """For `--embedder`, for sentence-transformers, and as the base of another training."""
    from sentence_transformers import SentenceTransformer

    run = adapt("out", "tsdae")
    assert run.manifest["losses"]["after"]["data"] < run.manifest["losses"]["before"]["data"]
    found = vectors_of(run.path, unit_length=False)
    peer = SentenceTransformer(str(run.path), device="cpu").encode(TEXTS)
    np.testing.assert_allclose(found, peer, atol=1e-5)
    assert abs(found - vectors_of(tiny_encoder, unit_length=False)).max() > 1e-3
    marks = stamps(run.path, "*.safetensors")
    adapt("out", "tsdae")  # finished: nothing is done again
    assert stamps(run.path, "*.safetensors") == marks
    again = adapt("again", "tsdae", model=str(run.path))
    assert again.manifest["base"]["fingerprint"] != run.manifest["base"]["fingerprint"]


def test_tsdaes_loss_is_that_of_sentence_transformers(tiny_encoder):
    """The same decoder in DenoisingAutoEncoderLoss, on texts of several lengths with padding."""
    import torch
    from sentence_transformers import SentenceTransformer

    losses = pytest.importorskip("sentence_transformers.sentence_transformer.losses")
    from corpusfit.training.models import open_model
    from corpusfit.training.plan import ModelPlan

    plan = ModelPlan(str(tiny_encoder))
    own = open_model(plan, "tsdae", attention="eager", seed=0, on_warn=pytest.fail)
    model = own.model.eval()
    peer = losses.DenoisingAutoEncoderLoss(SentenceTransformer(str(tiny_encoder), device="cpu"))
    peer.decoder = model.decoder
    texts, left = ["the market sold shares", "aspirin"], ["market shares", "aspirin"]
    noisy, whole = (own.tokenizer(t, return_tensors="pt", padding=True) for t in (left, texts))
    ids = whole["input_ids"]
    with torch.no_grad():
        expected = peer.eval()([dict(noisy), dict(whole)], None)
        logits = model(noisy["input_ids"], noisy["attention_mask"], ids[:, :-1]).logits
        loss = torch.nn.functional.cross_entropy(
            logits.flatten(0, 1), ids[:, 1:].flatten(), ignore_index=own.special.pad
        )
    assert float(loss) == pytest.approx(float(expected), rel=1e-5)


def test_pooling_and_normalization_stay_those_of_the_base(adapt):
    from sentence_transformers import SentenceTransformer

    first = adapt("cls", "tsdae", ["model.pooling=cls"])
    modules = json.loads((first.path / "modules.json").read_text("utf-8"))
    last = {"idx": 2, "name": "2", "path": "2", "type": "sentence_transformers.models.Normalize"}
    (first.path / "modules.json").write_text(json.dumps([*modules, last]), "utf-8")
    run = adapt("out", "tsdae", model=str(first.path))
    peer = SentenceTransformer(str(run.path), device="cpu").encode(TEXTS)
    np.testing.assert_allclose(vectors_of(run.path, pooling="cls"), peer, atol=1e-5)
    assert np.allclose(np.linalg.norm(peer, axis=1), 1)
    with pytest.raises(ChangedInputError):
        adapt("out", "tsdae", ["model.pooling=mean"], model=str(first.path))
    mean = adapt("out", "tsdae", ["model.pooling=mean"], model=str(first.path), overwrite=True)
    assert vectors_of(mean.path).shape == peer.shape


def test_a_second_phase_trains_what_the_first_leaves(adapt, jsonl):
    own = jsonl("own.jsonl", prose("task", 40, seed=7, most=20))
    run = adapt("out", "tsdae", ["then_task.max_steps=3"], task=own, then_task=True)
    assert [phase["phase"] for phase in run.manifest["phases"]] == ["data", "task"]
    assert (run.path / "1_Pooling/config.json").is_file()


@pytest.fixture
def topics(jsonl):
    """A task of two topics, with few words of each in common."""
    for seed, (split, n) in enumerate((("train", 40), ("dev", 12), ("test", 30))):
        rows = [
            {"text": text, "label": topic}
            for topic in ("task", "market")
            for text in prose(topic, n // 2, seed, most=12)
        ]
        folder = jsonl(f"topics/{split}.jsonl", rows).parent
    return folder


def read(folder, split):
    lines = (folder / f"{split}.jsonl").read_text("utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    return [row["text"] for row in rows], np.array([row["label"] for row in rows])


def test_frozen_is_logistic_regression_on_the_embeddings(tmp_path, inline, tiny_encoder, topics):
    """scikit-learn's pipeline on the vectors of `--embedder`, for each strength of the penalty."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import accuracy_score, log_loss
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    run = corpusfit.evaluate(
        task=topics, model=str(tiny_encoder), out=tmp_path / "out", frozen=True, metric="accuracy",
        settings=FROZEN, seeds=1, machine=inline,
    )  # fmt: skip
    (outcome,) = run.outcomes()
    encoder = load(EmbedPlan(str(tiny_encoder), device="cpu", precision="fp32"))
    (x, y), (dev, of_dev), (test, of_test) = (read(topics, s) for s in ("train", "dev", "test"))
    found = []
    for record in outcome.history:
        model = make_pipeline(StandardScaler(), LogisticRegression(C=record["c"], max_iter=1000))
        model.fit(encoder.encode(x), y)
        of_model = log_loss(of_dev, model.predict_proba(encoder.encode(dev)))
        # with hardly any penalty the optimum is flat, and the optimizer stops anywhere near it
        tolerance = 1e-3 if record["c"] < 50 else 5e-2
        assert record["dev_loss"] == pytest.approx(of_model, abs=tolerance)
        found.append(accuracy_score(of_test, model.predict(encoder.encode(test))))
    assert outcome.scores["test"]["accuracy"] == found[outcome.best - 1]
    assert outcome.best == 1 + int(np.argmin([record["dev_loss"] for record in outcome.history]))
    assert found[outcome.best - 1] > 0.7


def test_several_probes_learn_from_bootstrap_samples(tmp_path, inline, tiny_encoder, topics):
    """The same samples for both models, and none of them is the whole training set."""
    probed = {
        "task": topics, "frozen": True, "settings": FROZEN, "model": str(tiny_encoder),
        "machine": inline,
    }  # fmt: skip
    run = corpusfit.evaluate(base=str(tiny_encoder), seeds=3, out=tmp_path / "out", **probed)
    (whole,) = corpusfit.evaluate(seeds=1, out=tmp_path / "whole", **probed).outcomes()

    answers = [outcome.predicted["test"] for outcome in run.outcomes()]
    assert answers == [outcome.predicted["test"] for outcome in run.outcomes("base")]
    scores = [outcome.scores["test"]["macro_f1"] for outcome in (*run.outcomes(), whole)]
    assert len(set(scores)) > 1
    assert all(outcome.tune["bootstrap"] for outcome in run.outcomes())
    assert not whole.tune["bootstrap"]


def test_a_probe_of_words_is_logistic_regression_on_their_first_states(
    tmp_path, inline, tiny_encoder
):
    """scikit-learn on transformers' own states, by the word numbers of its tokenizer."""
    import torch
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler
    from transformers import AutoModel, AutoTokenizer

    sentences = [text.split()[:10] for text in prose("task", 60)]
    tags = [["B-X" if "e" in word else "O" for word in words] for words in sentences]
    for split, begin in (("train", 0), ("dev", 30), ("test", 45)):
        rows = zip(sentences[begin : begin + 30], tags[begin : begin + 30], strict=True)
        blocks = ["".join(f"{w} {t}\n" for w, t in zip(*row, strict=True)) for row in rows]
        (tmp_path / "tags").mkdir(exist_ok=True)
        (tmp_path / "tags" / f"{split}.conll").write_text("\n".join(blocks))
    run = corpusfit.evaluate(
        task=tmp_path / "tags", model=str(tiny_encoder), out=tmp_path / "out", frozen=True,
        seeds=1, settings=FROZEN, machine=inline,
    )  # fmt: skip
    (outcome,) = run.outcomes()

    tokenizer = AutoTokenizer.from_pretrained(tiny_encoder)
    model = AutoModel.from_pretrained(tiny_encoder).eval()

    def states(sentences):
        for words in sentences:
            row = tokenizer(words, is_split_into_words=True, return_tensors="pt")
            with torch.inference_mode():
                last = model(**row).last_hidden_state[0]
            ids = row.word_ids()
            yield from (last[ids.index(n)].numpy() for n in range(len(words)))

    scaler = StandardScaler()
    x = scaler.fit_transform(np.array(list(states(sentences[:30]))))
    strength = outcome.history[outcome.best - 1]["c"]
    classifier = LogisticRegression(C=strength, max_iter=5000).fit(
        x, [tag for of_one in tags[:30] for tag in of_one]
    )
    expected = classifier.predict(scaler.transform(np.array(list(states(sentences[45:75])))))
    names = run.manifest["task"]["labels"]
    assert [names[answer] for answer in outcome.predicted["test"]] == expected.tolist()


def test_frozen_embeddings_with_one_answer_are_named_without_a_setting_they_lack(
    tmp_path, inline, tiny_encoder, topics
):
    """Of equal test texts the answers are equal; `--epochs` would be refused."""
    rows = [{"text": "one and the same", "label": topic} for topic in ("task", "market")]
    (topics / "test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    heard = WarningCollector()
    run = corpusfit.evaluate(
        task=topics, model=str(tiny_encoder), out=tmp_path / "out", frozen=True, seeds=1,
        settings=FROZEN, machine=type(inline)(progress=heard),
    )  # fmt: skip
    assert run.manifest["results"][0]["one_answer"] == 1
    (said,) = (warning for warning in heard.warnings if "one answer" in warning)
    assert "finetune" not in said


def test_each_seed_has_its_own_model(tmp_path, inline, adapt, tiny_encoder, topics):
    """Two trainings against one base: a model for each seed, and the base once."""
    for seed in range(2):
        adapt(f"model-{seed}", "tsdae", seed=seed)
    run = corpusfit.evaluate(
        task=topics, model=str(tmp_path / "model-{seed}"), base=str(tiny_encoder), seeds=2,
        out=tmp_path / "out", frozen=True, settings=FROZEN, machine=inline,
    )  # fmt: skip
    assert len(run.manifest["models"]["model"]["by_seed"]) == 2
    assert len(list((run.path / "outcomes").iterdir())) == 4
    assert run.manifest["comparisons"][0]["size"] == 40


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ({"adapter": "lora"}, "adapter"),
        ({"epochs": 2}, "epochs"),
        ({"settings": ["task.kind=regression", "task.label_field=number"]}, "frozen"),
    ],
)
def test_frozen_refuses_what_it_does_not_use(tmp_path, inline, tiny_encoder, jsonl, words, named):
    rows = [{"text": t, "label": "ab"[i % 2], "number": i} for i, t in enumerate(prose("task", 40))]
    task = jsonl("task.jsonl", rows)
    settings = [*FROZEN, *words.pop("settings", ())]
    with pytest.raises(UsageError, match=named):
        corpusfit.evaluate(
            task=task, model=str(tiny_encoder), out=tmp_path / "out", frozen=True, machine=inline,
            settings=settings, **words,
        )  # fmt: skip
