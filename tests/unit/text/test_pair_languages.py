"""The languages of aligned pairs: one language on both sides is refused, a mixture is warned of."""

import pytest

pytest.importorskip("py3langid")

from corpusfit.core.errors import InputError
from corpusfit.text.pairs import check_languages

ENGLISH = "The receptor number {} is bound by the inhibitor, and the cells do not grow any longer."
GERMAN = "Der Rezeptor mit der Nummer {} wird vom Hemmstoff gebunden, die Zellen wachsen nicht."


def pairs(first, second, n=40):
    return [(first.format(i), second.format(i)) for i in range(n)]


def checked(found):
    """The warnings of a check."""
    warnings = []
    check_languages(found, "data", warnings.append)
    return warnings


def test_two_languages_are_fine():
    assert checked(pairs(GERMAN, ENGLISH)) == []


def test_one_language_is_refused():
    with pytest.raises(InputError, match=r"^data must be pairs of two languages.*40 pairs.*\(de\)"):
        checked(pairs(GERMAN, GERMAN))


def test_a_share_in_another_language_is_counted():
    (warning,) = checked(pairs(GERMAN, ENGLISH, 30) + pairs(GERMAN, GERMAN, 10))
    assert "10 of a sample of 40 pairs" in warning
    assert "0 % of the first side not in de, 25 % of the second side not in en" in warning
    assert checked(pairs(GERMAN, ENGLISH, 38) + pairs(GERMAN, GERMAN, 2)) == []


def test_few_or_short_pairs_say_nothing():
    assert checked(pairs(GERMAN, GERMAN, 19)) == []
    assert checked([("Haus", "Haus")] * 500) == []
