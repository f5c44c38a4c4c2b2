#!/bin/sh
# One unattended GPU run: bash tests/bench/gpu.sh OUT [--dry]. Each stage writes OUT/<stage>.json at
# once and is skipped where that file is complete, so a run that was cut off goes on where it stopped.
# Random weights of the released shape, made on the device; at most eight minutes in all: a stage
# stops by itself after four fifths of its time, and is stopped after all of it.
set -u
cd "$(dirname "$0")/../.."
out=${1:?usage: gpu.sh OUT [--dry]}
dry=${2:-}
python=${PYTHON:-.venv/bin/python}
export CUBLAS_WORKSPACE_CONFIG=:4096:8 NO_TORCH_COMPILE=1
mkdir -p "$out"
failed=0
missing=
run() { # stage, seconds
    grep -qs '"complete": true}$' "$out/$1.json" && return
    missing="$missing $1"
    [ -n "$dry" ] && return
    timeout "$2" "$python" -m tests.bench.gpu "$1" --out "$out" --seconds $(($2 * 4 / 5)) || failed=1
}
run env 30
run steps 105
run paced 60
run start 35
run sessions 65
run isolation 45
run ablations 70
run moshi 65
# A dry run proves nothing by its time: all stages share a process, and its start.
if [ -n "$dry" ] && [ -n "$missing" ]; then
    "$python" -m tests.bench.gpu $missing --out "$out" --dry || failed=1
fi
exit $failed
