"""Names of embedders: what each word means, and what is said when it means nothing."""

import json
import shutil
import socket
import sys

import pytest

from corpusfit.core.errors import MissingDependencyError, ModelError, UsageError
from corpusfit.core.plan import EmbedPlan
from corpusfit.embed import load, prepare
from corpusfit.embed.folders import WHEEL, default_embedder

HUB = "huggingface_hub.snapshot_download"


@pytest.mark.parametrize("name", ["/no/such/folder", "./missing", "a/b/c", "", "two words"])
def test_what_cannot_be_a_model(name):
    with pytest.raises(UsageError, match=r"^`embed\.embedder` must .*minilm"):
        prepare(EmbedPlan(embedder=name))


def test_a_file_is_not_a_folder(tmp_path):
    (tmp_path / "model.safetensors").touch()
    with pytest.raises(UsageError, match=r"^`embed\.embedder` must "):
        prepare(EmbedPlan(embedder=str(tmp_path / "model.safetensors")))


def test_a_hub_id_is_downloaded_without_pickles(tiny_encoder, monkeypatch, hub):
    asked = []

    def download(name, **options):
        asked.append((name, options))
        return str(tiny_encoder)

    monkeypatch.setattr(HUB, download)
    plan = EmbedPlan(embedder="someone/some-model", precision="fp32")
    assert prepare(plan) == load(plan).fingerprint
    assert [name for name, _ in asked] == ["someone/some-model"] * 2
    assert "local_files_only" not in asked[0][1]
    assert asked[1][1]["local_files_only"]
    patterns = asked[0][1]["allow_patterns"]
    assert "*.safetensors" in patterns
    assert not [p for p in patterns if p in ("*", "*.bin", "*.py", "*.pt", "*.pkl")]


def test_a_hub_that_cannot_be_reached_is_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(
        ModelError, match=r"^`embed\.embedder` must .*use `embed\.embedder=static`\."
    ) as e:
        prepare(EmbedPlan(embedder="someone/some-model"))
    assert "\n" not in str(e.value)


def test_a_hub_that_never_answers_is_left(tiny_encoder, monkeypatch):
    """What was downloaded before is used."""
    asked = []

    def download(name, **options):
        asked.append(options.get("local_files_only"))
        return str(tiny_encoder)

    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", url)
        monkeypatch.setattr("corpusfit.embed.folders._HUB_TIMEOUT", 0.1)
        monkeypatch.setattr(HUB, download)
        prepare(EmbedPlan(embedder="someone/some-model", precision="fp32"))
    assert asked == [True]


def test_without_the_hubs_client_a_message_names_both_extras(monkeypatch):
    """A static model needs the one without PyTorch."""
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(MissingDependencyError, match=r"corpusfit\[models\].*corpusfit\[hub\]"):
        prepare(EmbedPlan(embedder="someone/some-model"))


def test_a_worker_downloads_what_is_not_here_yet(tiny_encoder, monkeypatch, hub):
    from huggingface_hub.errors import LocalEntryNotFoundError

    def download(name, local_files_only=False, **options):
        if local_files_only:
            raise LocalEntryNotFoundError("nothing here")
        return str(tiny_encoder)

    monkeypatch.setattr(HUB, download)
    assert load(EmbedPlan(embedder="someone/some-model")).dim == 32


def test_a_hub_id_that_does_not_exist(monkeypatch):
    from huggingface_hub.errors import RepositoryNotFoundError

    def download(name, **options):
        error = RepositoryNotFoundError.__new__(RepositoryNotFoundError)
        Exception.__init__(error, "404")
        raise error

    monkeypatch.setattr(HUB, download)
    with pytest.raises(UsageError, match=r"^`embed\.embedder` must "):
        prepare(EmbedPlan(embedder="minlm"))


@pytest.mark.parametrize(("static", "missing"), [(False, "torch"), (True, "tokenizers")])
def test_a_missing_library_names_its_extra(
    static, missing, tiny_encoder, tiny_static, tmp_path, monkeypatch
):
    """Of static models only those need one whose tokenizer is none of BERT's."""
    folder = tiny_encoder
    if static:
        folder = shutil.copytree(tiny_static, tmp_path / "static")
        parts = json.loads((folder / "tokenizer.json").read_text("utf-8"))
        (folder / "tokenizer.json").write_text(json.dumps({**parts, "pre_tokenizer": None}))
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(MissingDependencyError, match=r"corpusfit\[models\]"):
        load(EmbedPlan(embedder=str(folder)))


@pytest.mark.parametrize("missing", ["torch", "transformers", WHEEL])
def test_the_default_is_static_where_minilm_cannot_run(missing, monkeypatch):
    monkeypatch.setitem(sys.modules, missing, None)
    assert default_embedder() == "static"
    assert prepare(EmbedPlan("auto")) == prepare(EmbedPlan("static"))


def test_loading_says_nothing(tiny_encoder, capfd):
    load(EmbedPlan(embedder=str(tiny_encoder))).encode(["a"])
    assert capfd.readouterr() == ("", "")
