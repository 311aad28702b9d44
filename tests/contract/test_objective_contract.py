"""Every objective that the registry lists meets the contract of `training/contract.py`."""

import pytest

from corpusfit.core.errors import UsageError
from corpusfit.core.plan import size_for
from corpusfit.training.objectives import OBJECTIVES, load
from corpusfit.training.plan import OF_SOME, AdaptPlan

VALUES = {
    "objective.mask": 0.3,
    "objective.smoothing": 0.2,
    "objective.delete": 0.3,
    "objective.loss_on": "assistant",
    "model.pooling": "cls",
    "adapter.kind": "lora",
    "train.best_by": "bleu",
}


@pytest.fixture(params=OBJECTIVES.names())
def name(request):
    return request.param


def planned(name, **values):
    plan = AdaptPlan().with_value("objective.name", name)
    for path, value in (values or {"model.name": "m"}).items():
        plan = plan.with_value(path, value)
    return plan


def test_it_takes_what_it_says_and_refuses_the_rest(name):
    """A setting that only other objectives read is an error that names one of them."""
    planned(name).check()
    taken = load(name).takes
    assert {*taken} <= {*OF_SOME}
    for path in OF_SOME:
        plan = planned(name, **{"model.name": "m", path: VALUES.get(path, True)})
        if path in taken:
            plan.check()
        else:
            with pytest.raises(UsageError, match=rf"^`{path}` .*`objective\.name=\w") as caught:
                plan.check()
            others = str(caught.value).rpartition("or set ")[2].strip("`.").split("` or `")
            assert others
            assert all(path in load(o.removeprefix("objective.name=")).takes for o in others)


def test_its_untrained_models_have_sizes(name):
    """`model.init` is one of them; an objective without any starts from a trained model."""
    for init in ("tiny", "mini", "small", "base"):
        plan = planned(name, **{"model.init": init})
        if init in load(name).sizes:
            plan.check()
        else:
            with pytest.raises(UsageError, match=r"^`model\.init` "):
                plan.check()


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_its_defaults_are_of_every_device(name, device):
    kind = load(name)
    assert size_for(device, kind.batch) > 0
    assert size_for(device, kind.lengths) >= 8


def test_every_setting_of_some_is_taken():
    assert {path for other in OBJECTIVES.names() for path in load(other).takes} == {*OF_SOME}
