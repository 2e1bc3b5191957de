#!/usr/bin/env bash
# What a card gives to whole configurations, on this machine, without Rust: Snap's applications
# (apps.sh beside this script) over frames of several sizes from memory.
#
#   ./offload.sh [OUT]    appends to OUT/DATE-offload.csv and OUT/DATE-offload-latency.csv
#                         (default: results beside this script)
#
#   WHAT='rates batches ratio latency'   what is taken (default: all four)
#   APPS='forward sdn ids'           applications (default: all of apps.sh)
#   SIZES='64 128 256 512 1024 1514' bytes of frames
#   MODES='core cores chain chains'  ways, see below
#   CORES=N                          cores of the host (default: all)
#   RULES=10K ROUTES=100K WORDS=10K  rules of the classifier, routes, rules of detection
#   DETECT=FILE                      rules of detection, in the place of words
#   STATE=none                       detection matches packet by packet, without flow state
#   PAYLOADS=FILE,...                captures whose TCP payloads frames have, in the place of bytes
#                                    that count up
#   SUFFIX=TEXT                      appends to OUT/DATE-offload-TEXT.csv
#   FRAMES=16K                       frames of each path, played again and again
#   WARM=0.5 WINDOW=0.5 WINDOWS=3    seconds before and of what is counted, and how often
#   BATCH=2048 DEPTH=4               wide batches: packets of each, and how many are under way
#   BATCHES='256 512 1024 …'         the same of 'batches', by chains at 64 bytes
#   DEVICE=host                      a pool of threads in the card's place
#   SMOKE=1                          does it run? Few sizes, short, on a pool of threads
#   LIMIT=60                         seconds that one run may take; what takes longer is left out
#   WARPSWITCH=FILE                  the program (default: beside this script)
#
# A rate is taken while a run goes on: packets that sources gave between two moments, by the time
# between them. What a run begins with (tables, kernels, pinned memory, the first touch of each
# page) is over by then. Whoever looks at counts waits for all workers, for a turn of each: some
# thousandths of a second where packets are dear, of which windows have to be many times as long.
# 'mpps' is the median of the windows, with the least and the greatest.
#
# Columns: 'mode' is one of
#   core      one worker, no device
#   cores     as many workers as cores in one process, each with a path of its own, no device
#   auto      the same with 'run --offload auto'
#   ahead     one worker, lookups ahead on the device: 'run --offload always'
#   aheads    the same by as many workers as cores, each with a path of its own
#   chain     one worker, elements of the device; 'batch' packets a wide batch
#   chains    as many workers as cores in one process, each with a path and a chain of its own
#   frames    the same with whole packets sent, not slices
#   ratio     of 'div', packets by chains for one of 'ids', taken in turns: in place of rates
# 'gbit_s' is of the wire: Ethernet adds 24 bytes to a frame, as Snap counts. 'device_share' is the
# part of lookups that the device answered, or of texts that it searched.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "${1:-$here/results}"
out=$(cd "${1:-$here/results}" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export WARPSWITCH_CACHE=${WARPSWITCH_CACHE:-$work/kernels}
warpswitch=$(realpath "${WARPSWITCH:-$here/warpswitch}")
. "$here/apps.sh"
if [ "${SMOKE:-0}" = 1 ]; then
	DEVICE=host CORES=2 RULES=100 ROUTES=100 WORDS=100 FRAMES=1K SIZES='64 1514'
	WARM=0.1 WINDOW=0.05 WINDOWS=1 TURNS=1 BATCHES='256 1024'
	LATENCY_BATCHES=512 LATENCY_TIMEOUTS=500
fi
what=" ${WHAT:-rates batches ratio latency} "
apps=${APPS:-forward routes match sdn headers dpi ids div full}
sizes=${SIZES:-64 128 256 512 1024 1514}
modes=" ${MODES:-core cores auto chain chains frames} "
cores=${CORES:-$(nproc)}
device=${DEVICE:-gpu}
. "$here/provenance.sh"
batch=${BATCH:-2048}
depth=${DEPTH:-4}
warm=${WARM:-0.5}
windows=${WINDOWS:-3}
failed=0

detect=${DETECT:+$(realpath "$DETECT")}
payloads=
if [ -n "${PAYLOADS:-}" ]; then
	for capture in ${PAYLOADS//,/ }; do
		payloads+=${payloads:+,}$(realpath "$capture")
	done
fi
cd "$work"
"$warpswitch" generate rules --style acl --count "${RULES:-10K}" --seed 1 --out acl.rules 2>&1
"$warpswitch" generate routes --count "${ROUTES:-100K}" --hops 4 --seed 1 --out routes.txt 2>&1
# words COUNT: words that traffic does not hold, as rules of detection mostly look for what does not
# come.
words() {
	awk -v count="${1/K/000}" 'BEGIN {
		srand(7)
		for (sid = 1; sid <= count; sid++) {
			word = ""
			len = 6 + int(rand() * 12)
			for (at = 0; at < len; at++)
				word = word sprintf("%c", 97 + int(rand() * 26))
			print "alert ip any any -> any any (content:\"" word "\"; sid:" sid ";)"
		}
	}'
}
if [ -n "$detect" ]; then gzip -cdf "$detect"; else words "${WORDS:-10K}"; fi > words.rules
# The same rules with two outcomes, for half of the packets each.
"$warpswitch" rules convert acl.rules --to canonical |
	awk '/-> pass/ && ++rules % 2 { sub(/-> pass/, "-> output:1") } 1' > halves.rules

# frames_of BYTES: makes frames of this size, once.
frames_of() {
	if [ ! -e "in$1.pcap" ]; then
		"$warpswitch" generate pcap --rules acl.rules --count "${FRAMES:-16K}" --seed 1 \
			--sizes "$1" ${payloads:+--payloads "$payloads"} \
			--out "in$1.pcap" 2> /dev/null
	fi
}

# paths COUNT APP BYTES BODY: so many paths, and a script that takes windows.
paths() {
	local count=$1 app=$2 bytes=$3 body=$4 n names='' plays='' hosts='' neighbours=''
	for ((n = 0; n < count; n++)); do
		names+="${names:+, }p$n"
		plays+=" \$(p$n/play.count)"
		if [ "$app" = full ]; then
			hosts+="p$n/play $n, p$n/out $n, "
			neighbours+=$(neighbours "p$n")
		fi
	done
	echo "elementclass Path { $(source_of "$bytes") -> $body }"
	echo "$names :: Path;"
	if [ -n "$hosts" ]; then echo "StaticThreadSched($hosts);"; fi
	# A script's time begins before its elements are ready: the first wait is for that.
	echo "Script($neighbours wait 1ms, wait ${warm}s, set n 0,
		label again,
		set from \$(now), set had \$(add$plays), wait ${WINDOW:-0.5}s,
		set has \$(add$plays), set to \$(now),
		print \"window \$(sub \$has \$had) \$(sub \$to \$from)\",
		set n \$(add \$n 1), goto again \$(lt \$n $windows), stop);"
}

# body APP MODE: what stands behind a source.
body() {
	local wide="SIZE $batch, DEPTH $depth"
	case $2 in
		chain | chains) chain "$1" "$wide" ;;
		frames) chain "$1" "$wide, SLICES false" ;;
		*) serial "$1" ;;
	esac
}

# windows_of APP BYTES MODE: million packets a second, a window a line; 'run.json' tells the rest.
windows_of() {
	local app=$1 bytes=$2 mode=$3 workers=$cores options=(--offload never)
	case $mode in core | ahead | chain) workers=1 ;; esac
	case $mode in
		auto) options=(--offload auto --device "$device") ;;
		ahead* | chain | chains | frames) options=(--offload always --device "$device") ;;
	esac
	frames_of "$bytes"
	paths "$workers" "$app" "$bytes" "$(body "$app" "$mode")" > run.click
	timeout "${LIMIT:-60}" "$warpswitch" run run.click --json -j "$workers" "${options[@]}" \
		> run.json 2> run.said || return 1
	awk '$1 == "window" { print $2 / $3 / 1e6 }' run.said | sort -g
}

# complain WHAT: tells that a run failed, and goes on.
complain() {
	echo "offload.sh: $1 failed: $(head -c 300 run.said | tr '\n' ' ')" >&2
	failed=1
}

# note APP BYTES MODE WORKERS NUMBERS…: a row of the median, the least and the greatest.
note() {
	local of_batch=- share
	case $3 in chain | chains | frames | ratio) of_batch=$batch ;; ahead*) of_batch=2048 ;; esac
	share=$(awk '
		/"on_device":/ { gsub(/[^0-9]/, ""); device += $0 }
		/"on_workers":/ { gsub(/[^0-9]/, ""); workers += $0 }
		END { all = device + workers; printf "%.4g", device / (all > 0 ? all : 1) }
	' run.json)
	printf '%s\n' "${@:5}" | sort -g | awk -v OFS=, -v app="$1" -v bytes="$2" -v mode="$3" \
		-v workers="$4" -v batch="$of_batch" -v share="$share" '
		{ of[NR] = $1 }
		END {
			median = of[int((NR + 1) / 2)]
			gbit = mode == "ratio" ? "" : median * (bytes + 24) * 8 / 1000
			print app, bytes, mode, batch, workers, median, of[1], of[NR], gbit, share
		}' | stamped | tee -a "$csv"
}

# measure APP BYTES MODE: a row of rates.
measure() {
	local workers=$cores list
	case $3 in core | ahead | chain) workers=1 ;; esac
	# No element of the device has a part in it.
	if [[ $1 = forward && $3 != core* ]]; then return 0; fi
	if ! list=$(windows_of "$1" "$2" "$3") || [ -z "$list" ]; then
		complain "$*"
		return 0
	fi
	note "$1" "$2" "$3" "$workers" $list
}

# turns BYTES: what div does for a packet of ids, both by chains, taken in turns.
turns() {
	local turn ids div ratios=()
	for ((turn = 0; turn < ${TURNS:-3}; turn++)); do
		ids=$(windows_of ids "$1" chains) && div=$(windows_of div "$1" chains) || {
			complain "div in turns with ids, $1 bytes"
			return 0
		}
		ratios+=("$(printf '%s %s\n' "$(median $div)" "$(median $ids)" |
			awk '{ print $1 / $2 }')")
	done
	note div "$1" ratio "$cores" "${ratios[@]}"
}

median() { printf '%s\n' "$@" | awk '{ of[NR] = $1 } END { print of[int((NR + 1) / 2)] }'; }

csv=$out/$(date -u +%F)-offload${SUFFIX:+-$SUFFIX}.csv
header=app,frame_bytes,mode,batch,workers,mpps,mpps_min,mpps_max,gbit_s,device_share
header+=,$provenance_columns
[ -s "$csv" ] || echo "$header" > "$csv"
if [[ $what = *' rates '* ]]; then
	for app in $apps; do
		for bytes in $sizes; do
			for mode in core cores auto ahead aheads chain chains frames; do
				[[ $modes = *" $mode "* ]] && measure "$app" "$bytes" "$mode"
			done
		done
	done
fi
if [[ $what = *' batches '* ]]; then
	for app in headers ids; do
		for batch in ${BATCHES:-256 512 1024 2048 4096 8192 16384}; do
			measure "$app" 64 chains
		done
	done
	batch=${BATCH:-2048}
fi
if [[ $what = *' ratio '* ]]; then
	for bytes in $sizes; do turns "$bytes"; done
fi
if [[ $what = *' latency '* ]]; then
	. "$here/latency.sh"
fi
echo "offload.sh: $csv"
exit "$failed"
