"""Reading a recipe: what it comes to, and the words of every error."""

import re
from pathlib import Path

import pytest

pytest.importorskip("langcodes")

from corpusfit.compose.recipe import read_recipe
from corpusfit.errors import UsageError

PLAIN = """
composition = "M_D+M_WIKI"
budget = 1000
[[sources]]
name = "a"
kind = "specific"
language = "deu"
path = "a.jsonl"
[[sources]]
name = "b"
kind = "general"
language = "en"
path = ["b", "s3://bucket/b"]
"""
EXAMPLES = Path(__file__).parents[3] / "examples" / "compose"


@pytest.fixture
def recipe(tmp_path):
    """Read a recipe of some text."""

    def read(text):
        path = tmp_path / "recipe.toml"
        path.write_text(text, "utf-8")
        return read_recipe(path)

    return read


def test_defaults_codes_and_places(recipe, tmp_path):
    """The paper's alpha; each code in its shortest form; paths count from the recipe."""
    found = recipe(PLAIN)
    assert (found.alpha, found.unit, found.sampling, found.repeats) == (
        0.3,
        "sentences",
        "smoothed",
        1,
    )
    assert found.languages == ("de", "en")
    assert found.sources[0].path == (str(tmp_path / "a.jsonl"),)
    assert found.sources[1].path == (str(tmp_path / "b"), "s3://bucket/b")
    assert recipe(PLAIN.replace("budget", 'languages = ["eng", "ger"]\nbudget')).languages == (
        "en",
        "de",
    )


def test_pairs_count_from_the_recipe_too(recipe, tmp_path):
    given = 'path = ["pair:a.de,sub/a.en", "pair:/x/b.tsv:de,en", "pair:s3://b/c.tsv"]'
    found = recipe(PLAIN.replace('path = ["b", "s3://bucket/b"]', given))
    assert found.sources[1].path == (
        f"pair:{tmp_path}/a.de,{tmp_path}/sub/a.en",
        "pair:/x/b.tsv:de,en",
        "pair:s3://b/c.tsv",
    )


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.toml")), ids=lambda p: p.stem)
def test_the_examples_can_be_read(path, monkeypatch):
    monkeypatch.setenv("CORPUSFIT_DATA", "/somewhere")
    assert read_recipe(path).budget > 0


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("budget = 1000", "budget = 0", "budget must be from 1 to 1,000,000,000,000,000; got 0"),
        ("budget = 1000", f"budget = {2**62}", "budget must be from 1 to 1,000,000,000,000,000"),
        ("budget = 1000", f"budget = {2**64}", "budget must be from 1 to 1,000,000,000,000,000"),
        ("budget", f"limits = {{de = {2**63}}}\nbudget", "limits.de must be from 1 to 1,000,000,0"),
        ("budget", "repeats = 1000001\nbudget", "repeats must be from 1 to 1,000,000; got 1000001"),
        ("budget", "seed = -1\nbudget", "seed must be 0 or more, and below 2^63; got -1"),
        ('"a.jsonl"', '""', "source 'a': path must be a list of files or folders; got ['']"),
        (
            '["b", "s3://bucket/b"]',
            '["b", ""]',
            "source 'b': path must be a list of files or folders",
        ),
        ('"a.jsonl"', '"pair:a.de"', "The input must be pair:TEXTS,TRANSLATIONS"),
        ("budget = 1000", "budget = 1.5", "budget must be a whole number; got 1.5"),
        ("budget = 1000", "", "budget must be a number; got 'nothing'"),
        ("budget", "alpha = 1.5\nbudget", "alpha must be from 0 to 1; got 1.5. 1 keeps"),
        ("budget", "alpha = -0.1\nbudget", "alpha must be from 0 to 1; got -0.1"),
        ("budget", "repeats = 0\nbudget", "repeats must be from 1 to 1,000,000; got 0"),
        ("budget", 'sampling = "even"\nbudget', "sampling must be one of smoothed, unimax"),
        ("budget", 'unit = "words"\nbudget', "unit must be one of sentences, tokens"),
        ("budget", "budgets = 1\nbudget", "got 'budgets'. Perhaps budget?"),
        ("M_D+M_WIKI", "MD", "composition must be one of E_D, M_D+E_D, M_D+M_WIKI; got 'MD'"),
        ('"deu"', '"xx"', "source 'a': language must be an ISO 639-1 or ISO 639-3 code"),
        ('"deu"', '"German"', "got 'German'. For instance de or deu"),
        ("budget", 'languages = ["de", "qq"]\nbudget', "languages must be an ISO 639-1"),
        ('language = "deu"', "", "languages must be given where a source does not say its own"),
        ("budget", "limits = {fr = 5}\nbudget", "limits must be for one of de, en; got 'fr'"),
        ('kind = "specific"', 'kind = "special"', "kind must be one of specific, general"),
        ('kind = "specific"', "", "sources.kind must be specific or general; got 'nothing'"),
        ('name = "b"', 'name = "a"', "sources.name must be another for each source; got 'a'"),
        ('name = "b"', 'title = "b"', "got 'sources.title'"),
        ('path = "a.jsonl"', "", "path must be a list of files or folders"),
        ('path = "a.jsonl"', "path = 3", "sources.path must be a list; got 3"),
        ('"deu"', '"de"\nlanguage_field = "l"', "language must be given once"),
        ('"en"', '"en"\nchoose = "dsir"', "target must be given with a method, and only then"),
        ('"deu"', '"de"\nchoose = "dsir"\ntarget = "t"', "choose must be random for specific"),
        ('"deu"', '"de"\ntxt = "pages"', "txt must be one of blocks, lines"),
        ("[[sources]]", "[sources]", "The recipe must be a readable TOML file"),
        ('"a.jsonl"', '"${NOT_SET_ANYWHERE}/a"', "must be a variable of the environment"),
    ],
)
def test_errors(recipe, old, new, words):
    with pytest.raises(UsageError, match=re.escape(words)):
        recipe(PLAIN.replace(old, new, 1))


def test_english_is_needed_for_e_d(recipe):
    with pytest.raises(UsageError, match="languages must be with en in E_D; got 'de'"):
        recipe(PLAIN.replace("M_D+M_WIKI", "E_D").replace('"en"', '"de"'))
