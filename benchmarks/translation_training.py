"""Training speed of `corpusfit adapt --objective translation` and of `Seq2SeqTrainer`.

Measures real tokens of both sides per second (padding does not count), in turn, each side in its
own process, with the same model, precision, label smoothing, pairs and mean target tokens per step.
The peer trains twice: as it is by default (random order, padding to the longest pair of a batch),
and at its best settings here (batches grouped by length, the attention that is faster on the
machine). Its data is tokenised in advance, as lists.

A timed step includes its batch, forward, backward, clipping and AdamW; tokenising, loading and the
first block of steps are left out.

Run: python benchmarks/translation_training.py --pairs pair:all.de,all.en [--init small]
     [--threads N] [--precision bf16] [--block 3] [--peers longest,grouped]
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

from harness import RESULTS, Side, paired

ROUNDS = 5
LENGTH = 128
TOKENS = 4_096
RATE = 5e-4
SMOOTHING = 0.1
PEERS = ("longest", "grouped")


@dataclass(frozen=True)
class Case:
    """The input of both sides."""

    model: Path
    pairs: str
    precision: str
    attention: str
    threads: int
    block: int  # steps timed together
    batch: int = 0  # pairs in a step of the peer

    @property
    def steps(self) -> int:
        """Steps in total: one block more than is timed."""
        return self.block * (ROUNDS + 1)


def ours(case: Case, steps: int, on_step: Callable[[], None], out: Path) -> Any:
    """`corpusfit adapt` with its defaults, except for the settings of the case."""
    from corpusfit.core.engine import Progress
    from corpusfit.text.context import Machine
    from corpusfit.training.adapting import adapt
    from corpusfit.training.plan import AdaptPlan, MixPlan, ModelPlan, ObjectivePlan, TrainPlan

    class Steps(Progress):
        training = False

        def begin(self, stage: str, total: float, unit: str = "units") -> None:
            self.training = stage == "adapt"

        def advance(self, done: float, units: int = 0) -> None:
            if self.training and done:
                on_step()

        def warn(self, message: str) -> None:
            print(message, file=sys.stderr)

    train = TrainPlan(
        max_steps=steps,
        batch=1,
        pair_tokens=TOKENS,
        length=LENGTH,
        learning_rate=RATE,
        precision=case.precision,
        device="cpu",
        evaluations=1,
    )
    plan = AdaptPlan(
        model=ModelPlan(name=str(case.model)),
        objective=ObjectivePlan("translation", smoothing=SMOOTHING),
        train=train,
        mix=MixPlan(heldout=20),
    )
    return adapt(plan, [case.pairs], out, machine=Machine(workers=1, progress=Steps()))


def trainer(case: Case, peer: str, steps: int, on_step: Callable[[], None]) -> Any:
    """`Seq2SeqTrainer` on the same pairs, after training."""
    import torch
    from transformers import (
        AutoModelForSeq2SeqLM,
        AutoTokenizer,
        DataCollatorForSeq2Seq,
        Seq2SeqTrainer,
        Seq2SeqTrainingArguments,
        TrainerCallback,
    )

    class Steps(TrainerCallback):
        def on_step_end(self, *_: Any, **__: Any) -> None:
            on_step()

    grouped = peer == "grouped"
    known = {field.name for field in dataclasses.fields(Seq2SeqTrainingArguments)}
    how: dict[str, Any] = {"group_by_length": grouped}
    if "train_sampling_strategy" in known:
        how = {"train_sampling_strategy": "group_by_length" if grouped else "random"}
    arguments = Seq2SeqTrainingArguments(
        output_dir=tempfile.mkdtemp(),
        max_steps=steps,
        per_device_train_batch_size=case.batch,
        label_smoothing_factor=SMOOTHING,
        bf16=case.precision == "bf16",
        use_cpu=True,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        learning_rate=RATE,
        dataloader_pin_memory=False,
        **how,
    )
    model = AutoModelForSeq2SeqLM.from_pretrained(
        case.model,
        dtype=torch.float32,
        attn_implementation=case.attention if grouped else None,
    )
    tokenizer = AutoTokenizer.from_pretrained(case.model)
    made = Seq2SeqTrainer(
        model=model,
        args=arguments,
        callbacks=[Steps()],
        train_dataset=encoded(case),
        data_collator=DataCollatorForSeq2Seq(tokenizer, model, padding="longest"),
    )
    made.train()
    return made


def encoded(case: Case) -> list[dict[str, Any]]:
    """The pairs as features of a trainer, without those longer than our limit."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(case.model)
    first, second = (
        Path(name).read_text("utf-8").split("\n")[:-1]
        for name in case.pairs.removeprefix("pair:").split(",")
    )
    found = tokenizer(first, text_target=second)
    rows = zip(found["input_ids"], found["labels"], strict=True)
    return [
        {"input_ids": a, "attention_mask": [1] * len(a), "labels": b, "length": max(len(a), len(b))}
        for a, b in rows
        if max(len(a), len(b)) <= LENGTH
    ]


def side(name: str, case: Case, pipe: Connection) -> None:
    """In a separate process: train, and wait at the end of each block of steps."""
    import torch

    torch.set_num_threads(case.threads)
    made, since, busy = 0, 0.0, 0.0

    def on_step() -> None:
        nonlocal made, since, busy
        made += 1
        if made % case.block:
            return
        pipe.send((time.perf_counter() - since, time.process_time() - busy))
        if made < case.steps:
            pipe.recv()
        since, busy = time.perf_counter(), time.process_time()

    since = time.perf_counter()
    if name == "ours":
        with tempfile.TemporaryDirectory() as folder:
            done = ours(case, case.steps, on_step, Path(folder) / "out").manifest
        pipe.send({n: done[n] for n in ("precision", "fill", "parameters", "chunks", "rows")})
    else:
        found = trainer(case, name, case.steps, on_step)
        attention = found.model.config._attn_implementation
        pipe.send({"optim": str(found.args.optim.value), "attention": attention})


def speed(case: Case, peer: str, name: str) -> None:
    """Both sides in turn; tokens of a step are those of the mean batch."""
    from corpusfit.training.batches import PairPasses
    from corpusfit.training.data import whole_pairs

    features = encoded(case)
    sides = np.array([[len(f["input_ids"]), len(f["labels"])] for f in features])
    chunks = whole_pairs(sides, np.ones(len(sides), np.float32), LENGTH)
    passes = PairPasses(
        chunks, None, 0.0, length=TOKENS, overhead=0, draw=False, pack=False, batch=1, seed=0
    )
    per_pair, rows = sides.sum() / len(sides), len(passes.rows(0))
    case = dataclasses.replace(case, batch=round(len(sides) / rows))
    mine, theirs = Side(side, "ours", case), Side(side, peer, case)
    result = paired(
        name,
        mine,
        theirs,
        runs=ROUNDS,
        work=case.block * float(sides.sum()) / rows,
        peer_work=case.block * float(per_pair) * case.batch,
        unit="tokens",
        note=f"steps of at most {TOKENS} tokens a side ({case.batch} pairs on average, as many for "
        f"the peer), {case.precision}, label smoothing {SMOOTHING}, torch threads a side: "
        f"{case.threads}; blocks of {case.block} steps; the peer is transformers.Seq2SeqTrainer: "
        + ("random batches" if peer == "longest" else "batches grouped by length"),
    )
    result["extra"] = {"ours": mine.finish(), "peer": theirs.finish()}
    scale = result["work"]["amount"] / (case.block * float(per_pair) * case.batch)
    busy = [b / a * scale for a, b in zip(mine.busy[1:], theirs.busy[1:], strict=True)]
    result["extra"]["ratio_of_processor_seconds"] = {
        "median": statistics.median(busy),
        "min": min(busy),
        "max": max(busy),
    }
    (RESULTS / f"{name}.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(result["extra"]))


def main() -> None:
    """Compare with both settings of the peer."""
    words = argparse.ArgumentParser()
    words.add_argument("--pairs", required=True, help="pair:TEXTS,TRANSLATIONS, not compressed")
    words.add_argument("--init", default="small")
    words.add_argument("--threads", type=int, default=1)
    words.add_argument("--precision", choices=("bf16", "fp32"), default="bf16")
    words.add_argument("--attention", default="eager", help="of the peer at its best settings")
    words.add_argument("--block", type=int, default=3)
    words.add_argument("--peers", default=",".join(PEERS))
    given = words.parse_args()
    from corpusfit.training.models import save_model
    from corpusfit.training.scratch import new_model

    with tempfile.TemporaryDirectory() as folder:
        texts: list[str] = []
        for name in given.pairs.removeprefix("pair:").split(","):
            texts += Path(name).read_text("utf-8").split("\n")[:-1]
        made = new_model(given.init, "translation", texts, vocabulary=0, attention="sdpa", seed=0)
        save_model(made.model, made.tokenizer, Path(folder) / "model")
        case = Case(
            model=Path(folder) / "model",
            pairs=given.pairs,
            precision=given.precision,
            attention=given.attention,
            threads=given.threads,
            block=given.block,
        )
        for peer in given.peers.split(","):
            shape = f"{given.init}_{given.precision}_cpu_{given.threads}t"
            speed(case, peer, f"translation_training_{shape}_{peer}")


if __name__ == "__main__":
    main()
