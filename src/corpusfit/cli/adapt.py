"""`corpusfit adapt`: continued pre-training on a selection."""

from __future__ import annotations

import os
from typing import Annotated, Any

import corpusfit
from corpusfit import training
from corpusfit.cli import options as o
from corpusfit.cli.show import answer, say, table
from corpusfit.training.api import ADAPT
from corpusfit.training.plan import EMBEDDINGS, loss_unit


@o.offers(ADAPT, "train.micro_tokens=1024")
def adapt(
    *,
    data: Annotated[
        list[str],
        o.option(
            "INPUT",
            f"Texts, or aligned pairs, to train on: folder of a selection, `task` (the task's own "
            f"texts), or {o.INPUTS}",
        ),
    ],
    out: Annotated[
        str, o.option("FOLDER", "Folder for the model; a stopped training resumes there")
    ],
    task: Annotated[
        list[str] | None,
        o.option(
            "INPUT",
            "Texts of the task to measure the loss on, and with --then-task to train on; "
            "repeatable (default: the target of the selection in --data)",
        ),
    ] = None,
    replay: Annotated[
        list[str] | None,
        o.option(
            "INPUT",
            "General texts or pairs to mix in, against forgetting; repeatable (default: none)",
        ),
    ] = None,
    guard: Annotated[list[str] | None, o.guard("--data")] = None,
    guard_field: o.GuardField = "",
    preset: Annotated[
        str | None,
        o.option(
            "NAME",
            "Settings of a paper: tadpole, mdapt, mdapt-adapter, domain-clusters or tapt (default: "
            "none, or tapt with --data task)",
        ),
    ] = None,
    track: Annotated[
        str, o.option("NAME", "Log metrics to tensorboard, wandb or mlflow (default: none)")
    ] = "",
    words: o.Words,
    overwrite: o.Overwrite = False,
    dry_run: o.DryRun = False,
    json: o.Json = False,
) -> None:
    """Pre-train a model further, or train one that translates.

    Example:
      corpusfit adapt --model bert-base-uncased --data out/ --out adapted/
      corpusfit adapt --model bert-base-uncased --data out/ --task imdb/ --then-task --out both/
      corpusfit adapt --objective translation --init small --data pair:all.de,all.en --out de-en/
      corpusfit adapt --objective tsdae --model minilm --data out/ --out encoder/

    Writes a model folder that AutoModel.from_pretrained loads, or an adapter with --adapter. Run
    the same command to resume a stopped training. To use several GPUs, put `accelerate launch -m`
    before the command.
    """
    request: dict[str, Any] = {"data": data, "task": task or (), "replay": replay or (), **words}
    request |= {"guard": guard or (), "guard_field": guard_field, "preset": preset}
    if dry_run:
        answer(json, training.estimate_adaptation(**request), show_projected)
        return
    run = corpusfit.adapt(**request, out=out, track=track, overwrite=overwrite)
    if int(os.environ.get("RANK", "0")):
        return  # of several processes that train together, only the first prints
    answer(json, {"out": str(out), **run.manifest}, show_adapted, run.manifest, out)


def show_adapted(manifest: dict[str, Any], out: str) -> None:
    """Print the held-out losses before and after, and after the first phase of two."""
    before, after = (manifest["losses"][when] for when in ("before", "after"))
    first = [phase["losses"]["after"] for phase in manifest.get("phases", ())[:1]]
    rows = [
        [
            name,
            *(f"{losses[name]:.3f}" for losses in (before, *first, after)),
            f"{after[name] - loss:+.3f}",
        ]
        for name, loss in before.items()
    ]
    objective = manifest["plan"]["objective"]["name"]
    title = (
        f"Held-out loss in nats per {loss_unit(objective)}, {objective} in sequences of "
        f"{manifest['training']['length']} (lower is better)"
    )
    names = ["after --data", "after --task"] if first else ["after"]
    table(title, ["text", "before", *names, "change"], rows)
    if after.get("general", 0.0) > before.get("general", 0.0):
        say("The loss on general text rose: the model forgets it; --replay mixes general text in.")
    if manifest["plan"]["adapter"]["kind"]:
        say(f"Adapter: {out} (for --model of `corpusfit evaluate`; see docs/adapting.md).")
    elif manifest["plan"]["objective"]["name"] in EMBEDDINGS:
        say(f"Sentence encoder: {out} (for --embedder, SentenceTransformer, or AutoModel).")
    else:
        say(f"Model: {out} (for AutoModel.from_pretrained, or --model of `corpusfit evaluate`).")


def show_projected(projected: dict[str, Any]) -> None:
    """Print the dry run."""
    say(projected["words"])
    say(
        f"Expected: {projected['seconds'] / 60:,.0f} min ({projected['steps']:,} steps of "
        f"{projected['step_s']:.2f} s), {projected['memory_mb']:,.0f} MB of memory, "
        f"{projected['disk_mb']:,.0f} MB of disk (measured over a few steps; nothing was written)."
    )
