"""What is found does not depend on how the text is cut into shards, or who reads them."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from corpusfit.core.plan import ReadPlan
from corpusfit.evaluation.contamination import report_contamination

WORDS = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa"]
TEXT = st.permutations(WORDS).map(" ".join)


def written(path, texts):
    path.write_text("".join(json.dumps({"text": t}) + "\n" for t in texts), "utf-8")
    return str(path)


@settings(max_examples=25)
@given(st.lists(TEXT, min_size=1, max_size=5), st.lists(TEXT, min_size=4, max_size=12), st.data())
def test_the_cut_into_shards_changes_nothing(inline, watched, others, data):
    places = data.draw(st.lists(st.integers(0, len(others) - 1), min_size=1, max_size=4))
    for place in places:
        others[place] += " " + data.draw(st.sampled_from(watched))
    with TemporaryDirectory() as scratch:
        task = written(Path(scratch) / "test.jsonl", watched)
        pile = written(Path(scratch) / "pile.jsonl", others)
        whole, cut = (
            report_contamination([task], [pile], read=ReadPlan(shard_mb=mb), machine=inline)
            for mb in (4.0, 0.0002)
        )
    assert whole.splits == cut.splits
    assert whole.rows == cut.rows
    assert set(places) <= set(whole.rows["pile.jsonl"])
