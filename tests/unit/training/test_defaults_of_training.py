"""Settings of a training on task text against the papers' figures, and defaults."""

import dataclasses
import math

import pytest

from corpusfit.core.errors import UsageError
from corpusfit.training.api import ADAPT, build_plan
from corpusfit.training.defaults import (
    Size,
    length_of,
    resolve_training,
    task_phase,
)
from corpusfit.training.plan import AdaptPlan, TrainPlan

HERE = Size(
    tokens=1_000_000, rows=8_000, texts=32_000, parameters=110_000_000, max_length=512, device="cpu"
)


def plan_of(data="out", settings=(), **words):
    words = words if "init" in words else {"model": "m", **words}
    return build_plan(ADAPT, None, settings, words, data=data)


def test_the_tasks_own_text():
    """TADPOLE, section 4.1, of Gururangan et al.: "we do 100 epochs, save the model after every 10
    epoch and pick the best one"; here after every epoch, as the best may be any."""
    plan = plan_of("task")
    train = plan.train
    assert (train.epochs, train.max_steps, train.keep) == (100, None, "best")
    assert train.evaluations == 100
    assert (train.batch, train.length) == (None, 128)
    assert plan.train.max_steps is None
    assert plan_of(data="elsewhere").train == TrainPlan()


def test_the_second_phase_has_the_settings_of_tapt():
    """Except the length, which is that of the first phase, and how often it measures."""
    plan = plan_of(then_task=True, weights="lambda", settings=["train.warmup_steps=0.2"])
    second, tapt = task_phase(plan, 128), plan_of("task").train
    assert (second.weights.policy, second.then_task.on) == ("off", False)
    train = second.train
    assert (train.learning_rate, train.length) == (tapt.learning_rate, tapt.length)
    assert (train.keep, tapt.epochs, train.warmup_steps) == (tapt.keep, 100, 0.2)


@pytest.mark.parametrize(
    ("rows", "texts", "batch"),
    [(8_000, 32_000, 64), (32_000, 32_000, 256), (1_000, 1_001, 256), (1, 900, 1)],
)
def test_a_step_over_the_tasks_text_is_256_texts(rows, texts, batch):
    """Section 4: "batch size 256", whether texts are packed, as here four to a row, or not."""
    size = dataclasses.replace(HERE, rows=rows, texts=texts)
    found = resolve_training(plan_of("task"), size, on_task=True)[0]
    assert (found.batch, found.max_steps) == (batch, math.ceil(100 * rows / batch))
    second = task_phase(plan_of(then_task=True), 64)
    assert resolve_training(second, size, on_task=True)[0].batch == batch
    assert resolve_training(plan_of("task", batch=9), size, on_task=True)[0].batch == 9


@pytest.mark.parametrize(
    ("rows", "device", "steps"),
    [(10, "cpu", 50), (320, "cpu", 500), (6_250, "cpu", 2_000), (64_000, "cuda", 50_000)],
)
def test_the_second_phase_is_bounded_as_the_first(rows, device, steps):
    """100 passes in steps of 64, at least 50 and at most what the device's default allows."""
    second = task_phase(plan_of(then_task=True), 128)
    size = dataclasses.replace(HERE, rows=rows, texts=4 * rows, device=device)
    assert resolve_training(second, size, on_task=True)[0].max_steps == steps


def test_a_second_phase_is_part_of_a_plans_identity():
    assert plan_of().decisive()["then_task"]["on"] is False
    assert plan_of(then_task=True).decisive()["then_task"]["on"] is True
    assert AdaptPlan.from_dict(plan_of(then_task=True).as_dict()).then_task.on


@pytest.mark.parametrize(
    ("size", "length", "batch", "steps", "rate"),
    [
        ({}, 128, 16, 3 * 8_000 / 16, 1e-4),
        ({"rows": 10}, 128, 16, 50, 1e-4),
        ({"rows": 10**7}, 128, 16, 2_000, 1e-4),
        ({"max_length": 96}, 96, 16, 3 * 8_000 / 16, 1e-4),
        ({"parameters": 11_000_000}, 128, 16, 3 * 8_000 / 16, 3e-4),
        ({"device": "cuda", "rows": 10**6}, 512, 256, 3 * 10**6 / 256, 1e-4),
        ({"device": "cuda", "rows": 10**9}, 512, 256, 50_000, 1e-4),
    ],
)
def test_defaults_depend_on_data_and_device(size, length, batch, steps, rate):
    """Three passes, within bounds; the defaults of each kind of device."""
    train, _ = resolve_training(plan_of(), dataclasses.replace(HERE, **size))
    assert (train.length, train.batch, train.learning_rate) == (length, batch, rate)
    assert train.max_steps == math.ceil(steps)
    assert train.epochs is None


def test_a_sequence_longer_than_the_model_takes():
    plan = AdaptPlan().with_value("train.length", 513)
    with pytest.raises(UsageError, match=r"^`train\.length` must .*512.*513"):
        length_of(plan, 512, "cpu")


def test_an_untrained_model_has_a_higher_learning_rate():
    assert resolve_training(plan_of(init="tiny"), HERE)[0].learning_rate == 1e-3


def test_options_override_the_settings_of_a_training_on_task_text():
    plan = plan_of("task", max_steps=9, settings=["train.evaluations=2"])
    assert (plan.train.epochs, plan.train.max_steps, plan.train.evaluations) == (None, 9, 2)
    assert plan_of("task", epochs=2.5).train.epochs == 2.5
