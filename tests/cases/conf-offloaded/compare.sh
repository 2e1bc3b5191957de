# compare.sh conf/NAME ALERTS…: runs that configuration and its twin, if it has one, with a device
# and without, and tells what of what they leave is the same as without. ALERTS are the variables of
# files of alerts.
name=$1
shift
run() { # AS FILE WHEN ALERTS…
	as=$1 file=$2 when=$3
	shift 3
	variables="OUT0=$as.0 OUT1=$as.1"
	for alerts; do
		variables="$variables $alerts=$as.$alerts"
	done
	"$WARPSWITCH" run --simtime "$file.click" --offload "$when" --device host $variables \
		2>/dev/null | sed "s/$as[.]/AS./g" > "$as.said"
	for alerts; do
		# The last line counts bytes, with or without Ethernet's header.
		grep -v '"event_type":"stats"' "$as.$alerts" > "$as.$alerts-only"
	done
}
run serial "$name" never "$@"
run ahead "$name" always "$@"
all=ahead
if [ -e "$name-gpu.click" ]; then
	run plain "$name-gpu" never "$@"
	run twin "$name-gpu" always "$@"
	all='ahead plain twin'
fi
parts="0 1 said"
for alerts; do
	parts="$parts $alerts-only"
done
for as in $all; do
	same=
	for part in $parts; do
		cmp -s "serial.$part" "$as.$part" && same="$same $part"
	done
	echo "$name, $as: the same$same"
done
