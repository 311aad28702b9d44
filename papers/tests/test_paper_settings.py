"""The settings that make each `paper` recipe of `papers/recipes` the paper's system."""

import re
import sys
import tomllib
from operator import attrgetter
from pathlib import Path

import pytest

from corpusfit.scoring.registry import build
from corpusfit_papers.experiments.loader import read_recipe

PAPERS = Path(__file__).parents[1] / "recipes"
BERT = {
    "select.embed.embedder": "bert-base-uncased",
    "select.embed.pooling": "mean",
    "select.embed.unit_length": False,
    "select.cut.pieces": 256,
    "select.cut.gamma": 15,
}
"""TADPOLE, sections 3.1 and 3.2, appendix D; the pooling is ours."""
ADAPTED = {
    "adapt.objective.name": "mlm+nsp",
    "adapt.train.max_steps": 50_000,
    "adapt.train.batch": 256,
    "adapt.train.learning_rate": 1e-4,
    "adapt.train.warmup_steps": 0.01,
}
"""TADPOLE, section 4."""
ENCODED = {"select.embed.pooling": "mean", "select.embed.unit_length": False}
"""The embeddings of recipes whose model is the encoder."""
TARGET_ALONE = {"method.name": "isolation_forest", "method.background": 0.0}
ALGORITHM_1 = {"method.name": "isolation_forest", "method.background": 0.1}
CONTINUOUS = {**BERT, **ALGORITHM_1, "weights": ("lambda",), "select.cut.gamma": 1}
MDAPT = {
    "adapt.objective.name": "mlm",
    "adapt.train.max_steps": 25_000,
    "adapt.train.batch": 2_048,
    "adapt.train.length": 128,
    "adapt.train.learning_rate": 5e-5,
}
"""mDAPT, section 3.3."""
ADAPTERS = {"adapters": ("pfeiffer",), "adapt.train.max_steps": 1_500_000}
SENTENCES = {"select.cut.unit": "sentence", "select.cut.gamma": 1, "adapt.objective.name": "mlm"}
TRANSFORMER = {
    "adapt.objective.name": "translation",
    "adapt.objective.own.smoothing": 0.1,
    "adapt.model.dropout": 0.2,
    "adapt.objective.own.pair_tokens": 4_096,
    "adapt.train.batch": 5,
    "adapt.train.learning_rate": 5e-4,
    "adapt.train.lr_scheduler_type": "inverse_sqrt",
    "adapt.train.warmup_steps": 4_000,
    "adapt.train.adam_beta2": 0.98,
    "adapt.train.weight_decay": 0.0,
    "adapt.train.max_steps": None,
    "adapt.train.epochs": 200.0,
    "adapt.train.evaluations": 200,
    "adapt.train.keep": "best",
    "adapt.train.patience": 10,
}
"""Domain Clusters, Figure 5 and appendix A.1."""
DOMAINS = ("medical", "law", "koran", "it", "subtitles")
DISTILBERT = {"select.embed.embedder": "distilbert-base-uncased", **ENCODED}
"""Domain Clusters, section 4.2."""

TABLE_3 = {
    "general": ADAPTED,
    "random": ADAPTED,
    "moore_lewis": {**ADAPTED, "fractions": (0.2,)},
    "centroid_distance": {**BERT, **ADAPTED, "fractions": (0.2,)},
    "isolation_forest": {**BERT, **ADAPTED, **ALGORITHM_1, "fractions": (0.2,)},
    "task": {"adapt.train.epochs": 100.0},
}
"""TADPOLE, sections 4 and 4.1."""
SYSTEMS = {
    "tadpole_table3": TABLE_3,
    "tadpole_table6": TABLE_3,
    "tadpole_learning_curve": TABLE_3,
    "tadpole_augmentation": {"isolation_forest": TABLE_3["isolation_forest"]},
    "tadpole_figure3": {"mix-1": ADAPTED},
    "tadpole_figure6": {
        "isolation_forest": {
            **BERT,
            **ADAPTED,
            **ALGORITHM_1,
            "fractions": (0.02, 0.05, 0.1, 0.2),  # appendix H
        }
    },
    "dana_continuous": {
        "isolation_forest": TABLE_3["isolation_forest"],
        "continuous-1": {**CONTINUOUS, "adapt.train.max_steps": 100_000},  # appendix E
        "continuous-3": {**CONTINUOUS, "adapt.train.max_steps": 300_000},
    },
    "textgram_table3": {
        "general": SENTENCES,
        "perplexity": {**SENTENCES, "fractions": (0.25,)},
        "textgram": {**SENTENCES, "fractions": (0.25,), "method.copies": True},  # Algorithm 1
    },
    "mdapt_table4": {
        "E_D": MDAPT,
        "M_D+E_D": MDAPT,
        "M_D+M_WIKI": MDAPT,
        "E_D-adapter": ADAPTERS,
        "M_D+E_D-adapter": ADAPTERS,
        "M_D+M_WIKI-adapter": ADAPTERS,
        "mono": {"adapters": ("", "pfeiffer")},
    },
    "mdapt_table5": {"mDAPT": MDAPT, "control": MDAPT},
    "domain_clusters_table4": {
        "general": {**TRANSFORMER, "dev": DOMAINS},
        **{
            domain: {**TRANSFORMER, "sources": (f"{domain}*",), "dev": (domain,)}
            for domain in DOMAINS
        },
    },
    "domain_clusters_table6": {
        "general": {**TRANSFORMER, "dev": DOMAINS},
        "moore_lewis": {  # appendix A.5
            **TRANSFORMER,
            "method.order": 5,
            "method.signs": True,
            "method.sample": "texts",
            "method.shared_vocabulary": False,
            "method.per_token": False,
        },
        "domain_cosine": {**TRANSFORMER, **DISTILBERT, "method.centered": False},  # section 4.1
        "domain_finetune": {**TRANSFORMER, **DISTILBERT, "method.preranked": True},
        "positive": {**DISTILBERT, "select.choose.threshold": 0.0},
    },
}
"""By recipe and column, the settings of the paper."""
TADPOLE = {"evaluate.finetune.epochs": 5, "evaluate.finetune.learning_rate": 3e-5, "seeds": 8}
"""Section 4; TextGram names none, and has TADPOLE's."""
TRANSLATED = {
    "models": ("/somewhere/untrained",),
    "evaluate.task.own.direction": "de-en",
    "evaluate.task.own.num_beams": 5,
}
"""Domain Clusters, appendix A.1."""
WHOLE = {
    **dict.fromkeys((n for n in SYSTEMS if re.match("tadpole|dana", n)), TADPOLE),
    "textgram_table3": {**TADPOLE, "models": ("bert-base-cased",)},  # section 4.2
    "mdapt_table4": {  # section 4.2; Table 4
        "models": ("bert-base-multilingual-cased",),
        "search.batch": (16, 32),
        "search.epochs": (2, 4, 6),
        "seeds": 5,
    },
    "mdapt_table5": {  # section 4.2; Table 5
        "models": ("bert-base-multilingual-cased",),
        "search.selector": "mono",
        "search.epochs": (2, 4, 6),
        "seeds": 5,
    },
    "domain_clusters_table4": TRANSLATED,
    "domain_clusters_table6": TRANSLATED,
}
"""By recipe, the settings of all its columns."""
TASKS = {
    "tadpole_table3": "chemprot acl_arc scierc hyperpartisan",
    "tadpole_table6": "imdb sst2 ag_news helpfulness rct20k",
    "dana_continuous": "chemprot acl_arc scierc hyperpartisan imdb sst2 ag_news helpfulness rct20k",
    "mdapt_table4": "quaero bioro pharmaconer ncbi_disease clinpt omp-2 omp-9 finnews "
    "financial_phrasebank",
    "mdapt_table5": "quaero bioro pharmaconer ncbi_disease clinpt omp-2 omp-9 omp-9-mwiki finnews "
    "finnews-mwiki financial_phrasebank",
    "domain_clusters_table6": "medical law koran it subtitles",
}
"""The rows of the papers' tables."""
EXAMPLES = {
    "hyperpartisan": 516,
    "acl_arc": 1_688,
    "scierc": 3_219,
    "chemprot": 4_169,
    "imdb": 20_000,
    "sst2": 67_349,
    "ag_news": 115_000,
    "helpfulness": 115_251,
    "rct20k": 180_040,
}
"""TADPOLE, Table 2: training examples."""
NAMED_SOURCES = ("tadpole_figure3", "tadpole_figure5")
"""Figures of TADPOLE that tell the sources of a corpus apart; the others take Wikipedia alone."""


@pytest.fixture
def recipe(monkeypatch):
    for name in ("CORPUSFIT_DATA", "CORPUSFIT_PAIRS", "CORPUSFIT_MODELS"):
        monkeypatch.setenv(name, "/somewhere")
    return lambda name: read_recipe(PAPERS / f"{name}_paper.toml")


def of_column(selector, setting):
    """A setting of a column; those of its method have the method's defaults."""
    if not setting.startswith("method."):
        return attrgetter(setting)(selector)
    method = selector.select.method
    if setting == "method.name":
        return method.name
    return attrgetter(setting.removeprefix("method."))(build(method.name, method.options))


def test_every_recipe_has_its_system():
    recipes = {p.stem for p in PAPERS.glob("*_paper.toml") if "[separation]" not in p.read_text()}
    assert {f"{name}_paper" for name in SYSTEMS} == recipes


@pytest.mark.parametrize(
    ("name", "tasks"),
    [
        ("table1", "ChemProt ACL-ARC Hyperpartisan RCT20k IMDB SciERC Helpfulness"),
        ("figure4", "SST-2"),
        ("figure5", "ACL-ARC SciERC ChemProt"),
    ],
)
def test_a_separation_measures_the_papers_system(name, tasks, monkeypatch):
    """TADPOLE, section 3.1: isolation forest on BERT-base's own vectors, of the target alone."""
    monkeypatch.setenv("CORPUSFIT_DATA", "/somewhere")
    monkeypatch.setattr(sys, "path", [str(PAPERS.parents[1] / "papers" / "tables"), *sys.path])
    import separation

    read = separation.read_setting(PAPERS / f"tadpole_{name}_paper.toml")
    assert read.model == "bert-base-uncased"
    assert (read.plan.embed.pooling, read.plan.embed.unit_length) == ("mean", False)
    method = read.methods["isolation_forest"]
    assert build(method.name, method.options).background == 0
    assert {n for n, task in read.tasks.items() if task["path"]} == {*tasks.split()}


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_paper_recipe_runs_the_papers_system(recipe, name):
    read = recipe(name)
    selectors = {selector.name: selector for selector in read.selectors}
    asked = {(c, s): value for c, own in SYSTEMS[name].items() for s, value in own.items()}
    assert {(c, s): of_column(selectors[c], s) for c, s in asked} == asked
    whole = WHOLE.get(name, {})
    assert {setting: attrgetter(setting)(read) for setting in whole} == whole
    if name in TASKS:
        assert sorted(task.name for task in read.tasks) == sorted(TASKS[name].split())


@pytest.mark.parametrize("name", [n for n in SYSTEMS if re.match("tadpole|dana", n)])
def test_the_forest_adds_a_tenth_of_every_target(recipe, name):
    """TADPOLE, Algorithm 1: t / 10 sentences of the corpus, of which none lacks."""
    read = recipe(name)
    most = max(read.train_sizes, default=EXAMPLES["rct20k"])
    largest = max(min(EXAMPLES[task.name], most) for task in read.tasks)
    forests = [s for s in read.selectors if s.select.method.name == "isolation_forest"]
    assert len(forests) == {"tadpole_figure3": 0, "dana_continuous": 3}.get(name, 1)
    shares = [of_column(forest, "method.background") for forest in forests]
    assert shares == [0.1] * len(forests)
    assert all(forest.select.fit.max_target == 0 for forest in forests)
    assert all(forest.select.fit.background >= largest / 10 for forest in forests)


def test_tadpole_selects_from_wikipedia():
    """Section 4: 8 GB of Wikipedia's articles."""
    files = [*PAPERS.glob("tadpole_*_paper.toml"), *PAPERS.glob("dana_*_paper.toml")]
    assert len(files) == 10
    for path in files:
        named = path.stem.removesuffix("_paper") in NAMED_SOURCES
        corpus = tomllib.loads(path.read_text("utf-8"))["corpus"]
        assert corpus == [f"${{CORPUSFIT_DATA}}/{'pile' if named else 'wiki'}"], path.stem


def test_the_control_is_the_best_composition_of_the_other_domain(recipe):
    """mDAPT, Table 5: the best of each task in Table 4, two where two are equally good."""
    read = recipe("mdapt_table5")
    own, control = (next(s for s in read.selectors if s.name == n) for n in ("mDAPT", "control"))
    best = {
        task.name: tuple(Path(s.composition_for(task)).stem for s in (own, control))
        for task in read.tasks
    }
    biomedical, financial = (
        [(f"{mine}_{kind}", f"{other}_{kind}") for kind in ("md_ed", "md_mwiki", "e_d")]
        for mine, other in (("biomedical", "financial"), ("financial", "biomedical"))
    )
    assert best == {
        **dict.fromkeys(("bioro", "ncbi_disease", "clinpt"), biomedical[0]),
        "quaero": biomedical[1],
        "pharmaconer": biomedical[2],
        **dict.fromkeys(("financial_phrasebank", "finnews", "omp-9"), financial[0]),
        **dict.fromkeys(("finnews-mwiki", "omp-2", "omp-9-mwiki"), financial[1]),
    }


def test_half_a_million_pairs_are_selected(recipe):
    """Domain Clusters, section 4.2: 500,000 of 1,456,317."""
    assert recipe("domain_clusters_table6").selectors[1].fractions == (
        pytest.approx(500_000 / 1_456_317, abs=5e-4),
    )
