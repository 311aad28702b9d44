"""Codes of languages, as datasets and people write them."""

import pytest

pytest.importorskip("langcodes")

from corpusfit.core.errors import UsageError
from corpusfit_papers.mixing.languages import code_of


@pytest.mark.parametrize(
    ("given", "code"),
    [("de", "de"), ("deu", "de"), ("ger", "de"), ("EN", "en"), ("jpn", "ja"), ("zho", "zh"),
     ("cmn", "zh"), ("nob", "no"), ("no", "no"), ("ron", "ro"), ("yue", "yue"), ("haw", "haw"),
     ("zh-yue", "yue"), ("zh-min-nan", "nan"), ("zh-cmn-Hans", "zh"), ("roa-rup", "rup"),
     ("sgn-ase", "ase"), ("ar-EG", "ar"), ("zh-TW", "zh")],
)  # fmt: skip
def test_codes(given, code):
    """ISO 639-1 where there is one, else ISO 639-3."""
    assert code_of(given) == code


@pytest.mark.parametrize(
    ("tag", "code"),
    [("sr-Latn", "sr"), ("sr_Cyrl", "sr"), ("pt-BR", "pt"), ("pt_br", "pt"), ("zh-Hans-CN", "zh"),
     ("ZH_TW", "zh"), ("zho_Hant", "zh"), ("eng_Latn", "en"), ("nb-NO", "no"), ("nob_Latn", "no"),
     ("nno_Latn", "nn"), ("en_XX", "en"), ("__de__", "de"), (">>deu<<", "de"), ("<2fr>", "fr"),
     ("de_DE.UTF-8", "de"), ("de-AT", "de"), (" fr ", "fr"), ("iw", "he"), ("arb_Arab", "ar"),
     ("swh_Latn", "sw"), ("zsm_Latn", "ms"), ("tgl_Latn", "fil"), ("yue_Hant", "yue")],
)  # fmt: skip
def test_script_region_and_the_names_of_models_are_left_out(tag, code):
    assert code_of(tag) == code


@pytest.mark.parametrize(
    "given", ["", "x", "xx", "german", "d!", "und", "mul", "zxx", "en,de", "English", "-en", "12"]
)
def test_codes_that_do_not_exist(given):
    with pytest.raises(UsageError, match=f"language.*ISO 639.*got '{given}'"):
        code_of(given)
