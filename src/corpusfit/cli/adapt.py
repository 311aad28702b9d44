"""`corpusfit adapt`: continued pre-training on what was selected."""

from __future__ import annotations

import os
from typing import Annotated, Any

import typer

from corpusfit import api, pipeline
from corpusfit.cli import options as o
from corpusfit.cli.show import Bar, as_json, say, table

EXAMPLE = """Continue the pre-training of a language model on what was selected.

Example:

\b
  corpusfit adapt --model bert-base-uncased --data out/ --out adapted/

Writes a model folder that AutoModel.from_pretrained loads. A training that was stopped goes on
with the same command. On several GPUs put `accelerate launch -m` before it."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("adapt", help=EXAMPLE)(adapt)


def adapt(
    data: Annotated[
        list[str],
        typer.Option(
            "--data",
            help=f"Folder of a selection; or {o.INPUTS}; or `task`: the task's own texts.",
            show_default=False,
        ),
    ],
    out: Annotated[
        str,
        typer.Option("--out", help="Folder for the model; the same training resumes there."),
    ],
    model: Annotated[
        str | None, typer.Option("--model", help="A model folder or a Hugging Face hub id.")
    ] = None,
    init: Annotated[
        str | None,
        typer.Option(
            "--init",
            help="Instead of --model: an untrained one, tiny, mini or small, with a tokenizer made "
            "of the data.",
        ),
    ] = None,
    task: Annotated[
        list[str] | None,
        typer.Option(
            "--task",
            help="Texts of the task, to measure the loss on; a selection's target if not given.",
        ),
    ] = None,
    replay: Annotated[
        list[str] | None,
        typer.Option("--replay", help="General text to mix in, so that less is forgotten."),
    ] = None,
    guard: Annotated[
        list[str] | None,
        typer.Option(
            "--guard",
            help="A task's folder, of which dev and test are meant, or files: data that holds one "
            "of these texts is not trained on.",
        ),
    ] = None,
    guard_field: Annotated[
        str,
        typer.Option("--guard-field", help="The field with the text there, if it is another."),
    ] = "",
    replay_share: Annotated[
        float | None,
        typer.Option("--replay-share", help="Share of the tokens that it makes; 0.05 if not."),
    ] = None,
    preset: Annotated[
        str | None,
        typer.Option("--preset", help="A paper's settings: tadpole, mdapt, mdapt-adapter or tapt."),
    ] = None,
    objective: Annotated[
        str | None, typer.Option("--objective", help="mlm (the default), mlm+nsp or causal.")
    ] = None,
    whole_word: Annotated[
        bool | None, typer.Option("--whole-word", help="Mask whole words.")
    ] = None,
    weights: Annotated[
        str | None,
        typer.Option(
            "--weights",
            help="off (the default), lambda (weights the loss), resample (draws by weight) or "
            "mask+lambda (weights the chosen segments).",
        ),
    ] = None,
    steps: Annotated[int | None, typer.Option("--steps", help="Updates of the weights.")] = None,
    epochs: Annotated[
        float | None, typer.Option("--epochs", help="Or passes over the data.")
    ] = None,
    batch: Annotated[int | None, typer.Option("--batch", help="Sequences in a step.")] = None,
    length: Annotated[int | None, typer.Option("--length", help="Tokens in a sequence.")] = None,
    rate: Annotated[float | None, typer.Option("--rate", help="Highest learning rate.")] = None,
    adapter: Annotated[
        str | None,
        typer.Option("--adapter", help="Train a few new weights only: pfeiffer or lora."),
    ] = None,
    new_head: Annotated[
        bool | None,
        typer.Option("--new-head", help="Give a model that lacks the head a new one."),
    ] = None,
    track: Annotated[
        str, typer.Option("--track", help="Tell tensorboard, wandb or mlflow how it goes.")
    ] = "",
    text_field: o.TextField = None,
    seed: o.Seed = None,
    workers: o.Workers = None,
    cache: o.Cache = None,
    plan: o.PlanFile = None,
    settings: o.Settings = None,
    overwrite: o.Overwrite = False,
    dry_run: o.DryRun = False,
    json: o.Json = False,
) -> None:
    """Parse, call, print."""
    built = api.build_adapt_plan(
        plan,
        settings or (),
        preset,
        data,
        model=model,
        init=init,
        new_head=new_head,
        objective=objective,
        whole_word=whole_word,
        weights=weights,
        replay_share=replay_share,
        steps=steps,
        epochs=epochs,
        batch=batch,
        length=length,
        rate=rate,
        adapter=adapter,
        text_field=text_field,
        seed=seed,
    )
    texts: dict[str, Any] = {"data": data, "task": task or (), "replay": replay or ()}
    texts |= {"guard": guard or (), "guard_field": guard_field}
    machine = pipeline.Machine(workers=workers, cache=cache, progress=Bar())
    if dry_run:
        show_projected(api.estimate_adaptation(**texts, plan=built, machine=machine), json=json)
        return
    run = api.adapt(
        **texts,
        out=out,
        plan=built,
        track=track,
        overwrite=overwrite,
        machine=machine,
    )
    if int(os.environ.get("RANK", "0")):
        return  # of several processes that train together the first one speaks
    if json:
        as_json({"out": str(out), **run.manifest})
    else:
        show_adapted(run.manifest, out)


def show_adapted(manifest: dict[str, Any], out: str) -> None:
    """The losses before and after."""
    before, after = (manifest["losses"][when] for when in ("before", "after"))
    rows = [
        [name, f"{loss:.3f}", f"{after[name]:.3f}", f"{after[name] - loss:+.3f}"]
        for name, loss in before.items()
    ]
    table("Held-out loss (nats a token)", ["text", "before", "after", "change"], rows)
    if manifest["plan"]["adapter"]["kind"]:
        say(f"Adapter: {out} (corpusfit.adapt.adapters.open_adapted; docs/adapting.md).")
    else:
        say(f"Model: {out} (AutoModel.from_pretrained, or --model of the next command).")


def show_projected(projected: dict[str, Any], *, json: bool) -> None:
    """What it would take."""
    if json:
        as_json(projected)
        return
    say(projected["words"])
    say(
        f"About {projected['seconds'] / 60:,.0f} min ({projected['steps']:,} steps of "
        f"{projected['step_s']:.2f} s), {projected['memory_mb']:,.0f} MB of memory, "
        f"{projected['disk_mb']:,.0f} MB of disk (measured over a few steps; nothing was written)."
    )
