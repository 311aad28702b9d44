"""Targets as task files have them, and ordinary text that must stay as it is."""

import pytest

from corpusfit.text import normalize


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("contains no wit , only labored gags", "contains no wit, only labored gags"),
        ("they do n't make movies", "they don't make movies"),
        ("that 's far too tragic", "that's far too tragic"),
        ("Papa John 's Russia , he said .", "Papa John's Russia, he said."),
        (
            "parsers ( Collins , 1997 ; Lee et al. , 2008 ) .",
            "parsers (Collins, 1997; Lee et al., 2008).",
        ),
        ("belief -LRB- BP -RRB- and -lsb- 2 -rsb-", "belief (BP) and [2]"),
        ("`` liberal '' vs. `` conservative '' ones .", '"liberal" vs. "conservative" ones.'),
        ("TeX ``quotes'' here", 'TeX "quotes" here'),
        ("for our customers , '' says Wynne .", 'for our customers," says Wynne.'),
        ("most ` right-thinking ' films , then", "most 'right-thinking' films, then"),
        ("about 11 % , or $ 4.3 mln .", "about 11%, or $4.3 mln."),
        ("is it good ? No , bad !", "is it good? No, bad!"),
        ("and so on ... , he wrote .", "and so on..., he wrote."),
        ("<< CI-1033 >>, a pan-[[ erbB ]] inhibitor", "CI-1033, a pan-erbB inhibitor"),
        ("the << [[ NO ]] synthase >>", "the NO synthase"),
        ("only << tyrosine kinase >> here", "only tyrosine kinase here"),
        ("only [[ tyrosine kinase ]] here", "only tyrosine kinase here"),
        ("about it.<br /><br />Pressing play", "about it.<br /><br />Pressing play"),
        ("North Korea #39;s border", "North Korea's border"),
        ("flies  quot;in the face, quot; he said", 'flies "in the face," he said'),
        ("near Afghan &lt;b&gt;...&lt;/b&gt; border", "near Afghan ... border"),
        ("thoughts &amp; prayers &amp;quot;x&amp;quot;", 'thoughts & prayers "x"'),
        ("AT amp;T said", "AT &T said"),
        ("what is \x91truth\x92", "what is ‘truth’"),
        (" two  spaces\t\there \r\n\n\n\nend \n", "two spaces here\n\nend"),
    ],
)
def test_habits_of_task_files(text, printed):
    assert normalize(text) == printed


@pytest.mark.parametrize(
    "text",
    [
        "A plain sentence, with commas; and (brackets) [too]. It's \"quoted\" and 'single'.",
        "She smiled :) and left ;-) ... or not.",
        "He said . . . nothing.",
        "Bonjour ! Comment ça va ? « Très bien » : voilà ; oui.",
        "Ik kom 's avonds en 's morgens.",
        "std::cout << x << std::endl; y = z >> 2;",
        "if [[ -f file && $x == y ]]; then echo ``; fi",
        "1 << 2 and 8 >> 1",
        "[[Crawford County, Wisconsin]] and ''Chicago Tribune''",
        "```python\nx = ''\n    y = [1, 2]\n```",
        "https://example.org/?a=1&copy=2&lt=3",
        "issue #42; a 10 amp; fuse",
        "if a <b and c> d then &notanentity;",
        "First paragraph.\n\nSecond paragraph.\n- item\n- item",
        "Rock 'n' roll in the '60s, .5 and 3.14",
        "数学、物理。",
        "",
    ],
)
def test_ordinary_text_stays(text):
    assert normalize(text) == text


def test_layers_of_entities_are_bounded():
    assert normalize("&amp;" * 3 + "amp;" * 100_000 + "lt;") == "&&<"
