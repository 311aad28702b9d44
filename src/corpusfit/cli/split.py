"""`corpusfit split`: train, dev and test splits without overlap."""

from __future__ import annotations

from typing import TYPE_CHECKING

from corpusfit.cli.options import command
from corpusfit.cli.show import say

if TYPE_CHECKING:
    from corpusfit.evaluation.splitting import Split


@command(machine=("workers",))
def split(result: Split) -> None:
    """Split a corpus into train, dev and test without overlap.

    Example:
      corpusfit split --data pair:koran.de,koran.en --dev 2000 --test 2000 --near --out split/

    Keeps all copies of a text in one split. Case, white space, ordinary punctuation and the Unicode
    form make no difference. Of rows with several texts, aligned pairs or those of several fields,
    keeps no text twice. Writes train, dev and test to --out in the input's format.

    Options:
        --data INPUT: Texts to split: {INPUTS}
        --out FOLDER: Folder for train, dev and test
    """
    out = result.path
    counts = result.manifest["counts"]
    splits = result.manifest["splits"]
    parts = ", ".join(f"{split['rows']:,} {name}" for name, split in splits.items())
    say(
        f"{counts['rows']:,} rows read: {parts}, {counts['rejected']:,} rejected, "
        f"{counts['dropped']:,} dropped."
    )
    for why, n in counts["reasons"].items():
        say(f"  {n:,} rows: {why} (see {out / 'rejects.jsonl'})")
    say("No text is in two splits; copies within one may stay there.")
    files = [str(out / name) for split in splits.values() for name in split["files"]]
    say(f"Written: {', '.join(files)}.")
