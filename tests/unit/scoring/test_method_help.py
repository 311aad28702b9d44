"""The help of every method's settings: complete, and each default is the one in the code."""

import dataclasses
import inspect
import re

import pytest

from corpusfit.scoring import registry
from corpusfit.scoring.names import names as method_names

ENTRY = re.compile(r"^    (\w+): (.+(?:\n {8}.+)*)", re.MULTILINE)
WORDS = {"": ("none", "equal weights", "required"), True: ("true",), False: ("false",)}


@pytest.mark.parametrize("name", method_names())
def test_every_setting_is_described_and_ends_with_its_default(name):
    method = registry.load(name)
    helps = dict(ENTRY.findall(inspect.getdoc(method) or ""))
    for field in dataclasses.fields(method):
        text = " ".join(helps[field.name].split())
        found = re.search(r"\((?:default: ([^()]+)|(required))\)\.$", text)
        assert found, (field.name, text)
        stated = found[1] or found[2]
        if field.name == "embedder":
            assert stated == "--embedder"
        elif isinstance(field.default, bool) or field.default == "":
            assert stated in WORDS[field.default], field.name
        elif isinstance(field.default, str):
            assert stated == field.default, field.name
        else:
            assert float(stated) == field.default, field.name
