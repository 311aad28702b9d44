"""Model folders of strangers, refused by what their files claim before a library acts on it."""

import json
import os
import shutil
import subprocess
import sys

import pytest

from corpusfit.core.errors import ModelError
from corpusfit.core.plan import EmbedPlan
from corpusfit.embed import load
from corpusfit.embed.folders import EMBEDDER, read_pooling, transformer_folder


def changed(path, **values):
    found = json.loads(path.read_bytes()) if path.exists() else {}
    path.write_text(json.dumps({**found, **values}), "utf-8")


@pytest.fixture
def folder(tiny_encoder, tmp_path):
    return shutil.copytree(tiny_encoder, tmp_path / "model")


KERNELS = [
    {"attn_implementation": "org/kernel:fn"},
    {"_attn_implementation": "org/kernel"},
    {"_attn_implementation_internal": "org/kernel"},
    {"attn_implementation": {"": "eager", "text_config": "org/kernel"}},
    {"text_config": {"attn_implementation": "org/kernel"}},
    {"layers": [{"a": {"_attn_implementation": "paged|org/kernel"}}]},
    {"attn_implementation": "flash_attention_3"},
    {"experts_implementation": "sonicmoe"},
    {"quantization_config": {"quant_method": "mxfp4"}},
    {"vision_config": {"quantization_config": {"quant_method": "foe"}}},
]


@pytest.mark.parametrize("values", KERNELS, ids=str)
def test_code_of_the_hub_is_refused(folder, values):
    changed(folder / "config.json", **values)
    with pytest.raises(ModelError, match=r"config\.json"):
        load(EmbedPlan(embedder=str(folder)))


def test_the_usual_implementations_are_taken(folder):
    changed(folder / "config.json", attn_implementation="eager", quantization_config=None)
    assert transformer_folder(folder) == folder


@pytest.mark.parametrize("name", ["../other/model.safetensors", "/etc/passwd", "C:\\a", "a\0b", 1])
def test_weights_elsewhere_are_refused(folder, name):
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": name}}))
    with pytest.raises(ModelError, match="files of its folder"):
        transformer_folder(folder)


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("path", ["../other", "/etc", "1_Pooling/../../other", "C:\\other"])
def test_modules_elsewhere_are_refused(folder, path, number):
    kinds = ["sentence_transformers.models.Transformer", "sentence_transformers.models.Pooling"]
    modules = [{"type": kind, "path": ""} for kind in kinds]
    modules[number]["path"] = path
    (folder / "modules.json").write_text(json.dumps(modules), "utf-8")
    for open_folder in (transformer_folder, lambda f: read_pooling(f, "", EMBEDDER)):
        with pytest.raises(ModelError, match="must lie in its folder"):
            open_folder(folder)


def test_an_adapter_of_peft_beside_the_weights_is_refused(folder, tiny_gpt2):
    changed(folder / "adapter_config.json", base_model_name_or_path=str(tiny_gpt2))
    with pytest.raises(ModelError, match="adapter"):
        transformer_folder(folder)


@pytest.mark.parametrize("name", ["num_hidden_layers", "n_layer", "encoder_layers", "num_experts"])
def test_more_layers_than_tensors_are_refused(folder, name):
    changed(folder / "config.json", **{name: 10**9})
    with pytest.raises(ModelError, match=f"{name}=1000000000"):
        transformer_folder(folder)
    changed(folder / "config.json", **{name: 12})
    assert transformer_folder(folder) == folder


@pytest.mark.slow
def test_with_the_package_kernels_the_hub_is_not_asked(folder, tmp_path):
    # a stand-in that records what it is asked for; transformers alone shows that it would be
    fake = tmp_path / "site/kernels"
    (fake / "layer").mkdir(parents=True)
    asked = tmp_path / "asked"
    (fake / "layer/__init__.py").write_text("")
    (fake / "layer/mode.py").write_text("class Mode: pass\n")
    (fake / "__init__.py").write_text(
        "class Any:\n"
        "    def __init__(self, *args, **options): pass\n"
        "    def __call__(self, thing=None, *args, **options): return thing\n"
        "def __getattr__(name):\n"
        "    return Any\n"
        "def get_kernel(*args, **options):\n"
        f"    open({str(asked)!r}, 'a').write(str(args))\n"
        "    raise RuntimeError('asked')\n"
    )
    number = pytest.importorskip("transformers").utils.import_utils.KERNELS_MIN_VERSION
    info = tmp_path / f"site/kernels-{number}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: kernels\nVersion: {number}\n")
    changed(folder / "config.json", attn_implementation="kernels-community/own")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path / "site"), *sys.path])}
    ours = (
        "from corpusfit.core.plan import EmbedPlan\nfrom corpusfit.embed import load\n"
        "from pathlib import Path\n"
        f"load(EmbedPlan(embedder={str(folder)!r}))"
    )
    theirs = (
        f"from transformers import AutoModel\n"
        f"AutoModel.from_pretrained({str(folder)!r}, local_files_only=True)"
    )
    found = []
    for code in (ours, theirs):
        subprocess.run(
            [sys.executable, "-c", code], check=False, env=environment, capture_output=True
        )
        found.append("kernels-community/own" in (asked.read_text() if asked.exists() else ""))
    assert found == [False, True]
