"""`corpusfit augment`: a task with more training examples."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from corpusfit.contracts import command, say, say_result

if TYPE_CHECKING:
    from corpusfit_papers.augmenting import Augmented


@command(machine=())
def augment(done: Augmented, out: str) -> None:
    """Write a task with more training examples.

    Example:
      corpusfit augment --task chemprot/ --out augmented/

    Adds copies of the training examples with the same labels: with uninformative words replaced
    by others of train (tfidf), or as a back-translation (backtranslate). Dev and test stay. Look
    at some of the new examples if your task is about relations: translation may lose entity marks.

    Options:
        --task INPUT: Labeled task: a folder with train, dev and test, a file, or hub:NAME
        --out FOLDER: New or empty folder for the task
        --method NAME: Augmentation: tfidf or backtranslate (default: tfidf)
        --copies N: Number of copies of each training example (default: 1)
        --share X: Mean share of a text's words that tfidf replaces (default: 0.3)
        --mt MODEL: Model that translates to another language, for backtranslate: a folder or a
            Hugging Face hub id OWNER/NAME[@REVISION] (default: none)
        --mt-back MODEL: Model that translates back to the source language (default: none)
        --seed N: Random seed (default: 0)
        --device NAME: Device of the translation models: auto, cpu, cuda, … (default: auto)
        --kind KIND: Kind of task: classification, multilabel, regression or tagging (default: auto)
        --text-field NAME: Field of the rows with the text (default: text)
        --label-field NAME: Field of the rows with the label (default: label)
    """
    say_result(f"{done.examples:,} training examples, and {done.added:,} copies of them.")
    say(f"To train on them: corpusfit evaluate --task {shlex.quote(out)} …")
