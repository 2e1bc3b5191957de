#!/usr/bin/env bash
# Puts what offload.sh measured beside what Snap's text says, and measures its figure 2: lookups,
# classification and search on the card and on all cores, without a configuration around them.
# `cargo xtask figures` draws the file that comes out.
#
#   ./snap.sh [OUT]       writes OUT/DATE-snap.csv from OUT/DATE-offload.csv and
#                         OUT/DATE-offload-latency.csv (default: results beside this script)
#
#   FIGURE2=0             nothing is measured: figure 2 stays as it is in OUT/DATE-snap.csv
#   RUN_MS=5 RUNS=3       how long and how often each figure is taken
#   RULES=10K ROUTES=100K WORDS=10K   as offload.sh has them
#   DEVICE=host           a pool of threads in the card's place
#   SMOKE=1               does it run? Small, on a pool of threads
#   WARPSWITCH=FILE       the program (default: beside this script)
#
# Columns: `value` is what `varied` was set to; `ours` and `paper` are in `unit`, and what the paper
# says comes from snap.csv. `engine` is 'cores', without a card, 'card' or, with whole packets sent,
# 'frames'; or what was timed. Search has batches of 32 KB, of 512 payloads each.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "${1:-$here/results}"
out=$(cd "${1:-$here/results}" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export WARPSWITCH_CACHE=${WARPSWITCH_CACHE:-$work/kernels}
warpswitch=$(realpath "${WARPSWITCH:-$here/warpswitch}")
batches=256,1K,4K,16K,64K,256K,1M pages=1,4,16,64,256
if [ "${SMOKE:-0}" = 1 ]; then
	DEVICE=host RULES=100 ROUTES=100 WORDS=100 RUN_MS=1 RUNS=1 batches=256,1K pages=1,4
fi
device=${DEVICE:-gpu}
. "$here/provenance.sh"
name="a pool of threads"
if [ "$device" = gpu ]; then
	name=$("$warpswitch" devices --json | sed -n 's/^ *"name": "\(.*\)",*$/\1/p' | head -1)
fi
rows=$work/rows.csv
: > "$rows"
failed=0

# bench FIGURE COMMAND OPTIONS…: rows of the kernel alone, end to end, and of all cores.
bench() {
	local figure=$1
	"$warpswitch" bench "${@:2}" --csv --device "$device" --run-ms "${RUN_MS:-5}" \
		--runs "${RUNS:-3}" > one.csv || {
		echo "snap.sh: figure $figure failed" >&2
		failed=1
		return 0
	}
	awk -F, -v OFS=, -v figure="$figure" '
		function row(batch, engine, kind, mpps) {
			if (mpps) print figure, "batch", batch, engine, kind, batch, "Mpps", mpps
		}
		/^#/ { next }
		!("what" in at) { for (i = 1; i <= NF; i++) at[$i] = i; next }
		at["addresses"] && $at["addresses"] != "random" { next }
		at["payloads"] && $at["payloads"] != "random" { next }
		{
			batch = $at["batch"] * (at["payloads"] ? 512 : 1)
			rate = $at["mpps"] + 0
			what = $at["what"]
			if (what == "cpu") { if (rate > cores) cores = rate; next }
			if (what == "kernel") kind = what
			else if (what ~ /^end_to_end/) kind = "end-to-end"
			else next
			if (!(batch in seen)) { seen[batch]; order[++count] = batch }
			if (rate > best[batch, kind]) best[batch, kind] = rate
		}
		END {
			for (i = 1; i <= count; i++) {
				batch = order[i]
				row(batch, "card", "kernel", best[batch, "kernel"])
				row(batch, "card", "end-to-end", best[batch, "end-to-end"])
				row(batch, "cores", "end-to-end", cores)
			}
		}' one.csv >> "$rows"
}

date=$(date -u +%F)
csv=$out/$date-snap.csv
if [ "${FIGURE2:-1}" = 0 ]; then
	if [ -s "$csv" ]; then grep '^2' "$csv" | cut -d, -f 1-8 > "$rows" || true; fi
else
	cd "$work"
	"$warpswitch" generate rules --style acl --count "${RULES:-10K}" --seed 1 --out acl.rules
	"$warpswitch" generate routes --count "${ROUTES:-100K}" --hops 4 --seed 1 --out routes.txt
	words=${WORDS:-10K}
	# As offload.sh makes them, as letters' codes.
	awk -v count="${words/K/000}" 'BEGIN {
		srand(7)
		for (word = 0; word < count; word++) {
			line = "- "
			len = 6 + int(rand() * 12)
			for (at = 0; at < len; at++)
				line = line sprintf("%02x", 97 + int(rand() * 26))
			print line
		}
	}' > words.hex
	bench 2a routes --routes routes.txt --batch "$batches" --addresses 256K
	bench 2b gpu --rules acl.rules --batch "$batches" --engines turbo --cpu-engines turbo \
		--keys 256K --hash-seed 1
	bench 2c scan --patterns words.hex --batch "$pages" --size 64
fi

# The configurations, with batches of 2048 where they are not varied.
if [ -s "$out/$date-offload.csv" ]; then
	awk -F, -v OFS=, -v batch="${BATCH:-2048}" '
		BEGIN {
			split("sdn 8a dpi 8b ids 8c div 9 full 11", of, " ")
			for (i = 1; i < 10; i += 2) figure[of[i]] = of[i + 1]
			split("routes routes match detection sdn rules", of, " ")
			for (i = 1; i < 6; i += 2) pipeline[of[i]] = of[i + 1]
			engine["cores"] = "cores"
			engine["chains"] = "card"
			engine["frames"] = "frames"
		}
		function row(figure, varied, value, engine, batch, unit, ours) {
			print figure, varied, value, engine, "end-to-end", batch, unit, ours
		}
		function frames(figure, engine) {
			row(figure, "bytes of a frame", $2, engine, used, "Gbit/s", $9)
		}
		function percent(pipeline, engine, share) {
			row("table1", "pipeline", pipeline, engine, used, "percent", share)
		}
		!($3 in engine) || seen[$1, $2, $3, $4]++ { next }
		$3 == "chains" && $2 == 64 && ($1 == "headers" || $1 == "ids") {
			sizes += !($4 in has)
			has[$4]
			start = "batch" OFS "batch" OFS $4 OFS $1 OFS "end-to-end"
			sweep[++swept] = start OFS $4 OFS "Gbit/s" OFS $9
		}
		$4 != "-" && $4 != batch { next }
		{ used = $4 == "-" ? 256 : $4 }
		$1 == "forward" && $3 == "cores" {
			if ($2 == 64) {
				all = $6
				percent("forwarder", "cores", 100)
			}
			frames("11", "forward")
		}
		$1 in figure { frames(figure[$1], engine[$3]) }
		$1 in pipeline && $2 == 64 && $3 != "frames" {
			of_all[++piped] = $6
			piped_as[piped] = pipeline[$1] SUBSEP engine[$3] SUBSEP used
		}
		END {
			# The forwarder may come after the others.
			for (i = 1; i <= piped && all; i++) {
				split(piped_as[i], as, SUBSEP)
				used = as[3]
				percent(as[1], as[2], 100 * of_all[i] / all)
			}
			# One size is no sweep.
			for (i = 1; i <= swept && sizes > 1; i++) print sweep[i]
		}
		' "$out/$date-offload.csv" >> "$rows"
fi
# Where the CPU has no batch, its times stand beside each.
if [ -s "$out/$date-offload-latency.csv" ]; then
	awk -F, -v OFS=, '
		function row(figure, varied, value, kind, batch, p50, p99, most, mean) {
			print figure, varied, value, "mean", kind, batch, "us", mean
			print figure, varied, value, "p50", kind, batch, "us", p50
			print figure, varied, value, "p99", kind, batch, "us", p99
			print figure, varied, value, "max", kind, batch, "us", most
		}
		$2 == "core" { for (i = 7; i <= 10; i++) alone[$3, i] = $i }
		$2 == "chain" {
			is_batch = $5 == 100000
			figure = is_batch ? "latency" : "timeout"
			varied = is_batch ? "batch" : "time-out in us"
			value = is_batch ? $4 : $5
			row(figure, varied, value, "end-to-end", $4, $7, $8, $9, $10)
			row(figure, varied, value, "cpu", 256,
				alone[$3, 7], alone[$3, 8], alone[$3, 9], alone[$3, 10])
		}' "$out/$date-offload-latency.csv" >> "$rows"
fi

{
	echo "# $name"
	echo "figure,varied,value,engine,kind,batch,unit,ours,paper,$provenance_columns"
	awk -F, -v OFS=, '
		NR == FNR { if ($1 !~ /^#/) said[$1, $2, $3, $4, $5] = $6; next }
		$8 > 0 {
			place = $1 SUBSEP $3 SUBSEP $4 SUBSEP $5 SUBSEP $7
			print $0, place in said ? said[place] : ""
		}' "$here/snap.csv" "$rows" | stamped
} > "$csv"
echo "figures in $csv"
exit $failed
