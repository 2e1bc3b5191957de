#!/usr/bin/env bash
# Whether the configurations of Snap's kind leave the same frames and alerts whoever does the work:
# the CPU alone, lookups ahead on a device, and their twins with elements of a device, each with a
# pool of threads and with the card.
#
#   ./twins.sh [OUT]      writes OUT/DATE-twins.csv (default: results beside this script)
#
#   TIMES=500             how often their capture is played, where there is one
#   DEVICES='host gpu'    a pool of threads, the card
#   WARPSWITCH=FILE       the program (default: beside this script)
#   CONF=DIR              the configurations (default: beside this script)
#
# Columns: 'same' is yes if frames of both outputs and all alerts are those of the CPU alone, byte
# by byte; 'frames' counts what left, 'alerts' their lines; 'device_share' is the part of lookups
# that the device answered, or of texts that it searched. Ends with 1 if anything differs.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "${1:-$here/results}"
out=$(cd "${1:-$here/results}" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export WARPSWITCH_CACHE=${WARPSWITCH_CACHE:-$work/kernels}
warpswitch=$(realpath "${WARPSWITCH:-$here/warpswitch}")
cp -r "${CONF:-$here/conf}" "$work/conf"
cd "$work"

# The capture many times over.
many=in.pcap
echo "FromDump(conf/captures/ids.pcap)
	-> ReplayUnqueue(STOP ${TIMES:-500}) -> ToDump($many, SNAPLEN 0);
	DriverManager(wait_stop, stop);" > many.click
"$warpswitch" run --simtime many.click
echo "FromDump(out0, STOP true) -> c :: Counter -> Discard;
	FromDump(out1, STOP true) -> c;
	DriverManager(wait_stop, wait_stop, print \$(c.count), stop);" > count.click

failed=0
csv=$out/$(date -u +%F)-twins.csv
case " ${DEVICES:-host gpu} " in *' gpu '*) device=gpu ;; *) device=host ;; esac
. "$here/provenance.sh"
echo "configuration,way,device,frames,alerts,device_share,same,$provenance_columns" > "$csv"

# leave AS FILE WHEN DEVICE ALERTS…: runs a configuration; leaves AS.sum, and rows' numbers.
leave() {
	local as=$1 file=$2 when=$3 device=$4 alerts variables
	shift 4
	# Nothing of the run before may stand for this one.
	rm -f out0 out1 ./*.json ./*.alerts
	frames=- lines=- share=-
	variables=(OUT0=out0 OUT1=out1)
	case $file in *full-router*) ;; *) variables+=(IN=$many) ;; esac
	for alerts; do variables+=("$alerts=$alerts.json"); done
	"$warpswitch" run --simtime "conf/$file.click" --offload "$when" --json \
		${device:+--device "$device"} "${variables[@]}" > run.json 2> run.said || {
		cat run.said >&2
		return 1
	}
	# The line of statistics counts bytes with or without Ethernet's header.
	for alerts; do
		grep -v '"event_type":"stats"' "$alerts.json" > "$alerts.alerts" || true
	done
	sha256sum out0 out1 ./*.alerts > "$as.sum"
	lines=$(cat ./*.alerts | wc -l)
	frames=$("$warpswitch" run --simtime count.click)
	share=$(awk '
		/"on_device":/ { gsub(/[^0-9]/, ""); device += $0 }
		/"on_workers":/ { gsub(/[^0-9]/, ""); workers += $0 }
		END { all = device + workers; printf "%.4g", device / (all > 0 ? all : 1) }
	' run.json)
}

# twins NAME ALERTS…: serial, then all other ways.
twins() {
	local name=$1 device way file
	shift
	leave serial "$name" never "" "$@"
	if [ "$frames" = 0 ] || [ "$lines" = 0 ]; then
		echo "twins.sh: $name leaves $frames frames, $lines alerts: nothing to compare" >&2
		failed=1
	fi
	echo "$name,serial,-,$frames,$lines,0,yes" | stamped | tee -a "$csv"
	for device in ${DEVICES:-host gpu}; do
		for way in ahead twin; do
			file=$name
			[ $way = twin ] && file=$name-gpu
			same=no
			if leave other "$file" always "$device" "$@" &&
				cmp -s serial.sum other.sum; then
				same=yes
			else
				failed=1
			fi
			echo "$name,$way,$device,$frames,$lines,$share,$same" |
				stamped | tee -a "$csv"
		done
	done
}

twins dpi-router EVE
twins ids-router EVE
twins ids-diverging EVE_WEB EVE_REST
twins full-router-ids EVE
echo "twins.sh: $csv"
exit "$failed"
