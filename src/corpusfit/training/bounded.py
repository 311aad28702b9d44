"""A model's chat template: code of a stranger, called under limits of time, memory and text.

What: a call that takes longer, or needs more, ends with `LimitError`.
Why: a chat template may loop or allocate without end. A process of its own would hold any
code, but each worker would import transformers twice (0.6 s), and send each conversation to it.
Trade-off: Python raises between two of its instructions, so a single one, such as the product of
two numbers of a million digits, is finished first. Only Linux limits the memory.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import threading
import time
from collections.abc import Callable
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from corpusfit.core.errors import ModelError, raise_machine_fault
from corpusfit.text import rejects

with contextlib.suppress(ImportError):  # Windows
    from resource import RLIM_INFINITY, RLIMIT_DATA, getrlimit, setrlimit

T = TypeVar("T")

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

_PAUSE = 0.2  # seconds between two looks at the call
_AGAIN = 1.0  # seconds until the error is raised again, if the code has caught it
# one call at a time, as the limit of the memory is that of the process
_calling = threading.Lock()
_lock = threading.Lock()  # of the two below
# thread of the call, and when it has to end, in the processor time of this process: a machine that
# is busy or asleep takes nothing away
_call: tuple[int, float] | None = None
_watched = False  # whether a thread watches the call


class LimitError(Exception):
    """A call took too much time or memory."""


class Bounds:
    """Limits for calls.

    Args:
        seconds: most processor time of a call.
        size: most bytes by which the memory may grow from now on.
    """

    def __init__(self, seconds: float, size: int) -> None:
        self._seconds = seconds
        held = _held()
        self._limits: tuple[tuple[int, int], tuple[int, int]] | None = None  # inside and outside
        if held is not None:
            with _calling:
                outside = getrlimit(RLIMIT_DATA)
            most = [held + size, *(limit for limit in outside if limit != RLIM_INFINITY)]
            self._limits = (min(most), outside[1]), outside

    def call(self, function: Callable[[], T]) -> T:
        """Call a function.

        Raises:
            LimitError: it takes more than it may.
        """
        with _calling:
            try:
                self._begin()
                try:
                    return function()
                finally:
                    self._end()
            except LimitError:
                self._end()  # the error may have come before the end was noted
                raise
            except MemoryError as e:
                raise LimitError from e

    def _begin(self) -> None:
        global _call, _watched  # noqa: PLW0603
        with _lock:
            if self._limits is not None:
                setrlimit(RLIMIT_DATA, self._limits[0])
            _call = threading.get_ident(), time.process_time() + self._seconds
            if not _watched:
                _watched = True
                threading.Thread(target=_watch, name="corpusfit-bounds", daemon=True).start()

    def _end(self) -> None:
        global _call  # noqa: PLW0603
        with _lock:
            _call = None
            _raise_in(threading.get_ident(), None)  # it may not have seen the error yet
            if self._limits is not None:
                setrlimit(RLIMIT_DATA, self._limits[1])


def _watch() -> None:
    """End calls that take too long, until there is no call."""
    global _call, _watched  # noqa: PLW0603
    while True:
        time.sleep(_PAUSE)
        now = time.process_time()
        with _lock:
            if _call is None:
                _watched = False
                return
            thread, end = _call
            if now > end:
                _call = thread, now + _AGAIN
                _raise_in(thread, LimitError)


def _raise_in(thread: int, error: type[Exception] | None) -> None:
    """Raise an error in a thread, or take back one that it has not seen yet."""
    what = None if error is None else ctypes.py_object(error)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), what)


def _held() -> int | None:
    """The bytes that `RLIMIT_DATA` counts; None on systems other than Linux."""
    try:
        pages = Path("/proc/self/statm").read_text("ascii").split()[5]
    except OSError:
        return None
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


class BoundedTemplate:
    """The chat template of a tokenizer."""

    def __init__(self, tokenizer: Any) -> None:
        template = tokenizer.chat_template
        if isinstance(template, dict):
            tokenizer.chat_template = {name: _prepared(each) for name, each in template.items()}
        elif template:
            tokenizer.chat_template = _prepared(template)
        self._tokenizer = tokenizer
        self._bounds = Bounds(_SECONDS, _MEMORY)
        self._endless = 0  # conversations for which the template took too much

    def render(self, messages: list[dict[str, Any]], tools: Any, *, prompt: bool = False) -> str:
        """The text of messages; with `prompt`, up to where the assistant begins to speak."""
        options = {"tools": tools, "tokenize": False, "add_generation_prompt": prompt}
        text: str = self._apply(messages, **options)
        if len(text) > _ADDED + _TIMES * len(f"{messages}{tools}"):
            raise self._too_much()
        return text

    def assistant_mask(self, messages: list[dict[str, Any]], tools: Any) -> list[int] | None:
        """Which tokens are in the marks of the assistant's turns; None if the template has none."""
        if not _MARKED.search(self._tokenizer.get_chat_template(None, tools)):
            return None
        options = {"return_dict": True, "return_assistant_tokens_mask": True}
        made = self._apply(messages, tools=tools, tokenizer_kwargs={"verbose": False}, **options)
        return list(made["assistant_masks"])

    def turn(
        self, messages: list[dict[str, Any]], first: int, end: int, tools: Any, text: str
    ) -> tuple[int, int]:
        """Where the messages from `first` to `end` begin and end in the text of all."""
        until = text if end == len(messages) else self.render(messages[:end], tools)
        if first:
            before = self.render(messages[:first], tools, prompt=True)
        else:  # no messages are not rendered, so it begins where another's words do
            other = {"role": "assistant", "content": _SAID}
            before = self.render([other], tools).partition(_SAID)[0]
        if not (text.startswith(until) and until.startswith(before)):
            raise ModelError(
                "`objective.loss_on`: the chat template of the model writes the beginning of a "
                "conversation in another way when more follows, so turns are not found by it. Mark "
                "those of the assistant with {% generation %} in the template, or set "
                "`objective.loss_on=completion`, or `objective.loss_on=all` if that is set."
            )
        return len(before), len(until)

    def _apply(self, messages: list[dict[str, Any]], **options: Any) -> Any:
        """What the template makes of messages."""
        apply = partial(self._tokenizer.apply_chat_template, messages, **options)
        try:
            return self._bounds.call(apply)
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
            f"`model.name`: the chat template of the model took over {_SECONDS:g} seconds, "
            f"{_MEMORY >> 30} GiB of memory or {_TIMES} times the text for each of {_FEW} "
            "conversations. Save its tokenizer with another chat_template, or name another model."
        )


def _prepared(template: str) -> str:
    """A template with a fixed day in the place of today, as it would make other ids tomorrow.

    Raises:
        ModelError: it computes powers; one of them can take for ever, and nothing interrupts it.
    """
    from jinja2 import Environment, TemplateError

    with contextlib.suppress(TemplateError):  # said when it is rendered
        tokens = Environment(autoescape=True).lex(template)
        if any(token[1:] == ("operator", "**") for token in tokens):
            raise ModelError(
                "`model.name`: the chat template of the model computes a power (`**`), which may "
                "never end. Save its tokenizer with another chat_template, or name another model."
            )
    return _NOW.sub(lambda match: repr(_TODAY.strftime(match[2])), template)


def no_template(name: str, setting: str) -> ModelError:
    """The error for a model without a chat template, which a setting of conversations needs."""
    return ModelError(
        f"`model.name`: {name} has no chat template, which `{setting}` needs for conversations. "
        "Name a model with one, mostly called instruct or chat, save its tokenizer with a "
        f"chat_template, or leave out `{setting.partition('=')[0]}`."
    )
