"""What a composition takes: order, duplicates, pages, repeats, and errors."""

import numpy as np
import pytest

from corpusfit.core.errors import EmptyInputError, UsageError
from corpusfit_papers.mixing.amounts import NO_PAGE, Pool, decide, quantiles
from corpusfit_papers.mixing.plan import CompositionPlan, TextSource

SOURCES = (
    TextSource("special", ("a",), "specific"),
    TextSource("wiki", ("b",), "general"),
)


def pool(rows):
    """Of rows (source, language, size, text, page)."""
    source, language, size, text, page = zip(*rows, strict=True)
    order = (np.arange(len(rows)) + 0.5) / len(rows)  # as they stand
    return Pool(
        np.array(source, np.int16),
        np.array(language, np.int16),
        np.array(size, np.int64),
        np.array(text, np.uint64),
        np.array(page, np.uint64),
        order,
    )


def plain(*sizes):
    """Different texts of (source, language, size)."""
    return pool([(s, language, n, i + 1, 0) for i, (s, language, n) in enumerate(sizes)])


def recipe(composition="M_D+M_WIKI", budget=100, languages=("de", "en"), **options):
    return CompositionPlan(composition, budget, SOURCES, languages, **options).check()


def test_m_d_and_general_text_by_smoothed_shares():
    """Specific text whole, then general text until the share is met; the last document is cut."""
    texts = plain((0, 0, 20), (1, 0, 30), (1, 0, 30), (0, 1, 20), (1, 1, 300))
    taking = decide(texts, recipe())
    assert taking.amounts.tolist() == [20, 30, 0, 20, 30]
    german = taking.shares[0]
    assert (german.own, german.upsampled, german.again, german.smoothed) == (20, 30, 0, 0.5)
    assert decide(texts, recipe(budget=101)).amounts.sum() == 101


def test_a_limit_makes_specific_text_fill_first():
    """As in Table 8, where English abstracts up-sample English."""
    texts = plain((0, 0, 20), (1, 0, 300), (0, 1, 40), (0, 1, 40), (1, 1, 300))
    taking = decide(texts, recipe(budget=200, limits={"en": 20}))
    english = taking.shares[1]
    assert (english.own, english.further, english.upsampled) == (20, 60, 20)
    assert taking.amounts.tolist() == [20, 80, 40, 40, 20]


def test_e_d_and_m_d_with_e_d():
    texts = plain((0, 0, 20), (1, 0, 300), (0, 1, 80), (0, 1, 80), (1, 1, 300))
    assert decide(texts, recipe("E_D")).amounts.tolist() == [0, 0, 80, 20, 0]
    assert decide(texts, recipe("M_D+E_D")).amounts.tolist() == [20, 0, 80, 0, 0]
    small = decide(texts, recipe("M_D+E_D", budget=90))
    assert small.amounts.tolist() == [20, 0, 70, 0, 0]


def test_more_specific_text_than_the_budget():
    texts = plain((0, 0, 50), (0, 1, 150), (1, 0, 100))
    proportional = decide(texts, recipe("M_D+E_D", limits={"en": 150}))
    assert proportional.amounts.tolist() == [25, 75, 0]
    smoothed = decide(texts, recipe(alpha=0.0))
    assert smoothed.amounts.tolist() == [50, 50, 0]
    assert "200 sentences" in smoothed.notes[0]


def test_unimax_and_repeats():
    """Chung et al.: the smallest language up to its cap, then even shares."""
    texts = plain((0, 0, 10), (0, 1, 100), (1, 1, 100))
    taking = decide(texts, recipe(sampling="unimax", repeats=3))
    assert taking.amounts.tolist() == [30, 70, 0]
    german, english = taking.shares
    assert (german.own, german.again, german.total) == (10, 20, 30)
    assert (english.own, english.again) == (70, 0)


def test_repeats_take_the_first_ones_again():
    texts = plain((0, 0, 3), (1, 0, 4))
    taking = decide(texts, recipe(budget=12, languages=("de",), repeats=2))
    assert taking.amounts.tolist() == [6, 6]  # both once, then 3 and 2
    assert taking.shares[0].again == 5


def test_no_document_twice():
    """Duplicates are left out; of two languages the smaller one keeps a page or a text."""
    texts = pool(
        [
            (0, 0, 10, 1, NO_PAGE),
            (0, 0, 10, 1, NO_PAGE),  # a copy in its language
            (1, 0, 10, 2, 7),
            (1, 0, 10, 3, 7),  # another row of the same page and language
            (1, 1, 99, 4, 7),  # the same page in the larger language
            (1, 1, 99, 1, NO_PAGE),  # a copy of specific text
            (1, 1, 99, 5, 8),
        ]
    )
    taking = decide(texts, recipe(budget=129))
    assert (taking.amounts > 0).tolist() == [True, False, True, True, False, False, True]
    assert (taking.copies, taking.elsewhere) == (1, 2)


SHARED = [
    (0, 0, 10, 1, NO_PAGE),  # German specific text
    (0, 1, 10, 1, NO_PAGE),  # the same text as English
    (0, 0, 10, 2, 7),
    (0, 1, 10, 3, 7),  # its page in English
    (1, 0, 10, 4, NO_PAGE),
    (0, 1, 10, 4, NO_PAGE),  # German general text as English specific text
    (0, 1, 60, 5, NO_PAGE),
]
"""German is the smaller language."""


@pytest.mark.parametrize(
    ("composition", "options", "taken"),
    [
        ("E_D", {"budget": 90}, [0, 10, 0, 10, 0, 10, 60]),
        ("M_D+E_D", {"budget": 90}, [10, 0, 10, 0, 0, 10, 60]),
        ("M_D+M_WIKI", {"budget": 90}, [10, 0, 10, 0, 0, 10, 60]),
    ],
)
def test_only_what_a_composition_can_take_claims_a_text(composition, options, taken):
    """Brute force: no composition can take more than each text and page once, in one language."""
    taking = decide(pool(SHARED), recipe(composition, **options))
    assert taking.amounts.tolist() == taken
    assert sum(taken) == options["budget"]


def test_general_text_that_takes_no_part_does_not_decide_which_language_is_smaller():
    texts = pool([(0, 0, 20, 1, 0), (0, 1, 10, 1, 0), (0, 0, 5, 2, 0), (0, 1, 5, 3, 0)])
    more = pool(
        [(0, 0, 20, 1, 0), (0, 1, 10, 1, 0), (0, 0, 5, 2, 0), (0, 1, 5, 3, 0), (1, 1, 99, 4, 0)]
    )
    assert decide(texts, recipe("M_D+E_D", budget=20)).amounts.tolist() == [0, 10, 5, 5]
    assert decide(more, recipe("M_D+E_D", budget=20)).amounts.tolist() == [0, 10, 5, 5, 0]


def test_english_specific_text_needs_no_text_of_other_languages():
    texts = pool([(0, 0, 10, 1, 0), (0, 1, 10, 1, 0), (0, 1, 10, 2, 0)])
    assert decide(texts, recipe("E_D", budget=20)).amounts.tolist() == [0, 10, 10]


def test_a_language_without_specific_text_counts_as_the_smallest():
    texts = plain((0, 0, 20), (1, 0, 300), (1, 1, 300))
    taking = decide(texts, recipe())
    assert taking.amounts.tolist() == [20, 30, 50]
    assert len(taking.notes) == 1


def test_a_language_without_text():
    with pytest.raises(EmptyInputError, match=r"\ben\b.*languages"):
        decide(plain((0, 0, 20)), recipe(budget=10))
    with pytest.raises(EmptyInputError, match=r"\bE_D\b.*specific.*\ben\b"):
        decide(plain((0, 0, 20), (1, 1, 20)), recipe("E_D", budget=10))


def test_a_budget_beyond_the_sources():
    texts = plain((0, 0, 20), (0, 1, 30), (1, 1, 10))
    words = r"budget.*\b60 sentences.*M_D\+M_WIKI.*\(de 20, en 40\).*got 61.*repeats = 2"
    with pytest.raises(UsageError, match=words):
        decide(texts, recipe(budget=61))
    assert decide(texts, recipe(budget=61, repeats=2)).amounts.sum() == 61
    with pytest.raises(UsageError, match=r"budget.*\b120\b.*\b2\b.*got 121"):
        decide(texts, recipe(budget=121, repeats=2))
    with pytest.raises(UsageError, match=r"budget.*E_D.*\(de 0, en 30\)"):
        decide(texts, recipe("E_D", budget=31))
    with pytest.raises(UsageError, match=r"budget.*\b60\b.*got 61"):
        decide(texts, recipe(budget=61, sampling="unimax"))


def test_quantiles_are_ranks_within_groups():
    keys = np.array([5.0, 1.0, 3.0, 9.0])
    found = quantiles(keys, [np.array([0, 1]), np.array([2, 3])])
    assert found.tolist() == [0.75, 0.25, 0.25, 0.75]
