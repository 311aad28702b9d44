"""Names of devices: what `auto` takes, what is refused, and what follows from a device's kind."""

from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch", reason="the extra models is not installed")

from corpusfit.core.errors import UsageError  # noqa: E402
from corpusfit.core.plan import EmbedPlan, Plan  # noqa: E402
from corpusfit.embed import precision_of  # noqa: E402
from corpusfit.embed.hardware import (  # noqa: E402
    fast_products,
    memory,
    resolve,
    resolve_device,
    seeded,
    to_feed,
)
from corpusfit.evaluation.plan import FinetunePlan  # noqa: E402
from corpusfit.text.context import Machine  # noqa: E402
from corpusfit.training.plan import AdaptPlan, TrainPlan  # noqa: E402
from corpusfit.training.trainer import start_accelerator  # noqa: E402

MODELS = {"cuda:3": "B"}


@pytest.fixture
def machine(monkeypatch, preferred_devices):
    """A machine with some devices, as torch reports them: the number of each kind."""
    monkeypatch.setattr("corpusfit.embed.hardware._PREFERRED", preferred_devices)

    def machine(cuda=0, mps=0, xpu=0):
        for module, count in ((torch.cuda, cuda), (torch.backends.mps, mps), (torch.xpu, xpu)):
            monkeypatch.setattr(module, "is_available", lambda count=count: count > 0)
        for module, count in ((torch.cuda, cuda), (torch.xpu, xpu)):
            monkeypatch.setattr(module, "device_count", lambda count=count: count)
            monkeypatch.setattr(module, "is_bf16_supported", lambda **_: True)
            monkeypatch.setattr(module, "get_device_name", lambda name: MODELS.get(name, "A"))

    return machine


@pytest.mark.parametrize(
    ("here", "trains", "encodes"),
    [
        ({}, "cpu", "cpu"),
        ({"cuda": 2}, "cuda", "cuda"),
        ({"mps": 1}, "mps", "cpu"),
        ({"xpu": 1}, "xpu", "cpu"),
        ({"cuda": 1, "mps": 1, "xpu": 1}, "cuda", "cuda"),
        ({"mps": 1, "xpu": 1}, "mps", "cpu"),
    ],
)
def test_what_auto_takes(machine, here, trains, encodes):
    machine(**here)
    groups = ("train", "finetune", "adapt.train", "evaluate.finetune", "embed")
    taken = [resolve_device("auto", group) for group in groups]
    assert taken == [*[trains] * 4, encodes]


@pytest.mark.parametrize("name", ["cpu", "cuda", "cuda:0", "cuda:1", "mps", "xpu", "xpu:0"])
def test_a_device_that_is_here(machine, name):
    machine(cuda=2, mps=1, xpu=1)
    assert resolve_device(name, "train") == name


@pytest.mark.parametrize(
    ("here", "wanted", "allowed"),
    [
        ({}, "cuda", "auto or cpu here"),
        ({}, "mps", "auto or cpu here"),
        ({"mps": 1}, "cuda:1", "auto, cpu or mps here"),
        ({"cuda": 2}, "cuda:2", "auto, cpu, cuda, cuda:0 or cuda:1 here"),
        ({"xpu": 1}, "xpu:1", "auto, cpu, xpu or xpu:0 here"),
    ],
)
def test_a_missing_device_is_refused_with_those_that_are_here(machine, here, wanted, allowed):
    machine(**here)
    with pytest.raises(UsageError, match=rf"^`train\.device` must be {allowed}; got '{wanted}'"):
        resolve(TrainPlan(device=wanted), "train")


@pytest.mark.parametrize("name", ["gpu", "cuda:", "cuda:x", "mps:0", "cpu:1", "cuda:1:2"])
@pytest.mark.parametrize("plan", [EmbedPlan, TrainPlan, FinetunePlan])
def test_what_is_no_device(plan, name):
    with pytest.raises(UsageError, match=rf"device` must be one of auto, .*'{name}'.*cuda:1"):
        plan(device=name).check()
    plan(device="xpu:3").check()


def test_precision_and_sizes(machine):
    machine(cuda=2, mps=1, xpu=1)
    assert [resolve(EmbedPlan(device=name))[1:] for name in ("cuda", "xpu", "mps")] == [
        ("bf16", 32_768),
        ("bf16", 32_768),
        ("fp32", 32_768),
    ]
    assert resolve(EmbedPlan(device="mps", precision="bf16")).precision == "bf16"
    assert set(AdaptPlan().objective.kind.batch) == {"cpu", "gpu"}


def test_a_cuda_device_without_bf16_encodes_in_fp16_and_trains_in_fp32(
    machine, monkeypatch, tiny_encoder
):
    machine(cuda=1, xpu=1)
    for module in (torch.cuda, torch.xpu):
        monkeypatch.setattr(module, "is_bf16_supported", lambda **_: False)
    assert resolve(EmbedPlan(device="cuda")).precision == "fp16"
    assert precision_of(EmbedPlan(str(tiny_encoder), device="cuda")) == "fp16"
    assert precision_of(EmbedPlan("static", device="cuda")) == ""
    assert resolve(EmbedPlan(device="xpu")).precision == "fp32"
    assert resolve(TrainPlan(device="cuda"), "train").precision == "fp16"
    assert resolve(FinetunePlan(device="cuda"), "finetune").precision == "fp32"


@pytest.mark.parametrize(
    ("here", "wanted", "fed"),
    [
        ({}, "auto", ()),
        ({"cuda": 2}, "cpu", ()),
        ({"cuda": 3}, "auto", ("cuda:0", "cuda:1", "cuda:2")),
        ({"cuda": 5}, "cuda", ("cuda:0", "cuda:1", "cuda:2", "cuda:4")),  # one is another model
        ({"cuda": 5}, "cuda:3", ("cuda:3",)),
        ({"mps": 1, "xpu": 2}, "auto", ()),
        ({"mps": 1, "xpu": 2}, "xpu", ("xpu:0", "xpu:1")),
        ({"mps": 1}, "mps", ("mps",)),
    ],
)
def test_which_gpus_encode(machine, monkeypatch, here, wanted, fed):
    machine(**here)
    monkeypatch.setattr("corpusfit.embed.hardware.may_have_cuda", lambda: True)
    assert to_feed(wanted) == fed


def test_products_are_fast_on_cuda_alone_and_as_before_afterwards():
    before = torch.get_float32_matmul_precision()
    for device, within in (("cuda", "high"), ("cuda:1", "high"), ("cpu", before), ("mps", before)):
        with fast_products(device, "fp32"):
            assert torch.get_float32_matmul_precision() == within
        assert torch.get_float32_matmul_precision() == before
    with fast_products("cpu", "fp16"):
        assert torch.get_autocast_dtype("cpu") == torch.float16
        assert torch.is_autocast_enabled("cpu")
    assert not torch.is_autocast_enabled("cpu")


def test_the_number_of_a_device_is_not_part_of_a_run(machine):
    machine(cuda=2)
    assert resolve(EmbedPlan(device="cuda:1", precision="fp32")).kind == "cuda"
    one, other = (Plan(embed=EmbedPlan(device=name)) for name in ("cuda", "cuda:1"))
    assert one.identity() == other.identity()
    one, other = (AdaptPlan(train=TrainPlan(device=name)) for name in ("cuda", "cuda:1"))
    assert one.decisive() == other.decisive()


@pytest.mark.parametrize("device", ["cuda", "cuda:1", "mps", "xpu"])
def test_trainings_share_no_gpu(device):
    assert Machine(workers=4).for_training(device).workers == 1
    assert Machine(workers=4).for_training("cpu").workers == 4


def test_random_numbers_of_mps_are_seeded_and_restored(machine, monkeypatch):
    machine(mps=1)
    done = []
    fake = SimpleNamespace(
        get_rng_state=lambda: "before",
        set_rng_state=lambda state: done.append(("restored", state)),
        manual_seed=lambda seed: done.append(("seeded", seed)),
    )
    monkeypatch.setattr(torch, "mps", fake)
    with seeded(7):
        assert done == [("seeded", 7)]
    assert done[1:] == [("restored", "before")]


@pytest.mark.parametrize("device", ["cpu", "meta:1", "meta"])
def test_the_trainer_takes_the_named_device(device):
    """`meta` stands for a device that accelerate would not take by itself."""
    pytest.importorskip("accelerate", reason="the extra train is not installed")
    for name in (device, "cpu", device):
        assert start_accelerator(name).device == torch.device(name)


def test_launched_processes_share_no_device(monkeypatch):
    pytest.importorskip("accelerate", reason="the extra train is not installed")
    monkeypatch.setenv("LOCAL_RANK", "0")
    with pytest.raises(UsageError, match=r"^`train\.device` must be .*without a number.*'cuda:1'"):
        start_accelerator("cuda:1")


def test_memory_is_that_of_the_container(tmp_path):
    (tmp_path / "limit").write_text("1000\n")
    (tmp_path / "none").write_text("max\n")
    assert memory("cpu", tmp_path / "limit") == 1000
    assert memory("cpu", tmp_path / "none") == memory("cpu", tmp_path / "nosuch") > 1e6
