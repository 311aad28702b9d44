"""`adapt` on conversations from end to end: from files and selections, and what it refuses."""

import dataclasses
import shutil

import pytest
from journeys import prose

import corpusfit
from corpusfit import training
from corpusfit.core.errors import InputError, ModelError, UsageError
from listening import StoppingTraining

pytest.importorskip("accelerate", reason="the extra train is not installed")
ON_CPU = ["train.device=cpu", "train.precision=fp32"]
TEMPLATE = (
    "{% if tools %}Tools: {{ tools | tojson }}\n{% endif %}"
    "{% for m in messages %}{{ m.role | upper }}: {{ m.content }}{{ eos_token }}\n{% endfor %}"
    "{% if add_generation_prompt %}ASSISTANT: {% endif %}"
)


def conversations(n=40, **more):
    texts = prose("task", 3 * n)
    for i in range(n):
        asked, told, ended = (text[:40] for text in texts[3 * i : 3 * i + 3])
        messages = [("user", asked), ("assistant", told), ("user", "More."), ("assistant", ended)]
        yield {"messages": [{"role": r, "content": c} for r, c in messages], **more}


@pytest.fixture(scope="module")
def chat_model(tiny_gpt, tmp_path_factory):
    """The tiny GPT-2 with a chat template."""
    folder = tmp_path_factory.mktemp("chat") / "gpt"
    shutil.copytree(tiny_gpt, folder)
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    return folder


@pytest.fixture
def adapt(tmp_path, inline, chat_model, jsonl):
    """`adapt` in this process: two steps of four sequences of 128 tokens."""

    def adapt(out="out", **words):
        given = {"model": str(chat_model), "max_steps": 2, "batch": 4, "length": 128}
        given |= {"objective": "causal", "text_field": "messages", "machine": inline, **words}
        if "data" not in given:
            given["data"] = jsonl("chats.jsonl", conversations())
        settings = [*ON_CPU, *given.pop("settings", ())]
        return corpusfit.adapt(out=tmp_path / out, settings=settings, **given)

    return adapt


def test_the_loss_is_on_other_tokens_and_a_killed_training_goes_on(adapt, inline):
    whole, turns = (adapt(on, loss_on=on, max_steps=3) for on in ("all", "assistant"))
    counts = [run.manifest["counts"]["data"] for run in (whole, turns)]
    assert [c["rejected"] for c in counts] == [0, 0]
    assert counts[0]["tokens"] == counts[1]["tokens"]
    assert counts[1]["counted"] < counts[0]["counted"]
    assert whole.manifest["weights"] != turns.manifest["weights"]

    machine = dataclasses.replace(inline, progress=StoppingTraining(after=2))
    settings = ["train.checkpoint_minutes=1e-9"]
    with pytest.raises(InterruptedError):
        adapt("again", loss_on="assistant", max_steps=3, machine=machine, settings=settings)
    again = adapt("again", loss_on="assistant", max_steps=3, settings=settings)
    assert again.manifest["weights"] == turns.manifest["weights"]


@pytest.mark.slow
def test_a_selection_keeps_conversations_and_tools(adapt, inline, jsonl, tmp_path):
    tools = [{"type": "function", "function": {"name": "weather"}}]
    corpus = jsonl("chats.jsonl", conversations(tools=tools))
    whole = {"text_field": "messages", "method": "dsir", "machine": inline, "fraction": 0.5}
    target = jsonl("target.jsonl", list(conversations())[:10])
    corpusfit.select(target=target, corpus=corpus, out=tmp_path / "whole", **whole)
    selected = list(corpusfit.open(tmp_path / "whole"))
    assert all(row["tools"] == tools and len(row["messages"]) == 4 for row in selected)
    found = adapt("of the selection", data=tmp_path / "whole", loss_on="assistant", length=256)
    rows = jsonl("same.jsonl", [{k: row[k] for k in ("messages", "tools")} for row in selected])
    same = adapt("of files", data=rows, loss_on="assistant", length=256)
    for figure in ("tokens", "counted", "texts"):
        assert found.manifest["counts"]["data"][figure] == same.manifest["counts"]["data"][figure]
    assert found.manifest["losses"]["before"].keys() == {"data", "task", "general"}
    # a target that is no conversation is measured as it is
    words = {"data": tmp_path / "whole", "loss_on": "assistant", "length": 256}
    texts = [{"messages": text} for text in prose("task", 9)]
    other = adapt("other", task=jsonl("texts.jsonl", texts), **words)
    assert other.manifest["counts"]["task"]["texts"] == 9
    # a version that cut conversations made such a selection
    manifest = tmp_path / "whole" / "manifest.json"
    manifest.write_text(manifest.read_text("utf-8").replace('"document"', '"window"'), "utf-8")
    with pytest.raises(UsageError, match=r"`objective\.loss_on`.*parts.*`cut\.unit=document`"):
        adapt("refused", data=tmp_path / "whole", loss_on="assistant")


def test_what_is_refused_before_the_work(adapt, tiny_gpt, jsonl):
    with pytest.raises(ModelError, match=r"has no chat template.*`objective\.loss_on=assistant`"):
        adapt(model=str(tiny_gpt), loss_on="assistant")
    with pytest.raises(UsageError, match=r"`read\.text_field`.*`objective\.loss_on=assistant`"):
        adapt(data=jsonl("texts.jsonl", prose("task", 20)), text_field="text", loss_on="assistant")
    with pytest.raises(InputError, match=r"`data`.*too long.*`train\.length`"):
        adapt(length=16, loss_on="assistant")


def test_without_a_template_or_a_loss_on_parts_it_is_as_before(adapt, tiny_gpt, jsonl, inline):
    """Plain text, a line for each message; and completions of strings need no template."""
    lines = [
        "\n".join(message["content"] for message in row["messages"]) for row in conversations()
    ]
    plain = adapt("plain", model=str(tiny_gpt), data=jsonl("lines.jsonl", lines), text_field="text")
    chats = adapt("chats", model=str(tiny_gpt))
    assert chats.manifest["weights"] == plain.manifest["weights"]
    rows = [{"prompt": line[:40], "completion": line[40:]} for line in lines]
    field = "{prompt}{completion}"
    words = {"data": jsonl("rows.jsonl", rows), "text_field": field, "model": str(tiny_gpt)}
    found = adapt("completions", loss_on="completion", length=256, **words)
    counts = found.manifest["counts"]["data"]
    # each with its end; the vocabulary is one of bytes and their pairs
    assert 0 < counts["counted"] < counts["tokens"]


def test_the_dry_run_of_conversations(chat_model, jsonl, inline):
    data = jsonl("chats.jsonl", conversations())
    words = {"model": str(chat_model), "objective": "causal", "text_field": "messages"}
    words |= {"loss_on": "assistant", "length": 128, "batch": 4}
    found = training.estimate_adaptation(data=data, machine=inline, settings=ON_CPU, **words)
    assert found["max_steps"] >= 50
