"""The tokenizer agrees with its plain Python definition on any Unicode text."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from corpusfit.kernels.characters import table
from corpusfit.kernels.tokens import identity, reference, tokenise

TEXTS = st.text(
    st.one_of(st.characters(codec="utf-8"), st.sampled_from("aAbZ09_ .,-\n\téÉß日本ไทยİΣ\u0301")),
    max_size=150,
)


@given(TEXTS, st.booleans(), st.integers(0, 10), st.integers(0, 90))
def test_tokens_are_those_of_the_definition_wherever_the_text_lies(text, signs, before, behind):
    raw = text.encode()
    data = np.frombuffer(b"x" * before + raw + b"x" * behind, np.uint8)
    ids, starts, ends = (np.empty(len(raw) + 1, t) for t in (np.uint64, np.int64, np.int64))
    args = (data, before, before + len(raw), table(), signs)
    count = tokenise(*args, ids, starts, ends)
    found = [bytes(data[a:b]).decode() for a, b in zip(starts[:count], ends[:count], strict=True)]
    lower = ["".join(c.lower() if len(c.lower()) == 1 else c for c in t) for t in found]
    assert lower == reference(text, signs=signs)
    assert ids[:count].tolist() == [identity(t) for t in lower]
    again = np.empty_like(ids)
    assert tokenise(*args, again, None, None) == count
    assert again[:count].tolist() == ids[:count].tolist()


@given(st.lists(st.text("abcXYZ_019", min_size=1, max_size=20), min_size=2, max_size=2))
def test_two_words_share_an_identity_only_if_they_are_one_word(pair):
    assert (identity(pair[0]) == identity(pair[1])) == (pair[0].lower() == pair[1].lower())


def test_one_token_a_character_for_scripts_without_spaces():
    assert reference("日本語のテキスト ไทย") == [*"日本語のテキスト", *"ไทย"]
    assert reference("ភាសា ꦗꦮ") == [*"ភាសា", *"ꦗꦮ"]
    assert reference("བོད་སྐད་") == ["བོད", "སྐད"]
    assert reference("Don't PANIC, 42 naïve_Ünits!") == ["don", "t", "panic", "42", "naïve_ünits"]
    assert reference("a--b", signs=True) == ["a", "--", "b"]
