"""Speed of `corpusfit evaluate` and of a plain `transformers.Trainer`.

Measures examples per second of both in turn, each in its own process and in two precisions.

The peer is the script that a user would write: AutoModelForSequenceClassification with
DataCollatorWithPadding, or AutoModelForTokenClassification with
DataCollatorForTokenClassification, the same batch, learning rate, epochs, warm-up and decay, and
otherwise the Trainer's defaults. Weights are float32 on both sides; transformers 5 opens some
models in bf16, and trains bf16 weights, unless configured otherwise. A Trainer computes in fp32
by default, corpusfit in bf16 if the processor has it, so both are timed in both, and only in fp32
where bf16 would be emulated. corpusfit uses eager attention for bf16 on a CPU, so the peer is
timed with that too.

A timed step includes batches, forward, backward, clipping and AdamW. Both sides exclude loading,
tokenising, evaluation on dev and the first block of steps.

Run: python benchmarks/finetune.py --task DIR --model DIR [--threads N]
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import statistics
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from corpusfit.embed.hardware import cpu_has_bf16
from corpusfit.evaluation.finetune import finetune
from corpusfit.evaluation.learned import load_learned
from corpusfit.evaluation.plan import EvaluatePlan, FinetunePlan, HeadPlan, TaskPlan
from corpusfit.evaluation.reading import read_task
from corpusfit.evaluation.task import Examples, Task, nested_places
from harness import Side, machine, store

LENGTH = 512
MOST = 10_000  # most training examples to tokenise
IGNORED = -100  # label that transformers leaves out of the loss
SIDES = ("ours bf16", "ours fp32", "trainer bf16", "trainer fp32")
EAGER = "trainer bf16 eager"
RATIOS = (
    ("bf16 on both sides", "ours bf16", "trainer bf16"),
    ("fp32 on both sides", "ours fp32", "trainer fp32"),
    ("as each is without being told", "ours bf16", "trainer fp32"),
    ("bf16 and eager attention on both sides", "ours bf16", EAGER),
)


@dataclass(frozen=True)
class Case:
    """The input of all sides."""

    task: Path
    plan: EvaluatePlan  # settled
    threads: int
    rounds: int
    block: int  # steps timed together

    @property
    def steps(self) -> int:
        """Steps in total: one block more than is timed."""
        return self.block * (self.rounds + 1)

    @property
    def note(self) -> str:
        """Settings as text."""
        tune = self.plan.finetune
        return (
            f"{self.plan.task.kind}, {self.task.name}, {Path(self.plan.model.name).name}; batch "
            f"{tune.batch}, up to {tune.length} tokens, rate {tune.learning_rate:g}, cpu, threads "
            f"a side: {self.threads}; the peer is transformers.Trainer, which pads to the longest"
        )


def as_told(case: Case, side: str, **tune: Any) -> EvaluatePlan:
    """The plan in a side's precision."""
    precision = side.split()[1]
    told = dataclasses.replace(case.plan.finetune, precision=precision, device="cpu", **tune)
    return dataclasses.replace(case.plan, finetune=told)


# ------------------------------------------------------------------------------------- the peer


def plain(task: Task, plan: EvaluatePlan, side: str) -> Any:
    """A plain Trainer on a task.

    Args:
        task: the same as corpusfit's.
        plan: with all settings resolved.
        side: precision, and whether attention is eager.
    """
    import torch
    import transformers as tf
    from accelerate.state import AcceleratorState

    AcceleratorState._reset_state(reset_partial_state=True)  # state of an earlier Trainer
    tokenizer = tf.AutoTokenizer.from_pretrained(plan.model.name)
    tagging = task.kind == "tagging"
    auto = tf.AutoModelForTokenClassification if tagging else tf.AutoModelForSequenceClassification
    collator = tf.DataCollatorForTokenClassification if tagging else tf.DataCollatorWithPadding
    tf.set_seed(0)
    more = {"attn_implementation": "eager"} if "eager" in side else {}
    model = auto.from_pretrained(
        plan.model.name, num_labels=task.learnable, dtype=torch.float32, **more
    )
    tune = plan.finetune
    arguments = tf.TrainingArguments(
        output_dir=tempfile.mkdtemp(),
        learning_rate=tune.learning_rate,
        per_device_train_batch_size=tune.batch,
        num_train_epochs=tune.epochs,
        warmup_steps=tune.warmup_steps,
        weight_decay=tune.weight_decay,
        bf16="bf16" in side,
        use_cpu=True,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        seed=0,
    )
    return tf.Trainer(
        model=model,
        args=arguments,
        train_dataset=rows(task, tokenizer, tune.length),
        data_collator=collator(tokenizer),
    )


def rows(task: Task, tokenizer: Any, length: int) -> list[dict[str, Any]]:
    """Examples as input of a collator; the first token of each word has its label."""
    found = []
    tagging = task.kind == "tagging"
    for pieces, labels in zip(task.train.pieces, task.train.labels, strict=True):
        row = tokenizer(
            pieces if tagging else pieces[0],
            is_split_into_words=tagging,
            truncation=True,
            max_length=length,
        )
        given: Any = labels[0]
        if tagging:
            words = [None, *row.word_ids()]
            given = [
                labels[word] if word is not None and word != before else IGNORED
                for before, word in pairwise(words)
            ]
        found.append({**row, "labels": given})
    return found


# ------------------------------------------------------------------------------------ speed


def part_of(task: Task, train: int, dev: int, test: int) -> Task:
    """The given number of examples of each split, drawn with one seed."""

    def some(examples: Examples, size: int) -> Examples:
        return examples.take(nested_places(len(examples), size, 0))

    return dataclasses.replace(
        task, train=some(task.train, train), dev=some(task.dev, dev), test=some(task.test, test)
    )


class EnoughError(Exception):
    """Raised after the last timed block."""


def work(side: str, case: Case, pipe: Connection) -> None:
    """In a separate process: train, and wait at the end of each block of steps."""
    import torch
    from torch.optim.optimizer import register_optimizer_step_post_hook

    torch.set_num_threads(case.threads)
    plan = as_told(case, side)
    task = read_task(str(case.task), plan.task, seed=0)
    task = part_of(task, MOST, 2, 2)
    made = 0
    since = time.perf_counter()
    busy = time.process_time()

    def on_step(*_: Any) -> None:
        nonlocal made, since, busy
        made += 1
        if made % case.block:
            return
        pipe.send((time.perf_counter() - since, time.process_time() - busy))
        if made == case.steps:
            raise EnoughError
        pipe.recv()
        since = time.perf_counter()
        busy = time.process_time()

    register_optimizer_step_post_hook(on_step)
    seen = {}
    with suppress(EnoughError):
        if side.startswith("ours"):
            finetune(task, plan, seed=0)
        else:
            trainer = plain(task, plan, side)
            seen = {"optim": str(trainer.args.optim.value)}
            seen |= {"attention": trainer.model.config._attn_implementation}
            trainer.train()
    pipe.send(seen)


def speed(case: Case) -> None:
    """Time all sides in turn, block by block."""
    names = there((*SIDES, EAGER))
    sides = {name: Side(work, name, case) for name in names}
    clock: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(case.rounds + 1):
        for name, side in sides.items():
            clock[name].append(side())
    seen = {name: side.finish() for name, side in sides.items()}
    examples = case.block * case.plan.finetune.batch
    result = {
        "name": f"finetune_{case.task.name}_{case.threads}t",
        "note": f"{case.note}; blocks of {case.block} steps; loading and tokenising are left out "
        "on all sides",
        "runs": case.rounds,
        "sides": {
            name: {
                "examples_per_s": examples / statistics.median(clock[name][1:]),
                "seconds": spread(clock[name][1:]),
                "processor_seconds": spread(sides[name].busy[1:]),
                **seen[name],
            }
            for name in names
        },
        "ratios": {
            what: {
                "clock": ratio(clock[ours], clock[peer]),
                "processor": ratio(sides[ours].busy, sides[peer].busy),
            }
            for what, ours, peer in RATIOS
            if ours in names and peer in names
        },
        "work": {"amount": examples, "unit": "examples"},
        "machine": machine(),
    }
    store(result)
    print(json.dumps(result["ratios"], indent=1))


def there(sides: Sequence[str]) -> list[str]:
    """The sides whose precision this processor supports."""
    return [side for side in sides if cpu_has_bf16() or "bf16" not in side]


def spread(values: Sequence[float]) -> dict[str, float]:
    """Median and range."""
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def ratio(ours: Sequence[float], peer: Sequence[float]) -> dict[str, float]:
    """Ratios of blocks of one round, without the first; above 1, corpusfit is faster."""
    return spread([b / a for a, b in zip(ours[1:], peer[1:], strict=True)])


def arguments() -> argparse.Namespace:
    """The command line's arguments."""
    words = argparse.ArgumentParser()
    words.add_argument("--task", type=Path, required=True)
    words.add_argument("--model", type=Path, required=True)
    words.add_argument("--threads", type=int, default=2)
    words.add_argument("--rounds", type=int, default=7)
    words.add_argument("--block", type=int, default=8, help="steps per timed block (default: 8)")
    words.add_argument(
        "--learning-rate", type=float, help="learning rate (default: that of the task's kind)"
    )
    return words.parse_args()


def main() -> None:
    """Time a task."""
    given = arguments()
    if not (given.model / "config.json").exists() or not given.task.is_dir():
        print("Skipped: --model must be the folder of a model, and --task that of a task.")
        return
    model = HeadPlan(name=str(given.model.resolve()))
    kind = read_task(str(given.task), TaskPlan(), seed=0).kind
    tune = FinetunePlan(learning_rate=given.learning_rate, patience=0)
    plan = EvaluatePlan(model=model, finetune=tune)
    plan = load_learned(kind).settled(plan, adapter=False, max_length=LENGTH)
    speed(Case(given.task.resolve(), plan, given.threads, given.rounds, given.block))


if __name__ == "__main__":
    main()
