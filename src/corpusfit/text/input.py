"""An input of a command: its sources, and how they are read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from corpusfit.core.errors import EmptyInputError, changed_input
from corpusfit.core.plan import ReadPlan
from corpusfit.core.types import Source
from corpusfit.text import cures
from corpusfit.text.reading import Reasons
from corpusfit.text.shards import numbering
from corpusfit.text.sources import changed


@dataclass(frozen=True)
class Input:
    """The sources of an input, with the plan that reads them."""

    sources: Sequence[Source]
    read: ReadPlan
    role: str = "corpus"  # the option that names it
    with_target: bool = False  # whether a target is read by the same text field

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the sources of its rows, by number."""
        return numbering(self.sources)[1]

    @cached_property
    def size(self) -> int:
        """Its stored bytes."""
        return sum(source.size for source in self.sources)

    def require_unchanged(self) -> None:
        """Check that no source changed since the command began."""
        if source := changed(self.sources):
            raise changed_input(source.name, "`overwrite`")

    def nothing_read(self, rejected: Reasons) -> EmptyInputError:
        """The error for an input without a usable row."""
        read = self.read
        if read.where and not rejected.counts:
            return EmptyInputError(
                f"`{self.role}` has no row that `read.where` keeps; got {read.where!r}. Check "
                "its fields and values."
            )
        field_cure = "Name the text field with `read.text_field`"
        if self.with_target:
            field_cure += f", and the target's with `fit.target_field={read.text_field}`"
        default_cure = cures.of_reasons(rejected.counts, field_cure, self.role)
        cure = cures.of_content(self.sources, read, rejected.counts, default_cure)
        return EmptyInputError(f"`{self.role}` has no usable row ({rejected}). {cure}")
