"""Conversations as token ids, by the model's own chat template, and which tokens the loss is on.

Why: a model answers best in the form in which it was trained.
Trade-off: without `{% generation %}` in the template, turns are found by rendering the beginnings
of a conversation. A template that writes earlier turns in another way than the last is refused.
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
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpusfit.core.errors import ModelError, raise_machine_fault, tokenizing
from corpusfit.embed.transformer import load_tokenizer, loading
from corpusfit.text import rejects
from corpusfit.text.fields import TOOLS, completion_at, fields_in, is_conversation, text_of_value
from corpusfit.text.rejects import RefusedError
from corpusfit.training.bounded import LimitError, bounded
from corpusfit.training.plan import ALL, COMPLETION

Message = dict[str, Any]
_ROLES = {"human": "user", "gpt": "assistant"}  # ShareGPT's names
# what a template may take for a conversation; ordinary ones take a thousandth of it
_SECONDS = 10.0  # of processor time
_MEMORY = 1 << 30  # bytes
_ADDED = 1 << 18  # characters, to those of the conversation
_TIMES = 16  # those of the conversation
_FEW = 3  # conversations that take more, behind which the template is the reason
_MARKED = re.compile(r"\{%-?\s*generation\s*-?%\}")
_NOW = re.compile(r"""strftime_now\(\s*(["'])(.*?)\1\s*\)""")
_SAID = "\ue000"  # in no text
_TODAY = date(2024, 7, 26)  # of templates that name a day


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


def conversation_in(fields: Mapping[str, Any], field: str) -> list[list[Message]]:
    """The messages of each field of a row's text; empty unless all of them hold messages."""
    names = fields_in(field) if is_conversation(fields, field) else []
    return [list(map(_message, fields[name])) for name in names]


def _message(value: Mapping[str, Any]) -> Message:
    message: Message = _plain(value)
    speaker = message.pop("from", None)
    role = message.get("role") or speaker
    # what is said, as a selection reads it; some templates write a missing content as "None"
    return message | {"role": _ROLES.get(role, role), "content": text_of_value([value], "") or ""}


def _plain(value: Any) -> Any:
    """A value without the nulls that Arrow gives for other rows' fields; a call's JSON is read."""
    if isinstance(value, Mapping):
        plain = {key: _plain(inner) for key, inner in value.items() if inner is not None}
        if "arguments" in plain:
            plain["arguments"] = _parsed(plain["arguments"])
        return plain
    return list(map(_plain, value)) if isinstance(value, list) else value


def _parsed(value: Any) -> Any:
    """The object or list that a string holds as JSON; any other value as it is."""
    with suppress(TypeError, ValueError):
        found = json.loads(value)
        return found if isinstance(found, dict | list) else value
    return value


def counted_messages(parts: Sequence[list[Message]], loss_on: str) -> tuple[list[Message], int]:
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


class ChatEncoder:
    """Encodes rows with a model's tokenizer and its chat template.

    Errors name the model's setting, and the group of the setting `loss_on`.
    """

    def __init__(
        self,
        folder: Path,
        chats: Chats,
        end: int | None,
        setting: str = "`model.name`",
        group: str = "objective",
    ) -> None:
        subject = f"The tokenizer {folder}"
        with loading(subject):
            self.tokenizer = load_tokenizer(folder, subject)
        template = self.tokenizer.chat_template
        if isinstance(template, dict):
            prepared = {name: _prepared(source, setting) for name, source in template.items()}
            self.tokenizer.chat_template = prepared
        elif template:
            self.tokenizer.chat_template = _prepared(template, setting)
        self.chats = chats
        self._end = end
        self._setting = setting
        self._loss_on = f"{group}.loss_on"
        self._endless = 0  # conversations for which the template took too much

    def encode(self, text: str, fields: Mapping[str, Any] | None, field: str) -> Encoded:
        """Encode a row with a text, the fields that it is made of, and `read.text_field`.

        Raises:
            RefusedError: the row is not trained on.
            ModelError: the assistant's turns cannot be found in what the template writes.
        """
        fields = fields or {}
        parts = conversation_in(fields, field)
        if not parts:
            return self._text(text, fields, field)
        loss_on = self.chats.loss_on
        most = self.chats.length
        messages, at = counted_messages(parts, loss_on)
        tools = _parsed(_plain(fields.get(TOOLS))) or None
        render = partial(self._render, tools=tools)
        text = render(messages)
        ids, spans = self._ids(text)
        cut = len(ids) > most
        if cut:  # a conversation ends with the last turn of the assistant that fits
            ends = [i for i, message in enumerate(messages, 1) if message["role"] == "assistant"]
            fits = bisect_right(ends, most, key=lambda n: len(self._ids(render(messages[:n]))[0]))
            if not fits or loss_on == COMPLETION:
                raise RefusedError(rejects.too_long_conversation(most))
            messages = messages[: ends[fits - 1]]
            text = render(messages)
            ids, spans = self._ids(text)

        def turn(first: int, end: int) -> NDArray[np.bool_]:
            return _within(spans, *self._turn(messages, first, end, tools, text))

        if loss_on == COMPLETION:
            return self._checked(ids, turn(at, len(messages)))
        if loss_on == ALL:
            return self._checked(ids, np.ones(len(ids), np.bool_), cut)
        mask = self._assistant_mask(messages, tools)
        counted = np.array(mask or [0] * len(ids), np.bool_)
        for i, message in enumerate(messages):
            # a message of weight 0 is read, and not learned (OpenAI's format for fine-tuning)
            learned = message.get("weight") != 0
            if message["role"] == "assistant" and learned == (mask is None):
                counted[turn(i, i + 1)] = learned
        return self._checked(ids, counted, cut)

    def _render(self, messages: list[dict[str, Any]], tools: Any, *, prompt: bool = False) -> str:
        """The text of messages; with `prompt`, up to where the assistant begins to speak."""
        options = {"tools": tools, "tokenize": False, "add_generation_prompt": prompt}
        text: str = self._apply(messages, **options)
        if len(text) > _ADDED + _TIMES * len(f"{messages}{tools}"):
            raise self._too_much()
        return text

    def _assistant_mask(self, messages: list[dict[str, Any]], tools: Any) -> list[int] | None:
        """Which tokens are in the marks of the assistant's turns; None if the template has none."""
        if not _MARKED.search(self.tokenizer.get_chat_template(None, tools)):
            return None
        options = {"return_dict": True, "return_assistant_tokens_mask": True}
        encoded = self._apply(messages, tools=tools, tokenizer_kwargs={"verbose": False}, **options)
        return list(encoded["assistant_masks"])

    def _turn(
        self, messages: list[dict[str, Any]], first: int, end: int, tools: Any, text: str
    ) -> tuple[int, int]:
        """Where the messages from `first` to `end` begin and end in the text of all."""
        until = text if end == len(messages) else self._render(messages[:end], tools)
        if first:
            before = self._render(messages[:first], tools, prompt=True)
        else:  # no messages are not rendered, so it begins where another's words do
            other = {"role": "assistant", "content": _SAID}
            before = self._render([other], tools).partition(_SAID)[0]
        if not (text.startswith(until) and until.startswith(before)):
            raise ModelError(
                f"`{self._loss_on}`: the chat template of the model writes the beginning of a "
                "conversation in another way when more follows, so turns are not found by it. Mark "
                "those of the assistant with {% generation %} in the template, or set "
                f"`{self._loss_on}=completion`, or `{self._loss_on}=all` if that is set."
            )
        return len(before), len(until)

    def _apply(self, messages: list[dict[str, Any]], **options: Any) -> Any:
        """What the template makes of messages."""
        apply = partial(self.tokenizer.apply_chat_template, messages, **options)
        try:
            return bounded(apply, _SECONDS, _MEMORY)
        except LimitError as e:
            raise self._too_much() from e
        except Exception as e:  # a template raises what it likes, and any exception of Python
            raise_machine_fault(e)
            raise rejects.RefusedError(rejects.refused_by_template(e)) from e

    def _too_much(self) -> Exception:
        """The error for a conversation that the template does not render within its limits."""
        self._endless += 1
        if self._endless < _FEW:
            return rejects.RefusedError(rejects.ENDLESS_TEMPLATE)
        return ModelError(
            f"{self._setting}: the chat template of the model took over {_SECONDS:g} seconds, "
            f"{_MEMORY >> 30} GiB of memory or {_TIMES} times the text for each of {_FEW} "
            "conversations. Save its tokenizer with another chat_template, or name another model."
        )

    def _text(self, text: str, fields: Mapping[str, Any], field: str) -> Encoded:
        """A row that is no conversation, between the tokens that begin and end a text."""
        loss_on = self.chats.loss_on
        prefix = self.chats.prefix
        begin = completion_at(text, fields, field) if loss_on == COMPLETION else None
        if begin is None and loss_on != ALL and not self.chats.plain:
            raise RefusedError(rejects.NO_CONVERSATION)
        ids, spans = self._ids(text)
        if not ids:
            return Encoded([], np.empty(0, np.bool_))
        end = [] if self._end is None else [self._end]
        ids = [*prefix, *ids, *end]
        if begin is not None and len(ids) > self.chats.length:
            raise RefusedError(rejects.too_long_conversation(self.chats.length))
        counted = _within(spans, begin or 0, len(text))
        counted = np.pad(counted, (len(prefix), len(end)), constant_values=(False, True))
        return self._checked(ids, counted)

    def _checked(self, ids: list[int], counted: NDArray[np.bool_], cut: bool = False) -> Encoded:
        """The tokens of a row, without a second token that begins a text."""
        begin = self.tokenizer.bos_token_id
        if begin is not None and ids[:2] == [begin, begin]:
            ids = ids[1:]
            counted = counted[1:]
        counted[:1] = False  # the first token is predicted from nothing
        if self.chats.loss_on != ALL and not counted.any():
            raise RefusedError(rejects.NO_LOSS)
        return Encoded(ids, counted, cut)

    def _ids(self, text: str) -> tuple[list[int], NDArray[np.int64]]:
        """The token ids [t] of a text, and the characters [t, 2] of each."""
        options = {"add_special_tokens": False, "return_offsets_mapping": True, "verbose": False}
        with tokenizing():
            coded = self.tokenizer(text, **options)
        return coded["input_ids"], np.array(coded["offset_mapping"], np.int64).reshape(-1, 2)


def _within(spans: NDArray[np.int64], begin: int, end: int) -> NDArray[np.bool_]:
    """Which tokens have a character from `begin` to `end`; spans int64 [t, 2]."""
    first = spans[:, 0]
    last = spans[:, 1]
    return (first < end) & ((last > begin) | (first >= begin))


def _prepared(template: str, setting: str) -> str:
    """A template with a fixed day in the place of today, as it would make other ids tomorrow.

    Raises:
        ModelError: it computes powers; one of them can take for ever, and nothing interrupts it.
    """
    from jinja2 import Environment, TemplateError

    with suppress(TemplateError):  # said when it is rendered
        tokens = Environment(autoescape=True).lex(template)
        if any(token[1:] == ("operator", "**") for token in tokens):
            raise ModelError(
                f"{setting}: the chat template of the model computes a power (`**`), which may "
                "never end. Save its tokenizer with another chat_template, or name another model."
            )
    return _NOW.sub(lambda match: repr(_TODAY.strftime(match[2])), template)


def no_template(name: str, loss_on: str, setting: str = "`model.name`") -> ModelError:
    """The error for a model without a chat template, which a setting of conversations needs."""
    return ModelError(
        f"{setting}: {name} has no chat template, which `{loss_on}` needs for conversations. "
        "Name a model with one, mostly called instruct or chat, save its tokenizer with a "
        f"chat_template, or leave out `{loss_on.partition('=')[0]}`."
    )
