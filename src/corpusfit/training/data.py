"""The chunks that a model trains on, with their weights, and those held out to measure the loss."""

from __future__ import annotations

import dataclasses
import itertools
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from corpusfit.core.errors import EmptyInputError, InputError, bad_setting
from corpusfit.core.types import Source
from corpusfit.selection.choosing import moments, relevance
from corpusfit.selection.fit import Sample
from corpusfit.selection.folder import SelectionFolder
from corpusfit.selection.result import read_selected
from corpusfit.training.chats import Chats
from corpusfit.training.chunks import Chunks, chunks_of, exclude_keys, split_heldout
from corpusfit.training.folder import AdaptFolder
from corpusfit.training.inputs import TrainingInputs
from corpusfit.training.plan import TASK, AdaptPlan
from corpusfit.training.token_store import Tokens
from corpusfit.training.tokenising import Tokenising

_OF_DATA = 0.05  # share of the texts to hold out
_OF_TASK = 0.1  # of the task's texts, where they are trained on


@dataclass(frozen=True, eq=False)
class TrainingText:
    """Chunks to train on and to measure on."""

    tokens: tuple[Tokens, ...]  # tokens of the data, and of general text if there is any
    train: Chunks  # the data's chunks, with their weights
    replay: Chunks | None  # general chunks to mix in, if any
    # held-out tokens and chunks, by the kind of text
    heldout: dict[str, tuple[Tokens, Chunks]] = field(default_factory=dict)
    figures: dict[str, Any] = field(default_factory=dict)  # counts, by the kind of text
    # the task's chunks, to train on after the data, if the plan asks for that
    then: TrainingText | None = None


def training_text(
    plan: AdaptPlan,
    texts: TrainingInputs,
    tokenising: Tokenising,
    folder: AdaptFolder,
    dropped: NDArray[np.uint64],
) -> TrainingText:
    """Tokenise the texts, weight them, cut them into chunks, and hold some out.

    Args:
        plan: the plan.
        texts: the texts.
        tokenising: how the data become token ids; its longest text is the length of chunks.
        folder: of the training.
        dropped: uint64 [k], keys of texts that are not trained on.
    """
    # No copy of a held-out text is trained on. Without `--replay`, general text is the
    # selection's sample of its corpus: texts of it that are trained on are left out,
    # but longer segments that contain one are not found. Both phases of `--then-task` measure
    # the same held-out texts.
    length = tokenising.longest
    figures: dict[str, Any] = {}
    heldout: dict[str, tuple[Tokens, Chunks]] = {}
    name = TASK if texts.on_task else "data"
    data, figures[name] = tokenising.corpus(name, texts.task if texts.on_task else texts.data)
    if texts.selection is not None and texts.folder is not None:
        require_all_selected(data, texts.selection, texts.folder)
    chunks = chunks_of(data, length, weights_of(plan, data, texts))
    clean = exclude_keys(chunks, data.keys, dropped)
    if len(chunks) and not len(clean):
        raise EmptyInputError(
            "Every text of `data` contains a text of `guard`, so none is left to train on. Name "
            "other data."
        )
    most = _most_of_task(plan) if texts.on_task else plan.mix.heldout
    share = _OF_TASK if texts.on_task else _OF_DATA
    train, measured = split_heldout(clean, data.keys, most, plan.seed, share)
    task: _Split | None = None
    if texts.task and not texts.on_task:
        task = _of_task(plan, texts, tokenising, dropped, figures)
        if len(task.heldout):
            heldout[TASK] = task.tokens, task.heldout
    if len(measured):
        heldout[name] = data, measured
    # general text, and texts that are only measured on, need not be conversations
    reading = dataclasses.replace(tokenising, read=plan.read, chats=_plain(tokenising))
    general = _general_text(texts, reading, folder, figures)
    replay = None
    mixed = bool(texts.replay) and plan.mix.replay_share > 0
    if general is not None and mixed:
        chunks = exclude_keys(chunks_of(general, length, store=1), general.keys, dropped)
        replay, measured = split_heldout(chunks, general.keys, plan.mix.heldout, plan.seed)
        replay = exclude_keys(replay, general.keys, _keys(heldout))
        if len(measured):
            heldout["general"] = general, measured
    train = exclude_keys(train, data.keys, _keys(heldout))
    if general is not None and not mixed:
        # of texts that are not trained on, if any
        chunks = chunks_of(general, length)
        apart = exclude_keys(chunks, general.keys, data.keys[train.text])
        chunks = apart if len(apart) else chunks
        measured = split_heldout(chunks, general.keys, plan.mix.heldout, plan.seed, 1.0)[1]
        if len(measured):
            heldout["general"] = general, measured
    others = () if general is None else (general,)
    then = None
    if plan.then_task.on and task is not None:
        chunks = exclude_keys(task.train, task.tokens.keys, _keys(heldout))
        _require_task_text(chunks, measured=TASK in heldout)
        then = TrainingText((task.tokens, *others), chunks, replay, heldout, figures)
    return TrainingText((data, *others), train, replay, heldout, figures, then)


class _Split(NamedTuple):
    """The chunks of some texts."""

    tokens: Tokens
    train: Chunks
    heldout: Chunks


def _of_task(
    plan: AdaptPlan,
    texts: TrainingInputs,
    tokenising: Tokenising,
    dropped: NDArray[np.uint64],
    figures: dict[str, Any],
) -> _Split:
    """The task's texts: to measure on, and with a second phase to train on."""
    trained = plan.then_task.on
    chats = tokenising.chats if trained else _plain(tokenising)
    reading = dataclasses.replace(tokenising, read=texts.task_read, chats=chats)
    task, figures[TASK] = reading.corpus(TASK, texts.task)
    _require_text(TASK, task, figures[TASK])
    chunks = chunks_of(task, tokenising.longest)
    if trained:
        chunks = exclude_keys(chunks, task.keys, dropped)
    share = _OF_TASK if trained else 1.0
    return _Split(task, *split_heldout(chunks, task.keys, _most_of_task(plan), plan.seed, share))


def _most_of_task(plan: AdaptPlan) -> int:
    """The most sequences of the task to hold out."""
    return plan.mix.task_sequences or plan.mix.heldout


def _plain(tokenising: Tokenising) -> Chats | None:
    """How texts that need not be conversations are read."""
    return tokenising.chats and dataclasses.replace(tokenising.chats, plain=True)


def _keys(heldout: dict[str, tuple[Tokens, Chunks]]) -> NDArray[np.uint64]:
    keys = [tokens.keys[chunks.text].reshape(-1) for tokens, chunks in heldout.values()]
    return np.concatenate([np.empty(0, np.uint64), *keys])


def _require_text(role: str, tokens: Tokens, figures: dict[str, Any]) -> None:
    if not tokens.lengths.any():
        reasons = ", ".join(figures["reasons"]) or "empty input"
        raise EmptyInputError(
            f"`{role}` has no usable text ({reasons}). Set `read.text_field` to the field with the "
            "text, or name another file."
        )


def _require_task_text(chunks: Chunks, *, measured: bool) -> None:
    """Raise `EmptyInputError` without text for the second phase, or to choose its best model."""
    if not len(chunks):
        raise EmptyInputError(
            "No text of `task` is left for `then_task.on`: each contains a text of `guard` or of "
            "the task's dev or test split, or equals a held-out text. Name other texts, or leave "
            "out `then_task.on`."
        )
    if not measured:
        raise EmptyInputError(
            "`task` has only one distinct text, so none can be held out to choose the best model. "
            "Name more texts."
        )


def _general_text(
    texts: TrainingInputs, tokenising: Tokenising, folder: AdaptFolder, figures: dict[str, Any]
) -> Tokens | None:
    """General text: that of --replay, or the selection's sample of its corpus."""
    if texts.replay:
        general, figures["general"] = tokenising.corpus("general", texts.replay)
        _require_text("replay", general, figures["general"])
        return general
    if texts.folder is None or tokenising.pairs:
        return None  # the sample has no translations
    sample = Sample(SelectionFolder(texts.folder).fit, "background")
    if not sample.texts.exists():
        tokenising.context.progress.note(
            f"General text is not measured: {texts.folder} keeps no sample of its corpus. To "
            "measure it, add `replay` with general text."
        )
        return None
    general, figures["general"] = tokenising.texts("general", sample.read_texts(), folder.general)
    return general


def require_suitable(plan: AdaptPlan, texts: TrainingInputs) -> None:
    """Raise `UsageError` for settings that do not suit the kinds of texts, before they are read."""
    policy = plan.weights.policy
    if policy == "off":
        return
    if texts.selection is None or texts.folder is None:
        cure = "Name the folder of a `corpusfit select` as `data`."
        raise bad_setting("`weights.policy`", "off for data that is no selection", policy, cure)
    chosen = texts.selection["plan"]["choose"]
    named = shlex.quote(str(texts.folder))
    # masks are for selections of a part; weights alone for those of everything
    everything = chosen["policy"] == "continuous"
    if policy == "mask+lambda" and chosen["policy"] == "resample":
        cure = "Use `weights.policy=off`, as the selection was sampled by the weights already."
        raise bad_setting("`weights.policy`", "off for a selection by resampling", policy, cure)
    if policy == "mask+lambda" and everything:
        cure = f"Or choose a part: corpusfit choose {named} --fraction 0.2 --out part/"
        allowed = "lambda or resample for a selection of all segments"
        raise bad_setting("`weights.policy`", allowed, policy, cure)
    if policy != "mask+lambda" and not everything:
        cure = f"Or select all segments: corpusfit choose {named} --policy continuous --out all/"
        allowed = "mask+lambda or off for a selection of some segments"
        raise bad_setting("`weights.policy`", allowed, policy, cure)


def require_all_selected(tokens: Tokens, manifest: dict[str, Any], folder: Path) -> None:
    """Raise `InputError` unless a finished selection has all of its texts."""
    selected = manifest["selected"]["rows"]
    if len(tokens) != selected:
        raise InputError(
            f"{folder / 'selected'} has {len(tokens):,} of the {selected:,} texts that "
            "`corpusfit select` wrote. Run the selection again, with another `out`."
        )


def selected_numbers(parts: Sequence[Source], name: str) -> NDArray[np.float32]:
    """float32 [n]: the score or the weight of each text of a selection, from its files."""
    texts = itertools.chain.from_iterable(read_selected(Path(part.url)) for part in parts)
    return np.array([text[name] for text in texts], np.float32)


def weights_of(plan: AdaptPlan, tokens: Tokens, texts: TrainingInputs) -> NDArray[np.float32]:
    """float32 [n]: the relevance weight of each text, 1 with --weights off."""
    # Reference: TADPOLE, section 3.2 (lambda) and appendix E.
    if plan.weights.policy == "off":
        return np.ones(len(tokens), np.float32)
    if plan.weights.policy != "mask+lambda":  # the selection stored lambda
        return selected_numbers(texts.data, "weight")
    # over the corpus, the best of its segments would all have nearly the same lambda
    scores = selected_numbers(texts.data, "score")
    c, alpha = sharpness(plan, texts)
    return relevance(scores, moments([scores]), c=c, alpha=alpha)


def sharpness(plan: AdaptPlan, texts: TrainingInputs) -> tuple[float, float]:
    """C and alpha of the selection's lambda; zeros without weights."""
    if plan.weights.policy == "off" or texts.selection is None:
        return 0.0, 0.0
    chosen = texts.selection["plan"]["choose"]
    return chosen["c"], chosen["alpha"]
