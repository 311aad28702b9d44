"""The tree of errors is the one its docstring draws, and each ends with the right code."""

from __future__ import annotations

import re

from corpusfit import errors


def drawn():
    """(name, exit code or None, parent) as the docstring draws them."""
    ancestors = {}
    for line in errors.__doc__.splitlines():
        found = re.match(r"^    ([│├└─ ]*)(\w+Error)\b +(?:exit (\d))?", line)
        if found:
            depth = len(found[1]) // 4
            ancestors[depth] = found[2]
            yield found[2], found[3] and int(found[3]), ancestors.get(depth - 1)


def test_the_tree_is_as_drawn():
    tree = list(drawn())
    assert {name for name, _, _ in tree} == {
        name for name, cls in vars(errors).items() if isinstance(cls, type)
    }
    for name, code, parent in tree:
        cls = getattr(errors, name)
        assert cls.__base__.__name__ == (parent or "Exception")
        assert code in (None, cls.exit_code)
        assert cls.exit_code == (2 if issubclass(cls, errors.UsageError) else 1)


def test_a_wrong_setting_says_what_is_allowed_what_came_and_a_cure():
    said = errors.bad_setting("--fraction", "in (0, 1]", 2.0, "Say 0.1.")
    assert str(said) == "--fraction must be in (0, 1]; got 2.0. Say 0.1."
    assert str(errors.bad_setting("--x", "y", "z")) == "--x must be y; got 'z'."


def test_a_missing_library_names_the_extra():
    said = errors.MissingDependencyError("--embedder static", "embed")
    assert str(said) == "--embedder static needs the extra 'embed': pip install 'corpusfit[embed]'."
