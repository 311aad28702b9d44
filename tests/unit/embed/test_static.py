"""Static vectors against model2vec's own encode."""

import json
import shutil
import subprocess
import sys
from unicodedata import category, ucd_3_2_0

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from corpusfit.core.errors import ModelError
from corpusfit.core.plan import EmbedPlan
from corpusfit.embed import load, prepare, wordpiece
from corpusfit.embed.static import PACKAGED, load_static
from corpusfit.embed.wordpiece import WordPiece
from corpusfit.kernels.word_form import word_form


@pytest.fixture
def plan(tiny_static):
    return EmbedPlan(embedder=str(tiny_static))


@pytest.fixture(params=["float32", "float16", "quantized", "int8", "short", "plain"])
def model(request, tiny_static):
    """model2vec models of each form, by model2vec itself."""
    from model2vec import StaticModel

    model = StaticModel.from_pretrained(tiny_static)
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
    one = load(EmbedPlan(embedder=str(tmp_path / "m")))
    expected = static.encode(texts).astype(np.float32)
    atol = 2e-3 if form == "float16" else 1e-6
    np.testing.assert_allclose(one.encode(texts), expected, atol=atol)
    assert one.dim == 16


def test_the_packaged_model_is_read_as_model2vec_reads_it(texts):
    from model2vec import StaticModel

    ours, theirs = load(EmbedPlan("static")), StaticModel.from_pretrained(PACKAGED)
    texts = [*texts, "Ein naïver Satz über Ångström.", "Aspirin inhibits cyclooxygenase."]
    np.testing.assert_allclose(ours.encode(texts), theirs.encode(texts), atol=1e-6)
    assert ours.table.shape == (30_522, 256)
    assert ours.fingerprint == prepare(EmbedPlan("static"))


def test_a_folder_of_sentence_transformers(tiny_static, texts, tmp_path):
    from model2vec import StaticModel
    from safetensors.numpy import load_file, save_file

    inner = tmp_path / "m/0_StaticEmbedding"
    inner.mkdir(parents=True)
    table = load_file(tiny_static / "model.safetensors")["embeddings"]
    save_file({"embedding.weight": table}, inner / "model.safetensors")
    (inner / "tokenizer.json").write_bytes((tiny_static / "tokenizer.json").read_bytes())
    modules = [{"type": "sentence_transformers.models.StaticEmbedding", "path": inner.name}]
    (tmp_path / "m/modules.json").write_text(json.dumps(modules))
    (tmp_path / "m/config_sentence_transformers.json").write_text("{}")
    ours = load(EmbedPlan(embedder=str(tmp_path / "m")))
    theirs = StaticModel.from_pretrained(tmp_path / "m")
    np.testing.assert_allclose(ours.encode(texts), theirs.encode(texts), atol=1e-6)
    # sentence-transformers cuts no text
    long = [" ".join(texts * 100)]
    np.testing.assert_allclose(ours.encode(long), theirs.encode(long, max_length=None), atol=1e-6)


def test_bits_do_not_depend_on_the_batch(plan, texts):
    one = load(plan)
    many = texts * 700  # more than one chunk
    vectors = one.encode(many)
    alone = np.concatenate([one.encode([text]) for text in texts])
    assert vectors.tobytes() == np.tile(alone, (700, 1)).tobytes()


def test_a_word_has_one_vector_in_every_form(plan):
    one = load(plan)
    forms = ["aspirin binds ﬁne", "aspi\u00adrin bin\u200bds fine", "ａｓｐｉｒｉｎ 𝐛inds fine"]
    forms += ["aspirin ［ＳＥＰ］ binds [SEP] ﬁne"]
    plain = ["aspirin binds fine"] * 3 + ["aspirin ［SEP］ binds [SEP] fine"]
    assert (one.encode(forms) == one.encode(plain)).all()


def test_no_texts_an_empty_text_and_progress(plan, texts):
    one = load(plan)
    assert one.encode([]).shape == (0, one.dim)
    assert one.encode([""]).tolist() == [[0.0] * one.dim]
    told = []
    one.encode(texts * 700, told.append)
    assert sum(told) == len(texts) * 700


def test_no_library_of_an_extra_is_needed():
    code = (
        "import sys\n"
        "for name in ('torch', 'transformers', 'tokenizers', 'model2vec'):\n"
        "    sys.modules[name] = None\n"
        "from corpusfit.embed import load\n"
        "from corpusfit.core.plan import EmbedPlan\n"
        "one = load(EmbedPlan(embedder='static'))\n"
        "assert one.encode(['naïve [SEP] Ångström', 'b']).any(axis=1).all()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""


def test_broken_static_folders_are_named(tiny_static, tmp_path):
    import shutil

    from safetensors.numpy import save_file

    folder = shutil.copytree(tiny_static, tmp_path / "m")
    (folder / "model.safetensors").write_bytes(b"nothing")
    with pytest.raises(ModelError, match=r"^`embed\.embedder`: "):
        load(EmbedPlan(embedder=str(folder)))
    save_file({"embeddings": np.zeros((3, 2), np.float32)}, folder / "model.safetensors")
    with pytest.raises(ModelError, match="between 0 and 2"):
        load(EmbedPlan(embedder=str(folder)))
    (folder / "model.safetensors").unlink()
    with pytest.raises(ModelError, match=r"model\.safetensors"):
        prepare(EmbedPlan(embedder=str(folder)))


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
}


@pytest.mark.parametrize("given", SETTINGS.values(), ids=SETTINGS)
def test_every_character_is_read_as_tokenizers_read_it(given):
    """One piece for each character and each that a normalizer may make of it."""
    code_points = {*range(0x3100), *range(0xF900, 0x10000), *range(0x3100, 0x30000, 97)}
    characters = [c for c in map(chr, code_points) if category(c) != "Cs" and settled(c)]
    pieces = dict.fromkeys([*characters, *"".join(map(str.lower, characters)), "[UNK]", "[SEP]"])
    pieces |= dict.fromkeys(f"##{piece}" for piece in list(pieces))
    theirs = Tokenizer(models.WordPiece({p: i for i, p in enumerate(pieces)}, unk_token="[UNK]"))
    theirs.normalizer = normalizers.BertNormalizer(**given)
    theirs.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    theirs.add_special_tokens(["[UNK]", "[SEP]"])
    texts = [f"a{c}b {c} [SEP]{c}[sep]" for c in characters]
    settings = json.loads(theirs.to_str())
    assert WordPiece.reads(settings)
    ids, spans = WordPiece(settings).ids(texts)
    expected = [one.ids for one in theirs.encode_batch_fast(texts)]
    assert len(characters) > 9_000
    assert [ids[begin:end].tolist() for begin, end in spans] == expected


@pytest.fixture(scope="module", params=SETTINGS)
def normalized(request, tiny_static, tmp_path_factory):
    """A static model whose tokenizer normalizes in one of the ways that occur, and model2vec's."""
    from model2vec import StaticModel

    theirs = StaticModel.from_pretrained(tiny_static)
    theirs.tokenizer.normalizer = normalizers.BertNormalizer(**SETTINGS[request.param])
    table = np.random.default_rng(0).normal(size=theirs.embedding.shape).astype(np.float32)
    theirs = StaticModel(vectors=table, tokenizer=theirs.tokenizer, max_length=40)
    folder = tmp_path_factory.mktemp("normalized") / "model"
    theirs.save_pretrained(folder)
    ours = load(EmbedPlan(embedder=str(folder)))
    assert ours.words is not None
    return ours, theirs


@settings(
    max_examples=settings.default.max_examples // 4,  # for each way of normalizing
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.lists(st.lists(PARTS).map("".join), min_size=1))
def test_words_have_the_vectors_of_model2vec(normalized, texts):
    ours, theirs = normalized
    in_form = [word_form(text) for text in texts]
    np.testing.assert_allclose(ours.encode(texts), theirs.encode(in_form), atol=1e-5)


def test_a_full_table_is_emptied_and_the_vectors_stay(plan, texts, monkeypatch):
    one = load(plan)
    many = [f"{text} {word}" for word in range(50) for text in texts]
    whole = one.encode(many)
    monkeypatch.setattr(wordpiece, "WORDS", 256)
    small = load(plan)
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
def test_a_wrong_vocabulary_is_refused(wrong, said, tiny_static, tmp_path):
    from model2vec import StaticModel

    theirs = StaticModel.from_pretrained(tiny_static)
    theirs.save_pretrained(tmp_path / "m")
    file = tmp_path / "m/tokenizer.json"
    parts = json.loads(file.read_text("utf-8"))
    assert "[UNK]" in [token["content"] for token in parts["added_tokens"]]
    vocabulary = parts["model"]["vocab"] | wrong.get("vocab", {})
    parts["model"] |= {**wrong, "vocab": vocabulary}
    file.write_text(json.dumps(parts), "utf-8")
    with pytest.raises(ModelError, match=said):
        load(EmbedPlan(embedder=str(tmp_path / "m")))


@pytest.mark.parametrize("kind", ["Metaspace", "ByteLevel", "Whitespace", None])
def test_other_tokenizers_read_texts_whole(kind, tiny_static, texts, tmp_path):
    from model2vec import StaticModel

    theirs = StaticModel.from_pretrained(tiny_static)
    parts = json.loads(theirs.tokenizer.to_str())
    parts["pre_tokenizer"] = kind and json.loads(
        getattr(pre_tokenizers, kind)().__getstate__().decode()
    )
    theirs = StaticModel(vectors=theirs.embedding, tokenizer=Tokenizer.from_str(json.dumps(parts)))
    theirs.save_pretrained(tmp_path / "m")
    ours = load(EmbedPlan(embedder=str(tmp_path / "m")))
    assert ours.words is None
    in_form = [word_form(text) for text in texts]
    np.testing.assert_allclose(ours.encode(texts), theirs.encode(in_form), atol=1e-5)


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


def test_a_word_of_a_megabyte(plan):
    one = load(plan)
    texts = ["a" * 1_000_000, "the " * 500_000, "a"]
    alone = [one.encode([text]) for text in texts]
    assert one.encode(texts).tobytes() == np.concatenate(alone).tobytes()
