"""One fine-tuning: it learns, is reproducible, and equals AdamW over the whole embedding matrix."""

import dataclasses
import random

import numpy as np
import pytest

from corpusfit.core.errors import ModelError, TrainingError
from corpusfit.embed.hardware import Hardware
from corpusfit.evaluation import finetune as finetuning
from corpusfit.evaluation.encoding import TaskVocabulary
from corpusfit.evaluation.finetune import finetune
from corpusfit.evaluation.learned import load_learned
from corpusfit.evaluation.network import open_with_head
from corpusfit.evaluation.plan import EvaluatePlan, HeadPlan
from corpusfit.evaluation.task import Examples, Task

torch = pytest.importorskip("torch", reason="the extra train is not installed")

CPU = Hardware("cpu", "fp32", 64)
TOPICS = (
    ["kinase", "inhibitor", "receptor", "affinity", "aspirin"],
    ["investors", "shares", "quarterly", "results", "market"],
)
FILLERS = ["the", "a", "of", "with", "small", "reads", "before", "zebra", "yes", "quux"]


def texts(n, seed):
    """n texts of two topics, labeled with the topic."""
    rng = random.Random(seed)
    labels = [i % 2 for i in range(n)]
    pieces = [
        " ".join(rng.choices(TOPICS[label], k=3) + rng.choices(FILLERS, k=rng.randint(1, 9)))
        for label in labels
    ]
    return Examples([[p] for p in pieces], [[label] for label in labels])


def sentences(n, seed):
    """n sentences whose words of one topic are entities."""
    rng = random.Random(seed)
    words = [
        [rng.choice(TOPICS[0] if rng.random() < 0.3 else FILLERS) for _ in range(8)]
        for _ in range(n)
    ]
    return Examples(words, [[int(w in TOPICS[0]) for w in sentence] for sentence in words])


@pytest.fixture(scope="module")
def task():
    return Task(
        "topics", "classification", ("bio", "money"), 2, texts(64, 1), texts(20, 2), texts(40, 3)
    )


@pytest.fixture(scope="module")
def tagging():
    return Task(
        "words", "tagging", ("O", "B-X"), 2, sentences(60, 1), sentences(20, 2), sentences(30, 3)
    )


@pytest.fixture
def plan(tiny_lm):
    return EvaluatePlan().with_overrides(
        [
            f"model.name={tiny_lm}",
            *(
                "finetune.device=cpu",
                "finetune.precision=fp32",
                "finetune.learning_rate=5e-3",
                "finetune.epochs=8",
            ),
        ]
    )


def results(outcome):
    """All that must be reproducible."""
    times = {"seconds", "cpu_seconds", "examples_per_second"}
    return {k: v for k, v in dataclasses.asdict(outcome).items() if k not in times}


@pytest.fixture(scope="module")
def ample(task):
    """Twice the texts, so that dropout matters less."""
    return dataclasses.replace(task, train=texts(128, 1), dev=texts(40, 2))


def test_topics_are_learned_from_their_words(ample, plan):
    outcome = finetune(ample, plan, 0)
    assert outcome.scores["test"]["accuracy"] == 1.0
    assert outcome.size == 128
    assert [h["epoch"] for h in outcome.history] == [1, 2, 3, 4, 5, 6, 7, 8]
    assert outcome.history[-1]["loss"] < outcome.history[0]["loss"] / 2


def test_entities_are_learned_from_their_words(tagging, plan):
    outcome = finetune(
        tagging, plan.with_overrides(["finetune.learning_rate=2e-3", "finetune.epochs=30"]), 0
    )
    assert outcome.scores["test"]["micro_f1"] > 0.95
    assert len(outcome.predicted["test"]) == tagging.test.lengths.sum()


def test_the_share_of_the_work_is_told(task, plan):
    """Closed form: training an example counts three times as evaluating one; 8 epochs, or fewer."""
    told = []
    outcome = finetune(task, plan, 1, on_share=told.append)
    train, dev, test = (len(getattr(task, name)) for name in ("train", "dev", "test"))
    batch, whole = outcome.tune["batch"], 8 * (3 * train + dev) + test
    steps, rest = divmod(train, batch)
    epoch = [3 * batch] * steps + [3 * rest] * bool(rest) + [dev]
    done = np.cumsum([0, *epoch * len(outcome.history), test])
    assert told == pytest.approx(done / whole)
    assert outcome.scores == finetune(task, plan, 1).scores


def test_a_seed_repeats_itself_and_another_differs(task, plan):
    plan = plan.with_value("finetune.epochs", 1)
    first, again, other = (finetune(task, plan, seed) for seed in (0, 0, 1))
    assert results(first) == results(again)
    assert first.history[0]["loss"] != other.history[0]["loss"]


@pytest.mark.parametrize("kind", ["classification", "tagging"])
def test_embeddings_of_unused_tokens_end_as_with_adamw_over_all_rows(
    kind, task, tagging, plan, monkeypatch
):
    plan = plan.with_overrides(["finetune.weight_decay=0.3", "finetune.epochs=2"])
    task = task if kind == "classification" else tagging
    few = finetune(task, plan, 0)
    monkeypatch.setattr(
        finetuning,
        "TaskVocabulary",
        lambda model, tokens, pad: TaskVocabulary(
            model, np.arange(len(model.get_input_embeddings().weight)), pad
        ),
    )
    assert results(few) == results(finetune(task, plan, 0))


def test_a_reduced_matrix_is_restored_with_decay(tiny_lm):
    headed = open_with_head(HeadPlan(str(tiny_lm)), "classification", 2, CPU, 0)
    model = headed.network.predictor.model
    whole = model.get_input_embeddings().weight.detach().clone()
    words = TaskVocabulary(model, np.array([7, 5, 7]), 0)
    assert len(model.get_input_embeddings().weight) == 3  # padding too
    words.decay_factor = 0.5
    seen = [words.number[i] for i in (0, 5, 7)]
    with words.whole():
        now = model.get_input_embeddings().weight[words.number]
    torch.testing.assert_close(now[[0, 5, 7]], whole[[0, 5, 7]])
    assert sorted(seen) == [0, 1, 2]
    others = [i for i in range(len(whole)) if i not in (0, 5, 7)]
    torch.testing.assert_close(now[others], whole[others] * 0.5)


def test_a_pooler_in_the_file_gives_no_head_start(tmp_path, tiny_lm):
    import transformers

    without = tmp_path / "without"
    model = transformers.AutoModelForMaskedLM.from_pretrained(tiny_lm)
    model.save_pretrained(without)  # as after adapting with --objective mlm
    transformers.AutoTokenizer.from_pretrained(tiny_lm).save_pretrained(without)
    logits = []
    for folder in (tiny_lm, without):
        model = open_with_head(HeadPlan(str(folder)), "classification", 2, CPU, 3).network.call
        with torch.no_grad():
            logits.append(model(input_ids=torch.arange(12).reshape(2, 6)).logits)
    torch.testing.assert_close(*logits, rtol=0, atol=0)


@pytest.mark.parametrize("labels", [2, 3])
def test_a_head_in_the_file_gives_no_head_start(tmp_path, tiny_lm, labels):
    import transformers

    folders = [tmp_path / "trained", tmp_path / "without"]
    kinds = ("AutoModelForSequenceClassification", "AutoModelForMaskedLM")
    for folder, kind in zip(folders, kinds, strict=True):
        model = getattr(transformers, kind).from_pretrained(tiny_lm)
        if kind.endswith("Classification"):
            torch.nn.init.constant_(model.classifier.weight, 7.0)
        model.save_pretrained(folder)
        transformers.AutoTokenizer.from_pretrained(tiny_lm).save_pretrained(folder)
    logits = []
    for folder in folders:
        plan = HeadPlan(str(folder))
        model = open_with_head(plan, "classification", labels, CPU, 3).network.call
        with torch.no_grad():
            logits.append(model(input_ids=torch.arange(12).reshape(2, 6)).logits)
    torch.testing.assert_close(*logits, rtol=0, atol=0)


@pytest.mark.parametrize("kind", ["pfeiffer", "lora"])
def test_with_an_adapter_the_model_is_frozen(task, plan, kind, monkeypatch):
    kept = {}
    opening = finetuning.open_with_head

    def recording(*args):
        headed = opening(*args)
        model = headed.network.predictor.model
        kept.update({n: p for n, p in model.named_parameters() if not p.requires_grad})
        kept["before"] = {n: p.detach().clone() for n, p in kept.items()}
        return headed

    monkeypatch.setattr(finetuning, "open_with_head", recording)
    settings = [f"model.adapter={kind}", "finetune.learning_rate=1e-2", "finetune.epochs=20"]
    history = finetune(task, plan.with_overrides(settings), 0).history
    before = kept.pop("before")
    assert any("word_embeddings" in name for name in before)
    for name, weight in before.items():
        if "word_embeddings" not in name:  # renumbered
            torch.testing.assert_close(kept[name], weight, rtol=0, atol=0)
    assert history[-1]["loss"] < 0.92 * history[0]["loss"]


def test_an_adapter_from_adaptation_is_trained_further(task, plan, tmp_path, tiny_lm):
    import transformers

    from corpusfit.evaluation.network import head_fingerprint
    from corpusfit.training.adapter import add_adapter, save_adapter
    from corpusfit.training.contract import Base
    from corpusfit.training.models import fingerprint
    from corpusfit.training.plan import AdapterPlan

    model = transformers.AutoModelForMaskedLM.from_pretrained(tiny_lm)
    adapter = AdapterPlan("lora")
    add_adapter(model, adapter, 5)
    save_adapter(model, None, adapter, Base(str(tiny_lm), fingerprint(tiny_lm)), tmp_path / "a")
    settings = [f"model.name={tmp_path / 'a'}", "finetune.learning_rate=1e-2", "finetune.epochs=20"]
    plan = plan.with_overrides(settings)
    history = finetune(task, plan, 0).history
    assert history[-1]["loss"] < 0.92 * history[0]["loss"]
    headed = open_with_head(plan.model, "classification", 2, CPU, 0)
    trained = [n for n, p in headed.network.call.named_parameters() if p.requires_grad]
    assert headed.adapter
    assert all("lora" in n or "pooler" in n or "classifier" in n for n in trained), trained
    assert head_fingerprint(str(tmp_path / "a")) != head_fingerprint(str(tiny_lm))


def test_a_label_missing_from_train_is_never_predicted_and_counts_as_wrong(ample, plan):
    strange = Examples([*ample.test.pieces, ["zebra"]], [*ample.test.labels, [2]])
    task = dataclasses.replace(ample, labels=("bio", "money", "sports"), test=strange)
    outcome = finetune(task, plan, 0)
    assert set(outcome.predicted["test"]) <= {0, 1}
    assert outcome.scores["test"]["accuracy"] == pytest.approx(40 / 41)


def test_long_texts_are_truncated_and_counted(task, plan):
    long = Examples([["market " * 100], ["kinase"]], [[1], [0]])
    task = dataclasses.replace(task, test=long)
    outcome = finetune(task, plan.with_value("finetune.epochs", 1), 0)
    assert outcome.truncated["test"] == 1
    assert outcome.truncated["train"] == 0


def test_truncated_words_are_predicted_as_o(tagging, plan):
    plan = plan.with_overrides(["finetune.epochs=1", "finetune.length=8"])
    one = Examples([["kinase"] * 20], [[1] * 20])
    outcome = finetune(dataclasses.replace(tagging, test=one), plan, 0)
    assert outcome.predicted["test"][6:] == [0] * 14
    assert outcome.truncated["test"] == 1


def test_early_stopping_evaluates_the_best_epoch(task, plan):
    plan = plan.with_overrides(["finetune.epochs=30", "finetune.patience=3"])
    outcome = finetune(task, plan, 0)
    scores = [h["dev"] for h in outcome.history]
    assert outcome.best == 1 + int(np.argmax(scores))
    assert len(scores) == outcome.best + 3
    assert outcome.scores["dev"]["macro_f1"] == pytest.approx(max(scores), abs=1e-6)


def test_a_loss_that_is_not_finite_is_an_error_with_a_cure(task, plan):
    with pytest.raises(
        TrainingError, match=r"step \d+ .*Set `finetune\.learning_rate` below 1e\+30\."
    ):
        finetune(task, plan.with_overrides(["finetune.learning_rate=1e30"]), 0)


def test_out_of_memory_is_an_error_with_a_cure(task, plan, monkeypatch):
    def fail(*_):
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory")

    monkeypatch.setattr(finetuning.Updates, "rate", fail)
    with pytest.raises(
        TrainingError, match=r" 8 texts .*a smaller `finetune\.batch` or `finetune\.length`\."
    ):
        finetune(task, plan, 0)


def test_a_folder_without_all_weights_is_refused(task, plan, tmp_path, tiny_lm):
    import shutil

    from safetensors.torch import load_file, save_file

    broken = tmp_path / "broken"
    shutil.copytree(tiny_lm, broken)
    weights = load_file(broken / "model.safetensors")
    weights = {n: w for n, w in weights.items() if "layer.1.attention.self.query" not in n}
    save_file(weights, broken / "model.safetensors", {"format": "pt"})
    with pytest.raises(ModelError, match=r"^`model\.name`: .*layer\.1\.attention\.self\.query"):
        finetune(task, plan.with_value("model.name", str(broken)), 0)


def test_an_embedding_matrix_of_another_size_is_refused(task, plan, tmp_path, tiny_lm):
    import json
    import shutil

    broken = tmp_path / "broken"
    shutil.copytree(tiny_lm, broken)
    config = json.loads((broken / "config.json").read_text())
    (broken / "config.json").write_text(json.dumps(config | {"vocab_size": 150}))
    with pytest.raises(ModelError, match=r"^`model\.name`: .*word_embeddings\.weight"):
        finetune(task, plan.with_value("model.name", str(broken)), 0)


def other_model(kind, tokenizer, folder, **sizes):
    """A folder with a random model of another architecture and the tiny model's tokenizer."""
    import transformers

    torch.manual_seed(0)
    config = transformers.AutoConfig.for_model(kind, vocab_size=len(tokenizer), **sizes)
    transformers.AutoModel.from_config(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


ENCODER = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
SIZES = {
    "roberta": ENCODER
    | {"intermediate_size": 48, "max_position_embeddings": 66, "pad_token_id": 1},
    "esm": ENCODER
    | {"intermediate_size": 48, "max_position_embeddings": 66, "pad_token_id": 0}
    | {"mask_token_id": 4, "token_dropout": True, "position_embedding_type": "rotary"},
    "gpt2": {"n_embd": 32, "n_layer": 1, "n_head": 2, "n_positions": 64, "pad_token_id": 0},
}


@pytest.mark.parametrize("kind", SIZES)
def test_a_reduced_matrix_gives_the_results_of_the_whole_one(
    kind, task, plan, tmp_path, tiny_lm, monkeypatch
):
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(tiny_lm)
    folder = other_model(kind, tokenizer, tmp_path / kind, **SIZES[kind])
    plan = plan.with_overrides(
        [f"model.name={folder}", "finetune.epochs=1", "finetune.weight_decay=0.2"]
    )
    few = finetune(task, plan, 0)
    everything = np.arange(len(tokenizer))
    monkeypatch.setattr(
        finetuning, "TaskVocabulary", lambda model, _, pad: TaskVocabulary(model, everything, pad)
    )
    assert results(few) == results(finetune(task, plan, 0))


def test_an_encoder_decoder_is_refused(task, plan, tmp_path, tiny_lm):
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(tiny_lm)
    sizes = {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 1, "num_heads": 2}
    folder = other_model("t5", tokenizer, tmp_path / "t5", **sizes)
    with pytest.raises(ModelError, match=r"^`model\.name`: .*encoder-decoder"):
        finetune(task, plan.with_value("model.name", str(folder)), 0)


def test_a_sentence_without_tokens_is_skipped(tagging, plan):
    odd = Examples([["­"], *tagging.train.pieces], [[0], *tagging.train.labels])
    task = dataclasses.replace(tagging, train=odd)
    history = finetune(
        task, plan.with_overrides(["finetune.batch=1", "finetune.epochs=1"]), 0
    ).history
    assert np.isfinite(history[0]["loss"])


@pytest.mark.parametrize(
    ("kind", "adapter", "wanted"),
    [
        ("classification", False, (5, 3e-5, 8, 0.1, 0, 512)),  # TADPOLE, section 4
        ("tagging", False, (100, 2e-5, 32, 0.0, 25, 128)),  # mDAPT, section 4.1
        ("tagging", True, (30, 1e-4, 32, 0.0, 0, 128)),
    ],
)
def test_defaults_are_those_of_the_papers(kind, adapter, wanted):
    plan = load_learned(kind).settled(EvaluatePlan(), adapter=adapter, max_length=512).finetune
    names = ("epochs", "learning_rate", "batch", "warmup_steps", "patience", "length")
    found = tuple(getattr(plan, name) for name in names)
    assert found == wanted
