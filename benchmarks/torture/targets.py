"""What is fuzzed: functions of bytes that hold a property, or refuse them with an error of ours.

Run by `fuzz.py`: python targets.py TARGET [options of libFuzzer] [folder of cases]
"""

from __future__ import annotations

import os
import pkgutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import cache, partial
from pathlib import Path

import corpusfit.kernels

try:
    import atheris

    compiled = pkgutil.iter_modules(corpusfit.kernels.__path__, "corpusfit.kernels.")
    _measured = atheris.instrument_imports(["corpusfit"], [module.name for module in compiled])
except ImportError:  # the cases that are kept run without it
    _measured = nullcontext()
with _measured:
    import numpy as np
    from safetensors.numpy import save_file

    from corpusfit import Scorer
    from corpusfit import open as open_run
    from corpusfit import text as corpus
    from corpusfit.core.artifacts import read_arrays, serialize
    from corpusfit.core.errors import CorpusfitError
    from corpusfit.core.plan import CutPlan, Plan, ReadPlan
    from corpusfit.core.types import Document, Documents, Reject, text_array
    from corpusfit.embed.static import load_static
    from corpusfit.embed.store import VectorStore
    from corpusfit.evaluation import rows
    from corpusfit.evaluation.plan import TaskPlan
    from corpusfit.kernels.characters import table
    from corpusfit.kernels.tokens import identity, reference, tokenise
    from corpusfit.labeled.formats import brat, conll, words
    from corpusfit.scoring import registry as methods
    from corpusfit.scoring.arpa import read_arpa
    from corpusfit.scoring.names import names as method_names
    from corpusfit.scoring.table import read, read_columns, read_rows
    from corpusfit.text import contract as registry
    from corpusfit.text.reading import cut_units
    from corpusfit_papers.experiments.loader import read_recipe
    from corpusfit_papers.mixing import plan as composition

    registry.formats()
    for _name in method_names():
        methods.load(_name)

_PLAN = ReadPlan()
_TASK = TaskPlan()
_TAGGED = words.Fields("tokens", "tags")
_MEMORY = Path("/dev/shm") if os.access("/dev/shm", os.W_OK) else None
_UNITS = ("window", "sentence", "paragraph", "fixed", "document")


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=_MEMORY) as folder:
        yield Path(folder)


def _corpus(suffix: str, data: bytes) -> None:
    """Columns and single rows say the same, and every row comes once, in order."""
    with _folder() as folder:
        (folder / f"a{suffix}").write_bytes(data)
        sources = corpus.find([str(folder / f"a{suffix}")], _PLAN, role="corpus")
        at = -1
        for shard in corpus.shards(sources, _PLAN):
            expected = list(corpus.rows(shard, _PLAN))
            found, rejected = corpus.documents(shard, _PLAN)
            used = [row for row in expected if isinstance(row, Document)]
            assert found.row.tolist() == [row.row for row in used]
            assert found.texts.to_pylist() == [row.text for row in used]
            assert rejected == [row for row in expected if isinstance(row, Reject)]
            for row in expected:
                assert row.row > at
                at = row.row


def _file(read: Callable[[Path], object], name: str, data: bytes) -> None:
    """A file with these bytes is read or refused."""
    with _folder() as folder:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
        read(folder / name)


def _task(read: Callable[[list[str], str], object], name: str, data: bytes) -> None:
    """A task's file is read, with a label for each of its pieces, or refused."""
    _file(lambda path: read([str(path)], "train"), name, data)


def _brat(data: bytes) -> None:
    """Text and annotations, with a zero byte between them."""
    text, _, notes = data.partition(b"\0")
    with _folder() as folder:
        (folder / "a.txt").write_bytes(text)
        (folder / "a.ann").write_bytes(notes)
        found = brat.read_brat([str(folder / "a.txt"), str(folder / "a.ann")], "train")
        assert all(map(lambda a, b: len(a) == len(b), found.pieces, found.labels))


def _moses(data: bytes) -> None:
    """Two line-aligned files, with a zero byte between them: every pair comes once, in order."""
    with _folder() as folder:
        for side, text in zip(("de", "en"), data.split(b"\0", 1), strict=False):
            (folder / f"a.{side}").write_bytes(text)
        sources = corpus.find([f"pair:{folder}/a.de,{folder}/a.en"], _PLAN, role="c")
        for shard in corpus.shards(sources, _PLAN):
            places = [row.row for row in corpus.rows(shard, _PLAN)]
            assert places == sorted(set(places))


def _cut(data: bytes) -> None:
    """Units tile a text, and none has more word pieces than the limit."""
    text = data[2:].decode("utf-8", "ignore")
    if not text:
        return
    unit = _UNITS[data[0] % len(_UNITS)]
    limit = 1 + data[1]
    units, parts = cut_units(
        Documents(np.zeros(1, np.int64), text_array([text])), CutPlan(unit=unit, pieces=limit)
    )
    assert "".join(parts.to_pylist()) == text
    assert unit == "document" or units.pieces.max() <= limit


def _tokens(data: bytes) -> None:
    """Tokens are those of the definition in plain Python, wherever a text lies in its bytes."""
    before, signs = (data[0] & 63, data[0] > 127) if data else (0, False)
    raw = data[1:].decode("utf-8", "ignore").encode()
    padded = np.frombuffer(b"x" * before + raw + b"x" * 70, np.uint8)
    ids = np.empty(len(raw) + 1, np.uint64)
    n = tokenise(padded, before, before + len(raw), table(), signs, ids, None, None)
    wanted = [identity(token) for token in reference(raw.decode(), signs=signs)]
    assert ids[:n].tolist() == wanted


def _store(path: Path) -> None:
    VectorStore(path.parent).read(0)


def _scores(path: Path) -> None:
    """Scores of two files; a column that is missing has no row."""
    read_rows(path, ["a.jsonl", "b.jsonl"])
    read_columns(path, "score", "copy")
    read(path)


def _static(path: Path) -> None:
    """A tokenizer beside vectors of eight tokens."""
    save_file({"embeddings": np.eye(8, dtype=np.float32)}, path.with_name("model.safetensors"))
    load_static(path.parent, "static").encode(["aa b", "", "c\u00e9 7"])


def _scorer(path: Path) -> None:
    """The settings of a saved Scorer, beside arrays without any."""
    about = {"json": '{"kind": "dsir", "fields": {}}'}
    save_file({}, path.with_name("scorer.safetensors"), about)
    Scorer.load(path.parent)


_SMALL: dict[str, dict[str, object]] = {
    "dsir": {"buckets": 16},
    "moore_lewis": {"order": 2},
    "perplexity": {"order": 2},
    "ngram_coverage": {"order": 1, "top": 8},
    "tfidf": {"compare": "nearest", "k": 2},
    "isolation_forest": {"trees": 2, "subsample": 4},
    "knn": {"k": 2},
    "cluster_ratio": {"clusters": "1"},
    **{name: {} for name in ("bm25", "lof", "domain_cosine", "pca", "centroid_distance")},
    **{name: {} for name in ("domain_classifier", "one_class_svm", "robust_covariance")},
}
"""Methods and settings whose stored scorers are small."""


@cache
def _stored() -> list[tuple[str, bytes]]:
    """Fitted scorers by method, as they are stored."""
    texts = [f"the kinase {i} binds the receptor of growth" for i in range(5)]
    others = [f"shares of the market {i} fell before the results" for i in range(5)]
    rows = np.random.default_rng(0).standard_normal((10, 3)).astype(np.float32)
    found = []
    for name, options in _SMALL.items():
        method = methods.build(name, options)
        given = (
            (text_array(texts), text_array(others)) if method.reads == "text" else (rows[:5], rows)
        )
        found.append((name, serialize(name, method.fit(*given, seed=0))))
    return found


def _fitted(data: bytes) -> None:
    """A stored scorer, with some bytes in the place of others, scores or is refused."""
    if len(data) < 3:
        return
    name, own = _stored()[data[0] % len(_stored())]
    at = int.from_bytes(data[1:3], "little") % len(own)
    patched = own[:at] + data[3:] + own[at + len(data) - 3 :]
    scorer = methods.unpack_scorer(np.frombuffer(patched, np.uint8))
    rows = np.ones((2, 3), np.float32)
    batch = text_array(["the kinase of shares", ""]) if methods.load(name).reads == "text" else rows
    scorer.score(batch)


TARGETS: dict[str, Callable[[bytes], None]] = {
    **{
        name: partial(_corpus, suffix)
        for name, suffix in {
            "jsonl": ".jsonl",
            "csv": ".csv",
            "tsv": ".tsv",
            "txt": ".txt",
            "parquet": ".parquet",
            "arrow": ".arrow",
            "gzip": ".jsonl.gz",
            "zstd": ".jsonl.zst",
            "xz": ".txt.xz",
            "bzip2": ".csv.bz2",
        }.items()
    },
    "rows": partial(_task, lambda places, split: rows.read_rows(places, _TASK, split), "a.jsonl"),
    "conll": partial(_task, conll.read_conll, "a.conll"),
    "conllu": partial(_task, conll.read_conllu, "a.conllu"),
    "json": partial(
        _task, lambda places, split: words.read_tokens(places, split, _TAGGED), "a.json"
    ),
    "moses": _moses,
    "brat": _brat,
    "arpa": partial(_file, lambda path: read_arpa(str(path)), "a.arpa"),
    "recipe": partial(_file, read_recipe, "recipe.toml"),
    "plan": partial(_file, lambda path: Plan().with_toml(path).check(), "plan.toml"),
    "composition": partial(_file, composition.read_recipe, "compose.toml"),
    "manifest": partial(_file, lambda path: open_run(path.parent), "manifest.json"),
    "arrays": partial(_file, read_arrays, "a.safetensors"),
    "vectors": partial(_file, _store, "part-00000.safetensors"),
    "scorer": partial(_file, _scorer, "scorer.json"),
    "static": partial(_file, _static, "tokenizer.json"),
    "scores": partial(_file, _scores, "part-00000.parquet"),
    "labeled": partial(
        _task, lambda places, split: words.read_tokens(places, split, _TAGGED), "a.parquet"
    ),
    "fitted": _fitted,
    "cut": _cut,
    "tokens": _tokens,
}


def attempt(target: str, data: bytes) -> None:
    """Give bytes to a target; an error of ours is an answer, any other error is a defect."""
    with suppress(CorpusfitError):
        TARGETS[target](data)


if __name__ == "__main__":
    name = sys.argv.pop(1)
    for case in sorted((Path(__file__).parent / "cases" / name).iterdir()):
        attempt(name, case.read_bytes())  # compiles the kernels, which is not an input's time
    atheris.Setup([sys.argv[0], *sys.argv[1:]], partial(attempt, name))
    atheris.Fuzz()
