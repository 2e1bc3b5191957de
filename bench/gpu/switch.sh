#!/usr/bin/env bash
# A whole switch between memory ports on this machine, without Rust: GSwitch's figures 10 and 11,
# Snap's table 2 and section 4.4 (`warpswitch bench switch`). Takes less than 3 minutes.
#
#   ./switch.sh [OUT]     writes OUT/DATE-switch.csv, .json and charts (default: results beside
#                         this script)
#
#   GOAL_MPPS=150         fails if no switch with I/O reaches so many million frames a second, with
#                         64 bytes and a delay bound of 100 us (default: no goal)
#   OPTIONS='--run-ms 50' further options of `warpswitch bench switch`
#   DEVICE=host           a pool of threads in the card's place
#   SMOKE=1               does it run? Small, on a pool of threads
#   WARPSWITCH=FILE       the program (default: beside this script)
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=${1:-$here/results}
mkdir -p "$out"
out=$(cd "$out" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export WARPSWITCH_CACHE=${WARPSWITCH_CACHE:-$work/kernels}
warpswitch=$(realpath "${WARPSWITCH:-$here/warpswitch}")
options=(--device "${DEVICE:-gpu}" --record "$work/record")
if [ "${SMOKE:-0}" = 1 ]; then options=(--device host --smoke --record "$work/record"); fi
read -ra more <<< "${OPTIONS:-}"
"$warpswitch" bench switch "${options[@]}" "${more[@]}"
date=$(date -u +%F)
for file in "$work/record"/*; do
	name=$(basename "$file")
	case $name in
		switch.*) cp "$file" "$out/$date-$name" ;;
		*) cp "$file" "$out/$date-switch-$name" ;;
	esac
done
echo "figures in $out/$date-switch.csv"
awk -F, -v goal="${GOAL_MPPS:-0}" '
	NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
	$at["figure"] != 11 || $at["io"] != "true" || $at["frame_bytes"] != 64 { next }
	$at["delay_max_us"] == "" || $at["delay_max_us"] == 100 {
		mpps = $at["mpps"]
		print $at["lookup"] ": " mpps " Mpps, p99 " $at["p99_us"] " us"
		if (mpps > most) most = mpps
	}
	END { exit most < goal }' "$out/$date-switch.csv"
