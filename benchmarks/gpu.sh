#!/usr/bin/env bash
# What waits for a GPU, in at most 10 minutes: the GPU tests; documents a second beside
# sentence-transformers; masked and causal training and LoRA in bf16 beside a plain Trainer (with
# flash attention where it is installed), tokens a second and peak memory; two fine-tunings. Each
# part has a limit; a part that fails or runs out of time does not stop the others, and the exit
# code says so.
#
# Run: benchmarks/gpu.sh DATA MODELS   (PYTHON: .venv/bin/python unless set)
# DATA and MODELS are those of papers/recipes/README.md. Results: benchmarks/results/*cuda*.json.
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
part 120 "$python" -m pytest -q -p no:cacheprovider tests/gpu
part 90 "$python" benchmarks/encode.py cuda
part 240 "$python" benchmarks/adapt.py --model "$CORPUSFIT_MODELS/bert-mini-wiki" --device cuda \
    --parts speed,decoder
for task in chemprot sst2; do
    part 60 "$python" -m corpusfit evaluate --task "$CORPUSFIT_DATA/tasks/$task" --seeds 1 \
        --model "$CORPUSFIT_MODELS/bert-mini-wiki" --out "$work/$task" --cache "$work/cache"
done
exit $failed
