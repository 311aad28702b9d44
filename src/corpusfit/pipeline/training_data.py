"""What a model is adapted on, and what it is measured on, as chunks of tokens.

What: the data, the task's text and general text as token ids, weighed and cut; some of it is kept
back, and no copy of that is trained on.
Why: what is measured on may not be what was learned by heart.
Trade-off: general text to measure forgetting on is the selection's own sample of its corpus, unless
--replay names some: texts of it that are trained on are left out, but longer segments that hold
one are not known.
Reference: TADPOLE, section 3.2 (lambda) and appendix E.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpusfit import corpus
from corpusfit.adapt.chunks import Chunks, cut_chunks, exclude_keys, split_heldout
from corpusfit.adapt.plan import AdaptPlan
from corpusfit.adapt.tokens import Tokens
from corpusfit.artifacts import is_local
from corpusfit.engine import Engine
from corpusfit.errors import EmptyInputError, bad_setting
from corpusfit.evaluate.contamination import ContaminationFinder, HeldoutIndex
from corpusfit.jobs.fit import Sample
from corpusfit.kernels.chance import place_keys, uniform
from corpusfit.manifest import AdaptFolder, RunFolder
from corpusfit.pipeline.inputs import TASK, Given
from corpusfit.pipeline.run import Machine
from corpusfit.pipeline.tokenising import Tokenising
from corpusfit.score import table
from corpusfit.select.weights import moments, relevance

_SAMPLED = 10_000_000  # characters; a tokenizer hardly changes with more
_PLENTY = 3


def sample_texts(texts: Given, seed: int, guarded: Iterable[str]) -> Iterator[str]:
    """Some ten million characters of the data, from shards that the seed draws.

    Args:
        texts: the data.
        seed: the only source of chance.
        guarded: texts that may not be learned from; what holds one is left out.
    """
    watch = ContaminationFinder(HeldoutIndex.of_texts(guarded))
    sources = texts.data or texts.task
    size = sum(s.size for s in sources)
    left = _SAMPLED
    for shard in corpus.shards(sources, texts.read):
        drawn = uniform(place_keys(seed, shard.index, 1))[0] * size < _PLENTY * _SAMPLED
        if not drawn and shard.index:
            continue
        found = corpus.documents(shard, texts.read)[0].texts
        holders = set(watch.find(found).text.tolist())
        for text in (t for i, t in enumerate(found.to_pylist()) if i not in holders):
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
    *,
    dropped: NDArray[np.uint64],
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
        dropped: uint64, the keys of texts that are neither trained on nor measured on with those
            that are.

    Raises:
        CorpusfitError: nothing can be read, or weights are asked for that the data does not have.
    """
    cache = machine.cache_folder()
    kept = (cache if is_local(cache) else folder.work) / "tokens"
    make = Tokenising(texts.read, folder.tokenizer, kept, end, engine, machine)
    figures: dict[str, Any] = {}
    heldout: dict[str, tuple[Tokens, Chunks]] = {}
    if texts.on_task:
        data, figures[TASK] = make.corpus(TASK, texts.task)
        share, name = plan.mix.task_heldout, TASK
    else:
        make_data = make.selected if texts.selection else make.corpus
        data, figures["data"] = make_data("data", texts.data)
        share, name = 0.05, "data"
    chunks = cut_chunks(data.lengths, weights_of(plan, data, texts), room)
    clean = exclude_keys(chunks, data.keys, dropped)
    if len(chunks) and not len(clean):
        raise EmptyInputError("--guard leaves nothing of --data: all of it holds held-out texts.")
    train, held = split_heldout(clean, data.keys, plan.mix.heldout, plan.seed, share)
    if texts.task and not texts.on_task:
        reading = dataclasses.replace(make, read=texts.task_read)
        task, figures[TASK] = reading.corpus(TASK, texts.task)
        heldout[TASK] = task, _some(task, room, plan)
        _require_some(heldout[TASK][1], figures[TASK])
    if len(held):
        heldout[name] = data, held
    replay = None
    general = _general(texts, dataclasses.replace(make, read=plan.read), folder, figures)
    if general is not None and texts.replay:
        whole = cut_chunks(general.lengths, np.ones(len(general), np.float32), room, store=1)
        whole = exclude_keys(whole, general.keys, dropped)
        replay, measured = split_heldout(whole, general.keys, plan.mix.heldout, plan.seed)
        replay = exclude_keys(replay, general.keys, _keys(heldout))
        heldout["general"] = general, measured
    train = exclude_keys(train, data.keys, _keys(heldout))
    if general is not None and not texts.replay:
        heldout["general"] = general, _some(general, room, plan, data.keys[train.text])
    stores = (data,) if general is None else (data, general)
    return TrainingText(stores, train, replay, heldout, figures)


def _keys(heldout: dict[str, tuple[Tokens, Chunks]]) -> NDArray[np.uint64]:
    """The keys of all texts that are measured on: no copy of them is trained on."""
    found = [tokens.keys[chunks.text] for tokens, chunks in heldout.values()]
    return np.concatenate([np.empty(0, np.uint64), *found])


def _require_some(chunks: Chunks, figures: dict[str, Any]) -> None:
    """Raise `EmptyInputError` for a task without a text that can be used."""
    if not len(chunks):
        reasons = ", ".join(figures["reasons"]) or "it is empty"
        raise EmptyInputError(
            f"--task has no usable text ({reasons}). Name the field that its texts are in with "
            "--text-field, or give another file."
        )


def _some(
    tokens: Tokens, room: int, plan: AdaptPlan, trained: NDArray[np.uint64] | None = None
) -> Chunks:
    """Chunks to measure on, of different texts: those that are not trained on, if any."""
    chunks = cut_chunks(tokens.lengths, np.ones(len(tokens), np.float32), room)
    if trained is not None:
        apart = exclude_keys(chunks, tokens.keys, trained)
        chunks = apart if len(apart) else chunks
    return split_heldout(chunks, tokens.keys, plan.mix.heldout, plan.seed, 1.0)[1]


def _general(
    texts: Given, make: Tokenising, folder: AdaptFolder, figures: dict[str, Any]
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
    if policy == "mask+lambda" and chosen["policy"] == "resample":
        cure = "The draw went by the weights already."
        raise bad_setting("--weights", "off for what was drawn by weight", policy, cure)
    if policy == "mask+lambda" and everything:
        cure = f"To choose some: corpusfit choose {texts.folder} --fraction 0.2"
        raise bad_setting("--weights", "lambda or resample for all segments", policy, cure)
    if policy != "mask+lambda" and not everything:
        cure = f"For all of them: corpusfit choose {texts.folder} --weights continuous"
        raise bad_setting("--weights", "mask+lambda or off for chosen segments", policy, cure)
    c, alpha = sharpness(plan, texts)
    paths = (path for _, path in table.parts(RunFolder(texts.folder).scores))
    over = moments(np.asarray(table.read_columns(p, "score")[0], np.float32) for p in paths)
    return relevance(tokens.scores, over, c=c, alpha=alpha)


def sharpness(plan: AdaptPlan, texts: Given) -> tuple[float, float]:
    """C and alpha of lambda: the plan's, or else the selection's; nothing without weights."""
    if plan.weigh.policy == "off" or texts.selection is None:
        return 0.0, 0.0
    chosen = texts.selection["plan"]["choose"]
    c = chosen["c"] if plan.weigh.c is None else plan.weigh.c
    return c, chosen["alpha"] if plan.weigh.alpha is None else plan.weigh.alpha
