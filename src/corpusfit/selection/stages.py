"""Resolves the stages of `--cascade` to methods, embedders and shares."""

from __future__ import annotations

import dataclasses
import difflib
from dataclasses import dataclass
from typing import Any

from corpusfit.core.artifacts import user_path
from corpusfit.core.errors import UnknownMethodError, bad_setting
from corpusfit.core.plan import EmbedPlan, MethodPlan, Plan, StageText
from corpusfit.scoring import registry
from corpusfit.scoring.contract import Method
from corpusfit.scoring.names import names as method_names

EMBEDDERS = ("minilm", "static")


@dataclass(frozen=True)
class Stage:
    """One stage, numbered from 1."""

    number: int
    text: StageText
    method: MethodPlan | None  # None for a surrogate of the last stage
    embed: EmbedPlan | None  # None if the stage reads only text

    @property
    def name(self) -> str:
        """The stage as written, without its share."""
        return str(dataclasses.replace(self.text, share=None))


def resolve_stages(plan: Plan) -> Plan:
    """The plan with the last stage's method and embedder, and every stage spelled out."""
    # Earlier stages use their method's default settings; only those of the last stage can be set.
    if not plan.cascade.stages:
        return plan
    *earlier, last = plan.cascade.stage_texts()
    earlier = [_with_embedder(text, plan) for text in earlier]
    plan = _with_last_stage(last, plan)
    method = None if plan.method.name == "auto" else _method(plan.method)
    if method is not None and _is_method(last.name):
        embedder = plan.embed.embedder if _takes_embedder(method) else ""
        last = dataclasses.replace(last, embedder=embedder)
    elif method is not None and not method.encodes:
        raise bad_setting(
            "`method.name`",
            f"a method that reads embeddings, because the last stage is {last}",
            plan.method.name,
        )
    else:
        last = StageText(plan.embed.embedder)
    stages = ">".join(map(str, [*earlier, last]))
    return dataclasses.replace(plan, cascade=dataclasses.replace(plan.cascade, stages=stages))


def stages_of(plan: Plan) -> list[Stage]:
    """The stages of a resolved plan; the last one's method may still be `auto`."""
    *earlier, last = plan.cascade.stage_texts()
    stages = []
    for number, text in enumerate(earlier, start=1):
        if _is_method(text.name):
            method = registry.with_embedder(MethodPlan(text.name), text.embedder)
            embed = dataclasses.replace(plan.embed, embedder=text.embedder)
            stages.append(Stage(number, text, method, embed if _method(method).encodes else None))
        else:
            embed = dataclasses.replace(plan.embed, embedder=text.name)
            stages.append(Stage(number, text, None, embed))
    method = registry.with_embedder(plan.method, plan.embed.embedder)
    encodes = method.name == "auto" or _method(method).encodes
    return [*stages, Stage(len(earlier) + 1, last, method, plan.embed if encodes else None)]


def shares_of(plan: Plan, *, segments: float, tokens: float) -> list[float]:
    """The share of the corpus that each stage but the last passes on.

    Shares that the plan leaves out fall geometrically from the whole corpus to the selected share.
    """
    earlier = plan.cascade.stage_texts()[:-1]
    explicit = [text.share for text in earlier if text.share is not None]
    if explicit:
        return explicit
    selected = plan.choose.share
    if plan.choose.segments is not None:
        selected = plan.choose.segments / max(1.0, segments)
    elif plan.choose.tokens is not None:
        selected = plan.choose.tokens / max(1.0, tokens)
    # every stage passes on at least one segment
    selected = min(1.0, max(selected, 1 / max(1.0, segments)))
    ratio = selected ** (1 / (len(earlier) + 1))
    return [ratio**number for number in range(1, len(earlier) + 1)]


def _with_embedder(text: StageText, plan: Plan) -> StageText:
    """An earlier stage with its embedder spelled out."""
    if text.name == "auto":
        raise bad_setting(
            "An earlier stage of `cascade.stages`",
            "the name of a method or an embedder",
            "auto",
            "Only the last stage can be auto.",
        )
    if not _is_method(text.name):
        _require_single_embedder(text)
    elif _takes_embedder(_method(MethodPlan(text.name))):
        return dataclasses.replace(text, embedder=text.embedder or plan.embed.embedder)
    else:
        _require_no_embedder(text)
    return text


def _with_last_stage(text: StageText, plan: Plan) -> Plan:
    """The plan with the last stage's method and embedder."""
    if text.name != "auto" and not _is_method(text.name):
        _require_single_embedder(text)
        if plan.method.name != "auto":
            _method(plan.method)
        embed = dataclasses.replace(plan.embed, embedder=text.name)
        return dataclasses.replace(plan, embed=embed)
    if plan.method.name not in ("auto", text.name):
        raise bad_setting(
            "`method.name`",
            f"left out or {text.name}, the last stage of `cascade.stages`",
            plan.method.name,
        )
    plan = dataclasses.replace(plan, method=MethodPlan(text.name, plan.method.options))
    if text.name != "auto" and not _takes_embedder(_method(plan.method)):
        _require_no_embedder(text)
    elif text.embedder:
        embed = dataclasses.replace(plan.embed, embedder=text.embedder)
        plan = dataclasses.replace(plan, embed=embed)
    return plan


def _is_method(name: str) -> bool:
    """Whether a stage names a method; raises `UnknownMethodError` if not an embedder either."""
    base, colon, _ = name.partition(":")
    if base in method_names():
        if colon and base != "pyod":
            raise bad_setting(
                "A stage of `cascade.stages`",
                "NAME[@EMBEDDER][:SHARE] with a number for SHARE",
                name,
            )
        return True
    if base in EMBEDDERS or name == "auto" or "/" in name or user_path(name).is_dir():
        return False
    allowed = [*EMBEDDERS, *method_names()]
    closest = difflib.get_close_matches(base, allowed, n=1, cutoff=0.0)[0]
    raise UnknownMethodError(
        f"A stage of `cascade.stages` must be one of {', '.join(allowed)}, a model folder or a hub "
        f"id OWNER/NAME, with :SHARE above 0 and at most 1; got {name!r}. Did you mean "
        f"{closest!r}? Write a hub id without an owner as METHOD@ID."
    )


def _method(plan: MethodPlan) -> Method[Any]:
    if not issubclass(registry.load(plan.name), Method):
        raise bad_setting(
            "A stage of `cascade.stages`",
            "a method that scores each unit on its own",
            plan.name,
            "Use this method without `cascade.stages`.",
        )
    return registry.unit_method(plan.name, plan.options)


def _takes_embedder(method: Method[Any]) -> bool:
    """Whether the method reads embeddings, or has its own setting `embedder`."""
    return method.encodes or "embedder" in {f.name for f in dataclasses.fields(method)}


def _require_single_embedder(text: StageText) -> None:
    if text.embedder:
        raise bad_setting(
            "A stage of `cascade.stages`",
            "METHOD@EMBEDDER or one embedder",
            f"{text.name}@{text.embedder}",
        )


def _require_no_embedder(text: StageText) -> None:
    if text.embedder:
        raise bad_setting(
            f"The stage {text.name} of `cascade.stages`",
            f"written without an embedder, because {text.name} reads text",
            f"{text.name}@{text.embedder}",
        )
