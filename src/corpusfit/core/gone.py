"""Names that corpusfit had and no longer has, each with what to do instead."""

GONE = {
    # commands, and public names in Python
    "tune": "Run `corpusfit fit` once for each setting, and compare the verdicts.",
    "TunePlan": "Run `corpusfit.fit` once for each setting, and compare the verdicts.",
    "Tuned": "Run `corpusfit.fit` once for each setting, and compare the verdicts.",
    "doctor": "Run `corpusfit --version`; a command names the extra that it needs and lacks.",
    "Health": "Run `corpusfit --version`; a command names the extra that it needs and lacks.",
}


def gone(name: str) -> str:
    """What to do instead of a name that corpusfit had; empty for any other name."""
    return f"`{name}` is no longer part of corpusfit. {GONE[name]}" if name in GONE else ""
