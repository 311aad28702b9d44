"""The names of the stages that a selection will run, so that each is shown as one of several."""

from __future__ import annotations

from corpusfit.core.plan import AUTO, Plan
from corpusfit.scoring import registry
from corpusfit.scoring.contract import CorpusMethod, LabelMethod
from corpusfit.scoring.rounds import RoundMethod
from corpusfit.selection.cascade_stages import Stage, stages_of


def stages_ahead(plan: Plan, *, selecting: bool) -> list[str]:
    """The stages of a new run in order; none if they depend on what it finds."""
    if plan.method.name == "auto" or plan.choose.balance or plan.choose.fraction == AUTO:
        return []
    scoring = _of_cascade(stages_of(plan)) if plan.cascade.stages else _of_method(plan)
    return [*scoring, *(selecting_stages(plan) if selecting else ())]


def selecting_stages(plan: Plan) -> list[str]:
    """The stages that select from scores."""
    ahead = {"none": (), "exact": ("find copies",), "near": ("find copies", "find near-duplicates")}
    return [*ahead[plan.choose.dedup], "choose", "write", "describe examples"]


def _of_method(plan: Plan) -> list[str]:
    """The stages that score by one method."""
    method = registry.build(plan.method.name, plan.method.options)
    if isinstance(method, LabelMethod):
        return ["score"]
    if method.encodes:
        sampled = ["prepare encoder", "embed", "embed target", "sample", "sample texts"]
    else:
        sampled = ["sample"]
    if isinstance(method, RoundMethod):
        return [*sampled, "count", "take", "score"]
    return [*sampled, *(() if isinstance(method, CorpusMethod) else ("fit",)), "score"]


def _of_cascade(stages: list[Stage]) -> list[str]:
    """The stages that score by a cascade; the bars of its samples count as one each."""
    ahead = ["prepare encoder"] if any(stage.embed for stage in stages) else []
    ahead += ["sample"] if stages[-1].embed else ["sample", "sample"]
    if any(stage.embed for stage in stages):
        ahead.append("embed sampled")
    return [*ahead, "fit", "score the sample", *(f"{s.number} {s.name}" for s in stages), "join"]
