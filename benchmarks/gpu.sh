#!/usr/bin/env bash
# What waits for a GPU, in at most 25 minutes: the GPU tests, encoding and training beside their
# peers in bf16, and cells of TADPOLE's Table 3. Each part has a limit; a part that fails or runs
# out of time does not stop the others, and the exit code says so.
#
# Run: benchmarks/gpu.sh DATA MODELS   (PYTHON: .venv/bin/python unless set)
# DATA and MODELS are those of examples/papers/README.md. Results: benchmarks/results/*cuda*.json,
# finished cells in benchmarks/papers/cells; the table grows with every run.
set -u
cd "$(dirname "$0")/.." || exit 1
export CORPUSFIT_DATA=${1:?DATA} CORPUSFIT_MODELS=${2:?MODELS} PYTHONUNBUFFERED=1
python=${PYTHON:-.venv/bin/python}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

part() { # seconds, command
    local limit=$1 began=$SECONDS
    shift
    timeout --signal=INT --kill-after=30 "$limit" "$@" # Ctrl-C, so that finished cells are kept
    local code=$?
    echo "gpu.sh: exit $code after $((SECONDS - began)) s: $*"
    [ "$code" = 0 ] || failed=1
}

"$python" -c 'import sys, torch; sys.exit(not torch.cuda.is_available())' || {
    echo "gpu.sh: torch finds no CUDA device." >&2
    exit 1
}
part 180 "$python" -m pytest -q -p no:cacheprovider tests/gpu
part 180 "$python" benchmarks/encode.py cuda
part 60 "$python" - "$CORPUSFIT_MODELS/bert-mini-wiki" "$work/bert-base" <<'END'
"""A model of BERT-base's size with random weights, and the tokenizer of another."""
import sys

import torch
from transformers import AutoTokenizer, BertConfig, BertForMaskedLM

tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])
torch.manual_seed(0)
BertForMaskedLM(BertConfig(vocab_size=len(tokenizer))).save_pretrained(sys.argv[2])
tokenizer.save_pretrained(sys.argv[2])
END
part 300 "$python" benchmarks/adapt.py --model "$work/bert-base" --device cuda --parts speed,same
part 720 "$python" -m corpusfit run examples/papers/tadpole_table3_cpu.toml --out "$work/table3" \
    --cells benchmarks/papers/cells --cache "$work/cache" --no-report
exit $failed
