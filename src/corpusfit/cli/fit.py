"""`corpusfit fit`: from a task to a verdict."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from corpusfit.cli.options import command
from corpusfit.cli.show import say, say_result, table

if TYPE_CHECKING:
    from corpusfit.fitting.fitting import Fitted


def show_schedule(facts: dict[str, Any]) -> None:
    """Print the dry run."""
    say(facts["words"])
    # without steps a program of others trains
    measured = "Measured over a few steps; nothing was written."
    say(measured if facts["max_steps"] else "Nothing was run.")


@command(dry_run=show_schedule, report=True)
def fit(run: Fitted) -> None:
    """Find out whether a selection helps your task.

    Sets the task's held-out texts aside and selects from the corpus. Then adapts the model on the
    selection and on as much random text, several times each. Compares these models with each other
    and with the original: by the loss on the task's text and on general text, by a probe of the
    frozen models and, if time allows, by fine-tuning. Of a task with one class per text, word
    vectors of the selected text give a first score within seconds of the selection. Ends with a
    verdict and the model to keep.

    Example:
      corpusfit fit --task task/ --corpus corpus/ --model jhu-clsp/ettin-encoder-17m --out out/

    A task is anything that `corpusfit evaluate` takes, or plain texts without labels. To resume a
    stopped fit, run the same command again; a longer --time adds to a finished one.

    Options:
        --task INPUT: Labeled examples, or plain texts: a folder, a file or hub:OWNER/NAME
        --out FOLDER: Folder for all results; a stopped fit resumes there
        --time TIME: About how long the whole fit may take, such as 20min or 2h (default: 30min)
        --method NAME: Scoring method for the selection (default: cynical)
        --corpus-field NAME: Text field of the corpus (default: text)
        --where FILTER: Rows of the corpus to use, such as 'score > 0.8' (default: all)
        --keep NAMES: Columns of the corpus to carry into the selection, by which the report counts
            it, separated by commas, such as language,url (default: none)
        --scores FOLDER: Side files of the corpus files, with more fields (default: none)
        --objective NAME: Training objective, as for `corpusfit adapt` (default: that of the model)
        --general FILE: General texts, whose loss is measured before and after, in the field of the
            corpus (default: held-out random text of the corpus)
        --replay SHARE: Share of general text to mix into both trainings, against forgetting, such
            as 0.1 (default: none)
        --train-with COMMAND: Program that trains in place of `corpusfit adapt`, such as
            'python train.py {model} {data} {out}': from JSON lines to a model folder. It is run as
            it is, without a shell; --time is then when it is stopped (default: never)
        --seeds N: Trainings of each with --train-with (default: 3)
        --tokens N: Word pieces to select with --train-with (default: a fifth of the corpus)
    """
    show_fitted({**run.manifest, "keep": run.keep})


def show_fitted(manifest: dict[str, Any]) -> None:
    """Print the measures, and the verdict."""
    from corpusfit.fitting.verdict import gains_table

    title = (
        f"{manifest['task']['name']}: means, and gains (95 % interval; gain that is found in 8 of "
        "10 cases); a loss gains by falling"
    )
    table(title, *gains_table(manifest["measures"]))
    say(manifest["measured"])
    say(manifest["selected"])
    if vectors := manifest.get("word_vectors"):
        say(vectors["sentence"])
    if "train_with" in manifest:
        say(f"Trained with: {manifest['train_with']['command']}")
    # what is asked for comes last, where a terminal ends
    say_result(manifest["shown"])
    if manifest["lost"]:
        say_result(manifest["lost"])
    if manifest["not_shown"]:
        say_result(" ".join(filter(None, (manifest["not_shown"], manifest["more"]))))
    say_result(manifest["why"])
    say_result(f"Model: {manifest['keep']}")
