"""Hyperpartisan as TADPOLE has it: 516, 64 and 65 articles of SemEval 2019, Task 4.

Joins the articles and the labels of Zenodo 1489920, both by article, and divides them by the split
of Longformer (`hp-splits.json`: lists of ids by split), whose sizes are those of TADPOLE's Table 2.
Writes train, dev and test as JSON lines of `text` (paragraphs in lines, without the title) and
`label` (true or false).

Run: python papers/recipes/hyperpartisan.py ARTICLES.xml LABELS.xml hp-splits.json OUT
Reference: Kiesel et al. (2019); Beltagy et al. (2020), Longformer.
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

texts: dict[int, str] = {}
for article in ET.parse(asked.articles).getroot().iter("article"):
    parts = [article.text or ""]
    for paragraph in article:
        parts += ["".join(paragraph.itertext()), paragraph.tail or ""]
    lines = (" ".join(part.split()) for part in parts)
    texts[int(article.attrib["id"])] = "\n".join(filter(None, lines))
labels = {
    int(article.attrib["id"]): article.attrib["hyperpartisan"]
    for article in ET.parse(asked.labels).getroot().iter("article")
}
splits = json.loads(asked.splits.read_text("utf-8"))
wanted = {split: list(map(int, splits[split])) for split in ("train", "dev", "test")}
every = [number for numbers in wanted.values() for number in numbers]
for name, known in (("articles", texts), ("labels", labels)):
    if missing := [number for number in every if number not in known]:
        sys.exit(f"{name}: {len(missing):,} ids of the split are missing, such as {missing[0]}.")
if len({*every}) < len(every):
    sys.exit("hp-splits.json: an id is listed twice.")

asked.out.mkdir(parents=True, exist_ok=True)
for split, numbers in wanted.items():
    rows = ({"text": texts[number], "label": labels[number]} for number in numbers)
    data = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    (asked.out / f"{split}.jsonl").write_text(data, "utf-8")
    print(f"{split}: {len(numbers):,} articles")
