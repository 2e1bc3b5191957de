#!/usr/bin/env bash
# GPU Open vSwitch (GSwitch, figure 6c): tables of an OpenFlow switch without a cache, looked up on
# a core and on the card of this machine, without Rust; takes about a minute and a half.
#
#   ./openflow.sh [OUT]   writes OUT/DATE-openflow.csv (default: results beside this script)
#
#   ENGINES='turbo auto gpu:turbo gpu:bloom gpu:tuple'   engines of the tables
#   PARTS=styles,tables   parts of `bench openflow`
#   THREADS=1             switches side by side
#   RUN_MS=200 RUNS=3     how long and how often each figure is taken
#   BUDGET=120            seconds after which no further engine is measured
#   WARPSWITCH=FILE       the program (default: beside this script)
#
# Each switch runs on one core between memory ports: receive, extract keys, look up, count, send.
# Before each figure, frames, ports and counters are compared with those of linear tables on a core;
# the column `digest` has to be the same for all engines. Ends with 1 if it is not.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "${1:-$here/results}"
out=$(cd "${1:-$here/results}" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export WARPSWITCH_CACHE=${WARPSWITCH_CACHE:-$work/kernels}
warpswitch=$(realpath "${WARPSWITCH:-$here/warpswitch}")
csv=$out/$(date -u +%F)-openflow.csv
: > "$csv"
failed=0
for engine in ${ENGINES:-turbo auto gpu:turbo gpu:bloom gpu:tuple}; do
	if [ "$SECONDS" -gt "${BUDGET:-120}" ]; then
		echo "openflow.sh: no time left for $engine" >&2
		break
	fi
	began=$SECONDS
	"$warpswitch" bench openflow --only "${PARTS:-styles,tables}" --engine "$engine" \
		--threads "${THREADS:-1}" --run-ms "${RUN_MS:-200}" --runs "${RUNS:-3}" \
		--record "$work/one.csv" ||
		failed=1
	[ -s "$work/one.csv" ] || continue
	if [ -s "$csv" ]; then tail -n +2 "$work/one.csv"; else cat "$work/one.csv"; fi |
		awk -v engine="$engine" '{ print (/^part,/ ? "engine" : engine) "," $0 }' >> "$csv"
	rm "$work/one.csv"
	echo "$engine: $((SECONDS - began)) s"
done
exit $failed
