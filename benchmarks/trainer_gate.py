"""Does `transformers.Trainer` train as our loop does? The same weights, seconds and memory.

Asked before it was run: a subclass of Trainer takes its rows from the project's own feed, makes the
backward passes of a step itself, and stores its state as safetensors and JSON. If in every case its
weights are those of the loop (within 1e-6 where sums are reordered) and it takes at most 1.15 times
the processor seconds, it replaces the loop.

Every training runs in a process of its own, or in two that `torchrun` starts. Seconds are
those of the steps, measurements and checkpoints, the least of the repeats, which take turns. Memory
is the peak of the process. A stopped training is killed in a step and resumed by the same command.

Run: python benchmarks/trainer_gate.py DATA MODELS WORK [--cases mlm@1,…] [--repeats 3]
     python benchmarks/trainer_gate.py --table
DATA has pile/, tasks/ and parallel/; MODELS has bert-mini-wiki/.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import torch
from safetensors.torch import load_file
from transformers import Trainer, TrainingArguments

import corpusfit
from benefit_cells import lines
from corpusfit.core.artifacts import write_bytes
from corpusfit.core.errors import TrainingError
from corpusfit.embed.hardware import seed_generators
from corpusfit.kernels.chance import place_keys
from corpusfit.training import phases, trainer
from corpusfit.training.batches import Feed, Prefetch
from corpusfit.training.folder import State, load_weights
from corpusfit.training.schedule import (
    evaluations,
    has_risen,
    out_of_patience,
    rate_at,
    release_memory,
)
from harness import machine

RESULTS = Path(__file__).parent / "results" / "trainer_gate.json"
SIDES = ("loop", "trainer")
STOPS = (2, 9, 17, 26, 38)
STEPS, BATCH, LENGTH = 40, 16, 128
MOST_SECONDS, MOST_DIFFERENCE = 1.15, 1e-6


@dataclass(frozen=True)
class Case:
    """A training.

    Attributes:
        arguments: of `adapt`.
        settings: as with `--set`.
        processes: that train together.
        stops: at each of these steps a training is killed.
        close: whether sums may be reordered.
    """

    arguments: dict[str, Any]
    settings: tuple[str, ...] = ()
    processes: int = 1
    stops: tuple[int, ...] = ()
    close: bool = False


MASKED = {"model": "BERT", "data": "TEXT", "objective": "mlm"}
DECODER = {"init": "mini", "data": "TEXT", "objective": "causal", "learning_rate": 3e-3}
PAIRS = {
    "init": "tiny",
    "data": "PAIRS",
    "objective": "translation",
    "learning_rate": 1e-3,
    "batch": 2,
}
NEXT = {"init": "tiny", "data": "TEXT", "objective": "mlm+nsp", "learning_rate": 1e-3}
ENCODER = {"model": "BERT", "data": "TEXT", "objective": "tsdae", "learning_rate": 1e-4}
SMALL = ("model.vocabulary=4096",)
RATES = {"task": "TASK", "learning_rate": 3e-2}  # a rate at which the loss on the task rises
CASES = {
    "mlm, 1 micro-batch": Case(MASKED),
    "mlm, 4": Case(MASKED, ("train.micro_tokens=512",)),
    "mlm, 16": Case(MASKED, ("train.micro_tokens=128",)),
    "mlm, float32": Case(MASKED, ("train.precision=fp32",)),
    "mlm, weights": Case({**MASKED, "data": "SELECTION", "weights": "mask+lambda"}),
    "mlm, LoRA": Case({**MASKED, "adapter": "lora", "learning_rate": 1e-3}),
    "mlm+nsp": Case(NEXT, SMALL),
    "causal": Case(DECODER, SMALL),
    "causal, 4": Case(DECODER, (*SMALL, "train.micro_tokens=512")),
    "tsdae": Case(ENCODER),
    "translation": Case(PAIRS, (*SMALL, "train.pair_tokens=1024")),
    "mlm, keep=best": Case({**MASKED, **RATES}, ("train.keep=best", "train.evaluations=8")),
    "mlm, patience": Case({**MASKED, **RATES}, ("train.patience=2", "train.evaluations=8")),
    "mlm, two phases": Case(
        {**MASKED, "task": "FEW", "then_task": True}, ("then_task.max_steps=20",)
    ),
    "mlm, two processes": Case(MASKED, processes=2),
    "mlm, two processes, 4": Case(MASKED, ("train.micro_tokens=512",), processes=2),
    "mlm, killed": Case(MASKED, stops=STOPS),
    "mlm, LoRA, killed": Case({**MASKED, "adapter": "lora", "learning_rate": 1e-3}, stops=STOPS),
    "causal, killed": Case(DECODER, SMALL, stops=STOPS),
    "mlm, two processes, killed": Case(MASKED, processes=2, stops=STOPS[:2]),
}


class Loop(trainer.TrainingLoop):
    """Our loop, which can be killed in a step."""

    def gradient(self, batch: trainer.Batch) -> torch.Tensor:
        """See `TrainingLoop`."""
        self.made = getattr(self, "made", 0) + 1
        if self.made == int(os.environ.get("KILLED_IN", "0")):
            os.kill(os.getpid(), signal.SIGKILL)
        return super().gradient(batch)


class Unprepared:
    """An accelerator that leaves models as they are, so that Trainer prepares them."""

    def __init__(self, accelerator: Any) -> None:
        self._accelerator = accelerator

    def __getattr__(self, name: str) -> Any:
        return getattr(self._accelerator, name)

    def prepare(self, model: Any) -> Any:
        """The model."""
        return model


class ByTrainer(Loop):
    """The same training, in which Trainer makes the steps."""

    def __init__(self, work: trainer.Training, callback: trainer.TrainerCallback) -> None:
        super().__init__(replace(work, accelerator=Unprepared(work.accelerator)), callback)

    def run(self) -> None:
        """See `TrainingLoop`."""
        at = self._resume()
        self.work.network.predictor.model.train()
        self.callback.begin()
        if at.step == 0 and not self.history:
            self._measure(0)
        PackedTrainer(self, at).train()
        self._end_checkpoint(wait=True)
        if self.keep == "best" or (self.keep == "auto" and has_risen(self.history)):
            load_weights(self.work.best, self.parameters)
        self.callback.end()


class Steps:
    """The steps that are left with their rows, as Trainer reads a data loader."""

    def __init__(self, loop: Loop, at: State) -> None:
        self._loop, self._at = loop, at

    def __len__(self) -> int:
        return self._loop.steps - self._at.step

    def __iter__(self) -> Iterator[dict[str, Any]]:
        feed = Feed(self._loop.work.passes, self._at.at)
        made = Prefetch(lambda _: self._loop.batch(feed, _), self._at.step, self._loop.steps)
        for step, batch in made:
            yield {"step": step, "batch": batch}


class PackedTrainer(Trainer):
    """Trainer on the rows of a loop."""

    def __init__(self, loop: Loop, at: State) -> None:
        self._loop, self._at, self._done = loop, at, at.step
        self._saved = time.monotonic()
        self._evaluated = evaluations(loop.work.plan)
        plan, optimizer = loop.work.plan, loop.updates.optimizer
        for group in optimizer.param_groups:
            group["initial_lr"] = 1.0
        schedule = torch.optim.lr_scheduler.LambdaLR(
            optimizer, lambda step: rate_at(min(step, loop.steps - 1), plan), at.step - 1
        )
        arguments = TrainingArguments(
            output_dir=str(loop.work.best.parent / "trainer"),
            max_steps=loop.steps,
            per_device_train_batch_size=1,
            max_grad_norm=plan.max_grad_norm,
            use_cpu=loop.work.accelerator.device.type == "cpu",
            seed=loop.work.seed,
            report_to="none",
            save_strategy="no",
            logging_strategy="no",
            disable_tqdm=True,
            logging_nan_inf_filter=False,
            ddp_find_unused_parameters=False,
            accelerator_config={"use_configured_state": True},
        )
        model = loop.work.network.predictor.model
        super().__init__(model, arguments, optimizers=(optimizer, schedule))

    def get_train_dataloader(self) -> Any:
        """See `Trainer`."""
        return Steps(self._loop, self._at)

    def floating_point_ops(self, inputs: Any) -> int:
        """Not counted."""
        return 0

    def _init_training_state(self, *arguments: Any) -> tuple[int, int]:
        state: tuple[int, int] = super()._init_training_state(*arguments)
        self.state.global_step = self._at.step
        return state

    def training_step(self, model: Any, inputs: dict[str, Any], _: Any = None) -> torch.Tensor:
        """See `Trainer`."""
        loop, work = self._loop, self._loop.work
        loop.network = replace(work.network, call=model)
        key = place_keys(work.seed + 1, inputs["step"], loop.world)[loop.rank]
        seed_generators(int(key >> np.uint64(1)))
        loss = loop.gradient(inputs["batch"])
        loop._losses.append(loss)
        loop.callback.step(1, sum(m.size for m in inputs["batch"].micros) * loop.world)
        self._after = inputs["batch"].after
        return loss

    def _clip_grad_norm(self, model: Any) -> Any:
        norm = super()._clip_grad_norm(model)
        if not norm.isfinite():
            raise TrainingError(f"Training diverged in step {self.state.global_step + 1}.")
        return norm

    def _maybe_log_save_evaluate(self, *arguments: Any, **named: Any) -> None:
        loop, done = self._loop, self.state.global_step
        if done == self._done:
            return
        self._done, plan = done, loop.work.plan
        loop._end_checkpoint(wait=False)
        if done % trainer._RELEASE == 0:
            release_memory()
        every = max(1, loop.steps // trainer.RECORDS)
        if done % every == 0 or done == loop.steps:
            loop._note(done)
        if done in self._evaluated:
            loop._measure(done)
            hopeless = loop.keep == "auto" and 2 * done >= loop.steps
            risen = hopeless and has_risen(loop.history, trainer._RISEN)
            if risen or out_of_patience(loop.history, plan.patience):
                self.control.should_training_stop = True
        in_sync = loop.world == 1 or done % every == 0
        stops = self.control.should_training_stop
        if in_sync and not stops and done < loop.steps and loop._is_due(self._saved):
            loop._save(done, self._after)
            self._saved = time.monotonic()


def train(side: str, arguments: dict[str, Any], report: Path) -> None:
    """Run `adapt` with one of the loops, and write what it took."""
    trainer.TrainingLoop = {"loop": Loop, "trainer": ByTrainer}[side]  # type: ignore[misc]
    original, taken = phases.train, []

    def timed(*given: Any) -> Any:
        began = time.process_time()
        history = original(*given)
        taken.append(time.process_time() - began)
        return history

    phases.train = timed
    corpusfit.adapt(**arguments)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
    if os.environ.get("RANK", "0") == "0":
        write_bytes(report, orjson.dumps({"cpu_s": sum(taken), "peak_mb": peak}))


def inputs(data: Path, models: Path, work: Path) -> dict[str, str]:
    """Texts, a task, a selection and pairs, made once."""
    made = work / "inputs"
    if not made.is_dir():
        draft = work / "draft"
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)
        rows = list(islice(lines(data / "pile" / "bio_medquad.jsonl.zst"), 3_000))
        (draft / "text.jsonl").write_bytes(b"".join(rows))
        rows = list(islice(lines(data / "tasks" / "chemprot" / "train.jsonl.zst"), 1_500))
        (draft / "task.jsonl").write_bytes(b"".join(rows))
        (draft / "few.jsonl").write_bytes(b"".join(rows[:100]))
        for side in ("de", "en"):
            rows = list(islice(lines(data / "parallel" / "train" / f"law.{side}.zst"), 3_000))
            (draft / f"law.{side}").write_bytes(b"".join(rows))
        corpusfit.select(
            draft / "task.jsonl", draft / "text.jsonl", out=draft / "selection", fraction=0.5
        )
        draft.rename(made)
    return {
        "BERT": str(models / "bert-mini-wiki"),
        "TEXT": str(made / "text.jsonl"),
        "TASK": str(made / "task.jsonl"),
        "FEW": str(made / "few.jsonl"),
        "SELECTION": str(made / "selection"),
        "PAIRS": f"pair:{made / 'law.de'},{made / 'law.en'}",
    }


def run(case: Case, side: str, files: dict[str, str], work: Path, killed: int = 0) -> Path:
    """One training in processes of its own; its model's folder."""
    out, report = work / side / "model", work / side / "report.json"
    settings = ["mix.heldout=16", *case.settings]
    if not any(s.startswith("train.evaluations") for s in settings):
        settings.append("train.evaluations=1")
    if case.stops:
        settings.append("train.checkpoint_minutes=1e-9")
    arguments = {"max_steps": STEPS, "batch": BATCH, "length": LENGTH, "settings": settings}
    for name, value in case.arguments.items():
        arguments[name] = files.get(value, value) if isinstance(value, str) else value
    arguments |= {"out": str(out), "workers": 1, "engine": "inline", "seed": 1}
    write_bytes(work / "arguments.json", orjson.dumps(arguments))
    launched = [sys.executable]
    if case.processes > 1:
        # `accelerate launch --cpu` starts one
        launched += ["-m", "torch.distributed.run", "--nproc_per_node", str(case.processes)]
    launched += [__file__, "--train", side, str(work / "arguments.json"), str(report)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "KILLED_IN": str(killed)}
    done = subprocess.run(launched, env=environment, capture_output=True, check=False)
    if done.returncode and not killed:
        raise RuntimeError(done.stderr.decode()[-2000:])
    if killed and not done.returncode:
        raise RuntimeError(f"not killed in step {killed}")
    return work / side


def weights(folder: Path) -> dict[str, torch.Tensor]:
    """The weights of a training."""
    found = {}
    for path in sorted((folder / "model").glob("*.safetensors")):
        found |= load_file(path)
    return found


def difference(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> float:
    """The largest difference between weights of the same names."""
    if one.keys() != other.keys():
        raise RuntimeError(f"other weights: {sorted(one.keys() ^ other.keys())}")
    return max(float((one[k].double() - other[k].double()).abs().max()) for k in one)


def compare(case: Case, files: dict[str, str], work: Path, repeats: int) -> dict[str, Any]:
    """Train a case both ways."""
    taken: dict[str, list[dict[str, float]]] = {side: [] for side in SIDES}
    trained = {}
    for _ in range(repeats):
        for side in SIDES:
            shutil.rmtree(work / side, ignore_errors=True)
            folder = run(replace(case, stops=()), side, files, work)
            trained[side] = weights(folder)
            taken[side].append(orjson.loads((folder / "report.json").read_bytes()))
    found: dict[str, Any] = {"difference": difference(trained["loop"], trained["trainer"])}
    records = [(work / side / "model" / "losses.jsonl").read_bytes() for side in SIDES]
    found["same_losses"] = records[0] == records[1]
    for side in SIDES:
        found[side] = {key: min(t[key] for t in taken[side]) for key in ("cpu_s", "peak_mb")}
    found["ratio"] = found["trainer"]["cpu_s"] / found["loop"]["cpu_s"]
    for stop in case.stops:
        for side in SIDES:
            shutil.rmtree(work / side, ignore_errors=True)
            run(case, side, files, work, killed=stop)
            resumed = weights(run(case, side, files, work))
            key = f"{side}_resumed"
            found[key] = max(found.get(key, 0.0), difference(resumed, trained["loop"]))
    return found


def table(results: dict[str, Any]) -> str:
    """The cases as a table in Markdown."""
    head = "| training | largest difference of weights | resumed | processor seconds, loop "
    rows = [head + "| Trainer | ratio | peak MB |", "|---|---|---|---|---|---|---|"]
    for name, r in results["cases"].items():
        resumed = f"{r['trainer_resumed']:.1e}" if "trainer_resumed" in r else ""
        rows.append(
            f"| {name} | {r['difference']:.1e} | {resumed} | {r['loop']['cpu_s']:.1f} "
            f"| {r['trainer']['cpu_s']:.1f} | {r['ratio']:.2f} "
            f"| {r['loop']['peak_mb']:,.0f}, {r['trainer']['peak_mb']:,.0f} |"
        )
    return "\n".join(rows)


def main(given: Sequence[str]) -> None:
    """Compare what is missing, and store each case."""
    if given[:1] == ["--train"]:
        arguments = json.loads(Path(given[2]).read_text("utf-8"))
        train(given[1], arguments, Path(given[3]))
        return
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    for name in ("data", "models", "work"):
        parser.add_argument(name, nargs="?", type=lambda given: Path(given).resolve())
    parser.add_argument("--cases", type=lambda given: given.split(";"), default=list(CASES))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--table", action="store_true")
    asked = parser.parse_args(given)
    results = orjson.loads(RESULTS.read_bytes()) if RESULTS.exists() else {"cases": {}}
    if asked.table:
        print(table(results))
        return
    files = inputs(asked.data, asked.models, asked.work)
    for name in asked.cases:
        if name in results["cases"]:
            continue
        result = compare(CASES[name], files, asked.work, asked.repeats)
        results["cases"][name] = result | {"commit": machine()["commit"][:9]}
        results["machine"] = machine()
        write_bytes(RESULTS, orjson.dumps(results, option=orjson.OPT_INDENT_2))
        print(name, result, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
