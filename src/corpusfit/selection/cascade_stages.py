"""Resolves the stages of `--cascade` to methods and embedders."""

from __future__ import annotations

import dataclasses
import difflib
from dataclasses import dataclass
from typing import Any

from corpusfit.core.artifacts import user_path
from corpusfit.core.errors import UnknownMethodError, bad_setting
from corpusfit.core.plan import EmbedPlan, MethodPlan, Plan, StageText
from corpusfit.embed import wants_gpu
from corpusfit.scoring import registry
from corpusfit.scoring.contract import Method
from corpusfit.scoring.names import names as method_names

EMBEDDERS = ("minilm", "static")
COSTS = {"text": 1.0, "static": 3.0, "network": 300.0}
"""Relative cost per unit by what a stage reads: rough ratios on a CPU. They are constants, so that
the shares set by them are the same on every machine."""


@dataclass(frozen=True)
class Stage:
    """One stage.

    Attributes:
        number: number of the stage, from 1.
        text: the stage as written in `--cascade`.
        method: the method; None for a surrogate.
        embed: settings of its embedder; None if it reads text only.
    """

    number: int
    text: StageText
    method: MethodPlan | None
    embed: EmbedPlan | None

    @property
    def name(self) -> str:
        """The stage as written, without its share."""
        return str(dataclasses.replace(self.text, share=None))

    @property
    def cost(self) -> float:
        """Relative cost per unit."""
        if self.embed is None:
            plain = self.method is None or _method(self.method).exact
            return COSTS["text" if plain else "network"]
        network = wants_gpu(dataclasses.replace(self.embed, device="auto"))
        return COSTS["network" if network else "static"]


def resolve_stages(plan: Plan) -> Plan:
    """The plan with the last stage's method and embedder as its own, all stages written in full.

    Earlier stages use their method's default settings; only those of the last stage can be set.
    """
    if not plan.cascade.stages:
        return plan
    *earlier, last = plan.cascade.stage_texts()
    texts = [_spelled(text, plan) for text in earlier]
    plan = _last(last, plan)
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
    written = ">".join(map(str, [*texts, last]))
    return dataclasses.replace(plan, cascade=dataclasses.replace(plan.cascade, stages=written))


def stages_of(plan: Plan) -> list[Stage]:
    """The stages of a resolved plan; the last one's method may still be `auto`."""
    *earlier, last = plan.cascade.stage_texts()
    stages = []
    for number, text in enumerate(earlier, start=1):
        if _is_method(text.name):
            method = registry.with_embedder(MethodPlan(text.name), text.embedder)
            encodes = _method(method).encodes
            stages.append(Stage(number, text, method, _embed(plan, text.embedder, encodes)))
        else:
            stages.append(Stage(number, text, None, _embed(plan, text.name, True)))
    method = registry.with_embedder(plan.method, plan.embed.embedder)
    encodes = method.name == "auto" or _method(method).encodes
    embed = _embed(plan, plan.embed.embedder, encodes)
    return [*stages, Stage(len(earlier) + 1, last, method, embed)]


def _embed(plan: Plan, embedder: str, encodes: bool) -> EmbedPlan | None:
    return dataclasses.replace(plan.embed, embedder=embedder) if encodes else None


def _with(plan: Plan, embedder: str) -> Plan:
    return dataclasses.replace(plan, embed=dataclasses.replace(plan.embed, embedder=embedder))


def _spelled(text: StageText, plan: Plan) -> StageText:
    """An earlier stage with its embedder written out."""
    if text.name == "auto":
        raise bad_setting(
            "An earlier stage of `cascade.stages`",
            "the name of a method or an embedder",
            "auto",
            "Only the last stage can be auto.",
        )
    if not _is_method(text.name):
        return _only_embedder(text)
    if _takes_embedder(_method(MethodPlan(text.name))):
        return dataclasses.replace(text, embedder=text.embedder or plan.embed.embedder)
    return _without_embedder(text)


def _last(text: StageText, plan: Plan) -> Plan:
    """The plan with the last stage's method and embedder."""
    if text.name != "auto" and not _is_method(text.name):
        plan = _with(plan, _only_embedder(text).name)
        if plan.method.name != "auto":
            _method(plan.method)
        return plan
    if plan.method.name not in ("auto", text.name):
        raise bad_setting(
            "`method.name`",
            f"left out or {text.name}, the last stage of `cascade.stages`",
            plan.method.name,
        )
    plan = dataclasses.replace(plan, method=MethodPlan(text.name, plan.method.options))
    if text.name != "auto" and not _takes_embedder(_method(plan.method)):
        _without_embedder(text)
    elif text.embedder:
        plan = _with(plan, text.embedder)
    return plan


def _is_method(name: str) -> bool:
    """Whether a stage's name is a method's; raises `UnknownMethodError` if no embedder's either."""
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
    known = [*EMBEDDERS, *method_names()]
    closest = difflib.get_close_matches(base, known, n=1, cutoff=0.0)[0]
    raise UnknownMethodError(
        f"A stage of `cascade.stages` must be one of {', '.join(known)}, a model folder or a hub "
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
    """Whether the method reads embeddings, or has a setting `embedder` of its own."""
    return method.encodes or "embedder" in {f.name for f in dataclasses.fields(method)}


def _only_embedder(text: StageText) -> StageText:
    if text.embedder:
        raise bad_setting(
            "A stage of `cascade.stages`",
            "METHOD@EMBEDDER or one embedder",
            f"{text.name}@{text.embedder}",
        )
    return text


def _without_embedder(text: StageText) -> StageText:
    if text.embedder:
        raise bad_setting(
            f"The stage {text.name} of `cascade.stages`",
            f"written without an embedder, because {text.name} reads text",
            f"{text.name}@{text.embedder}",
        )
    return text
