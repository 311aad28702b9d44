"""Reading a recipe: what it comes to, and the words of every error."""

import dataclasses
import re

import pytest

from corpusfit.errors import UsageError
from corpusfit.pipeline.recipes.loader import read_recipe

STEPS = "adapt = { train.steps = 100 }\n"
PLAIN = """
name = "t"
model = "bert"
pile = ["pile"]
selectors = ["base", "random", "auto"]
adapt = { train.steps = 100 }
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


def test_defaults_and_places(recipe, tmp_path):
    """Paths count from the recipe; a model that is no folder there is a hub id."""
    (tmp_path / "mine").mkdir()
    found = recipe(PLAIN.replace('model = "bert"', 'models = ["bert", "mine"]'))
    assert found.models == ("bert", str(tmp_path / "mine"))
    assert found.pile == (str(tmp_path / "pile"),)
    assert found.tasks[0].path == str(tmp_path / "a")
    assert (found.seeds, found.seed, found.adaptations, found.compare) == (8, 0, 1, "base")
    assert [s.fractions for s in found.selectors] == [(0.2,)] * 3
    assert [s.select.method.name for s in found.selectors] == ["auto", "random", "auto"]


def test_pairs_count_from_the_recipe_too(recipe, tmp_path):
    """Of two commas that is meant which has files on both sides, there."""
    for name in ("a,b.de", "a.en"):
        (tmp_path / name).touch()
    found = recipe(PLAIN.replace('["pile"]', '["pair:a,b.de,a.en", "pair:c.tsv:de,en"]'))
    assert found.pile == (f"pair:{tmp_path}/a,b.de,{tmp_path}/a.en", f"pair:{tmp_path}/c.tsv:de,en")
    with pytest.raises(UsageError, match=r"pile must be a list of files or folders; got \[''\]"):
        recipe(PLAIN.replace('["pile"]', '[""]'))


def test_urls_and_datasets_are_left(recipe):
    found = recipe(PLAIN.replace('["pile"]', '["hub:wiki", "s3://b/pile"]'))
    assert found.pile == ("hub:wiki", "s3://b/pile")


def test_the_environment_names_places(recipe, monkeypatch):
    monkeypatch.setenv("MY_DATA", "/data")
    found = recipe(PLAIN.replace('path = "a"', 'path = "${MY_DATA}/tasks/a"'))
    assert found.tasks[0].path == "/data/tasks/a"


def test_settings_of_a_selector_go_before_those_of_all(recipe):
    text = (
        PLAIN.replace(STEPS, "").replace('"auto"]', '"auto", "sharp", "task"]')
        + """
[select.embed]
embedder = "static"
[adapt.train]
steps = 200
[selector.sharp]
weights = ["lambda"]
fractions = [0.1, 0.3]
[selector.sharp.method]
name = "knn"
k = 3
[selector.sharp.adapt.train]
steps = 300
[evaluate.tune]
epochs = 3
"""
    )
    found = {s.name: s for s in recipe(text).selectors}
    sharp, task = found["sharp"], found["task"]
    assert sharp.select.method.name == "knn"
    assert sharp.select.method.options == {"k": 3}
    assert sharp.select.embed.embedder == found["auto"].select.embed.embedder == "static"
    assert (sharp.fractions, sharp.weights) == ((0.1, 0.3), ("lambda",))
    assert (sharp.adapt.train.steps, sharp.adapt.train.epochs) == (300, None)
    assert found["auto"].adapt.train.steps == 200
    assert (task.adapt.train.keep, task.adapt.train.steps, task.adapt.train.epochs) == (
        "best",
        200,
        None,
    )


def test_the_task_alone_is_trained_on_as_its_paper_says(recipe):
    (selector,) = recipe(
        PLAIN.replace(STEPS, "")
        .replace('["base", "random", "auto"]', '["task"]')
        .replace("[[tasks]]", 'compare = "task"\n[[tasks]]')
    ).selectors
    assert selector.adapt.train.epochs == 100
    assert not selector.selects


def test_a_table_without_epochs_of_its_own_needs_steps(recipe):
    """A selector's own number of passes is not a number of steps that others have too."""
    text = PLAIN + "[selector.auto.adapt]\ntrain.epochs = 2.0\n"
    with pytest.raises(UsageError, match=r"adapt.train.steps must be given for auto"):
        recipe(text)


def test_files_that_methods_name_count_from_the_recipe(recipe, tmp_path):
    (tmp_path / "general.arpa").write_text("x")
    (tmp_path / "encoder").mkdir()
    text = PLAIN.replace('"auto"]', '"moore_lewis", "domain_finetune"]') + (
        '[selector.moore_lewis.method]\narpa_general = "general.arpa"\n'
        '[selector.domain_finetune]\nembed.embedder = "static:encoder"\n'
        'method.embedder = "encoder"\n'
    )
    found = {s.name: s.select for s in recipe(text).selectors}
    lewis, tuned = found["moore_lewis"], found["domain_finetune"]
    assert lewis.method.options == {"arpa_general": str(tmp_path / "general.arpa")}
    assert tuned.method.options == {"embedder": str(tmp_path / "encoder")}
    assert tuned.embed.embedder == f"static:{tmp_path / 'encoder'}"


CONTROL = """
name = "t"
model = "bert"
pile = ["pile"]
selectors = ["other", "base", "oracle"]
fractions = [0.1, 0.3]
adapt = { train.steps = 100 }
selector.oracle.adapt.train.steps = 7
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
    assert (other.of, other.way, other.selects, other.graded) == ("oracle", "oracle", True, False)
    assert [found.taught(other, name).name for name in ("a", "b")] == ["b", "a"]
    assert [found.taught(oracle, name).name for name in ("a", "b")] == ["a", "b"]
    assert base.way == "base"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('other = "b"', "", "tasks.other of a must be the name of another task of the recipe"),
        ('other = "b"', 'other = "a"', "tasks.other of a must be the name of another task"),
        ('other = "b"', 'other = "c"', "another task of the recipe; got 'c'. The selector other"),
        ('of = "oracle"', 'of = "oracel"', "got 'oracel'. Perhaps oracle?"),
        ('of = "oracle"', 'of = "base"', "selector.other.of must be a selector whose text depends"),
        ('of = "oracle"', "of = 3", "selector.other.of must be text; got 3"),
        (
            'selector.other.of = "oracle"',
            'selector.other = { of = "oracle", weights = ["off"] }',
            "selector.other.weights must be left out: oracle says it",
        ),
        ('["x*"]', "[]", "tasks.oracle must be given for every task with the selector oracle"),
    ],
)
def test_errors_of_a_control(recipe, old, new, words):
    assert old in CONTROL
    with pytest.raises(UsageError, match=re.escape(words)):
        recipe(CONTROL.replace(old, new, 1))


def test_a_selector_that_says_how_it_selects_is_no_control(recipe):
    text = CONTROL.replace('"other"', '"auto"').replace("selector.other", "selector.auto")
    with pytest.raises(UsageError, match=r"selector.auto.of must be left out: the name says how"):
        recipe(text)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('name = "t"', "", "name must be given"),
        ('model = "bert"', "", "The model must be given by model or by models; got 'neither'"),
        ('name = "t"', 'name = "t"\nfractoins = 3', "got 'fractoins'. Perhaps fractions?"),
        ('path = "a"', 'path = "a"\nmetrics = "x"', "got 'tasks.metrics'. Perhaps tasks.metric?"),
        ('path = "a"', "", "tasks.path must be given for every task; got 'nothing'"),
        ('path = "a"', 'path = "a"\nmetric = "f1"', "tasks.metric of a must be one of auto, acc"),
        ('"auto"]', '"atuo"]', "got 'atuo'. Perhaps auto?"),
        ('"auto"]', '"random"]', "selectors must be different from each other; got 'random twice'"),
        ('"auto"]', '"oracle"]', "tasks.oracle must be given for every task with the selector"),
        ('pile = ["pile"]', "", "pile must be given for random, auto; got 'nothing'"),
        ('pile = ["pile"]', 'pile = "pile"', "pile must be a list; got 'pile'. Put it into [ ]"),
        ('name = "t"', 'name = "t"\nseeds = 0', "seeds must be above 0; got 0"),
        ('name = "t"', 'name = "t"\nseeds = "8"', "seeds must be a whole number; got '8'"),
        ('name = "t"', 'name = "t"\nadaptations = 9', "adaptations must be at most seeds (8)"),
        ('name = "t"', 'name = "t"\nfractions = [2]', "fractions must be in (0, 1]; got 2.0"),
        ('name = "t"', 'name = "t"\ntrain_sizes = [0]', "train_sizes must be above 0; got 0"),
        ('name = "t"', 'name = "t"\nweights = ["on"]', "weights must be one of off, lambda"),
        ('name = "t"', 'name = "t"\naugment = ["eda"]', "augment must be one of tfidf, back"),
        ('name = "t"', 'name = "t"\ncompare = "task"', "compare must be one of base, random, auto"),
        ('name = "t"', 'name = "t"\npairs = [["auto"]]', "pairs must be of two selectors"),
        ('name = "t"', 'name = "t"\npairs = [["auto", "rand"]]', "got 'rand'. Perhaps random?"),
        ('"a"\n', '"a"\n[select]\nseed = 3\n', "select.seed must be left out: seed says it"),
        ('"a"\n', '"a"\n[adapt.model]\nname = "m"\n', "adapt.model.name must be left out: models"),
        ('"a"\n', '"a"\n[adapt.train]\nstep = 3\n', "Perhaps train.steps?"),
        ('"a"\n', '"a"\n[selector.aut]\nfit.background = 3\n', "got 'aut'. Perhaps auto?"),
        (
            '"a"\n',
            '"a"\n[selector.auto.method]\nname = "knn"\n',
            "method.name must be left out",
        ),
        ('"auto"]', '"auto", "knm"]\nselector.knm.fractions = [0.1]', "got 'knm'. Perhaps knn?"),
        (
            STEPS,
            "",
            "adapt.train.steps must be given for random: models are compared",
        ),
        (
            '"a"\n',
            '"a"\n[evaluate.model]\nrank = 4\n',
            "evaluate.model.rank must be left out",
        ),
        ('"a"\n', '"a"\n[selector.auto.read]\nid_field = "n"\n', "selector.auto.read must be left"),
    ],
)
def test_errors_name_the_setting_what_is_allowed_what_came_and_the_cure(recipe, old, new, words):
    assert old in PLAIN
    text = PLAIN.replace(old, new, 1)
    if old == '"a"\n':
        text = (PLAIN.replace(STEPS, "") if "[adapt" in new else PLAIN) + new.removeprefix('"a"\n')
    with pytest.raises(UsageError, match=re.escape(words)):
        recipe(text)


def test_a_variable_that_is_not_set(recipe, monkeypatch):
    monkeypatch.delenv("NO_SUCH", raising=False)
    with pytest.raises(UsageError, match=r"\$\{NO_SUCH\} in the recipe must be a variable"):
        recipe(PLAIN.replace('["pile"]', '["${NO_SUCH}/pile"]'))


def test_a_file_that_is_no_toml(recipe, tmp_path):
    with pytest.raises(UsageError, match="The recipe must be a readable TOML file"):
        recipe("name = ")
    with pytest.raises(UsageError, match="The recipe must be a readable TOML file"):
        read_recipe(tmp_path / "none.toml")
