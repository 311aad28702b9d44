"""Several processes that train together come to what one comes to."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time

import pytest
from journeys import prose

import corpusfit

pytest.importorskip("accelerate", reason="the extra train is not installed")

pytestmark = pytest.mark.slow

STEPS, LENGTH = 8, 32
SETTINGS = [
    "train.device=cpu",
    "train.precision=fp32",
    "train.micro_tokens=64",
    "train.checkpoint_minutes=1e-9",
    "train.warmup_steps=0",
]


@pytest.fixture
def steady(tiny_lm, tmp_path):
    """The small model without dropout, whose chances each process draws by itself."""
    folder = tmp_path / "steady"
    shutil.copytree(tiny_lm, folder)
    config = json.loads((folder / "config.json").read_text("utf-8"))
    config |= {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    (folder / "config.json").write_text(json.dumps(config), "utf-8")
    return folder


@pytest.fixture
def decoder(tiny_lm, tmp_path):
    """A small decoder with a head of its own."""
    import torch
    from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

    folder, tokenizer = tmp_path / "decoder", AutoTokenizer.from_pretrained(tiny_lm)
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2}
    config = LlamaConfig(vocab_size=len(tokenizer), num_attention_heads=2, **sizes)
    LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def started(processes, *arguments):
    """`adapt` in so many processes; on a CPU `accelerate launch` leaves starting them to others."""
    launch = [
        *("-m", "torch.distributed.run", "--nproc-per-node", processes, "--standalone"),
        *("-m", "corpusfit", "adapt"),
    ]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    return subprocess.Popen(
        [sys.executable, *map(str, launch), *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )


def apart(processes, *arguments):
    """`adapt` in so many processes that nothing watches, as on machines of their own."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free.getsockname()[1])}
    place |= {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "WORLD_SIZE": str(processes)}
    return [
        subprocess.Popen(
            [sys.executable, "-m", "corpusfit", "adapt", *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **place, "RANK": str(rank), "LOCAL_RANK": str(rank)},
        )
        for rank in range(processes)
    ]


def together(processes, *arguments):
    """What `adapt` in so many processes prints and returns."""
    process = started(processes, *arguments)
    out, errors = process.communicate()
    return subprocess.CompletedProcess(process.args, process.returncode, out, errors)


def alone(inline, model, data, out, words):
    """`adapt` in this process."""
    return corpusfit.adapt(
        model=str(model), data=data, out=out, settings=SETTINGS, machine=inline, **words
    )


def as_options(words):
    """The same settings on the command line."""
    options = [
        word for name, value in words.items() for word in (f"--{name.replace('_', '-')}", value)
    ]
    return [*options, *(word for setting in SETTINGS for word in ("--set", setting))]


def records_of(folder):
    """The losses of a training, in their order."""
    lines = (folder / "losses.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines]


def assert_same_losses(ours, others):
    """Check that two trainings have the same losses but for rounding."""
    for record, other in zip(ours, others, strict=True):
        assert record.get("loss") == pytest.approx(other.get("loss"), abs=2e-5)
        assert record.get("heldout") == pytest.approx(other.get("heldout"), abs=2e-5)


@pytest.mark.parametrize(
    "objective", ["mlm", *(pytest.param(o, marks=pytest.mark.long) for o in ("mlm+nsp", "causal"))]
)
def test_two_processes_give_the_weights_of_one(request, jsonl, tmp_path, inline, objective):
    """Five sequences a step: three for one process, in two parts, and two for the other, in one."""
    from safetensors.torch import load_file

    steady = request.getfixturevalue("decoder" if objective == "causal" else "steady")
    data = jsonl("data.jsonl", prose("task", 60) + prose("market", 30))
    words = {
        "objective": objective,
        "max_steps": STEPS,
        "batch": 5,
        "length": LENGTH,
        "learning_rate": 1e-3,
    }
    one = alone(inline, steady, data, tmp_path / "one", words)
    done = together(
        2,
        *("--model", steady, "--data", data, "--out", tmp_path / "two", "--json"),
        *as_options(words),
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout)  # of one process, and nothing of the other
    assert (found["processes"], one.manifest["processes"]) == (2, 1)
    mine, theirs, start = (
        load_file(folder / "model.safetensors") for folder in (one.path, tmp_path / "two", steady)
    )
    assert mine.keys() == theirs.keys()
    for name, weight in mine.items():
        if "key.bias" in name:  # no loss depends on it: AdamW magnifies rounding there
            continue
        if "position_ids" not in name:
            assert (weight - start[name]).abs().max() > 1e-3, name
        assert (weight - theirs[name]).abs().max() < 1e-5, name
    both = [records_of(tmp_path / folder) for folder in ("one", "two")]
    for records in both:
        assert [r["step"] for r in records if "loss" in r] == list(range(1, STEPS + 1))
    assert_same_losses(*both)


@pytest.mark.long
def test_a_sharded_training_is_killed_and_resumed_by_more_processes(
    steady, jsonl, tmp_path, inline
):
    from safetensors.torch import load_file

    data, steps = jsonl("data.jsonl", prose("task", 60) + prose("market", 30)), 20
    words = {"max_steps": steps, "batch": 5, "length": LENGTH, "learning_rate": 1e-3}
    one = alone(inline, steady, data, tmp_path / "one", words)
    command = [
        *("--model", steady, "--data", data, "--out", tmp_path / "parts"),
        *as_options(words),
        *("--set", "train.shard=true"),
    ]
    process = started(2, *command)
    checkpoints = tmp_path / "parts" / ".corpusfit" / "checkpoints"
    while process.poll() is None and not list(checkpoints.glob("step-*/state.json")):
        time.sleep(0.02)
    assert process.poll() is None, process.communicate()[1][-3000:]
    (rank, *_) = subprocess.run(
        ["pgrep", "-P", str(process.pid)], check=True, capture_output=True, text=True
    ).stdout.split()
    os.kill(int(rank), signal.SIGKILL)
    process.communicate()
    assert process.returncode != 0
    assert not (tmp_path / "parts" / "model.safetensors").exists()
    resumed_at = max(int(mark.parent.name[5:]) for mark in checkpoints.glob("step-*/state.json"))
    assert 0 < resumed_at < steps

    done = together(3, *command, "--json")
    assert done.returncode == 0, done.stderr[-3000:]
    mine, theirs = (
        load_file(folder / "model.safetensors") for folder in (one.path, tmp_path / "parts")
    )
    assert mine.keys() == theirs.keys()
    for name, weight in mine.items():
        if "key.bias" not in name:  # no loss depends on it: AdamW magnifies rounding there
            assert (weight - theirs[name]).abs().max() < 5e-5, name
    assert_same_losses(records_of(one.path), records_of(tmp_path / "parts"))
    shared = json.loads((tmp_path / "parts" / "config.json").read_text("utf-8"))
    assert shared["architectures"] == ["BertForMaskedLM"]


@pytest.mark.long
def test_a_killed_process_ends_the_other_with_a_sentence_and_the_same_command_resumes(
    steady, jsonl, tmp_path
):
    data = jsonl("data.jsonl", prose("task", 60) + prose("market", 30))
    words = {"max_steps": 60, "batch": 4, "length": LENGTH, "learning_rate": 1e-3}
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    command = [*("--model", steady, "--data", data), *as_options(words)]
    done = together(2, *command, "--out", whole)
    assert done.returncode == 0, done.stderr[-3000:]

    main, other = apart(2, *command, "--out", killed)
    checkpoints = killed / ".corpusfit" / "checkpoints"
    while main.poll() is None and not list(checkpoints.glob("step-*/state.json")):
        time.sleep(0.02)
    other.kill()
    _, said = main.communicate(timeout=60)
    other.communicate()
    assert main.returncode == 1
    assert "Another process of this training has ended" in said
    assert "Traceback" not in said
    assert not (killed / "model.safetensors").exists()
    assert list(checkpoints.glob("step-*/state.json"))

    done = together(2, *command, "--out", killed)
    assert done.returncode == 0, done.stderr[-3000:]
    assert records_of(killed) == records_of(whole)
    ours, theirs = ((folder / "model.safetensors").read_bytes() for folder in (killed, whole))
    assert ours == theirs


SEEN = """
import json, sys
import accelerate, torch, transformers, corpusfit
from torch.distributed.fsdp import FSDPModule

class Seen(transformers.TrainerCallback):
    def on_train_begin(self, args, state, control, model=None, **facts):
        self.kind = str(accelerate.PartialState().distributed_type)
        self.divided = isinstance(model, FSDPModule)

seen = Seen()
run = corpusfit.adapt(**json.loads(sys.argv[1]), callbacks=[seen])
if accelerate.PartialState().is_main_process:
    print(json.dumps([seen.kind, seen.divided, run.manifest["processes"]]))
"""


@pytest.mark.long
def test_accelerate_launch_divides_the_weights_where_it_is_asked_for_fsdp(steady, jsonl, tmp_path):
    """On a CPU accelerate itself ignores it: the processes are plain ones of several CPUs."""
    data = jsonl("data.jsonl", prose("task", 60))
    words = {"model": str(steady), "data": str(data), "out": str(tmp_path / "out")}
    words |= {"max_steps": 2, "batch": 4, "length": LENGTH, "settings": SETTINGS}
    script = tmp_path / "seen.py"
    script.write_text(SEEN)
    launch = [sys.executable, "-m", "accelerate.commands.launch", "--num_processes", "2"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    done = subprocess.run(
        [*launch, "--use_fsdp", "--fsdp_version", "2", script, json.dumps(words)],
        check=False,
        capture_output=True,
        text=True,
        env=environment,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout.splitlines()[-1]) == ["DistributedType.MULTI_CPU", True, 2]
