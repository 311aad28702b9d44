"""What a model is adapted on, and what it is measured on, as chunks of tokens.

What: finds the data, the task's text and general text, turns each into token ids once, weighs it,
and keeps some of it back.
Why: a selection knows its task, its corpus and its scores, so that `adapt` need only be told where
it is; any other corpus does as well, without weights.
Trade-off: token ids are kept in the cache by content, as embeddings are, so that the next model
with the same tokenizer trains on them at once; 2 bytes a token. General text to measure forgetting
on is the selection's own sample of its corpus, unless --replay names some.
Reference: TADPOLE, section 3.2 (lambda) and appendix E.
"""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from corpusfit import corpus
from corpusfit.adapt.chunks import Chunks, cut_chunks, split_heldout
from corpusfit.adapt.plan import AdaptPlan
from corpusfit.adapt.tokens import Tokens, finished, read_tally
from corpusfit.artifacts import is_local, write_bytes
from corpusfit.embed.contract import file_digest
from corpusfit.engine import Engine
from corpusfit.errors import CorpusfitError, EmptyInputError, InputError, bad_setting
from corpusfit.jobs.fit import Sample
from corpusfit.jobs.reading import Reasons
from corpusfit.jobs.survey import look_with
from corpusfit.jobs.tokenise import TokeniseSelected, TokeniseShard
from corpusfit.kernels.chance import place_keys, uniform
from corpusfit.manifest import AdaptFolder, RunFolder, digest, source_identity
from corpusfit.pipeline.run import Machine
from corpusfit.plan import ReadPlan
from corpusfit.score import table
from corpusfit.select.weights import moments, relevance
from corpusfit.types import Source

__all__ = ["TASK", "Given", "TrainingText", "given", "sample_texts", "training_text", "weights_of"]

TASK = "task"
"""What --data may be instead of inputs: the task's own texts."""

_SAMPLED = 10_000_000  # characters; a tokenizer hardly changes with more
_PLENTY = 3


@dataclass(frozen=True)
class Given:
    """The texts that a command names.

    Attributes:
        data: what is trained on.
        task: the task's texts, to measure on, or to train on where they are the data.
        replay: general text to mix in.
        selection: the manifest of the selection that the data is.
        folder: that selection's folder.
    """

    data: list[Source]
    task: list[Source]
    replay: list[Source]
    selection: dict[str, Any] | None = None
    folder: Path | None = None

    @property
    def on_task(self) -> bool:
        """Whether the task's own texts are what is trained on."""
        return not self.data


def given(
    data: Sequence[str],
    task: Sequence[str],
    replay: Sequence[str],
    read: ReadPlan,
    spool: Path,
    engine: Engine,
    machine: Machine,
) -> Given:
    """Find and fingerprint the texts; a selection's task is its target, unless one is named.

    Raises:
        CorpusfitError: an input cannot be found or read; --data task without --task.
    """
    looking = partial(look_with, engine)

    def find(inputs: Sequence[str], role: str) -> list[Source]:
        if not inputs:
            return []
        return corpus.find(inputs, read, spool=spool, role=role, looking=looking)

    tasks, general = find(task, "task"), find(replay, "replay")
    if list(data) == [TASK]:
        if not tasks:
            cure = "For instance --data task --task train.jsonl."
            raise bad_setting("--task", "given with --data task", "nothing", cure)
        return Given([], tasks, general)
    folder = Path(data[0]) if len(data) == 1 else None
    manifest = _selection(folder) if folder else None
    if folder is None or manifest is None:
        return Given(find(data, "data"), tasks, general)
    if not tasks:
        tasks = _targets(manifest, read, looking, machine)
    return Given(find([str(folder / "selected")], "data"), tasks, general, manifest, folder)


def _selection(folder: Path) -> dict[str, Any] | None:
    """The manifest of a finished selection; None if the folder is something else."""
    found = RunFolder(folder)
    if not (found.work / "run.json").exists() or not found.scores.is_dir():
        return None
    manifest = found.finished()
    if manifest is None or not manifest.get("selected"):
        raise InputError(
            f"--data {folder} holds a selection that is not finished. Run the same `corpusfit "
            "select` again, or `corpusfit choose` if it was only scored."
        )
    if not manifest["selected"]["segments"]:
        raise EmptyInputError(f"--data {folder} is a selection of nothing: choose more of it.")
    return manifest


def _targets(
    manifest: dict[str, Any], read: ReadPlan, looking: Any, machine: Machine
) -> list[Source]:
    """The selection's target, if it is still there."""
    sources = [Source(**s) for s in manifest["target"]]
    try:
        now, changed = corpus.found_again(sources, read, looking)
    except CorpusfitError:
        now, changed = [], [s.name for s in sources]
    if changed:
        machine.progress.warn(
            f"The selection's target {changed[0]} is gone or has changed, so the loss on the "
            "task's text is not measured. Name it with --task."
        )
        return []
    return now


def sample_texts(texts: Given, read: ReadPlan, seed: int) -> Iterator[str]:
    """Some ten million characters of the data, from shards that the seed draws."""
    sources = texts.data or texts.task
    size = sum(s.size for s in sources)
    left = _SAMPLED
    for shard in corpus.shards(sources, read):
        drawn = uniform(place_keys(seed, shard.index, 1))[0] * size < _PLENTY * _SAMPLED
        if not drawn and shard.index:
            continue
        for text in corpus.documents(shard, read)[0].texts.to_pylist():
            yield text[:left]
            left -= len(text)
            if left <= 0:
                return


@dataclass(frozen=True, eq=False)
class TrainingText:
    """Chunks to train on and to measure on.

    Attributes:
        tokens: of the data, and of general text if there is some.
        train: the data's chunks, with their weights.
        replay: general chunks to mix in, if asked for.
        heldout: by the kind of text, its tokens and chunks.
        figures: what was counted, by the kind of text.
    """

    tokens: tuple[Tokens, ...]
    train: Chunks
    replay: Chunks | None
    heldout: dict[str, tuple[Tokens, Chunks]] = field(default_factory=dict)
    figures: dict[str, Any] = field(default_factory=dict)


def training_text(
    plan: AdaptPlan,
    texts: Given,
    folder: AdaptFolder,
    room: int,
    end: int | None,
    engine: Engine,
    machine: Machine,
) -> TrainingText:
    """Tokenise what is not, weigh it, cut it, keep some back.

    Args:
        plan: what is asked for.
        texts: where the texts are.
        folder: of the run; its tokenizer is there.
        room: tokens in a chunk.
        end: the id that closes a text, if any.
        engine: started.
        machine: told of progress.

    Raises:
        CorpusfitError: nothing can be read, or weights are asked for that the data does not have.
    """
    cache = machine.cache_folder()
    place = (cache if is_local(cache) else folder.work) / "tokens"
    make = _Tokenising(plan.read, folder.tokenizer, place, end, engine, machine)
    figures: dict[str, Any] = {}
    heldout: dict[str, tuple[Tokens, Chunks]] = {}
    if texts.on_task:
        data, figures[TASK] = make.corpus(TASK, texts.task)
        share, name = plan.mix.task_heldout, TASK
    else:
        make_data = make.selected if texts.selection else make.corpus
        data, figures["data"] = make_data("data", texts.data)
        share, name = 0.05, "data"
    weights = weights_of(plan, data, texts)
    chunks = cut_chunks(data.lengths, weights, room)
    train, held = split_heldout(chunks, plan.mix.heldout, plan.seed, share)
    if texts.task and not texts.on_task:
        task, figures[TASK] = make.corpus(TASK, texts.task)
        heldout[TASK] = task, _some(task, room, plan)
    if len(held):
        heldout[name] = data, held
    replay = None
    general = _general(texts, make, folder, figures)
    if general is not None and texts.replay:
        whole = cut_chunks(general.lengths, np.ones(len(general), np.float32), room, store=1)
        replay, measured = split_heldout(whole, plan.mix.heldout, plan.seed)
        heldout["general"] = general, measured
    elif general is not None:
        heldout["general"] = general, _some(general, room, plan)
    stores = (data,) if general is None else (data, general)
    return TrainingText(stores, train, replay, heldout, figures)


def _some(tokens: Tokens, room: int, plan: AdaptPlan) -> Chunks:
    """Chunks to measure on, of different texts."""
    chunks = cut_chunks(tokens.lengths, np.ones(len(tokens), np.float32), room)
    return split_heldout(chunks, plan.mix.heldout, plan.seed, 1.0)[1]


def _general(
    texts: Given, make: _Tokenising, folder: AdaptFolder, figures: dict[str, Any]
) -> Tokens | None:
    """General text: what --replay names, or the selection's sample of its corpus."""
    if texts.replay:
        general, figures["general"] = make.corpus("general", texts.replay)
        return general
    if texts.folder is None:
        return None
    sample = Sample(RunFolder(texts.folder).fit, "background")
    if not sample.texts.exists():
        return None
    general, figures["general"] = make.texts("general", sample.read_texts(), folder.general)
    return general


@dataclass(frozen=True)
class _Tokenising:
    """Makes token ids of texts; what was made for the same texts and tokenizer is found again.

    Attributes:
        read: how rows become texts.
        tokenizer: its file.
        place: the folder for all that is made, by content.
        end: the id that closes a text, if any.
    """

    read: ReadPlan
    tokenizer: Path
    place: Path
    end: int | None
    engine: Engine
    machine: Machine

    def corpus(self, kind: str, sources: list[Source]) -> tuple[Tokens, dict[str, Any]]:
        """Token ids of a corpus."""
        out = self._out("corpus", sources)
        names = tuple(s.name for s in sources)
        job = TokeniseShard(self.read, names, self.tokenizer, out, self.end)
        done = finished(out)
        pieces = (s for s in corpus.shards(sources, self.read) if s.index not in done)
        return self._made(kind, out, job, pieces)

    def selected(self, kind: str, sources: list[Source]) -> tuple[Tokens, dict[str, Any]]:
        """Token ids of a selection, with its scores."""
        out = self._out("selected", sources)
        job = TokeniseSelected(self.tokenizer, out, self.end)
        done = finished(out)
        pieces = [(i, Path(s.url)) for i, s in enumerate(sources) if i not in done]
        return self._made(kind, out, job, pieces)

    def texts(self, kind: str, texts: list[str], spool: Path) -> tuple[Tokens, dict[str, Any]]:
        """Token ids of texts in memory, by way of a file."""
        write_bytes(spool, b"".join(orjson.dumps({"text": t}) + b"\n" for t in texts))
        sources = corpus.find([str(spool)], ReadPlan(), spool=spool.parent, role=kind)
        return dataclasses.replace(self, read=ReadPlan()).corpus(kind, sources)

    def _out(self, how: str, sources: list[Source]) -> Path:
        """The folder of what is made of some sources."""
        identity = {
            "how": f"{how} 1",
            "sources": source_identity(sources),
            "read": dataclasses.asdict(self.read),
            "tokenizer": file_digest(self.tokenizer),
            "end": self.end,
        }
        return self.place / digest(identity)

    def _made(
        self, kind: str, out: Path, job: Any, pieces: Iterable[Any]
    ) -> tuple[Tokens, dict[str, Any]]:
        """The tokens in a folder; a mark with the counts says that all of them are there."""
        mark = out / "counts.json"
        if not mark.exists():
            progress = self.machine.progress
            progress.begin(f"tokenise {kind}", 0, "tokens")
            for _, tally in self.engine.map(job, pieces):
                progress.advance(1, tally.tokens)
            progress.end()
            write_bytes(mark, json.dumps(_counted(out)).encode())
        return Tokens.open(out), json.loads(mark.read_text("utf-8"))


def _counted(out: Path) -> dict[str, Any]:
    """What all parts of a kind hold together; rows = texts + rejected."""
    total = Counter(rows=0, texts=0, rejected=0, empty=0, characters=0, tokens=0)
    reasons = Reasons()
    for number in sorted(finished(out)):
        tally = read_tally(out, number)
        reasons.add(tally["rejects"])
        total.update(
            rows=tally["documents"] + len(tally["rejects"]),
            texts=tally["documents"],
            rejected=len(tally["rejects"]),
            **{name: tally[name] for name in ("empty", "characters", "tokens")},
        )
    return {**total, "reasons": dict(reasons.counts.most_common())}


def weights_of(plan: AdaptPlan, tokens: Tokens, texts: Given) -> NDArray[np.float32]:
    """float32 [n]: the relevance weight of each text, 1 with --weights off.

    Raises:
        UsageError: the data is no selection, or not one that the policy is for.
    """
    policy = plan.weigh.policy
    if policy == "off":
        return np.ones(len(tokens), np.float32)
    if texts.selection is None or texts.folder is None:
        cure = "Name the folder of a `corpusfit select` as --data."
        raise bad_setting("--weights", "off for data that is no selection", policy, cure)
    chosen = texts.selection["plan"]["choose"]
    if texts.selection.get("cascade"):
        cure = "Select by one method: the stages' scores cannot be compared with each other."
        raise bad_setting("--weights", "off for the selection of a cascade", policy, cure)
    everything = chosen["policy"] == "continuous"
    if policy == "mask+lambda" and everything:
        cure = f"To choose some: corpusfit choose {texts.folder} --fraction 0.2"
        raise bad_setting("--weights", "lambda or resample for all segments", policy, cure)
    if policy != "mask+lambda" and not everything:
        cure = f"For all of them: corpusfit choose {texts.folder} --weights continuous"
        raise bad_setting("--weights", "mask+lambda or off for chosen segments", policy, cure)
    paths = (path for _, path in table.parts(RunFolder(texts.folder).scores))
    over = moments(np.asarray(table.read_columns(p, "score")[0], np.float32) for p in paths)
    c = chosen["c"] if plan.weigh.c is None else plan.weigh.c
    alpha = chosen["alpha"] if plan.weigh.alpha is None else plan.weigh.alpha
    return relevance(tokens.scores, over, c=c, alpha=alpha)
