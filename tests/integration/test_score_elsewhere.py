"""docs/scikit-learn.md: its examples run in the libraries that are installed."""

import re
from pathlib import Path

import numpy as np
import pytest
from journeys import WORDS, prose

PAGE = Path(__file__).parents[2] / "docs/scikit-learn.md"
TARGET = prose("task", 40)
BACKGROUND = [text for topic in WORDS for text in prose(topic, 30, seed=1)]
TEXTS = [*TARGET[:20], *BACKGROUND, ""]


def example(heading):
    """The code below a heading of the page."""
    page = PAGE.read_text("utf-8")
    return re.search(r"```python\n(.*?)```", page[page.index(f"# {heading}\n") :], re.DOTALL)[1]


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """The names that the first example leaves, in the folder that it wrote to."""
    names = {"target": TARGET, "background": BACKGROUND, "texts": TEXTS}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("scorer"))
        exec(example("Scores in other pipelines"), names)
        names["lowest"] = float(np.quantile(names["scores"], 0.9))
        yield names


def kept(names):
    return [t for t, s in zip(TEXTS, names["scores"], strict=True) if s >= names["lowest"]]


def test_datasets(saved, tmp_path, monkeypatch):
    config = pytest.importorskip("datasets.config")
    monkeypatch.setattr(config, "HF_DATASETS_CACHE", tmp_path)
    exec(example("datasets"), saved)
    np.testing.assert_array_equal(np.float32(saved["scored"]["score"]), saved["scores"])
    assert list(saved["kept"]["text"]) == kept(saved)


@pytest.mark.long
@pytest.mark.filterwarnings("default")  # Ray Data warns of its own settings
def test_ray(saved, own_ray):
    import ray

    try:
        ray.init(num_cpus=2, include_dashboard=False)
        exec(example("Ray Data"), saved)
        assert sorted(row["text"] for row in saved["kept"].take_all()) == sorted(kept(saved))
    finally:
        ray.shutdown()


def test_datatrove(saved):
    data = pytest.importorskip("datatrove.data")
    exec(example("datatrove"), saved)
    documents = [data.Document(text=text, id=str(n)) for n, text in enumerate(TEXTS)]
    assert [document.text for document in saved["step"].run(documents)] == kept(saved)
    assert saved["step"].filter(documents[0])


def test_spark(saved):
    """Where there is no Spark, its function of a column alone."""
    pandas = pytest.importorskip("pandas")
    code = example("Spark")
    function = code[code.index("def ") : code.index("kept =")]
    exec(f"import pandas\n{function}", saved)
    scores = saved["score_of"](pandas.Series(TEXTS, range(5, 5 + len(TEXTS))))
    np.testing.assert_array_equal(scores, saved["scores"])


def test_its_files_are_read_without_corpusfit(saved, capsys):
    exec(example("Without corpusfit"), saved)
    assert capsys.readouterr().out.startswith("dsir ")
    assert set(saved["arrays"]) == {"table"}
