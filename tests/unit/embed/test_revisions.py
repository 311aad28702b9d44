"""OWNER/NAME@REVISION of a model: which commit is loaded, online, offline and from the cache."""

import shutil

import pytest

from corpusfit.core.errors import ModelError, UsageError
from corpusfit.core.hub import HubName, pinned
from corpusfit.core.plan import EmbedPlan
from corpusfit.embed import commit, prepare
from corpusfit.embed.folders import commit_of, find
from corpusfit.text.pairs import is_english_only
from fake_hub import Hub
from fake_hub import commit as commit_of_files

NAME = "me/model"
MAIN, OLD = ({"config.json": text, "model.safetensors": b"weights"} for text in (b"{}", b"[]"))


@pytest.fixture
def model(hub):
    """A model with a tag and a pull request beside `main`."""
    revisions = {"v1.0": OLD, "refs/pr/1": {**OLD, "merges.txt": b"a b"}}
    hub[NAME] = {"kind": "model", "private": False, "files": MAIN, "revisions": revisions}
    return hub[NAME]


@pytest.fixture
def unreachable(monkeypatch):
    """Call it to switch the hub off, as HF_HUB_OFFLINE=1 does."""
    return lambda: monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)


def config(name, **options):
    return (find(name, **options) / "config.json").read_bytes()


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("gpt2", ("gpt2", "")),
        ("me/model@v1.0", ("me/model", "v1.0")),
        ("me/model@refs/pr/1", ("me/model", "refs/pr/1")),
        ("me/model@2.0+cpu", ("me/model", "2.0+cpu")),
    ],
)
def test_a_name_with_its_revision(name, parts):
    assert HubName.parsed(name) == parts


@pytest.mark.parametrize("name", ["me/model@", "@v1", "me/model@a..b", "me/model@../x", "m@a@b"])
def test_what_is_no_revision(name):
    with pytest.raises(UsageError, match=r"^`embed\.embedder` must .*OWNER/NAME@REVISION"):
        find(name)


@pytest.mark.parametrize("revision", ["main", "v1.0", "refs/pr/1", "commit"])
def test_the_named_revision_is_loaded(model, revision):
    files = {**model["revisions"], "main": MAIN, "commit": OLD}[revision]
    revision = commit_of_files(OLD) if revision == "commit" else revision
    find(NAME)  # a cached `main` never wins

    folder = find(f"{NAME}@{revision}")

    assert (folder / "config.json").read_bytes() == files["config.json"]
    assert commit_of(f"{NAME}@{revision}", folder) == commit_of_files(files)


def test_a_new_main_replaces_the_cached_one(model):
    assert config(NAME) == b"{}"
    model["files"] = OLD
    assert config(NAME) == b"[]"


def test_a_moved_tag_is_followed(model):
    assert config(f"{NAME}@v1.0") == b"[]"
    model["revisions"]["v1.0"] = MAIN
    assert config(f"{NAME}@v1.0") == b"{}"


def test_offline_only_the_named_revision_is_taken_from_the_cache(model, unreachable):
    find(NAME)
    find(f"{NAME}@v1.0")
    unreachable()
    assert config(NAME) == b"{}"
    assert config(f"{NAME}@v1.0") == b"[]"
    assert config(f"{NAME}@{commit_of_files(OLD)}") == b"[]"
    with pytest.raises(ModelError, match=r"not been downloaded at revision refs/pr/1, .*reached"):
        find(f"{NAME}@refs/pr/1")


def test_a_revision_that_does_not_exist_names_those_that_do(model):
    for revision in ("v2", "0" * 40):
        with pytest.raises(UsageError, match=rf"'me/model@{revision}'.*It has main, v1\.0, refs"):
            find(f"{NAME}@{revision}")


def test_a_folder_with_an_at_sign_is_a_folder(model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / NAME).with_name("model@v1.0").mkdir(parents=True)
    assert find(f"{NAME}@v1.0") == (tmp_path / "me" / "model@v1.0").relative_to(tmp_path)
    assert commit_of(f"{NAME}@v1.0", find(f"{NAME}@v1.0")) == ""
    assert Hub.asked == []


def test_a_commit_asks_no_hub_in_workers(model):
    name = pinned(NAME, commit_of_files(MAIN))
    find(NAME)
    Hub.asked.clear()
    assert config(name, check_hub=False) == b"{}"
    assert Hub.asked == []


def test_a_command_asks_once_for_the_model_of_a_method(model, inline):
    """Its files are listed several times; the next command asks again."""
    find(NAME, once=True)
    model["files"] = OLD
    assert config(NAME, once=True) == b"{}"
    with inline.running():
        assert config(NAME, once=True) == b"[]"


def test_an_embedder_by_its_revision(tiny_encoder, hub, tmp_path):
    files = {p.name: p.read_bytes() for p in tiny_encoder.iterdir() if p.is_file()}
    other = {**files, "config.json": b"no JSON"}
    hub[NAME] = {"kind": "model", "private": False, "files": other, "revisions": {"v1": files}}
    copy = shutil.copytree(tiny_encoder, tmp_path / "copy")
    name = f"{NAME}@v1"

    encoder = prepare(EmbedPlan(name, precision="fp32"))

    assert encoder == prepare(EmbedPlan(str(copy), precision="fp32"))
    assert pinned(name, commit(name)) == f"{NAME}@{commit_of_files(files)}"


def test_a_revision_changes_no_language():
    assert is_english_only("sentence-transformers/all-MiniLM-L6-v2@v1")
    assert not is_english_only("intfloat/multilingual-e5-small@v1")
