"""The transformer encoder against sentence-transformers, against the model called by hand, and
against itself in other batches."""

import dataclasses
import json
import shutil

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file

from corpusfit.core.errors import ModelError, UsageError
from corpusfit.core.plan import EmbedPlan
from corpusfit.embed import load, prepare
from corpusfit.embed.folders import ADAPTER
from corpusfit.embed.hardware import Hardware, cpu_has_bf16
from corpusfit.embed.transformer import TransformerEncoder, fingerprint

FP32 = EmbedPlan(precision="fp32", device="cpu", unit_length=False)


def encoder(folder, **changes):
    return load(dataclasses.replace(FP32, embedder=str(folder), **changes))


@pytest.fixture(params=["tiny_encoder", "tiny_gpt2"])
def folder(request):
    return request.getfixturevalue(request.param)


def by_hand(folder, text):
    """Hidden states of one text alone, [tokens, dim], straight from transformers."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModel.from_pretrained(folder).eval()
    ids = tokenizer(text, truncation=True, max_length=64, return_tensors="pt")
    with torch.no_grad():
        return model(**ids).last_hidden_state[0].numpy()


def test_mean_is_that_of_the_model_called_by_hand(folder, texts):
    vectors = encoder(folder).encode(texts)
    assert vectors.dtype == np.float32
    for text, vector in zip(texts, vectors, strict=True):
        if text:
            np.testing.assert_allclose(vector, by_hand(folder, text).mean(0), atol=1e-5)


def test_a_word_has_one_vector_in_every_form(folder):
    one = encoder(folder)
    forms = ["aspirin binds ﬁne", "aspi\u00adrin bin\u200bds fine", "ａｓｐｉｒｉｎ 𝐛inds fine"]
    assert (one.encode(forms) == one.encode(["aspirin binds fine"])).all()


@pytest.mark.parametrize(("which", "position"), [("tiny_encoder", 0), ("tiny_gpt2", -1)])
def test_cls_is_the_first_state_and_a_decoders_last(which, position, request, texts):
    folder = request.getfixturevalue(which)
    vectors = encoder(folder, pooling="cls").encode(texts)
    for text, vector in zip(texts, vectors, strict=True):
        if text:
            np.testing.assert_allclose(vector, by_hand(folder, text)[position], atol=1e-5)


def test_mean_agrees_with_sentence_transformers(tiny_encoder, texts, tmp_path):
    from sentence_transformers import SentenceTransformer

    try:
        from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
    except ImportError:
        from sentence_transformers.models import Pooling, Transformer
    transformer = Transformer(str(tiny_encoder))
    peer = SentenceTransformer(modules=[transformer, Pooling(32, "mean")], device="cpu")
    saved = tmp_path / "saved"
    peer.save_pretrained(str(saved))
    expected = peer.encode(texts, convert_to_numpy=True)
    for folder in (tiny_encoder, saved):
        vectors = encoder(folder).encode(texts)
        np.testing.assert_allclose(vectors, expected, atol=1e-5)


QUERY = {"prompts": {"query": "the kinase ", "text": "a "}, "default_prompt_name": "query"}
STATED = {  # files of a folder of sentence-transformers and what else they say
    "cls": {"1_Pooling/config.json": {"pooling_mode": "cls"}},
    "cls, older": {
        "1_Pooling/config.json": {
            "pooling_mode": None,
            "pooling_mode_cls_token": True,
            "pooling_mode_mean_tokens": False,
        }
    },
    "prompt": {"config_sentence_transformers.json": QUERY},
    "other prompts": {"config_sentence_transformers.json": {**QUERY, "default_prompt_name": None}},
    "few tokens": {"sentence_bert_config.json": {"max_seq_length": 9}},
    "few tokens, older": {"sentence_roberta_config.json": {"max_seq_length": 9}},
    "more tokens than its tokenizer": {
        "tokenizer_config.json": {"model_max_length": 7},
        "sentence_bert_config.json": {"max_seq_length": 40},
    },
    "lower case, as its tokenizer": {"sentence_bert_config.json": {"do_lower_case": True}},
}
UNLIKE = {
    "largest": {"1_Pooling/config.json": {"pooling_mode": "max"}},
    "without the prompt": {
        "1_Pooling/config.json": {"include_prompt": False},
        "config_sentence_transformers.json": QUERY,
    },
    "dense": {"modules.json": [{"idx": 2, "name": "2", "path": "2", "type": "a.Dense"}]},
}


def stating(base, folder, files):
    """A folder of sentence-transformers that has the mean of a model, and says something else."""
    kinds = {"": "Transformer", "1_Pooling": "Pooling"}
    modules = [
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for i, (path, kind) in enumerate(kinds.items())
    ]
    width = {"word_embedding_dimension": 32, "pooling_mode": "mean"}
    shutil.copytree(base, folder)
    for name, value in {"modules.json": modules, "1_Pooling/config.json": width, **files}.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        if name == "modules.json":
            path.write_text(json.dumps(modules + files.get(name, [])))
            continue
        before = json.loads(path.read_text()) if path.exists() else {}
        before |= width if name.startswith("1_") else {}
        whole = {key: v for key, v in {**before, **value}.items() if v is not None}
        path.write_text(json.dumps(whole))
    return folder


@pytest.mark.parametrize("name", STATED)
def test_a_folder_of_sentence_transformers_gives_what_that_library_gives(
    tiny_encoder, texts, tmp_path, name
):
    from sentence_transformers import SentenceTransformer

    saved = stating(tiny_encoder, tmp_path / "saved", STATED[name])
    expected = SentenceTransformer(str(saved), device="cpu").encode(texts)
    found = encoder(saved).encode(texts)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    alone = encoder(saved, pooling="mean")
    if name != "more tokens than its tokenizer":  # the transformer alone, as it is elsewhere
        assert np.array_equal(alone.encode(texts), encoder(tiny_encoder).encode(texts))
    if not name.startswith(("other", "lower")):
        assert abs(found - alone.encode(texts)).max() > 1e-3
        assert prepare(dataclasses.replace(FP32, embedder=str(saved))) != alone.fingerprint


@pytest.mark.parametrize("name", UNLIKE)
def test_what_only_that_library_can_do_is_refused(tiny_encoder, texts, tmp_path, name):
    saved = stating(tiny_encoder, tmp_path / "saved", UNLIKE[name])
    with pytest.raises(ModelError, match=r"^`embed\.embedder`"):
        encoder(saved)
    alone = encoder(saved, pooling="mean").encode(texts)
    assert np.array_equal(alone, encoder(tiny_encoder).encode(texts))


def test_first_tokens_and_letters_that_it_would_read_otherwise_are_refused(
    tiny_gpt2, texts, tmp_path
):
    first = {"1_Pooling/config.json": {"pooling_mode": "cls"}}
    lower = {"sentence_bert_config.json": {"do_lower_case": True}}
    for number, files in enumerate((first, lower)):
        saved = stating(tiny_gpt2, tmp_path / str(number), files)
        with pytest.raises(ModelError, match=r"^`embed\.embedder`.*`embed\.pooling=mean`"):
            encoder(saved)
        assert np.isfinite(encoder(saved, pooling="mean").encode(texts)).all()


def test_an_encoder_that_is_saved_without_its_decoder(tiny_encoder, texts, tmp_path):
    import transformers

    sizes = {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4}
    model = transformers.T5EncoderModel(transformers.T5Config(vocab_size=200, **sizes)).eval()
    shutil.copytree(tiny_encoder, tmp_path / "t5")
    model.save_pretrained(tmp_path / "t5")
    one = encoder(tmp_path / "t5")
    ids = one.tokenizer(texts[0], return_tensors="pt")["input_ids"]
    with torch.no_grad():
        expected = model(input_ids=ids).last_hidden_state[0].mean(0)
    np.testing.assert_allclose(one.encode(texts[:1])[0], expected, atol=1e-5)


def test_order_neighbors_and_budget_change_nothing_but_last_bits(folder, texts):
    one = encoder(folder)
    vectors = one.encode(texts)
    alone = np.concatenate([one.encode([text]) for text in texts])
    np.testing.assert_allclose(vectors, alone, atol=1e-5)
    np.testing.assert_allclose(one.encode(texts[::-1])[::-1], vectors, atol=1e-5)
    small = encoder(folder, batch_tokens=7)
    np.testing.assert_allclose(small.encode(texts), vectors, atol=1e-5)
    assert one.encode(texts).tobytes() == vectors.tobytes()


def test_no_texts_and_an_empty_text(folder):
    one = encoder(folder)
    assert one.encode([]).shape == (0, one.dim) == (0, 32)
    assert np.isfinite(one.encode([""])).all()


def test_no_ids_have_no_embeddings(tiny_encoder):
    assert encoder(tiny_encoder).encode_ids([]).shape == (0, 32)


def test_long_texts_are_cut_at_the_models_limit(folder):
    one = encoder(folder)
    assert one.max_length == 64
    words = "the kinase binds " * 5_000
    np.testing.assert_allclose(one.encode([words]), one.encode([words + "more"]), atol=1e-6)


def test_the_model_never_sees_more_than_the_budget(tiny_encoder, texts):
    one = encoder(tiny_encoder, batch_tokens=80)
    seen = []
    one.model.register_forward_pre_hook(
        lambda _, args, kwargs: seen.append(kwargs["input_ids"].numel()), with_kwargs=True
    )
    one.encode(texts * 20)
    assert seen
    assert max(seen) <= 80


def test_progress_adds_up(folder, texts):
    told = []
    encoder(folder).encode(texts, told.append)
    assert sum(told) == len(texts)


def test_fingerprint_is_identity_of_content(tiny_encoder, tmp_path):
    def of(folder, **changes):
        return prepare(dataclasses.replace(FP32, embedder=str(folder), **changes))

    copy = shutil.copytree(tiny_encoder, tmp_path / "elsewhere")
    first = of(tiny_encoder)
    assert encoder(tiny_encoder).fingerprint == first == of(copy)
    assert int(first, 16) >= 0
    others = {first, of(copy, pooling="cls"), of(copy, precision="bf16"), of(copy, batch_tokens=9)}
    weights = copy / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"\x01")
    others.add(of(copy))
    assert len(others) == 5


def test_an_encoder_decoder_gives_its_encoder(tiny_encoder, texts, tmp_path):
    from transformers import T5Config, T5Model

    folder = shutil.copytree(tiny_encoder, tmp_path / "t5")
    sizes = {"d_model": 16, "d_kv": 4, "d_ff": 24, "num_layers": 1, "num_heads": 2}
    T5Model(T5Config(vocab_size=200, **sizes)).save_pretrained(folder)
    vectors = encoder(folder).encode(texts)
    assert vectors.shape == (len(texts), 16)
    assert np.isfinite(vectors).all()


def test_robertas_positions_begin_late(tiny_encoder, tmp_path):
    from transformers import RobertaConfig, RobertaModel

    folder = shutil.copytree(tiny_encoder, tmp_path / "roberta")
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = RobertaConfig(
        vocab_size=200, max_position_embeddings=34, intermediate_size=24, pad_token_id=1, **sizes
    )
    RobertaModel(config).save_pretrained(folder)
    one = encoder(folder)
    assert one.max_length == 32
    assert np.isfinite(one.encode(["the kinase binds " * 100])).all()


def test_other_weights_are_refused(tiny_encoder, tmp_path):
    folder = shutil.copytree(tiny_encoder, tmp_path / "bin")
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(ModelError, match=r"safetensors.*pytorch_model\.bin.*save_pretrained"):
        prepare(EmbedPlan(embedder=str(folder)))


def test_broken_folders_are_named(tiny_encoder, tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(ModelError, match=r"config\.json"):
        prepare(EmbedPlan(embedder=str(empty)))
    (empty / ".corpusfit").mkdir()
    (empty / ".corpusfit/run.json").write_text('{"command": "adapt"}')
    with pytest.raises(ModelError, match="unfinished `corpusfit adapt`"):
        prepare(EmbedPlan(embedder=str(empty)))
    (empty / "manifest.json").write_text(json.dumps({"command": "select"}))
    with pytest.raises(ModelError, match="First: corpusfit adapt"):
        prepare(EmbedPlan(embedder=str(empty)))
    (empty / "manifest.json").write_text("[]")
    with pytest.raises(ModelError, match="JSON dict"):
        prepare(EmbedPlan(embedder=str(empty)))
    broken = shutil.copytree(tiny_encoder, tmp_path / "broken")
    (broken / "model.safetensors").write_bytes(b"no weights at all")
    with pytest.raises(ModelError, match=r"^`embed\.embedder`: "):
        encoder(broken)
    (broken / "config.json").write_text("{")
    with pytest.raises(ModelError, match=r"config\.json|modules\.json"):
        prepare(EmbedPlan(embedder=str(broken)))
    (broken / "config.json").write_text("{}")
    (broken / "modules.json").write_text('[{"type": "sentence_transformers.models.BoW"}]')
    with pytest.raises(ModelError, match="BoW"):
        prepare(EmbedPlan(embedder=str(broken)))


@pytest.mark.parametrize("path", ["..", "../bert", "/", "a/../../bert"])
def test_a_model_does_not_lead_out_of_its_folder(tmp_path, path):
    modules = [{"type": "sentence_transformers.models.Transformer", "path": path}]
    (tmp_path / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(ModelError, match="in its folder"):
        prepare(EmbedPlan(embedder=str(tmp_path)))


def test_a_model_with_an_adapter_beside_it_is_refused(tiny_encoder, tmp_path):
    folder = shutil.copytree(tiny_encoder, tmp_path / "both")
    (folder / ADAPTER).write_text("{}")
    with pytest.raises(ModelError, match="also holds an adapter"):
        prepare(EmbedPlan(embedder=str(folder)))


def test_cuda_where_there_is_none(tiny_encoder, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(UsageError, match=r"embed\.device"):
        prepare(EmbedPlan(embedder=str(tiny_encoder), device="cuda"))


def test_bf16_is_read_from_the_processors_flags(tmp_path):
    info = tmp_path / "cpuinfo"
    assert not cpu_has_bf16(info)
    info.write_text("model name : x\nflags\t\t: fpu avx512f\n")
    assert not cpu_has_bf16(info)
    info.write_text("flags\t\t: fpu avx512_bf16\n")
    assert cpu_has_bf16(info)


def test_bf16_stays_close(tiny_encoder, texts):
    exact = encoder(tiny_encoder).encode(texts)
    rough = encoder(tiny_encoder, precision="bf16").encode(texts)
    cosine = (exact * rough).sum(1) / np.linalg.norm(exact, axis=1) / np.linalg.norm(rough, axis=1)
    assert cosine.min() > 0.995


def test_by_default_only_the_length_of_a_vector_is_lost(tiny_encoder, texts):
    raw = encoder(tiny_encoder).encode(texts)
    unit = encoder(tiny_encoder, unit_length=True).encode(texts)
    lengths = np.linalg.norm(raw, axis=1, keepdims=True)
    np.testing.assert_allclose(unit, raw / lengths, atol=1e-6)
    assert EmbedPlan().unit_length


@pytest.mark.parametrize("change", ["prefix", "layer"])
def test_missing_weights_are_refused(tiny_encoder, tmp_path, change):
    """transformers would draw them anew in each process, without a word."""
    folder = shutil.copytree(tiny_encoder, tmp_path / "model")
    file = folder / "model.safetensors"
    weights = load_file(file)
    if change == "prefix":
        weights = {f"0.auto_model.{name}": weight for name, weight in weights.items()}
    else:
        weights = {name: w for name, w in weights.items() if ".layer.1." not in name}
    save_file(weights, file, {"format": "pt"})
    with pytest.raises(ModelError, match="lacks weights"):
        load(EmbedPlan(str(folder)))


def test_fp16_stays_close_and_says_where_it_does_not(tiny_encoder, texts):
    whole = encoder(tiny_encoder)
    half = dataclasses.replace(whole, precision="fp16")
    expected, vectors = whole.encode(texts), half.encode(texts)
    assert vectors.dtype == np.float32
    assert 0 < np.abs(vectors - expected).max() < 0.02
    with torch.no_grad():
        whole.model.encoder.layer[0].intermediate.dense.bias.fill_(1e6)
    assert np.isfinite(whole.encode(texts)).all()
    with pytest.raises(ModelError, match=r"fp16.*`embed\.precision=fp32`"):
        half.encode(texts)


def test_a_batch_without_memory_names_half_of_it(tiny_encoder, texts, monkeypatch):
    def full(*_):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")

    monkeypatch.setattr(TransformerEncoder, "pooled", full)
    with pytest.raises(ModelError, match=r"1,024 tokens.*`embed\.batch_tokens=512`"):
        encoder(tiny_encoder).encode(texts)


def test_fp32_on_cuda_is_told_from_that_of_versions_without_tf32(tiny_encoder, monkeypatch):
    def products(device, precision):
        found, hardware = [], Hardware(device, precision, 1024)
        monkeypatch.setitem(fingerprint.__globals__, "resolve", lambda *_, **__: hardware)
        monkeypatch.setitem(fingerprint.__globals__, "digest", found.append)
        fingerprint(tiny_encoder, FP32)
        return found[0].get("products")

    others = [("cpu", "fp32"), ("cuda", "bf16"), ("xpu", "fp32")]
    assert [products(*other) for other in others] == [None] * 3
    assert [products(device, "fp32") for device in ("cuda", "cuda:1")] == ["tf32"] * 2
