"""The training loop: what it learns, exact resuming, and its errors."""

import contextlib
import dataclasses
import hashlib
import itertools
import json
import math
import shutil
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

from adapting import Stopped, Stopping, chains, model_of, training_of, weights_of
from corpusfit.core.artifacts import writing
from corpusfit.core.errors import ChangedInputError, StorageError, TrainingError, UsageError
from corpusfit.training import trainer
from corpusfit.training.batches import Feed
from corpusfit.training.folder import Checkpoints, State, save_weights
from corpusfit.training.objectives.mlm import MaskedLM
from corpusfit.training.plan import TrainPlan
from corpusfit.training.schedule import Updates, out_of_patience
from corpusfit.training.trainer import TrainingListener, TrainingLoop

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from corpusfit.training import stepping  # noqa: E402
from corpusfit.training.stepping import run, train  # noqa: E402


def minutes_pass(monkeypatch):
    """A clock for the trainer that advances by a minute at each reading."""
    count = itertools.count()
    clock = SimpleNamespace(monotonic=lambda: 60.0 * next(count))
    monkeypatch.setattr(trainer, "time", clock)


@pytest.fixture
def minutes(monkeypatch):
    minutes_pass(monkeypatch)


@pytest.mark.parametrize("schedule", ["linear", "cosine", "constant_with_warmup", "inverse_sqrt"])
@pytest.mark.parametrize("warmup", [0.0, 0.1, 0.011, 0.999, 1.0, 13.0, 90.0])
def test_rates_are_those_of_transformers(schedule, warmup, tmp_path):
    """Those of its arguments of the same names, step by step."""
    from transformers import TrainingArguments, get_scheduler

    named = {"learning_rate": 2e-4, "warmup_steps": warmup, "lr_scheduler_type": schedule}
    arguments = TrainingArguments(tmp_path, max_steps=90, **named)
    weight = torch.nn.Parameter(torch.zeros(1))
    updates = Updates({"weight": weight}, TrainPlan(max_steps=90, **named))
    optimizer = torch.optim.SGD([weight], lr=arguments.learning_rate)
    warm = arguments.get_warmup_steps(90)
    peer = get_scheduler(arguments.lr_scheduler_type, optimizer, warm, 90)
    for step in range(90):
        assert updates.rate(step) == peer.get_last_lr()[0]
        optimizer.step()
        peer.step()


def by_hand(work, steps, **adam):
    """Weights after a plain loop: transformers' loss and schedule, torch's unfused AdamW, one text
    per row, padding masked; causal, with equal relevance weights."""
    from transformers import get_scheduler

    plan = work.plan
    model = model_of("causal").train()
    matrices = [p for p in model.parameters() if p.ndim > 1]
    others = [p for p in model.parameters() if p.ndim < 2]
    groups = [
        {"params": matrices, "weight_decay": plan.weight_decay},
        {"params": others, "weight_decay": 0.0},
    ]
    adam = {"lr": plan.learning_rate, "fused": False, "foreach": False, **adam}
    optimizer = torch.optim.AdamW(groups, **adam)
    warm = math.ceil(plan.warmup_steps * plan.max_steps)
    schedule = get_scheduler(plan.lr_scheduler_type, optimizer, warm, plan.max_steps)
    feed, losses = Feed(work.passes), []
    for _ in range(steps):
        texts = [
            work.chunk_tokens.ids(int(c)).tolist() for row in feed.take(plan.batch) for c in row
        ]
        ids = torch.zeros((len(texts), max(map(len, texts))), dtype=torch.long)
        mask = torch.zeros_like(ids)
        for i, text in enumerate(texts):
            ids[i, : len(text)], mask[i, : len(text)] = torch.tensor(text), 1
        labels = ids.masked_fill(mask == 0, -100)
        loss = model(input_ids=ids, attention_mask=mask, labels=labels).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), plan.max_grad_norm)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        losses.append(float(loss.detach()))
    return {name: p.detach() for name, p in model.named_parameters()}, losses


ADAM = {"adam_beta1": 0.5, "adam_epsilon": 1e-3}


@pytest.mark.parametrize(
    ("schedule", "arguments", "adam"),
    [
        ("linear", {}, {}),
        ("cosine", {}, {}),
        ("linear", ADAM, {"betas": (0.5, 0.999), "eps": 1e-3}),
    ],
)
def test_weights_are_those_of_a_plain_loop(tmp_path, schedule, arguments, adam):
    """A loop of torch and transformers: unpacked, no micro-batches, unfused AdamW; strong decay and
    clipping."""
    settings = {
        "max_steps": 15,
        "weight_decay": 3.0,
        "max_grad_norm": 0.3,
        "warmup_steps": 0.2,
        "lr_scheduler_type": schedule,
    }
    work = training_of(tmp_path, "causal", micro_rows=2, **settings)
    work = dataclasses.replace(work, arguments=arguments)
    before = weights_of(work)
    history = train(work, TrainingListener())
    expected, losses = by_hand(work, 15, **adam)
    found = [record["loss"] for record in history if "loss" in record]
    assert found == pytest.approx(losses, abs=3e-6)
    for name, weight in weights_of(work).items():
        moved = (weight - before[name]).abs().max()
        error = (weight - expected[name]).abs()
        if name.endswith("c_attn.bias"):
            error[32:64] = 0  # the loss does not depend on a key's bias: AdamW magnifies rounding
        assert moved > 1e-3, name
        assert error.max() < 2e-3 * moved, name


def test_noise_of_the_trainers_arguments_is_added_and_taken_off(tmp_path):
    """NEFTune (Jain et al. 2023): other losses in training, none in what is measured first."""
    plain, noisy = training_of(tmp_path / "plain"), training_of(tmp_path / "noisy")
    noisy = dataclasses.replace(noisy, arguments={"neftune_noise_alpha": 5.0})
    histories = [train(work, TrainingListener()) for work in (plain, noisy)]
    assert histories[0][0] == histories[1][0]
    assert histories[0][1]["loss"] != histories[1][1]["loss"]
    table = noisy.network.predictor.model.get_input_embeddings()
    assert not table._forward_hooks


CASES = {
    "dropout": {"name": "mlm", "dropout": 0.2},
    "best": {
        "name": "mlm",
        "dropout": 0.1,
        "keep": "best",
        "evaluations": 6,
        "learning_rate": 3e-2,
    },
    "pairs": {"name": "mlm+nsp", "dropout": 0.1, "batch": 9},
    "drawn": {"name": "causal", "draw": True, "weights": np.linspace(0, 1, 60), "batch": 9},
    "unpacked": {"name": "mlm", "pack": False, "batch": 9, "weights": np.linspace(0, 1, 60)},
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("case", "between", "stops"),
    [
        ("dropout", 1.0, (1, 5, 12)),
        ("best", 4.0, (3, 4, 12)),
        *((case, 4.0, (6,)) for case in ("pairs", "drawn", "unpacked")),
    ],
)
def test_stopped_after_any_step_it_ends_the_same(tmp_path, minutes, case, between, stops):
    """Bit by bit against an uninterrupted training; checkpoints each step, or each fourth.

    The training spans two passes.
    """
    words = {**CASES[case], "checkpoint_minutes": between}
    whole = training_of(tmp_path / "whole", **words)
    feed = Feed(whole.passes)
    feed.take(12 * whole.plan.batch)
    assert feed.at[0] >= 1
    history = train(whole, TrainingListener())
    final = weights_of(whole)
    restarted = []
    for after in stops:
        folder = tmp_path / f"stopped {after}"
        with pytest.raises(Stopped):
            train(training_of(folder, **words), Stopping(after))
        again = training_of(folder, **words)
        callback = Stopping()
        assert train(again, callback) == history, after
        assert (callback.warnings, callback.made) == ([], 12)
        if len(callback.records) == len(history):
            restarted.append(after)
        for name, weight in weights_of(again).items():
            assert torch.equal(weight, final[name]), (after, name)
    assert restarted == [after for after in stops if after <= between]


@pytest.mark.slow
def test_stopped_between_records_it_ends_the_same(tmp_path, minutes, monkeypatch):
    """Checkpoints each third step, records each fourth; weights and history are equal bit by bit.

    A record's loss is the mean over its four steps, before and after the stop.
    """
    monkeypatch.setattr(trainer, "RECORDS", 5)
    words = {"dropout": 0.2, "checkpoint_minutes": 3.0, "max_steps": 20, "checkpoints": 20}
    whole = training_of(tmp_path / "whole", **words)
    history = train(whole, TrainingListener())
    assert [r["step"] for r in history if "loss" in r] == [4, 8, 12, 16, 20]
    final = weights_of(whole)
    kept = [int(p.name[5:]) for p in (tmp_path / "whole/checkpoints").iterdir()]
    assert sorted(kept) == [3, 6, 9, 12, 15, 18]
    for after in (6, 7, 11, 18):
        with pytest.raises(Stopped):
            train(training_of(tmp_path / "stopped", **words), Stopping(after))
    again = training_of(tmp_path / "stopped", **words)
    callback = Stopping()
    assert train(again, callback) == history
    assert len(callback.records) < len(history)
    assert all(torch.equal(weight, final[name]) for name, weight in weights_of(again).items())


@pytest.mark.slow
def test_several_processes_save_at_records_only(tmp_path, minutes, monkeypatch):
    """Their clocks differ, and each has only its part of a step's loss."""
    monkeypatch.setattr(trainer, "RECORDS", 5)
    work = training_of(tmp_path, max_steps=20, checkpoint_minutes=1.0, checkpoints=20, batch=6)
    own = work.accelerator

    class Second:
        num_processes = 2

        def reduce(self, figures, how):
            return figures

        def __getattr__(self, name):
            return getattr(own, name)

    train(dataclasses.replace(work, accelerator=Second()), TrainingListener())
    found = sorted(p.name for p in (tmp_path / "checkpoints").iterdir())
    assert found == [f"step-{step:08d}" for step in (4, 8, 12, 16)]
    marks = [json.loads((tmp_path / "checkpoints" / f / "state.json").read_text()) for f in found]
    assert [m["losses"] for m in marks] == [[]] * 4


@pytest.mark.slow
def test_a_second_process_does_not_count_stored_losses_again(tmp_path, minutes, monkeypatch):
    """Losses stored since the last record are counted by the main process alone."""
    monkeypatch.setattr(trainer, "RECORDS", 5)
    words = {"max_steps": 20, "checkpoint_minutes": 1.0}
    with pytest.raises(Stopped):
        train(training_of(tmp_path / "stopped", **words), Stopping(8))
    mark = json.loads((tmp_path / "stopped/checkpoints/step-00000007/state.json").read_text())
    assert len(mark["losses"]) == 3
    assert all(loss > 1 for loss in mark["losses"])
    recorded = []
    for main in (True, False):
        folder = shutil.copytree(tmp_path / "stopped", tmp_path / f"main {main}")
        work = training_of(folder, **words)
        own = work.accelerator

        class Process:
            is_main_process = main

            def __getattr__(self, name, own=own):
                return getattr(own, name)

        work = dataclasses.replace(work, accelerator=Process())
        history = train(work, TrainingListener())
        recorded += [r["loss"] for r in history if r["step"] == 8 and "loss" in r]
    assert recorded[0] - recorded[1] == pytest.approx(sum(mark["losses"]) / 4, abs=3e-6)


def test_on_resuming_the_callback_gets_the_earlier_records(tmp_path, minutes):
    words = {"checkpoint_minutes": 1.0, "max_steps": 8}
    with pytest.raises(Stopped):
        train(training_of(tmp_path, **words), Stopping(5))

    class Resuming(Stopping):
        def resume(self, step, history):
            self.at = step, [dict(r) for r in history]

    callback = Resuming()
    history = train(training_of(tmp_path, **words), callback)
    assert callback.at == (4, [r for r in history if r["step"] <= 4])
    assert "heldout" in callback.at[1][0]
    assert callback.made == 4


@pytest.mark.slow
def test_weights_without_a_gradient_do_not_hinder_resuming(tmp_path, minutes):
    """The loss of some architectures does not reach all weights, such as ESM's contact head."""

    def work(folder):
        model = model_of("mlm")
        model.unused = torch.nn.Linear(3, 3)
        return training_of(tmp_path / folder, model=model, checkpoint_minutes=1.0)

    whole = work("whole")
    history = train(whole, TrainingListener())
    with pytest.raises(Stopped):
        train(work("stopped"), Stopping(7))
    again = work("stopped")
    assert train(again, TrainingListener()) == history
    final = weights_of(whole)
    assert all(torch.equal(weight, final[name]) for name, weight in weights_of(again).items())


@pytest.mark.slow
def test_it_learns_and_the_history_says_so(tmp_path):
    """Each token follows from the one before it: losses fall far below ln 35."""
    work = training_of(
        tmp_path,
        "causal",
        texts=chains(400),
        max_steps=120,
        batch=8,
        learning_rate=1e-2,
        evaluations=4,
    )
    callback = Stopping()
    history = train(work, callback)
    assert callback.records == history
    assert callback.made == 120
    looks = [r for r in history if "heldout" in r]
    assert [r["step"] for r in looks] == [0, 30, 60, 90, 120]
    assert all(r["heldout"].keys() == {"task", "data"} for r in looks)
    for kind in ("task", "data"):
        before, after = (looks[i]["heldout"][kind] for i in (0, -1))
        assert before > math.log(35)
        assert after < 0.6 * math.log(35)
    steps = [r for r in history if "loss" in r]
    assert [r["step"] for r in steps] == list(range(1, 121))
    rates = Updates(dict(work.network.predictor.model.named_parameters()), work.plan).rate
    assert [r["learning_rate"] for r in steps] == list(map(rates, range(120)))
    assert steps[-1]["loss"] < 0.6 * steps[0]["loss"]


# a learning rate that ruins the model in the end
RUINOUS = {
    "max_steps": 30,
    "evaluations": 10,
    "warmup_steps": 30,
    "learning_rate": 1.0,
    "max_grad_norm": 100.0,
}


@pytest.mark.slow
def test_the_best_steps_weights_are_kept(tmp_path):
    """A learning rate that ruins the model in the end; the losses of the final weights are compared
    with the lowest of the history."""
    work = training_of(tmp_path, "causal", texts=chains(200), keep="best", **RUINOUS)
    looks = [r for r in train(work, TrainingListener()) if "heldout" in r]
    least = min(looks, key=lambda r: r["heldout"]["task"])
    assert 0 < least["step"] < 30
    assert looks[-1]["heldout"]["task"] > least["heldout"]["task"] + 0.1
    now = work.heldout.losses(work.objective, work.network)
    assert now == pytest.approx(least["heldout"], abs=1e-6)
    last = training_of(tmp_path / "last", "causal", texts=chains(200), **RUINOUS)
    assert [r for r in train(last, TrainingListener()) if "heldout" in r] == looks
    now = last.heldout.losses(last.objective, last.network)
    assert now == pytest.approx(looks[-1]["heldout"], abs=1e-6)


@pytest.mark.slow
def test_by_default_the_best_weights_are_kept_where_the_loss_on_the_task_has_risen(tmp_path):
    """The rate ruins the model, and the training stops at the second measurement that says so."""
    words = {
        "max_steps": 30,
        "evaluations": 10,
        "learning_rate": 3.0,
        "max_grad_norm": 100.0,
        "keep": "auto",
    }
    work = training_of(tmp_path, "causal", texts=chains(200), **words)
    looks = [r for r in train(work, TrainingListener()) if "heldout" in r]
    assert [r["step"] for r in looks] == list(range(0, looks[-1]["step"] + 1, 3))
    assert 15 <= looks[-1]["step"] < 30
    first, *others = [r["heldout"]["task"] for r in looks]
    assert min(others[-2:]) > first
    now = work.heldout.losses(work.objective, work.network)
    assert now["task"] == pytest.approx(min(first, *others), abs=1e-6)

    words["learning_rate"] = 3e-3
    work = training_of(tmp_path / "good", "causal", texts=chains(200), **words)
    looks = [r for r in train(work, TrainingListener()) if "heldout" in r]
    now = work.heldout.losses(work.objective, work.network)
    assert now == pytest.approx(looks[-1]["heldout"], abs=1e-6)


def test_the_best_step_needs_held_out_text(tmp_path):
    work = training_of(tmp_path, heldout=False, keep="best")
    with pytest.raises(UsageError, match=r"train\.keep.*last.*'best'"):
        train(work, TrainingListener())


def test_heldout_losses_are_the_models_own(tmp_path):
    """transformers' own loss over all held-out chunks, in evaluation mode; the mode is restored."""
    work = training_of(tmp_path, "causal", dropout=0.3, micro_rows=3)
    model = work.network.predictor.model
    model.train()
    found = work.heldout.losses(work.objective, work.network)
    assert model.training
    model.eval()
    for name, micros in work.heldout.micros.items():
        total = count = 0
        for micro in micros:
            labels = micro.ids.masked_fill(micro.chunk < 0, -100)
            own = model(micro.ids, attention_mask=(micro.chunk >= 0).long(), labels=labels).loss
            total += float(own.detach()) * len(micro.at)
            count += len(micro.at)
        assert found[name] == pytest.approx(total / count, rel=1e-5)


def spoil(work, step):
    """A callback that sets a weight to NaN after some steps."""

    class Spoiling(Stopping):
        def step(self, steps, tokens):
            super().step(steps, tokens)
            if self.made == step:
                with torch.no_grad():
                    next(work.network.predictor.model.parameters())[7, 3] = math.nan

    return Spoiling()


@pytest.mark.slow
def test_a_loss_that_is_not_finite_stops_the_training(tmp_path, minutes):
    """The message names the step and its texts; training resumes from the checkpoint before it."""
    words = {"checkpoint_minutes": 1.0, "max_steps": 10}
    history = train(training_of(tmp_path / "whole", **words), TrainingListener())
    work = training_of(tmp_path / "spoiled", **words)
    with pytest.raises(TrainingError) as error:
        train(work, spoil(work, 6))
    message = str(error.value)
    assert "step 7 " in message
    named = [
        work.chunk_tokens.name(int(c))
        for row in Feed(work.passes, feed_at(work, 6)).take(6)
        for c in row
    ]
    assert f"{named[0]}; " in message
    assert "texts.jsonl, row" in named[0]
    assert "Set `train.learning_rate` below " in message
    shutil.rmtree(tmp_path / "spoiled/checkpoints/step-00000006")  # the NaN came before it
    again = training_of(tmp_path / "spoiled", **words)
    callback = Stopping()
    assert train(again, callback) == history
    assert callback.warnings == []


def test_a_measurement_between_records_sees_a_loss_that_is_not_finite(tmp_path, monkeypatch):
    """With patience, it would end the training as one that brought no new best."""
    monkeypatch.setattr(trainer, "RECORDS", 5)  # each fourth of 20 steps; measured each second
    words = {"max_steps": 20, "evaluations": 10, "patience": 1}
    work = training_of(tmp_path, **words)
    with pytest.raises(TrainingError, match="step 6 "):
        train(work, spoil(work, 5))


def in_fp16(work):
    return dataclasses.replace(work, network=dataclasses.replace(work.network, precision="fp16"))


@pytest.mark.slow
def test_in_fp16_losses_are_scaled_and_stopped_it_ends_the_same(tmp_path, minutes):
    words = {"checkpoint_minutes": 1.0, "max_steps": 12}
    exact = train(training_of(tmp_path / "fp32", **words), TrainingListener())
    work = in_fp16(training_of(tmp_path / "whole", **words))
    history = train(work, TrainingListener())
    close = [record.get("loss", 0.0) for record in exact]
    assert [record.get("loss", 0.0) for record in history] == pytest.approx(close, abs=2e-3)
    with pytest.raises(Stopped):
        train(in_fp16(training_of(tmp_path / "stopped", **words)), Stopping(7))
    again = in_fp16(training_of(tmp_path / "stopped", **words))
    assert train(again, TrainingListener()) == history
    found = weights_of(again)
    assert all(torch.equal(found[name], weight) for name, weight in weights_of(work).items())


def scale(monkeypatch, largest):
    """Begin with a scale of losses."""
    begin = partial(torch.amp.GradScaler, init_scale=largest)
    monkeypatch.setattr(torch.amp, "GradScaler", begin)


def test_steps_whose_scaled_gradients_overflow_are_skipped_and_counted(tmp_path, monkeypatch):
    scale(monkeypatch, 2.0**24)
    work = in_fp16(training_of(tmp_path, max_steps=20))
    before = weights_of(work)
    moved = []

    class Watching(TrainingListener):
        def record(self, record):
            if "loss" in record:
                still = all(torch.equal(before[n], w) for n, w in weights_of(work).items())
                moved.append((still, record.get("skipped", 0)))

    history = train(work, Watching())
    skipped = sum(count for _, count in moved)
    assert 0 < skipped < 20
    assert moved[:skipped] == [(True, 1)] * skipped  # the scale is halved until it fits
    assert not any(still for still, _ in moved[skipped:])
    assert all(math.isfinite(record.get("loss", 0.0)) for record in history)


@pytest.mark.parametrize("fault", ["loss", "gradients"])
def test_what_no_scale_mends_stops_a_training_in_fp16(tmp_path, monkeypatch, fault):
    work = in_fp16(training_of(tmp_path, max_steps=20))
    if fault == "gradients":  # they are never finite
        scale(monkeypatch, 2.0**-9)
        weight = next(work.network.predictor.model.parameters())
        weight.register_hook(lambda gradient: gradient * math.inf)
    with pytest.raises(TrainingError, match=r"`train\.precision=fp32`"):
        train(work, spoil(work, 6) if fault == "loss" else TrainingListener())


@pytest.mark.parametrize("precise", [in_fp16, lambda work: work])
def test_steps_read_no_number_of_the_device(tmp_path, monkeypatch, precise):
    """Reading one waits for all of a GPU's work: only records, measurements and the end do."""
    from torch.utils._python_dispatch import TorchDispatchMode

    reads = []

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, op, types, args=(), kwargs=None):
            if op in (torch.ops.aten._local_scalar_dense.default, torch.ops.aten.nonzero.default):
                reads.append(op)
            return op(*args, **(kwargs or {}))

    def count(steps):
        reads.clear()
        monkeypatch.setattr(trainer, "RECORDS", 2)
        work = precise(training_of(tmp_path / str(steps), "causal", max_steps=steps))
        with Watch():
            train(work, TrainingListener())
        return len(reads)

    assert count(6) == count(18)


def test_products_are_fast_in_a_training(tmp_path, monkeypatch):
    """TF32 on a GPU that has it (`fast_products`), and not when the training has ended."""
    fast = []

    @contextlib.contextmanager
    def products(device, precision):
        fast.append((device, precision))
        yield
        fast.append("as before")

    monkeypatch.setattr(stepping, "fast_products", products)
    train(training_of(tmp_path, max_steps=1), TrainingListener())
    assert fast == [("cpu", "fp32"), "as before"]


def feed_at(work, steps):
    feed = Feed(work.passes)
    feed.take(steps * work.plan.batch)
    return feed.at


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."),
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried"),
        RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 99 bytes."),
        MemoryError(),
    ],
)
def test_out_of_memory_names_the_setting(tmp_path, monkeypatch, error):
    def losses(*_):
        raise error

    monkeypatch.setattr(MaskedLM, "losses", losses)
    work = training_of(tmp_path, micro_rows=4, heldout=False)
    with pytest.raises(TrainingError, match=r"train\.micro_tokens=64\b"):
        train(work, TrainingListener())
    work = training_of(tmp_path, micro_rows=1, heldout=False)
    with pytest.raises(
        TrainingError, match=r"a smaller `train\.length` and another `out`,.*`adapter=lora`\.$"
    ) as raised:
        train(work, TrainingListener())
    assert "micro_tokens" not in str(raised.value)  # it cannot go lower


def test_other_errors_stay_what_they_are(tmp_path, monkeypatch):
    def losses(*_):
        raise RuntimeError("shape mismatch")

    monkeypatch.setattr(MaskedLM, "losses", losses)
    with pytest.raises(RuntimeError, match="shape mismatch"):
        train(training_of(tmp_path), TrainingListener())


DAMAGE = {
    "weights changed": lambda f: (f / "weights.safetensors").write_bytes(
        (f / "weights.safetensors").read_bytes()[:-1] + b"\1"
    ),
    "moments missing": lambda f: (f / "moments.safetensors").unlink(),
    "state missing": lambda f: (f / "state.json").unlink(),
    "state cut short": lambda f: (f / "state.json").write_bytes(
        (f / "state.json").read_bytes()[:40]
    ),
    "state of another kind": lambda f: (f / "state.json").write_text("[]"),
    "empty": lambda f: [p.unlink() for p in f.iterdir()],
}


OF_EIGHT_STEPS = {"checkpoint_minutes": 1.0, "max_steps": 8, "dropout": 0.1}


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    """The folder of a training that was stopped, and the history and weights of it in one go."""
    folder = tmp_path_factory.mktemp("trained")
    with pytest.MonkeyPatch.context() as patch:
        minutes_pass(patch)
        whole = training_of(folder / "whole", **OF_EIGHT_STEPS)
        history = train(whole, TrainingListener())
        with pytest.raises(Stopped):
            train(training_of(folder / "stopped", **OF_EIGHT_STEPS), Stopping(7))
    return folder / "stopped", history, weights_of(whole)


@pytest.mark.slow
@pytest.mark.parametrize("damage", DAMAGE)
def test_an_incomplete_checkpoint_is_not_the_newest(tmp_path, stopped, damage):
    folder = shutil.copytree(stopped[0], tmp_path / "stopped")
    checkpoints = folder / "checkpoints"
    assert sorted(p.name for p in checkpoints.iterdir()) == ["step-00000005", "step-00000006"]
    DAMAGE[damage](checkpoints / "step-00000006")
    warnings = []
    assert Checkpoints(checkpoints, 2).newest(warnings.append).step == 5
    (warning,) = warnings
    assert "step-00000006" in warning


@pytest.mark.slow
def test_an_incomplete_checkpoint_is_skipped(tmp_path, minutes, stopped):
    folder, history, final = stopped
    folder = shutil.copytree(folder, tmp_path / "stopped")
    DAMAGE["moments missing"](folder / "checkpoints/step-00000006")
    again = training_of(folder, **OF_EIGHT_STEPS)
    callback = Stopping()
    assert train(again, callback) == history
    (warning,) = callback.warnings
    assert "step-00000006" in warning
    assert "after step 5" in warning
    assert callback.records[0]["step"] == 6
    assert all(torch.equal(weight, final[name]) for name, weight in weights_of(again).items())


def stored_by_another(name, before, after):
    """A change of a text in a file of a checkpoint, whose checksum is right."""

    def change(folder):
        file, mark = folder / name, folder / "state.json"
        file.write_bytes(file.read_bytes().replace(before, after))
        state = json.loads(mark.read_text())
        if name in state.get("digests", {}):
            state["digests"][name] = hashlib.sha256(file.read_bytes()).hexdigest()
            mark.write_text(json.dumps(state))

    return change


@pytest.mark.parametrize(
    "change",
    [
        stored_by_another("state.json", b'"losses"', b'"sum"'),
        stored_by_another("state.json", b'"digests"', b'"sha1"'),
        stored_by_another("weights.safetensors", b"encoder.layer.1", b"encoder.block.1"),
    ],
)
def test_a_checkpoint_of_another_version_is_refused_and_kept(tmp_path, minutes, change):
    words = {"checkpoint_minutes": 1.0, "max_steps": 3, "checkpoints": 1, "heldout": False}
    train(training_of(tmp_path, **words), TrainingListener())
    (folder,) = (tmp_path / "checkpoints").iterdir()
    change(folder)
    before = digests_of(folder)
    with pytest.raises(ChangedInputError, match=f"{folder.name}.*`overwrite`"):
        train(training_of(tmp_path, **words), TrainingListener())
    assert digests_of(folder) == before


def digests_of(folder):
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in folder.iterdir()}


@pytest.mark.slow
def test_without_a_complete_checkpoint_training_restarts_with_a_warning(tmp_path, minutes):
    words = {"checkpoint_minutes": 1.0, "max_steps": 5}
    history = train(training_of(tmp_path / "whole", **words), TrainingListener())
    with pytest.raises(Stopped):
        train(training_of(tmp_path / "stopped", **words), Stopping(4))
    for folder in (tmp_path / "stopped/checkpoints").iterdir():
        (folder / "state.json").unlink()
    callback = Stopping()
    assert train(training_of(tmp_path / "stopped", **words), callback) == history
    assert len(callback.warnings) == 2
    assert "after step" not in callback.warnings[-1]
    assert callback.records == history


def test_as_many_checkpoints_are_kept_as_asked_for(tmp_path, minutes):
    words = {"checkpoint_minutes": 1.0, "max_steps": 9, "checkpoints": 3}
    train(training_of(tmp_path, **words), TrainingListener())
    found = sorted(p.name for p in (tmp_path / "checkpoints").iterdir())
    assert found == ["step-00000006", "step-00000007", "step-00000008"]
    marks = [json.loads((tmp_path / "checkpoints" / f / "state.json").read_text()) for f in found]
    assert [m["step"] for m in marks] == [6, 7, 8]


def test_an_unfinished_checkpoint_does_not_count_among_those_kept(tmp_path, minutes):
    words = {"checkpoint_minutes": 1.0, "max_steps": 9, "checkpoints": 2}
    with pytest.raises(Stopped):
        train(training_of(tmp_path, **words), Stopping(6))
    folder = tmp_path / "checkpoints"
    assert sorted(p.name for p in folder.iterdir()) == ["step-00000004", "step-00000005"]
    (folder / "step-00000005/state.json").unlink()
    work = training_of(tmp_path, **words)
    parameters = dict(work.network.predictor.model.named_parameters())
    optimizer = torch.optim.AdamW(parameters.values())
    work.checkpoints.write(State(7, (0, 0), [], []), parameters, optimizer)
    assert sorted(p.name for p in folder.iterdir()) == ["step-00000004", "step-00000007"]


def test_a_state_comes_back_as_it_was(tmp_path):
    work = training_of(tmp_path, max_steps=3)
    history = train(work, TrainingListener())
    parameters = dict(work.network.predictor.model.named_parameters())
    optimizer = torch.optim.AdamW(parameters.values())
    for p in parameters.values():
        p.grad = torch.ones_like(p)
    optimizer.step()
    state = State(3, (0, 12), history, [0.1, float(np.float32(0.1))])
    work.checkpoints.write(state, parameters, optimizer)
    found = work.checkpoints.newest(pytest.fail)
    assert found == state


def test_weights_are_written_as_safetensors_writes_them(tmp_path):
    from safetensors.torch import save

    tensors = {
        "b": torch.randn(3, 4),
        'a/ü"x': torch.randn(4, 6).t(),
        "number": torch.tensor(3.0),
        "half": torch.ones(3, dtype=torch.bfloat16),
        "whole": torch.arange(3),
        "double": torch.ones(2, 2, dtype=torch.float64),
        "none": torch.empty(0, 3),
    }
    expected = save({name: t.contiguous() for name, t in tensors.items()}, {"format": "pt"})

    digest = save_weights(tmp_path / "weights", tensors)

    assert (tmp_path / "weights").read_bytes() == expected
    assert digest == hashlib.sha256(expected).hexdigest()


@pytest.mark.slow
def test_a_kill_while_a_checkpoint_is_written_loses_only_that(
    tmp_path, minutes, monkeypatch, stopped
):
    """The folder as it is after the first bytes of each file, and before the mark."""
    _, history, final = stopped
    checkpoints = tmp_path / "copied from/checkpoints"
    killed = []

    @contextlib.contextmanager
    def copied_halfway(path):
        with writing(path) as file:
            yield file
            file.flush()
            if path.parent.name == "step-00000006":
                killed.append(tmp_path / f"killed {len(killed)}")
                shutil.copytree(checkpoints, killed[-1] / "checkpoints")

    with monkeypatch.context() as patch:
        patch.setattr("corpusfit.training.folder.writing", copied_halfway)
        train(training_of(tmp_path / "copied from", **OF_EIGHT_STEPS), TrainingListener())
    assert len(killed) == 2
    for place in killed:
        again, callback = training_of(place, **OF_EIGHT_STEPS), Stopping()
        assert train(again, callback) == history
        assert callback.records[0]["step"] == 6
        for name, weight in weights_of(again).items():
            assert torch.equal(weight, final[name])


@pytest.mark.slow
@pytest.mark.parametrize("after", [0, 4])
def test_a_full_disk_ends_the_training_with_a_sentence(tmp_path, minutes, after, stopped):
    """Files may not grow, as if the disk were full."""
    resource = pytest.importorskip("resource")
    history = stopped[1]
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)

    class Filling(Stopping):
        def step(self, steps, tokens):
            super().step(steps, tokens)
            if self.made >= 4:
                resource.setrlimit(resource.RLIMIT_FSIZE, (5_000, limits[1]))

    callback, again = Filling(), Stopping()
    try:
        with pytest.raises(StorageError, match=r"Cannot write .*\.safetensors: File too"):
            train(training_of(tmp_path / "full", **OF_EIGHT_STEPS), callback)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert callback.made <= 6
    assert train(training_of(tmp_path / "full", **OF_EIGHT_STEPS), again) == history
    assert sum("loss" in record for record in again.records) < 8  # a checkpoint is still good


def test_a_batch_has_a_sequence_for_every_process(tmp_path):
    work = training_of(tmp_path, batch=2)
    fake = SimpleNamespace(
        num_processes=3, process_index=2, is_main_process=False, prepare=lambda m: m
    )
    work = dataclasses.replace(work, accelerator=fake)
    with pytest.raises(UsageError, match=r"^`train\.batch` must .*got 2\b.* 3 processes"):
        train(work, TrainingListener())


def test_only_matrices_decay(tmp_path):
    """Closed form: without a loss, a matrix shrinks by the factor 1 - rate x decay per step."""
    settings = {
        "max_steps": 4,
        "weight_decay": 0.5,
        "warmup_steps": 0.0,
        "lr_scheduler_type": "constant_with_warmup",
        "learning_rate": 0.1,
    }
    work = training_of(tmp_path, weights=[1.0] * 60, heldout=False, **settings)
    silent = dataclasses.replace(work.chunk_tokens, scale=np.zeros_like(work.chunk_tokens.scale))
    work = dataclasses.replace(work, chunk_tokens=silent)
    before = weights_of(work)
    train(work, TrainingListener())
    for name, weight in weights_of(work).items():
        factor = (1 - 0.1 * 0.5) ** 4 if weight.ndim > 1 else 1.0
        torch.testing.assert_close(weight, before[name] * factor, rtol=1e-5, atol=1e-8)


def test_rows_for_a_gpu_are_pinned_where_they_are_made(tmp_path, monkeypatch):
    """By an imitation: there is no GPU here."""
    work = training_of(tmp_path, max_steps=3)
    loop = TrainingLoop(work, TrainingListener())
    plain = loop.batch(Feed(work.passes, (0, 0)), 0)
    loop.training = dataclasses.replace(
        work, accelerator=SimpleNamespace(device=torch.device("cuda"))
    )
    pinned = []
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda t: pinned.append(t) or t.clone())

    batch = loop.batch(Feed(work.passes, (0, 0)), 0)

    assert len(pinned) == 8 * len(batch.micros)
    for micro, other in zip(batch.micros, plain.micros, strict=True):
        assert micro.decoder is None
        assert torch.equal(micro.ids, other.ids)
        assert torch.equal(micro.labels, other.labels)


def test_the_random_state_of_torch_is_restored(tmp_path):
    torch.manual_seed(11)
    expected = torch.rand(3)
    torch.manual_seed(11)
    train(training_of(tmp_path, dropout=0.1, max_steps=2, model=None), TrainingListener())
    torch.manual_seed(11)
    work = training_of(tmp_path / "more", dropout=0.1, max_steps=2)
    torch.manual_seed(11)
    train(work, TrainingListener())
    assert torch.equal(torch.rand(3), expected)


def test_without_a_task_the_best_step_is_chosen_by_the_data(tmp_path):
    work = training_of(tmp_path, "causal", texts=chains(200), keep="best", **RUINOUS)
    only = dataclasses.replace(work.heldout, micros={"data": work.heldout.micros["data"]})
    work = dataclasses.replace(work, heldout=only)
    looks = [r["heldout"]["data"] for r in train(work, TrainingListener()) if "heldout" in r]
    now = work.heldout.losses(work.objective, work.network)
    assert now["data"] == pytest.approx(min(looks), abs=1e-6)
    assert looks[-1] > min(looks) + 0.1


def test_a_learning_rate_far_too_high_is_named(tmp_path):
    work = training_of(tmp_path, learning_rate=1e30, warmup_steps=0.0, max_steps=10)
    with pytest.raises(
        TrainingError,
        match=r"step [23] .*Set `train\.learning_rate` below 1e\+30 and another `out`,",
    ) as error:
        train(work, TrainingListener())
    assert "checkpoint is from" not in str(error.value)  # none was due yet
    assert not (tmp_path / "checkpoints").exists()


def test_trainer_takes_the_named_device(tmp_path):
    """It would take the first GPU for any other."""
    from corpusfit.training.stepping import _arguments

    loop = TrainingLoop(training_of(tmp_path), TrainingListener())
    device = torch.device("meta:1")
    loop.training = dataclasses.replace(loop.training, accelerator=SimpleNamespace(device=device))
    assert _arguments(loop, State(0, (0, 0), [], []), passes=1).device == device


def test_patience_counts_measurements_since_the_lowest():
    records = [{"heldout": {"data": loss}} for loss in (3.0, 2.0, 2.5, 2.0)]
    assert out_of_patience(records, 2)
    assert not out_of_patience(records, 3)
    assert not out_of_patience(records, 0)
    assert not out_of_patience([{"loss": 1.0}], 1)


def test_beta2_reaches_the_optimizer(tmp_path):
    """After one step AdamW's second moment is (1 - beta2) g²."""
    work = training_of(tmp_path, adam_beta2=0.9, max_grad_norm=1e9, max_steps=1)
    work.network.predictor.model.train()
    loop = TrainingLoop(work, TrainingListener())
    batch = loop.batch(Feed(work.passes), 0)
    loop.gradient(batch)
    gradients = {n: p.grad.clone() for n, p in loop.parameters.items()}
    loop.updates.optimizer.zero_grad()
    run(loop)
    for name, parameter in loop.parameters.items():
        moment = loop.updates.optimizer.state[parameter]["exp_avg_sq"]
        torch.testing.assert_close(moment, 0.1 * gradients[name] ** 2, rtol=1e-4, atol=1e-12)
