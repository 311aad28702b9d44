"""`corpusfit adapt`: continued pre-training on a selection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from corpusfit.cli.options import command
from corpusfit.cli.show import say, table

if TYPE_CHECKING:
    from corpusfit.training.adapting import Adapted


def show_projected(projected: dict[str, Any]) -> None:
    """Print the dry run."""
    say(projected["words"])
    say(
        f"Expected: {projected['seconds'] / 60:,.0f} min ({projected['max_steps']:,} steps of "
        f"{projected['step_s']:.2f} s), {projected['memory_mb']:,.0f} MB of memory, "
        f"{projected['disk_mb']:,.0f} MB of disk (measured over a few steps; nothing was written)."
    )
    if gb := projected["memory_gb"]:
        parts = ", ".join(f"{name} {size:.2f}" for name, size in gb.items() if name != "total")
        say(f"Memory of a step, counted without the program: {gb['total']:.2f} GB ({parts}).")


@command(dry_run=show_projected, together=True)
def adapt(run: Adapted, out: str) -> None:
    """Continue a model's pre-training, or train a new model.

    Example:
      corpusfit adapt --model bert-base-uncased --data out/ --out adapted/
      corpusfit adapt --model bert-base-uncased --data out/ --task imdb/ --then-task --out both/
      corpusfit adapt --objective tsdae --model minilm --data out/ --out encoder/

    Writes a model folder that AutoModel.from_pretrained loads or, with --adapter, an adapter. To
    resume a stopped training, run the same command again. To use several GPUs, put `accelerate
    launch -m` before the command.

    Options:
        --data INPUT: Texts to train on: the folder of a selection, `task` (the task's own texts),
            or {INPUTS}
        --out FOLDER: Folder for the model; a stopped training resumes there
        --task INPUT: Task texts for measuring the loss and, with --then-task, for training;
            repeatable (default: the target of the selection in --data)
        --replay INPUT: General texts to mix in against forgetting; repeatable (default: none)
        --guard INPUT: Leave out training texts that contain one of these held-out texts:
            {GUARD}
        --track NAME: Log metrics to tensorboard, wandb or mlflow (default: none)
    """
    show_adapted(run.manifest, out)


def show_adapted(manifest: dict[str, Any], out: str) -> None:
    """Print the held-out losses before and after, and after the first phase of two."""
    from corpusfit.training.objectives import load

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
        f"Held-out loss in nats per token, {objective} in sequences of "
        f"{manifest['training']['length']} (lower is better)"
    )
    names = ["after --data", "after --task"] if first else ["after"]
    table(title, ["text", "before", *names, "change"], rows)
    if after.get("general", 0.0) - before.get("general", 0.0) > _FORGETTING:
        say("The loss on general text rose: the model forgets it; --replay mixes general text in.")
    if manifest["plan"]["adapter"]["kind"]:
        say(f"Adapter: {out} (for --model of `corpusfit evaluate`; see docs/adapting.md).")
    elif load(objective).embeds:
        say(f"Sentence encoder: {out} (for --embedder, SentenceTransformer, or AutoModel).")
    else:
        say(f"Model: {out} (for AutoModel.from_pretrained, or --model of `corpusfit evaluate`).")


_FORGETTING = 0.05
"""Rise of the loss on general text, in nats, that is named; a loss is accurate to about 0.01."""
