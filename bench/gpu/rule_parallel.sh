#!/usr/bin/env bash
# Small batches: kernels that divide rules over a card beside those that divide packets alone, on
# the card of this machine, without Rust; takes two minutes.
#
#   ./rule_parallel.sh [OUT]   writes OUT/DATE-rule-parallel.csv (default: results beside this
#                              script) and OUT/rule-parallel-tests.txt
#
#   RUN_TESTS=0         no tests
#   TESTS=FILE          the tests of the card (default: card-tests beside this script)
#   BATCH=256,1K,8K,64K batches
#   RUN_MS=3 RUNS=3     how long and how often each figure is taken
#   KEYS=32K            packets of each set
#   BUDGET=150          seconds after which no further set is begun
#   DEVICE=host         a pool of threads in the card's place: does it run?
#   WARPSWITCH=FILE     the program (default: beside this script)
#
# First the tests of these kernels: every division of rules equals the reference. Then kernels alone
# on GSwitch's synthetic sets; before each figure all answers are compared with the reference, and
# the column `digest` has to be the same for all engines and divisions of a set. The column `split`
# is `never` for kernels that divide packets alone, `auto` for the choice of the program, else
# PARTSxGROUPS/THREADS@WINDOW: warps and blocks that share packets, threads of a block (GSwitch's B
# is 1024 / threads), bytes of shared memory for slots or filters (its m). Ends with 1 if a test, an
# answer or a digest is wrong.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "${1:-$here/results}"
out=$(cd "${1:-$here/results}" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export WARPSWITCH_CACHE=${WARPSWITCH_CACHE:-$work/kernels}
warpswitch=$(realpath "${WARPSWITCH:-$here/warpswitch}")
device=${DEVICE:-gpu}
failed=0

if [ "${RUN_TESTS:-1}" = 1 ] && [ "$device" = gpu ]; then
	export WARPSWITCH_NEED_CARD=1
	"${TESTS:-$here/card-tests}" --test-threads 6 divided 2>&1 |
		tee "$out/rule-parallel-tests.txt" | grep -v '\.\.\. ok$' || true
	grep -q '^test result: ok' "$out/rule-parallel-tests.txt" || failed=1
	echo "tests: $SECONDS s"
fi

csv=$out/$(date -u +%F)-rule-parallel.csv
: > "$csv"
# measure NAME PARAMETERS BATCHES DIVISIONS: a set, and rows of it.
measure() {
	if [ "$SECONDS" -gt "${BUDGET:-150}" ]; then
		echo "rule_parallel.sh: no time left for $1" >&2
		failed=1
		return 0
	fi
	local began=$SECONDS
	"$warpswitch" generate rules --synthetic "$2" --seed 1 --out "$work/$1"
	(cd "$work" && "$warpswitch" bench gpu --rules "$1" --csv --hash-seed 1 --no-cpu \
		--kernel-only --device "$device" --engines linear,tuple,bloom --batch "$3" \
		--keys "${KEYS:-32K}" --run-ms "${RUN_MS:-3}" --runs "${RUNS:-3}" --split "$4") \
		> "$work/one.csv" || {
		echo "rule_parallel.sh: $1 failed" >&2
		failed=1
	}
	# All engines and divisions have the same answers.
	awk -F, -v name="$1" '
		!/^#/ && $5 != "what" && !($16 in seen) { seen[$16]; count++ }
		END { if (count > 1) { print "digests differ: " name; exit 1 } }
	' "$work/one.csv" >&2 || failed=1
	if [ -s "$csv" ]; then tail -n +2 "$work/one.csv"; else cat "$work/one.csv"; fi >> "$csv"
	grep '^#' "$work/one.csv" >&2 || true
	echo "$1: $((SECONDS - began)) s"
}

batches=${BATCH:-256,1K,8K,64K}
windows=never,auto,32x1/1024,16x1/512,8x1/256,32x1/1024@0,32x1/1024@2048,32x2/1024,32x8/1024
for masks in 80 160 245; do
	measure "1k_$masks" "N=1024,C=$masks,F=$masks,Cm=1,fields=5" "$batches" "$windows"
done
for masks in 80 245; do
	measure "10k_$masks" "N=10240,C=$masks,F=$masks,Cm=1,fields=5" "$batches" \
		never,auto,32x1/1024,32x1/1024@12288,32x4/1024
done
# GSwitch's own case of twelve fields, and how far larger batches gain.
measure 1k_128_of_12 N=1024,C=128,F=128,Cm=1,fields=12 "$batches" \
	never,auto,16x1/512,8x1/256,16x4/512
measure 1k_245_large N=1024,C=245,F=245,Cm=1,fields=5 64K,256K \
	never,2x1/1024,4x1/1024,8x1/1024,16x1/1024
awk -F, '
	!/^#/ && $5 == "kernel" && $6 == 8192 {
		sub(/^.*:/, "", $4)
		printf "%-14s %-7s %-16s %9.1f Mpps\n", $1, $4, $19, $9
	}' "$csv"
echo "figures in $csv"
exit $failed
