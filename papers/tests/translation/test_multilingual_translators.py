"""Multilingual models that translate: what evaluation needs of them is checked before training."""

import pytest
import torch
import transformers as tf

from corpusfit.core.engine import WarningCollector
from corpusfit.core.errors import ModelError
from corpusfit.evaluation.network import MODEL_TO_EVALUATE, open_translator
from corpusfit.training.inputs import check_marks
from corpusfit.training.models import open_model
from corpusfit.training.plan import ModelPlan

pytestmark = pytest.mark.skipif(
    int(tf.__version__.split(".")[0]) < 5, reason="needs a vocabulary of its own"
)
SIDES = {
    f"{side}_{name}": value
    for side in ("encoder", "decoder")
    for name, value in {"layers": 1, "attention_heads": 2, "ffn_dim": 32}.items()
}
CODES = {
    "MBart50Tokenizer": ("de_DE", "en_XX"),
    "MBartTokenizer": ("de_DE", "en_XX"),
    "NllbTokenizer": ("deu_Latn", "eng_Latn"),
}


def saved(folder, kind, *, source=True, target=True, forced=None, start=2):
    """A model whose tokenizer has these languages set, and whose decoder is forced to one."""
    names = dict(zip(("src_lang", "tgt_lang"), CODES[kind], strict=True))
    wanted = {"src_lang": source, "tgt_lang": target}
    tokenizer = getattr(tf, kind)(**{k: v for k, v in names.items() if wanted[k]})
    tokenizer.save_pretrained(folder)
    config = (tf.MBartConfig if "MBart" in kind else tf.M2M100Config)(
        vocab_size=len(tokenizer), d_model=16, max_position_embeddings=48, **SIDES
    )
    torch.manual_seed(0)
    model = tf.AutoModelForSeq2SeqLM.from_config(config)
    first = None if forced is None else tokenizer.convert_tokens_to_ids(names[forced])
    model.generation_config.forced_bos_token_id = first
    began = tokenizer.convert_tokens_to_ids(names[start]) if isinstance(start, str) else start
    model.generation_config.decoder_start_token_id = began
    model.save_pretrained(folder)
    return folder


def opened(folder):
    plan = ModelPlan(name=str(folder))
    return open_model(plan, "translation", attention="eager", seed=0, on_warn=pytest.fail)


def refused(folder, opening):
    with pytest.raises(ModelError, match=r"src_lang|tgt_lang") as error:
        opening(folder)
    return str(error.value)


def translating(folder):
    return open_translator(MODEL_TO_EVALUATE, str(folder))


@pytest.mark.parametrize("kind", ["MBart50Tokenizer", "NllbTokenizer"])
def test_languages_are_set_before_training(tmp_path, kind):
    folder = saved(tmp_path / "whole", kind, forced="tgt_lang")
    assert opened(folder).tokenizer.src_lang == CODES[kind][0]
    assert translating(folder)[1].src_lang == CODES[kind][0]
    # German would be trained as the default source language, English, and evaluated so
    default = saved(tmp_path / "default", kind, source=False, target=False)
    same = saved(tmp_path / "same", kind, source=False, forced="tgt_lang")
    unforced = saved(tmp_path / "unforced", kind)
    for folder in (default, same, unforced):
        assert refused(folder, opened) == refused(folder, translating)


@pytest.mark.parametrize("kind", ["MBart50Tokenizer", "NllbTokenizer"])
def test_training_needs_the_target_language_that_translations_begin_with(tmp_path, kind):
    folder = saved(tmp_path, kind, target=False, forced="tgt_lang")
    refused(folder, opened)
    translating(folder)  # reads no target text


def test_the_first_mbart_begins_with_the_language_itself(tmp_path):
    folder = saved(tmp_path / "whole", "MBartTokenizer", start="tgt_lang")
    assert opened(folder).special.start == -1
    translating(folder)
    without = saved(tmp_path / "without", "MBartTokenizer")
    assert refused(without, opened) == refused(without, translating)


@pytest.mark.parametrize("kind", CODES)
def test_a_side_that_is_marked_as_another_language_is_named(kind):
    pytest.importorskip("langcodes", reason="the extra languages is not installed")
    tokenizer = getattr(tf, kind)(tgt_lang=CODES[kind][1])  # the source stays the default, English
    heard = WarningCollector()
    check_marks(tokenizer, ("en", "en"), heard)
    assert heard.warnings == []
    check_marks(tokenizer, ("de", "en"), heard)
    (warning,) = heard.warnings
    assert "src_lang" in warning
    assert tokenizer.src_lang in warning
    check_marks(
        tf.PreTrainedTokenizerFast(tokenizer_object=tokenizer._tokenizer), ("de", "en"), heard
    )
    assert len(heard.warnings) == 1
