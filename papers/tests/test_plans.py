"""Plans of the papers against the figures in the papers."""

import tomllib
from pathlib import Path

import pytest

from corpusfit.training.api import ADAPT, build_plan
from corpusfit.training.defaults import Size, resolve_training

PLANS = Path(__file__).parents[1] / "plans"


def plan_of(name, **words):
    return build_plan(ADAPT, PLANS / f"{name}.toml", (), {"model": "m", **words})


def test_tadpole():
    """Section 4: "learning rate of 0.0001, batch size 256 and warm-up ratio 0.01 … 50,000 steps in
    case of discrete λ case and 100,000 steps in case of continuous λ case"; masked words and the
    next sentence, "pre-trained with sum of two objectives"."""
    plan = plan_of("tadpole")
    train = plan.train
    assert (train.max_steps, train.learning_rate, train.batch, train.warmup_steps) == (
        50_000,
        1e-4,
        256,
        0.01,
    )
    assert plan.objective.name == "mlm+nsp"


def test_mdapt():
    """Section 3.3: "effective batch size of 2048 via gradient accumulation, a sequence length of
    128, and a learning rate of 5e-5. We train all models for 25,000 steps"; masked words."""
    plan = plan_of("mdapt")
    train = plan.train
    assert (train.batch, train.length, train.learning_rate, train.max_steps) == (
        2_048,
        128,
        5e-5,
        25_000,
    )
    assert (plan.objective.name, plan.adapter.kind) == ("mlm", "")


def test_mdapt_with_an_adapter():
    """Section 3.3: "We train each adapter for 1.5M steps", of the kind in appendix D; the batch and
    the rate are those of the recipe of Table 4."""
    plan = plan_of("mdapt_adapter")
    assert (plan.adapter.kind, plan.train.max_steps, plan.train.length) == (
        "pfeiffer",
        1_500_000,
        128,
    )
    recipe = tomllib.loads((PLANS.parent / "recipes/mdapt_table4_paper.toml").read_text("utf-8"))
    assert {
        "max_steps": plan.train.max_steps,
        "batch": plan.train.batch,
        "learning_rate": plan.train.learning_rate,
    } == recipe["selector"]["E_D-adapter"]["adapt"]["train"]


def test_domain_clusters_trains_as_its_figure_5():
    """--adam-betas '(0.9, 0.98)' --clip-norm 1.0 --lr 0.0005 --lr-scheduler inverse_sqrt
    --warmup-updates 4000 --warmup-init-lr 1e-07 --dropout 0.2 --weight-decay 0.0
    --label-smoothing 0.1 --max-tokens 4096 --update-freq 5 --max-epoch 200; appendix A.1: at most
    100 tokens, and early stopping after 10 checkpoints."""
    plan = plan_of("domain_clusters")
    train = plan.train
    assert (plan.objective.name, plan.objective.own.smoothing) == ("translation", 0.1)
    assert (train.adam_beta2, train.max_grad_norm, train.weight_decay, plan.model.dropout) == (
        0.98,
        1.0,
        0.0,
        0.2,
    )
    assert (train.learning_rate, train.lr_scheduler_type) == (5e-4, "inverse_sqrt")
    assert train.warmup_steps == 4_000  # from 0, and not from 1e-7
    assert (plan.objective.own.pair_tokens, train.batch, train.length) == (4_096, 5, 100)
    assert (train.epochs, train.evaluations, train.patience, train.keep) == (200, 200, 10, "best")
    whole, _ = resolve_training(plan, Size(10_000, 30, 900, 10**6, 512, "cpu"))
    assert whole.max_steps == 30 * 200 / 5


@pytest.mark.parametrize("path", sorted(PLANS.glob("*.toml")), ids=lambda path: path.stem)
def test_every_plan_can_be_resolved(path):
    plan = plan_of(path.stem)
    size = Size(10**6, 8_000, 32_000, 110_000_000, 512, "cpu")
    train, words = resolve_training(plan, size)
    assert None not in (train.length, train.batch, train.learning_rate, train.max_steps)
    assert words.startswith(plan.objective.name)
