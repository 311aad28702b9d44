"""Cleaning: sentences, markup, comment lines, letters, length, and Russian in Latin letters."""

import pytest

pytest.importorskip("sentencex")

from corpusfit_papers.mixing.clean import clean, cyrillic, without_markup


def sentences(text, language="en", longest=128, **options):
    return clean([text], [language], longest, **options).texts.to_pylist()


@pytest.mark.parametrize(
    ("language", "text", "wanted"),
    [
        # worked out by hand: abbreviations of the language end no sentence
        ("en", "Mr. Smith came. He left.", ["Mr. Smith came.", "He left."]),
        ("de", "Das ist z. B. so. Dr. Meier kam.", ["Das ist z. B. so.", "Dr. Meier kam."]),
        ("ja", "今日は良い天気。明日も晴れる。", ["今日は良い天気。", "明日も晴れる。"]),
        ("hi", "यह है। वह है।", ["यह है।", "वह है।"]),
        # a language without rules is cut at full stops
        ("haw", "Ua hele au. Ua noho ia.", ["Ua hele au.", "Ua noho ia."]),
        ("km", "ខ្ញុំ ទៅសាលា។គាត់ទៅ ។ ល្អ៕", ["ខ្ញុំ ទៅសាលា។", "គាត់ទៅ ។", "ល្អ៕"]),
        ("my", "ကျွန်တော် သွားတယ်။မိုးရွာတယ်။", ["ကျွန်တော် သွားတယ်။", "မိုးရွာတယ်။"]),
        ("bo", "ང་འགྲོ་གི་ཡོད།ཁྱེད་རང་ཡག་པོ། །ང་དགའ།།", ["ང་འགྲོ་གི་ཡོད།", "ཁྱེད་རང་ཡག་པོ། །", "ང་དགའ།།"]),
    ],
)  # fmt: skip
def test_sentences_by_language(language, text, wanted):
    assert sentences(text, language) == wanted


def test_markup_is_removed_and_mathematics_stays():
    """What a browser shows; a tag has a known shape, `a < b` has not."""
    page = (
        "<!DOCTYPE html><html><head><title>T&amp;C</title><script>var x = '<p>';</script></head>"
        '<body class="a b"><p>One <b>bold</b> word.</p><!-- not this --><p>If a < b and c > d.</p>'
    )
    assert " ".join(without_markup(page).split()) == "T&C One bold word. If a < b and c > d."
    assert sentences(page) == ["T&C", "One bold word.", "If a < b and c > d."]
    flags = "<td nowrap>Hi</td> <input type=text DISABLED/><p class=x hidden>there</p>"
    assert without_markup(flags).split() == ["Hi", "there"]
    plain = "x<y and y>z, 3 < 4, <https://a.b>"
    assert without_markup(plain) == plain


@pytest.mark.parametrize("between", ["\n\n", " "])
def test_a_long_text_is_cut_as_its_parts_are(between):
    """It is given to the library in stretches, which end where a sentence does."""
    few = [f"This is sentence {i} of `some`." for i in range(3000)]
    assert clean([between.join(few)], ["en"], 1000).texts.to_pylist() == few


def test_the_library_gets_a_long_text_in_stretches(monkeypatch):
    """It takes the square of the quotation marks in a paragraph: days for 32 MB of them."""
    given = []
    monkeypatch.setattr("sentencex.segment", lambda _, text: given.append(text) or [text])
    text = "\u201ca" * 500_000
    found = clean([text], ["en"], 10**6)
    assert "".join(given) == "".join(found.texts.to_pylist()) == text
    assert max(map(len, given)) <= 1 << 15


@pytest.mark.parametrize("begin", ["<!-- ", "<script> ", "<!-- <script> "])
def test_ends_that_never_come_are_looked_for_once(begin):
    """Looked for at each beginning, they take the square of the text's length: hours."""
    text = f"a<!-- b -->c <script>d</script>e {begin * 300_000}"
    shown = without_markup(text)
    assert shown.startswith("a c")
    assert shown.count("<!--") == text.count("<!--") - 1


@pytest.mark.parametrize(
    "text",
    ["See http://shop.test/?id=1&copy=2&reg=3&lt=6&times10.", "AT&T &c. R&D&amp", "&nosuch;",
     "vector<float> x; List<String> y; f<int>(z); a<b>c; Map<Key, List<Option>>",
     "The tokens <unk>, <s>, <pad> and <extra_id_0>.", "<s> The dog sleeps . </s>",
     "cp <source> <target>", "I <3 you <a@b.c> <https://a.b> <|end|>", "if (a<b and c>d)"],
)  # fmt: skip
def test_text_that_is_no_markup_stays(text):
    assert without_markup(text) == text


@pytest.mark.parametrize(
    ("page", "text"),
    [("<p>An <s>old</s> price", "An old price"), ("one<br>two<BR/>three", "one two three"),
     ("<MedlineTitle>Genes</MedlineTitle> in <i>E. coli</i>", "Genes in E. coli"),
     ('<ref name="x">Meier</ref> <note id=7/>says', "Meier says"),
     ("cut off</div> here", "cut off here"),
     ("&lt;b&gt; &amp;lt; &#228;&#xE4; &eacute;t&eacute;", "<b> &lt; ää été"),
     ("<DIV CLASS='a'>x</DIV>&nbsp;&copy; 2", "x © 2")],
)  # fmt: skip
def test_markup_of_html_and_xml_is_removed(page, text):
    assert " ".join(without_markup(page).split()) == text


def test_comment_lines_and_sentences_without_letters_are_removed():
    """mDAPT, appendix B: lines that begin with #, and sentences without letters."""
    found = clean(
        ["# 12345678 Meier A, Smith B\nA sentence.\n  # another\n\n1.2 (3) 4!\n\nC# is none."],
        ["en"],
        128,
    )  # fmt: skip
    assert found.texts.to_pylist() == ["A sentence.", "C# is none."]
    assert found.counts["comment_lines"] == 2
    assert found.counts["without_letters"] == 1


def test_long_sentences_are_cut_and_nothing_is_lost():
    """No sentence is over the limit by the kernel's estimate; the words are the same."""
    text = "First one. " + " ".join(f"word{i}" for i in range(500)) + ". Last one."
    found = clean([text, "Short."], ["en", "en"], 50)
    assert (found.pieces <= 50).all()
    assert found.counts["cut_again"] == 1
    assert " ".join(found.texts.to_pylist()).split() == [*text.split(), "Short."]
    assert found.texts.to_pylist()[0] == "First one."
    assert found.texts.to_pylist()[-1] == "Short."
    count, pieces = found.sums(2)
    assert count.tolist() == [len(found.texts) - 1, 1]
    assert pieces.sum() == found.pieces.sum()


def test_documents_of_no_language_have_no_sentences():
    found = clean(["One. Two.", "Drei. Vier.", "Five."], ["en", "", "en"], 128)
    assert found.owner.tolist() == [0, 0, 2]


def test_transliterated_russian_titles_become_cyrillic():
    """Titles as PubMed has them, beside what a speaker writes; Cyrillic stays as it is."""
    titles = {
        "Klinicheskie aspekty gipertonii u detej.": "Клинические аспекты гипертонии у детей.",
        "Lechenie bol'nykh s infarktom miokarda.": "Лечение больных с инфарктом миокарда.",
        "Khirurgicheskoe lechenie yazvennoĭ bolezni.": "Хирургическое лечение язвенной болезни.",
    }
    for latin, russian in titles.items():
        assert cyrillic(latin) == russian
    assert cyrillic("Роль ДНК и RNA") == "Роль ДНК и RNA"
    latin = next(iter(titles))
    assert sentences(latin, "ru", transliterated=True) == [titles[latin]]
    assert sentences(latin, "ru") == [latin]
    assert sentences(latin, "en", transliterated=True) == [latin]
