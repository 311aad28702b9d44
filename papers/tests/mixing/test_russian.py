"""Transliteration of Russian: sentences in published romanisations beside their Cyrillic form."""

import unicodedata

import pytest

from corpusfit_papers.mixing.clean import cyrillic

# Russian, then ALA-LC with its marks (2012), BGN/PCGN (1947) and ISO/R 9 (1968), by their tables.
SENTENCES = [
    (
        "Съешь же ещё этих мягких французских булок, да выпей чаю",
        "Sʺeshʹ zhe eshchë ėtikh mi͡agkikh frant͡suzskikh bulok, da vypeĭ chai͡u",
        None,  # BGN writes э and е alike
        "Sʺešʹ že eščë ètih mjagkih francuzskih bulok, da vypej čaju",
    ),
    (
        "Выявление новых районов, больные дети и острый живот",
        "Vyi͡avlenie novykh raĭonov, bolʹnye deti i ostryĭ zhivot",
        "Vyyavleniye novykh rayonov, bol'nyye deti i ostryy zhivot",
        "Vyjavlenie novyh rajonov, bolʹnye deti i ostryj život",
    ),
    (
        "Ежегодный съезд врачей в Ярославле: лечение, цели, задачи. Юрий Жуков",
        "Ezhegodnyĭ sʺezd vracheĭ v I͡Aroslavle: lechenie, t͡seli, zadachi. I͡Uriĭ Zhukov",
        'Yezhegodnyy s"yezd vrachey v Yaroslavle: lecheniye, tseli, zadachi. Yuriy Zhukov',
        "Ežegodnyj sʺezd vračej v Jaroslavle: lečenie, celi, zadači. Jurij Žukov",
    ),
]


@pytest.mark.parametrize(
    ("latin", "russian"), [(latin, s[0]) for s in SENTENCES for latin in s[1:] if latin]
)
def test_every_romanisation_gives_the_same_russian(latin, russian):
    assert cyrillic(latin) == russian
    assert cyrillic(unicodedata.normalize("NFD", latin)) == russian
    assert cyrillic(latin.upper()) == russian.upper()


def test_quotation_marks_and_other_scripts_stay():
    assert cyrillic("'Novye' \"dannye\" 42 %") == "'Новые' \"данные\" 42 %"
    for text in ("Роль ДНК и RNA", "日本", "α-β", ""):
        assert cyrillic(text) == text
