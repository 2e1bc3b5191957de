#!/usr/bin/env bash
# Small batches with and without the resident kernel, in `run` and in the engines that `classify`
# uses, on the card of this machine, without Rust; takes less than 90 s.
#
#   ./resident_run.sh [OUT]   writes OUT/DATE-resident-run.csv (default: results beside this script)
#
#   BATCHES='64 256 1024 2048'  packets of a batch
#   MODES='never always auto'   values of --resident
#   WINDOW=0.3                  seconds of each measurement of `run`
#   FRAMES=5000                 batches of each measurement of an engine
#   MPPS=2                      rate at which packets arrive for the latency of `run`
#   RULES=1K                    rules, in the style of access lists
#   BUDGET=80                   seconds after which nothing further is measured
#   DEVICE=host                 a pool of threads in the card's place: does it run?
#   WARPSWITCH=FILE             the program (default: beside this script)
#
# First digests: for each mode, `classify` of a trace must equal that of the CPU, and so must the
# hits of all rules in a chain of `run`. Columns: `what` is `run` or `classify`; `mpps` is the rate
# of one worker that always has packets; latencies are in microseconds, for `run` from arrival to
# behind the chain with DELAY_MAX 100 us, for `classify` of a batch. Ends with 1 if a digest is
# wrong or a measurement failed. Needs provenance.sh beside it.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "${1:-$here/results}"
out=$(cd "${1:-$here/results}" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export WARPSWITCH_CACHE=${WARPSWITCH_CACHE:-$work/kernels}
warpswitch=$(realpath "${WARPSWITCH:-$here/warpswitch}")
device=${DEVICE:-gpu}
window=${WINDOW:-0.3}
read -ra batches <<< "${BATCHES:-64 256 1024 2048}"
read -ra modes <<< "${MODES:-never always auto}"
failed=0
cd "$work"
source "$here/provenance.sh"

complain() {
	echo "resident_run.sh: $*" >&2
	failed=1
}

"$warpswitch" generate rules --style acl --count "${RULES:-1K}" --seed 1 --out acl.rules
"$warpswitch" generate trace --rules acl.rules --count 64K --seed 1 --out acl.trace
"$warpswitch" generate pcap --rules acl.rules --count 16K --seed 1 --sizes 64 --out in.pcap

# chain BATCH: the chain that both kinds of runs have.
chain() {
	echo "Batcher(SIZE $1, DELAY_MAX 100us, DEPTH 4) -> HostToDeviceMemcpy
		-> gs :: GPUSDNClassifier(acl.rules, MISS 0, ANNO 40) -> DeviceToHostMemcpy
		-> GPUCompletionQueue -> Debatcher"
}

# pass OPTIONS...: hits of all rules when the capture passes a chain once.
pass() {
	echo "FromDump(in.pcap, STOP true) -> $(chain 256) -> Discard;
		DriverManager(pause, print \$(gs.hits));" > pass.click
	"$warpswitch" run pass.click "$@" 2> pass.said
}

digest() {
	sha256sum | cut -c1-16
}

"$warpswitch" classify --rules acl.rules --trace acl.trace --engine turbo --quiet > want.txt
want_hits=$(pass --offload never | digest)
for mode in "${modes[@]}"; do
	"$warpswitch" classify --rules acl.rules --trace acl.trace --engine "$device:turbo" \
		--quiet --resident "$mode" | cmp -s - want.txt ||
		complain "classify --resident $mode: wrong results"
	hits=$(pass --offload always --device "$device" --resident "$mode" | digest)
	[ "$hits" = "$want_hits" ] || complain "run --resident $mode: wrong hits"
done
echo "digests: $SECONDS s"

csv=$out/$(date -u +%F)-resident-run.csv
echo "what,engine,resident,batch,mpps,p50_us,p99_us,digest,$provenance_columns" > "$csv"

has_time() {
	[ "$SECONDS" -lt "${BUDGET:-80}" ] || {
		complain "no time left for $*"
		return 1
	}
}

# classify MODE BATCH: rows of the engines; digests are checked before times are taken.
classify() {
	has_time "classify $*" || return 0
	"$warpswitch" bench gpu --latency --rules acl.rules --trace acl.trace --device "$device" \
		--engines maskhash,turbo --no-cpu --frame "$2" --frames "${FRAMES:-5000}" \
		--resident "$1" --csv > one.csv || complain "bench gpu --latency $* failed"
	python3 - "$1" << 'PYTHON' | stamped >> "$csv"
import csv
import sys

with open("one.csv", encoding="utf-8") as file:
    rows = [line for line in file if not line.startswith("#")]
for row in csv.DictReader(rows):
    if row["way"] == "engine":
        print("classify", row["engine"], sys.argv[1], row["frame"], row["mpps"], row["p50_us"],
              row["p99_us"], row["digest"], sep=",")
PYTHON
}

# through MODE BATCH SHAPER: packets, median and 99th percentile in seconds of a window of `run`.
through() {
	echo "FromDump(in.pcap) -> ReplayUnqueue(BURST 32) -> Queue(4096) $3 -> Unqueue(BURST 256)
		-> SetTimestamp -> $(chain "$2") -> took :: TimestampAccum -> Discard;
		Script(wait 1ms, wait 0.1s, write took.reset_counts, wait ${window}s,
			print \"took \$(took.count) \$(took.percentile 50) \$(took.percentile 99)\",
			stop);" \
		> through.click
	timeout 20 "$warpswitch" run through.click --offload always --device "$device" \
		--resident "$1" 2>&1 | awk '$1 == "took" { print $2, $3, $4; found = 1 }
		END { exit !found }'
}

# measure_run MODE BATCH: the row of a chain.
measure_run() {
	local count p50 p99 rate
	has_time "run $*" || return 0
	rate=$(through "$1" "$2" '') || {
		complain "run $* failed"
		return 0
	}
	read -r count p50 p99 <<< "$(through "$1" "$2" "-> Shaper($(awk -v m="${MPPS:-2}" \
		'BEGIN { printf "%d", m * 1e6 }'))" || echo 0 0 0)"
	[ "$count" -gt 0 ] || complain "run $*: no packet left the chain"
	awk -v OFS=, -v start="run,$device:turbo,$1,$2" -v packets="${rate%% *}" \
		-v window="$window" -v p50="$p50" -v p99="$p99" -v digest="$want_hits" 'BEGIN {
		print start, packets / window / 1e6, p50 * 1e6, p99 * 1e6, digest
	}' | stamped >> "$csv"
}

for batch in "${batches[@]}"; do
	for mode in "${modes[@]}"; do
		classify "$mode" "$batch"
		measure_run "$mode" "$batch"
	done
done
cut -d, -f1-7 "$csv"
echo "all: $SECONDS s; figures in $csv"
exit "$failed"
