#!/usr/bin/env bash
# Sweeps what GSwitch's figures 5 to 9 vary, on the card of this machine, without Rust; with
# KEYS=16K 6ab and 7 take a minute each, the others some 10 s. Answers for sets of more than 16K
# rules are checked by two engines of the CPU and a sample of the reference's (`bench gpu --check
# engines`), all others by the reference. `cargo xtask figures` draws the file that comes out.
#
#   ./figures.sh [OUT]    writes OUT/DATE-gswitch.csv (default: results beside this script), and
#                         into OUT/gswitch-raw/ what each run of `bench gpu` printed
#
#   FIGURES='5c 7'      only these (default: 5ab 5c 6ab 6c 7 8a 8b 8c 9a 9b 9c)
#   BATCH=8K,256K       batches, where they are not what is varied: the paper's, and a large one
#   RUN_MS=5 RUNS=3     how long and how often each figure is taken
#   THREADS=4 SLOTS=8   threads that send batches off, and how many are under way
#   KEYS=64K            packets of each set
#   LIMIT=60            seconds that one run of `bench gpu` may take; what takes longer is left out
#   DEVICE=host         a pool of threads in the card's place
#   SMOKE=1             does it run? Two points of each sweep, small, on a pool of threads
#   WARPSWITCH=FILE     the program (default: beside this script)
#
# Columns: `value` is what `varied` was set to; `ours` and `paper` are in `unit`, and what the paper
# says comes from gswitch.csv. `kind` is one of
#   kernel       keys and answers stay on the card
#   end-to-end   from the host's memory to it, the better of copies and direct
#   cpu          cores of the host, batches of 256
#   speedup      end-to-end over cpu
# 'us' is the time of one batch. Linear searches of more than 16K rules have no kernel alone and
# only two batches, taken once each: they would take longer than all the rest.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "${1:-$here/results}/gswitch-raw"
out=$(cd "${1:-$here/results}" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export WARPSWITCH_CACHE=${WARPSWITCH_CACHE:-$work/kernels}
warpswitch=$(realpath "${WARPSWITCH:-$here/warpswitch}")
if [ "${SMOKE:-0}" = 1 ]; then
	DEVICE=host BATCH=256,8K RUN_MS=1 RUNS=1 THREADS=1 SLOTS=2 KEYS=256
fi
device=${DEVICE:-gpu}
. "$here/provenance.sh"
name="a pool of threads"
if [ "$device" = gpu ]; then
	name=$("$warpswitch" devices --json | sed -n 's/^ *"name": "\(.*\)",*$/\1/p' | head -1)
	if [ -z "$name" ]; then
		echo "figures.sh: there is no card: '$warpswitch devices' says what is missing" >&2
		exit 2
	fi
fi
keys=${KEYS:-64K}
slots=(--threads "${THREADS:-4}" --slots "${SLOTS:-8}")
# Above this an engine that looks at every rule takes longer than all the rest.
linear_kernel_rules_max=16384
linear_batches=8K,64K
if [ "${SMOKE:-0}" = 1 ]; then
	linear_kernel_rules_max=2048
	linear_batches=8K
fi
rows=$work/rows.csv
: > "$rows"

# Whether a figure is wanted; tells that it is taken.
wanted() {
	case " ${FIGURES:-$1} " in *" $1 "*) echo "-- figure $1" ;; *) return 1 ;; esac
}

# What a sweep goes through; two values are enough to see that it runs.
values() {
	if [ "${SMOKE:-0}" = 1 ]; then echo "${@:1:2}"; else echo "$@"; fi
}

# synthetic N C F Cm FIELDS: makes GSwitch's kind of set.
synthetic() {
	parameters=N=$1,C=$2,F=$3,Cm=$4,fields=$5
	set_rules=$1
	"$warpswitch" generate rules --synthetic "$parameters" --seed 1 --out "$work/set.rules"
}

# bench NAME OPTIONS…: measures the set; what is printed is kept as NAME.
bench() {
	local check=reference began=$SECONDS
	if [ "$set_rules" -gt "$linear_kernel_rules_max" ]; then check=engines; fi
	# What was measured before something failed counts all the same.
	(cd "$work" && "${cores[@]}" timeout "${LIMIT:-60}" "$warpswitch" bench gpu \
		--rules set.rules --csv --hash-seed 1 --run-ms "${RUN_MS:-5}" --check "$check" \
		"${@:2}") > "$work/one.csv" || {
		echo "figures.sh: $1 failed" >&2
		grep '^#' "$work/one.csv" >&2 || true
		failed=1
	}
	cp "$work/one.csv" "$out/gswitch-raw/$1.csv"
	echo "   $1: $((SECONDS - began)) s"
}
runs=(--runs "${RUNS:-3}")
cores=()
failed=0

# note FIGURE VARIED VALUE UNIT KINDS: rows from what `bench` printed last; where VALUE is 'batch',
# that is what is varied.
note() {
	awk -F, -v OFS=, -v figure="$1" -v varied="$2" -v value="$3" -v unit="$4" -v kinds="$5" '
		$5 == "what" || /^#/ { next }
		{
			kind = $5 ~ /^end_to_end/ ? "end-to-end" : $5
			if (!index(" " kinds " ", " " kind " ")) next
			sub(/^.*:/, "", $4)
			place = $4 OFS kind OFS $6
			if (!(place in best)) order[++count] = place
			if ($9 + 0 >= best[place] + 0) best[place] = $9
		}
		END {
			for (i = 1; i <= count; i++) {
				rate = best[order[i]]
				split(order[i], part, OFS)
				at = value == "batch" ? part[3] : value
				ours = unit == "us" ? part[3] / rate : rate
				print figure, varied, at, order[i], unit, ours
			}
		}' "$work/one.csv" >> "$rows"
}

# sweep FIGURE VARIED VALUE ENGINES OPTIONS…: one point, of the set made last.
sweep() {
	local engines=$4 options=("${slots[@]}" --device "$device" --no-cpu)
	if [[ $set_rules -gt $linear_kernel_rules_max && $engines = linear,* ]]; then
		engines=${engines#linear,}
		bench "$1-$3-linear" "${options[@]}" --engines linear --end-to-end --runs 1 \
			--batch "$linear_batches" --keys "$keys"
		note "$1" "$2" "$3" Mpps "end-to-end"
	fi
	bench "$1-$3" "${options[@]}" "${@:5}" "${runs[@]}" --engines "$engines"
	note "$1" "$2" "$3" Mpps "kernel end-to-end"
}

# on_cores COUNT NAME ENGINES: measures engines of the CPU on so many cores.
on_cores() {
	cores=(taskset -c "$(taskset -cp $$ | sed 's/.*: //' | tr , '\n' | awk -F- '
		{ for (core = $1; core <= $NF; core++) print core }' | head -n "$1" | paste -sd,)")
	bench "$2" "${runs[@]}" --device host --engines tuple --end-to-end --batch 256 --slots 1 \
		--cpu-engines "$3" --keys "$cpu_keys"
	cores=()
}
# Fewer, as each is looked up in 128K rules, one by one, on a single core too.
cpu_keys=4K
if [ "${SMOKE:-0}" = 1 ]; then cpu_keys=256; fi

four=linear,tuple,bloom,turbo
usual=(--batch "${BATCH:-8K,256K}" --keys "$keys")

if wanted 5ab; then
	synthetic 1024 128 128 1 12
	batches=$(values 256 8K 1K 2K 4K 16K 64K 256K)
	sweep 5b batch batch $four --batch "${batches// /,}" --keys "$keys"
	note 5a batch batch us kernel
	# One batch at a time: the kernel, the copies, and the calls.
	bench 5a "${runs[@]}" --threads 1 --slots 1 --device "$device" --no-cpu --end-to-end \
		--engines $four --batch "${batches// /,}" --keys "$keys"
	note 5a batch batch us end-to-end
fi
if wanted 5c; then
	for classes in $(values 16 64 128 256 512); do
		synthetic $((282 * classes)) "$classes" "$classes" 1 12
		sweep 5c classes "$classes" bloom "${usual[@]}"
	done
fi
if wanted 6ab; then
	synthetic $([ "${SMOKE:-0}" = 1 ] && echo 4096 16 16 || echo 131072 512 512) 1 12
	batches=$(values 256 8K 1K 16K 64K 256K)
	sweep 6b batch batch $four --batch "${batches// /,}" --keys "$keys"
	for count in $(values 1 2 4 8); do
		[ "$count" -le "$(nproc)" ] || continue
		on_cores "$count" "6a-$count" linear,tuple,bloom
		note 6a cores "$count" Mpps cpu
	done
	awk -F, -v OFS=, '
		$1 == "6b" && $5 == "end-to-end" && $6 == 8192 { card[$4] = $8 }
		$1 == "6a" && $4 in card {
			print $1, $2, $3, $4, "speedup", 8192, "times", card[$4] / $8
		}
		' "$rows" > "$work/speedups.csv"
	cat "$work/speedups.csv" >> "$rows"
fi
if wanted 6c; then
	# As many rules as the paper's sets have after its conversion of ranges.
	for set in $(values acl:1834 fw:914 ipc:2180); do
		set_rules=${set#*:}
		"$warpswitch" generate rules --style "${set%:*}" --count "$set_rules" --seed 1 \
			--out "$work/set.rules"
		sweep 6c set "${set%:*}" $four "${usual[@]}"
		on_cores "$(($(nproc) < 8 ? $(nproc) : 8))" "6c-${set%:*}-cpu" tuple,turbo
		note 6c set "${set%:*}" Mpps cpu
	done
fi
if wanted 7; then
	for classes in $(values 1 4 16 64 512 1024); do
		synthetic $((256 * classes)) "$classes" "$classes" 1 12
		sweep 7 rules $((256 * classes)) $four "${usual[@]}"
	done
fi
# eight FIGURE N CLASSES…
eight() {
	wanted "$1" || return 0
	local classes
	for classes in $(values "${@:3}"); do
		synthetic "$2" "$classes" "$classes" 1 12
		sweep "$1" classes "$classes" $four "${usual[@]}"
	done
}
eight 8a 1024 4 16 128 1024
eight 8b 8192 32 256 1024
eight 8c 32768 128 512 1024
if wanted 9a; then
	for full in $(values 4 16 128); do
		synthetic 1024 128 "$full" 1 12
		sweep 9a 'full classes' "$full" $four "${usual[@]}"
	done
fi
if wanted 9b; then
	for overlap in $(values 1 8 32 128); do
		synthetic 1024 128 128 "$overlap" 12
		# Packets that match so many rules each, which others do not.
		"$warpswitch" generate trace --synthetic "$parameters" --seed 1 --count "$keys" \
			--out "$work/set.trace"
		sweep 9b 'overlapping classes' "$overlap" $four --batch "${BATCH:-8K,256K}" \
			--trace set.trace
	done
fi
if wanted 9c; then
	for fields in 5 12; do
		synthetic 1024 128 128 1 "$fields"
		sweep 9c fields "$fields" $four "${usual[@]}"
	done
fi

# What the paper says goes beside: of the same engine, kind and unit, in batches as it had them.
csv=$out/$(date -u +%F)-gswitch.csv
{
	echo "# $name"
	echo "figure,varied,value,engine,kind,batch,unit,ours,paper,$provenance_columns"
	awk -F, -v OFS=, '
		NR == FNR {
			unit = $5 == "Gbit/s" ? "Mpps" : $5
			# 64-byte frames take 84 bytes on the wire.
			paper = $5 == "Gbit/s" ? $6 * 1000 / 672 : $6
			if ($1 !~ /^#/) said[$1, $2, $3, $4, unit] = paper
			next
		}
		{
			place = $1 SUBSEP $3 SUBSEP $4 SUBSEP $5 SUBSEP $7
			alike = $6 == 8192 || $2 == "batch" || $5 == "cpu"
			print $0, alike && place in said ? said[place] : ""
		}' "$here/gswitch.csv" "$rows" | stamped
} > "$csv"
echo "figures in $csv"
exit $failed
