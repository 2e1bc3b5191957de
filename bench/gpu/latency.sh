# How long packets of 64 bytes take through an application on one worker, by what a wide batch holds
# and by the time that it may wait: for offload.sh, which reads this file.
#
#   LATENCY_APP=ids                       the application
#   LATENCY_MPPS=1                        packets come at this rate, evenly, in microseconds that
#                                         a worker without work sleeps through
#   LATENCY_BATCHES='256 512 1024 …'      batches, which leave when they are full
#   LATENCY_SLOW_MPPS=0.1                 and where the time-out rules
#   LATENCY_TIMEOUTS='50 100 200 …'       microseconds
#
# Appended to OUT/DATE-offload-latency.csv: from the application's input to behind its chain, or all
# its elements where there is no card.

# through MODE MPPS BATCH TIMEOUT_US: a row.
through() {
	local mode=$1 mpps=$2 size=$3 timeout_us=$4 app=${LATENCY_APP:-ids} body options
	options=(--offload never)
	frames_of 64
	if [ "$mode" = core ]; then
		body=$(serial "$app")
	else
		options=(--offload always --device "$device")
		body=$(chain "$app" "SIZE $size, DEPTH $depth, DELAY_MAX ${timeout_us}us")
	fi
	{
		echo "elementclass App { input -> ${body//-> Discard/-> output} }"
		echo "FromDump(in64.pcap) -> ReplayUnqueue(BURST 32) -> Queue(4096)
			-> Shaper($(awk -v m="$mpps" 'BEGIN { printf "%d", m * 1e6 }'))
			-> Unqueue(BURST 256) -> SetTimestamp -> App -> took :: TimestampAccum
			-> Discard;
			Script(wait 1ms, wait ${warm}s, write took.reset_counts, wait 1s,
			print \"took \$(took.count) \$(took.percentile 50) \$(took.percentile 99)\",
			print \"most \$(took.max_time) \$(took.average_time)\", stop);"
	} > run.click
	timeout "${LIMIT:-60}" "$warpswitch" run run.click --json "${options[@]}" > run.json \
		2> run.said || {
		complain "latency $*"
		return 0
	}
	awk -v OFS=, -v start="$app,$mode,$mpps,$size,$timeout_us" '
		$1 == "took" { count = $2; p50 = $3; p99 = $4 }
		$1 == "most" { print start, count, p50 * 1e6, p99 * 1e6, $2 * 1e6, $3 * 1e6 }
	' run.said | stamped | tee -a "$latency"
}

latency=$out/$(date -u +%F)-offload-latency.csv
header=app,mode,mpps,batch,timeout_us,packets,p50_us,p99_us,max_us,mean_us
header+=,$provenance_columns
[ -s "$latency" ] || echo "$header" > "$latency"
rate=${LATENCY_MPPS:-1} slow=${LATENCY_SLOW_MPPS:-0.1}
through core "$rate" - -
for size in ${LATENCY_BATCHES:-256 512 1024 2048 4096 8192}; do
	# No time-out: each batch waits until it is full.
	through chain "$rate" "$size" 100000
done
through core "$slow" - -
for timeout_us in ${LATENCY_TIMEOUTS:-50 100 200 500 1000 2000}; do
	through chain "$slow" 1024 "$timeout_us"
done
