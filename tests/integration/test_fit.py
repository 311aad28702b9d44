"""`fit` from end to end: the verdict, what it leaves, how it resumes and goes on."""

import json
import math

import pytest
import zstandard
from journeys import chats, digests, prose

import corpusfit
from corpusfit.core.errors import ChangedInputError, EmptyInputError
from corpusfit.fitting import bar, fitting, schedule, work
from listening import Listening

pytestmark = pytest.mark.slow

pytest.importorskip("accelerate", reason="the extra train is not installed")


@pytest.fixture
def labeled(jsonl):
    """A task of two topics, with a test split and no dev."""
    for split, n, seed in (("train", 60, 0), ("test", 40, 1)):
        rows = [
            {"text": text, "label": topic}
            for topic in ("task", "market")
            for text in prose(topic, n // 2, seed, most=12)
        ]
        folder = jsonl(f"labeled/{split}.jsonl", rows).parent
    return folder


@pytest.fixture(autouse=True)
def short(monkeypatch):
    """Three replicates, with trainings of four steps."""
    monkeypatch.setattr(schedule, "FEWEST_STEPS", 4)
    monkeypatch.setattr(schedule, "ENOUGH_STEPS", 4)
    monkeypatch.setattr(schedule, "MOST_STEPS", 4)
    monkeypatch.setattr(schedule, "MOST", 3)
    monkeypatch.setitem(work.BATCH, "cpu", (4, 32))


@pytest.fixture
def fit(tmp_path, inline, tiny_lm, labeled, pile):
    """`fit` in this process."""

    def fit(out="out", **words):
        given = {"task": labeled, "corpus": pile, "model": str(tiny_lm), "machine": inline}
        given |= {"method": "moore_lewis", "time": "10min"}
        return corpusfit.fit(out=tmp_path / out, **(given | words))

    return fit


@pytest.fixture
def few(monkeypatch):
    """No fine-tuning."""
    monkeypatch.setattr(work.Work, "_answers", False)


@pytest.mark.slow
def test_it_ends_with_a_verdict_on_all_measures(fit, tmp_path):
    """Loss, probe and fine-tuning of as many models, and the folder of the one to keep."""
    run = fit()
    measures = {m["name"]: m for m in run.manifest["measures"]}
    assert list(measures) == ["loss", "probe", "fine-tuned"]
    done = run.manifest["schedule"]
    assert measures["probe"]["replicates"] == done["replicates"] >= 3
    assert measures["fine-tuned"]["replicates"] == done["finetunings"] >= 3
    assert len(list((run.path / "models").iterdir())) == 2 * done["replicates"]
    models = {name: str(tmp_path / f"out/models/{name}-0") for name in ("selection", "random")}
    models["base"] = run.manifest["plan"]["model"]["name"]
    assert run.keep == models[run.manifest["kept"]]
    rows = run.rows()
    assert len(rows) == 6
    # models that give one answer to every text do not differ, and say nothing
    varied = [row for row in rows if row["over_replicates"] or row["over_examples"]]
    assert len(varied) >= 5
    for row in varied:
        assert row["low"] <= row["mean"] <= row["high"] < row["mean"] + row["detectable"]


def test_the_figures_are_those_of_the_steps_own_folders(fit, few):
    """Every step is a run of its public function that can be opened by itself; both trainings of a
    replicate have equal steps and text.
    """
    run = fit()
    loss, probe = run.manifest["measures"]
    models = [run.path / "models" / f"selection-{n}" for n in range(3)]
    after = [json.loads((m / "manifest.json").read_text())["losses"]["after"] for m in models]
    assert loss["selection"] == pytest.approx(sum(a["task"] for a in after) / 3)
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
    assert facts[0]["losses"]["before"]["task"] == facts[1]["losses"]["before"]["task"]


def test_no_held_out_text_is_selected_by_or_trained_on(fit, few, tmp_path, labeled, pile):
    """The corpus contains the whole test split."""
    (pile / "leak.jsonl").write_bytes((labeled / "test.jsonl").read_bytes())
    with (labeled / "train.jsonl").open("a") as train:  # a copy with another end
        train.write((labeled / "test.jsonl").read_text().splitlines()[0].replace(".", "!") + "\n")
    run = fit()
    held, target = (
        {json.loads(line)["text"] for line in file.read_text("utf-8").splitlines()}
        for file in (labeled / "test.jsonl", run.path / "task/target.jsonl")
    )
    assert not {text.rstrip(".!") for text in held} & {text.rstrip(".!") for text in target}
    manifest = json.loads((run.path / "models/selection-0/manifest.json").read_text())
    assert manifest["counts"]["guard"]["data"]["holders"] > 0
    assert any(
        segment["source"] == "leak.jsonl" for segment in corpusfit.open(run.path / "selection")
    )


@pytest.mark.slow
def test_it_resumes_by_its_stored_schedule_and_more_time_goes_on(fit, few, monkeypatch):
    first = fit()
    again = fit(time="20min")
    assert again.manifest["measures"] == first.manifest["measures"]
    before = digests(first.path, "models", "random", "selection")

    monkeypatch.setattr(schedule, "MOST", 4)
    more = fit(time="60min")
    after = digests(more.path, "models", "random", "selection")
    assert more.manifest["schedule"]["replicates"] == 4
    assert before.items() <= after.items()
    assert len(after) > len(before)


class _Slow:
    """A clock by which every part takes 40 seconds."""

    now = 0.0

    def perf_counter(self):
        self.now += 40
        return self.now

    monotonic = perf_counter


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
    clock = _Slow()
    for module in (fitting, work, bar):
        monkeypatch.setattr(module, "time", clock)
    heard = _Shares()
    run = fit(machine=type(inline)(progress=heard), time="7min")
    assert run.manifest["schedule"]["replicates"] == 3
    assert any("3 replicates." in note for note in heard.notes)
    assert any("At this speed" in note for note in heard.notes)
    assert fit().manifest["schedule"]["replicates"] == 3  # as it was decided


def test_the_share_is_the_time_that_has_passed_of_all_by_the_work_left(monkeypatch):
    """Closed form: a part of 100 s that is half done after 100 s, with one of 100 s behind it."""
    clock = _Slow()
    clock.perf_counter = clock.monotonic = lambda: clock.now
    monkeypatch.setattr(bar, "time", clock)
    heard = _Shares()
    whole = bar.Whole(heard)
    whole.plan(200)
    part = bar.Part(whole, 100, set())
    part.begin("adapt", 10)
    clock.now = 100
    part.advance(5)
    assert heard.shares[-1] == pytest.approx(100 / (100 + 100 + 100))
    clock.now = 190
    part.advance(4)
    assert heard.shares[-1] == pytest.approx(190 / (190 + 190 / 9 + 100))
    part.complete(was_there=False)
    part = bar.Part(whole, 100, set())
    clock.now = 900  # far later than planned
    part.advance(0)
    assert heard.shares[-1] == pytest.approx(900 / (900 + 71))


def test_plain_texts_are_a_task_whose_loss_is_measured(fit, few, jsonl):
    run = fit(task=jsonl("plain.jsonl", prose("task", 60)))
    (loss,) = run.manifest["measures"]
    assert loss["name"] == "loss"
    target = (run.path / "task/target.jsonl").read_text().splitlines()
    held = (run.path / "task/heldout.jsonl").read_text().splitlines()
    assert (len(target), len(held)) == (48, 12)
    assert not set(target) & set(held)
    with pytest.raises(ChangedInputError, match="task"):
        fit()  # with another task in the same folder


@pytest.mark.slow
@pytest.mark.parametrize("loss_on", ["assistant", "completion"])
def test_chats_are_selected_whole_and_all_is_measured_where_the_loss_is(
    fit, tiny_chat, jsonl, monkeypatch, loss_on
):
    monkeypatch.setitem(work.BATCH_OF_CHATS, "cpu", (4, 256))
    known = chats("task", 40)
    corpus = [*chats("task", 150, 9), *chats("market", 150, 9)]
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
def test_the_corpus_may_have_its_text_in_another_field(fit, jsonl, tiny_gpt):
    texts = [*prose("task", 60, 2), *prose("market", 60)]
    rows = [{"title": "a", "body": text, "meta": {"body": text}} for text in texts]
    run = fit(
        task=jsonl("plain.jsonl", prose("task", 60)),
        corpus=jsonl("fields.jsonl", rows),
        corpus_field="{title}: {meta.body}",
        model=str(tiny_gpt),
    )
    assert [measure["name"] for measure in run.manifest["measures"]] == ["loss", "score"]
    counts = json.loads((run.path / "selection/manifest.json").read_text())["counts"]
    assert (counts["rows"], counts["rejected"]) == (120, 0)


@pytest.mark.slow
def test_only_rows_that_a_filter_keeps_are_selected_or_drawn(fit, jsonl, tiny_gpt):
    texts = [*prose("task", 60, 2), *prose("market", 60)]
    rows = [{"text": text, "kept": number % 2 == 0} for number, text in enumerate(texts)]
    run = fit(
        task=jsonl("plain.jsonl", prose("task", 60)),
        corpus=jsonl("marked.jsonl", rows),
        where="kept == true",
        model=str(tiny_gpt),
    )
    for name in ("selection", "random/1"):
        counts = json.loads((run.path / name / "manifest.json").read_text())["counts"]
        assert (counts["rows"], counts["left_out"]) == (120, 60)
    assert "kept == true" in run.manifest["repeat"]


@pytest.mark.slow
def test_a_first_training_whose_loss_rises_is_repeated_at_a_lower_rate(
    fit, few, monkeypatch, inline
):
    """The rate that this model has by default is far too high."""
    from corpusfit.training import presets

    monkeypatch.setattr(presets, "_RATES", {True: 3.0, False: 3.0})
    heard = Listening()
    run = fit(machine=type(inline)(progress=heard))
    assert run.manifest["learning_rate"] < 3.0
    assert any("rate" in warning for warning in heard.warnings)
    rates = {
        json.loads((model / "manifest.json").read_text())["training"]["learning_rate"]
        for model in (run.path / "models").iterdir()
    }
    assert rates == {run.manifest["learning_rate"]}


@pytest.mark.slow
def test_a_rate_with_which_no_loss_falls_is_the_last_word(fit, few, monkeypatch):
    """Three rates are tried; a fit that is repeated trains nothing anew."""
    from corpusfit.training import presets

    monkeypatch.setattr(presets, "_RATES", {True: 300.0, False: 300.0})
    run = fit()
    assert run.manifest["learning_rate"] == pytest.approx(300 / 9, rel=0.2)
    before = digests(run.path, "models")
    assert fit().manifest["measures"] == run.manifest["measures"]
    assert digests(run.path, "models") == before


@pytest.mark.slow
def test_random_text_as_the_selection_is_other_text_than_the_one_it_is_compared_with(
    fit, few, tmp_path
):
    run = fit(method="random")
    selected, drawn = (
        {segment["text"] for segment in corpusfit.open(run.path / name)}
        for name in ("selection", "random/0")
    )
    assert len(selected & drawn) < 0.5 * len(selected)
    other = fit("other", seed=1)
    assert {s["text"] for s in corpusfit.open(other.path / "random/1")} != {
        s["text"] for s in corpusfit.open(run.path / "random/1")
    }
    moved = (tmp_path / "out").rename(tmp_path / "moved")
    kept = corpusfit.open(moved)
    if kept.manifest["kept"] != "base":
        assert kept.keep == str(moved / "models" / f"{kept.manifest['kept']}-0")


@pytest.mark.slow
def test_another_corpus_in_its_place_begins_anew_where_overwrite_is_asked_for(fit, few, jsonl):
    """Also where the command is stopped, and goes on without it."""
    corpus = jsonl("own.jsonl", [*prose("task", 20, 2), *prose("market", 20)])
    before = fit(corpus=corpus)
    jsonl("own.jsonl", [*prose("task", 200, 5), *prose("market", 200, 6)])
    with pytest.raises(ChangedInputError, match=r"own\.jsonl"):
        fit(corpus=corpus)
    train = work.Work._train

    def stopping(self, schedule, out, *words, **others):
        if out.name == "random-2":
            raise KeyboardInterrupt
        return train(self, schedule, out, *words, **others)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(work.Work, "_train", stopping)
        with pytest.raises(KeyboardInterrupt):
            fit(corpus=corpus, overwrite=True)
    again, fresh = fit(corpus=corpus), fit("fresh", corpus=corpus)
    assert again.manifest["schedule"]["tokens"] == fresh.manifest["schedule"]["tokens"]
    assert again.manifest["schedule"]["tokens"] > before.manifest["schedule"]["tokens"]
    assert again.manifest["measures"] == fresh.manifest["measures"]


@pytest.mark.slow
def test_a_selection_of_much_of_the_distinct_text_is_said_to_be_so(fit, few, jsonl):
    once = fit("once", corpus=jsonl("once.jsonl", [*prose("task", 60, 2), *prose("market", 60)]))
    assert "much the same text" not in once.manifest["selected"]
    rows = [*prose("task", 10, 2), *prose("market", 10)] * 12
    assert "much the same text" in fit(corpus=jsonl("copies.jsonl", rows)).manifest["selected"]


@pytest.mark.slow
def test_the_command_that_repeats_it_is_the_same_run(fit, few, cli, labeled):
    run = fit(seed=3, metric="accuracy", kind="classification")
    _, *words = run.manifest["repeat"]
    done = cli(*words, "--out", run.path, "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["measures"] == run.manifest["measures"]


@pytest.mark.parametrize(
    "form",
    [
        "multilabel",
        *(
            pytest.param(form, marks=pytest.mark.slow)
            for form in ("conll", "brat", "txt", "regression", "decoder", "encoder")
        ),
    ],
)
def test_tasks_and_models_of_every_kind(
    fit, request, tmp_path, tiny_gpt, tiny_encoder, jsonl, form
):
    """Words with tags are probed; of several labels or a number a text, and of plain text, the
    loss is measured, and with a decoder the bits; of a sentence encoder no loss of the base counts.
    """
    probed = ["loss", "probe"]
    expected = {"conll": probed, "brat": probed, "encoder": probed, "decoder": ["loss", "score"]}
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
    elif form == "brat":
        for i, text in enumerate(texts):
            place = tmp_path / f"brat/{('train', 'dev', 'test')[i % 3]}/{i}.txt"
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text)
            first = text.split()[0]
            place.with_suffix(".ann").write_text(f"T1\tX 0 {len(first)}\t{first}\n")
        words["task"] = tmp_path / "brat"
    elif form == "regression":
        rows = [{"text": t, "label": len(t) / 100} for t in texts]
        words |= {"task": jsonl("numbers.jsonl", rows), "kind": "regression"}
    elif form == "encoder":
        words |= {"model": str(tiny_encoder), "objective": "tsdae"}
    elif form == "multilabel":
        rows = [{"text": t, "label": ["a", "b"][: 1 + i % 2]} for i, t in enumerate(texts)]
        words["task"] = jsonl("several.jsonl", rows)
    else:
        words["task"] = tmp_path / "plain.txt"
        words["task"].write_text("\n\n".join(texts))
    if form == "decoder":
        words["model"] = str(tiny_gpt)
    else:
        request.getfixturevalue("few")
    run = fit(**words)
    measures = run.manifest["measures"]
    assert [measure["name"] for measure in measures] == expected.get(form, ["loss"])
    assert measures[0]["of_base"] is (form != "encoder")


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ({"time": "1s"}, "time"),
        ({"time": "soon"}, "time"),
        ({"model": ""}, "model"),
        ({"method": "none_such"}, "method"),
        ({"corpus": "-"}, "corpus"),
        ({"objective": "none_such"}, "objective"),
        ({"where": "score >"}, "where"),
    ],
)
def test_what_cannot_be_done_is_refused_before_anything_is_trained(fit, words, named, tmp_path):
    with pytest.raises(Exception, match=named) as error:
        fit(**words)
    assert isinstance(error.value, corpusfit.CorpusfitError)
    assert not (tmp_path / "out").exists()


def test_a_task_with_labels_in_its_test_split_alone_is_no_plain_text(fit, jsonl):
    jsonl("half/train.jsonl", [{"text": text, "label": None} for text in prose("task", 30)])
    tested = [{"text": text, "label": "ab"[i % 2]} for i, text in enumerate(prose("market", 30))]
    folder = jsonl("half/test.jsonl", tested).parent
    with pytest.raises(EmptyInputError, match="label"):
        fit(task=folder)


@pytest.mark.slow
def test_a_dry_run_writes_nothing(fit, tmp_path, labeled, pile, tiny_lm, inline):
    facts = corpusfit.fit.dry_run(
        task=labeled, corpus=pile, model=str(tiny_lm), time="10min", machine=inline
    )
    assert facts["replicates"] >= 3
    assert facts["seconds"] <= facts["needed_s"] <= 600
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_test_texts_that_are_trained_on_are_told_before_anything(labeled, pile, tiny_lm, inline):
    words = {"task": labeled, "corpus": pile, "model": str(tiny_lm), "machine": inline}
    before = corpusfit.fit.dry_run(**words)["words"]
    assert "test texts are training" not in before
    assert "gain in macro f1" in before  # the metric that decides
    with (labeled / "test.jsonl").open("a") as test:
        test.writelines((labeled / "train.jsonl").read_text().splitlines(keepends=True)[:3])
    assert "3 of the test texts are training" in corpusfit.fit.dry_run(**words)["words"]


@pytest.mark.slow
def test_a_dry_run_of_too_short_a_time_shows_the_least_that_can_be_done(
    labeled, pile, tiny_lm, inline
):
    words = {"task": labeled, "corpus": pile, "model": str(tiny_lm), "machine": inline}
    facts = corpusfit.fit.dry_run(time="1s", **words)
    assert facts["needed_s"] > 1
    assert (facts["replicates"], facts["max_steps"], facts["finetunings"]) == (3, 4, 0)
    with pytest.raises(corpusfit.CorpusfitError, match="at least"):
        corpusfit.fit(time="1s", out="never", **words)


@pytest.mark.slow
def test_the_command(fit, few, cli, labeled, pile, tiny_lm, tmp_path):
    done = cli(
        "fit", "--task", labeled, "--corpus", pile, "--model", tiny_lm, "--time", "10min",
        "--out", tmp_path / "out", "--method", "moore_lewis",
    )  # fmt: skip
    assert done.code == 0, done.err
    assert "gain over random" in done.out
    assert (tmp_path / "out/report.html").exists()
