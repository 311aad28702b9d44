"""Reading a recipe: its settings, and an error for each bad one."""

from pathlib import Path

import pytest

pytest.importorskip("langcodes")

from corpusfit.core.errors import UsageError
from corpusfit_papers.mixing.plan import read_recipe

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
EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def recipe(tmp_path):
    """Read a recipe of some text."""

    def read(text):
        path = tmp_path / "recipe.toml"
        path.write_text(text, "utf-8")
        return read_recipe(path)

    return read


def test_defaults_codes_and_paths(recipe, tmp_path):
    """The paper's alpha; each code in its shortest form; paths relative to the recipe."""
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


def test_paths_of_pairs_are_relative_to_the_recipe(recipe, tmp_path):
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
        ("budget = 1000", "budget = 0", r"budget.*1,000,000,000,000,000.*got 0"),
        ("budget = 1000", f"budget = {2**62}", rf"budget.*1,000,000,000,000,000.*{2**62}"),
        ("budget = 1000", f"budget = {2**64}", rf"budget.*1,000,000,000,000,000.*{2**64}"),
        ("budget", f"limits = {{de = {2**63}}}\nbudget", rf"limits\.de.*1,000,000,0.*{2**63}"),
        ("budget", "repeats = 1000001\nbudget", r"repeats.*1,000,000.*got 1000001"),
        ("budget", "seed = -1\nbudget", r"seed.*2\^63.*got -1"),
        ('"a.jsonl"', '""', r"source 'a': path.*\[''\]"),
        ('["b", "s3://bucket/b"]', '["b", ""]', r"source 'b': path.*, ''\]"),
        ('"a.jsonl"', '"pair:a.de"', "pair:.*'pair:a.de'"),
        ("budget = 1000", "budget = 1.5", r"budget.*got 1\.5"),
        ("budget = 1000", "", "^budget.*nothing"),
        ("budget", "alpha = 1.5\nbudget", r"alpha.*0 to 1.*got 1\.5"),
        ("budget", "alpha = -0.1\nbudget", r"alpha.*0 to 1.*got -0\.1"),
        ("budget", "repeats = 0\nbudget", "repeats.*1 to 1,000,000.*got 0"),
        ("budget", 'sampling = "even"\nbudget', "sampling.*smoothed, unimax.*'even'"),
        ("budget", 'unit = "words"\nbudget', "unit.*sentences, tokens.*'words'"),
        ("budget", "budgets = 1\nbudget", r"'budgets'.*budget\b"),
        ("M_D+M_WIKI", "MD", r"composition.*E_D, M_D\+E_D, M_D\+M_WIKI.*'MD'"),
        ('"deu"', '"xx"', "source 'a': language.*ISO 639-1.*'xx'"),
        ('"deu"', '"German"', r"language.*'German'.*\bdeu\b"),
        ("budget", 'languages = ["de", "qq"]\nbudget', "languages.*ISO 639-1.*'qq'"),
        ('language = "deu"', "", "^languages.*none"),
        ("budget", "limits = {fr = 5}\nbudget", "limits.*de, en.*'fr'"),
        ('kind = "specific"', 'kind = "special"', "kind.*specific, general.*'special'"),
        ('kind = "specific"', "", r"sources\.kind.*specific or general.*nothing"),
        ('name = "b"', 'name = "a"', r"sources\.name.*got 'a'"),
        ('name = "b"', 'title = "b"', r"'sources\.title'"),
        ('path = "a.jsonl"', "", r"source 'a': path.*\[\]"),
        ('path = "a.jsonl"', "path = 3", r"sources\.path.*got 3"),
        ('"deu"', '"de"\nlanguage_field = "l"', "source 'a': language.*'de and l'"),
        ('"en"', '"en"\nchoose = "dsir"', "source 'b': target.*'dsir'"),
        ('"deu"', '"de"\nchoose = "dsir"\ntarget = "t"', "source 'a': choose.*'dsir'"),
        ('"deu"', '"de"\ntxt = "pages"', "txt.*blocks, lines.*'pages'"),
        ("[[sources]]", "[sources]", r"TOML.*recipe\.toml"),
        ('"a.jsonl"', '"${NOT_SET_ANYWHERE}/a"', r"\$\{NOT_SET_ANYWHERE\}"),
        ('"a.jsonl"', '"s3://x/${HOME}.jsonl"', r"\$\{HOME\}.*address"),
    ],
)
def test_errors(recipe, old, new, words):
    with pytest.raises(UsageError, match=words):
        recipe(PLAIN.replace(old, new, 1))


def test_english_is_needed_for_e_d(recipe):
    with pytest.raises(UsageError, match=r"languages.*\ben\b.*E_D.*'de'"):
        recipe(PLAIN.replace("M_D+M_WIKI", "E_D").replace('"en"', '"de"'))
