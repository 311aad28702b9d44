"""One cell of benchmarks/score.py: a task, a column and a seed, from the corpus to the score.

A cell is a ladder: the selection and its bits, the adapted model, and a score, which is a probe of
the frozen model or BLEU. Each finished rung is a line of the task's file of cells, named by a
digest of everything that decides it. A rung above the selection depends on the selected text, not
on how it came to be, so a method that selects the same text as before keeps its cells.
"""

from __future__ import annotations

import base64
import fcntl
import hashlib
import json
import math
import resource
import shutil
import time
import warnings
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
import orjson

import corpusfit
from benefit_cells import ONE, PARTS, Work, bits, lines, store, taken, texts_of
from corpusfit.core.artifacts import write_bytes
from corpusfit.core.errors import CorpusfitError
from corpusfit.core.types import buffers, text_array
from corpusfit.decontamination.finder import ContaminationFinder, HeldoutIndex
from corpusfit.embed.folders import find
from corpusfit.embed.transformer import quiet
from corpusfit.evaluation.encoding import NOWHERE, encode
from corpusfit.evaluation.plan import TaskPlan
from corpusfit.evaluation.reading import read_task
from corpusfit.evaluation.task import Examples, Task
from corpusfit.evaluation.tasks import load
from corpusfit.kernels.characters import table
from corpusfit.kernels.kneser_ney import number_words
from corpusfit.labeled.formats.conll import read_conll
from corpusfit.text.context import Machine
from corpusfit.text.same_text import folded, form_of
from corpusfit.training.special_tokens import backend_tokenizer, special_tokens_of
from harness import machine

Record = dict[str, Any]

BASE = "base"
RANDOM = "random"
SPLITS = ("train", "dev", "test")
SIDES = ("de", "en")
DOMAINS = ("it", "law", "medical", "captions", "news", "koran")
KEPT = ("accuracy", "micro_f1", "macro_f1")
STRENGTHS = tuple(10.0 ** (e / 2) for e in range(-9, 3))
"""Inverse strengths of the probe's L2 penalty, on features of variance 1."""
ITERATIONS = 5_000
LENGTH = 128
"""Most tokens of a text of a task."""
DRAWS = 4
"""Draws of masks of each text, for the loss."""
GENERAL = 400
"""Of so many documents one is in no corpus: an earlier measure was of such text."""
WORDS = 900_000
"""Of each selection, separated by white space; of pairs a share of them."""
RESAMPLES = 400
"""Resampled test sets of each measure; of a task they are the same for all models."""
UNIT = 1e-5
"""Of the stored differences between the scores of resampled test sets and the score."""


@dataclass(frozen=True)
class StudyTask:
    """A task of the study.

    Attributes:
        kind: `classification`, `tagging`, `translation` (BLEU), or `text`, which no setting
            measures: its texts are held out of the corpus.
        metric: what is compared, of the kind's metrics.
        domain: prefix of the sources of the corpus that are of the task's domain.
    """

    kind: str
    metric: str
    domain: str


TASKS = {
    "chemprot": StudyTask("classification", "micro_f1", "bio_"),
    "ncbi_disease": StudyTask("tagging", "micro_f1", "bio_"),
    "financial_phrasebank": StudyTask("classification", "macro_f1", "finance_"),
    "scierc": StudyTask("classification", "macro_f1", "cs_"),
    "sst2": StudyTask("classification", "accuracy", "reviews_"),
    "bc5cdr": StudyTask("tagging", "micro_f1", "bio_"),
    "ag_news": StudyTask("classification", "accuracy", "news_"),
    "acl_arc": StudyTask("classification", "macro_f1", "cs_"),
    "text_it": StudyTask("text", "", "it_"),
    "text_law": StudyTask("text", "", "legal_"),
    "text_medical": StudyTask("text", "", "bio_"),
    "bleu_it": StudyTask("translation", "bleu", "it"),
    "bleu_law": StudyTask("translation", "bleu", "law"),
    "bleu_medical": StudyTask("translation", "bleu", "medical"),
    "bleu_koran": StudyTask("translation", "bleu", "koran"),
    "bleu_captions": StudyTask("translation", "bleu", "captions"),
    "bleu_news": StudyTask("translation", "bleu", "news"),
}
"""In the order of computing. Plain text and translations are tested on the sets of Koehn and
Knowles (2017), the former on their English sides, captions and news on pairs that are kept out;
targets are of other texts of the domain."""


@dataclass(frozen=True)
class Setting:
    """How models are adapted and measured.

    Attributes:
        kinds: kinds of tasks that it has.
        base: a model's name, or none: the model is trained from scratch.
        train: options of `corpusfit.adapt`.
        settings: further settings of it.
        rungs: what is measured after the selection.
        words: factor of the words of a selection.
    """

    kinds: tuple[str, ...]
    base: str
    train: dict[str, Any]
    rungs: tuple[str, ...]
    settings: tuple[str, ...] = ("mix.heldout=32",)
    words: float = 1.0


LABELED = ("classification", "tagging")
BATCH = {"batch": 16, "length": 128}
PAIRS_TRAINING = (
    *("objective.pair_tokens=4096", "train.lr_scheduler_type=inverse_sqrt"),
    *("train.adam_beta2=0.98", "train.weight_decay=0.0"),
)
DE_EN = {
    "options": {
        "objective": "translation",
        "init": "tiny",
        "max_steps": 2_400,
        "batch": 1,
        "length": 100,
        "learning_rate": 3e-3,
    },
    "settings": ("model.vocabulary=4096", *PAIRS_TRAINING, "train.warmup_steps=200"),
}
"""The model that selections of pairs continue, of all pairs; as in papers/recipes/README.md.
`en-de` is the same in the other direction."""
SETTINGS = {
    "continued": Setting(
        LABELED,
        "bert-mini-wiki",
        {"objective": "mlm", "max_steps": 600, "learning_rate": 3e-4, **BATCH},
        ("probe",),
    ),
    "translation": Setting(
        ("translation",),
        "de-en",
        {
            "objective": "translation",
            "max_steps": 120,
            "batch": 1,
            "length": 100,
            "learning_rate": 1e-3,
        },
        ("bleu",),
        (*PAIRS_TRAINING, "train.warmup_steps=20"),
        words=2 / 9,
    ),
}
SETTINGS["into_german"] = replace(SETTINGS["translation"], base="en-de")


_FIRST_NAMES = {
    "learning_rate": "rate",
    "max_steps": "steps",
    "weight_decay": "decay",
    "max_grad_norm": "clip",
    "lr_scheduler_type": "schedule",
    "adam_beta2": "beta2",
}
"""Names that settings had when the first pieces were computed, by those of today."""


def as_identified(training: Record) -> Record:
    """Options and settings by their first names, which identify pieces."""
    named = {_FIRST_NAMES.get(name, name): value for name, value in training.items()}
    settings = [setting.partition("=") for setting in named.pop("settings")]
    names = [path.rpartition(".") for path, _, _ in settings]
    named["settings"] = [
        f"{group}.{_FIRST_NAMES.get(name, name)}={value}"
        for (group, _, name), (_, _, value) in zip(names, settings, strict=True)
    ]
    return named


@dataclass(frozen=True)
class Piece:
    """A rung of a cell."""

    setting: str
    task: str
    column: str
    seed: int
    rung: str


def digest(decides: Any) -> str:
    """Hex digest of plain data."""
    text = json.dumps(decides, sort_keys=True).encode()
    return hashlib.blake2b(text, digest_size=8).hexdigest()


def aligned(stem: Path, direction: str) -> str:
    """Line-aligned files of pairs, the side to translate first."""
    return "pair:" + ",".join(f"{stem}.{side}" for side in direction.split("-"))


def file_digest(path: Path) -> str:
    """Hex digest of a file."""
    with path.open("rb") as f:
        return hashlib.file_digest(f, lambda: hashlib.blake2b(digest_size=8)).hexdigest()


class Cells:
    """The finished rungs: a file of JSON lines for each task, in a folder.

    A file is replaced as a whole under a lock, so programs on one machine may share the folder,
    and one that is killed leaves the file as it was. Lines are in order, one for each digest, so
    two machines' files merge by their union.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @cached_property
    def records(self) -> dict[str, Record]:
        """All records by digest, as they were when first asked for, and those added since."""
        paths = sorted(self.folder.glob("*.jsonl"))
        return {digest: r for path in paths for digest, r in self._read(path).items()}

    def add(self, record: Record) -> None:
        """Store a record."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"{record['task']}.jsonl"
        with (self.folder / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            found = self._read(path) | {record["digest"]: record}
            keys = ("setting", "column", "seed", "rung", "digest")
            order = sorted(found.values(), key=lambda r: [r[key] for key in keys])
            write_bytes(path, b"".join(orjson.dumps(r) + b"\n" for r in order))
        self.records[record["digest"]] = record

    @staticmethod
    def _read(path: Path) -> dict[str, Record]:
        found = map(orjson.loads, path.read_bytes().splitlines()) if path.exists() else ()
        return {record["digest"]: record for record in found}


@dataclass(frozen=True)
class Pile(Work):
    """The corpora and targets of the study, made once in the work folder.

    A seed's corpus is a third of the pile, without the documents that contain a dev or test text
    of any task, and without those kept for the loss on general text. So every column chooses from
    the same clean text, and a random selection serves all tasks.
    """

    def corpus(self, seed: int) -> Path:
        """The seed's corpus; its facts stand beside it."""
        folder = self.folder / f"corpus-{seed % PARTS}"
        if folder.with_suffix(".json").exists():
            return folder
        finder = ContaminationFinder(HeldoutIndex.of_texts(self.heldout()))
        facts: Record = {"files": {}, "contaminated": {}, "words": 0}
        known = np.empty(0, np.uint64)
        for path in sorted((self.data / "pile").glob("*.jsonl.zst")):
            rows = [
                row
                for i, row in enumerate(lines(path))
                if i % PARTS == seed % PARTS and i % GENERAL
            ]
            texts = [orjson.loads(row)["text"] for row in rows]
            dirty = set(finder.find(text_array(texts)).text.tolist())
            clean = [i for i in range(len(rows)) if i not in dirty]
            made = folder / path.name.removesuffix(".zst")
            write_bytes(made, b"".join(rows[i] for i in clean))
            facts["files"][made.name] = file_digest(made)
            facts["contaminated"][made.name] = len(dirty)
            facts["words"] += sum(len(texts[i].split()) for i in clean)
            numbered = number_words(*buffers(text_array([texts[i] for i in clean])), table(), False)
            known = np.union1d(known, numbered[1])
        facts["vocabulary"] = len(known)
        write_bytes(folder.with_suffix(".json"), orjson.dumps(facts))
        return folder

    def facts(self, seed: int) -> Record:
        """Digests, words and different words of the seed's corpus, and documents left out."""
        done = self.corpus(seed).with_suffix(".json")
        found: Record = orjson.loads(done.read_bytes())
        return found

    def place(self, name: str) -> Path:
        """A task's folder of train, dev and test."""
        kind = TASKS[name].kind
        if kind == "text":
            folder = self.folder / "tasks" / f"{name}-lines"
            if not (folder / "test.jsonl").exists():
                domain = name.removeprefix("text_")
                test = self.data / "parallel" / "koehn_knowles" / domain / "dev.en"
                store(folder / "test.jsonl", test.read_text("utf-8").splitlines())
            return folder
        return self.data / ("ner" if kind == "tagging" else "tasks") / name

    def different(self, name: str, part: str) -> list[str]:
        """Different texts of a split; of plain text a tenth of the training lines is dev."""
        if TASKS[name].kind != "text":
            return super().different(name, part)
        domain = name.removeprefix("text_")
        found = lines(self.data / "parallel" / "train" / f"{domain}.en.zst")
        texts = dict.fromkeys(line.decode().strip() for line in found)
        return [
            text
            for i, text in enumerate(texts)
            if len(text.split()) > 4 and (i % 10 == 0) == (part == "dev")
        ]

    def unseen(self, texts: list[str], seed: int) -> list[str]:
        """All texts, as `corpus` leaves out what contains one."""
        return texts

    def heldout(self) -> list[str]:
        """Dev and test texts of all tasks."""
        found = []
        for name, task in TASKS.items():
            if task.kind == "translation":
                continue
            folder = self.place(name)
            for part in ("dev", "test"):
                if task.kind == "tagging":
                    pieces = read_conll([str(folder / f"{part}.conll")], part).pieces
                    found += [" ".join(words) for words in pieces]
                elif task.kind == "text":
                    found += (
                        self.different(name, part)
                        if part == "dev"
                        else texts_of(folder / "test.jsonl")
                    )
                else:
                    rows = lines(folder / f"{part}.jsonl.zst")
                    found += [orjson.loads(row)["text"] for row in rows]
        return found


@dataclass(frozen=True)
class Pairs(Pile):
    """Aligned pairs to choose from by their English sides: two thirds of six domains a seed.

    A tenth of each domain is kept out, for the targets. No pair shares a side with a test set.
    """

    def corpus(self, seed: int) -> Path:
        """The seed's corpus, rows with both sides; its facts stand beside it."""
        folder = self.folder / f"corpus-{seed % PARTS}"
        if folder.with_suffix(".json").exists():
            return folder
        facts: Record = {"files": {}, "words": 0}
        known = np.empty(0, np.uint64)
        for domain in DOMAINS:
            pairs = [
                pair
                for i, pair in enumerate(self.pairs(domain))
                if i % 10 and i % PARTS != seed % PARTS
            ]
            made = folder / f"{domain}.jsonl"
            rows = (orjson.dumps({"text": en, "de": de}) + b"\n" for de, en in pairs)
            write_bytes(made, b"".join(rows))
            facts["files"][made.name] = file_digest(made)
            facts["words"] += sum(len(en.split()) for _, en in pairs)
            texts = text_array([en for _, en in pairs])
            known = np.union1d(known, number_words(*buffers(texts), table(), False)[1])
        facts["vocabulary"] = len(known)
        write_bytes(folder.with_suffix(".json"), orjson.dumps(facts))
        return folder

    def pairs(self, domain: str) -> list[tuple[str, str]]:
        """German and English sides of a domain, without those of test sets and empty ones."""
        parallel = self.data / "parallel"
        if domain == "koran":
            paths = [parallel / "koehn_knowles" / domain / f"train.{side}" for side in SIDES]
        else:
            paths = [parallel / "train" / f"{domain}.{side}.zst" for side in SIDES]
        german, english = ([s.decode().strip() for s in lines(path)] for path in paths)
        tested = {
            form_of(folded(line.decode()))
            for path in parallel.glob("koehn_knowles/*/dev.*")
            for line in lines(path)
        } | {b""}
        found = zip(german, english, strict=True)
        return [p for p in found if not any(form_of(folded(side)) in tested for side in p)]

    def place(self, name: str) -> Path:
        """The folder of a task's test set, dev.de and dev.en."""
        domain = TASKS[name].domain
        published = self.data / "parallel" / "koehn_knowles" / domain
        if published.is_dir():
            return published
        folder = self.folder / "tasks" / name
        if not (folder / "dev.en").exists():
            pairs = self.pairs(domain)
            # a side of another pair, which is trained on or selected by, is no test
            others = {
                form_of(folded(side))
                for of in DOMAINS
                for i, pair in enumerate(pairs if of == domain else self.pairs(of))
                if of != domain or i % 20 != 10
                for side in pair
            }
            kept = [p for p in pairs[10::20] if not others & {form_of(folded(s)) for s in p}]
            for side, at in zip(SIDES, (0, 1), strict=True):
                write_bytes(folder / f"dev.{side}", "".join(p[at] + "\n" for p in kept).encode())
        return folder

    def unseen(self, texts: list[str], seed: int) -> list[str]:
        """The texts that no pair of the seed's corpus has."""
        return super(Pile, self).unseen(texts, seed)

    def different(self, name: str, part: str) -> list[str]:
        """Different English sides that are kept out of the corpora, half of them dev."""
        texts = [en for _, en in self.pairs(TASKS[name].domain)[::10]]
        return list(dict.fromkeys(texts[part == "dev" :: 2]))


@dataclass(frozen=True)
class Study:
    """Computes rungs.

    Attributes:
        pile: corpora and tasks.
        pairs: the same of translation.
        models: folder with `bert-mini-wiki`.
        cells: what is finished.
    """

    pile: Pile
    pairs: Pairs
    models: Path
    cells: Cells

    def inputs(self, piece: Piece) -> Pile:
        """What a piece chooses from."""
        return self.pairs if TASKS[piece.task].kind == "translation" else self.pile

    def base(self, piece: Piece) -> Path:
        """The folder of the model that a setting continues; of translation it is trained first."""
        name = SETTINGS[piece.setting].base
        if name not in ("de-en", "en-de"):
            return self.models / name if (self.models / name).is_dir() else find(name)
        out = self.pairs.folder / name
        if not (out / "manifest.json").exists():
            every = [p for d in DOMAINS for i, p in enumerate(self.pairs.pairs(d)) if i % 10]
            for at, side in enumerate(SIDES):
                path = self.pairs.folder / f"all.{side}"
                write_bytes(path, "".join(pair[at] + "\n" for pair in every).encode())
            corpusfit.adapt(
                data=aligned(self.pairs.folder / "all", name),
                out=out,
                settings=DE_EN["settings"],
                machine=Machine(workers=1, cache=self.pairs.folder / "cache"),
                **DE_EN["options"],
            )
        return out

    def base_identity(self, piece: Piece) -> str:
        """What the base is, without training it."""
        name = SETTINGS[piece.setting].base
        if name in ("de-en", "en-de"):
            corpora = [self.pairs.facts(seed)["files"] for seed in (0, 1)]
            training = as_identified({**DE_EN["options"], "settings": DE_EN["settings"]})
            settings = training.pop("settings")
            decides = {"options": training, "settings": settings, "scale": 1.0, "corpora": corpora}
            return digest(decides if name == "de-en" else {**decides, "direction": name})
        return name and _fingerprint(self.base(piece))

    def decides(self, piece: Piece) -> Record | None:
        """Everything that decides a piece; None if a lower rung must be computed first."""
        work = self.inputs(piece)
        rung = piece.rung
        if rung == "select":
            return {
                "select": 1,
                "column": piece.column,
                "seed": piece.seed,
                "words": self.words(piece),
                "corpus": work.facts(piece.seed)["files"],
                "target": file_digest(work.target(piece.task, piece.seed).train),
            }
        base = self.base_identity(piece)
        if piece.column == BASE:
            model = base
        else:
            selected = self.found(replace(piece, rung="select"))
            if selected is None:
                return None
            text = selected["result"]["text"]
            own = SETTINGS[piece.setting]
            train = as_identified({**own.train, "settings": own.settings})
            asked = {"base": base, "train": train, "seed": piece.seed, "text": text}
            if rung == "adapt":
                return {"adapt": 1, **asked}
            model = digest({"adapt": 1, **asked})
        measured = {rung: 1, "model": model, "task": _task_digest(work.place(piece.task))}
        if rung == "probe":
            return {**measured, "examples": 0, "length": LENGTH}
        return measured

    def words(self, piece: Piece) -> int:
        """Words of a piece's selection."""
        return round(WORDS * SETTINGS[piece.setting].words)

    def found(self, piece: Piece) -> Record | None:
        """The record of a piece, if it is finished."""
        decides = self.decides(piece)
        return None if decides is None else self.cells.records.get(digest(decides))

    def compute(self, piece: Piece) -> Record:
        """Compute a piece, whose lower rungs are finished, and store it."""
        decides = self.decides(piece)
        if decides is None:
            raise ValueError(f"{piece} comes before its selection")
        began = time.perf_counter()
        busy = _processor_seconds()
        result = getattr(self, f"_{piece.rung}")(piece)
        record = {
            **asdict(piece),
            "digest": digest(decides),
            "model": decides.get("model", ""),
            "text": decides.get("text", ""),
            "result": result,
            "seconds": round(time.perf_counter() - began, 1),
            "cpu_seconds": round(_processor_seconds() - busy, 1),
            "made": {k: machine()[k] for k in ("commit", "cpu", "date")},
        }
        self.cells.add(record)
        return record

    def _select(self, piece: Piece) -> Record:
        """Select equally many words; bits of unseen target text under an n-gram model of them."""
        work = self.inputs(piece)
        target = work.target(piece.task, piece.seed)
        facts = work.facts(piece.seed)
        column, _, general = piece.column.partition("+")
        budget = self.words(piece)
        texts, sources = self._best(piece, column, round(budget * (1 - float(general or 0))))
        if general:  # general text as `random` has it, up to the same words
            known = set(texts)
            left = budget - sum(len(text.split()) for text in texts)
            others = [
                pair
                for pair in zip(*self._best(piece, RANDOM, budget), strict=True)
                if pair[0] not in known
            ]
            within = np.cumsum([len(text.split()) for text, _ in others]) <= left
            added = [pair for pair, fits in zip(others, within, strict=True) if fits]
            texts += [text for text, _ in added]
            sources = np.append(sources, [source for _, source in added])
        name = self._keep(texts, piece)
        words = np.array([len(text.split()) for text in texts])
        inside = np.char.startswith(sources, TASKS[piece.task].domain)
        return {
            "text": name,
            "bits": bits(texts, texts_of(target.dev), facts["vocabulary"]),
            "precision": float(words[inside].sum() / words.sum()),
            "words": int(words.sum()),
            "segments": len(texts),
        }

    def _best(self, piece: Piece, column: str, words: int) -> tuple[list[str], np.ndarray]:
        """The best texts by a method, and their sources."""
        work = self.inputs(piece)
        method, *settings = column.split("@")
        place = work.folder / "scores" / f"{piece.task}-{column}-{piece.seed}"
        scored = corpusfit.select(
            target=work.target(piece.task, piece.seed).train,
            corpus=work.corpus(piece.seed),
            out=place,
            method=method,
            settings=settings,
            embedder="static",
            seed=piece.seed,
            overwrite=True,
            machine=Machine(workers=1, cache=work.folder / "cache"),
        )
        found = taken(scored, work.documents(piece.seed), words)
        shutil.rmtree(place)
        return found

    def _keep(self, texts: list[str], piece: Piece) -> str:
        """Store selected texts, or pairs, under their digest, and return it."""
        name = digest(texts)
        work = self.inputs(piece)
        path = work.folder / "selections" / f"{name}.jsonl"
        if path.exists():
            return name
        if isinstance(work, Pairs):
            german: dict[str, list[str]] = {}
            for file in sorted(work.corpus(piece.seed).glob("*.jsonl")):
                for row in map(orjson.loads, lines(file)):
                    german.setdefault(row["text"], []).append(row["de"])
            sides = [german[text].pop(0) for text in texts], texts
            for side, of in zip(SIDES, sides, strict=True):
                write_bytes(path.with_suffix(f".{side}"), "".join(t + "\n" for t in of).encode())
        store(path, texts)
        return name

    def _adapt(self, piece: Piece) -> Record:
        """Train on the selection, unless another task's cell did; a killed training resumes."""
        decides = self.decides(piece)
        work = self.inputs(piece)
        if decides is None:
            raise ValueError(f"{piece} comes before its selection")
        out = work.folder / "models" / digest(decides)
        shared = (out / "manifest.json").exists()
        text = work.folder / "selections" / f"{decides['text']}.jsonl"
        if not text.exists() and not shared:
            again = self._select(piece)  # on another machine than the record's
            if not text.exists():
                raise CorpusfitError(f"{piece} selects another text now: {again['text']}")
        setting = SETTINGS[piece.setting]
        run = corpusfit.adapt(
            data=aligned(text.with_suffix(""), setting.base) if isinstance(work, Pairs) else text,
            out=out,
            seed=piece.seed,
            settings=("train.evaluations=1", *setting.settings),
            machine=Machine(workers=1, cache=work.folder / "tokens"),
            **({"model": str(self.base(piece))} if setting.base else {}),
            **setting.train,
        )
        shutil.rmtree(work.folder / "tokens", ignore_errors=True)
        facts = run.manifest
        passes = setting.train["max_steps"] * setting.train["batch"] / max(1, facts["rows"])
        return {
            "shared": shared,
            "passes": round(passes, 3),
            **{key: facts[key] for key in ("seconds", "tokens", "rows")},
        }

    def _model(self, piece: Piece) -> Path:
        """The folder of a piece's model; trained again if it is not on this machine."""
        if piece.column == BASE:
            return self.base(piece)
        adapting = replace(piece, rung="adapt")
        out = self.inputs(piece).folder / "models" / digest(self.decides(adapting))
        if not (out / "manifest.json").exists():
            self._adapt(adapting)
        return out

    def _probe(self, piece: Piece) -> Record:
        """Logistic regression on the frozen model's states."""
        task = _read(self.pile.place(piece.task), TASKS[piece.task].kind)
        return probe(self._model(piece), task, TASKS[piece.task].metric)

    def _bleu(self, piece: Piece) -> Record:
        """BLEU of test."""
        test = self.inputs(piece).place(piece.task)
        direction = SETTINGS[piece.setting].base
        place = aligned(test / "dev", direction)
        options = {"seeds": 1, "kind": "translation"}
        (outcome,) = self._evaluated(piece, place, **options).outcomes()
        task = read_task(place, TaskPlan(kind="translation"), seed=0)
        return {
            "test": {name: round(score, 6) for name, score in outcome.scores["test"].items()},
            "resampled": resampled(
                "bleu", load("translation"), load(task.kind).sums_of(task, outcome)
            ),
        }

    def _evaluated(self, piece: Piece, place: str = "", **options: Any) -> Any:
        out = self.inputs(piece).folder / "evaluations" / digest(self.decides(piece))
        task = place or self.pile.place(piece.task)
        model = self._model(piece)
        return corpusfit.evaluate(task=task, model=str(model), out=out, machine=ONE, **options)


def probe(folder: Path, task: Task, metric: str) -> Record:
    """Classify a frozen model's states by logistic regression.

    A text is the mean of its tokens' last states, a word the state of its first token. Features
    have mean 0 and variance 1 on train, so that lbfgs converges; the penalty is the one with the
    lowest log loss on dev, which varies less than a score. Nothing is drawn.

    Returns:
        metrics of dev and test, the penalty, and the metric of resampled test sets.
    """
    from sklearn.linear_model import LogisticRegression

    states = {split: features(folder, getattr(task, split), task.kind) for split in SPLITS}
    mean = states["train"].mean(0)
    deviation = states["train"].std(0)
    scaled = {
        split: ((x - mean) / np.maximum(deviation, 1e-6)).astype(np.float64)
        for split, x in states.items()
    }
    gold = {split: getattr(task, split).flat for split in SPLITS}
    model = LogisticRegression(max_iter=ITERATIONS, warm_start=True)
    best: Record = {"dev_bits": math.inf}
    unconverged = 0
    rises = 0
    for strength in STRENGTHS:
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            model.set_params(C=strength).fit(scaled["train"], gold["train"])
        unconverged += len(said)
        chances = {
            split: np.full((len(gold[split]), len(task.labels)), 1e-6) for split in ("dev", "test")
        }
        for split, of in chances.items():
            of[:, model.classes_] = np.maximum(1e-6, model.predict_proba(scaled[split]))
        lost = {s: -np.log2(of[np.arange(len(of)), gold[s]]) for s, of in chances.items()}
        found = float(lost["dev"].mean())
        if found < best["dev_bits"]:
            rises = 0
            best = {"dev_bits": found, "c": strength, "chances": chances, "test": lost["test"]}
        elif (rises := rises + 1) == 2:  # weaker penalties take longer and are no better
            break
    task_type = load(task.kind)
    answers = {split: of.argmax(1).astype(np.int32) for split, of in best["chances"].items()}
    scores = {
        split: task_type.measure(task.labels, getattr(task, split), own)
        for split, own in answers.items()
    }
    tallies = task_type.tally(task.labels, task.test, answers["test"])
    return {
        **{split: {name: round(of[name], 6) for name in KEPT} for split, of in scores.items()},
        "bits": round(float(best["test"].mean()), 6),
        "c": best["c"],
        "unconverged": unconverged,
        "resampled": resampled(metric, task_type, tallies),
    }


def resampled(metric: str, task_type: Any, tallies: np.ndarray) -> str:
    """The metric of resampled test sets, as `packed` differences to that of test.

    The sets depend on the number of examples alone, so the differences of two models are paired.
    """
    n = len(tallies)
    counts = np.random.default_rng(n).multinomial(n, np.full(n, 1 / n), RESAMPLES)
    summed = (counts @ tallies.reshape(n, -1)).reshape(RESAMPLES, *tallies.shape[1:])
    differences = task_type.score(metric, summed) - task_type.score(metric, tallies.sum(0))
    return packed(np.clip(np.round(differences / UNIT), -(2**15), 2**15 - 1).astype(np.int16))


def features(folder: Path, examples: Examples, kind: str) -> np.ndarray:
    """float32 [pieces, width]: the last states of a model, by text or by word."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    with quiet():
        tokenizer = AutoTokenizer.from_pretrained(folder)
        model = AutoModel.from_pretrained(folder).float().eval()
    rows = model.get_input_embeddings().weight.shape[0]
    special = special_tokens_of(tokenizer, str(folder), rows)
    encoded = encode(examples, kind, backend_tokenizer(tokenizer, str(folder)), special, LENGTH)
    found: list[np.ndarray] = [np.empty(0)] * len(encoded)
    order = np.argsort(-encoded.lengths, kind="stable")
    for at in range(0, len(order), 32):
        numbers = order[at : at + 32]
        width = int(encoded.lengths[numbers].max())
        ids = np.full((len(numbers), width), special.pad, np.int64)
        for row, number in enumerate(numbers):
            ids[row, : len(encoded.ids[number])] = encoded.ids[number]
        mask = np.arange(width) < encoded.lengths[numbers][:, None]
        with torch.no_grad():
            given = {"input_ids": torch.from_numpy(ids), "attention_mask": torch.from_numpy(mask)}
            states = model(**given).last_hidden_state.numpy()
        for row, number in enumerate(numbers):
            length = len(encoded.ids[number])
            if kind == "tagging":
                places = encoded.places[number]
                found[number] = np.where((places == NOWHERE)[:, None], 0, states[row, places])
            else:
                found[number] = states[row, :length].mean(0, keepdims=True)
    return np.concatenate(found).astype(np.float32)


def masked_loss(folder: Path, texts: Sequence[str]) -> Record:
    """Mean loss of masked tokens in nats, with its standard error over texts.

    15 % of the tokens of each text are masked, in a few draws that depend on the text's place
    alone, so all models see the same masks.
    """
    import torch
    from transformers import AutoModelForMaskedLM, AutoTokenizer

    with quiet():
        tokenizer = AutoTokenizer.from_pretrained(folder)
        model = AutoModelForMaskedLM.from_pretrained(folder).float().eval()
    every = tokenizer(list(texts), truncation=True, max_length=LENGTH)["input_ids"]
    total = np.zeros(len(every))
    count = np.zeros(len(every))
    order = sorted(range(len(every)), key=lambda i: -len(every[i]))
    for draw in range(DRAWS):
        for at in range(0, len(order), 32):
            numbers = order[at : at + 32]
            width = len(every[numbers[0]])
            ids = torch.full((len(numbers), width), tokenizer.pad_token_id)
            labels = torch.full_like(ids, -100)
            for row, number in enumerate(numbers):
                own = torch.tensor(every[number])
                inner = len(own) - 2
                generator = np.random.default_rng([draw, number])
                chosen = 1 + generator.permutation(inner)[: math.ceil(0.15 * inner)]
                ids[row, : len(own)] = own
                labels[row, chosen] = own[chosen]
                ids[row, chosen] = tokenizer.mask_token_id
            mask = ids != tokenizer.pad_token_id
            where = labels != -100
            with torch.no_grad():  # the head, which is most of the work, at masked tokens alone
                states = model.base_model(input_ids=ids, attention_mask=mask).last_hidden_state
                logits = model.cls(states[where])
                losses = torch.nn.functional.cross_entropy(logits, labels[where], reduction="none")
            owner = np.repeat(numbers, where.sum(1).numpy())
            np.add.at(total, owner, losses.numpy())
            np.add.at(count, owner, 1)
    mean = total.sum() / count.sum()
    error = np.sqrt(((total - mean * count) ** 2).sum()) / count.sum()
    return {"nats": round(float(mean), 5), "error": round(float(error), 5)}


def packed(numbers: np.ndarray) -> str:
    """An array as text."""
    return base64.b64encode(zlib.compress(numbers.tobytes(), 9)).decode()


def unpacked(text: str, kind: Any = np.uint8) -> np.ndarray:
    """The array that `packed` made a text of."""
    return np.frombuffer(zlib.decompress(base64.b64decode(text)), kind)


def pieces_of(
    setting: str, task: str, columns: Sequence[str], seed: int, rungs: Sequence[str]
) -> Iterator[Piece]:
    """The pieces of a block, by column; a base is measured once, and nothing is its selection."""
    for column in columns:
        if column == BASE and (seed or not SETTINGS[setting].base):
            continue
        for rung in rungs:
            if column != BASE or rung not in ("select", "adapt"):
                yield Piece(setting, task, column, seed, rung)


@cache
def _fingerprint(folder: Path) -> str:
    return file_digest(folder / "model.safetensors")


@cache
def _task_digest(folder: Path) -> str:
    return digest({p.name: file_digest(p) for p in sorted(folder.iterdir()) if p.is_file()})


def _read(folder: Path, kind: str) -> Task:
    return read_task(str(folder), TaskPlan(kind=kind), seed=0)


def _processor_seconds() -> float:
    """Processor time of this process and of its finished children."""
    of = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(used.ru_utime + used.ru_stime for used in of)
