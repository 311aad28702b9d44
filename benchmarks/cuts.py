"""How long should a selected piece be? Judged by a trigram and by trained models.

Asked, before anything was computed:
1. Today segments of 15 windows of 256 word pieces are selected. How many bits a word of unseen
   target text do shorter ones save, by which method, at .1, 1 and 10 % of the corpus's words, for
   targets of short and of long texts, of 30, 100 and 500 texts?
2. Should the cut follow the target? The hypothesis: one window (gamma 1) of about as many word
   pieces as the median text of the target has, between 48 and 256.
3. Does a trained model agree, where it reads rows of 128 (a masked model that goes on training) or
   of 512 (a decoder from scratch), after equal tokens of equally many selected words?
Decided by:
- The mean over targets of the difference to today's cut, with the 95 % interval of Student's t over
  targets; a difference is shown if the interval excludes 0. The primary comparison is `cynical`
  with 100 texts at 1 %; the other shares, methods and numbers of texts must agree in sign.
- A cut loses on a target if the model's loss after it is higher than after today's cut in the mean
  of the seeds, by more than twice the standard error over seeds (of one seed: by more than .02
  nats, or .02 bits per byte).
- The rule that follows the target is taken over the best fixed cut if its mean is no worse by the
  trigram and if it loses on fewer targets by the models. Where trigram and models disagree, the cut
  whose largest loss against today's is the smallest is taken: it loses nowhere.
Expected: -.3, -.2 and -.12 bits in the mean; short pieces gain least, and may lose by the masked
model, where the target's texts are long.

The judge is an interpolated Kneser-Ney trigram with three discounts (Chen and Goodman 1998), apart
from the project's own: of exactly as many words of every selection, over the closed vocabulary of
corpus and target. It sees no ends of texts, and no words across them, so a cut gains nothing by
ending where the target's texts do. Corpus: up to 620,000 words of each source of the pile. Of four
sources every fifth document is kept apart; targets are their sentences, passages or documents.
Unseen texts are other rows than those selected by, and are in no document of the corpus.

Run: nice -n 19 python benchmarks/cuts.py DATA MODELS WORK [--stages bits,models,…] [--cells FOLDER]
or benchmarks/cuts.py --table, which prints the tables of the cells. Each cell is stored when it is
finished, and the command goes on from those.
"""

from __future__ import annotations

import argparse
import itertools
import os
import re
import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import orjson

import corpusfit
from benefit_cells import ONE, lines, outside, store, texts_of
from corpusfit.core.artifacts import write_bytes
from corpusfit.core.plan import CutPlan
from corpusfit.core.types import Documents, buffers, text_array
from corpusfit.kernels.characters import table as characters
from corpusfit.kernels.kneser_ney import number_words
from corpusfit.text.context import Machine
from corpusfit.text.reading import cut_units
from cuts_tables import followed, tables
from harness import machine
from score_cells import Cells, Record, digest, masked_loss
from trigram import judged

HERE = Path(__file__).parent
SHARES = (0.001, 0.01, 0.1)
WORDS_OF_SOURCE = 620_000
APART = 5
FITTED = 500
JUDGED = 400
JUDGED_WORDS = 30_000
"""Texts of a target to draw from; most unseen texts and words."""
TRAINED_WORDS = 120_000
"""Words of a selection that a model is trained on, some 150,000 word pieces."""
SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z])")
PASSAGE = 120
TARGETS = {
    "titles": ("tasks_more/stackoverflow_titles", "rows"),
    "questions": ("tasks_more/trec", "rows"),
    "law": ("pile/legal_austlii", "sentences"),
    "medical": ("pile/bio_medquad", "sentences"),
    "proteins": ("tasks/chemprot", "rows"),
    "citations": ("tasks/acl_arc", "rows"),
    "news": ("tasks/ag_news", "rows"),
    "privacy": ("tasks_more/privacy_policy", "rows"),
    "books": ("pile/books_gutenberg", "passages"),
    "reviews": ("tasks/imdb", "rows"),
    "abstracts": ("pile/cs_arxiv", "rows"),
    "articles": ("tasks_more/bbc_news", "rows"),
}
"""From short to long texts: where they are, and what is a text."""
FIRST = ("law", "citations", "books", "medical")
MODELED = ("articles", "law", "abstracts", "medical", "titles", "privacy")
TODAY = (256, 15)
FOLLOWED = (48, 64, 96, 128, 192, 256)
"""The cut of today, and the sizes by which one that follows a target is rounded."""


@dataclass(frozen=True)
class Piece:
    """A cell: what is measured (`bits`, `masked` or `decoder`) of which selection.

    Attributes:
        cut: word pieces and gamma; of a model that is not trained (0, 0).
        draw: which texts of the target, and the seed of the training.
    """

    kind: str
    target: str
    method: str
    cut: tuple[int, int]
    texts: int = 100
    draw: int = 0


def pieces(follow: dict[str, int]) -> Iterator[tuple[str, Piece]]:
    """The study by stage, what decides first.

    Args:
        follow: the cut by the rule, of each target.
    """
    every = [*FIRST, *(t for t in TARGETS if t not in FIRST)]
    for cut, target in itertools.product((TODAY, (64, 1), (256, 1), (128, 1)), every):
        yield "bits", Piece("bits", target, "cynical", cut)
    for target in every:
        yield "bits", Piece("bits", target, "cynical", (follow[target], 1))
    for kind, target in itertools.product(("masked", "decoder"), MODELED[:4]):
        for cut in (TODAY, (64, 1), (256, 1)):
            yield kind, Piece(kind, target, "cynical", cut)
    for target in MODELED:
        yield "base", Piece("masked", target, "base", (0, 0))
    for size, target in itertools.product((32, 96, 192, 48), every):
        yield "between", Piece("bits", target, "cynical", (size, 1))
    for cuts, target in itertools.product(((TODAY, (64, 1)), ((256, 1),)), every):
        for method, cut in itertools.product(("moore_lewis", "dsir"), cuts):
            yield "methods", Piece("bits", target, method, cut)
        for texts, cut in itertools.product((30, 500), cuts):
            yield "texts", Piece("bits", target, "cynical", cut, texts)
    for size, gamma, target in itertools.product((64, 256), (4, 2), FIRST):
        yield "gamma", Piece("bits", target, "cynical", (size, gamma))
    others = ("knn", "domain_classifier", "random")
    for method, cut, target in itertools.product(others, (TODAY, (256, 1), (64, 1)), every):
        yield "others", Piece("bits", target, method, cut)
    for draw, kind, target in itertools.product(range(3), ("masked", "decoder"), MODELED):
        for cut in dict.fromkeys((TODAY, (64, 1), (256, 1), (follow[target], 1))):
            yield "draws", Piece(kind, target, "cynical", cut, draw=draw)


STAGES = tuple(dict.fromkeys(stage for stage, _ in pieces(dict.fromkeys(TARGETS, FOLLOWED[0]))))


class Study:
    """The corpus, the targets and the cells, made once in a work folder."""

    def __init__(self, data: Path, models: Path, folder: Path, cells: Cells) -> None:
        self.data = data
        self.models = models
        self.folder = folder
        self.cells = cells

    def _documents(self, source: str) -> Iterator[tuple[bool, str]]:
        """The texts of a source of the pile, and whether they are kept apart."""
        for i, row in enumerate(lines(self.data / f"{source}.jsonl.zst")):
            apart = any(source == of for of, _ in TARGETS.values()) and i % APART == APART - 1
            yield apart, orjson.loads(row)["text"]

    @cached_property
    def corpus(self) -> Path:
        """The corpus's folder; its facts are `facts`."""
        folder = self.folder / "corpus"
        if not folder.with_suffix(".json").exists():
            known = np.empty(0, np.uint64)
            total = 0
            for path in sorted((self.data / "pile").glob("*.jsonl.zst")):
                name = path.name.split(".")[0]
                kept = []
                left = WORDS_OF_SOURCE
                for apart, text in self._documents(f"pile/{name}"):
                    if not apart and left > 0:
                        kept.append(text)
                        left -= len(text.split())
                store(folder / f"{name}.jsonl", kept)
                numbers, words = number_words(*buffers(text_array(kept)), characters(), False)
                total += int(np.count_nonzero(numbers > 2))
                known = np.union1d(known, words)
            facts = {"words": total, "vocabulary": len(known)}
            write_bytes(folder.with_suffix(".json"), orjson.dumps(facts))
        return folder

    @cached_property
    def facts(self) -> dict[str, int]:
        """Words of the corpus, and different ones."""
        found: dict[str, int] = orjson.loads(self.corpus.with_suffix(".json").read_bytes())
        return found

    @cached_property
    def documents(self) -> dict[str, list[str]]:
        """The corpus's documents by source."""
        return {path.name: texts_of(path) for path in sorted(self.corpus.glob("*.jsonl"))}

    @cache  # noqa: B019 (one study in a process)
    def target(self, name: str) -> tuple[list[str], list[str]]:
        """Texts to draw targets from, and unseen ones."""
        folder = self.folder / "targets" / name
        if not (folder / "unseen.jsonl").exists():
            source, form = TARGETS[name]
            if source.startswith("pile/"):
                found = [
                    t for apart, text in self._documents(source) if apart for t in cut(text, form)
                ]
            else:
                rows = lines(self.data / source / "train.jsonl.zst")
                found = [orjson.loads(row)["text"] for row in rows]
            found = list(dict.fromkeys(t for t in found if len(t.split()) > 2))
            drawn = [found[i] for i in np.random.default_rng(0).permutation(len(found))]
            store(folder / "fit.jsonl", drawn[:FITTED])
            clean = outside(drawn[FITTED : FITTED + 2 * JUDGED], self.documents)[:JUDGED]
            words = np.cumsum([len(text.split()) for text in clean])
            store(folder / "unseen.jsonl", clean[: int(np.searchsorted(words, JUDGED_WORDS)) + 1])
        return texts_of(folder / "fit.jsonl"), texts_of(folder / "unseen.jsonl")

    def median(self, name: str) -> int:
        """Estimated word pieces of a target's median text, by its first 100."""
        return median_pieces(self.target(name)[0][:100])

    @lru_cache(maxsize=2)  # noqa: B019 (one study in a process; a random selection serves all)
    def selected(self, target: str, method: str, at: tuple[int, int], n: int, draw: int) -> Any:
        """A little more than the largest share in falling order, and what it took."""
        fit = self.target(target)[0][draw * n : (draw + 1) * n] if method != "random" else ["a b c"]
        work = self.folder / f"work-{os.getpid()}"
        store(work / "target.jsonl", fit)
        started = time.process_time()
        run = corpusfit.select(
            work / "target.jsonl",
            self.corpus,
            out=work / "selection",
            method=method,
            embedder="static",
            fraction=SHARES[-1] * 1.6,  # a share of word pieces, not of words
            seed=draw,
            settings=(f"cut.pieces={at[0]}", f"cut.gamma={at[1]}"),
            overwrite=True,
            machine=Machine("inline", 1, self.folder / "cache"),
        )
        seconds = time.process_time() - started
        # segments in falling order, which `selected/` joins
        segments: list[tuple[float, str]] = []
        for part in run.scores():
            columns = ("source", "row", "start", "end", "score", "selected")
            for of, row, first, last, score, taken in zip(
                *(part.column(name).to_pylist() for name in columns), strict=True
            ):
                if taken:
                    segments.append((-score, self.documents[of][row][first:last]))
        ties = np.random.default_rng(0).permutation(len(segments))
        order = np.lexsort((ties, [score for score, _ in segments]))
        return [segments[i][1] for i in order], round(seconds, 2)

    def compute(self, piece: Piece) -> Record:
        """Measure a cell."""
        fit, unseen = self.target(piece.target)
        if piece.method == "base":
            return masked_loss(self.models / "bert-mini-wiki", unseen)
        key = "" if piece.method == "random" else piece.target
        texts, seconds = self.selected(key, piece.method, piece.cut, piece.texts, piece.draw)
        if piece.kind == "bits":
            numbers = number_words(*buffers(text_array([*fit, *unseen])), characters(), False)
            vocabulary = self.facts["vocabulary"] + len(numbers[1])
            total = self.facts["words"]
            found = {
                str(share): round(judged(texts, unseen, vocabulary, round(share * total)), 4)
                for share in SHARES
            }
            return {**found, "select_s": seconds, "segments": len(texts)}
        return self._trained(piece, texts, unseen)

    def _trained(self, piece: Piece, texts: Sequence[str], unseen: Sequence[str]) -> Record:
        """The loss on unseen texts of a model that was trained on the first words of texts."""
        work = self.folder / f"work-{os.getpid()}"
        store(work / "data.jsonl", first_words(texts, TRAINED_WORDS))
        how: dict[str, Any] = {"max_steps": 120, "batch": 16, "length": 128, "learning_rate": 3e-4}
        settings = ["train.evaluations=1", "mix.heldout=32"]
        if piece.kind == "masked":
            how |= {"model": str(self.models / "bert-mini-wiki"), "objective": "mlm"}
        else:
            how |= {
                "init": "mini",
                "objective": "causal",
                "batch": 4,
                "length": 512,
                "learning_rate": 3e-3,
            }
            settings.append("model.vocabulary=4096")
        run = corpusfit.adapt(
            data=work / "data.jsonl",
            out=work / "model",
            seed=piece.draw,
            settings=settings,
            overwrite=True,
            machine=Machine("inline", 1, work / "tokens"),
            **how,
        )
        shutil.rmtree(work / "tokens", ignore_errors=True)
        facts = {key: run.manifest[key] for key in ("tokens", "rows")}
        if piece.kind == "masked":
            return {**masked_loss(work / "model", unseen), **facts}
        store(work / "task" / "test.jsonl", unseen)
        shutil.rmtree(work / "evaluation", ignore_errors=True)
        (outcome,) = corpusfit.evaluate(
            task=str(work / "task"),
            model=str(work / "model"),
            out=work / "evaluation",
            kind="language_modeling",
            seeds=1,
            machine=ONE,
        ).outcomes()
        return {"bits_per_byte": round(-outcome.scores["test"]["neg_bits_per_byte"], 5), **facts}


def cut(text: str, form: str) -> list[str]:
    """A document's texts: itself, its sentences, or passages of some sentences."""
    if form == "rows":
        return [text]
    sentences = [" ".join(s.split()) for s in SENTENCE.split(text)]
    if form == "sentences":
        return [s for s in sentences if 5 <= len(s.split()) <= 60]
    passages: list[list[str]] = [[]]
    for sentence in sentences:
        passages[-1].append(sentence)
        if sum(len(s.split()) for s in passages[-1]) >= PASSAGE:
            passages.append([])
    return [" ".join(p) for p in passages[:-1]]


def first_words(texts: Sequence[str], most: int) -> list[str]:
    """The texts up to so many words; the last one is cut."""
    kept: list[str] = []
    for text in texts:
        words = text.split()
        kept.append(text if len(words) <= most else " ".join(words[:most]))
        most -= len(words)
        if most <= 0:
            break
    return kept


def median_pieces(texts: Sequence[str]) -> int:
    """Estimated word pieces of the median text, as cuts count them."""
    documents = Documents(np.arange(len(texts)), text_array(texts))
    return round(float(np.median(cut_units(documents, CutPlan(unit="document"))[0].pieces)))


def compute(study: Study, stages: Sequence[str]) -> None:
    """Compute the cells of some stages that are missing, and store each."""
    medians = {name: study.median(name) for name in TARGETS}
    made = {key: machine()[key] for key in ("commit", "cpu")}
    follow = {name: followed(median, FOLLOWED) for name, median in medians.items()}
    for stage, piece in pieces(follow):
        decides = {**asdict(piece), **study.facts}
        if stage not in stages or digest(decides) in study.cells.records:
            continue
        busy = time.process_time()
        started = time.perf_counter()
        result = study.compute(piece)
        name = f"{piece.method}@{piece.cut[0]}x{piece.cut[1]}"
        record = {"digest": digest(decides), "task": piece.target, "setting": piece.kind}
        record |= {"column": name, "seed": piece.draw, "rung": str(piece.texts), "result": result}
        record |= {"median": medians[piece.target], "cpu_seconds": time.process_time() - busy}
        study.cells.add(record | {"made": made})
        seconds = f"{time.perf_counter() - started:.0f} s ({record['cpu_seconds']:.0f} of a core)"
        print(time.strftime("%H:%M"), stage, piece.kind, piece.target, name, seconds, flush=True)


def main() -> None:
    """Compute what is missing, or print the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    for name in ("data", "models", "work"):
        parser.add_argument(name, nargs="?", type=lambda given: Path(given).resolve())
    parser.add_argument("--cells", type=Path, default=HERE / "results" / "cuts")
    parser.add_argument("--stages", type=lambda given: given.split(","), default=list(STAGES))
    parser.add_argument("--table", action="store_true")
    asked = parser.parse_args()
    cells = Cells(asked.cells)
    if asked.table:
        print(tables(list(cells.records.values()), FOLLOWED))
    elif asked.work is None:
        parser.error("DATA, MODELS and WORK are required without --table")
    elif wrong := set(asked.stages) - set(STAGES):
        parser.error(f"--stages must name some of {', '.join(STAGES)}; got {', '.join(wrong)}")
    else:
        compute(Study(asked.data, asked.models, asked.work, cells), asked.stages)


if __name__ == "__main__":
    main()
