"""Callbacks of transformers in `adapt`: what they are told, and that they can end it."""

import pytest
from journeys import digests, prose

import corpusfit
from corpusfit.core.errors import UsageError

transformers = pytest.importorskip("transformers", reason="the extra train is not installed")
pytest.importorskip("accelerate", reason="the extra train is not installed")

STEPS = 4
SETTINGS = ["train.device=cpu", "train.precision=fp32", "train.keep=last", "train.evaluations=2"]


@pytest.fixture
def adapt(tmp_path, inline, tiny_lm):
    def adapt(out, *callbacks, settings=()):
        return corpusfit.adapt(
            model=tiny_lm,
            data=prose("task", 60),
            task=prose("task", 20, seed=1),
            out=tmp_path / out,
            max_steps=STEPS,
            batch=4,
            length=32,
            settings=[*SETTINGS, *settings],
            callbacks=callbacks,
            machine=inline,
        )

    return adapt


class Told(transformers.TrainerCallback):
    """Notes every event, and stops, or fails, at a step."""

    def __init__(self, stop=None, fail=None):
        self.events, self.stop, self.fail = [], stop, fail

    def on_train_begin(self, args, state, control, model, processing_class, **others):
        assert isinstance(args, transformers.TrainingArguments)
        assert isinstance(model, transformers.PreTrainedModel)
        assert processing_class("kinase")["input_ids"]
        assert state.is_world_process_zero
        self.events.append(("begin", state.global_step))
        self.before = list(state.log_history)

    def on_step_end(self, args, state, control, **others):
        self.events.append(("step", state.global_step))
        if state.global_step == self.fail:
            raise KeyboardInterrupt
        control.should_training_stop = state.global_step == self.stop
        return control

    def on_log(self, args, state, control, logs, **others):
        assert state.log_history[-1] == {**logs, "step": state.global_step}

    def on_evaluate(self, args, state, control, metrics, **others):
        assert metrics["eval_loss"] == metrics["eval_task_loss"]
        self.events.append(("evaluate", state.global_step))

    def on_save(self, args, state, control, **others):
        self.events.append(("save", state.global_step))

    def on_train_end(self, args, state, control, **others):
        self.events.append(("end", state.global_step))
        self.history, self.args, self.state = list(state.log_history), args, state


def records(logs):
    """The Trainer's logs as the records of `losses.jsonl`."""
    return [
        {"step": log["step"], "loss": log["loss"], "learning_rate": log["learning_rate"]}
        if "loss" in log
        else {
            "step": log["step"],
            "heldout": {name: log[f"eval_{name}_loss"] for name in ("task", "data")},
        }
        for log in logs
    ]


def test_callbacks_are_told_what_happens_and_change_nothing(adapt):
    told = Told()
    plain, run = adapt("plain"), adapt("out", told)
    assert digests(run.path, "model.safetensors") == digests(plain.path, "model.safetensors")
    expected = [("begin", 0), ("evaluate", 0)]
    for step in range(1, STEPS + 1):
        expected.append(("step", step))
        expected += [("evaluate", step)] if step in (2, 4) else []
    # the first measurement is of the untrained model
    assert sorted(told.events[:2]) == sorted(expected[:2])
    assert told.events[2:] == [*expected[2:], ("end", STEPS)]
    assert records(told.history) == run.history() == plain.history()
    assert (told.args.max_steps, told.state.max_steps) == (STEPS, STEPS)
    assert told.args.learning_rate == run.manifest["training"]["learning_rate"]
    measured = [log["eval_loss"] for log in told.history if "eval_loss" in log]
    assert told.state.best_metric == min(measured)
    assert told.state.epoch == pytest.approx(STEPS * 4 / run.manifest["rows"])


def test_a_callback_may_end_the_training(adapt):
    told = Told(stop=3)
    run = adapt("out", told)
    assert told.events[-2:] == [("evaluate", 3), ("end", 3)]
    assert run.history()[-1]["step"] == run.manifest["kept_step"] == 3
    assert run.manifest["losses"]["after"] == run.history()[-1]["heldout"]
    again = Told()
    assert adapt("out", again).manifest == run.manifest
    assert again.events == []


@pytest.mark.slow
def test_a_resumed_training_tells_the_step_and_the_earlier_losses(adapt):
    plain, often = adapt("plain"), ["train.checkpoint_minutes=1e-9"]
    with pytest.raises(KeyboardInterrupt):
        adapt("out", killed := Told(fail=4), settings=often)
    assert [step for event, step in killed.events if event == "save"] == [1, 2, 3]
    told = Told()
    run = adapt("out", told)
    assert told.events[:2] == [("begin", 3), ("step", 4)]
    assert records(told.before) == [r for r in plain.history() if r["step"] <= 3]
    assert records(told.history) == run.history() == plain.history()
    assert digests(run.path, "model.safetensors") == digests(plain.path, "model.safetensors")


def test_transformers_own_early_stopping_stops(adapt):
    """No measurement is better than the first one by 100 nats."""
    early = transformers.EarlyStoppingCallback(1, early_stopping_threshold=100.0)
    run = adapt("out", early, transformers.PrinterCallback)
    assert [r["step"] for r in run.history() if "heldout" in r] == [0, 2]


def test_what_is_no_callback_is_refused_first(adapt, tmp_path):
    with pytest.raises(UsageError, match=r"`callbacks` must be .*TrainerCallback.*; got 'wandb'"):
        adapt("out", "wandb")
    assert not (tmp_path / "out").exists()


class Asks(transformers.TrainerCallback):
    """Sets a flag of the control at an event of a step."""

    def __init__(self, event, flag, step):
        def ask(args, state, control, **others):
            if state.global_step == step:
                setattr(control, flag, True)
            return control

        setattr(self, event, ask)


@pytest.mark.parametrize(
    ("event", "flag", "last"),
    [
        ("on_save", "should_training_stop", 3),
        ("on_step_end", "should_epoch_stop", STEPS),
        ("on_log", "should_training_stop", 2),
    ],
)
def test_a_training_never_ends_without_a_measurement(adapt, event, flag, last):
    """A stop that is asked for after a step has ended comes after the next."""
    run = adapt("out", Asks(event, flag, 2), settings=["train.checkpoint_minutes=1e-9"])
    assert run.history()[-1]["step"] == run.manifest["kept_step"] == last
    assert "heldout" in run.history()[-1]


def test_the_config_and_global_generators_are_as_before(adapt, tmp_path):
    import random

    import numpy as np

    random.seed(3)
    np.random.seed(3)  # noqa: NPY002
    expected = random.Random(3).random(), np.random.RandomState(3).rand()
    run = adapt("out")
    assert (random.random(), np.random.rand()) == expected  # noqa: NPY002
    saved = transformers.AutoConfig.from_pretrained(run.path)
    base = transformers.AutoConfig.from_pretrained(run.manifest["base"]["name"])
    assert getattr(saved, "use_cache", None) == getattr(base, "use_cache", None)


def test_on_train_end_has_the_weights_that_are_kept(adapt):
    import torch
    from safetensors.torch import load_file

    class Keeps(transformers.TrainerCallback):
        def on_train_end(self, args, state, control, model, **others):
            self.weights = {n: p.detach().clone() for n, p in model.named_parameters()}

    keeps = Keeps()
    rising = ["train.keep=best", "train.learning_rate=1.0", "train.warmup_steps=0"]
    run = adapt("out", keeps, settings=rising)
    assert run.manifest["kept_step"] < STEPS
    stored = load_file(run.path / "model.safetensors")
    assert all(torch.equal(stored[n], w) for n, w in keeps.weights.items() if n in stored)


def test_variables_of_accelerate_and_trackers_decide_nothing(adapt, monkeypatch):
    plain = adapt("plain")
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", "fp16")
    monkeypatch.setenv("KUBEFLOW_TRAINER_SERVER_URL", "http://127.0.0.1:9")
    told = Told()
    run = adapt("out", told)
    assert told.args.report_to == []
    assert digests(run.path, "model.safetensors") == digests(plain.path, "model.safetensors")
