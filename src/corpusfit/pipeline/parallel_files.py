"""What a run over aligned pairs does beside: lines stay whole, and pairs come out as aligned files.

What: a corpus of pairs has one segment a line, and what was selected of it is written once more as
two files of which line n of one translates line n of the other.
Why: half a line has no translation, and systems that translate are trained on such files.
Trade-off: the selected text is on the disk twice. A line end within a text, which only a TSV's old
line ends can leave there, becomes a blank in these files.
Reference: Aharoni and Goldberg (2020), section 4, where pairs are selected by their source side.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections.abc import Sequence

from corpusfit import corpus
from corpusfit.artifacts import writing
from corpusfit.errors import bad_setting
from corpusfit.manifest import RunFolder
from corpusfit.pipeline.result import Selection
from corpusfit.pipeline.text_keys import is_parallel
from corpusfit.plan import Plan
from corpusfit.types import Source

_LINE_ENDS = re.compile(r"[\r\n]+")


def whole_lines(plan: Plan, corpus_inputs: Sequence[str]) -> Plan:
    """The plan, by which each line of aligned pairs is one unit and so one segment.

    Raises:
        UsageError: it asks for units that cut lines, and the corpus is of pairs.
    """
    if not any(corpus.is_pair(given) for given in corpus_inputs) or plan.cut.unit == "document":
        return plan
    if plan.cut.unit != "window":  # the default
        cure = "A line of a pair has its translation as a whole, so it is one segment."
        raise bad_setting(
            "--unit", "document, or left out, with aligned pairs", plan.cut.unit, cure
        )
    return dataclasses.replace(plan, cut=dataclasses.replace(plan.cut, unit="document"))


def write_aligned(folder: RunFolder, sources: Sequence[Source]) -> list[str]:
    """Write what was selected of pairs as two line-aligned files, in the corpus's order.

    Returns:
        Their names, as `selected.de` and `selected.en`; none if the corpus is not of pairs.
    """
    folder.remove_written()
    if not is_parallel(sources):
        return []
    paths = [folder.aligned(side) for side in corpus.sides(sources)]
    names = [path.name for path in paths]
    folder.will_write(names)
    with contextlib.ExitStack() as stack:
        files = [stack.enter_context(writing(path)) for path in paths]
        for row in Selection(folder.path, {}):
            for file, side in zip(files, ("text", "translation"), strict=True):
                file.write(_LINE_ENDS.sub(" ", row[side]).encode() + b"\n")
    return names
