"""mDAPT's compositions: no page of Wikipedia in two languages, and Russian in its own letters."""

import gzip
import io
import json
import runpy
import sys
from pathlib import Path

import orjson
import pytest
import zstandard

pytest.importorskip("sentencex", reason="the extra languages is not installed")

import corpusfit_papers
from corpusfit_papers.mixing.plan import read_recipe

RECIPES = Path(__file__).parents[2] / "recipes"
LANGUAGES = ("fr", "es", "de", "it", "pt", "ru", "ro", "en")
PAGES = 8
LATIN, RUSSIAN = "Vyi͡avlenie novykh raĭonov", "Выявление новых районов"
PROPS = """-- MySQL dump 10.19  Distrib 10.3.38-MariaDB
CREATE TABLE `page_props` (
  `pp_page` int(8) unsigned NOT NULL DEFAULT 0,
  `pp_propname` varbinary(60) NOT NULL DEFAULT '',
) ENGINE=InnoDB;
INSERT INTO `page_props` VALUES ({page},'defaultsort','Q99, ({page})',NULL),{rows};
"""


def pages_of(language):
    """Rows of one Wikipedia, whose ids and titles no other language has."""
    first = 100 * (1 + LANGUAGES.index(language))
    return [
        {
            "id": str(first + i),
            "url": f"https://{language}.wikipedia.org/wiki?curid={first + i}",
            "title": f"{language} {i}",
            "text": f"Page {i} of the {language} encyclopedia",
        }
        for i in range(PAGES)
    ]


def write_props(path, language, first=1000):
    """The dump in its published layout: page i of every language is item Q{first + i}."""
    ids = [page["id"] for page in pages_of(language)]
    rows = ",".join(
        f"({page},'page_image_free','{page}.jpg',NULL),({page},'wikibase_item','Q{first + i}',NULL)"
        for i, page in enumerate(ids)
    )
    path.write_bytes(gzip.compress(PROPS.format(page=ids[0], rows=rows).encode()))


@pytest.fixture
def identify(monkeypatch, capfdbinary):
    """The script in this process; returns what it writes."""

    def identify(*words, script="mdapt_wikipedia.py"):
        monkeypatch.setattr(sys, "argv", [script, *map(str, words)])
        runpy.run_path(str(RECIPES / script))
        sys.stdout.flush()
        return capfdbinary.readouterr().out

    return identify


@pytest.fixture
def compose(tmp_path, monkeypatch, inline):
    """A composition of the papers from the data in `tmp_path`, with another budget."""
    monkeypatch.setenv("CORPUSFIT_DATA", str(tmp_path))
    texts = {language: f"Specific {language}" for language in LANGUAGES} | {"ru": LATIN}
    rows = [json.dumps({"text": text, "language": code}) for code, text in texts.items()]
    (tmp_path / "mdapt/biomedical").mkdir(parents=True)
    (tmp_path / "mdapt/biomedical/all.jsonl").write_text("\n".join(rows) + "\n", "utf-8")

    def compose(name, budget):
        text = (RECIPES / f"compositions/biomedical_{name}.toml").read_text("utf-8")
        recipe = tmp_path / f"{name}.toml"
        recipe.write_text(text.replace("10_000_000", str(budget)), "utf-8")
        return corpusfit_papers.compose(recipe, out=tmp_path / name, machine=inline)

    return compose


def composed(done):
    rows = []
    for part in sorted((done.path / "composed").iterdir()):
        with part.open("rb") as file:
            reader = io.BufferedReader(zstandard.ZstdDecompressor().stream_reader(file))
            rows += map(orjson.loads, reader)
    return rows


def test_a_page_is_not_taken_in_two_languages(compose, identify, tmp_path):
    """Of 8 pages in 8 languages, all with other titles, 56 are left out."""
    folder = tmp_path / "mdapt/wikipedia"
    folder.mkdir(parents=True)
    for language in LANGUAGES:
        rows = pages_of(language)
        (tmp_path / f"{language}.jsonl").write_text("\n".join(map(json.dumps, rows)), "utf-8")
        write_props(tmp_path / f"{language}.sql.gz", language)
        written = identify(
            language, tmp_path / f"{language}.jsonl", tmp_path / f"{language}.sql.gz"
        )
        (folder / f"{language}.jsonl").write_bytes(written)
    assert len({page["title"] for code in LANGUAGES for page in pages_of(code)}) == 64

    done = compose("md_mwiki", len(LANGUAGES) + PAGES)

    assert done.manifest["copies"] == {"same_language": 0, "other_language": 56}
    general = [row["text"] for row in composed(done) if row["kind"] == "general"]
    assert sorted(text[:6] for text in general) == [f"Page {i}" for i in range(PAGES)]


def test_a_page_without_wikidata_id_is_of_one_language(identify, tmp_path):
    (tmp_path / "de.jsonl").write_text(
        "\n".join(map(json.dumps, [*pages_of("de"), {"id": "7", "text": "Neu"}, {"text": "Ohne"}]))
    )
    write_props(tmp_path / "de.sql.gz", "de")
    rows = [
        orjson.loads(line)
        for line in identify("de", tmp_path / "de.jsonl", tmp_path / "de.sql.gz").splitlines()
    ]
    assert [row.get("wikidata") for row in rows] == [f"Q{1000 + i}" for i in range(8)] + [None] * 2
    assert {row["language"] for row in rows} == {"de"}
    write_props(tmp_path / "fr.sql.gz", "fr")
    with pytest.raises(SystemExit, match=r"fr\.sql\.gz"):
        identify("de", tmp_path / "de.jsonl", tmp_path / "fr.sql.gz")


@pytest.mark.parametrize(
    ("dump", "says"),
    [
        (
            gzip.compress(b"-- Host: db1208    Database: frwiki\n" + b"(1,'wikibase_item','Q1')"),
            "frwiki",
        ),
        (gzip.compress(b"(801,'wikibase_item','Q1')" * 999)[:-9], "whole"),
        (b"(801,'wikibase_item','Q1')", "whole"),
    ],
    ids=["of another language", "half", "unpacked"],
)
def test_a_dump_that_is_another_or_not_whole_is_refused(dump, says, identify, tmp_path):
    (tmp_path / "en.jsonl").write_text("\n".join(map(json.dumps, pages_of("en"))))
    (tmp_path / "dump.sql.gz").write_bytes(dump)
    with pytest.raises(SystemExit, match=says):
        identify("en", tmp_path / "en.jsonl", tmp_path / "dump.sql.gz")


def test_pages_that_are_not_there_are_an_error_of_one_line(identify, tmp_path):
    write_props(tmp_path / "en.sql.gz", "en")
    with pytest.raises(SystemExit, match=r"`pages`.*en\.jsonl") as error:
        identify("en", tmp_path / "en.jsonl", tmp_path / "en.sql.gz")
    assert "\n" not in str(error.value)


TITLE = "<VernacularTitle>{}</VernacularTitle>"
ARTICLE = (
    '<PubmedArticle><MedlineCitation><PMID Version="1">{}</PMID><Article><ArticleTitle>[A title].'
    "</ArticleTitle>{}</Article>{}</MedlineCitation><PubmedData><ReferenceList><Reference><PMID>1"
    "</PMID></Reference></ReferenceList></PubmedData></PubmedArticle>\n"
)
ABSTRACT = (
    '<Abstract><AbstractText Label="AIM">To <i>ask</i>\n  once.</AbstractText><AbstractText>We '
    "asked.</AbstractText><CopyrightInformation>(c)</CopyrightInformation></Abstract>"
)
OTHER = '<OtherAbstract Language="ger"><AbstractText>Ein Ziel.</AbstractText></OtherAbstract>'
PUBMED = f"""<?xml version="1.0" encoding="utf-8"?>
<!DOCTYPE PubmedArticleSet SYSTEM "pubmed.dtd">
<PubmedArticleSet>
{ARTICLE.format(7, ABSTRACT + "<Language>eng</Language>", "")}
{ARTICLE.format(8, ABSTRACT + "<Language>ger</Language>" + TITLE.format("H<sub>2</sub>O."), OTHER)}
{ARTICLE.format(9, "<Language>rus</Language>" + TITLE.format(LATIN), "")}
{ARTICLE.format(10, "<Language>spa</Language><Language>ger</Language>" + TITLE.format("Un."), "")}
</PubmedArticleSet>
"""
NEWS = (
    '<?xml version="1.0" encoding="iso-8859-1" ?>\n<newsitem itemid="2286" date="1996-08-20" '
    'xml:lang="de">\n<title>X</title>\n<headline>Börse</headline>\n<text>\n<p>Kurse &amp; '
    "mehr.</p>\n<p>Schluss.</p>\n</text>\n<metadata><dc element='a'/></metadata></newsitem>"
)


def test_rows_of_pubmed_and_reuters(identify, tmp_path):
    """A text and its translation share the id; a title's language is the article's own."""
    (tmp_path / "pubmed21n0001.xml.gz").write_bytes(gzip.compress(PUBMED.encode()))
    (tmp_path / "german").mkdir()
    (tmp_path / "german/2286newsML.xml").write_bytes(NEWS.encode("latin-1"))
    written = identify(tmp_path, script="mdapt_xml.py").splitlines()
    assert [orjson.loads(line) for line in written] == [
        {"text": "Börse\nKurse & mehr.\nSchluss.", "language": "de"},
        {"text": "To ask once.\nWe asked.", "language": "eng", "pmid": "7"},
        {"text": "To ask once.\nWe asked.", "language": "eng", "pmid": "8"},
        {"text": "Ein Ziel.", "language": "ger", "pmid": "8"},
        {"text": "H2O.", "language": "ger", "pmid": "8"},
        {"text": LATIN, "language": "rus", "pmid": "9"},
        {"text": "Un.", "pmid": "10"},
    ]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("half.xml.gz", gzip.compress(PUBMED.encode())[:-30]),
        ("half.xml", PUBMED[:-40].encode()),
        ("unpacked.xml.gz", PUBMED.encode()),
        ("other.xml", b"<rss><item>Text</item></rss>"),
        ("encoding.xml", NEWS.replace("iso-8859-1", "utf-8").encode("latin-1")),
    ],
)
def test_xml_that_is_not_whole_or_of_another_kind_is_refused(name, content, identify, tmp_path):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(SystemExit, match=name.replace(".", r"\.")):
        identify(tmp_path / name, script="mdapt_xml.py")


@pytest.mark.parametrize("name", ["md_ed", "md_mwiki"])
def test_russian_titles_of_pubmed_are_in_cyrillic(compose, tmp_path, name):
    """mDAPT, appendix B: they are in Latin letters there."""
    (tmp_path / "mdapt/wikipedia").mkdir()
    (tmp_path / "mdapt/wikipedia/en.jsonl").write_text(
        json.dumps({"text": "General text", "language": "en", "wikidata": "Q1"})
    )
    done = compose(name, len(LANGUAGES))
    russian = [row["text"] for row in composed(done) if row["language"] == "ru"]
    assert russian == [RUSSIAN]


@pytest.mark.parametrize("name", ["md_ed", "md_mwiki"])
def test_no_abstract_of_pubmed_is_taken_with_its_translation(compose, tmp_path, name):
    """mDAPT, section 3.1: rows of one pmid are of one language, the one with less text."""
    (tmp_path / "mdapt/wikipedia").mkdir()
    (tmp_path / "mdapt/wikipedia/en.jsonl").write_text(
        json.dumps({"text": "General text", "language": "en", "wikidata": "Q1"})
    )
    pairs = [
        {"text": f"{word} {i} of a study", "language": code, "pmid": 100 + i}
        for i in range(3)
        for code, word in (("de", "Befund"), ("en", "Finding"), ("en", "Abstract"))
    ]
    (tmp_path / "mdapt/biomedical/pairs.jsonl").write_text("\n".join(map(json.dumps, pairs)))
    done = compose(name, len(LANGUAGES) + 3)
    assert done.manifest["copies"] == {"same_language": 0, "other_language": 6}
    taken = [row["text"].split()[0] for row in composed(done) if "study" in row["text"]]
    assert taken == ["Befund"] * 3


@pytest.mark.parametrize(
    ("domain", "pages"), [("biomedical", ["pmid", "wikidata"]), ("financial", ["", "wikidata"])]
)
def test_pages_are_told_apart_by_wikidata(domain, pages, monkeypatch):
    monkeypatch.setenv("CORPUSFIT_DATA", "/somewhere")
    plan = read_recipe(RECIPES / f"compositions/{domain}_md_mwiki.toml")
    assert [source.page for source in plan.sources] == pages
