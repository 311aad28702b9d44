"""Conversations as token ids, by the model's own chat template, and which tokens the loss is on.

What: a conversation is rendered as `apply_chat_template` does it, without further special tokens.
The loss is on all tokens, on those of the assistant's turns, or on those of a completion.
Why: a model answers best in the form in which it was trained, with one token that begins a text.
Trade-off: a template without `{% generation %}` does not say where the assistant's turns are. They
are found by rendering the beginnings of the conversation; a template that writes earlier turns in
another way than the last one does not allow that.
Reference: transformers, Chat templates; its `return_assistant_tokens_mask`.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpusfit import text as corpus
from corpusfit.core.errors import ModelError, importing, raise_machine_fault, tokenizing
from corpusfit.core.plan import ReadPlan
from corpusfit.core.types import Document, Source
from corpusfit.embed.transformer import LOCAL, loading
from corpusfit.text import rejects
from corpusfit.text.fields import TOOLS, fields_in, text_in, text_of_value
from corpusfit.training.bounded import Bounds, LimitError
from corpusfit.training.plan import ALL, ASSISTANT, COMPLETION

_MARKED = re.compile(r"\{%-?\s*generation\s*-?%\}")
_ROLES = {"human": "user", "gpt": "assistant"}  # ShareGPT's names
_FIRST_ROWS = 1_000
_SAID = "\ue000"  # in no text
_NOW = re.compile(r"""strftime_now\(\s*(["'])(.*?)\1\s*\)""")
_TODAY = date(2024, 7, 26)  # of templates that name a day
# what a template may take for a conversation; ordinary ones take a thousandth of it
_SECONDS = 10.0  # of processor time
_MEMORY = 1 << 30  # bytes
_ADDED = 1 << 18  # characters, to those of the conversation
_TIMES = 16  # those of the conversation
_FEW = 3  # conversations that take more, behind which the template is the reason


class RefusedError(Exception):
    """A row that is not trained on; the message is the reject reason."""


@dataclass(frozen=True)
class Chats:
    """How the rows of a training become token ids, if some are conversations."""

    loss_on: str  # `objective.loss_on`
    length: int  # most tokens of a conversation
    prefix: tuple[int, ...]  # special ids that begin a text that is no conversation
    # whether rows without conversation and completion stay, with the loss on all of their tokens
    plain: bool = False


@dataclass(frozen=True, eq=False)
class Encoded:
    """A row as token ids, all special ones among them."""

    ids: Sequence[int]  # [t]
    counted: NDArray[np.bool_]  # [t], whether the loss is on the token
    cut: bool = False  # whether later turns are left out


def messages_of(value: Any) -> list[dict[str, Any]] | None:
    """A field's value as messages with role and content; None if it is no conversation.

    Nulls are left out, as Arrow gives them for fields that other rows have. Content in parts is
    the text of the parts, and arguments of a call that are JSON in a string are what it holds.
    """
    if not isinstance(value, list) or not value:
        return None
    messages = []
    for item in value:
        if not isinstance(item, Mapping):
            return None
        message: dict[str, Any] = _without_nulls(item)
        role = message.get("role", message.pop("from", None))
        if not isinstance(role, str):
            return None
        # what is said, as a selection reads it; some templates write a missing content as "None"
        message |= {"role": _ROLES.get(role, role), "content": text_of_value([item], "") or ""}
        for call in message.get("tool_calls", ()):
            function = call.get("function", call)
            if isinstance(function.get("arguments"), str):
                function["arguments"] = _parsed(function["arguments"])
        messages.append(message)
    return messages


def _without_nulls(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {k: _without_nulls(v) for k, v in value.items() if v is not None}
    return list(map(_without_nulls, value)) if isinstance(value, list) else value


def _parsed(text: str) -> Any:
    """The object or list that a string holds as JSON; any other string as it is."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, dict | list) else text


def conversation_in(fields: Mapping[str, Any] | None, field: str) -> list[list[dict[str, Any]]]:
    """The messages of each field of a row's text; empty unless all of them hold messages."""
    parts = [messages_of((fields or {}).get(name)) for name in fields_in(field)]
    return [part for part in parts if part] if all(parts) else []


def counted_messages(
    parts: Sequence[list[dict[str, Any]]], loss_on: str
) -> tuple[list[dict[str, Any]], int]:
    """The messages of a conversation, and the number of the first that the loss may be on.

    Raises:
        RefusedError: the assistant says nothing that the loss could be on.
    """
    messages = [message for part in parts for message in part]
    answers = [i for i, message in enumerate(messages) if message["role"] == "assistant"]
    if not answers and loss_on != ALL:
        raise RefusedError(rejects.NO_ASSISTANT)
    if loss_on != COMPLETION:
        return messages, 0
    # the messages of a template's last field, or the last turn of the assistant
    at = len(messages) - len(parts[-1]) if len(parts) > 1 else answers[-1]
    if answers[-1] < at:
        raise RefusedError(rejects.NO_ASSISTANT)
    return messages[: answers[-1] + 1], at


def completion_at(text: str, fields: Mapping[str, Any], field: str) -> int | None:
    """Where the last field of a template begins in a row's text; None if there is none.

    Raises:
        RefusedError: the field is empty.
    """
    names = fields_in(field)
    if len(names) < 2 or names[-1] not in fields:
        return None
    # a completion is all from the last field of the template on
    after = field.rpartition("}")[2].replace("\\n", "\n").replace("\\t", "\t")
    begin = len(text_in({**fields, names[-1]: ""}, field) or "") - len(after)
    if begin + len(after) == len(text):
        raise RefusedError(rejects.NO_LOSS)
    return begin


def counted_bytes(text: str, fields: Mapping[str, Any], field: str, loss_on: str) -> int:
    """The bytes in UTF-8 of what a row says where the loss is, without a template's marks.

    Raises:
        RefusedError: the loss is on nothing in the row.
    """
    parts = conversation_in(fields, field)
    if not parts:
        begin = completion_at(text, fields, field) if loss_on == COMPLETION else 0
        if loss_on == ASSISTANT or begin is None:
            raise RefusedError(rejects.NO_CONVERSATION)
        return len(text[begin:].encode("utf-8", "replace"))
    messages, at = counted_messages(parts, loss_on)
    said = [m for m in messages[at:] if loss_on != ASSISTANT or m["role"] == "assistant"]
    calls = [json.dumps(m["tool_calls"], ensure_ascii=False) for m in said if m.get("tool_calls")]
    return sum(len(s.encode("utf-8", "replace")) for s in [*calls, *(m["content"] for m in said)])


def no_template(name: str, setting: str) -> ModelError:
    """The error for a model without a chat template, which a setting of conversations needs."""
    return ModelError(
        f"`model.name`: {name} has no chat template, which `{setting}` needs for conversations. "
        "Name a model with one, mostly called instruct or chat, save its tokenizer with a "
        f"chat_template, or leave out `{setting.partition('=')[0]}`."
    )


def holds_conversations(sources: Sequence[Source], read: ReadPlan) -> bool:
    """Whether some of the first rows of texts are conversations."""
    rows = (row for shard in corpus.shards(sources, read) for row in corpus.rows(shard, read))
    return any(
        isinstance(row, Document) and conversation_in(row.fields, read.text_field)
        for row in islice(rows, _FIRST_ROWS)
    )


class ChatEncoder:
    """Encodes rows with a model's tokenizer and its chat template."""

    def __init__(self, folder: Path, chats: Chats, end: int | None) -> None:
        with importing("Training a model", "train"):
            from transformers import AutoTokenizer
        with loading(f"The tokenizer {folder}"):
            self.tokenizer = AutoTokenizer.from_pretrained(folder, use_fast=True, **LOCAL)
        template = self.tokenizer.chat_template
        if isinstance(template, dict):
            self.tokenizer.chat_template = {n: _prepared(t) for n, t in template.items()}
        elif template:
            self.tokenizer.chat_template = _prepared(template)
        self.chats, self._end = chats, end
        self._bounds = Bounds(_SECONDS, _MEMORY)
        self._endless = 0  # conversations for which the template took too much
        size = len(self.tokenizer)
        self.kind: type[np.generic] = np.uint16 if size <= 2**16 else np.uint32

    def encode(self, text: str, fields: Mapping[str, Any] | None, field: str) -> Encoded:
        """Encode a row.

        Args:
            text: the row's text.
            fields: the fields that the text is made of, unless it is the field itself.
            field: `read.text_field`.

        Raises:
            RefusedError: the row is not trained on.
            ModelError: the assistant's turns cannot be found in what the template writes.
        """
        parts = conversation_in(fields, field)
        if not parts:
            return self._text(text, fields or {}, field)
        messages, at = counted_messages(parts, self.chats.loss_on)
        tools = (fields or {}).get(TOOLS)
        tools = _without_nulls(_parsed(tools) if isinstance(tools, str) else tools) or None
        if self.chats.loss_on == COMPLETION:
            return self._completion(messages, tools, at)

        # a conversation that is too long ends with the last turn of the assistant that fits
        text = self._render(messages, tools)
        ids, spans = self._ids(text)
        cut = len(ids) > self.chats.length
        if cut:
            answers = [i for i, message in enumerate(messages) if message["role"] == "assistant"]
            fits = bisect_right(
                answers,
                self.chats.length,
                key=lambda i: len(self._ids(self._render(messages[: i + 1], tools))[0]),
            )
            if not fits:
                raise RefusedError(rejects.too_long_conversation(self.chats.length))
            messages = messages[: answers[fits - 1] + 1]
            text = self._render(messages, tools)
            ids, spans = self._ids(text)
        counted = np.ones(len(ids), np.bool_)
        if self.chats.loss_on == ASSISTANT:
            counted = self._assistant(messages, tools, text, spans)
        return self._checked(ids, counted, cut=cut)

    def _assistant(
        self, messages: list[dict[str, Any]], tools: Any, text: str, spans: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """Which tokens of a rendered conversation belong to turns of the assistant."""
        # a message of weight 0 is read, and not learned (OpenAI's format for fine-tuning)
        answers: dict[bool, list[int]] = {True: [], False: []}
        for i, message in enumerate(messages):
            if message["role"] == "assistant":
                answers[message.get("weight") != 0].append(i)
        if _MARKED.search(self.tokenizer.get_chat_template(None, tools)):
            marked = self._apply(
                messages,
                tools=tools,
                return_dict=True,
                return_assistant_tokens_mask=True,
                tokenizer_kwargs={"verbose": False},
            )
            counted = np.array(marked["assistant_masks"], np.bool_)
            for i in answers[False]:
                counted &= ~self._turn(messages, i, tools, text, spans)
            return counted
        counted = np.zeros(len(spans), np.bool_)
        for i in answers[True]:
            counted |= self._turn(messages, i, tools, text, spans)
        return counted

    def _turn(
        self,
        messages: list[dict[str, Any]],
        number: int,
        tools: Any,
        text: str,
        spans: NDArray[np.int64],
    ) -> NDArray[np.bool_]:
        """Which tokens of a rendered conversation belong to the message of a number."""
        whole = self._render(messages[: number + 1], tools)
        if number:
            before = self._render(messages[:number], tools, prompt=True)
        else:  # few templates render no messages, so a first turn begins where another's words do
            other = {"role": "assistant", "content": _SAID}
            before = self._render([other], tools).partition(_SAID)[0]
        if not (text.startswith(whole) and whole.startswith(before)):
            raise self._unstable(
                "Or set `objective.loss_on=completion`, for the last turn of each conversation."
            )
        return _within(spans, len(before), len(whole))

    def _completion(self, messages: list[dict[str, Any]], tools: Any, at: int) -> Encoded:
        """A conversation with the loss on its messages from a number on."""
        text = self._render(messages, tools)
        before = self._render(messages[:at], tools, prompt=True)
        if not text.startswith(before):
            raise self._unstable("Or set `objective.loss_on=all`.")
        ids, spans = self._ids(text)
        if len(ids) > self.chats.length:
            raise RefusedError(rejects.too_long_conversation(self.chats.length))
        return self._checked(ids, _within(spans, len(before), len(text)))

    def _text(self, text: str, fields: Mapping[str, Any], field: str) -> Encoded:
        """A row that is no conversation, between the tokens that begin and end a text."""
        loss_on = self.chats.loss_on
        begin = completion_at(text, fields, field) if loss_on == COMPLETION else None
        completes = begin is not None
        if not (completes or self.chats.plain or loss_on == ALL):
            raise RefusedError(rejects.NO_CONVERSATION)
        ids, spans = self._ids(text)
        if not ids:
            return Encoded([], np.empty(0, np.bool_))
        prefix, end = self.chats.prefix, [] if self._end is None else [self._end]
        before, behind = np.zeros(len(prefix), np.bool_), np.ones(len(end), np.bool_)
        counted = np.concatenate([before, _within(spans, begin or 0, len(text)), behind])
        if completes and len(counted) > self.chats.length:
            raise RefusedError(rejects.too_long_conversation(self.chats.length))
        return self._checked([*prefix, *ids, *end], counted)

    def _checked(
        self, ids: Sequence[int], counted: NDArray[np.bool_], *, cut: bool = False
    ) -> Encoded:
        """The tokens of a row, without a second token that begins a text."""
        begin = self.tokenizer.bos_token_id
        if begin is not None and list(ids[:2]) == [begin, begin]:
            ids, counted = ids[1:], counted[1:]
        counted[:1] = False  # the first token is predicted from nothing
        if self.chats.loss_on != ALL and not counted.any():
            raise RefusedError(rejects.NO_LOSS)
        return Encoded(ids, counted, cut)

    def _render(self, messages: list[dict[str, Any]], tools: Any, *, prompt: bool = False) -> str:
        """The text of a conversation; with `prompt`, up to where the assistant begins to speak."""
        text = str(self._apply(messages, tools=tools, tokenize=False, add_generation_prompt=prompt))
        if len(text) > _ADDED and len(text) > _ADDED + _TIMES * len(f"{messages}{tools}"):
            raise self._too_much()
        return text

    def _apply(self, messages: list[dict[str, Any]], **options: Any) -> Any:
        """What the chat template makes of messages."""
        try:
            return self._bounds.call(
                partial(self.tokenizer.apply_chat_template, messages, **options)
            )
        except LimitError as e:
            raise self._too_much() from e
        except Exception as e:  # a template raises what it likes, and any exception of Python
            raise_machine_fault(e)
            raise RefusedError(rejects.refused_by_template(e)) from e

    def _too_much(self) -> Exception:
        """The error for a conversation that the template does not render within its limits."""
        self._endless += 1
        if self._endless < _FEW:
            return RefusedError(rejects.ENDLESS_TEMPLATE)
        return ModelError(
            f"`model.name`: the chat template of the model took over {_SECONDS:g} seconds, "
            f"{_MEMORY >> 30} GiB of memory or {_TIMES} times the text for each of {_FEW} "
            "conversations. Save its tokenizer with another chat_template, or name another model."
        )

    def _ids(self, text: str) -> tuple[list[int], NDArray[np.int64]]:
        """The token ids [t] of a text, and the characters [t, 2] of each."""
        with tokenizing():
            coded = self.tokenizer(
                text, add_special_tokens=False, return_offsets_mapping=True, verbose=False
            )
        return coded["input_ids"], np.array(coded["offset_mapping"], np.int64).reshape(-1, 2)

    def _unstable(self, cure: str) -> ModelError:
        return ModelError(
            "`objective.loss_on`: the chat template of the model does not mark the assistant's "
            "turns with {% generation %}, and it writes the beginning of a conversation in another "
            "way when more follows, so they cannot be found by rendering its beginnings. Mark them "
            f"in the template. {cure}"
        )


def _prepared(template: str) -> str:
    """A template with a fixed day in the place of today, as it would make other ids tomorrow.

    Raises:
        ModelError: it computes powers; one of them can take for ever, and nothing interrupts it.
    """
    from jinja2 import Environment, TemplateError

    with suppress(TemplateError):  # said when it is rendered
        tokens = Environment(autoescape=True).lex(template)
        if any(token[1:] == ("operator", "**") for token in tokens):
            raise ModelError(
                "`model.name`: the chat template of the model computes a power (`**`), which may "
                "never end. Save its tokenizer with another chat_template, or name another model."
            )
    return _NOW.sub(lambda match: repr(_TODAY.strftime(match[2])), template)


def _within(spans: NDArray[np.int64], begin: int, end: int) -> NDArray[np.bool_]:
    """Which tokens have a character from `begin` to `end`; spans int64 [t, 2]."""
    first, last = spans[:, 0], spans[:, 1]
    return (first < end) & ((last > begin) | (first >= begin))
