"""A text is found in every Unicode form; another letter, mark, digit or symbol is another text.

Letters and marks of some forty scripts, from the Unicode data; all that ask are of one opinion.
"""

import json
import unicodedata
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from unicodedata import category, normalize

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import corpusfit
from corpusfit.core.artifacts import read_arrays
from corpusfit.core.plan import CutPlan, ReadPlan
from corpusfit.core.types import buffers, text_array
from corpusfit.decontamination.finder import ContaminationFinder, HeldoutIndex
from corpusfit.kernels.letters import hash_points
from corpusfit.scoring.tokens import written_tokens
from corpusfit.selection.copies import NEAR, key_near, key_shard, keys_path
from corpusfit.text import find, shards
from corpusfit.text.same_text import (
    _letters_of,
    exact_keys,
    folded,
    form_of,
    letters_keys,
    text_keys,
)

SCRIPTS = """
LATIN GREEK CYRILLIC ARMENIAN HEBREW ARABIC SYRIAC THAANA NKO DEVANAGARI BENGALI
GURMUKHI GUJARATI ORIYA TAMIL TELUGU KANNADA MALAYALAM SINHALA THAI LAO TIBETAN
MYANMAR GEORGIAN HANGUL ETHIOPIC CHEROKEE OGHAM RUNIC TAGALOG KHMER MONGOLIAN LIMBU
BALINESE SUNDANESE LEPCHA CJK HIRAGANA KATAKANA BOPOMOFO JAVANESE CHAM GLAGOLITIC
COPTIC TIFINAGH KAYAH CHAKMA BRAHMI
"""
UNSPACED = ("THAI", "LAO", "MYANMAR", "KHMER", "BALINESE", "JAVANESE")
# fillers and inherent vowels of Hangul, Khmer and Mongolian, which are letters and marks by name
FILLERS = "\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180e\u180f"
INVISIBLE = f"{FILLERS}\u00ad\u034f\u061c\u200b\u200c\u200d\u200e\u200f\u202a\u202e\u2060\u2064"
INVISIBLE += "\u206f\u3164\ufe00\ufe0f\ufeff\uffa0\ufff5\U0001d173\U000e0041\U000e01ef"
COMMON_MARKS = "\u0300\u0301\u0302\u0303\u0308\u030a\u030c\u0323\u0327\u0328\u0331\u0304"


def characters(scripts):
    """By script, the letters and the marks that stay what they are in lower case."""
    found = {script: ([], []) for script in scripts}
    for char in map(chr, range(0x12000)):
        letters, marks = found.get(unicodedata.name(char, "").partition(" ")[0], (None, None))
        if letters is None or char.casefold() != char or normalize("NFKC", char) != char:
            continue
        if char in FILLERS:
            continue
        kind = category(char)
        if kind in ("Ll", "Lo", "Lu"):
            letters.append(char)
        elif kind in ("Mn", "Mc"):
            marks.append(char)
    return {
        script: ("".join(letters[:400]), "".join(marks) or COMMON_MARKS)
        for script, (letters, marks) in found.items()
    }


CHARACTERS = characters(SCRIPTS.split())


def compatible():
    """By letter and digit, the wide, narrow, mathematical, circled, raised and other ones."""
    found = {}
    for char in map(chr, range(0xA0, 0x30000)):
        form = normalize("NFKC", char)
        other = len(form) == 1 and form not in (char, normalize("NFC", char))
        if other and category(char) != "No" and (form.isalpha() or category(char) == "Nd"):
            found.setdefault(form, []).append(char)
    return found


COMPATIBLE = compatible()
SIGNS = "+<=>$%&*/@#^|~€©°😀😡→"
BLANKS = st.sampled_from(
    [" ", "  ", "\n", "\t", "\u00a0", ", ", ". ", " (", ") ", "; ", " «", "» "]
)


@st.composite
def texts(draw):
    """Some words of one script, with marks."""
    letters, marks = CHARACTERS[draw(st.sampled_from([*CHARACTERS]))]
    pairs = st.tuples(st.sampled_from(letters), st.text(st.sampled_from(marks), max_size=2))
    words = st.lists(pairs, min_size=1, max_size=6).map(lambda found: "".join(map("".join, found)))
    return draw(st.lists(words, min_size=1, max_size=12))


def same(*variants):
    keys = text_keys(variants)
    return len(set(keys.tolist())) == 1


def exactly(*variants):
    keys = exact_keys(*buffers(text_array(variants)))
    return len(set(keys.tolist())) == 1


def fold(text):
    return normalize("NFC", normalize("NFD", text).casefold())


def documents(rows):
    """The exact and the near keys of some texts, as `--dedup` finds copies by them."""
    with TemporaryDirectory() as folder:
        path, read = Path(folder, "a.jsonl"), ReadPlan()
        lines = (json.dumps({"text": row}) for row in rows)
        path.write_text("\n".join(lines) + "\n", "utf-8")
        (shard,) = shards(find([str(path)], read, role="corpus"), read)
        key_shard(read, CutPlan(), Path(folder, "exact"), False, shard)
        key_near(read, Path(folder, "near"), shard)
        exact = read_arrays(keys_path(Path(folder, "exact"), shard.index))[0]["keys"]
        near = read_arrays(keys_path(Path(folder, "near"), shard.index))[0]
    return exact, [near[name] for name in NEAR]


def by_letters(*several):
    """The keys by letters of texts, of whose bytes they are parts."""
    encoded = [text.encode("utf-8", "surrogatepass") for text in several]
    ends = np.cumsum([len(each) for each in encoded])
    bounds = np.stack([ends - [len(each) for each in encoded], ends], axis=1)
    return letters_keys(np.frombuffer(b"".join(encoded), np.uint8), bounds).tolist()


def agree(one, other):
    """Whether all consumers call two texts the same; they must be of one opinion."""
    index = HeldoutIndex.of_texts([one])
    held = {
        "copies": any(keys[0] == keys[1] for keys in documents([one, other])[1]),
        "contamination": len(ContaminationFinder(index).find(text_array([other]))) > 0,
        "overlap": bool(index.numbers([other])[0] >= 0),
        "split": same(one, other),
    }
    assert len(set(held.values())) == 1, held
    return held["split"]


@given(texts(), st.data())
def test_unicode_forms_case_blanks_and_punctuation_make_no_other_text(words, data):
    text = " ".join(words)
    forms = [normalize(form, text) for form in ("NFC", "NFD")]
    blanks = [data.draw(BLANKS) for _ in words]
    spaced = "".join(word + blank for word, blank in zip(words, blanks, strict=True))
    loud = normalize("NFD", text.upper())
    alike = (text, *forms, f"«{text}»!", "".join(words), spaced)
    assert same(*alike)
    assert len(set(by_letters(*alike))) == 1
    # Latin's ı and İ have other capitals outside Turkish
    assert same(text, loud) or fold(loud) != fold(text)
    assert exactly(text, *forms)
    exact, near = documents([text, *forms])
    assert len(set(exact.tolist())) == 1
    assert all(len(set(keys.tolist())) == 1 for keys in near)
    assert agree(*forms)


@given(texts(), st.data())
def test_invisible_characters_and_compatible_letters_make_no_other_word(words, data):
    text = " ".join([*words, "word", "no", "12"])
    draw_one = st.sampled_from(INVISIBLE)
    # in these scripts it is a space, which makes other words, and of two texts no copies
    spaces = any(char in CHARACTERS[s][0] for s in UNSPACED for char in text)
    parts = [data.draw(draw_one) * data.draw(st.integers(0, 1)) + char for char in text]
    hidden = "".join(parts).replace("\u200b", "" if spaces else "\u200b")
    other = "".join(data.draw(st.sampled_from([c, *COMPATIBLE.get(c, [])])) for c in text)
    for form in (hidden, other):
        assert same(text, form)
        assert len(set(by_letters(text, form))) == 1
        assert exactly(text, form)
        assert (written_tokens(text)[0] == written_tokens(form)[0]).all()
        assert folded(text) == folded(form)


@given(texts(), st.data())
def test_one_other_letter_mark_digit_or_symbol_makes_another_text(words, data):
    place = data.draw(st.integers(0, len(words) - 1))
    change = data.draw(st.sampled_from(["mark", "letter", "digit", "sign"]))
    letters, marks = CHARACTERS[next(s for s in CHARACTERS if words[0][0] in CHARACTERS[s][0])]
    more = {"mark": marks, "letter": letters, "digit": "0123456789", "sign": SIGNS}[change]
    new = data.draw(st.sampled_from(more))
    one, other = data.draw(st.sampled_from([x for x in more if x != new] + [""])), new
    pair = [[*words[:place], words[place] + x, *words[place + 1 :]] for x in (one, other)]
    text, changed = (" ".join(found) for found in pair)
    assume(normalize("NFC", "".join(text.split())) != normalize("NFC", "".join(changed.split())))
    assert not same(text, changed)
    assert len(set(by_letters(text, changed))) == 2
    if len(text) < 8:  # longer ones may be near-duplicates
        assert not agree(text, changed)


@given(st.lists(st.integers(0, 10**5), min_size=2, max_size=4), st.data())
def test_numbers_stay_apart_with_what_stands_between_them(numbers, data):
    between = st.sampled_from([" ", ".", ",", ":", "/", " - ", " + ", " * ", "'", "|", "%", " = "])
    drawn = [[data.draw(between) for _ in numbers[1:]] for _ in range(2)]
    one, other = (
        "a" + "".join(f"{n}{gap}" for n, gap in zip(numbers, [*gaps, ""], strict=True)) + " b"
        for gaps in drawn
    )
    assert same(one, other) == (drawn[0] == drawn[1])
    whole = "".join(map(str, numbers))
    assert not same(one, f"a{whole} b")
    moved = f"a{whole[:1]}.{whole[1:]} b"
    if len(whole) > 2:
        assert not same(moved, f"a{whole[:2]}.{whole[2:]} b")


@given(st.text(st.characters(codec="utf-8"), max_size=80))
def test_any_text_is_itself_in_every_form_and_a_beginning_has_the_beginning_of_its_form(text):
    variants = [normalize(form, text) for form in ("NFC", "NFD")]
    assert same(text, *variants, f" {text}\n")
    assert exactly(text, *variants)
    spelled = folded(text)
    for end in range(0, len(spelled), 7):
        assert form_of(spelled).startswith(form_of(spelled[:end]))


@given(st.text(st.characters(max_codepoint=127), max_size=60))
def test_ascii_is_what_it_is_within_other_text(text):
    """The fast way for ASCII and the general one agree."""
    assert form_of(folded(f"{text} é"))[: -len("é".encode())] == form_of(folded(text))


@pytest.mark.parametrize(
    "variants",
    [
        ("I isn 't so .", "I isn't so.", "i ISNT so", "I isn’t so"),
        ("Å", "\u212b", "A\u030a", "a\u030a"),
        ("한국", normalize("NFD", "한국")),
        ("q\u0323\u0307", "q\u0307\u0323"),
        ("Straße", "STRASSE", "straſſe"),
        ("ΟΔΟΣ", "οδος", "οδοσ"),
        ("soft\u00adhyphen", "softhyphen", "soft\u200bhyphen", "\ufeffsofthyphen"),
        ("❤\ufe0f", "❤"),
        ("ＡＢＣ ｶﾞ １", "abc ガ 1"),
        ("ﷲ", "الله"),
        ("5 - 3", "5-3", "5 – 3", "5 \u2212 3"),
        ("<< Three >> men", "three men", "« Three » men"),
        ("! ! !", "!!!"),
        ('AT&T said "no"', "AT&amp;T said &quot;no&quot;", "AT&#38;T said &ldquo;no&rdquo;"),
        ("з'явився", "з’явився", "з\u02bcявився"),
        ("o'z", "o\u02bbz"),
        ("الولد", "الـولد"),
        ("می\u200cخواهم", "میخواهم"),
        ("क्\u200dष", "क्ष"),
        ("ភាសា\u200bខ្មែរ", "ភាសាខ្មែរ"),
        ("ﬁn ⓕin 𝐟in ｆin", "fin fin fin fin"),
        ("1ˢᵗ µg", "1st μg"),
        ("ทํา", "ทำ"),
        ("五月", "五\u2f49"),
        ("w\u200bo\u200cr\u200dd\u2060s\ufeff", "words"),
        ("с\u200dл\u200cо\u200bво", "слово"),
    ],
)
def test_the_same_text(variants):
    assert same(*variants)
    assert agree(variants[0], variants[1])


@pytest.mark.parametrize("run", ["-", "- ", "1 ", "\u200c", "é\u200c", "<<", "(", ".", "\u00ad"])
def test_no_text_takes_more_than_linear_steps(run):
    assert same(f"a {run * 100_000} b", f"A {run * 100_000} B")


DIFFERENT = [
    *("x 1 | 2 | 300", "x 12 | 300", "v1.11", "v11.1", "$1.99", "$19.9", "€1.99", "$.99", "$99"),
    *("5 + 3", "5 - 3", "5 / 3", "5 * 3", "53", "5 3", "5.3", "5,3", "5:3", "-53", "53 %"),
    *("y^2 + 1", "y^(2+1)", "y(2+1)", "a*b", "a/b", "ab", "C", "C++", "C#", "a << 1", "a >> 1"),
    *(
        "...",
        "!!!",
        "?",
        "😀",
        "😀😀",
        "😡",
        "👍🏽",
        "👍🏿",
        "👨\u200d👩",
        "👨👩",
        "ok 😀",
        "ok 😡",
        "ok",
    ),
    *(
        "10²",
        "102",
        "10₂",
        "10①",
        "1½",
        "11/2",
        "Foo™",
        "FooTM",
        "ı",
        "i",
        "पिता",
        "पीता",
        "มา",
        "ม้า",
        "ספר",
        "סֵפֶר",
    ),
]


def test_no_two_of_these_are_the_same_text():
    assert len(set(text_keys(DIFFERENT).tolist())) == len(DIFFERENT)
    assert HeldoutIndex.of_texts(DIFFERENT).numbers(DIFFERENT).tolist() == [*range(len(DIFFERENT))]
    _, near = documents(DIFFERENT)
    assert all(len(np.unique(keys)) == len(DIFFERENT) for keys in near)


@given(st.lists(st.text(max_size=12), min_size=1, max_size=4))
def test_keys_by_letters_are_those_of_what_counts(several):
    """By the table where each character stands for itself alone, else by the whole text."""
    forms = [_letters_of(text.encode("utf-8", "surrogatepass")) for text in several]
    of_forms = np.array([len(form) for form in forms]).cumsum()
    points = np.frombuffer("".join(forms).encode("utf-32-le", "surrogatepass"), np.uint32)
    assert by_letters(*several) == hash_points(points, of_forms).tolist()


def test_keys_by_letters():
    texts = ("A b&nbsp;c, d.", "ab\u00a0c D", "\u201cA\u201d b\u2014c d", "caf\u00e9", "CAFE\u0301")
    keys = by_letters(*texts, "...", "!!", "abc", "stra\u00dfe", "STRASSE")
    assert keys[0] == keys[1] == keys[2]
    assert keys[3] == keys[4]
    assert keys[-2] == keys[-1]
    assert len(set(keys)) == 6


def test_unicode_forms_through_the_commands(tmp_path, inline):
    """Of each text in its forms one is selected, they are in one split, all are contaminated."""
    rows = [
        f"Tôi đọc quyển sách số {n} ở nhà vào mỗi buổi sáng rồi đi làm cùng {name}"
        for n, name in enumerate(["Hằng", "Dũng", "Thảo", "Phượng", "Nguyễn", "Đức"] * 4)
    ]
    data = tmp_path / "data.jsonl"
    wide = {ord(c): ord(c) + 0xFEE0 for c in "abcdefghiklmnopqrstuvxy0123456789"}
    written = [
        form
        for row in map(partial(normalize, "NFC"), rows)
        for form in (row, normalize("NFD", row), "\u00ad".join(row), row.translate(wide))
    ]
    data.write_text("\n".join(json.dumps({"text": row}) for row in written) + "\n", "utf-8")
    held = tmp_path / "test.jsonl"
    held.write_text("\n".join(json.dumps({"text": normalize("NFD", r)}) for r in rows[:6]), "utf-8")
    corpusfit.split(data=str(data), out=tmp_path / "split", dev=8, test=8, machine=inline)
    composed = {
        split: {
            normalize("NFKC", json.loads(line)["text"].replace("\u00ad", ""))
            for line in (tmp_path / f"split/{split}.jsonl").read_text("utf-8").splitlines()
        }
        for split in ("train", "dev", "test")
    }
    assert sum(map(len, composed.values())) == len(set().union(*composed.values())) == len(rows)
    leaks = corpusfit.contamination(task=str(held), data=str(data), machine=inline)
    assert (leaks.splits["test.jsonl"].found, leaks.holders) == (6, 24)
    assert leaks.rows == {"data.jsonl": [*range(24)]}
    run = corpusfit.select(
        target=str(held),
        corpus=str(data),
        out=tmp_path / "s",
        fraction=1.0,
        method="moore_lewis",
        machine=inline,
    )
    assert run.manifest["selected"]["copies"]["exact"] == 3 * len(rows)
    assert all(any(row["text"] in text for text in written) for row in run)
