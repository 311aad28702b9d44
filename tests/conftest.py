"""Shared by all tests: a cache of their own, tiny encoders, an engine without processes, no fsync.

The encoders are built here from seeded random numbers and a few words, so that no test downloads
anything.
"""

import json
import os
import shutil
import threading
from dataclasses import dataclass
from http.server import ThreadingHTTPServer
from pathlib import Path

import fsspec
import hypothesis
import numpy as np
import pytest
from fsspec.registry import _registry

from corpusfit.core import credentials
from corpusfit.core.engine import InlineEngine
from corpusfit.embed import hardware
from corpusfit.text.context import Machine
from fake_hub import Hub
from signed_pages import Pages

# The same few examples in the loop, so that a run says what it said before; `make long` draws new
# ones.
hypothesis.settings.register_profile("few", max_examples=60, deadline=None, derandomize=True)
hypothesis.settings.register_profile("new", max_examples=2000, deadline=None)
hypothesis.settings.load_profile("few")

# as it was before any fixture: papers' tests have the same ones and may run first in this process
PREFERRED = hardware._PREFERRED

SENTENCES = [
    "the kinase inhibitor binds the receptor with high affinity",
    "the binding of aspirin to cyclooxygenase is irreversible",
    "investors sold shares before the quarterly results of the market",
    "a small model reads small words, and unknown ones in pieces.",
]


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory):
    """No test reads or fills the user's cache."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("corpusfit-cache")
        patch.setenv("CORPUSFIT_CACHE", str(folder))
        patch.setenv("XDG_CACHE_HOME", str(folder))
        yield folder


@pytest.fixture(scope="session", autouse=True)
def no_fsync():
    """This process does not wait for the disk; the processes that are killed do."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.fsync", lambda _: None)
        yield


@pytest.fixture(scope="session")
def own_ray():
    """Ray starts clusters of its own, joins no other, and its workers find the tests' modules."""
    pytest.importorskip("ray")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_ADDRESS", "local")
        patch.setenv("PYTHONPATH", str(Path(__file__).parent), prepend=os.pathsep)
        yield


@dataclass(frozen=True)
class InlineMachine(Machine):
    """A machine without worker processes: the same jobs, milliseconds instead of seconds."""

    def start(self):
        super().start()
        return InlineEngine()


@pytest.fixture(scope="session")
def inline():
    """A machine that does everything in this process."""
    return InlineMachine()


@pytest.fixture
def forget(monkeypatch):
    """Make this process forget the credentials of URLs, as if it were a new one."""

    def forget():
        for name, empty in (("_given", {}), ("_users", {}), ("_secrets", set())):
            monkeypatch.setattr(credentials, name, empty)
        monkeypatch.setattr(credentials, "_variable", [""])

    return forget


@pytest.fixture
def pages(forget):
    """In this process, web pages for fsspec without its library for them; nothing is known."""
    before = _registry.get("http")
    fsspec.register_implementation("http", Pages, clobber=True)
    forget()
    yield
    del _registry["http"]
    if before:
        _registry["http"] = before


@pytest.fixture(autouse=True, scope="session")
def preferred_devices():
    """Where a Mac has a GPU, tests train on its CPU too; yields what `auto` prefers elsewhere."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hardware, "_PREFERRED", dict.fromkeys(PREFERRED, ("cuda",)))
        yield PREFERRED


@pytest.fixture
def inline_cli(monkeypatch):
    """Commands run in this process do their work in it too; no stage is long enough for a line."""
    monkeypatch.setattr("corpusfit.cli.bar.SOON", 3600)
    monkeypatch.setattr("corpusfit.text.context.Machine", InlineMachine)


@pytest.fixture
def offline(monkeypatch, tmp_path):
    """No hub is asked for a dataset, and no cache of the machine is used."""
    import datasets.config
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True, raising=False)
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    monkeypatch.setattr(datasets.config, "HF_MODULES_CACHE", tmp_path / "modules")


@pytest.fixture
def hub(monkeypatch, tmp_path):
    """A local server in the place of the hub; its repositories by name."""
    import datasets.config
    import huggingface_hub.constants as constants

    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setattr(constants, "ENDPOINT", url)
    template = f"{url}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(datasets.config, "HF_ENDPOINT", url)
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "datasets")
    monkeypatch.setenv("HF_TOKEN", "hf_mine")
    monkeypatch.setattr(Hub, "made", {})
    monkeypatch.setattr(Hub, "asked", [])
    yield Hub.made
    server.shutdown()
    server.server_close()


@pytest.fixture
def jsonl(tmp_path):
    """Write rows, or texts, as JSON lines; returns the path."""

    def write(name, rows):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        rows = [{"text": r} if isinstance(r, str) else r for r in rows]
        lines = (json.dumps(r, ensure_ascii=False) + "\n" for r in rows)
        path.write_text("".join(lines), "utf-8")
        return path

    return write


@pytest.fixture(scope="session")
def word_pieces():
    """WordPiece of a few words and all letters; trained ones differ from process to process."""
    from tokenizers import BertWordPieceTokenizer

    letters = "abcdefghijklmnopqrstuvwxyz0123456789.,"
    words = sorted({word.strip(".,") for text in SENTENCES for word in text.split()} - {*letters})
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    pieces = [*special, *letters, *(f"##{letter}" for letter in letters), *words]
    vocabulary = {piece: i for i, piece in enumerate(pieces)}
    return BertWordPieceTokenizer(vocabulary, lowercase=True)


@pytest.fixture(scope="session")
def tiny_static(tmp_path_factory, word_pieces):
    """A folder with a random model2vec model of 16 dimensions; needs no torch."""
    from safetensors.numpy import save_file

    folder = tmp_path_factory.mktemp("models") / "static"
    folder.mkdir()
    word_pieces.save(str(folder / "tokenizer.json"))
    size = word_pieces.get_vocab_size()
    vectors = np.random.default_rng(0).standard_normal((size, 16)).astype(np.float32)
    save_file({"embeddings": vectors}, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps({"model_type": "model2vec", "normalize": True}))
    return folder


def tiny_bert(folder, word_pieces, kind, spread):
    """A folder with a random two-layer BERT of some kind, 32 wide."""
    import torch
    import transformers

    folder.mkdir()
    trained = folder / "trained.json"
    word_pieces.save(str(trained))
    tokenizer = transformers.BertTokenizerFast(tokenizer_file=str(trained), model_max_length=64)
    trained.unlink()
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=48,
        max_position_embeddings=64,
        initializer_range=spread,
    )
    getattr(transformers, kind)(config).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def tiny_encoder(tmp_path_factory, word_pieces):
    """A folder with a random two-layer BERT, 32 wide."""
    return tiny_bert(tmp_path_factory.mktemp("models") / "bert", word_pieces, "BertModel", 0.3)


@pytest.fixture(scope="session")
def tiny_lm(tmp_path_factory, word_pieces):
    """A folder with a random two-layer BERT, 32 wide, and both heads of its pre-training."""
    folder = tmp_path_factory.mktemp("models") / "lm"
    return tiny_bert(folder, word_pieces, "BertForPreTraining", 0.2)


@pytest.fixture(scope="session")
def tiny_classifier(tmp_path_factory, word_pieces):
    """A folder with a random two-layer BERT, 32 wide, that has an output for each of two labels."""
    folder = tmp_path_factory.mktemp("models") / "classifier"
    return tiny_bert(folder, word_pieces, "BertForSequenceClassification", 0.3)


@pytest.fixture(scope="session")
def tiny_gpt2(tmp_path_factory):
    """A folder with a random two-layer GPT-2: no padding token, no cls token."""
    import torch
    from tokenizers import ByteLevelBPETokenizer
    from transformers import GPT2Config, GPT2Model, GPT2TokenizerFast

    folder = tmp_path_factory.mktemp("models") / "gpt2"
    folder.mkdir()
    trained = ByteLevelBPETokenizer()
    trained.train_from_iterator(SENTENCES, vocab_size=300, special_tokens=["<|endoftext|>"])
    trained.save(str(folder / "trained.json"))
    tokenizer = GPT2TokenizerFast(
        tokenizer_file=str(folder / "trained.json"),
        eos_token="<|endoftext|>",
        bos_token="<|endoftext|>",
        unk_token="<|endoftext|>",
        model_max_length=64,
    )
    (folder / "trained.json").unlink()
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=len(tokenizer),
        n_embd=32,
        n_layer=2,
        n_head=4,
        n_positions=64,
        initializer_range=0.3,
        bos_token_id=0,
        eos_token_id=0,
    )
    GPT2Model(config).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def tiny_gpt(tmp_path_factory):
    """A folder with a random two-layer GPT-2 of byte-level BPE; its logits differ widely."""
    import torch

    from corpusfit.training.models import new_model, save_model

    found = new_model("tiny", "causal", SENTENCES, vocabulary=300, attention="eager", seed=0)
    with torch.no_grad():
        for parameter in found.model.parameters():
            parameter.mul_(8)
    folder = tmp_path_factory.mktemp("models") / "gpt"
    save_model(found.model, found.tokenizer, folder)
    return folder


@pytest.fixture(scope="session")
def tiny_chat(tiny_gpt, tmp_path_factory):
    """A folder with that model and a chat template."""
    folder = tmp_path_factory.mktemp("models") / "chat"
    shutil.copytree(tiny_gpt, folder)
    template = (
        "{% for m in messages %}{{ m.role | upper }}: {{ m.content }}{{ eos_token }}\n{% endfor %}"
        "{% if add_generation_prompt %}ASSISTANT: {% endif %}"
    )
    (folder / "chat_template.jinja").write_text(template)
    return folder
