"""ARPA files: what is read, and one clear sentence for what cannot be."""

import numpy as np
import pytest

from corpusfit.core.errors import ModelError
from corpusfit.core.types import text_array
from corpusfit.scoring.arpa import read_arpa
from corpusfit.scoring.language_model import PredictableScorer

SOUND = r"""
\data\
ngram 1=5
ngram 2=3

\1-grams:
-1.0	<unk>	0
0	<s>	-0.5
-0.9	</s>	0
-0.8	a	-0.25
-0.7	b	-0.125

\2-grams:
-0.2	<s> a
-0.3	a b
-0.4	b </s>

\end\
"""


@pytest.fixture
def arpa(tmp_path):
    def write(text):
        path = tmp_path / "model.arpa"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return str(path)

    return write


def score(path, *texts, signs=False):
    return PredictableScorer(*read_arpa(path), signs).score(text_array(texts))


def test_scores_by_backing_off(arpa):
    got = score(arpa(SOUND), "a b", "b", "c a", "A, b!")
    log10 = [
        (-0.2 - 0.3 - 0.4) / 3,
        (-0.5 - 0.7 - 0.4) / 2,
        (-0.5 - 1.0 - 0.8 - 0.25 - 0.9) / 3,
        (-0.2 - 0.3 - 0.4) / 3,
    ]
    np.testing.assert_allclose(got, np.array(log10) * np.log2(10), rtol=1e-6)


def test_words_that_are_no_token_of_ours_never_match(arpa):
    path = arpa(SOUND.replace("\ta\t", "\tA\t").replace("<s> a", "<s> A").replace("a b", "A b"))
    assert score(path, "a A") == pytest.approx((-0.5 - 1.0 - 1.0 - 0.9) / 3 * np.log2(10))


def test_signs_match_when_they_are_tokens(arpa):
    path = arpa(SOUND.replace("\ta\t", "\t,\t").replace("> a", "> ,").replace("a b", ", b"))
    want = (-0.2 - 0.3 - 0.4) / 3 * np.log2(10)
    assert score(path, ", b", signs=True) == pytest.approx(want)
    assert score(path, ", b") != pytest.approx(want)


def test_without_unknown_word_it_has_kenlms_default(arpa):
    path = arpa(SOUND.replace("-1.0\t<unk>\t0\n", "").replace("ngram 1=5", "ngram 1=4"))
    assert score(path, "c") == pytest.approx((-0.5 - 100 - 0.9) / 2 * np.log2(10))


@pytest.mark.parametrize(
    ("change", "line", "words"),
    [
        (("\\data\\", "data"), 2, "data"),
        (("ngram 2=3", "ngram 3=3"), 4, "ngram 2.*ngram 3"),
        (("ngram 2=3", "ngram two=3"), 4, "'ngram N=COUNT'"),
        (("ngram 1=5", "ngram 1=6"), 13, r"\b6 1-grams.*\b5\b"),
        (("ngram 2=3", "ngram 2=2"), 16, "2 2-grams"),
        (("\n\\end\\\n", ""), 16, "end"),
        (("-0.4\tb </s>\n\n\\end\\\n", ""), 15, "2-gram 3 of 3"),
        (("-0.3\ta b", "-0.3\ta"), 15, r"\b2 fields"),
        (("-0.3\ta b", "zero\ta b"), 15, "number"),
        (("-0.3\ta b", "nan\ta b"), 15, "number"),
        (("-0.3\ta b", "-0.3\ta x"), 15, "x.*1-grams"),
        (("-0.3\ta b", "-0.3\t<s> a"), 15, "2-gram.* twice"),
        (("<unk>", "a"), 10, "1-gram.* twice"),
        (("<s>", "begin"), 18, "<s>"),
    ],
)
def test_an_unsound_file_is_refused_with_its_line(arpa, change, line, words):
    broken = SOUND.replace(*change)
    assert broken != SOUND
    with pytest.raises(ModelError, match=rf"line {line}: .*{words}") as caught:
        read_arpa(arpa(broken))
    assert "model.arpa" in str(caught.value)


def test_a_pruned_model_that_lost_a_suffix_is_refused(arpa):
    longer = SOUND.replace("ngram 2=3\n", "ngram 2=3\nngram 3=1\n").replace(
        "\\end\\", "\\3-grams:\n-0.1\t<s> a </s>\n\n\\end\\"
    )
    with pytest.raises(ModelError, match=r"line 20: .*3-gram.*2-gram"):
        read_arpa(arpa(longer))


def test_other_files_are_refused(arpa, tmp_path):
    with pytest.raises(ModelError, match="UTF-8"):
        read_arpa(arpa(SOUND.encode().replace(b"\tb\t", b"\t\xff\t")))
    with pytest.raises(ModelError, match="line 0"):
        read_arpa(arpa(""))
    with pytest.raises(ModelError, match=r"none\.arpa"):
        read_arpa(str(tmp_path / "none.arpa"))
    with pytest.raises(ModelError, match="line 1"):
        read_arpa(arpa(b"\x1f\x8b\x08" + bytes(100)))
    many = "".join(f"ngram {k}=1\n" for k in range(1, 11))
    with pytest.raises(ModelError, match=r"\b10\b"):
        read_arpa(arpa("\\data\\\n" + many + "\\1-grams:\n"))
