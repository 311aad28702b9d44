"""Reading a recipe: its settings, and an error for each bad one."""

import dataclasses
import errno
from pathlib import Path

import pytest

from corpusfit.core.errors import StorageError, UsageError
from corpusfit_papers.experiments.grid import task_plan
from corpusfit_papers.experiments.loader import read_recipe

STEPS = "adapt = { train.max_steps = 100 }\n"
PLAIN = """
name = "t"
model = "bert"
corpus = ["pile"]
selectors = ["base", "random", "cynical"]
adapt = { train.max_steps = 100 }
[[tasks]]
name = "a"
path = "a"
"""


@pytest.fixture
def recipe(tmp_path):
    """Read a recipe of some text."""

    def read(text):
        path = tmp_path / "recipe.toml"
        path.write_text(text, "utf-8")
        return read_recipe(path)

    return read


def test_defaults_and_paths(recipe, tmp_path):
    """Paths are relative to the recipe; a model that is no folder there is a hub id."""
    (tmp_path / "mine").mkdir()
    found = recipe(PLAIN.replace('model = "bert"', 'models = ["bert", "mine"]'))
    assert found.models == ("bert", str(tmp_path / "mine"))
    assert found.corpus == (str(tmp_path / "pile"),)
    assert found.tasks[0].path == str(tmp_path / "a")
    assert (found.seeds, found.seed, found.adaptations, found.compare) == (8, 0, 1, "base")
    assert [s.fractions for s in found.selectors] == [(0.2,)] * 3
    assert [s.select.method.name for s in found.selectors] == ["cynical", "random", "cynical"]


def test_a_recipe_that_cannot_be_opened_for_want_of_handles(recipe, monkeypatch):
    def full(*_):
        raise OSError(errno.ENFILE, "Too many open files in system")

    monkeypatch.setattr(Path, "read_text", full)
    with pytest.raises(StorageError, match=r"recipe\.toml: Too many open files.*ulimit -n"):
        recipe(PLAIN)


def test_paths_of_pairs_are_relative_to_the_recipe(recipe, tmp_path):
    """The comma that separates the two sides is the one with existing files on both."""
    for name in ("a,b.de", "a.en"):
        (tmp_path / name).touch()
    found = recipe(PLAIN.replace('["pile"]', '["pair:a,b.de,a.en", "pair:c.tsv:de,en"]'))
    assert found.corpus == (
        f"pair:{tmp_path}/a,b.de,{tmp_path}/a.en",
        f"pair:{tmp_path}/c.tsv:de,en",
    )
    with pytest.raises(UsageError, match=r"corpus.*\[''\]"):
        recipe(PLAIN.replace('["pile"]', '[""]'))


def test_urls_and_datasets_are_unchanged(recipe):
    found = recipe(PLAIN.replace('["pile"]', '["hub:wiki", "s3://b/pile"]'))
    assert found.corpus == ("hub:wiki", "s3://b/pile")


def test_environment_variables_in_paths(recipe, monkeypatch):
    monkeypatch.setenv("MY_DATA", "/data")
    found = recipe(PLAIN.replace('path = "a"', 'path = "${MY_DATA}/tasks/a"'))
    assert found.tasks[0].path == "/data/tasks/a"


def test_settings_of_a_selector_override_those_of_all(recipe):
    text = (
        PLAIN.replace(STEPS, "").replace('"cynical"]', '"cynical", "sharp", "task"]')
        + """
[select.embed]
embedder = "static"
[adapt.train]
max_steps = 200
[selector.sharp]
weights = ["lambda"]
fractions = [0.1, 0.3]
[selector.sharp.method]
name = "knn"
k = 3
[selector.sharp.adapt.train]
max_steps = 300
[evaluate.finetune]
epochs = 3
"""
    )
    found = {s.name: s for s in recipe(text).selectors}
    sharp, task = found["sharp"], found["task"]
    assert sharp.select.method.name == "knn"
    assert sharp.select.method.options == {"k": 3}
    assert sharp.select.embed.embedder == found["cynical"].select.embed.embedder == "static"
    assert (sharp.fractions, sharp.weights) == ((0.1, 0.3), ("lambda",))
    assert (sharp.adapt.train.max_steps, sharp.adapt.train.epochs) == (300, None)
    assert found["cynical"].adapt.train.max_steps == 200
    assert (task.adapt.train.keep, task.adapt.train.max_steps, task.adapt.train.epochs) == (
        "best",
        200,
        None,
    )


def test_the_task_selector_starts_from_tapt(recipe):
    (selector,) = recipe(
        PLAIN.replace(STEPS, "")
        .replace('["base", "random", "cynical"]', '["task"]')
        .replace("[[tasks]]", 'compare = "task"\n[[tasks]]')
    ).selectors
    assert selector.adapt.train.epochs == 100
    assert not selector.selects


def test_a_selector_with_epochs_has_no_steps(recipe):
    text = PLAIN + "[selector.cynical.adapt]\ntrain.epochs = 2.0\n"
    train = {s.name: s.adapt.train for s in recipe(text).selectors}
    assert (train["cynical"].max_steps, train["cynical"].epochs) == (None, 2.0)
    assert (train["random"].max_steps, train["random"].epochs) == (100, None)


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ('[selector.cynical]\ndev = ["b"]\n', r"^selector\.cynical\.dev.*one of a.*'b'"),
        ('[selector.cynical]\ndev = "a"\n', r"^selector\.cynical\.dev.*list.*'a'"),
        ('[selector.cynical]\ndev = ["a", "a"]\n', r"^selector\.cynical\.dev.*a twice"),
        ('[selector.base]\ndev = ["a"]\n', r"^selector\.base\.dev.*left out"),
        (
            '[selector.cynical]\ndev = ["a"]\nadapt.then_task.on = true\n',
            r"^selector\.cynical\.dev.*left out",
        ),
    ],
)
def test_dev_names_tasks_for_a_model_that_is_adapted_on_other_texts(recipe, table, words):
    with pytest.raises(UsageError, match=words):
        recipe(PLAIN + table)


def test_files_of_methods_are_relative_to_the_recipe(recipe, tmp_path):
    (tmp_path / "general.arpa").write_text("x")
    (tmp_path / "encoder").mkdir()
    text = PLAIN.replace('"cynical"]', '"moore_lewis", "blend"]') + (
        '[selector.moore_lewis.method]\narpa_general = "general.arpa"\n'
        '[selector.blend]\nembed.embedder = "encoder"\n'
        'method.embedder = "encoder"\n'
    )
    found = {s.name: s.select for s in recipe(text).selectors}
    lewis, tuned = found["moore_lewis"], found["blend"]
    assert lewis.method.options == {"arpa_general": str(tmp_path / "general.arpa")}
    assert tuned.method.options == {"embedder": str(tmp_path / "encoder")}
    assert tuned.embed.embedder == str(tmp_path / "encoder")


CONTROL = """
name = "t"
model = "bert"
corpus = ["pile"]
selectors = ["other", "base", "oracle"]
fractions = [0.1, 0.3]
adapt = { train.max_steps = 100 }
selector.oracle.adapt.train.max_steps = 7
selector.other.of = "oracle"
[[tasks]]
name = "a"
path = "a"
oracle = ["x*"]
other = "b"
[[tasks]]
name = "b"
path = "b"
oracle = ["y*"]
other = "a"
"""


def test_a_control_is_another_selector_for_another_task(recipe):
    """mDAPT, section 5.2; all its settings are those of the selector that it is of."""
    found = recipe(CONTROL)
    other, base, oracle = found.selectors
    assert dataclasses.replace(other, name="oracle", of="") == oracle
    assert (other.of, other.strategy, other.selects, other.has_scores) == (
        "oracle",
        "oracle",
        True,
        False,
    )
    assert [found.training_task(other, name).name for name in ("a", "b")] == ["b", "a"]
    assert [found.training_task(oracle, name).name for name in ("a", "b")] == ["a", "b"]
    assert base.strategy == "base"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('other = "b"', "", r"tasks\.other of a.*nothing"),
        ('other = "b"', 'other = "a"', r"tasks\.other of a.*got 'a'"),
        ('other = "b"', 'other = "c"', r"tasks\.other of a.*got 'c'.*selector other"),
        ('of = "oracle"', 'of = "oracel"', r"selector\.other\.of.*got 'oracel'.*oracle"),
        ('of = "oracle"', 'of = "base"', r"selector\.other\.of.*got 'base'"),
        ('of = "oracle"', "of = 3", r"selector\.other\.of.*got 3"),
        (
            'selector.other.of = "oracle"',
            'selector.other = { of = "oracle", weights = ["off"] }',
            r"selector\.other\.weights.*oracle.*\['off'\]",
        ),
        ('["x*"]', "[]", r"tasks\.oracle.*nothing for a"),
    ],
)
def test_errors_of_a_control(recipe, old, new, words):
    assert old in CONTROL
    with pytest.raises(UsageError, match=words):
        recipe(CONTROL.replace(old, new, 1))


def test_a_selector_that_says_how_it_selects_is_no_control(recipe):
    text = CONTROL.replace('"other"', '"cynical"').replace("selector.other", "selector.cynical")
    with pytest.raises(UsageError, match=r"selector\.cynical\.of.*cynical.*got 'oracle'"):
        recipe(text)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('name = "t"', "", "^name.*nothing"),
        ('model = "bert"', "", r"\bmodel\b.*\bmodels\b.*neither"),
        ('name = "t"', 'name = "t"\nfractoins = 3', "'fractoins'.*fractions"),
        ('path = "a"', 'path = "a"\nmetrics = "x"', r"'tasks\.metrics'.*tasks\.metric\b"),
        ('path = "a"', "", r"tasks\.path.*nothing"),
        ('path = "a"', 'path = "a"\nmetric = "f1"', r"tasks\.metric of a.*accuracy.*'f1'"),
        ('"cynical"]', '"auto"]', "without method.name.*'auto'.*corpusfit rank"),
        ('"cynical"]', '"cynicla"]', "'cynicla'.*cynical"),
        ('"cynical"]', '"random"]', "selectors.*random twice"),
        ('"cynical"]', '"oracle"]', r"tasks\.oracle.*nothing for a"),
        ('corpus = ["pile"]', "", "corpus.*random, cynical.*nothing"),
        ('corpus = ["pile"]', 'corpus = "pile"', r"corpus.*'pile'.*\[ \]"),
        ('name = "t"', 'name = "t"\nseeds = 0', "seeds.*got 0"),
        ('name = "t"', 'name = "t"\nseeds = "eight"', "seeds.*got 'eight'"),
        ('name = "t"', 'name = "t"\nadaptations = 9', r"adaptations.*seeds \(8\).*got 9"),
        ('name = "t"', 'name = "t"\nfractions = [2]', r"fractions.*\(0, 1\].*got 2\.0"),
        ('name = "t"', 'name = "t"\ntrain_sizes = [0]', "train_sizes.*got 0"),
        ('name = "t"', 'name = "t"\nweights = ["on"]', "weights.*off, lambda.*'on'"),
        ('name = "t"', 'name = "t"\naugment = ["eda"]', "augment.*tfidf, back.*'eda'"),
        ('name = "t"', 'name = "t"\ncompare = "task"', "compare.*base, random, cynical.*'task'"),
        ('name = "t"', 'name = "t"\npairs = [["cynical"]]', r"pairs.*\['cynical'\]"),
        ('name = "t"', 'name = "t"\npairs = [["cynical", "rand"]]', "'rand'.*random"),
        ('"a"\n', '"a"\n[select]\nseed = 3\n', r"select\.seed.*got 3"),
        ('"a"\n', '"a"\n[adapt.model]\nname = "m"\n', r"adapt\.model\.name.*models.*'m'"),
        (
            '"a"\n',
            '"a"\n[adapt.train]\nstep = 3\n',
            r"'adapt\.train\.step'\. Perhaps adapt\.train\.max_steps\?",
        ),
        (
            '"a"\n',
            '"a"\n[adapt.trains]\nlearning_rate = 3.0\n',
            r"'adapt\.trains\.learning_rate'.*adapt\.train\.learning_rate\?",
        ),
        (
            '"a"\n',
            '"a"\n[adapt]\ntrain = 3\n',
            r"adapt\.train must be a group.*train\.max_steps=",
        ),
        (
            '"a"\n',
            '"a"\n[adapt.train]\nlearning_rate = "x"\n',
            r"\[adapt\].*train\.learning_rate` must.*'x'",
        ),
        ('"a"\n', '"a"\n[adapt.train]\nrate = 3.0\n', r"`adapt\.train\.learning_rate`"),
        ('"a"\n', '"a"\n[select.cut]\ngamma = "x"\n', r"\[select\].*cut\.gamma` must.*'x'"),
        (
            '"a"\n',
            '"a"\n[evaluate.finetune]\nlearning_rate = "x"\n',
            r"\[evaluate\].*finetune\.learning_rate` must",
        ),
        (
            '"a"\n',
            '"a"\n[selector.cynical.cut]\ngamma = "x"\n',
            r"\[selector\.cynical\].*cut\.gamma` must.*'x'",
        ),
        (
            '"a"\n',
            '"a"\n[selector.cynical.adapt.train]\nlearning_rate = "x"\n',
            r"\[selector\.cynical\.adapt\].*train\.learning_rate` must.*'x'",
        ),
        ('"a"\n', '"a"\n[selector.cynica]\nfit.background = 3\n', "'cynica'.*selectors"),
        (
            '"a"\n',
            '"a"\n[selector.cynical.method]\nname = "knn"\n',
            r"cynical\.method\.name.*'knn'",
        ),
        ('"cynical"]', '"cynical", "knm"]\nselector.knm.fractions = [0.1]', "'knm'.*knn"),
        (STEPS, "", r"adapt\.train\.max_steps.*random.*nothing"),
        ('"a"\n', '"a"\n[evaluate.model]\nrank = 4\n', r"evaluate\.model\.rank.*got 4"),
        ('"a"\n', '"a"\n[selector.cynical.read]\nid_field = "n"\n', r"selector\.cynical\.read"),
    ],
)
def test_errors_name_the_setting_what_is_allowed_what_came_and_the_cure(recipe, old, new, words):
    assert old in PLAIN
    text = PLAIN.replace(old, new, 1)
    if old == '"a"\n':
        text = (PLAIN.replace(STEPS, "") if "[adapt" in new else PLAIN) + new.removeprefix('"a"\n')
    with pytest.raises(UsageError, match=words):
        recipe(text)


def test_a_variable_that_is_not_set(recipe, monkeypatch):
    monkeypatch.delenv("NO_SUCH", raising=False)
    with pytest.raises(UsageError, match=r"\$\{NO_SUCH\}"):
        recipe(PLAIN.replace('["pile"]', '["${NO_SUCH}/pile"]'))


def test_a_file_that_is_no_toml(recipe, tmp_path):
    with pytest.raises(UsageError, match=r"TOML.*recipe\.toml"):
        recipe("name = ")
    with pytest.raises(UsageError, match=r"TOML.*none\.toml"):
        read_recipe(tmp_path / "none.toml")


def test_models_compositions_and_settings_of_a_task(recipe, tmp_path):
    (tmp_path / "mine").mkdir()
    found = recipe(
        PLAIN.replace('"cynical"]', '"mono", "E_D"]')
        + """
models = { mono = "mine" }
compose = { E_D = "bio.toml" }
[tasks.evaluate.task]
separator = ";"
[selector.mono]
model = "en"
[selector.E_D]
compose = "fin.toml"
[search]
selector = "mono"
batch = [16, 32]
epochs = [2, 4, 6]
"""
    )
    (task,), selectors = found.tasks, {s.name: s for s in found.selectors}
    assert task.models == {"mono": str(tmp_path / "mine")}
    assert selectors["mono"].model_for(task, "bert") == str(tmp_path / "mine")
    assert selectors["random"].model_for(task, "bert") == "bert"
    assert selectors["E_D"].composition_for(task) == str(tmp_path / "bio.toml")
    assert [s.strategy for s in found.selectors] == ["base", "random", "base", "compose"]
    assert task_plan(found, task).task.separator == ";"
    assert len(found.search.settings()) == 6


@pytest.mark.parametrize(
    ("more", "match"),
    [
        ("models = { nobody = 'x' }", r"tasks\.models.*nobody"),
        ("compose = 'x'", r"tasks\.compose.*table"),
        ("[tasks.evaluate.task]\nseparators = ';'", "separators"),
        ("[search]\nbatches = [1]", r"search\.batches"),
        ("[search]\nselector = 'random'\nbatch = [1, 2]", r"search\.selector"),
    ],
)
def test_a_task_or_a_search_that_is_not_allowed(recipe, more, match):
    with pytest.raises(UsageError, match=match):
        recipe(PLAIN + more + "\n")
