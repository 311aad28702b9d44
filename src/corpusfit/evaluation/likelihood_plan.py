"""The plan of what is judged by the likelihood of text under a causal model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from corpusfit.core.errors import bad_setting
from corpusfit.core.options import Option
from corpusfit.core.plan import PRECISIONS
from corpusfit.core.settings import Group

TEXT, LABEL = "{text}", "{label}"


@dataclass(frozen=True)
class LikelihoodPlan(Group, group="likelihood"):
    """The likelihood of held-out text, or of labels after a prompt."""

    shots: Annotated[
        int,
        Option(
            "Training examples in the prompt of a `few_shot` task, drawn by the random seed",
            "shots",
            least=0,
        ),
    ] = 4
    template: Annotated[
        str,
        Option(
            "An example in the prompt of a `few_shot` task, with {text} before {label} at the end; "
            "`\\n` stands for a line break",
            metavar="TEXT",
        ),
    ] = r"Text: {text}\nLabel: {label}"
    context: Annotated[
        int | None,
        Option(
            "Most tokens of a prompt, or of a window of held-out text",
            default="the model's limit, and at most 2,048 for held-out text",
            least=8,
        ),
    ] = None
    precision: Annotated[
        str,
        Option(
            "Number format of the computation: `auto` (fp32 on a CPU, bf16 on a GPU that supports "
            "it), `bf16` or `fp32`",
            allowed=PRECISIONS,
        ),
    ] = "auto"

    def _check_together(self) -> None:
        """Raise `UsageError` for a template without a place for the text or the label."""
        before = self.template.removesuffix(LABEL)
        if before == self.template or before.count(TEXT) != 1 or LABEL in before:
            cure = f"For example `likelihood.template={LikelihoodPlan.template}`."
            allowed = f"a text with {TEXT} once and {LABEL} once, at its end"
            raise bad_setting("`likelihood.template`", allowed, self.template, cure)

    def begun(self, text: str) -> str:
        """The template for a text up to the label."""
        plain = self.template.removesuffix(LABEL).replace("\\n", "\n")
        return plain.replace(TEXT, text)
