"""Whatever form the same documents come in, the same texts get the same scores."""

import bz2
import csv
import gzip
import io
import json
import lzma

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from journeys import prose, scores

import corpusfit

PACK = {
    "gz": gzip.compress,
    "zst": zstandard.ZstdCompressor().compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
}
TEXTS = [
    *prose("task", 20),
    'a "quoted" text, with commas;\tand a tab',
    "two lines\nof one text",
    "細胞の受容体に結合する。阻害剤の効果を測定した。",
    "激酶抑制剂与受体结合。结果表明亲和力很高！",
    "ตัวรับจับกับโปรตีน เอนไซม์ทำงานได้ดี",
    "Größe und Maß 🧪 naïve café",
    *prose("market", 20),
]


def as_jsonl():
    lines = (json.dumps({"text": t, "id": i}, ensure_ascii=False) for i, t in enumerate(TEXTS))
    return "\n".join(lines).encode() + b"\n"


def as_table(delimiter):
    sheet = io.StringIO(newline="")
    writer = csv.writer(sheet, delimiter=delimiter)
    writer.writerow(["id", "text"])
    writer.writerows(enumerate(TEXTS))
    return sheet.getvalue().encode()


def as_parquet():
    sink = io.BytesIO()
    table = pa.table({"text": TEXTS, "id": list(range(len(TEXTS)))})
    pq.write_table(table, sink, row_group_size=7)
    return sink.getvalue()


FORMS = {
    "jsonl": as_jsonl(),
    "csv": as_table(","),
    "tsv": as_table("\t"),
    "parquet": as_parquet(),
    "txt": "\n\n".join(TEXTS).encode(),
    **{f"jsonl.{suffix}": pack(as_jsonl()) for suffix, pack in PACK.items()},
    "csv.gz": gzip.compress(as_table(",")),
    "parquet.zst": PACK["zst"](as_parquet()),
    "txt.xz": lzma.compress("\n\n".join(TEXTS).encode()),
}


@pytest.fixture
def read(task, tmp_path, inline, tiny_static):
    """Everything of a corpus, selected, with its scores by a method that reads embeddings."""

    def read(corpus, **words):
        return corpusfit.select(
            target=task,
            corpus=corpus,
            out=tmp_path / "out",
            machine=inline,
            fraction=1.0,
            **{"method": "domain_cosine", "embedder": str(tiny_static), **words},
        )

    return read


@pytest.fixture(scope="module")
def expected(tmp_path_factory, inline, tiny_static):
    """(text, score) of every document as JSON lines."""
    folder = tmp_path_factory.mktemp("expected")
    (folder / "corpus.jsonl").write_bytes(as_jsonl())
    (folder / "task.txt").write_text("\n\n".join(prose("task", 40)))
    run = corpusfit.select(
        target=folder / "task.txt",
        corpus=folder / "corpus.jsonl",
        out=folder / "out",
        machine=inline,
        fraction=1.0,
        method="domain_cosine",
        embedder=str(tiny_static),
    )
    found = [(s["text"], s["score"]) for s in run]
    assert [text for text, _ in found] == TEXTS
    assert len({score for _, score in found}) > 35
    return found


def test_a_folder_of_all_forms(read, tmp_path):
    for form, content in FORMS.items():
        path = tmp_path / "pile" / form.replace(".", "-") / f"corpus.{form}"
        path.parent.mkdir(parents=True)
        path.write_bytes(content)
    (tmp_path / "pile" / "README.md").write_text("passed over")
    run = read(tmp_path / "pile", method="random", dedup="none", settings=["cut.pieces=256"])
    by_source = run.manifest["selected"]["by_source"]
    assert set(by_source) == {f"{f.replace('.', '-')}/corpus.{f}" for f in FORMS}
    assert {n["selected"] for n in by_source.values()} == {len(TEXTS)}


DOCUMENTS = [
    "Das ist z.B. ein Satz. Und noch einer, usw. und so fort! Maße in µm? Ja.\n\nNeuer Absatz. "
    * 8,
    "激酶抑制剂与受体结合。结果表明，亲和力很高！「为什么？」他问。\n第二段在这里。" * 12,
    "細胞の受容体に結合する。阻害剤の効果を測定した。カタカナのテキスト！" * 15,
    "ตัวรับจับกับโปรตีน เอนไซม์ทำงานได้ดี การศึกษานี้แสดงให้เห็นว่า ผลลัพธ์ดีมาก " * 10,
    "مرحبا بالعالم. كيف حالك؟ هذا نص طويل، وفيه جمل كثيرة. " * 10,
    "Emoji 👩‍🔬🧪 and e\u0301 combining; e.g. Dr. Smith's U.S. lab (cf. Fig. 3). It works. " * 10,
    "word " * 700,
    "x" * 3000,
    " \n\n leading and trailing space \n\n ",
    "one",
]


@pytest.mark.parametrize("unit", ["window", "sentence", "paragraph", "fixed", "document"])
def test_offsets_point_back_into_the_document(read, jsonl, unit):
    corpus = jsonl("documents.jsonl", DOCUMENTS)
    # a text for each segment, and repeats too
    words = {"unit": unit, "policy": "continuous", "dedup": "none"}
    run = read(corpus, method="random", settings=["cut.pieces=16", "cut.gamma=2"], **words)
    place = {(s["row"], s["segment"]): (s["start"], s["end"]) for s in scores(run)}
    joined = [""] * len(DOCUMENTS)
    segments = 0
    for segment in run:
        start, end = place[segment["row"], segment["segment"]]
        assert segment["text"] == DOCUMENTS[segment["row"]][start:end]
        assert start == len(joined[segment["row"]])
        joined[segment["row"]] += segment["text"]
        segments += 1
    assert joined == DOCUMENTS
    assert segments == len(place) == run.manifest["counts"]["segments"]
    assert (segments > len(DOCUMENTS)) == (unit != "document")
    for row in scores(run):
        assert 1 <= row["units"] <= 2
        assert unit == "document" or row["tokens"] <= 16 * row["units"]
