"""`adapt` on aligned pairs: what it leaves, what it leaves out, and what it refuses."""

import json
import math

import pytest
from journeys import kill_at, prose, write_rows

import corpusfit
from corpusfit import training
from corpusfit.core.errors import ModelError, UsageError
from corpusfit.training.models import new_model
from translating import built

pytestmark = pytest.mark.slow

pytest.importorskip("accelerate", reason="the extra train is not installed")
ON_CPU = ["train.device=cpu", "train.precision=fp32"]


def backwards(text):
    """What passes for a translation: other words in another order."""
    return " ".join(word[::-1] for word in reversed(text.split()))


def two_files(folder, name, texts, others=None):
    """Write aligned files and name them."""
    for side, lines in (("de", texts), ("en", others or map(backwards, texts))):
        (folder / f"{name}.{side}").write_text("".join(f"{t}\n" for t in lines), "utf-8")
    return f"pair:{folder}/{name}.de,{folder}/{name}.en"


@pytest.fixture
def pairs(tmp_path):
    return two_files(tmp_path, "all", prose("task", 60) + prose("market", 60))


@pytest.fixture
def adapt(tmp_path, inline, pairs):
    """`adapt` in this process: six steps from an untrained model of 300 subwords."""

    def adapt(out="out", **words):
        machine = words.pop("machine", inline)
        sizes = [] if "model" in words else ["model.vocabulary=400"]
        sizes += [] if "objective" in words else ["objective.pair_tokens=400"]
        settings = [*ON_CPU, *sizes, *words.pop("settings", ())]
        given = {"objective": "translation", "init": "tiny", "max_steps": 6, "data": pairs} | words
        if "model" in words:
            del given["init"]
        return corpusfit.adapt(out=tmp_path / out, machine=machine, settings=settings, **given)

    return adapt


@pytest.fixture(scope="module")
def translators(tmp_path_factory, word_pieces):
    folder = tmp_path_factory.mktemp("translators")
    return {kind: built(folder / kind, word_pieces, kind, 0) for kind in ("marian", "t5")}


@pytest.mark.slow
def test_a_model_from_nothing_opens_with_transformers(adapt, inline, pairs):
    """Its folder is a model and a tokenizer of both sides; the loss on held-out pairs falls."""
    import transformers

    run = adapt(max_steps=25, settings=["train.learning_rate=3e-3"])
    found = run.manifest
    assert found["losses"]["after"]["data"] < found["losses"]["before"]["data"] - 0.5
    assert found["counts"]["data"]["texts"] == 120
    assert found["chunks"] + found["heldout"]["data"] <= 120
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(run.path)
    tokenizer = transformers.AutoTokenizer.from_pretrained(run.path)
    assert model.config.vocab_size == len(tokenizer) == 400
    text = "Straße, und 3,5 — ja!"
    for given in ({"text": [text]}, {"text_target": [text]}):
        (ids,) = tokenizer(**given)["input_ids"]
        assert ids[-1] == tokenizer.eos_token_id
        assert tokenizer.decode(ids, skip_special_tokens=True) == text
    again = corpusfit.adapt(
        data=pairs,
        out=run.path.parent / "further",
        model=run.path,
        objective="translation",
        max_steps=2,
        machine=inline,
        settings=ON_CPU,
    )
    before, after = again.manifest["losses"]["before"]["data"], found["losses"]["after"]["data"]
    assert before == pytest.approx(after, abs=1e-5)  # the same model on the same held-out pairs


@pytest.mark.slow
def test_pairs_of_the_task_and_general_pairs_are_measured(adapt, tmp_path):
    task = two_files(tmp_path, "dev", prose("task", 20, seed=7))
    general = two_files(tmp_path, "general", prose("kitchen", 60, seed=7))
    run = adapt(task=task, replay=general, replay_share=0.3, epochs=2, max_steps=None)
    assert run.manifest["losses"]["after"].keys() == {"task", "data", "general"}
    rows = run.manifest["chunks"]
    steps = run.manifest["training"]["max_steps"]
    assert run.manifest["counts"]["general"]["texts"] == 60
    assert steps == math.ceil(2 * run.manifest["rows"])  # one batch of pairs per step
    assert rows < 120


@pytest.mark.slow
def test_a_pair_with_a_guarded_side_is_left_out(adapt, tmp_path):
    """The held-out text is on one side only, of one pair or the other."""
    texts = [f"{t} {i}" for i, t in enumerate(prose("task", 60) + prose("market", 60))]
    data = two_files(tmp_path, "numbered", texts)
    guard = write_rows(tmp_path / "guard.jsonl", [texts[3], backwards(texts[70])])
    words = {"data": data, "length": 512, "max_steps": 1}
    free, guarded = adapt("free", **words), adapt("guarded", guard=guard, **words)
    assert guarded.manifest["counts"]["guard"]["data"] == {"texts": 120, "holders": 2, "held": 2}
    pairs = [r.manifest["chunks"] + r.manifest["heldout"]["data"] for r in (free, guarded)]
    assert pairs == [120, 118]
    both = two_files(tmp_path, "test", [texts[5]], [backwards(texts[80])])
    other = adapt("both", guard=both, **words)
    assert other.manifest["counts"]["guard"]["data"]["holders"] == 2


@pytest.fixture(scope="module")
def selection(tmp_path_factory, inline):
    """A selection of pairs of three files."""
    folder = tmp_path_factory.mktemp("selection")
    names = [two_files(folder, t, prose(t, 60, seed=3)) for t in ("task", "market", "kitchen")]
    target = write_rows(folder / "target.jsonl", prose("task", 40))
    words = {"target": target, "corpus": names, "method": "dsir", "machine": inline}
    corpusfit.select(out=folder / "out", fraction=0.4, **words)
    return folder / "out"


def test_a_selection_of_pairs_with_weights_and_guard(adapt, selection, tmp_path):
    rows = [json.loads(line) for line in _lines(selection)]
    guard = tmp_path / "guard.jsonl"
    guard.write_text(json.dumps({"text": rows[0]["translation"]}) + "\n", "utf-8")
    run = adapt(data=selection, guard=guard, weights="mask+lambda")
    assert run.manifest["counts"]["guard"]["data"]["holders"] >= 1
    assert run.manifest["effective_chunks"] < run.manifest["chunks"]


def test_the_second_text_of_a_selection_may_be_the_source(adapt, selection):
    rows = [json.loads(line) for line in _lines(selection)]
    words = {"data": selection, "max_steps": 1}
    found = [adapt("first", **words), adapt("second", text_field="translation", **words)]
    counts = [run.manifest["counts"]["data"] for run in found]
    size = sum(len(row["text"]) + len(row["translation"]) for row in rows)
    assert [each["characters"] for each in counts] == [size, size]
    firsts = [each["first_tokens"] for each in counts]
    assert firsts[0] != firsts[1]


def _lines(selection):
    import zstandard

    for part in sorted((selection / "selected").glob("*.zst")):
        data = zstandard.ZstdDecompressor().decompressobj().decompress(part.read_bytes())
        yield from data.decode().splitlines()


def test_long_pairs_are_left_out_and_counted(adapt, tmp_path):
    texts = prose("task", 30)
    pairs = two_files(tmp_path, "long", [*texts, "word " * 200], [*map(backwards, texts), "word"])
    run = adapt(data=pairs, length=128)
    assert run.manifest["counts"]["data"]["too_long"] == 1
    assert run.manifest["chunks"] + run.manifest["heldout"]["data"] <= 30


@pytest.mark.parametrize("role", ["data", "task", "replay"])
def test_texts_without_translations_are_refused(adapt, jsonl, role):
    texts = jsonl("texts.jsonl", prose("task", 20))
    with pytest.raises(UsageError, match=rf"{role}.*pair:"):
        adapt(**{role: texts})


def test_a_model_of_one_half_is_refused(adapt, tiny_lm, translators, tmp_path):
    import transformers

    decoder = tmp_path / "gpt2"
    config = transformers.GPT2Config(vocab_size=300, n_embd=32, n_layer=1, n_head=2)
    transformers.GPT2LMHeadModel(config).save_pretrained(decoder)
    for model in (tiny_lm, decoder):
        with pytest.raises(ModelError, match=r"model\.name"):
            adapt(model=model)
    with pytest.raises(ModelError, match="objective"):
        adapt(model=translators["marian"], objective="mlm")


@pytest.mark.slow
def test_one_step_makes_an_untrained_model_with_a_vocabulary_of_all_texts(adapt, tmp_path):
    """Its subwords are those of tokenizers' own byte-level BPE of both sides of both files, its
    weights those that the seed draws; what continues it keeps its subwords."""
    import torch
    import transformers
    from tokenizers import ByteLevelBPETokenizer

    data = [two_files(tmp_path, name, prose(name, 40)) for name in ("task", "market")]
    words = ["model.tokenizer_characters=0"]

    run = adapt(max_steps=1, data=data, settings=words)

    reference = ByteLevelBPETokenizer(add_prefix_space=True)
    paths = [tmp_path / f"{name}.{side}" for name in ("task", "market") for side in ("de", "en")]
    lines = [line for path in paths for line in path.read_text("utf-8").splitlines()]
    special = ["<pad>", "</s>", "<unk>"]
    reference.train_from_iterator(lines, 400, 2, show_progress=False, special_tokens=special)
    found = transformers.AutoTokenizer.from_pretrained(run.path)
    assert found.get_vocab() == reference.get_vocab()
    merges = json.loads(found.backend_tokenizer.to_str())["model"]["merges"]
    assert merges == json.loads(reference._tokenizer.to_str())["model"]["merges"]

    drawn = new_model("tiny", "translation", lines, vocabulary=400, attention="sdpa", seed=0).model
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(run.path)
    assert model.state_dict().keys() == drawn.state_dict().keys()
    for name, weight in drawn.state_dict().items():
        assert torch.equal(model.state_dict()[name], weight), name

    after = adapt("after", model=run.path, data=data[1], settings=["model.dropout=0.3"])
    assert transformers.AutoTokenizer.from_pretrained(after.path).get_vocab() == found.get_vocab()
    fewer = adapt("fewer", max_steps=1, data=data, settings=["model.tokenizer_characters=900"])
    other = transformers.AutoTokenizer.from_pretrained(fewer.path)
    assert other.get_vocab() != found.get_vocab()


def test_a_dry_run_projects_pairs(pairs, selection, inline):
    words = {"init": "tiny", "objective": "translation", "machine": inline, "epochs": 3}
    settings = [*ON_CPU, "model.vocabulary=400", "objective.pair_tokens=400"]
    for data in (pairs, selection):
        found = training.estimate_adaptation(data=data, settings=settings, **words)
        assert found["max_steps"] > 3
        assert found["tokens"] > 500


@pytest.mark.parametrize("kind", ["marian", "t5"])
def test_training_of_any_encoder_decoder_goes_on(adapt, translators, kind):
    run = adapt(model=translators[kind], max_steps=20, settings=["train.learning_rate=1e-2"])
    losses = run.manifest["losses"]
    assert losses["after"]["data"] < losses["before"]["data"]


@pytest.mark.long
def test_killed_training_ends_with_the_same_weights(cli, start, tmp_path, pairs):
    """A real process, killed once it has a checkpoint; then the same command again."""
    settings = [*ON_CPU, "model.vocabulary=400", "objective.pair_tokens=400", "model.dropout=0.2"]
    settings += ["train.checkpoint_minutes=0.001", "train.evaluations=3", "train.keep=best"]

    def command(out):
        return (
            *("adapt", "--objective", "translation", "--init", "tiny", "--data", pairs),
            *("--max-steps", 60, "--out", tmp_path / out, "--seed", 3),
            *(word for setting in settings for word in ("--set", setting)),
        )

    assert cli(*command("whole")).code == 0
    assert kill_at(start(*command("killed")), tmp_path, "killed/**/step-*/state.json", 1)
    assert not (tmp_path / "killed/model.safetensors").exists()
    assert cli(*command("killed")).code == 0
    one, two = ((tmp_path / n / "model.safetensors").read_bytes() for n in ("whole", "killed"))
    assert one == two
