"""Does a selection of conversations lower the loss on unseen ones? `fit` says, for three targets.

There is no small instruction-tuned decoder or instruction set among the data, so both are made of
it. The base is a decoder trained from scratch on half of the documents. The conversations are made
of the other half, in the way of FLAN: headlines and their articles, questions and answers, names
and their descriptions, reviews and what they say, sentences and their translations. The target is
400 conversations of one kind, of which `fit` holds out a fifth; the corpus is all others of all
kinds.

Run: python benchmarks/chats.py DATA WORK [--time 45min]
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import xxhash
from transformers import AutoTokenizer

import corpusfit
from benefit_cells import lines

RESULTS = Path(__file__).parent / "results" / "chats.json"
KINDS = {
    "bio_medquad": "{}",
    "cs_arxiv": "Write the abstract of a paper called “{}”.",
    "bio_asreview": "What did the study “{}” find?",
    "finance_reuters21578": "Write a news item with the headline “{}”.",
    "news_allsides": "Write the first paragraphs of an article called “{}”.",
    "wiki_en": "What is {}?",
    "legal_austlii": "Describe the case {}.",
}
TARGETS = ("bio_medquad", "cs_arxiv", "finance_reuters21578")
WORDS = 200  # of an answer
MOST = 6_000  # conversations of a kind
TASK = 400  # conversations of a target
TEMPLATE = (
    "{% for m in messages %}{% if m.role == 'assistant' %}Answer: {% generation %}{{ m.content }}"
    "{{ eos_token }}{% endgeneration %}{% else %}{{ bos_token }}Question: {{ m.content }}\n"
    "{% endif %}{% endfor %}{% if add_generation_prompt %}Answer: {% endif %}"
)


def pairs(data: Path) -> Iterator[tuple[str, str, str]]:
    """Kind, question and answer of all conversations, without order."""
    for kind, question in KINDS.items():
        for row in map(orjson.loads, lines(data / f"pile/{kind}.jsonl.zst")):
            if row["title"] and row["text"] and not of_base(row["text"]):
                yield kind, question.format(row["title"]), " ".join(row["text"].split()[:WORDS])
    for row in map(orjson.loads, lines(data / "tasks/imdb/train.jsonl.zst")):
        review = " ".join(row["text"].split()[:WORDS])
        yield "imdb", f"Is this review positive or negative? {review}", str(row["label"])
    for domain in ("it", "law", "medical", "news"):
        sides = (
            lines(data / f"parallel/train/{domain}.{language}.zst") for language in ("de", "en")
        )
        for german, english in zip(*sides, strict=True):
            asked = f"Translate into English: {german.decode().strip()}"
            yield f"translate_{domain}", asked, english.decode().strip()


def of_base(text: str) -> bool:
    """Whether the base is trained on a document; the others are conversations."""
    return xxhash.xxh3_64_intdigest(text.encode()) % 2 == 0


def write(path: Path, rows: list[Any]) -> None:
    """Write JSON lines."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))


def prepare(data: Path, work: Path) -> None:
    """Write the conversations, and the documents of the base."""
    conversations: dict[str, list[Any]] = {}
    for kind, question, answer in pairs(data):
        turns = [("user", question), ("assistant", answer)]
        messages = [{"role": role, "content": content} for role, content in turns]
        conversations.setdefault(kind, []).append({"messages": messages})
    for kind, made in conversations.items():
        random.Random(kind).shuffle(made)
        write(work / f"corpus/{kind}.jsonl", made[: MOST - TASK])
        if kind in TARGETS:
            write(work / f"targets/{kind}.jsonl", made[MOST - TASK : MOST])
    for kind in KINDS:
        texts = (row["text"] for row in map(orjson.loads, lines(data / f"pile/{kind}.jsonl.zst")))
        chosen = [{"text": " ".join(text.split()[:1000])} for text in texts if of_base(text)]
        write(work / f"documents/{kind}.jsonl", chosen[:6_000])


def main() -> None:
    """Make the base, and fit it for each target."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("--time", default="45min")
    parser.add_argument("--targets", default=",".join(TARGETS))
    given = parser.parse_args()
    base = given.work / "base"
    if not (base / "model.safetensors").exists():
        prepare(given.data, given.work)
        corpusfit.adapt(
            data=given.work / "documents",
            out=base,
            objective="causal",
            init="mini",
            max_steps=600,
            batch=8,
            length=512,
        )
        tokenizer = AutoTokenizer.from_pretrained(base)
        tokenizer.chat_template = TEMPLATE
        tokenizer.save_pretrained(base)
    found = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for target in given.targets.split(","):
        out = given.work / f"fit-{target}-{given.time}"
        began = time.perf_counter()
        run = corpusfit.fit(
            task=given.work / f"targets/{target}.jsonl",
            corpus=given.work / "corpus",
            model=base,
            kind="language_modeling",
            text_field="messages",
            corpus_field="messages",
            loss_on="assistant",
            time=given.time,
            out=out,
        )
        found[target] = {"time": given.time, "hours": (time.perf_counter() - began) / 3600}
        found[target] |= {"sentence": run.sentence, "rows": run.rows()}
        RESULTS.write_text(json.dumps(found, indent=1, default=str) + "\n")
        print(run.sentence)
        print(run.to_pandas().to_string())


if __name__ == "__main__":
    main()
