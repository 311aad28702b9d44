"""Opening and saving models, missing weights, and error messages."""

import json
import re
import shutil
import sys

import numpy as np
import pytest
import torch
import transformers as tf
from huggingface_hub.utils import filter_repo_objects
from safetensors.torch import load_file
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from corpusfit.core.errors import ModelError, UsageError
from corpusfit.embed.folders import EXCLUDED, PATTERNS
from corpusfit.training.folder import AdaptFolder
from corpusfit.training.models import NewWords, add_words, open_model, save_model, set_dropout
from corpusfit.training.plan import ModelPlan
from corpusfit.training.special_tokens import backend_tokenizer

WORDS = ["[PAD]", "[unused0]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "##b", "b", "the", "."]
SIZES = {
    "vocab_size": len(WORDS) + 1,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 48,
    "max_position_embeddings": 40,
}


def word_pieces(**roles):
    pieces = Tokenizer(models.WordPiece({w: i for i, w in enumerate(WORDS)}, unk_token="[UNK]"))
    pieces.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    pieces.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 3), ("[SEP]", 4)]
    )
    pieces.enable_padding(length=16, pad_id=0, pad_token="[PAD]")
    pieces.enable_truncation(16)
    named = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
    named = {f"{role}_token": token for role, token in {**named, **roles}.items() if token}
    return tf.PreTrainedTokenizerFast(tokenizer_object=pieces, model_max_length=16, **named)


def byte_pairs():
    alphabet = ["<|end|>", *sorted(pre_tokenizers.ByteLevel.alphabet())]
    vocabulary = {token: i for i, token in enumerate(alphabet)} | {"Ġa": 257, "ab": 258}
    pairs = Tokenizer(models.BPE(vocabulary, [("Ġ", "a"), ("a", "b")]))
    pairs.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return tf.PreTrainedTokenizerFast(tokenizer_object=pairs, eos_token="<|end|>")


def saved(folder, kind, config, tokenizer):
    torch.manual_seed(0)
    kind(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture
def bert(tmp_path):
    return saved(tmp_path / "bert", tf.BertForMaskedLM, tf.BertConfig(**SIZES), word_pieces())


@pytest.fixture
def headless(tmp_path):
    return saved(tmp_path / "headless", tf.BertModel, tf.BertConfig(**SIZES), word_pieces())


@pytest.fixture
def gpt2(tmp_path):
    config = tf.GPT2Config(
        vocab_size=259, n_embd=32, n_layer=2, n_head=2, n_positions=40, bos_token_id=0
    )
    config.eos_token_id = 0
    return saved(tmp_path / "gpt2", tf.GPT2Model, config, byte_pairs())


def opening(folder, objective="mlm", *, new_head=False, attention="eager", seed=0):
    warned = []
    plan = ModelPlan(name=str(folder), new_head=new_head)
    got = open_model(plan, objective, attention=attention, seed=seed, on_warn=warned.append)
    return got, warned


def head(model):
    return model.cls.predictions.transform.dense.weight


def test_what_is_in_the_folder_is_what_is_opened(bert, capfd):
    got, warned = opening(bert)
    assert warned == []
    assert not got.model.training
    assert got.max_length == 40  # of the model, not the 16 of its tokenizer
    files = load_file(bert / "model.safetensors")
    state = got.model.state_dict()
    assert all(torch.equal(state[name], tensor) for name, tensor in files.items())
    assert capfd.readouterr() == ("", "")


def test_a_process_that_is_sent_the_weights_reads_none(bert, gpt2, monkeypatch):
    for folder, objective in ((bert, "mlm"), (gpt2, "causal")):
        plan, words = ModelPlan(str(folder), new_head=True), {"attention": "sdpa", "seed": 0}
        whole, outline = (
            open_model(plan, objective, **words, on_warn=len, weights=weights)
            for weights in (True, False)
        )
        for opened in (whole, outline):
            add_words(opened, NewWords(("thebb", "aab"), ((8, 9), (7, 9)), 0.1), objective)
        ours, theirs = (dict(opened.model.named_parameters()) for opened in (outline, whole))
        assert {name: p.shape for name, p in ours.items()} == {
            n: p.shape for n, p in theirs.items()
        }
        assert {p.device.type for p in ours.values()} == {"meta"}
        assert not outline.model.training
        assert (outline.fingerprint, outline.max_length) == (whole.fingerprint, whole.max_length)
    # a model that needs numbers when it is built is read
    monkeypatch.setattr(tf.AutoModelForMaskedLM, "from_config", lambda *_, **__: 1 / 0)
    read = open_model(ModelPlan(str(bert)), "mlm", **words, on_warn=len, weights=False)
    assert read.model.device.type == "cpu"


def test_half_precision_is_opened_as_float32(bert):
    model = tf.BertForMaskedLM.from_pretrained(bert).to(torch.bfloat16)
    model.save_pretrained(bert)
    got, _ = opening(bert)
    assert {p.dtype for p in got.model.parameters()} == {torch.float32}


def test_a_model_without_sdpa_is_opened_with_eager(tmp_path):
    config = tf.MPNetConfig(**SIZES)
    folder = saved(tmp_path / "mpnet", tf.MPNetForMaskedLM, config, word_pieces())
    got, warned = opening(folder, attention="sdpa")
    assert (got.model.config._attn_implementation, warned) == ("eager", [])
    assert got.max_length == 38  # positions begin after the padding index


def test_marks_of_word_pieces(bert):
    special = opening(bert)[0].special
    assert (special.prefix, special.suffix, special.mask, special.pad, special.end) == (
        (3,),
        (4,),
        5,
        0,
        None,
    )
    assert special.vocabulary == len(WORDS)
    ordinary = [WORDS[i] for i in np.flatnonzero(special.ordinary)]
    assert ordinary == ["a", "##b", "b", "the", "."]
    assert [WORDS[i] for i in np.flatnonzero(special.begins)] == ["a", "b", "the", "."]


def test_marks_of_byte_pairs(gpt2):
    got, warned = opening(gpt2, "causal")
    special = got.special
    assert warned == []  # the head is tied to the embeddings, which the file has
    assert (special.prefix, special.suffix, special.mask, special.pad, special.end) == (
        (),
        (),
        None,
        0,
        0,
    )
    assert special.vocabulary == 259
    assert not special.ordinary[0]
    assert special.ordinary[1:].all()
    tokens = {i: t for t, i in got.tokenizer.get_vocab().items()}
    assert {tokens[i][0] for i in np.flatnonzero(special.begins)} == {"Ġ", "Ċ", "ĉ"}


def test_a_model_without_a_table_of_embeddings_is_refused(tmp_path):
    sizes = {"d_latents": 32, "d_model": 32, "num_latents": 8, "max_position_embeddings": 40}
    heads = {"num_self_attention_heads": 2, "num_cross_attention_heads": 2}
    config = tf.PerceiverConfig(**sizes, **heads, num_blocks=1, num_self_attends_per_block=1)
    folder = saved(tmp_path / "perceiver", tf.PerceiverForMaskedLM, config, word_pieces())
    with pytest.raises(ModelError, match=r"^`model\.name`: .*`objective\.name=mlm`.*embeddings"):
        opening(folder)


def test_a_missing_head_is_an_error_that_names_it_and_the_cure(headless):
    with pytest.raises(
        ModelError,
        match=r"^`model\.name`: .*`objective\.name=mlm` .*cls\.predictions.*`model\.new_head=true`",
    ) as e:
        opening(headless)
    assert "\n" not in str(e.value)


def test_a_new_head_is_seeded_and_warned_about(headless):
    got, warned = opening(headless, new_head=True, seed=3)
    assert len(warned) == 1
    assert "cls.predictions" in warned[0]
    again, other = (opening(headless, new_head=True, seed=s)[0] for s in (3, 4))
    assert torch.equal(head(got.model), head(again.model))
    assert not torch.equal(head(got.model), head(other.model))
    body = load_file(headless / "model.safetensors")["embeddings.word_embeddings.weight"]
    table = got.model.get_input_embeddings().weight
    assert torch.equal(table, body)
    assert got.model.cls.predictions.decoder.weight is table


def test_next_sentence_needs_its_head_and_the_pooler(bert):
    with pytest.raises(ModelError, match=r"^`model\.name`: .*bert\.pooler.*`model\.new_head=true`"):
        opening(bert, "mlm+nsp")
    got, warned = opening(bert, "mlm+nsp", new_head=True)
    assert len(warned) == 1
    assert got.model(input_ids=torch.tensor([[3, 6, 4]])).seq_relationship_logits.shape == (1, 2)


def test_next_sentence_needs_two_types_of_tokens(tmp_path):
    config = tf.BertConfig(**SIZES, type_vocab_size=1)
    folder = saved(tmp_path / "one", tf.BertForPreTraining, config, word_pieces())
    with pytest.raises(ModelError, match=r"objective\.name=mlm\+nsp.*type_vocab_size"):
        opening(folder, "mlm+nsp")
    assert opening(folder, "mlm")[0].special.prefix == (3,)


def test_a_decoder_is_not_trained_with_masks(tmp_path):
    config = tf.BertConfig(**SIZES, is_decoder=True)
    folder = saved(tmp_path / "decoder", tf.BertLMHeadModel, config, word_pieces())
    with pytest.raises(
        ModelError, match=r"`objective\.name=mlm.*is_decoder.*`objective\.name=causal`"
    ):
        opening(folder, "mlm")
    opening(folder, "causal")


def test_a_vocabulary_of_four_letters_and_an_end(tmp_path):
    words = {letter: i for i, letter in enumerate("ACGT")} | {"<end>": 4}
    letters = Tokenizer(models.BPE(words, []))
    tokenizer = tf.PreTrainedTokenizerFast(tokenizer_object=letters, eos_token="<end>")
    config = tf.GPT2Config(
        vocab_size=5, n_embd=32, n_layer=1, n_head=2, n_positions=40, eos_token_id=4
    )
    folder = saved(tmp_path / "dna", tf.GPT2LMHeadModel, config, tokenizer)
    special = opening(folder, "causal")[0].special
    assert (special.prefix, special.suffix, special.end) == ((), (), 4)


def test_weights_missing_from_the_body_are_never_made_up(bert):
    from safetensors.torch import save_file

    weights = load_file(bert / "model.safetensors")
    gone = "bert.encoder.layer.1.output.dense.weight"
    del weights[gone]
    save_file(weights, bert / "model.safetensors", {"format": "pt"})
    with pytest.raises(ModelError, match=re.escape(gone)):
        opening(bert, new_head=True)


def test_an_objective_that_does_not_suit_the_architecture_is_refused(bert, gpt2, tmp_path):
    with pytest.raises(
        ModelError, match=r"^`model\.name`: .*`objective\.name=mlm`:.*Use `objective\.name=causal`,"
    ):
        opening(gpt2)
    with pytest.raises(
        ModelError, match=r"^`model\.name`: .*`objective\.name=causal`:.*Use `objective\.name=mlm`,"
    ):
        opening(bert, "causal")
    roberta = tmp_path / "roberta"
    saved(roberta, tf.RobertaForMaskedLM, tf.RobertaConfig(**SIZES), word_pieces())
    with pytest.raises(
        ModelError,
        match=r"^`model\.name`: .*`objective\.name=mlm\+nsp`:.*Use `objective\.name=mlm`,",
    ):
        opening(roberta, "mlm+nsp")
    t5 = tf.T5Config(vocab_size=20, d_model=16, num_layers=1, num_heads=2, d_kv=8, d_ff=16)
    both = saved(tmp_path / "t5", tf.T5ForConditionalGeneration, t5, word_pieces())
    with pytest.raises(ModelError, match="encoder-decoder"):
        opening(both)


def test_no_mask_token(tmp_path):
    config = tf.BertConfig(**SIZES)
    folder = saved(tmp_path / "bert", tf.BertForMaskedLM, config, word_pieces(mask=None))
    with pytest.raises(
        ModelError, match=r"`objective\.name=mlm`:.*mask token.*Use `objective\.name=causal`,"
    ):
        opening(folder)


def test_more_tokens_than_the_model_knows(bert):
    tokenizer = word_pieces()
    tokenizer.add_tokens(["more", "and more"])
    tokenizer.save_pretrained(bert)
    with pytest.raises(ModelError, match=r"^`model\.name`: .* 13 .* 12\b"):
        opening(bert)


def test_what_is_no_model_is_an_error_that_names_the_setting(bert, tmp_path, monkeypatch):
    with pytest.raises(UsageError, match=r"^`model\.name` must .*'\./missing'"):
        opening("./missing")
    with pytest.raises(ModelError, match=r"^`model\.name` must .*config\.json"):
        opening(tmp_path)
    (bert / "model.safetensors").rename(bert / "pytorch_model.bin")
    with pytest.raises(ModelError, match=r"^`model\.name` must .*safetensors"):
        opening(bert)
    (bert / "model.safetensors").write_bytes(b"nothing")
    with pytest.raises(ModelError, match=rf"^`model\.name`: {re.escape(str(bert))}") as e:
        opening(bert)
    assert "\n" not in str(e.value)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    with pytest.raises(
        ModelError, match=r"^`model\.name` must .*someone/some-model.*`model\.init=tiny`\."
    ):
        opening("someone/some-model")


def test_a_hub_id_is_downloaded_without_pickles(bert, monkeypatch):
    requests = []

    def download(name, **options):
        requests.append((name, options["allow_patterns"]))
        return str(bert)

    monkeypatch.setattr("huggingface_hub.snapshot_download", download)
    got, _ = opening("someone/some-model")
    assert got.name == "someone/some-model"
    assert [name for name, _ in requests] == ["someone/some-model"]
    assert "*.safetensors" in requests[0][1]
    assert not [p for p in requests[0][1] if p in ("*", "*.bin", "*.py", "*.pt", "*.pkl")]


def test_the_fingerprint_is_of_the_files(bert, tmp_path):
    copy = shutil.copytree(bert, tmp_path / "copy")
    one, two = opening(bert)[0], opening(copy)[0]
    assert one.fingerprint == two.fingerprint
    with torch.no_grad():
        two.model.bert.embeddings.word_embeddings.weight[7, 3] += 1
    two.model.save_pretrained(copy)
    changed = opening(copy)[0].fingerprint
    assert changed != one.fingerprint
    (copy / "chat_template.jinja").write_text("{{ messages }}")
    assert opening(copy)[0].fingerprint != changed


@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_saved_and_opened_again(name, request, tmp_path):
    objective = "causal" if name == "gpt2" else "mlm"
    got, _ = opening(request.getfixturevalue(name), objective)
    with torch.no_grad():
        for weight in got.model.parameters():
            weight.add_(0.01)
    out = tmp_path / "runs" / "out"
    save_model(got.model, got.tokenizer, out)
    again, warned = opening(out, objective)
    assert warned == []
    ids = torch.tensor([[3, 6, 7, 4]])
    wanted = got.model(input_ids=ids).logits
    assert torch.equal(again.model(input_ids=ids).logits, wanted)
    assert again.tokenizer("ab the")["input_ids"] == got.tokenizer("ab the")["input_ids"]
    states = tf.AutoModel.from_pretrained(out)(input_ids=ids).last_hidden_state
    torch.testing.assert_close(states, got.model.base_model(input_ids=ids).last_hidden_state)
    fields = json.loads((out / "tokenizer_config.json").read_text())
    assert fields["tokenizer_class"] == "PreTrainedTokenizerFast"  # transformers 4 and 5 know it
    # how and where it was opened here is not for those who open it
    assert not {"local_files_only", "is_local", "trust_remote_code"} & fields.keys()
    assert not [p for p in out.glob("*.json") if str(tmp_path) in p.read_text()]
    assert not [p for p in out.iterdir() if p.is_dir()]


def test_saving_over_what_a_killed_run_left(bert, tmp_path):
    got, _ = opening(bert)
    out = tmp_path / "out"
    (out / "saving").mkdir(parents=True)
    (out / "saving" / "nonsense.safetensors").write_bytes(b"half")
    save_model(got.model, got.tokenizer, out)
    first = {p.name: p.read_bytes() for p in out.iterdir()}
    assert "nonsense.safetensors" not in first
    save_model(got.model, got.tokenizer, out)
    assert {p.name: p.read_bytes() for p in out.iterdir()} == first
    assert str(tmp_path).encode() not in b"".join(first.values())


def test_a_folder_with_a_config_has_all(bert, tmp_path, monkeypatch):
    module = sys.modules["corpusfit.training.models"]
    got, _ = opening(bert)
    written, writing = [], module.writing

    def recording(path):
        written.append(path.name)
        return writing(path)

    monkeypatch.setattr(module, "writing", recording)
    save_model(got.model, got.tokenizer, tmp_path / "out")
    assert written[-1] == "config.json"
    assert {"model.safetensors", "tokenizer.json"} <= set(written)


def test_text_is_cut_whole_and_unpadded(bert):
    tokenizer = opening(bert)[0].tokenizer
    before = tokenizer.backend_tokenizer.to_str()
    cutter = backend_tokenizer(tokenizer, "bert")
    assert cutter.encode("a", add_special_tokens=False).ids == [6]
    assert len(cutter.encode("the " * 50, add_special_tokens=False).ids) == 50
    assert tokenizer.backend_tokenizer.to_str() == before


def test_a_chat_template_travels_with_its_model_alone(bert, tmp_path):
    """Through a download, into a saved folder, and out of one that is written anew."""
    kept = filter_repo_objects(
        ["chat_template.jinja", "config.json", "onnx/model.onnx"],
        allow_patterns=PATTERNS,
        ignore_patterns=EXCLUDED,
    )
    assert list(kept) == ["chat_template.jinja", "config.json"]
    opened = opening(bert)[0]
    opened.tokenizer.chat_template = {"default": "{{ messages }}", "tool_use": "{{ tools }}"}
    out = tmp_path / "out"
    out.mkdir()
    save_model(opened.model, opened.tokenizer, out)
    written = tf.AutoTokenizer.from_pretrained(out)
    assert written.chat_template == opened.tokenizer.chat_template
    AdaptFolder(out)._clear()
    assert [path for path in out.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize("kind", ["ModernBert", "Falcon", "GPTNeoX", "Bloom"])
def test_dropout_is_that_of_all_layers(kind):
    config = getattr(tf, f"{kind}Config")()
    names = {name for name in vars(config) if "dropout" in name and "classifier" not in name}
    set_dropout(config, 0.125)
    assert {name for name in names if getattr(config, name) != 0.125} <= {"summary_first_dropout"}


def test_a_base_with_the_old_names_of_norms(bert):
    """gamma and beta, as in the first BERTs; transformers writes them so again."""
    from safetensors.torch import load_file, save_file

    whole, _ = opening(bert)
    stored = load_file(bert / "model.safetensors")
    old = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
    renamed = {}
    for name, weight in stored.items():
        end = ".".join(name.split(".")[-2:])
        renamed[name.removesuffix(end) + old.get(end, end)] = weight + 0.5 * (end in old)
    assert sum(name.endswith((".gamma", ".beta")) for name in renamed) >= 4
    save_file(renamed, bert / "model.safetensors", {"format": "pt"})
    got, warned = opening(bert)
    assert warned == []
    expected = dict(whole.model.named_parameters())
    for name, p in got.model.named_parameters():
        added = 0.5 * (".".join(name.split(".")[-2:]) in old)
        assert torch.equal(p, expected[name] + added), name
    save_model(got.model, got.tokenizer, bert.parent / "out")
    again, warned = opening(bert.parent / "out")
    assert warned == []
    for name, p in again.model.named_parameters():
        assert torch.equal(p, got.model.get_parameter(name)), name
