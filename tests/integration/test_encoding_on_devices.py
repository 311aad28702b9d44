"""Jobs that feed devices, here pretended ones on a CPU: one process with a model for each."""

import os
from collections import Counter

import numpy as np
import pytest

from answers import Answer, Feeding
from corpusfit import Machine, select
from corpusfit.core.engine import InlineEngine, LocalEngine
from corpusfit.core.engine.devices import Devices
from corpusfit.core.errors import StorageError, WorkerError
from corpusfit.core.plan import EmbedPlan
from corpusfit.embed.hardware import resolve
from corpusfit.selection.api import estimate
from corpusfit.selection.embedding import EmbedTexts
from encoding import CountedEmbed

pytestmark = pytest.mark.slow
WORKERS = 3


def processes_of(engine):
    """The processes of the devices that an engine has started."""
    return [manager._process for manager in engine._devices._managers]


@pytest.fixture(scope="module")
def engine():
    with LocalEngine(WORKERS) as engine:
        yield engine


def test_each_device_opens_the_job_once_for_all_workers(engine, tmp_path):
    shares = {}

    def tell(number, share):
        shares.setdefault(number, []).append(share)

    answers, drawn, most = [], [], 0
    pieces = (drawn.append(i) or i for i in range(60))
    for answer in engine.map(Feeding(tmp_path / "opened"), pieces, tell):
        answers.append(answer)
        most = max(most, len(drawn) - len(answers))
    workers, devices = {a[0] for a in answers}, Counter(a[1][0] for a in answers)
    opened = list(map(int, (tmp_path / "opened").read_text().split()))
    assert sorted(opened) == sorted(devices)
    assert len(opened) == engine.fed == 2
    assert not workers & set(devices)
    assert min(devices.values()) >= 20  # the one with fewer pieces gets the next
    assert sorted(a[1][1] for a in answers) == list(range(60))
    assert all(of[-1] == 1 for of in shares.values())
    # what waits in memory is bounded: pieces of which no answer came, and texts sent to devices
    assert most <= 2 * WORKERS
    times = [a[2] for a in answers]
    assert max(sum(a <= begin < b for a, b in times) for begin, _ in times) <= WORKERS


def test_an_error_on_a_device_comes_back_and_the_engine_goes_on(engine, tmp_path):
    job = Feeding(tmp_path / "opened")
    for piece, words in [("memory", "fewer `workers`"), ("no answer", "503")]:
        with pytest.raises(StorageError, match=words):
            list(engine.map(job, [1, piece, 2]))
    assert [answer[1] for _, answer, _ in engine.map(job, [5])] == [5]


def test_a_job_that_uses_a_gpu_itself_finds_its_memory_free(engine, tmp_path):
    list(engine.map(Feeding(tmp_path / "opened"), [1]))
    processes = processes_of(engine)
    list(engine.map(Answer(), [1]))
    assert all(process.is_alive() for process in processes)  # for the next job that encodes
    list(engine.map(Answer(encodes=True), [1]))
    assert not any(process.is_alive() for process in processes)


@pytest.mark.parametrize("piece", ["die", "worker dies"])
def test_a_lost_process_ends_the_run_with_a_cure(piece, tmp_path):
    processes = []

    def run():
        with LocalEngine(2) as engine:
            for _ in engine.map(Feeding(tmp_path / "opened"), [*range(5), piece, *range(50)]):
                processes[:] = processes_of(engine)

    with pytest.raises(WorkerError, match="fewer `workers`"):
        run()
    assert len(processes) == 2
    assert not any(process.is_alive() for process in processes)


def test_a_device_that_does_not_start_is_named():
    devices = Devices(("cuda:1",))
    with pytest.raises(WorkerError, match=r"cuda:1.*fewer `workers`"):
        devices.start(os._exit, 1)  # its process ends before it listens
    devices.stop()


def test_a_temporary_folder_may_have_a_long_name(tmp_path, monkeypatch):
    folder = tmp_path / ("long" * 30)
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    with LocalEngine(1) as engine:
        assert [answer[1] for _, answer, _ in engine.map(Feeding(tmp_path / "opened"), [7])] == [7]
        assert engine.fed == 1
    assert list(folder.iterdir()) == []


def test_texts_encoded_on_devices_are_those_of_one_worker(engine, tiny_encoder, tmp_path):
    plan = EmbedPlan(embedder=str(tiny_encoder))
    texts = [" ".join(["word"] * (i % 40)) for i in range(600)]
    pieces = [(i, texts[i : i + 25]) for i in range(0, len(texts), 25)]
    with InlineEngine() as one:
        expected = dict(one.map(EmbedTexts(plan), pieces))
    answers = list(engine.map(CountedEmbed(plan, notes=tmp_path / "loaded"), pieces))
    for _, number, vectors in answers:
        np.testing.assert_array_equal(vectors, expected[number])
    loaded = list(map(int, (tmp_path / "loaded").read_text().split()))
    assert len(loaded) == len(set(loaded)) == 2
    assert not {worker for worker, _, _ in answers} & set(loaded)


@pytest.mark.long
def test_a_selection_on_devices_is_that_of_one_worker(tiny_encoder, tmp_path, monkeypatch):
    target, corpus = tmp_path / "target.txt", tmp_path / "corpus.txt"
    target.write_text("\n\n".join(f"the cat sat on mat {i}" for i in range(20)))
    corpus.write_text("\n\n".join(f"a dog ran {i} times. the cat sat." for i in range(300)))

    def scores(engine):
        folder = tmp_path / engine
        machine = Machine(engine, workers=2, cache=folder / "cache")
        options = {"method": "knn", "embedder": str(tiny_encoder), "machine": machine}
        settings = ["read.shard_mb=0.004"]
        run = select(target, corpus, out=folder / "out", settings=settings, **options)
        assert run.manifest["precision"] == resolve(EmbedPlan()).precision
        return {path.name: path.read_bytes() for path in (folder / "out" / "scores").iterdir()}

    expected = scores("inline")
    asked = []
    monkeypatch.setattr("corpusfit.embed.to_feed", lambda name: asked.append(name) or ("cpu",) * 2)
    assert len(expected) > 2
    assert scores("local") == expected
    assert asked
    machine = Machine(workers=2, cache=tmp_path / "local" / "cache")
    words = {"method": "knn", "embedder": str(tiny_encoder), "machine": machine}
    assert estimate(target=target, corpus=corpus, **words)["devices"] == 2
