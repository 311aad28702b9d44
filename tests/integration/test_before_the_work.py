"""What cannot be trained or evaluated is refused before any text is tokenised or model trained."""

import dataclasses
from functools import partial

import pytest
import torch
import transformers as tf
from journeys import prose
from safetensors.torch import load_file

import corpusfit
from corpusfit import evaluation, training
from corpusfit.core.errors import ModelError, UsageError
from listening import Listening

pytest.importorskip("accelerate", reason="the extra train is not installed")
ON_CPU = ["train.device=cpu", "train.precision=fp32"]
SIZES = {
    "hidden_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 48,
    "max_position_embeddings": 64,
}


@pytest.fixture
def machine(inline):
    """This process, with what it says."""
    return dataclasses.replace(inline, progress=Listening())


@pytest.fixture
def models(tmp_path, tiny_lm, word_pieces):
    """Models that cannot be trained with some objective, by name, made when they are asked for."""
    tokenizer = tf.AutoTokenizer.from_pretrained(tiny_lm)
    sizes = SIZES | {"vocab_size": len(tokenizer)}

    def make(name):
        folder = tmp_path / name.replace(" ", "-")
        torch.manual_seed(0)
        own = tokenizer
        if name == "one type of token":
            model = tf.BertForPreTraining(tf.BertConfig(**sizes, type_vocab_size=1))
        elif name == "experts":
            config = tf.MixtralConfig(**sizes, num_key_value_heads=2, num_local_experts=2)
            model = tf.MixtralForCausalLM(config)
        elif name == "small vocabulary":
            model = tf.BertForMaskedLM(tf.BertConfig(**sizes | {"vocab_size": 20}))
        else:
            model = tf.BertForMaskedLM(tf.BertConfig(**sizes))
        if name == "no mask":
            backend = tokenizer.backend_tokenizer
            own = tf.PreTrainedTokenizerFast(tokenizer_object=backend, pad_token="[PAD]")
        model.save_pretrained(folder)
        own.save_pretrained(folder)
        if name == "no safetensors":
            weights = folder / "model.safetensors"
            torch.save(load_file(weights), folder / "pytorch_model.bin")
            weights.unlink()
        if name == "no tokenizer":
            for file in folder.glob("tokenizer*"):
                file.unlink()
        return str(folder)

    return make


@pytest.mark.parametrize("dry", [False, True])
@pytest.mark.parametrize(
    ("model", "words", "says"),
    [
        ("one type of token", {"objective": "mlm+nsp"}, "type_vocab_size"),
        ("small vocabulary", {}, "20"),
        ("no mask", {}, "mask token"),
        ("no safetensors", {}, "safetensors"),
        ("no tokenizer", {}, "tokenizer|loaded"),
        ("encoder", {"objective": "causal"}, "not causal"),
        ("encoder", {"length": 65}, "length.*64"),
        ("encoder", {"weights": "lambda"}, "weights"),
    ],
)
def test_adapt_refuses_before_it_reads(models, machine, jsonl, tmp_path, dry, model, words, says):
    given = {"model": models(model), "data": jsonl("data.jsonl", prose("task", 30)), **words}
    given |= {"settings": ON_CPU, "machine": machine}
    if dry and "weights" in words:
        pytest.skip("a dry run trains on a sample, without weights")
    call = training.estimate_adaptation if dry else partial(corpusfit.adapt, out=tmp_path / "out")
    with pytest.raises((ModelError, UsageError), match=says):
        call(**given)
    assert not any("tokenise" in stage for stage in machine.progress.stages)


@pytest.fixture
def task(jsonl):
    """A task of two topics."""
    for seed, (split, n) in enumerate((("train", 12), ("dev", 4), ("test", 6))):
        rows = [
            {"text": text, "label": topic}
            for topic in ("task", "market")
            for text in prose(topic, n, seed=seed)
        ]
        folder = jsonl(f"topics/{split}.jsonl", rows).parent
    return folder


def test_the_last_of_several_models_is_opened_before_the_first_is_trained(
    models, machine, task, tiny_lm, tmp_path
):
    base = models("no tokenizer")
    words = {"task": task, "model": str(tiny_lm), "base": base, "seeds": 2, "machine": machine}
    words["settings"] = ["finetune.device=cpu", "finetune.epochs=1"]
    with pytest.raises(ModelError, match=r"^`base.*tokenizer") as refused:
        corpusfit.evaluate(out=tmp_path / "out", **words)
    assert machine.progress.stages == []
    assert not list((tmp_path / "out").rglob("*-0.json"))
    found = evaluation.estimate_evaluation(**words)
    assert found["fine_tunings"] == 4
    cause = str(refused.value).partition(": ")[2]
    assert any(cause in warning for warning in machine.progress.warnings)
    one = models("encoder").replace("encoder", "encoder-{seed}")
    for seed in (0, 1):
        (tmp_path / f"encoder-{seed}").mkdir()
        for file in (tmp_path / "encoder").iterdir():
            if not (seed and file.name.startswith("tokenizer")):
                (tmp_path / f"encoder-{seed}" / file.name).write_bytes(file.read_bytes())
    machine.progress.stages.clear()
    with pytest.raises(ModelError, match=r"^`model.*encoder-1"):
        corpusfit.evaluate(out=tmp_path / "seeds", **words | {"model": one, "base": ""})
    assert machine.progress.stages == []
