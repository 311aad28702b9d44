"""`fit` from end to end: the verdict, what it leaves, how it resumes and goes on."""

import dataclasses
import json
import math
import shutil
import types

import pytest
import zstandard
from journeys import WORDS, chats, digests, prose, write_rows

import corpusfit
from corpusfit.core.errors import ChangedInputError, EmptyInputError, UsageError
from corpusfit.fitting import bar, fitting, schedule, vectors, work
from listening import Listening

pytestmark = pytest.mark.slow

pytest.importorskip("accelerate", reason="the extra train is not installed")


@pytest.fixture(scope="module")
def labeled(tmp_path_factory):
    """A task of two topics, with a test split and no dev."""
    folder = tmp_path_factory.mktemp("labeled")
    for split, n, seed in (("train", 60, 0), ("test", 40, 1)):
        rows = [
            {"text": text, "label": topic}
            for topic in ("task", "market")
            for text in prose(topic, n // 2, seed, most=12)
        ]
        write_rows(folder / f"{split}.jsonl", rows)
    return folder


@pytest.fixture(scope="module")
def pile(tmp_path_factory):
    """A corpus of three files, one of them like the task."""
    folder = tmp_path_factory.mktemp("pile")
    for topic in WORDS:
        write_rows(folder / f"{topic}.jsonl", prose(topic, 150, seed=1))
    return folder


@pytest.fixture(scope="module", autouse=True)
def short():
    """Three replicates, with trainings of four steps."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(schedule, "FEWEST_STEPS", 4)
        patch.setattr(schedule, "ENOUGH_STEPS", 4)
        patch.setattr(schedule, "MOST_STEPS", 4)
        patch.setattr(schedule, "MOST", 3)
        patch.setattr(vectors, "FEWEST_WORDS", 50)
        patch.setitem(work.BATCH, "cpu", (4, 32))
        yield


@pytest.fixture(scope="module")
def words(inline, tiny_lm, labeled, pile):
    """What `fit` is given by default."""
    words = {"task": labeled, "corpus": pile, "model": str(tiny_lm), "machine": inline}
    return {**words, "method": "moore_lewis", "time": "10h"}


@pytest.fixture
def fit(tmp_path, words):
    """`fit` in this process."""

    def fit(out="out", **more):
        return corpusfit.fit(out=tmp_path / out, **(words | more))

    return fit


@pytest.fixture(scope="module")
def whole(tmp_path_factory, words):
    """A run that measures everything; no test writes to its folder."""
    return corpusfit.fit(out=tmp_path_factory.mktemp("fit") / "out", **words)


@pytest.fixture
def few(monkeypatch):
    """No fine-tuning, of which no stored costs know."""
    monkeypatch.setattr(work.FitParts, "_answers", False)
    monkeypatch.setattr(work, "read_kept", lambda *_: None)


@pytest.fixture
def drawn(fit, tmp_path):
    """Of a fit the selection and the random texts alone; returns the folder."""

    def drawn(out, **more):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(work.FitParts, "_train", lambda *_, **__: None)
            patch.setattr(work.FitParts, "so_far", lambda *_: "")
            patch.setattr(work.FitParts, "by_amount", stop)
            with pytest.raises(KeyboardInterrupt):
                fit(out, **more)
        return tmp_path / out

    return drawn


def stop(*_, **__):
    raise KeyboardInterrupt


def texts_of(folder):
    return {segment["text"] for segment in corpusfit.open(folder)}


@pytest.mark.slow
def test_it_ends_with_a_verdict_on_all_measures(whole):
    """Loss, probe and fine-tuning of as many models, and the folder of the one to keep."""
    run = whole
    measures = {m["name"]: m for m in run.manifest["measures"]}
    assert list(measures) == ["loss", "general loss", "probe", "fine-tuned"]
    done = run.manifest["schedule"]
    assert measures["probe"]["replicates"] == done["replicates"] >= 3
    assert measures["fine-tuned"]["replicates"] == done["finetunings"] >= 3
    assert len(list((run.path / "models").iterdir())) == 2 * done["replicates"]
    models = {name: str(run.path / f"models/{name}-0") for name in ("selection", "random")}
    models["base"] = run.manifest["plan"]["model"]["name"]
    assert run.keep == models[run.manifest["kept"]]
    gains = run.manifest["word_vectors"]["gains"]
    assert [gain["words"] for gain in gains] == sorted({gain["words"] for gain in gains})
    assert len(gains) >= 2
    rows = run.rows()
    assert len(rows) == 8 + len(gains)
    for row in rows:
        if row["measure"] in measures:  # a score in points, a loss as it is
            measure = measures[row["measure"]]
            scale = 100 if measure["unit"] == "points" else 1
            assert row["selection"] == pytest.approx(scale * measure["selection"])
    # models that give one answer to every text do not differ, and say nothing
    varied = [row for row in rows if row["over_replicates"] or row["over_examples"]]
    assert len(varied) >= 7
    for row in varied:
        assert row["low"] <= row["mean"] <= row["high"] < row["mean"] + row["detectable"]


def test_the_figures_are_those_of_the_steps_own_folders(whole):
    """Every step is a run of its public function that can be opened by itself; both trainings of a
    replicate have equal steps and text.
    """
    run = whole
    loss, general, probe, _ = run.manifest["measures"]
    models = [run.path / "models" / f"selection-{n}" for n in range(3)]
    after = [json.loads((m / "manifest.json").read_text())["losses"]["after"] for m in models]
    assert loss["selection"] == pytest.approx(sum(a["task"] for a in after) / 3)
    assert general["selection"] == pytest.approx(sum(a["general"] for a in after) / 3)
    probed = corpusfit.open(run.path / "probe")
    scores = [o.scores["test"]["macro_f1"] for o in probed.outcomes()]
    assert probe["selection"] == pytest.approx(sum(scores) / 3)
    selected = corpusfit.open(run.path / "selection")
    drawn = corpusfit.open(run.path / "random" / "0")
    wanted = run.manifest["schedule"]["tokens"]
    for found in (selected, drawn):
        assert found.manifest["plan"]["choose"]["tokens"] == wanted
        assert found.manifest["selected"]["tokens"] == pytest.approx(wanted, rel=0.15)
    facts = [
        json.loads((run.path / f"models/{name}-1/manifest.json").read_text())
        for name in ("selection", "random")
    ]
    assert facts[0]["training"] == facts[1]["training"]
    for kind in ("task", "general"):
        assert facts[0]["losses"]["before"][kind] == facts[1]["losses"]["before"][kind]


def test_no_held_out_text_is_selected_by_or_trained_on(fit, tmp_path, labeled, pile, monkeypatch):
    """The corpus contains the whole test split."""
    corpus = shutil.copytree(pile, tmp_path / "corpus")
    task = shutil.copytree(labeled, tmp_path / "task")
    (corpus / "leak.jsonl").write_bytes((task / "test.jsonl").read_bytes())
    with (task / "train.jsonl").open("a") as train:  # a copy with another end
        train.write((task / "test.jsonl").read_text().splitlines()[0].replace(".", "!") + "\n")
    stop_before(monkeypatch, "random-0")
    with pytest.raises(KeyboardInterrupt):
        fit(task=task, corpus=corpus)
    out = tmp_path / "out"
    held, target = (
        {json.loads(line)["text"] for line in file.read_text("utf-8").splitlines()}
        for file in (task / "test.jsonl", out / "task/target.jsonl")
    )
    assert not {text.rstrip(".!") for text in held} & {text.rstrip(".!") for text in target}
    manifest = json.loads((out / "models/selection-0/manifest.json").read_text())
    assert manifest["counts"]["guard"]["data"]["holders"] > 0
    assert any(segment["source"] == "leak.jsonl" for segment in corpusfit.open(out / "selection"))


def stop_before(patch, name):
    """Stop a fit where the training of this model would begin."""
    train = work.FitParts._train

    def stopping(self, schedule, out, *words, **others):
        if out.name == name:
            raise KeyboardInterrupt
        return train(self, schedule, out, *words, **others)

    patch.setattr(work.FitParts, "_train", stopping)


@pytest.mark.slow
def test_it_resumes_by_its_stored_schedule_and_more_time_goes_on(fit, whole, tmp_path, monkeypatch):
    shutil.copytree(whole.path, tmp_path / "out")
    again = fit(time="11h")
    assert again.manifest["measures"] == whole.manifest["measures"]
    before = digests(whole.path, "models", "random", "selection")

    monkeypatch.setattr(schedule, "MOST", 4)
    more = fit(time="20h")
    after = digests(more.path, "models", "random", "selection")
    assert more.manifest["schedule"]["replicates"] == 4
    assert before.items() <= after.items()
    assert len(after) > len(before)
    # a time that is shorter takes nothing back, so a repetition needs the longer one
    assert fit(time="5h").manifest["repeat"] == more.manifest["repeat"]


class _Slow:
    """A clock by which every part takes 40 seconds."""

    now = 0.0

    def perf_counter(self):
        self.now += 40
        return self.now

    monotonic = perf_counter


def measure_costs(monkeypatch, corpus_tokens):
    """In place of measuring: a step takes a tenth of a second, every other part a second."""
    costs = schedule.Costs(select=1, random=1, step=0.1, around=1, probe=1, finetune=0)

    def measured(self, seconds):
        self.costs = costs
        return schedule.first_schedule(costs, seconds, corpus_tokens, batch=4, length=32)

    monkeypatch.setattr(work.FitParts, "measured", measured)


class _Shares(Listening):
    """Also keeps the shares of the bar of all."""

    def __init__(self):
        super().__init__()
        self.shares = [0.0]

    def advance(self, done, units=0):
        self.shares.append(self.shares[-1] + done)


@pytest.mark.slow
def test_replicates_that_do_not_fit_in_the_time_are_dropped(fit, few, monkeypatch, inline):
    """A replicate takes 120 s, so of twelve planned ones the fewest are made, and said why."""
    monkeypatch.setattr(schedule, "MOST", 12)
    measure_costs(monkeypatch, corpus_tokens=10_000)
    clock = _Slow()
    for module in (fitting, work, bar):
        monkeypatch.setattr(module, "time", clock)
    heard = _Shares()
    run = fit(machine=type(inline)(progress=heard), time="7min")
    assert run.manifest["schedule"]["replicates"] == 3
    assert any("3 replicates." in note for note in heard.notes)
    assert any("At this speed" in note for note in heard.notes)
    assert fit(time="7min").manifest["schedule"]["replicates"] == 3  # as it was decided


def test_a_first_training_that_is_too_slow_begins_again_with_fewer_steps(
    fit, few, monkeypatch, inline
):
    """Each step takes ten seconds in place of a tenth, as the second of thirty shows."""
    from corpusfit.fitting import pace

    monkeypatch.setattr(pace, "_FROM", 1)
    monkeypatch.setattr(pace, "_UNTIL", 2)
    monkeypatch.setattr(schedule, "MOST_STEPS", 30)
    monkeypatch.setattr(schedule, "ENOUGH_STEPS", 30)
    measure_costs(monkeypatch, corpus_tokens=100_000)
    monkeypatch.setattr(
        pace, "time", types.SimpleNamespace(perf_counter=iter((0, 10) * 9).__next__)
    )
    heard = Listening()
    run = fit(machine=type(inline)(progress=heard), time="12min")

    steps = run.manifest["schedule"]["max_steps"]
    assert 4 <= steps < 30
    assert any(f"has {steps} steps, not 30" in note for note in heard.notes)
    trained = [
        json.loads((model / "manifest.json").read_text())["training"]["max_steps"]
        for model in (run.path / "models").iterdir()
    ]
    assert trained == [steps] * 6
    assert fit(time="12min").manifest["measures"] == run.manifest["measures"]


def test_the_share_is_the_time_that_has_passed_of_all_by_the_work_left(monkeypatch):
    """Closed form: a part of 100 s that is half done after 100 s, with one of 100 s behind it."""
    clock = _Slow()
    clock.perf_counter = clock.monotonic = lambda: clock.now
    monkeypatch.setattr(bar, "time", clock)
    heard = _Shares()
    whole = bar.FitProgress(heard)
    whole.plan(200)
    part = bar.PartProgress(whole, 100, set())
    part.begin("adapt", 10)
    clock.now = 100
    part.advance(5)
    assert heard.shares[-1] == pytest.approx(100 / (100 + 100 + 100))
    clock.now = 190
    part.advance(4)
    assert heard.shares[-1] == pytest.approx(190 / (190 + 190 / 9 + 100))
    part.complete(was_there=False)
    part = bar.PartProgress(whole, 100, set())
    clock.now = 900  # far later than planned
    part.advance(0)
    assert heard.shares[-1] == pytest.approx(900 / (900 + 71))


def test_plain_texts_are_a_task_whose_loss_is_measured(fit, few, jsonl):
    run = fit(task=jsonl("plain.jsonl", prose("task", 60)))
    assert [measure["name"] for measure in run.manifest["measures"]] == ["loss", "general loss"]
    assert run.manifest["word_vectors"] == {}
    target = (run.path / "task/target.jsonl").read_text().splitlines()
    held = (run.path / "task/heldout.jsonl").read_text().splitlines()
    assert (len(target), len(held)) == (48, 12)
    assert not set(target) & set(held)
    with pytest.raises(ChangedInputError, match="task"):
        fit()  # with another task in the same folder


def test_fields_of_side_files_score_filter_and_are_kept(drawn, pile, tmp_path):
    """The random text that is compared with the selection is of the same rows."""
    every = set()
    for file in pile.iterdir():
        rows = range(len(file.read_text("utf-8").splitlines()))
        write_rows(tmp_path / "side" / file.name, [{"q": n, "usable": n % 2} for n in rows])
        every |= {(file.name, n) for n in rows if n % 2}
    words = {"method": "field:q", "where": "usable == 1", "keep": "usable"}
    out = drawn("out", scores=str(tmp_path / "side"), **words)
    runs = [list(corpusfit.open(out / name)) for name in ("selection", "random/0")]
    assert {segment["usable"] for segment in runs[0]} == {1}
    best, random = ({(segment["source"], segment["row"]) for segment in run} for run in runs)
    assert best | random <= every
    # no row that is left has a higher score than one that is selected
    assert max(row for _, row in every - best) <= min(row for _, row in best)
    assert min(row for _, row in random) < min(row for _, row in best)


@pytest.mark.slow
@pytest.mark.parametrize(
    "loss_on", ["assistant", pytest.param("completion", marks=pytest.mark.long)]
)
def test_chats_are_selected_whole_and_all_is_measured_where_the_loss_is(
    fit, tiny_chat, jsonl, monkeypatch, loss_on
):
    monkeypatch.setitem(work.BATCH_OF_CHATS, "cpu", (4, 256))
    known = chats("task", 40)
    corpus = [*chats("task", 60, 9), *chats("market", 60, 9)]
    run = fit(
        task=jsonl("wanted.jsonl", known),
        corpus=jsonl("chats.jsonl", corpus),
        model=str(tiny_chat),
        kind="language_modeling",
        text_field="messages",
        loss_on=loss_on,
    )
    loss, bits = run.manifest["measures"]
    assert (loss["name"], bits["name"]) == ("loss", "score")
    written = [json.loads(r) for r in (run.path / "task/heldout.jsonl").read_text().splitlines()]
    assert len(written) == 8
    assert all(row in known for row in written)
    # the bits of all models are those of the same bytes as their losses, in another unit
    trained = json.loads((run.path / "models/selection-0/manifest.json").read_text())
    said = sum(len(row["messages"][1]["content"].encode()) for row in written)
    counted = trained["counts"]["task"]["counted"]
    assert -bits["base"] * math.log(2) * said / counted == pytest.approx(
        loss["base"], rel=0.01
    )  # bf16
    # what was selected are whole conversations of the corpus
    (part,) = (run.path / "selection/selected").iterdir()
    texts = {"\n".join(m["content"] for m in row["messages"]) for row in corpus}
    lines = zstandard.decompress(part.read_bytes()).splitlines()
    taken = [json.loads(line)["text"] for line in lines]
    assert taken
    assert set(taken) <= texts


def test_chats_of_another_field_than_the_task_are_refused(fit, tmp_path):
    words = {"kind": "language_modeling", "text_field": "messages", "loss_on": "assistant"}
    with pytest.raises(corpusfit.CorpusfitError, match="corpus_field"):
        fit(corpus_field="turns", **words)
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_the_corpus_may_have_its_text_in_another_field_and_rows_that_are_not_used(
    fit, jsonl, tiny_gpt
):
    """Of a decoder the bits of plain text are measured, too."""
    texts = [*prose("task", 60, 2), *prose("market", 60)]
    rows = [
        {"title": "a", "body": text, "meta": {"body": text}, "kept": number % 2 == 0}
        for number, text in enumerate(texts)
    ]
    run = fit(
        task=jsonl("plain.jsonl", prose("task", 60)),
        corpus=jsonl("fields.jsonl", rows),
        corpus_field="{title}: {meta.body}",
        where="kept == true",
        model=str(tiny_gpt),
    )
    measured = [measure["name"] for measure in run.manifest["measures"]]
    assert measured == ["loss", "general loss", "score"]
    for name in ("selection", "random/1"):
        counts = json.loads((run.path / name / "manifest.json").read_text())["counts"]
        assert (counts["rows"], counts["left_out"], counts["rejected"]) == (120, 60, 0)
        assert any(text.startswith("a: ") for text in texts_of(run.path / name))
    assert "kept == true" in run.manifest["repeat"]


@pytest.mark.slow
def test_a_first_training_whose_loss_rises_is_repeated_at_a_lower_rate(
    fit, few, monkeypatch, inline
):
    """The rate that this model has by default is far too high; a fit that is repeated trains
    nothing anew.
    """
    from corpusfit.training import defaults

    monkeypatch.setattr(defaults, "_RATES", {True: 3.0, False: 3.0})
    heard = Listening()
    run = fit(machine=type(inline)(progress=heard))
    assert run.manifest["learning_rate"] < 3.0
    assert any("rate" in warning for warning in heard.warnings)
    rates = {
        json.loads((model / "manifest.json").read_text())["training"]["learning_rate"]
        for model in (run.path / "models").iterdir()
    }
    assert rates == {run.manifest["learning_rate"]}
    before = digests(run.path, "models")
    assert fit().manifest["measures"] == run.manifest["measures"]
    assert digests(run.path, "models") == before


def test_a_rate_with_which_no_loss_falls_is_the_last_word(tmp_path, monkeypatch, inline):
    """Three rates are tried."""
    rates = []

    def rising(*, learning_rate, **_):
        rates.append(learning_rate or 300.0)
        facts = {"losses": {"before": {"task": 1.0}, "after": {"task": 2.0}}}
        return types.SimpleNamespace(
            manifest={**facts, "training": {"learning_rate": rates[-1]}},
        )

    monkeypatch.setattr(work, "adapt", rising)
    own = property(lambda self: {"learning_rate": self.learning_rate})
    monkeypatch.setattr(work.FitParts, "_training", own)
    parts = object.__new__(work.FitParts)
    parts.learning_rate = None
    parts.at_most = math.inf
    parts.folder = types.SimpleNamespace(schedule=tmp_path / "schedule.json")
    parts.folder.schedule.write_text('{"seconds": 600, "decided": false}')
    parts.store = lambda *_, **__: None
    planned = schedule.Schedule(4, 4, 32, 500, 3, 0)
    parts._train(planned, tmp_path / "out", tmp_path, 0, inline, again=True)
    assert rates == [300, 100, 30]
    assert parts.learning_rate == rates[-1]


@pytest.mark.slow
def test_random_text_as_the_selection_is_other_text_than_the_one_it_is_compared_with(drawn, few):
    run, other = drawn("out", method="random"), drawn("other", method="random", seed=1)
    selected, compared = texts_of(run / "selection"), texts_of(run / "random/0")
    assert len(selected & compared) < 0.5 * len(selected)
    assert texts_of(other / "random/1") != texts_of(run / "random/1")


@pytest.mark.slow
def test_general_text_is_held_out_of_both_trainings(whole):
    """Random text of the corpus, that no text of either training contains."""
    held = (whole.path / "task/general.jsonl").read_text("utf-8").splitlines()
    units = json.loads((whole.path / "selection/manifest.json").read_text())["counts"]["units"]
    assert len(held) == max(8, units // 50)
    texts = {json.loads(line)["text"] for line in held}
    for name in ("selection-0", "random-1"):
        manifest = json.loads((whole.path / f"models/{name}/manifest.json").read_text())
        source = "selection" if name == "selection-0" else "random/1"
        contain = [t for t in texts_of(whole.path / source) if any(h in t for h in texts)]
        assert manifest["counts"]["guard"]["data"]["holders"] >= len(contain)
        assert manifest["heldout"]["general"] == len(texts)
        assert "replay" not in manifest["counts"]["guard"]


@pytest.mark.slow
def test_general_text_of_the_user_is_mixed_into_both_trainings(fit, few, jsonl):
    run = fit(general=jsonl("general.jsonl", prose("market", 80, 7)), replay=0.25)
    assert not (run.path / "task/general.jsonl").exists()
    for name in ("selection-0", "random-1"):
        manifest = json.loads((run.path / f"models/{name}/manifest.json").read_text())
        assert manifest["plan"]["mix"]["replay_share"] == 0.25
        assert manifest["counts"]["general"]["texts"] == 80
    assert {"--general", "--replay"} < set(run.manifest["repeat"])
    with pytest.raises(ChangedInputError, match="replay"):
        fit(general=run.path.parent / "general.jsonl", replay=0.5)


def test_replay_needs_text_to_mix_in(fit, jsonl, tmp_path):
    known = jsonl("wanted.jsonl", chats("task", 10))
    words = {"kind": "language_modeling", "text_field": "messages", "loss_on": "assistant"}
    with pytest.raises(corpusfit.CorpusfitError, match="general"):
        fit(task=known, corpus=known, replay=0.1, **words)
    assert not (tmp_path / "out").exists()


def test_general_text_that_cannot_be_read_or_held_out(fit, few, jsonl):
    other = jsonl("other.jsonl", [{"body": text} for text in prose("market", 10)])
    with pytest.raises(EmptyInputError, match="field of their texts 'text'"):
        fit(general=other)
    one = jsonl("one.jsonl", [{"text": "One text of general things."}])
    run = fit("one", general=one, replay=0.1)
    assert [measure["name"] for measure in run.manifest["measures"]][:2] == ["loss", "probe"]


def test_a_run_may_be_moved(whole, tmp_path):
    moved = corpusfit.open(shutil.copytree(whole.path, tmp_path / "moved"))
    if moved.manifest["kept"] != "base":
        assert moved.keep == str(tmp_path / "moved/models" / f"{moved.manifest['kept']}-0")


@pytest.mark.slow
def test_another_corpus_in_its_place_begins_anew_where_overwrite_is_asked_for(
    fit, few, drawn, jsonl, tmp_path
):
    """Also where the command is stopped, and goes on without it."""
    corpus = jsonl("own.jsonl", [*prose("task", 20, 2), *prose("market", 20)])

    def stopped(name, **more):
        with pytest.MonkeyPatch.context() as patch:
            stop_before(patch, name)
            with pytest.raises(KeyboardInterrupt):
                fit(corpus=corpus, **more)

    out = tmp_path / "out"
    stopped("random-0")
    before = json.loads((out / ".corpusfit/schedule.json").read_text())["schedule"]
    jsonl("own.jsonl", [*prose("task", 200, 5), *prose("market", 200, 6)])
    with pytest.raises(ChangedInputError, match=r"own\.jsonl"):
        fit(corpus=corpus)
    assert (out / "models/selection-0").exists()
    stopped("selection-0", overwrite=True)
    assert not (out / "models/selection-0").exists()
    again, fresh = drawn("out", corpus=corpus), drawn("fresh", corpus=corpus)
    parts = "selection/selected", "random/0/selected", "random/2/selected"
    assert len(digests(fresh, *parts)) == 3
    assert digests(again, *parts) == digests(fresh, *parts)
    after = json.loads((out / ".corpusfit/schedule.json").read_text())["schedule"]
    assert after["tokens"] > before["tokens"]


def test_a_selection_of_much_of_the_distinct_text_is_said_to_be_so(
    whole, words, labeled, jsonl, tmp_path, inline
):
    assert "much the same text" not in whole.manifest["selected"]
    rows = [*prose("task", 10, 2), *prose("market", 10)] * 12
    run = corpusfit.select(
        target=labeled / "train.jsonl",
        corpus=jsonl("copies.jsonl", rows),
        out=tmp_path / "out",
        method="moore_lewis",
        tokens=500,
        machine=inline,
    )
    assert "much the same text" in fitting._selected_by(run.path)


@pytest.mark.parametrize(
    "form",
    ["multilabel", "conll", "encoder", pytest.param("regression", marks=pytest.mark.long)],
)
def test_tasks_and_models_of_every_kind(fit, few, tmp_path, tiny_encoder, jsonl, form):
    """Words with tags are probed; of several labels or a number a text the loss is measured; of a
    sentence encoder no loss of the base counts.
    """
    probed = ["loss", "general loss", "probe"]
    expected = {"conll": probed, "encoder": probed}
    texts = prose("task", 90, most=12)
    words = {}
    if form == "conll":
        (tmp_path / "tags").mkdir()
        for split, begin in (("train", 0), ("dev", 30), ("test", 60)):
            lines = (
                "".join(f"{word} {'B-X' if 'i' in word else 'O'}\n" for word in text.split())
                for text in texts[begin : begin + 30]
            )
            (tmp_path / f"tags/{split}.conll").write_text("\n".join(lines))
        words["task"] = tmp_path / "tags"
    elif form == "regression":
        rows = [{"text": t, "label": len(t) / 100} for t in texts]
        words |= {"task": jsonl("numbers.jsonl", rows), "kind": "regression"}
    elif form == "encoder":
        words |= {"model": str(tiny_encoder), "objective": "tsdae"}
    else:
        rows = [{"text": t, "label": ["a", "b"][: 1 + i % 2]} for i, t in enumerate(texts)]
        words["task"] = jsonl("several.jsonl", rows)
    run = fit(**words)
    measures = run.manifest["measures"]
    assert [measure["name"] for measure in measures] == expected.get(form, probed[:2])
    assert measures[0]["of_base"] is (form != "encoder")


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"time": "1s"}, "time"),
        ({"time": "soon"}, "time"),
        ({"model": ""}, "model"),
        ({"method": "none_such"}, "method"),
        ({"corpus": "-"}, "corpus"),
        ({"objective": "none_such"}, "objective"),
        ({"where": "score >"}, "where"),
        ({"replay": 1.0}, "replay"),
        ({"replay": "general.jsonl"}, "general"),
        ({"replay": 0.1, "train_with": "true {data} {out}"}, "replay"),
    ],
)
def test_what_cannot_be_done_is_refused_before_anything_is_trained(fit, given, named, tmp_path):
    with pytest.raises(Exception, match=named) as error:
        fit(**given)
    assert isinstance(error.value, corpusfit.CorpusfitError)
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_a_field_that_may_be_the_label_is_asked_for(words, jsonl):
    rows = [
        {"sentence": text, "id": i, "intent": ["ask", "tell", 3][i % 3], "of": "one place"}
        for i, text in enumerate(prose("task", 60))
    ]
    given = {"task": jsonl("task.jsonl", rows), "text_field": "sentence", "corpus_field": "text"}
    words = {**words, **given}
    cures = "`label_field=intent`.*`kind=language_modeling`"
    with pytest.raises(corpusfit.CorpusfitError, match=cures):
        corpusfit.fit.dry_run(**words)
    plain = corpusfit.fit.dry_run(**words, kind="language_modeling")
    assert "48 texts to select by and 12 held-out ones" in plain["words"]


def test_a_task_with_labels_in_its_test_split_alone_is_no_plain_text(fit, jsonl):
    jsonl("half/train.jsonl", [{"text": text, "label": None} for text in prose("task", 30)])
    tested = [{"text": text, "label": "ab"[i % 2]} for i, text in enumerate(prose("market", 30))]
    folder = jsonl("half/test.jsonl", tested).parent
    with pytest.raises(EmptyInputError, match="label"):
        fit(task=folder)


@pytest.mark.slow
def test_a_dry_run_tells_of_test_texts_that_are_trained_on_and_writes_nothing(
    words, labeled, tmp_path
):
    facts = corpusfit.fit.dry_run(**words)
    assert facts["replicates"] >= 3
    assert facts["seconds"] <= facts["needed_s"] <= 36_000
    assert "test texts are training" not in facts["words"]
    assert "gain in macro f1" in facts["words"]  # the metric that decides
    task = shutil.copytree(labeled, tmp_path / "task")
    with (task / "test.jsonl").open("a") as test:
        test.writelines((task / "train.jsonl").read_text().splitlines(keepends=True)[:3])
    facts = corpusfit.fit.dry_run(**{**words, "task": task})
    assert "3 of the test texts are training" in facts["words"]
    assert list(tmp_path.iterdir()) == [task]


@pytest.mark.slow
def test_costs_are_measured_once_until_the_corpus_the_load_or_the_user_says_otherwise(
    fit, words, pile, tmp_path, inline, monkeypatch
):
    measured = []
    measure = work.FitParts._measure_costs

    def counting(self, *, busy):
        measured.append(busy)
        return measure(self, busy=busy)

    load = [""]
    monkeypatch.setattr(work.FitParts, "_measure_costs", counting)
    monkeypatch.setattr(work, "_load", lambda: load[0])
    corpus = tmp_path / "corpus"
    shutil.copytree(pile, corpus)
    heard = Listening()
    machine = dataclasses.replace(inline, cache=tmp_path / "cache", progress=heard)

    def refused(machine=machine):
        with pytest.raises(UsageError, match="at least"):
            fit(corpus=corpus, time="1s", machine=machine)
        return list(measured)

    assert refused() == [False]
    assert not corpusfit.fit.dry_run(
        **words | {"corpus": corpus, "time": "1s", "machine": machine}
    )["enough"]
    assert refused() == [False]
    assert not (tmp_path / "out").exists()
    load[0] = "load 9 on 2 cores"  # costs of a quiet machine stay, and it is said
    assert refused() == [False]
    assert [load[0] in warning for warning in heard.warnings] == [True]
    write_rows(corpus / "more.jsonl", prose("task", 20, seed=5))
    assert refused() == [False, True]
    load[0] = ""  # those of a busy one do not
    assert refused() == [False, True, False]
    assert refused(dataclasses.replace(machine, verify=True)) == [False, True, False, False]


def test_a_dry_run_of_too_short_a_time_shows_the_least_that_can_be_done(fit, words):
    facts = corpusfit.fit.dry_run(**{**words, "time": "1s"})
    assert facts["needed_s"] > 1
    assert (facts["replicates"], facts["max_steps"], facts["finetunings"]) == (3, 4, 0)


@pytest.mark.slow
def test_the_command_and_the_one_that_repeats_it_are_the_same_run(
    few, cli, labeled, pile, tiny_lm, tmp_path
):
    done = cli(
        "fit", "--task", labeled, "--corpus", pile, "--model", tiny_lm, "--time", "10h",
        "--out", tmp_path / "out", "--method", "moore_lewis", "--seed", 3, "--metric", "accuracy",
        "--kind", "classification",
    )  # fmt: skip
    assert done.code == 0, done.err
    assert "gain over random" in done.out
    assert (tmp_path / "out/report.html").exists()
    run = corpusfit.open(tmp_path / "out")
    _, *words = run.manifest["repeat"]
    again = cli(*words, "--out", run.path, "--json")
    assert again.code == 0, again.err
    assert json.loads(again.out)["measures"] == run.manifest["measures"]
