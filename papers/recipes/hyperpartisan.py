"""Hyperpartisan as TADPOLE has it: 516, 64 and 65 articles of SemEval 2019, Task 4.

Joins the articles and the labels of Zenodo 1489920, both by article, and divides them by the split
of Longformer (`hp-splits.json`: lists of ids by split), whose sizes are those of TADPOLE's Table 2.
An article that is listed twice stays in test, or else in dev: the published lists have 51 of train
and 7 of dev in test, too, and lack 58 articles, which take these places in the order of their ids.
Writes train, dev and test as JSON lines of `text` (paragraphs in lines, without the title) and
`label` (true or false).

Run: python papers/recipes/hyperpartisan.py ARTICLES.xml LABELS.xml hp-splits.json OUT
Reference: Kiesel et al. (2019); Beltagy et al. (2020), Longformer, and issue 181 of its repository.
"""

from __future__ import annotations

import argparse
import json
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
parser.add_argument("articles", type=Path, help="articles-training-byarticle-20181122.xml")
parser.add_argument("labels", type=Path, help="ground-truth-training-byarticle-20181122.xml")
parser.add_argument("splits", type=Path, help="hp-splits.json")
parser.add_argument("out", type=Path, help="Folder of the task")

asked = parser.parse_args()
for path in (asked.articles, asked.labels, asked.splits):
    if not path.is_file():
        parser.error(f"{path} is not a file.")


def articles(path):
    """The elements of a file of XML by their ids."""
    try:
        found = [*ET.parse(path).getroot().iter("article")]
    except ET.ParseError as error:
        sys.exit(f"{path} is not a whole file of XML ({error}): unpack its .zip again.")
    by_id = {int(article.attrib["id"]): article for article in found}
    if len(by_id) < len(found):
        sys.exit(f"{path} has an id twice: unpack its .zip again.")
    return by_id


texts: dict[int, str] = {}
for number, article in articles(asked.articles).items():
    parts = [article.text or ""]
    for paragraph in article:
        parts += ["".join(paragraph.itertext()), paragraph.tail or ""]
    lines = (" ".join(part.split()) for part in parts)
    texts[number] = "\n".join(filter(None, lines))
labels = {n: article.get("hyperpartisan") for n, article in articles(asked.labels).items()}
if not {*labels.values()} <= {"true", "false"}:
    sys.exit(f"{asked.labels} has no labels: name ground-truth-training-byarticle-20181122.xml.")
try:
    splits = json.loads(asked.splits.read_text("utf-8"))
    listed = {split: [*map(int, splits[split])] for split in ("test", "dev", "train")}
except (ValueError, TypeError, KeyError):
    sys.exit(f"{asked.splits} must list the ids of train, dev and test: fetch the raw file again.")

every = [number for numbers in listed.values() for number in numbers]
for path, known in ((asked.articles, texts), (asked.labels, labels)):
    missing = {*every} - {*known}
    if missing or len(known) != len(every):
        sys.exit(
            f"{path} has {len(known):,} articles where the split has {len(every):,}, and lacks "
            f"{len(missing):,} of them: name both files of training by article, unpacked whole."
        )

unlisted = iter(sorted({*texts} - {*every}))
taken: set[int] = set()
asked.out.mkdir(parents=True, exist_ok=True)
for split, numbers in listed.items():
    data = ""
    repeated = 0
    for number in numbers:
        repeated += number in taken
        own = next(unlisted) if number in taken else number
        taken.add(own)
        data += json.dumps({"text": texts[own], "label": labels[own]}, ensure_ascii=False) + "\n"
    (asked.out / f"{split}.jsonl").write_text(data, "utf-8")
    print(f"{split}: {len(numbers):,} articles, {repeated:,} for ids that are listed twice")
