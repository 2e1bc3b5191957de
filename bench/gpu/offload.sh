#!/usr/bin/env bash
# What a card gives to whole configurations, on this machine, without Rust: Snap's applications over
# frames of several sizes from memory, on one core, on all cores, with lookups ahead, and as chains.
#
#   ./offload.sh [OUT]    writes OUT/DATE-offload.csv (default: results beside this script)
#
#   APPS='sdn dpi ids div'           forwarder by rules; routes and detection; all three; the same
#                                    with two matchers and predicates
#   SIZES='64 128 256 512 1024 1514' bytes of frames
#   CORES=N                          cores of the host (default: all)
#   RULES=10K ROUTES=100K WORDS=10K  rules of the classifier, routes, rules of detection
#   FRAMES=16K                       frames of each set, played again and again
#   SECONDS_EACH=1                   about how long each figure is taken
#   BATCH=8192                       packets of a wide batch, where that is not what is varied
#   BATCHES='256 1024 4096 16384'    batches of the sweep at 64 bytes
#   DEVICE=host                      a pool of threads in the card's place
#   WARPSWITCH=FILE                  the program (default: beside this script)
#
# Columns: 'mode' is one of
#   core      one worker, no device
#   cores     as many processes as cores, each with one worker; their rates added
#   ahead     one worker, lookups ahead on the device: run --offload always
#   chain     one worker, GPU elements; 'batch' packets a wide batch
#   chains    as many workers as cores in one process, each with a source and a chain of its own
#   frames    the same with whole packets sent, not slices
# 'device_share' is the part of lookups that the device answered, or of texts that it searched.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "${1:-$here/results}"
out=$(cd "${1:-$here/results}" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export WARPSWITCH_CACHE=${WARPSWITCH_CACHE:-$work/kernels}
warpswitch=$(realpath "${WARPSWITCH:-$here/warpswitch}")
device=${DEVICE:-gpu}
cores=${CORES:-$(nproc)}
batch=${BATCH:-8192}
csv=$out/$(date +%F)-offload.csv
echo "app,frame_bytes,mode,batch,workers,mpps,gbit_s,device_share" > "$csv"

cd "$work"
"$warpswitch" generate rules --style acl --count "${RULES:-10K}" --seed 1 --out acl.rules 2>&1
"$warpswitch" generate routes --count "${ROUTES:-100K}" --hops 4 --seed 1 --out routes.txt 2>&1
# Words that traffic does not hold, as rules of detection mostly look for what does not come.
words=${WORDS:-10K}
awk -v count="${words/K/000}" 'BEGIN {
	srand(7)
	for (sid = 1; sid <= count; sid++) {
		word = ""
		len = 6 + int(rand() * 12)
		for (at = 0; at < len; at++) word = word sprintf("%c", 97 + int(rand() * 26))
		print "alert ip any any -> any any (content:\"" word "\"; sid:" sid ";)"
	}
}' > words.rules
printf 'priority=9,tcp actions=output:0\npriority=1 actions=output:1\n' > by-protocol.rules

# source IN STOP: frames from memory.
source() {
	echo "FromDump($1) -> ReplayUnqueue(STOP $2, BURST 256)"
}

routes='0.0.0.0/0 0, FILE routes.txt, FORMAT list'
ends='rt[0], rt[1], rt[2], rt[3] -> c :: Counter -> Discard;'

# serial APP: what stands behind a source.
serial() {
	local sdn='sdn :: SDNClassifier(acl.rules, MISS 0)'
	local ip="-> Strip(14) -> CheckIPHeader(CHECKSUM false)"
	local rt="-> rt :: StaticIPLookup($routes); $ends"
	local drain='sdn[1], sdn[2], sdn[3] -> Discard;'
	local matcher='IDSMatcher(RULES words.rules, LINK ip)'
	case $1 in
		sdn) echo "-> $sdn $ip $rt $drain" ;;
		dpi) echo "$ip -> ids :: $matcher $rt" ;;
		ids) echo "-> $sdn $ip -> ids :: $matcher $rt $drain" ;;
		div) echo "-> by :: SDNClassifier(by-protocol.rules) $ip
			-> web :: $matcher -> rt :: StaticIPLookup($routes);
			by[1] $ip -> rest :: $matcher -> rt; $ends" ;;
	esac
}

# chain APP BATCHER: the same by GPU elements.
chain() {
	local ends='rt[0], rt[1], rt[2], rt[3] -> c :: Counter -> Discard;'
	local lookup="GPUIPLookup($routes, ANNO 44)"
	local sdn='GPUSDNClassifier(acl.rules, MISS 0)'
	local matcher='GPUIDSMatcher(RULES words.rules, ANNO 24)'
	local by='GPUSDNClassifier(by-protocol.rules)'
	case $1 in
		sdn) members="$sdn -> $lookup" ;;
		dpi) members="$lookup -> $matcher" ;;
		ids) members="$sdn -> $lookup -> $matcher" ;;
		div) members="$by -> $lookup
			-> GPUIDSMatcher(RULES words.rules, ANNO 24, CHK_ANNO 40=0)
			-> GPUIDSMatcher(RULES words.rules, ANNO 24, CHK_ANNO 40=1)" ;;
	esac
	echo "-> CheckIPHeader(14, CHECKSUM false) -> b :: Batcher($2) -> HostToDeviceMemcpy
		-> $members -> DeviceToHostMemcpy -> GPUCompletionQueue -> Debatcher
		-> rt :: Dispatcher(ANNO 44); $ends"
}

# rate CONFIG OPTIONS…: packets that entered (no element sees more), seconds, the device's share.
rate() {
	"$warpswitch" run "$1" --json "${@:2}" 2>> "$work/said" > "$work/one.json"
	awk '
		/"packets":/ { gsub(/[^0-9]/, ""); if ($0 + 0 > packets) packets = $0 + 0 }
		/"seconds":/ { gsub(/[^0-9.]/, ""); seconds = $0 }
		/"on_device":/ { gsub(/[^0-9]/, ""); device += $0 }
		/"on_workers":/ { gsub(/[^0-9]/, ""); workers += $0 }
		END {
			all = device + workers
			print packets, seconds, device / (all > 0 ? all : 1)
		}
	' "$work/one.json"
}

# measure APP BYTES MODE BATCH WORKERS CONFIG-MAKER OPTIONS…: calibrates how often frames are
# played, and notes a row.
measure() {
	local app=$1 bytes=$2 mode=$3 size=$4 workers=$5 maker=$6
	shift 6
	local stop=2 result packets seconds share
	$maker "$stop" > "$work/run.click"
	result=$(rate "$work/run.click" "$@")
	read -r packets seconds share <<< "$result"
	stop=$(awk -v s="$seconds" -v want="${SECONDS_EACH:-1}" 'BEGIN {
		n = int(2 * want / (s > 0.001 ? s : 0.001))
		print n < 2 ? 2 : (n > 4000 ? 4000 : n)
	}')
	$maker "$stop" > "$work/run.click"
	if [ "$workers" -gt 1 ]; then
		local total=0
		for ((n = 0; n < workers; n++)); do
			(
				"$warpswitch" run "$work/run.click" --json "$@" 2> /dev/null | awk '
					/"packets":/ { gsub(/[^0-9]/, "") }
					/^[0-9]+$/ && $0 + 0 > packets { packets = $0 + 0 }
					/"seconds":/ { gsub(/[^0-9.]/, ""); seconds = $0 }
					END { print packets / seconds }
				' > "$work/rate.$n"
			) &
		done
		wait
		total=$(cat "$work"/rate.* | awk '{ sum += $1 } END { print sum }')
		rm -f "$work"/rate.*
		packets=$total seconds=1
	else
		result=$(rate "$work/run.click" "$@")
		read -r packets seconds share <<< "$result"
	fi
	if [ "$mode" = chains ]; then
		packets=$(awk -v one="$packets" -v paths="$cores" 'BEGIN { print one * paths }')
		workers=$cores
	fi
	awk -v OFS=, -v app="$app" -v bytes="$bytes" -v mode="$mode" -v size="$size" \
		-v workers="$workers" -v p="$packets" -v s="$seconds" -v share="$share" 'BEGIN {
			rate = p / s
			gbit = rate * bytes * 8 / 1e9
			print app, bytes, mode, size, workers, rate / 1e6, gbit, share
		}' | tee -a "$csv"
}

serial_of() { echo "$(source "in.pcap" "$1") $(serial "$app")"; }
chain_of() { echo "$(source "in.pcap" "$1") $(chain "$app" "SIZE $size")"; }
chains_of() {
	echo "elementclass Path { $(chain_of "$1") }"
	for ((n = 0; n < cores; n++)); do
		echo "path$n :: Path;"
	done
	echo "DriverManager(wait_stop $cores, stop);"
}
frames_of() { echo "$(source "in.pcap" "$1") $(chain "$app" "SIZE $size, SLICES false")"; }

always=(--offload always --device "$device")
for bytes in ${SIZES:-64 128 256 512 1024 1514}; do
	"$warpswitch" generate pcap --rules acl.rules --count "${FRAMES:-16K}" --seed 1 \
		--sizes "$bytes" --out in.pcap 2> /dev/null
	for app in ${APPS:-sdn dpi ids div}; do
		size=$batch
		measure "$app" "$bytes" core - 1 serial_of --offload never
		measure "$app" "$bytes" cores - "$cores" serial_of --offload never
		measure "$app" "$bytes" ahead 2048 1 serial_of "${always[@]}"
		measure "$app" "$bytes" chain "$size" 1 chain_of "${always[@]}"
		measure "$app" "$bytes" chains "$size" 1 chains_of "${always[@]}" -j "$cores"
		if [ "$app" = sdn ]; then
			measure "$app" "$bytes" frames "$size" 1 frames_of "${always[@]}"
		fi
		if [ "$bytes" = 64 ]; then
			for size in ${BATCHES-256 1024 4096 16384}; do
				measure "$app" "$bytes" chain "$size" 1 chain_of "${always[@]}"
			done
		fi
	done
done
sort -u "$work/said" | grep -v 'left out' | head -5 >&2 || true
echo "offload.sh: $csv"
