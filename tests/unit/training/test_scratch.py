"""Untrained models: sizes, and equal tokenizers from equal texts in any process."""

import hashlib
import os
import subprocess
import sys

import numpy as np
import pytest
import torch

from corpusfit.core.errors import EmptyInputError
from corpusfit.training.models import new_model, open_model, save_model
from corpusfit.training.plan import ModelPlan

SYLLABLES = ["ka", "mo", "ti", "re", "su", "lo", "na", "vé", "ß", "測", "試", "q", "zu"]


def texts():
    """Words of few syllables, so that many pairs are equally common."""
    rng = np.random.default_rng(0)
    words = ["".join(rng.choice(SYLLABLES, rng.integers(1, 5))) for _ in range(1_000)]
    return [" ".join(rng.choice(words, 30)).capitalize() + "." for _ in range(60)]


def made(objective="mlm", init="tiny", **changes):
    settings = {"vocabulary": 300, "attention": "eager", "seed": 0, **changes}
    return new_model(init, objective, iter(texts()), **settings)


def tokenizer_json(opened):
    return opened.tokenizer.backend_tokenizer.to_str()


def weights(opened):
    return torch.cat([p.flatten() for p in opened.model.state_dict().values()])


@pytest.mark.parametrize("init", ["tiny", "mini", "small"])
def test_sizes_are_those_of_berts_miniatures(init):
    layers, width = {"tiny": (2, 128), "mini": (4, 256), "small": (4, 512)}[init]
    for objective in ("mlm", "causal"):
        config = made(objective, init).model.config
        assert (config.num_hidden_layers, config.hidden_size) == (layers, width)
        assert config.num_attention_heads == width // 64
        assert config.max_position_embeddings == 512
    assert made(init=init).model.config.intermediate_size == 4 * width


@pytest.mark.parametrize("objective", ["mlm", "mlm+nsp", "causal"])
def test_the_same_texts_make_the_same_model(objective):
    one, two, other = made(objective), made(objective), made(objective, seed=1)
    assert tokenizer_json(one) == tokenizer_json(two) == tokenizer_json(other)
    assert one.fingerprint == two.fingerprint != other.fingerprint
    assert torch.equal(weights(one), weights(two))
    assert not torch.equal(weights(one), weights(other))


@pytest.mark.slow
def test_other_processes_make_the_same_tokenizers():
    code = (
        "import sys, hashlib; sys.path.insert(0, sys.argv[1]); import test_scratch as t; "
        "print(*(hashlib.sha256(t.tokenizer_json(t.made(objective)).encode()).hexdigest() "
        "for objective in sys.argv[2:]))"
    )
    here = os.path.dirname(__file__)  # noqa: PTH120
    objectives = ("mlm", "causal")
    command = [sys.executable, "-W", "ignore", "-c", code, here, *objectives]
    path = os.pathsep.join(p for p in sys.path if p)
    wanted = [hashlib.sha256(tokenizer_json(made(o)).encode()).hexdigest() for o in objectives]
    # another order of sets and the like than this process has
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    assert done.stdout.split() == wanted


def test_a_word_piece_tokenizer_as_berts():
    got = made()
    tokenizer, special = got.tokenizer, got.special
    assert (special.prefix, special.suffix, special.mask, special.pad) == ((2,), (3,), 4, 0)
    assert special.vocabulary == 300 == got.model.config.vocab_size
    assert not special.ordinary[:5].any()
    assert special.ordinary[5:].all()
    assert 0 < special.begins.sum() < special.ordinary.sum()
    ids = tokenizer("KAMO vé. 測試!")["input_ids"]
    assert tokenizer.decode(ids) == "[CLS] kamo ve. 測 試 [UNK] [SEP]"
    pair = tokenizer("ka", "mo")
    assert pair["token_type_ids"] == [0] * 3 + [1] * (len(pair["input_ids"]) - 3)


def test_a_byte_level_tokenizer_as_gpt2s():
    got = made("causal", vocabulary=400)
    assert (got.special.prefix, got.special.suffix, got.special.end) == ((), (), 0)
    assert got.special.vocabulary == 400
    for text in ("Never seen: Ω ≈ 3\n", " kamo", "測試"):
        assert got.tokenizer.decode(got.tokenizer(text)["input_ids"]) == text
    assert len(got.tokenizer("kamo")["input_ids"]) < 4


def test_rare_characters_are_unknown_and_ties_are_broken_by_code_point():
    many = "".join(chr(0x4E00 + i) for i in range(2_000))
    got = new_model("tiny", "mlm", [many, "aaa"], vocabulary=0, attention="eager", seed=0)
    known = got.tokenizer.get_vocab()
    kept = sorted(t for t in known if len(t) == 1)
    assert kept == ["a", *many[:999]]
    assert known["[UNK]"] in got.tokenizer(many[1_500])["input_ids"]


@pytest.mark.parametrize("objective", ["mlm", "mlm+nsp", "causal"])
def test_a_saved_one_is_opened_like_any_model(objective, tmp_path):
    got = made(objective, attention="sdpa")
    save_model(got.model, got.tokenizer, tmp_path / "new")
    plan = ModelPlan(name=str(tmp_path / "new"))
    again = open_model(plan, objective, attention="sdpa", seed=0, on_warn=pytest.fail)
    assert torch.equal(weights(got), weights(again))
    assert tokenizer_json(again) == tokenizer_json(got)
    assert again.max_length == got.max_length == 512


def test_no_text():
    with pytest.raises(EmptyInputError, match=r"^`model\.init` trains"):
        new_model("tiny", "mlm", ["", "  "], vocabulary=0, attention="eager", seed=0)


def test_next_sentence_head():
    out = made("mlm+nsp").model(input_ids=torch.tensor([[2, 9, 3]]))
    assert out.seq_relationship_logits.shape == (1, 2)
