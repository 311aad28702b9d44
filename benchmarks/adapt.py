"""Speed of `corpusfit adapt` and of Hugging Face's `run_mlm.py` recipe.

Measures training tokens per second of both in turn, each in its own process. The part `decoder`
measures the speed and peak memory of random decoders of Qwen2.5's shape beside the recipe of
`run_clm.py`: eight layers by LoRA, and four with all weights trained.

The script `run_mlm.py` is not in the transformers package, so this file repeats its documented
steps: texts with special tokens, concatenated and cut into blocks (the remainder is dropped),
masks by `DataCollatorForLanguageModeling`, and `Trainer` with its defaults. Blocks are prepared
in advance as lists, which are faster than a `datasets` table. Weights are float32 on both sides;
transformers 5 opens some models in bf16, and trains bf16 weights, unless configured otherwise.

A timed step includes rows, masks, forward, backward, clipping and AdamW. Both sides exclude
tokenising, loading and the first block of steps. Tokens include special tokens, not padding.

Run: python benchmarks/adapt.py --model DIR [--text FILE.jsonl] [--threads N] [--device cuda]
     [--parts speed,decoder]
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from harness import RESULTS, Side, paired

ROUNDS = 7
MASK = 0.15
RATE = 5e-5  # of TrainingArguments, and of run_mlm.py


@dataclass(frozen=True)
class Case:
    """One comparison: the input of both sides."""

    name: str
    model: Path
    text: Path
    batch: int
    length: int
    precision: str
    device: str
    threads: int
    block: int  # steps timed together
    seed: int = 0
    objective: str = "mlm"
    adapter: str = ""
    rounds: int = ROUNDS

    @property
    def steps(self) -> int:
        """Steps in total: one block more than is timed."""
        return self.block * (self.rounds + 1)


# ------------------------------------------------------------------ both sides of one training


def ours(case: Case, steps: int, on_step: Callable[[], None], out: Path, task: Path | None) -> Any:
    """`corpusfit adapt` with its defaults, except for the settings of the case."""
    from accelerate.state import AcceleratorState

    from corpusfit.core.engine import Progress
    from corpusfit.text.context import Machine
    from corpusfit.training.adapting import adapt
    from corpusfit.training.plan import (
        AdapterPlan,
        AdaptPlan,
        MixPlan,
        ModelPlan,
        ObjectivePlan,
        TrainPlan,
    )

    class Steps(Progress):
        training = False

        def begin(self, stage: str, total: float, unit: str = "units") -> None:
            self.training = stage == "adapt"

        def advance(self, done: float, units: int = 0) -> None:
            if self.training:
                on_step()

        def warn(self, message: str) -> None:
            print(message, file=sys.stderr)

    AcceleratorState._reset_state(reset_partial_state=True)  # state of an earlier `Trainer`
    train = TrainPlan(
        max_steps=steps,
        batch=case.batch,
        length=case.length,
        learning_rate=RATE,
        precision=case.precision,
        device=case.device,
        evaluations=1,
    )
    plan = AdaptPlan(
        model=ModelPlan(name=str(case.model)),
        objective=ObjectivePlan(case.objective),
        train=train,
        adapter=AdapterPlan(case.adapter),
        mix=MixPlan(heldout=100 if case.objective == "mlm" else 4),
        seed=case.seed,
    )
    given = [str(task)] if task else []
    where = Machine(workers=1, progress=Steps())
    return adapt(plan, [str(case.text)], out, task=given, machine=where, overwrite=True)


def recipe(case: Case, steps: int, on_step: Callable[[], None], **more: Any) -> Any:
    """`run_mlm.py` or `run_clm.py`: blocks, the collator and `Trainer`; returns the trainer."""
    import torch
    from accelerate.state import AcceleratorState
    from transformers import (
        AutoModelForCausalLM,
        AutoModelForMaskedLM,
        AutoTokenizer,
        DataCollatorForLanguageModeling,
        Trainer,
        TrainerCallback,
        TrainingArguments,
    )

    class Steps(TrainerCallback):
        def on_step_end(self, *_: Any, **__: Any) -> None:
            on_step()

    AcceleratorState._reset_state(reset_partial_state=True)
    tokenizer = AutoTokenizer.from_pretrained(case.model)
    arguments = TrainingArguments(
        output_dir=tempfile.mkdtemp(),
        max_steps=steps,
        per_device_train_batch_size=case.batch,
        bf16=case.precision == "bf16",
        use_cpu=case.device == "cpu",
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        seed=case.seed,
        learning_rate=RATE,
    )
    masked = case.objective == "mlm"
    auto = AutoModelForMaskedLM if masked else AutoModelForCausalLM
    how = {}
    if case.device == "cuda" and find_spec("flash_attn"):
        how["attn_implementation"] = "flash_attention_2"  # the Trainer's autocast gives it bf16
    model = auto.from_pretrained(case.model, dtype=torch.float32, **how)
    if case.adapter:
        import peft

        model = peft.get_peft_model(
            model, peft.LoraConfig(target_modules="all-linear", lora_alpha=16)
        )
    trainer = more.pop("kind", Trainer)(
        model=model,
        args=arguments,
        callbacks=[Steps()],
        **(
            more
            or {
                "train_dataset": blocks(tokenizer, texts(case.text), case.length),
                "data_collator": DataCollatorForLanguageModeling(
                    tokenizer, mlm=masked, mlm_probability=MASK
                ),
            }
        ),
    )
    trainer.train()
    return trainer


def texts(path: Path) -> list[str]:
    """The texts of a JSON-lines file."""
    with path.open("rb") as lines:
        return [json.loads(line)["text"] for line in lines if line.strip()]


def blocks(tokenizer: Any, some: Sequence[str], length: int) -> list[dict[str, list[int]]]:
    """`group_texts`: texts with special tokens, concatenated, cut into blocks; drops the rest."""
    found = tokenizer(list(some), return_special_tokens_mask=True)
    whole = {name: [i for row in rows for i in row] for name, rows in found.items()}
    total = len(whole["input_ids"]) // length * length
    return [
        {name: ids[i : i + length] for name, ids in whole.items()} for i in range(0, total, length)
    ]


# ---------------------------------------------------------------------------------- speed


def side(name: str, case: Case, pipe: Connection) -> None:
    """In a separate process: train, and wait at the end of each block of steps."""
    import torch

    torch.set_num_threads(case.threads)
    made = 0
    since = 0.0
    busy = 0.0

    def on_step() -> None:
        nonlocal made, since, busy
        made += 1
        if made % case.block:
            return
        if case.device == "cuda":
            torch.cuda.synchronize()
        pipe.send((time.perf_counter() - since, time.process_time() - busy))
        if made < case.steps:
            pipe.recv()
        since = time.perf_counter()
        busy = time.process_time()

    since = time.perf_counter()
    tokens = float(case.batch * case.length)
    if name == "ours":
        with tempfile.TemporaryDirectory() as folder:
            done = ours(case, case.steps, on_step, Path(folder) / "out", None).manifest
        tokens *= done["fill"] or 1.0
        seen = {name: done[name] for name in ("precision", "device", "packed", "fill")}
    else:
        trainer = recipe(case, case.steps, on_step)
        seen = {
            "optim": str(trainer.args.optim.value),
            "attention": trainer.model.config._attn_implementation,
            "device": trainer.args.device.type,
        }
    seen["peak_gb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    pipe.send({"tokens": tokens, "seen": seen})


def speed(case: Case) -> None:
    """Both sides in turn; the tokens of a step are known after it."""
    mine = Side(side, "ours", case)
    peer = Side(side, "recipe", case)
    result = paired(
        case.name,
        mine,
        peer,
        runs=case.rounds,
        work=case.batch * case.length * case.block,
        unit="tokens",
        note=f"{case.batch} x {case.length} tokens, {case.precision}, {case.device}, "
        f"torch threads a side: {case.threads}; blocks of {case.block} steps; the peer is "
        "transformers.Trainer as run_mlm.py (run_clm.py, peft) sets it up",
    )
    a = mine.finish()
    b = peer.finish()
    share = a["tokens"] / b["tokens"]
    for key in ("median", "min", "max"):
        result["ratio"][key] *= share
    for part, said in (("ours", a), ("peer", b)):
        result[part]["tokens_per_s"] *= said["tokens"] / (case.batch * case.length)
        result["extra"][part] = said["seen"]
    result["work"]["amount"] = b["tokens"] * case.block
    busy = [theirs / own * share for own, theirs in zip(mine.busy[1:], peer.busy[1:], strict=True)]
    result["extra"]["ratio_of_processor_seconds"] = {
        "median": statistics.median(busy),
        "min": min(busy),
        "max": max(busy),
    }
    write(result)


# --------------------------------------------------------------------------------- command line


def write(result: dict[str, Any]) -> None:
    """Write the result to its file and print a summary."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{result['name']}.json"
    path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(json.dumps({k: v for k, v in result.items() if k not in ("machine", "note")}))


def bert_base(tokenizer_of: Path, folder: Path) -> Path:
    """An untrained BERT of base size, with the tokenizer of another model."""
    from transformers import AutoTokenizer, BertConfig, BertForMaskedLM

    BertForMaskedLM(BertConfig()).save_pretrained(folder)
    AutoTokenizer.from_pretrained(tokenizer_of).save_pretrained(folder)
    return folder


def decoder(tokenizer_of: Path, folder: Path, layers: int) -> Path:
    """An untrained decoder of Qwen2.5-0.5B's shape, with the tokenizer of another model."""
    from transformers import AutoTokenizer, Qwen2Config, Qwen2ForCausalLM

    shape = {"hidden_size": 896, "intermediate_size": 4864, "num_hidden_layers": layers}
    heads = {"num_attention_heads": 14, "num_key_value_heads": 2, "tie_word_embeddings": True}
    Qwen2ForCausalLM(Qwen2Config(vocab_size=151_936, **shape, **heads)).save_pretrained(folder)
    AutoTokenizer.from_pretrained(tokenizer_of).save_pretrained(folder)
    return folder


def demo_text(folder: Path) -> tuple[Path, Path]:
    """Docstrings of the standard library as one file, and a task's file."""
    from corpusfit.demo import write_demo_text

    task, corpus = write_demo_text(folder, seed=0)
    text = folder / "text.jsonl"
    text.write_bytes(b"".join(p.read_bytes() for p in sorted(corpus.iterdir())))
    return text, task / "train.jsonl"


def cases(given: argparse.Namespace, model: Path, text: Path) -> list[Case]:
    """Timed cases: (sequences, tokens in each, precision, steps of a block)."""
    shapes = [(16, 128, "bf16", 4), (16, 512, "bf16", 1), (16, 128, "fp32", 2)]
    if given.device == "cuda":
        shapes = [(32, 512, "bf16", 20), (256, 128, "bf16", 10)]
    return [
        Case(
            f"adapt_{b}x{n}_{p}_{given.device}_{given.threads}t",
            model,
            text,
            b,
            n,
            p,
            given.device,
            given.threads,
            block,
        )
        for b, n, p, block in shapes
    ]


def main() -> None:
    """Run the requested parts."""
    words = argparse.ArgumentParser()
    words.add_argument("--model", type=Path, required=True)
    words.add_argument("--text", type=Path)
    words.add_argument("--threads", type=int, default=2)
    words.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    words.add_argument("--parts", default="speed")
    words.add_argument("--precision", choices=("bf16", "fp32"), default="bf16", help="of a decoder")
    given = words.parse_args()
    if not (given.model / "config.json").exists():
        print(f"Skipped: no model in {given.model}; set --model to the folder of one.")
        return
    import torch

    torch.set_num_threads(given.threads)
    parts = given.parts.split(",")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        text, _ = demo_text(folder)
        model = given.model.resolve()
        if given.device == "cuda":
            model = bert_base(model, folder / "base")
        all_cases = cases(given, model, (given.text or text).resolve())
        if "speed" in parts:
            for case in all_cases:
                speed(case)
        if "decoder" in parts:
            # with all weights trained, only four layers of both sides fit in 24 GB
            for adapter, layers in (("lora", 8), ("", 4)):
                made = decoder(given.model, folder / f"decoder{layers}", layers)
                shape = made, (given.text or text).resolve(), 2, 512, given.precision, given.device
                kind = f"adapt_decoder_{adapter or 'all'}_{given.precision}_{given.device}"
                causal = {"objective": "causal", "adapter": adapter, "rounds": 4}
                speed(Case(kind, *shape, given.threads, 1, **causal))


if __name__ == "__main__":
    main()
