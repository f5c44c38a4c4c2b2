#!/bin/sh
# One unattended GPU run: bash tests/bench/gpu.sh OUT [--dry]. Each stage writes OUT/<stage>.json at
# once and is skipped where that file exists, so a run that was cut off goes on where it stopped.
# Random weights of the released shape, made on the device; at most eight minutes in all.
set -u
cd "$(dirname "$0")/../.."
out=${1:?usage: gpu.sh OUT [--dry]}
dry=${2:-}
python=${PYTHON:-.venv/bin/python}
export CUBLAS_WORKSPACE_CONFIG=:4096:8 NO_TORCH_COMPILE=1
mkdir -p "$out"
failed=0
run() { # stage, seconds; a dry run proves nothing by its time and gets ten minutes
    [ -s "$out/$1.json" ] && return
    timeout "$([ -n "$dry" ] && echo 600 || echo "$2")" "$python" -m tests.bench.gpu "$1" --out "$out" $dry || failed=1
}
run env 45
run steps 130
run paced 75
run start 60
run sessions 60
run isolation 40
run ablations 60
exit $failed
