"""Does the selected text raise a score? Of word vectors, on forty tasks, in hours of one core.

Asked, before anything was computed (2026-11-29):
1. Vectors of words are learned from nothing but 2 % of a corpus, and a linear classifier on them
   from all training rows of a task. Is its accuracy on the test set, in the mean over tasks, higher
   after the default selection (`cynical` in its default cut) than
   a. after random text in the same cut,
   b. after `moore_lewis`,
   c. after `dsir`?
Decided by:
- The three tests above and no others, each two-sided, at 5 % together by Holm's correction. The
  unit is the task; tasks and draws are crossed random effects (`score_tables.mean_interval`). A
  draw is half of the corpus, at most 500 training texts of the task as the target, the seed of the
  method and that of the vectors, and varies all of them together.
- Everything else is descriptive and is called so: macro F1, .5 and 10 % of the corpus, 100 training
  rows, tables of single tasks, and the arms beside the four: the default with pieces of 256,
  `bm25`, a fastText filter, the default of version 0.2 (`auto` in segments of 15 x 256), each with
  random text in its cut, and the task's own training text.
- Draws are computed one after the other for all tasks. The tests are made once, after the fifth
  draw, or after the last that is complete for all tasks when the time is over; no look at the
  difference decides when.
Tasks: 41 labeled tasks in English. Apart, and in no mean, are `tweet_sentiment_fr`,
`germeval21_fact`, `hatebr` and `smsa_id`, in languages that the corpus lacks, so that nothing in it
can help; and `subj`, of whose sentences 2,200 are also in `sst2`. Tasks near their ceiling stay.
Corpus: `pile` and `pile_more` without the documents that contain a dev or test text of any task.
Every arm of a cell has equally many words and signs, the first of the selection by falling score;
a selection is scored once and cut at three amounts. Asked of the precision: half an interval of
at most one point for each test.
Expected, from a try on twenty other tasks with a sixth of the text: +3.5 points over random (1.4 to
5.7), +1.9 over `moore_lewis` (0.0 to 3.9).
Power: by the deviations between tasks of that try (4.6 and 4.2 points), 41 tasks give half an
interval of 1.4 and 1.3 points; more text and draws give less, but not below what tasks differ by.
Asked are 1.0, for which the tasks' means must deviate by at most 3.2. Three tasks were begun to
see this, the first by the alphabet of topic, intent and sentiment (`ag_news`, `atis`,
`financial_phrasebank`; one draw). When the study began, two had both arms (+5.7 and +.8 over
random, which says nothing about a deviation) and the third one. Their cells stay in the study, as
they are what it computes anyway; nothing above was changed after them.

Run: nice -n 19 python benchmarks/score_study.py DATA WORK [--blocks stated,…] [--tasks ag_news,…]
[--draws 0,1] [--before PYTHON] [--cells FOLDER]. Each cell is stored when it is finished; the
command goes on from those. PYTHON is that of an environment with version 0.2 at commit bf372587.
Or benchmarks/score_study.py --store FOLDER,FOLDER, which keeps what benchmarks/score_pages.py needs
of the cells of such folders.
"""

from __future__ import annotations

import argparse
import base64
import itertools
import os
import shutil
import subprocess
import time
import traceback
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import orjson
import pyarrow.dataset as ds
from scipy.stats import t as student
from sklearn.metrics import f1_score

import corpusfit
from benefit_cells import lines, some, store
from corpusfit.core.artifacts import write_bytes
from corpusfit.core.types import text_array
from corpusfit.decontamination.finder import ContaminationFinder, HeldoutIndex
from corpusfit.evaluation.vector_score import Words, WordVectors, answers
from corpusfit.text.context import Machine
from harness import machine
from score_cells import Cells, Record, digest
from score_tables import mean_interval

HERE = Path(__file__).parent
STATED_AMOUNT = 0.02
AMOUNTS = (0.005, 0.02, 0.1)
TAKEN = 0.2
"""Share of the corpus's word pieces that is selected, so that the largest amount of words is in."""
TARGET = 500
ROWS = 100
DRAWS = 5
APART = ("tweet_sentiment_fr", "germeval21_fact", "hatebr", "smsa_id", "subj")
STATED = ("random", "default", "moore_lewis", "dsir")
ARMS: dict[str, tuple[str, tuple[str, ...]]] = {
    "random": ("random", ()),
    "default": ("cynical", ()),
    "moore_lewis": ("moore_lewis", ()),
    "dsir": ("dsir", ()),
    "default_256": ("cynical", ("cut.pieces=256",)),
    "random_256": ("random", ("cut.pieces=256",)),
    "bm25": ("bm25", ()),
    "fasttext": ("fasttext", ()),
    "random_15x256": ("random", ("cut.pieces=256", "cut.gamma=15")),
    "before": ("auto", ()),
    "own": ("", ()),
}
"""The method and the settings of each arm."""
BEFORE = """
import sys, corpusfit
from corpusfit.text.context import Machine
target, corpus, out, seed, taken, cache = sys.argv[1:]
corpusfit.select(target, corpus, out=out, method="auto", embedder="static", seed=int(seed),
    fraction=float(taken), overwrite=True, machine=Machine("inline", 1, cache))
"""


@dataclass(frozen=True)
class Cell:
    """What is measured: of a task and a draw, an arm at an amount, on all rows (0) or some."""

    task: str
    draw: int
    arm: str
    amount: float
    rows: int


def blocks(tasks: Sequence[str], draws: Sequence[int]) -> Iterator[tuple[str, list[Cell]]]:
    """The study in the order of computing: a block's name, and cells of one selection's amount."""
    inside = [task for task in tasks if task not in APART]
    apart = [task for task in tasks if task in APART]
    others = [amount for amount in AMOUNTS if amount != STATED_AMOUNT]
    long = ("default_256", "random_256")
    peers = ("bm25", "fasttext")
    own = ("own",)
    past = ("random_15x256", "before")
    order = (
        ("stated", inside, STATED, (STATED_AMOUNT,)),
        ("apart", apart, STATED, (STATED_AMOUNT,)),
        ("amounts", inside, STATED, others),
        ("own", inside, own, (1.0,)),
        ("long", inside, long, (STATED_AMOUNT,)),
        ("peers", inside, peers, (STATED_AMOUNT,)),
        ("long_amounts", inside, long, others),
        ("peers_amounts", inside, peers, others),
        ("before", inside, past, (STATED_AMOUNT,)),
        ("before_amounts", inside, past, others),
    )
    for name, of, arms, amounts in order:
        for draw, task, arm, amount in itertools.product(draws, of, arms, amounts):
            yield name, [Cell(task, draw, arm, amount, rows) for rows in (0, ROWS)]


class Study:
    """The corpus, the selections and the tasks' rows, made once in a work folder."""

    def __init__(self, data: Path, folder: Path, before: Path | None) -> None:
        self.data = data
        self.folder = folder
        self.before = before

    @property
    def tasks(self) -> list[str]:
        """The names of all tasks."""
        return sorted(p.name for d in ("tasks", "tasks_more") for p in (self.data / d).iterdir())

    def split(self, task: str, part: str) -> list[Record]:
        """The rows of a split; none of one that the task lacks."""
        found = [self.data / d / task / f"{part}.jsonl.zst" for d in ("tasks", "tasks_more")]
        return [orjson.loads(row) for path in found if path.exists() for row in lines(path)]

    def dirty(self) -> dict[str, list[int]]:
        """By source, the rows that contain a dev or test text of a task."""
        path = self.folder / "dirty.json"
        if not path.exists():
            heldout = (
                row["text"]
                for task in self.tasks
                for part in ("dev", "test")
                for row in self.split(task, part)
            )
            finder = ContaminationFinder(HeldoutIndex.of_texts(heldout))
            found: dict[str, list[int]] = {}
            for source in self.sources():
                texts = [orjson.loads(row)["text"] for row in lines(source)]
                matches = finder.find(text_array(texts))
                found[source.name] = np.unique(matches.text).tolist()
            write_bytes(path, orjson.dumps(found))
        dirty: dict[str, list[int]] = orjson.loads(path.read_bytes())
        return dirty

    def sources(self) -> list[Path]:
        """The files of the corpus."""
        return sorted(p for d in ("pile", "pile_more") for p in (self.data / d).glob("*.zst"))

    def corpus(self, draw: int) -> Path:
        """The draw's half of the documents of each source; its facts stand beside it."""
        folder = self.folder / f"corpus-{draw}"
        if not folder.with_suffix(".json").exists():
            dirty = self.dirty()
            words = 0
            for number, source in enumerate(self.sources()):
                texts = [orjson.loads(row)["text"] for row in lines(source)]
                left = np.setdiff1d(np.arange(len(texts)), dirty[source.name])
                rng = np.random.default_rng((draw, number))
                drawn = np.sort(rng.permutation(left)[: len(left) // 2])
                half = [texts[i] for i in drawn]
                words += len(Words.of(half))
                store(folder / source.name.removesuffix(".zst"), half)
            out = {name: len(rows) for name, rows in dirty.items()}
            write_bytes(folder.with_suffix(".json"), orjson.dumps({"words": words, "dirty": out}))
        return folder

    @lru_cache(maxsize=1)  # noqa: B019 (one study in a process)
    def documents(self, draw: int) -> tuple[int, dict[str, list[str]]]:
        """Words of the draw's corpus, and its texts by source."""
        folder = self.corpus(draw)
        words: int = orjson.loads(folder.with_suffix(".json").read_bytes())["words"]
        found = {}
        for path in sorted(folder.glob("*.jsonl")):
            rows = path.read_bytes().splitlines()
            found[path.name] = [orjson.loads(row)["text"] for row in rows]
        return words, found

    @lru_cache(maxsize=1)  # noqa: B019
    def examples(self, task: str) -> tuple[list[Record], Words, list[Record], Words]:
        """The training rows and the test rows of a task, and their words."""
        train = self.split(task, "train")
        test = self.split(task, "test")
        train_words, test_words = (Words.of([r["text"] for r in part]) for part in (train, test))
        return train, train_words, test, test_words

    @lru_cache(maxsize=1)  # noqa: B019
    def selected(self, task: str, draw: int, arm: str) -> tuple[Words, Record]:
        """The words of a selection by falling score, as many as the largest amount has."""
        texts = [row["text"] for row in self.examples(task)[0]]
        if arm == "own":
            return Words.of(texts), {}
        kept = self.folder / "selections" / f"{task}-{draw}-{arm}.npz"
        total, documents = self.documents(draw)
        names = sorted(documents)
        most = round(AMOUNTS[-1] * total)
        if not kept.exists():
            places, facts = self.select(task, draw, arm, texts)
            pieces = [documents[names[of]][row][a:b] for of, row, a, b in places.tolist()]
            words = Words.of(pieces)
            # the text with which the largest amount is reached is the last
            reached = np.cumsum(words.numbers > 2)[np.flatnonzero(words.numbers == 2)]
            places = places[: int(np.searchsorted(reached, most)) + 1]
            kept.parent.mkdir(parents=True, exist_ok=True)
            unfinished = kept.with_suffix(".part")
            with unfinished.open("wb") as f:
                np.savez_compressed(f, places=places, facts=np.array(orjson.dumps(facts)))
            unfinished.rename(kept)
        found = np.load(kept)
        facts = orjson.loads(found["facts"].item())
        pieces = [documents[names[of]][row][a:b] for of, row, a, b in found["places"].tolist()]
        return Words.of(pieces).first(most), facts

    def select(self, task: str, draw: int, arm: str, texts: list[str]) -> tuple[np.ndarray, Record]:
        """Select the largest amount: int32 [n, 4] source, row, begin and end by falling score."""
        work = self.folder / "work"
        cache = self.folder / "cache"
        target = work / "target.jsonl"
        out = work / "selection"
        corpus = self.corpus(draw)
        store(target, some(texts, TARGET, draw))
        busy = sum(os.times()[:4])  # with those of the process of before
        method, settings = ARMS[arm]
        # tasks do not share random text, so that their errors are their own
        seed = draw if method != "random" else draw * 1_000 + self.tasks.index(task)
        if method == "fasttext":
            method = f"fasttext:{self.filter(task, draw, texts)}"
        if arm == "before":
            given = (target, corpus, out, seed, TAKEN, self.folder / "cache-before")
            shutil.rmtree(out, ignore_errors=True)
            code = [str(self.before), "-c", BEFORE, *map(str, given)]
            subprocess.run(code, check=True, stdout=subprocess.DEVNULL, cwd=work)
        else:
            corpusfit.select(
                target,
                corpus,
                out=out,
                method=method,
                embedder="static",
                fraction=TAKEN,
                seed=seed,
                settings=settings,
                overwrite=True,
                machine=Machine("inline", 1, cache),
            )
        columns = ["source", "row", "start", "end", "score", "tokens", "selected"]
        found = ds.dataset(out / "scores", format="parquet").to_table(
            columns=columns, filter=ds.field("selected")
        )
        names = sorted(path.name for path in corpus.glob("*.jsonl"))
        sources = [names.index(name) for name in found["source"].to_pylist()]
        numbers = [found[name].to_numpy() for name in ("row", "start", "end")]
        ties = np.random.default_rng(draw).permutation(len(sources))
        order = np.lexsort((ties, -found["score"].to_numpy()))
        facts = {
            "select_s": round(sum(os.times()[:4]) - busy, 1),
            "tokens": int(np.median(found["tokens"].to_numpy())),
        }
        return np.stack([sources, *numbers], 1).astype(np.int32)[order], facts

    def filter(self, task: str, draw: int, texts: list[str]) -> Path:
        """A fastText classifier of target texts and ten times as many random pieces."""
        import fasttext

        _, documents = self.documents(draw)
        self.selected(task, draw, "random")
        places = np.load(self.folder / "selections" / f"{task}-{draw}-random.npz")["places"]
        names = sorted(documents)
        near = some(texts, TARGET, draw)
        far = [documents[names[of]][row][a:b] for of, row, a, b in places[: 10 * len(near)]]
        rows = [("near", text) for text in near] + [("far", text) for text in far]
        path = self.folder / "work" / "filter.txt"
        order = np.random.default_rng(draw).permutation(len(rows))
        said = (f"__label__{rows[i][0]} {' '.join(rows[i][1].split())}\n" for i in order)
        path.write_text("".join(said), "utf-8")
        how = {"epoch": 25, "wordNgrams": 2, "bucket": 200_000, "dim": 32, "thread": 1}
        model = fasttext.train_supervised(str(path), verbose=0, **how)
        model.save_model(str(path.with_suffix(".bin")))
        return Path(f"{path.with_suffix('.bin')}#near")

    @lru_cache(maxsize=1)  # noqa: B019
    def vectors(self, task: str, draw: int, arm: str, amount: float) -> tuple[WordVectors, Record]:
        """Vectors of the words of a selection up to an amount, and its facts."""
        words, facts = self.selected(task, draw, arm)
        if arm != "own":
            most = round(amount * self.documents(draw)[0])
            words = words.first(most)
            if len(words) < most:
                raise ValueError(f"{len(words)} words were selected, of {most} to learn from")
        busy = time.process_time()
        found = WordVectors.learned(words, draw)
        facts = {**facts, "words": len(words), "types": len(found.identities)}
        return found, facts | {"vectors_s": round(time.process_time() - busy, 1)}

    def measure(self, cell: Cell) -> Record:
        """The accuracy of a cell, and which test rows are answered right."""
        train, train_words, test, test_words = self.examples(cell.task)
        vectors, facts = self.vectors(cell.task, cell.draw, cell.arm, cell.amount)
        if cell.rows:
            drawn = np.random.default_rng(cell.draw).permutation(len(train))[: cell.rows]
            train = [train[i] for i in np.sort(drawn)]
            train_words = Words.of([row["text"] for row in train])
        busy = time.process_time()
        given = answers(vectors, train_words, [row["label"] for row in train], test_words)
        gold = [row["label"] for row in test]
        right = np.array([a == b for a, b in zip(given, gold, strict=True)])
        said = [list(map(str, part)) for part in (gold, given)]
        macro = f1_score(*said, labels=sorted(set(said[0])), average="macro", zero_division=0)
        result = {"accuracy": round(float(right.mean()), 6), "macro_f1": round(float(macro), 6)}
        if cell.amount == STATED_AMOUNT and cell.task not in APART:
            result["right"] = packed(right)
        return result | facts | {"classify_s": round(time.process_time() - busy, 1)}


def packed(right: np.ndarray) -> str:
    """Answers, right or wrong, in few characters."""
    return base64.b85encode(zlib.compress(np.packbits(right).tobytes(), 9)).decode()


def unpacked(text: str) -> np.ndarray:
    """Answers, right (1) or wrong (0), as `packed` stored them; int8, zeros at the end."""
    found = zlib.decompress(base64.b85decode(text))
    return np.unpackbits(np.frombuffer(found, np.uint8)).astype(np.int8)


def compute(study: Study, cells: Cells, asked: argparse.Namespace) -> None:
    """Compute the cells that are missing, and store each; one that fails is told and left out."""
    made = {key: machine()[key] for key in ("commit", "cpu")}
    for block, group in blocks(asked.tasks or study.tasks, asked.draws):
        missing = [cell for cell in group if digest(asdict(cell)) not in cells.records]
        of_before = any(cell.arm == "before" for cell in group)
        if not missing or block not in asked.blocks or (of_before and not study.before):
            continue
        busy = time.process_time()
        said = []
        try:
            for cell in missing:
                result = study.measure(cell)
                record = {"digest": digest(asdict(cell)), "task": cell.task, "column": cell.arm}
                record |= {"setting": str(cell.amount), "seed": cell.draw, "rung": str(cell.rows)}
                cells.add(record | {"result": result, "made": made})
                said.append(f"{100 * result['accuracy']:.2f}")
        except Exception:
            traceback.print_exc()
            said.append("failed")
        spent = f"{time.process_time() - busy:.1f} s of a core"
        first = missing[0]
        print(
            time.strftime("%H:%M:%S"),
            block,
            first.draw,
            first.task,
            first.arm,
            first.amount,
            *said,
            spent,
            flush=True,
        )


def gains(
    cells: Cells, amount: float, rows: int, arm: str, other: str, what: str = "accuracy"
) -> tuple[list[str], np.ndarray]:
    """Tasks, and float64 [t, d] the points of one arm over another; NaN where one is missing.

    Only draws that are complete for all tasks in English count, while there is such a draw.
    """
    found: dict[tuple[str, int, str], float] = {}
    for record in cells.records.values():
        if (record["setting"], record["rung"]) == (str(amount), str(rows)):
            found[record["task"], record["seed"], record["column"]] = record["result"][what]
    pairs = [(t, d) for t, d, a in found if a == arm and (t, d, other) in found and t not in APART]
    tasks = sorted({task for task, _ in pairs})
    table = np.full((len(tasks), DRAWS), np.nan)
    for task, draw in pairs:
        difference = found[task, draw, arm] - found[task, draw, other]
        table[tasks.index(task), draw] = 100 * difference
    whole = ~np.isnan(table).any(0)
    return tasks, table[:, whole] if whole.any() else table


def tested(table: np.ndarray) -> tuple[float, float, float, float]:
    """The mean over tasks with its interval, and p that it is zero, by crossed random effects."""
    low, high = mean_interval(table)
    mean = (low + high) / 2
    error = (high - low) / 2 / student.ppf(0.975, len(table) - 1)
    return mean, low, high, float(2 * student.sf(abs(mean) / error, len(table) - 1))


def keep(folders: Sequence[Path], out: Path) -> None:
    """Store what the pages need of the cells of some folders, and what they cost beside it.

    A draw that is not complete for the stated tests is left out. Answers to single test texts stay
    where a test or a decision needs them.
    """
    # a cell that is in several folders counts once
    once = {key: r for folder in folders for key, r in Cells(folder).records.items()}
    records = list(once.values())
    stated = [r for r in records if is_stated(r)]
    tasks = {r["task"] for r in stated}
    counted = Counter(r["seed"] for r in stated)
    whole = {draw for draw, count in counted.items() if count == len(tasks) * len(STATED)}
    seconds: dict[tuple[str, ...], float] = {}
    files: dict[str, list[Record]] = {}
    for r in records:
        if r["seed"] not in whole:
            continue
        result = dict(r["result"])
        inside = r["rung"] in ("0", str(ROWS))
        of_test = r["column"] in STATED and r["task"] not in APART
        at_amount = of_test and r["setting"] == str(STATED_AMOUNT)
        # a selection serves all amounts, and vectors serve both numbers of training rows
        selection = (r["task"], str(r["seed"]), r["column"])
        costs = (
            ("select_s", of_test, selection),
            ("vectors_s", at_amount, (*selection, r["setting"])),
            ("classify_s", is_stated(r), (*selection, r["setting"], r["rung"])),
        )
        for what, stated_cost, key in costs:
            if what in result:
                block = "stated" if stated_cost else "descriptive"
                seconds[block, what, *key] = result.pop(what)
        if "cpu_s" in result:
            seconds["rungs", "cpu_s", *selection, r["rung"]] = result.pop("cpu_s")
        if inside and not is_stated(r):
            result.pop("right", None)
        for what in ("words", "types", "tokens"):
            result.pop(what, None)
        kept = {name: r[name] for name in ("digest", "task", "column", "setting", "seed", "rung")}
        files.setdefault(r["task"], []).append(kept | {"result": result})
    hours: dict[str, float] = {}
    for key, spent in seconds.items():
        hours[key[0]] = hours.get(key[0], 0.0) + spent / 3600
    for task, found in files.items():
        order = sorted(found, key=lambda r: (r["setting"], r["column"], r["seed"], r["rung"]))
        write_bytes(out / f"{task}.jsonl", b"".join(orjson.dumps(r) + b"\n" for r in order))
    facts = {
        "commits": sorted({r["made"]["commit"][:9] for r in records}),
        "cpus": sorted({r["made"]["cpu"] for r in records}),
        "core_hours": {block: round(spent, 2) for block, spent in sorted(hours.items())},
        "words": max(r["result"]["words"] for r in stated if r["seed"] in whole),
        "draws": len(whole),
    }
    write_bytes(out / "made.json", orjson.dumps(facts, option=orjson.OPT_INDENT_2) + b"\n")


def is_stated(record: Record) -> bool:
    """Whether a cell belongs to the stated tests."""
    return (
        record["column"] in STATED
        and record["task"] not in APART
        and (record["setting"], record["rung"]) == (str(STATED_AMOUNT), "0")
    )


def main() -> None:
    """Compute what is missing, or store what the pages need."""
    names = [name for name, _ in blocks(["subj", "trec"], [0])]
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    for name in ("data", "work"):
        parser.add_argument(name, nargs="?", type=lambda given: Path(given).resolve())
    parser.add_argument("--cells", type=Path, default=HERE / "results" / "score_study")
    parser.add_argument("--blocks", type=lambda given: given.split(","), default=names)
    parser.add_argument("--tasks", type=lambda given: given.split(","))
    parser.add_argument(
        "--draws", type=lambda given: [*map(int, given.split(","))], default=[*range(DRAWS)]
    )
    parser.add_argument("--before", type=Path)
    parser.add_argument("--store", type=lambda given: [*map(Path, given.split(","))])
    asked = parser.parse_args()
    if asked.store:
        keep(asked.store, asked.cells)
    elif asked.work is None:
        parser.error("DATA and WORK are required without --store")
    else:
        compute(Study(asked.data, asked.work, asked.before), Cells(asked.cells), asked)


if __name__ == "__main__":
    main()
