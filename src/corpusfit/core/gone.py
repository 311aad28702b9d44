"""Names that corpusfit had and no longer has, each with what to do instead."""

PAPERS = "corpusfit-papers"
"""The package, as pip names it, of what only the papers need; its version is that of corpusfit."""

_TWO_COMMANDS = (
    "Select twice: by a cheap method first, then by the other one on `run:OUT` as "
    "the corpus, OUT being the folder of the first."
)
_TRANSLATION = f"It is in {PAPERS}: pip install '{PAPERS}[translation]'"
_BASELINES = f"Run `pip install {PAPERS}`, and `corpusfit baselines DIR` on the finished clusters."
_UPLOAD = (
    "For a selection, run `hf upload NAME out/ . --repo-type dataset --private --include README.md "
    "--include 'selected/*'`; for a model, run `hf upload NAME adapted/ . --private --exclude "
    "'.corpusfit/*' --exclude manifest.json`. The card is README.md in the folder."
)
_AUGMENT = (
    f"Run `pip install {PAPERS}`, `corpusfit augment --task TASK --out MORE`, and "
    "`corpusfit evaluate --task MORE`."
)
_ELSEWHERE = "Name the folder out/selected in the program's file: docs/train-elsewhere.md."
_OTHER_ORDER = (
    "Of aligned pairs the first text is read and the second carried: name the files in the other "
    "order, as pair:FILE.en,FILE.de."
)
_OVERLAPS = (
    "Run `corpusfit contamination --task DIR/test.jsonl --data DIR/train.jsonl`: it finds the test "
    "texts that train contains. Of aligned pairs name both files, as pair:DIR/test.de,DIR/test.en."
)
_OF_ALL = ("set", "plan", "workers", "cache", "engine")
_DOCTOR = "Run `corpusfit --version`; a command names the extra that it needs and lacks."
_TUNE = "Run `corpusfit fit` once for each setting, and compare the verdicts."
_FEW_SHOT = "Leave it out; only `few_shot` had it."
_CLEAR = "Run `corpusfit cache clear`: it removes what no command uses now."
GONE = {
    # commands, and public names in Python
    **dict.fromkeys(("tune", "TunePlan", "Tuned"), _TUNE),
    **dict.fromkeys(("doctor", "Health"), _DOCTOR),
    "push": _UPLOAD,
    "overlaps": _OVERLAPS,
    "SplitOverlap": _OVERLAPS,
    "score": "Run `corpusfit select`: it keeps the score of every segment in out/scores, and "
    "`corpusfit choose out/` selects again by them. In Python, `corpusfit.Scorer` scores texts.",
    **dict.fromkeys(("cache prune", "cache --older-than", "cache --keep"), _CLEAR),
    "prune_cache": "Call `corpusfit.clear_cache()`: it removes what no command uses now.",
    # options, behind their command
    "cache --dry-run": "Run `corpusfit cache`: it lists what there is.",
    "clusters --no-report": "It writes no page: leave the option out, and read clusters.csv.",
    "run --no-report": "It writes no page: leave the option out, and read table.md or table.csv.",
    "SavedScorer": "Give the workers `corpusfit.Scorer.from_pretrained(NAME).score_samples`.",
    **dict.fromkeys(("choose --weights", "select --weights"), "Use `--policy`, its new name."),
    "split --check": _OVERLAPS,
    "rank --seeds": "It compares by held-out bits: leave the option out.",
    "adapt --time": "Run it with `--dry-run`, which says how long a step takes, then with "
    "`--max-steps`.",
    "evaluate --time": "Run it with `--dry-run`, which says how long it takes, then with fewer "
    "`--seeds`.",
    **dict.fromkeys(
        (
            *(f"{c} --{o}" for c in ("forecast", "retrieval") for o in _OF_ALL),
            *("tokenizers --set", "tokenizers --plan"),
        ),
        "Leave it out: `--help` has all that the command reads.",
    ),
    "forecast --objective": "Leave it out: the loss is the model's own, masked or causal.",
    "report DIR DIR": "A page shows one run: run `corpusfit report` for each folder.",
    "evaluate --normalize": "Normalize the files first: sacremoses -l de normalize < IN > OUT",
    # methods of finished runs
    "push_to_hub": _UPLOAD,
    "to_dataset": "Of a selection: datasets.load_dataset(OUT), OUT being its folder.",
    "to_pandas": "Of a fit: pandas.DataFrame(run.rows()).",
    "to_axolotl": _ELSEWHERE,
    "to_llama_factory": _ELSEWHERE,
}
"""Commands, options and public names."""

SETTINGS = {
    "choose.fraction=auto": "Name an amount, as 10%; `corpusfit rank` shows bits at several.",
    **dict.fromkeys(("baselines", "mixture.baselines"), _BASELINES),
    **dict.fromkeys(("cascade", "cascade.stages", "cascade.sample"), _TWO_COMMANDS),
    "objective=simcse": "Use `objective=tsdae`.",
    "objective.name=simcse": "Use `objective.name=tsdae`.",
    "task.kind=few_shot": "Run `lm_eval` on the model's folder: docs/evaluating.md.",
    "task.kind=lm_eval": "Run `lm_eval` on the model's folder: docs/evaluating.md.",
    **dict.fromkeys(
        ("adapter.reduction", "model.reduction"),
        "Leave it out: a bottleneck is half as wide as the model, as in mDAPT.",
    ),
    **dict.fromkeys(("likelihood.shots", "likelihood.template", "shots"), _FEW_SHOT),
    **dict.fromkeys(
        ("read.query", "task.query"),
        "A database is exported first: sqlite3 -header -csv DATABASE 'SELECT …' > rows.csv",
    ),
    **dict.fromkeys(("augment", "mt", "mt_back"), _AUGMENT),
    **dict.fromkeys(
        (f"augment.{name}" for name in ("kind", "copies", "share", "mt", "mt_back")), _AUGMENT
    ),
    "embed.embedder=static:MODEL": "Name a static model's folder or hub id, such as "
    "`minishlab/potion-multilingual-128M`; model2vec distils others: "
    "from model2vec.distill import distill; distill('MODEL').save_pretrained('static/')",
    "fit.shares": "Give files whose numbers of texts have these shares.",
    "mix.task_heldout": "Leave it out: a tenth of the task's texts is held out.",
    "then_task.epochs": "Set `then_task.max_steps`.",
    **dict.fromkeys(
        ("then_task.batch", "then_task.keep", "then_task.evaluations"),
        "Train in two commands: without `then_task`, then with `data=task` on the model of the "
        "first, where `train` has all settings.",
    ),
    "train.compile": "Leave it out: the weights are the same but for rounding.",
    "train.texts": "Set `train.batch`, in sequences; with `data=task` the default has 256 texts.",
    "train.warmup_from": "Leave it out: the learning rate rises from 0.",
    **dict.fromkeys(
        ("finetune.clip", "finetune.max_grad_norm"),
        "Leave it out: gradients are scaled down to a norm of 1.",
    ),
    **dict.fromkeys(
        ("weights.c", "weights.alpha"),
        "Set `choose.c` and `choose.alpha` where the weights are given: for instance `corpusfit "
        "choose OUT --policy continuous --set choose.c=5 --out SHARP`, and train on SHARP.",
    ),
    "preset": "Pass the file of the paper's settings, such as `--plan papers/plans/tadpole.toml`, "
    "in corpusfit's repository; `--data task` alone sets those of TAPT.",
    **dict.fromkeys(
        (f"{n}=translation" for n in ("objective", "objective.name", "kind", "task.kind")),
        _TRANSLATION,
    ),
    **dict.fromkeys(
        ("best_by", "train.best_by"),
        "The loss on held-out texts decides; measure BLEU of the kept model by `evaluate`.",
    ),
    **dict.fromkeys(
        ("task.direction", "task.num_beams", "task.max_new_tokens", "task.length_penalty"),
        f"With {PAPERS}, add `task.kind=translation`.",
    ),
    **dict.fromkeys(
        ("objective.smoothing", "objective.pair_tokens"),
        f"With {PAPERS}, set `objective.name=translation`.",
    ),
    "train.pair_tokens": "Set `objective.pair_tokens`, of `objective.name=translation`.",
    **dict.fromkeys(
        ("tag_domains", "objective.tag_domains", "decode.domain"),
        "Write the domain into the source texts, as `<it> Text`.",
    ),
    "direction": "Set `task.direction`, of `task.kind=translation`.",
    "task.normalize": "Normalize the files first: sacremoses -l de normalize < IN > OUT",
    **dict.fromkeys(("beam", "decode.beam"), "Set `task.num_beams`, of `task.kind=translation`."),
    "decode.longest": "Set `task.max_new_tokens`, of `task.kind=translation`.",
    "decode.penalty": "Set `task.length_penalty`, of `task.kind=translation`.",
    "decode.precision": "Set `finetune.precision`.",
    "decode.splits": "Leave it out: the test split alone is translated.",
    **dict.fromkeys(("side", "read.side"), _OTHER_ORDER),
    **dict.fromkeys(
        ("max_words", "read.max_words", "max_length_ratio", "read.max_length_ratio"),
        "Leave out such pairs before: for instance by Moses' clean-corpus-n.perl.",
    ),
    **dict.fromkeys(
        ("normalize", "read.normalize"),
        "Normalize the files before: for instance by `sacremoses -l LANGUAGE normalize`.",
    ),
    "method.label": "Write it behind the name: `--method fasttext:FILE#LABEL`.",
    "objective.temperature": "Leave it out; only `simcse` had it.",
}
"""Settings, and `setting=value` of values that a setting had."""

MOVED = (
    # commands, and public names in Python
    "Audit",
    "Composition",
    "Forecast",
    "Retrieval",
    "Tokenized",
    "audit",
    "compose",
    "forecast",
    "retrieval",
    "run",
    "tokenizers",
    # values of settings
    "adapter.kind=pfeiffer",
    "model.adapter=pfeiffer",
    # methods
    "betr",
    "bm25",
    "centroid_distance",
    "cluster_ratio",
    "conditional_loss",
    "consensus",
    "cross_entropy",
    "domain_finetune",
    "domain_moore_lewis",
    "lof",
    "ngram_coverage",
    "ngram_coverage_unseen",
    "one_class_svm",
    "pca",
    "perplexity",
    "pyod",
    "robust_covariance",
    "textgram",
    "textrank",
    "tfidf",
)
"""Names that `PAPERS` has now; those of Python it has as `corpusfit_papers.NAME`."""


def gone(name: str) -> str:
    """What to do instead of a name that corpusfit had; empty for any other name."""
    instead = GONE.get(name) or SETTINGS.get(name)
    return f"`{name}` is no longer part of corpusfit. {instead}" if instead else ""


def moved(name: str) -> str:
    """Where a command, a public name or a method is that moved; empty for any other name."""
    return f"`{name}` is in {PAPERS}: pip install {PAPERS}" if name in MOVED else ""
