"""The plan of a beam search."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from corpusfit.core.options import Option
from corpusfit.core.plan import PRECISIONS
from corpusfit.core.settings import Group


@dataclass(frozen=True)
class DecodePlan(Group, group="decode"):
    """The beam search of a translation (Aharoni and Goldberg 2020, appendix A.1).

    Attributes:
        beam: number of beams; 1 takes the most likely token.
        longest: most tokens of a translation, with its end.
        penalty: exponent of the length that divides a translation's log probability; None for that
            of the model's generation_config.json, or 1.
        precision: number format of the weights.
        splits: splits to translate, separated by commas.
        domain: name of the domain whose tag begins each text.
    """

    beam: Annotated[int, Option("Beams of the search for a translation", "beam", above=0)] = 5
    longest: Annotated[int, Option("Most tokens of a translation, with its end", above=0)] = 100
    penalty: Annotated[
        float | None,
        Option(
            "Exponent of the length that divides a translation's log probability",
            default="that of the model's generation_config.json, or 1",
        ),
    ] = None
    precision: Annotated[
        str,
        Option(
            "Number format of the search: `auto` (fp32 on a CPU, bf16 on a GPU that supports it), "
            "`bf16` or `fp32`",
            allowed=PRECISIONS,
        ),
    ] = "auto"
    splits: Annotated[
        str,
        Option(
            "Splits of a task to translate: `dev,test`, or `test` alone in less time",
            allowed=("dev,test", "test"),
        ),
    ] = "dev,test"
    domain: Annotated[
        str,
        Option(
            "Domain of the texts, such as `it`: with a model of `objective.tag_domains`, its token "
            "begins each text",
            default="none",
        ),
    ] = ""
