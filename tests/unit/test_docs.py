"""The documentation agrees with the code."""

import importlib.util
import json
import re
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

from corpusfit.cli.app import COMMANDS
from corpusfit.core.plan import DEFAULT_METHOD
from corpusfit.core.types import as_texts

ROOT = Path(__file__).parents[2]


def script(name):
    """A script of docs/ as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / f"docs/{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_settings_page_matches_the_code():
    module = script("make_settings")
    assert (ROOT / "docs/settings.md").read_text("utf-8") == module.page(), (
        "run .venv/bin/python docs/make_settings.py"
    )
    typed = ROOT / "src/corpusfit/core/typed_options.py"
    assert typed.read_text("utf-8") == module.typed_options()


def test_notebooks_are_the_tutorials_with_their_outputs():
    module = script("make_notebooks")
    found = [*ROOT.glob("docs/notebooks/*"), *ROOT.glob("papers/docs/notebooks/*")]
    pages = {
        page.parents[1] / f"notebooks/{page.stem}.ipynb": page.read_text("utf-8")
        for page in module.TUTORIALS
    }
    made = {path: module.notebook(page) for path, page in pages.items()}
    written = {path: path.read_text("utf-8") for path in found}
    assert written == made, "run .venv/bin/python docs/make_notebooks.py"
    for path, page in pages.items():
        cells = json.loads(made[path])["cells"]
        kinds = [cell["cell_type"] for cell in cells]
        assert kinds.count("code") - 1 == len(re.findall(r"^```(?:python|bash)$", page, re.M))
        shown = [line for cell in cells for out in cell.get("outputs", ()) for line in out["text"]]
        assert all(line.strip() in page for line in shown)
        assert len(shown) > 4


def test_the_site_has_every_page_once_and_links_lead_to_files():
    """`make docs` also checks anchors, and pages that the site makes."""
    site = script("site_pages")
    listed = re.findall(
        r"^ *- (?:[^:\n]+: )?([^\s:]+\.md)$", (ROOT / "mkdocs.yml").read_text("utf-8"), re.M
    )
    made = {*site.MADE, *site.INCLUDED.values()}
    pages = {page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").rglob("*.md")}
    assert sorted(listed) == sorted(pages | made)
    # settings.md is folded
    read = [ROOT / "docs" / page for page in pages - {"settings.md"}]
    assert [page for page in read if page.read_text("utf-8").count("\n") > 250] == []
    folders = ("", "benchmarks/", "docs/**/", "papers/**/")
    broken = [
        f"{page}: {link}"
        for page in (page for folder in folders for page in ROOT.glob(f"{folder}*.md"))
        for link in re.findall(r"\]\((?![a-z]+:|#)([^)#]+)", page.read_text("utf-8"))
        if not (page.parent / link).exists() and link not in made
    ]
    assert broken == []


def test_links_lead_to_pages_of_the_site_or_to_the_repository():
    site = script("site_pages")

    def led(source, uri, text):
        file = SimpleNamespace(abs_src_path=source and str(ROOT / source), src_uri=uri)
        return site.on_page_markdown(text, page=SimpleNamespace(file=file))

    ours = "[a](score.md#b) [a](../fit.md) [a](../../papers/README.md) [a](../commands.md) [a](#b)"
    theirs = "[a](../../papers/results/README.md#b) [a](https://example.org/a.md)"
    site_ours = ours.replace("../../papers/README.md", "../corpusfit-papers.md")
    repository = f"[a]({site.REPOSITORY}papers/results/README.md#b) [a](https://example.org/a.md)"
    assert led("docs/results/benefit.md", "results/benefit.md", ours) == site_ours
    assert led("docs/results/benefit.md", "results/benefit.md", theirs) == repository
    links = "[a](../docs/fit.md) [b](../benchmarks/log.md)"
    included = led("papers/README.md", "corpusfit-papers.md", links)
    assert included == f"[a](fit.md) [b]({site.REPOSITORY}benchmarks/log.md)"
    assert led(None, "commands.md", "[a](settings.md)") == "[a](settings.md)"


def test_the_page_of_commands_has_every_option_with_its_meaning():
    page = script("site_pages").commands()
    assert "[]" not in page
    for command in COMMANDS:
        section = page.split(f"\n## corpusfit {command}\n")[1].split("\n## ")[0]
        assert f"corpusfit {command}" in section.split("```bash")[1].split("```")[0]
        rows = re.findall(r"^\| \**`([^`]+)`\** \| (.+) \|$", section, re.M)
        assert {"--json"} <= {words.split()[0] for words, _ in rows}
        assert len(rows) == section.count("\n| ") - 1
    assert ("--fraction NUMBER", "Share of") in [
        (words, meaning[:8]) for words, meaning in re.findall(r"`([^`]+)` \| (.+) \|", page)
    ]


def test_the_modules_of_the_papers_exist():
    pages = [f"papers/docs/{name}.md" for name in ("papers", *script("site_pages").PAPERS)]
    text = "\n".join((ROOT / page).read_text("utf-8") for page in pages)
    rows = re.findall(r"^\| [^|]+ \| (`[^|]+\.py`) \| [^|]+ \|$", text, re.M)
    modules = [file for files in rows for file in re.findall(r"`(.+?)`", files)]
    assert len(modules) > 50
    roots = (ROOT / "src/corpusfit", ROOT / "papers/src/corpusfit_papers")
    assert [f for f in modules if not any((root / f).exists() for root in roots)] == []


def test_the_map_names_files_and_names_that_exist():
    page = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
    rows = re.findall(r"^\| (.+?) \| (.+) \|$", page.split("## To change X, open Y")[1], re.M)[1:]
    assert 30 <= len(rows) <= 40
    assert len(page.splitlines()) <= 150
    roots = (ROOT / "src/corpusfit", ROOT)
    for wanted, answer in rows:
        named = re.findall(r"`(.+?)`", answer)
        places = [root / n for n in named for root in roots if "/" in n and (root / n).exists()]
        assert len(places) == len([n for n in named if "/" in n]), wanted
        files = [f for p in places for f in (p.rglob("*.py") if p.is_dir() else [p])]
        code = "\n".join(file.read_text("utf-8") for file in files)
        names = [n for n in named if re.fullmatch(r"\w+", n)]
        missing = [name for name in names if not re.search(rf"\b{name}\b", code)]
        assert missing == [], wanted


def test_the_first_change_is_a_method(monkeypatch):
    page = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    module = ModuleType("capitals")
    monkeypatch.setitem(sys.modules, "capitals", module)  # dataclasses look it up
    exec(page.split("```python\n")[1].split("```")[0], vars(module))
    scorer = module.Capitals().fit([], [], seed=0)
    assert scorer.score(as_texts(["small", "LARGE", "Half a BIG", "1"])).tolist() == [1, 0, 0.5, 0]


def test_the_messages_of_troubleshooting_are_in_the_code():
    page = (ROOT / "docs/troubleshooting.md").read_text("utf-8")
    messages = re.findall(r"^### (.+)$", page, re.M)
    rejected = page.split("| reason |")[1].split("\n\n")[0]
    messages += [
        m for row in rejected.splitlines() for m in re.findall("`(.+?)`", row.split("|")[1])
    ]
    files = (ROOT / "src/corpusfit").rglob("*.py")
    joined = (re.sub(r'"\s*f?"', "", file.read_text("utf-8")) for file in files)
    code = "\n".join(joined)  # with the parts of a literal in one
    assert [message for message in messages if message not in code] == []


def test_the_readme_has_the_measured_falls_of_the_loss():
    rows = dict(
        re.findall(
            r"^\| (.+?) \| \**(0\.\d\d)\** \|$", (ROOT / "README.md").read_text("utf-8"), re.M
        )
    )
    page = (ROOT / "docs/results/benefit.md").read_text("utf-8")
    measured = page.split("\n## In the default cut\n")[1].split("\n## ")[0]
    falls = dict(re.findall(r"^\| (always `\w+`) \| ([\d.]+) ", measured, re.M))
    names = ("corpusfit", "DSIR", "BM25", "fastText", "random text")
    methods = (DEFAULT_METHOD, "peer_dsir", "bm25", "peer_fasttext", "random")
    choices = [f"always `{method}`" for method in methods]
    assert len(rows) == len(names)
    for (label, shown), name, choice in zip(rows.items(), names, choices, strict=True):
        assert name in label
        assert shown == f"{float(falls[choice]):.2f}"
