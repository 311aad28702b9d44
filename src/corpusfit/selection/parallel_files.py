"""Runs over parallel corpora: one segment per line, and the selection as line-aligned files."""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections.abc import Sequence

from corpusfit import text as corpus
from corpusfit.core.artifacts import writing
from corpusfit.core.errors import bad_setting
from corpusfit.core.plan import Plan
from corpusfit.core.types import Source
from corpusfit.selection.folder import SelectionFolder
from corpusfit.selection.result import Selection

_LINE_ENDS = re.compile(r"[\r\n]+")


def whole_lines(plan: Plan, corpus_inputs: Sequence[str]) -> Plan:
    """The plan with one unit, and so one segment, per line if the corpus is of aligned pairs."""
    if not any(corpus.is_pair(each) for each in corpus_inputs) or plan.cut.unit == "document":
        return plan
    if plan.cut.unit != "window":  # the default
        cure = "Only a whole line of a pair has a translation, so each line is one segment."
        raise bad_setting(
            "`cut.unit`", "document or left out with aligned pairs", plan.cut.unit, cure
        )
    return dataclasses.replace(plan, cut=dataclasses.replace(plan.cut, unit="document"))


def write_aligned(folder: SelectionFolder, sources: Sequence[Source]) -> list[str]:
    """Write the selected pairs as two line-aligned files, in the corpus's order.

    A line end within a text, which only the old line ends of a TSV can leave, becomes a blank.

    Reference: Aharoni and Goldberg (2020), section 4: pairs are selected by their source side.
    """
    folder.remove_written()
    if not corpus.is_parallel(sources):
        return []
    names = [f"selected.{side}" for side in corpus.sides(sources)]
    folder.will_write(names)
    with contextlib.ExitStack() as stack:
        files = [stack.enter_context(writing(folder.path / name)) for name in names]
        for row in Selection(folder.path, {}):
            for file, side in zip(files, ("text", "translation"), strict=True):
                file.write(_LINE_ENDS.sub(" ", row[side]).encode() + b"\n")
    return names
