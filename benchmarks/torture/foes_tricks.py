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
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers

from foes_places import adapt, compose, evaluate, finished, inputs, rows, write

if TYPE_CHECKING:
    from foes_box import Box

_SELECT = "select --target target.jsonl --corpus corpus --engine inline --no-report".split()
_FORK = "import os\nos.system('touch \"$FOE_RAN\"')\n"


class _Payload:
    """A pickle that leaves a mark when it is opened."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ('touch "$FOE_RAN"',)


_PICKLE = pickle.dumps(_Payload())
_WRONG = (("is a pickle", _PICKLE), ("is a list", b"[1]"), ("is empty", b""))


def _changed(path: Path, **values: object) -> None:
    found = json.loads(path.read_bytes()) if path.exists() else {}
    path.write_text(json.dumps({**found, **values}), "utf-8")


def _header(path: Path, header: object, size: int | None = None, data: bytes = b"") -> None:
    """Write a safetensors file with any header, and any claim of the header's size."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text) if size is None else size) + text + data)


def _try_model(box: Box, change: Callable[[Path], object]) -> None:
    """Adapt, evaluate and embed with a model of a stranger."""
    folder = Path(shutil.copytree(box.model, box.given / "model"))
    change(folder)
    if adapt(box, folder, box.out / "model") == 0:
        evaluate(box, folder)
        _embed(box, folder)


def _embed(box: Box, embedder: object) -> None:
    inputs(box)
    own = ("--method", "centroid_distance", "--embedder", embedder)
    box.corpusfit(*_SELECT, *own, "--out", box.out / "embedded")


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
    words = {word: i for i, word in enumerate("[PAD] [UNK] kinase cell ligand".split())}
    tokenizer = Tokenizer(models.WordPiece(words, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.save(str(folder / "tokenizer.json"))
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
        inputs(box)
        box.corpusfit(*_SELECT, "--method", "dsir", "--out", run, "--overwrite")
    if kind == "adapt":
        adapt(box, box.model, run, "--overwrite")


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
_LINKED = {
    "outside": "selected scores .corpusfit/scored .corpusfit selected/link",
    "outside/secret.jsonl": (
        ".corpusfit/lock .corpusfit/run.json manifest.json report.html rejects.jsonl "
        "examples.parquet"
    ),
}
_READ = (
    "manifest.json .corpusfit/run.json .corpusfit/scored.json .corpusfit/scored/*.json "
    "scores/*.parquet selected/*.zst examples.parquet .corpusfit/fit/*.safetensors"
)
RUNS: dict[str, dict[str, Callable[[Path], object]]] = {
    "select": {
        "files to delete above": _content(
            ".corpusfit/files.json", b'["../../outside/secret.jsonl", "../../home/x"]'
        ),
        "files to delete at a root": lambda run: (run / ".corpusfit/files.json").write_text(
            json.dumps([str(run.parents[1] / "outside/secret.jsonl")])
        ),
        "files to delete that are none": _content(".corpusfit/files.json", b'{"a": [1]}'),
        "a source elsewhere": _source_elsewhere,
        **{
            f"{at} that links elsewhere": _link(at, to)
            for to, places in _LINKED.items()
            for at in places.split()
        },
        **{f"{at} {what}": _content(at, data) for at in _READ.split() for what, data in _WRONG},
        "manifest.json lies": _content(
            "manifest.json",
            b'{"command":"select","versions":{},"plan":{},"counts":{},"selected":{"a":1}}',
        ),
        "run.json is bare": _content(".corpusfit/run.json", _MARK),
        "scores are objects of numpy": _content("scores/*.parquet", _NPY.getvalue()),
    },
    "adapt": {
        "a checkpoint is a pickle": _content(
            ".corpusfit/checkpoints/step-00000001/state.json", _PICKLE
        ),
        "a model's manifest is a list": _content("manifest.json", b"[]"),
        "a model's losses are words": _content("losses.jsonl", b'{"step": "x"}\n"y"\n'),
    },
    "evaluate": {
        "an evaluation's manifest lies": lambda run: _changed(
            run / "manifest.json", results=[{"model": "x", "size": "y"}]
        ),
        "an evaluation without models": lambda run: _changed(run / "manifest.json", models=[]),
    },
}


def _adapter(box: Box) -> None:
    """An adapter whose base is a file, and one whose weights are a pickle."""
    folder = box.given / "adapter"
    base = {"name": "../outside", "fingerprint": "0"}
    write(
        folder / "adapter.json",
        [{"kind": "lora", "rank": 8, "alpha": 16, "prefix": "", "base": base}],
    )
    (folder / "adapter_model.safetensors").write_bytes(_PICKLE)
    evaluate(box, folder)


def _hub(box: Box, name: str, change: Callable[[Path], object]) -> None:
    """A data set in a folder, read as one of the hub."""
    folder = box.given / "set"
    write(folder / "train.jsonl", rows(30))
    change(folder)
    inputs(box)
    box.corpusfit(*_SELECT, "--method", "dsir", "--out", box.out / "run", "--target", name)


def _card(path: str) -> Callable[[Path], object]:
    head = f"---\nconfigs:\n- config_name: default\n  data_files: {path}\n---\n"
    return lambda folder: (folder / "README.md").write_text(head)


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
            member.type = kind
            member.linkname = to
            member.size = len(data) if kind == tarfile.REGTYPE else 0
            archive.addfile(member, io.BytesIO(data))


def _instead(name: str, make: Callable[[Path], object]) -> Callable[[Path], object]:
    return lambda folder: ((folder / "train.jsonl").unlink(), make(folder / name))


HUB: dict[str, Callable[[Path], object]] = {
    "a script": lambda f: (f / "set.py").write_text(_FORK),
    "files above": _card("../../outside/secret.jsonl"),
    "files at a root": lambda f: _card(str(f.parents[1] / "outside/*.jsonl"))(f),
    "files of the web": _card("https://foe.example/a.jsonl"),
    "a YAML that acts": lambda f: (f / "README.md").write_text(
        "---\nconfigs: !!python/object/apply:os.system ['touch $FOE_RAN']\n---\n"
    ),
    "pickles": _instead("train.pkl", lambda path: path.write_bytes(_PICKLE)),
    "a zip above": _instead("train.zip", _zip),
    "a tar of torch": _instead("train.tar", _tar),
}
HUB_NAMES = (
    *"--foo ../../x a/b@../../x a/b:../../x@train ../nowhere /etc/passwd ~/x : @ - . ..".split(),
    *"a/b/../../../outside https://foe.example/a file:///etc/passwd cache".split(),
    *"pickle json text webdataset parquet pandas".split(),
    *("", "a b", "a\n/b"),
)


def _corpus(box: Box, change: Callable[[Path], object], more: tuple[str, ...]) -> None:
    """A corpus of a stranger."""
    inputs(box)
    change(box.given / "corpus")
    box.corpusfit(*_SELECT, "--method", "dsir", "--out", box.out / "run", *more)


def _line(text: bytes) -> Callable[[Path], object]:
    return lambda folder: (folder / "b.jsonl").write_bytes(text + b"\n")


CORPORA: dict[str, Callable[[Path], object]] = {
    "a zip that climbs": lambda f: _zip(f / "b.zip"),
    "a tar that climbs": lambda f: _tar(f / "b.tar"),
    "a tar.gz that climbs": lambda f: _tar(f / "b.tar.gz"),
    "a tar named jsonl": lambda f: _tar(f / "b.jsonl"),
    "a zip named jsonl.gz": lambda f: _zip(f / "b.jsonl.gz"),
    "a folder of links": lambda f: (f / "b").symlink_to("../../outside"),
    "a link to itself": lambda f: (f / "b.jsonl").symlink_to("b.jsonl"),
    "a link to a device": lambda f: (f / "b.jsonl").symlink_to("/dev/zero"),
    "a pipe": lambda f: os.mkfifo(f / "b.jsonl"),
    "a pickle named parquet": lambda f: (f / "b.parquet").write_bytes(_PICKLE),
    "JSON of deep lists": _line(b'{"text": "a", "b": ' + b"[" * 10**6 + b"]" * 10**6 + b"}"),
    "JSON of a great number": _line(b'{"text": "a", "b": 1' + b"0" * 10**6 + b"}"),
    "JSON with two texts": _line(
        b'{"text": "a", "text": ["b"], "__class__": "os.system", "__proto__": {"a": 1}}'
    ),
    "a template with attributes": lambda _: None,
    "a glob of everything": lambda _: None,
}
ASKED = {
    "a zip that climbs": ("--corpus", "corpus/b.zip"),
    "a tar that climbs": ("--corpus", "corpus/b.tar"),
    "a tar.gz that climbs": ("--corpus", "corpus/b.tar.gz"),
    "a template with attributes": (
        "--text-field",
        "{text.__class__.__mro__} {0.__init__.__globals__} {text!r:>999999999}",
    ),
    "a glob of everything": ("--corpus", "../**/*.html"),
}
"""How a corpus is asked for, if not by its folder."""


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
    inputs(box)
    from corpusfit.core.plan import Plan
    from corpusfit.core.settings import _leaves

    fields = [k for k, v in _leaves(Plan().as_dict(), "") if isinstance(v, str)]
    for n, key in enumerate(fields):
        named = f"{key}=../outside/secret.jsonl"
        box.corpusfit(*_SELECT, "--out", box.out / str(n), "--set", named)


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
    compose(box, '"own"', json.dumps(path))
    if any(os.environ["OWN_TOKEN"] in url for url in asked):
        box.faults.append("a recipe sends a variable of the environment to a stranger")


TRICKS: dict[str, Callable[[Box], None]] = {
    **{f"model: {name}": partial(_try_model, change=change) for name, change in MODELS.items()},
    **{f"static: {name}": partial(_static, change=change) for name, change in STATIC.items()},
    **{
        f"run: {name}": partial(_tampered, kind=kind, change=change)
        for kind, changes in RUNS.items()
        for name, change in changes.items()
    },
    **{
        f"data: data set with {name}": partial(_hub, name="hub:set", change=change)
        for name, change in HUB.items()
    },
    **{
        f"data: hub name {name!a}": partial(_hub, name=f"hub:{name}", change=lambda _: None)
        for name in HUB_NAMES
    },
    **{
        f"corpus: {name}": partial(_corpus, change=change, more=ASKED.get(name, ()))
        for name, change in CORPORA.items()
    },
    **{
        f"scorer: {at} {what}": partial(_scorer, change=_content(at, data))
        for at in ("*.json", "*.safetensors")
        for what, data in _WRONG
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
    "plan: files in every setting": _plans,
}
