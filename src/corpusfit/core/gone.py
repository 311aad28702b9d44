"""Names that corpusfit had and no longer has, each with what to do instead."""

_TWO_COMMANDS = (
    "Select twice: by a cheap method first, then by the other one with `corpus=run:OUT` "
    "(--corpus run:OUT), OUT being the folder of the first."
)

GONE = {
    # settings, with their options and keywords
    "cascade": _TWO_COMMANDS,
    "cascade.stages": _TWO_COMMANDS,
    "cascade.sample": _TWO_COMMANDS,
}


def gone(name: str) -> str:
    """What to do instead of a name that corpusfit had; empty for any other name."""
    return f"`{name}` is no longer part of corpusfit. {GONE[name]}" if name in GONE else ""
