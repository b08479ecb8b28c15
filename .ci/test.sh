#!/usr/bin/env bash
# The tests in two halves, side by side: one process would take twice as long on two cores. What is not in the second is in the first.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
second=(tests/verifiers tests/core tests/filters tests/cli tests/sandboxes/test_workers.py tests/sandboxes/jail tests/sandboxes/remote tests/sandboxes/docker)
report=$(mktemp)
trap 'rm -f "$report"' EXIT
# Bash has what runs beside it ignore interrupts, which tests of them would notice.
env --default-signal=INT .venv/bin/python -m pytest -p no:cacheprovider "$@" "${second[@]}" >"$report" 2>&1 &
.venv/bin/python -m pytest "$@" "${second[@]/#/--ignore=}"
first=$?
wait $!
code=$?
cat "$report"
exit $((first > code ? first : code))
