"""The commands of pages in docs/, from a selection to the score with its interval."""

import json
import math
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from journeys import prose, write_rows
from typer.testing import CliRunner

from corpusfit.cli.app import app

pytest.importorskip("accelerate", reason="the extra train is not installed")
pytestmark = pytest.mark.slow

DOCS = Path(__file__).parents[2] / "docs"
MODEL = "Qwen/Qwen2.5-0.5B-Instruct"
SETTINGS = ["train.device=cpu", "train.precision=fp32", "train.evaluations=1", "mix.heldout=20"]
SMALL = {
    "select": [],
    "adapt": ["--max-steps", "1", "--batch", "2", *(w for s in SETTINGS for w in ("--set", s))],
    "evaluate": ["--set", "finetune.device=cpu"],
}


def commands_of(page, section):
    """The arguments of each command, as bash expands them, for one seed."""
    text = (DOCS / page).read_text("utf-8").partition(section)[2].split("\n## ")[0]
    text = text.replace("for seed in 0 1 2", "for seed in 0").replace("--seeds 3", "--seeds 1")
    blocks = "\n".join(re.findall(r"```bash\n(.*?)```", text, re.S))
    script = f"corpusfit() {{ printf '%s\\037' \"$@\"; echo; }}\n{blocks}"
    found = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    return [line.split("\037")[:-1] for line in found.stdout.splitlines()]


@pytest.fixture
def ran(tiny_chat, tmp_path, monkeypatch, inline_cli):
    """Run commands with a small model; returns the manifests of evaluations."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(tiny_chat, "checkpoint")

    def ran(commands, adapt=()):
        small = SMALL | {"adapt": [*SMALL["adapt"], *adapt]}
        manifests = {}
        for command, *options in commands:
            words = [{MODEL: "checkpoint", "1024": "256"}.get(word, word) for word in options]
            if command == "select" and "--method" not in words:
                words += ["--method", "dsir"]
            done = CliRunner().invoke(app, [command, *words, *small[command]])
            assert done.exit_code == 0, done.output
            if command == "evaluate":
                out = Path(words[words.index("--out") + 1])
                manifests[out.name] = json.loads((out / "manifest.json").read_text())
        for manifest in manifests.values():
            metric = manifest["metric"]
            for score in (*manifest["results"], *manifest["comparisons"]):
                value = score["test"][metric]["mean"] if "test" in score else score["difference"]
                assert score["low"] <= value <= score["high"]
        return manifests

    return ran


def test_chats_are_selected_trained_on_and_measured_where_the_loss_is(ran):
    def chats(n, topic, seed=0):
        for asked, told in zip(prose(topic, n, seed), prose(topic, n, seed + 1), strict=True):
            turns = (("system", "Be kind."), ("user", asked[:40]), ("assistant", told[:60]))
            yield {"messages": [{"role": role, "content": said} for role, said in turns]}

    write_rows(Path("wanted.jsonl"), chats(20, "task"))
    write_rows(Path("unseen.jsonl"), chats(20, "task", 5))
    write_rows(Path("chats.jsonl"), [*chats(150, "task", 9), *chats(150, "market")])
    select, _ = commands_of("decoders.md", "# Train on chats")
    others = commands_of("decoders.md", "## Does the selection help?")
    found = ran([select, *others], adapt=["--task", "unseen.jsonl"])
    assert found.keys() == {"over-random", "over-base"}

    # the measure is the loss of training, in another unit
    adapted = json.loads(Path("models/out-of-0/manifest.json").read_text())
    rows = map(json.loads, Path("unseen.jsonl").read_text().splitlines())
    said = [row["messages"][2]["content"] for row in rows]
    for result, when in zip(found["over-base"]["results"], ("after", "before"), strict=True):
        nats = -result["test"]["neg_bits_per_byte"]["mean"] * math.log(2) * sum(map(len, said))
        loss = nats / adapted["counts"]["task"]["counted"]
        assert loss == pytest.approx(adapted["losses"][when]["task"], abs=1e-4)


def test_a_cooldown_has_bits_of_the_task_and_what_is_forgotten(ran):
    for split, n in (("train", 12), ("dev", 3), ("test", 8)):
        texts = prose("task", n, len(split))
        rows = [{"text": text[:50], "label": "ab"[i % 2]} for i, text in enumerate(texts)]
        write_rows(Path(f"task/{split}.jsonl"), rows)
    write_rows(Path("corpus/a.jsonl"), [*prose("task", 300, 9), *prose("market", 300)])
    write_rows(Path("general.jsonl"), prose("market", 50, 3))
    write_rows(Path("general-test.jsonl"), prose("market", 8, 4))
    found = ran(commands_of("decoders.md", "## Cooldown"))
    assert [m["metric"] for m in found.values()] == ["neg_bits_per_byte", "neg_bits_per_byte"]
