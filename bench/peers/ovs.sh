#!/usr/bin/env bash
# Measures the userspace datapath of Open vSwitch with DPDK on the flows and frames of
# `warpswitch bench openflow --only styles`, with one or more PMD threads. Nothing is sent to a
# network: frames come from memory (net_pcap) and are dropped (net_null).
#
#   ./ovs.sh OUT [THREADS...]    writes OUT/ovs.csv and OUT/ovs.log (default threads: 1 8)
#
#   CACHES='default dpcls smc'   caches in this order; without smc by default
#   STYLES='acl fw ipc'          flow sets
#   TRAFFIC=split                each PMD gets its share of the frames, as from the receive queues
#                                of a network card; with whole, each gets all of them
#   WINDOWS=5 WINDOW_S=1.5       timed windows; the median is reported
#   WARM_S=40                    longest time to fill the caches
#   CORES='1 2 3'                cores of the PMDs (default: one per physical core, 0 last)
#   BUNDLE=DIR                   what ovs_bundle.sh collected (default: beside this script)
#
# Columns: packets of all PMDs in million a second; datapath flows; shares of the packets that hit
# the exact-match cache, hit the signature-match cache, or missed all caches; hash tables searched
# for each hit of the wildcard lookup. Caches: `default`; `dpcls` is the wildcard lookup alone;
# `smc` is the signature-match cache without the exact-match cache.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
[ $# -ge 1 ] || { sed -n '2,21s/^# \{0,1\}//p' "$0"; exit 2; }
mkdir -p "$1"
out=$(cd "$1" && pwd)
shift
thread_counts=("${@:-1}")
[ $# -gt 0 ] || thread_counts=(1 8)
bundle=$(cd "${BUNDLE:-$here}" && pwd)
windows=${WINDOWS:-5}
traffic=${TRAFFIC:-split}
work=$(mktemp -d)
export OVS_RUNDIR=$work OVS_LOGDIR=$work OVS_DBDIR=$work OVS_SYSCONFDIR=$work
pids=()
# The programs run with the loader and the libraries of the bundle.
loader=("$bundle/lib/ld-linux-x86-64.so.2" --inhibit-cache --library-path "$bundle/lib")

stop() {
	local pid tries
	for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
	for pid in "${pids[@]}"; do
		for tries in {1..50}; do
			kill -0 "$pid" 2>/dev/null || break
			sleep 0.1
		done
		kill -KILL "$pid" 2>/dev/null || true
		wait "$pid" 2>/dev/null || true
	done
	pids=()
}
finish() {
	[ $? -eq 0 ] || cat "$work"/*.log >> "$out/ovs.log" 2>/dev/null || true
	stop
	rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT TERM

run() {
	local program=$1
	shift
	"${loader[@]}" "$bundle/bin/$program" "$@"
}
vsctl() { run ovs-vsctl --db="unix:$work/db.sock" --no-wait "$@"; }
appctl() { run ovs-appctl -t "$work/vswitchd.ctl" "$@"; }

# One logical core of each physical core first, core 0 and its siblings last.
cores() {
	python3 - <<'PY'
import os

def siblings(cpu):
    path = f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"
    try:
        with open(path) as file:
            return file.read().strip()
    except OSError:
        return str(cpu)

groups = {}
for cpu in sorted(os.sched_getaffinity(0)):
    groups.setdefault(siblings(cpu), []).append(cpu)
groups = list(groups.values())
groups = groups[1:] + groups[:1]
depth = max(map(len, groups))
print(*(group[i] for i in range(depth) for group in groups if i < len(group)))
PY
}

# Divides the frames of a capture by a hash of addresses, ports and protocol.
split() {
	python3 - "$@" <<'PY'
import struct
import sys
import zlib

source, stem, parts, traffic = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
data = open(source, "rb").read()
shares = [bytearray(data[:24]) for _ in range(parts)]
at = 24
while at < len(data):
    end = at + 16 + struct.unpack_from("<I", data, at + 8)[0]
    frame = data[at + 16:end]
    number = zlib.crc32(frame[26:38] + frame[23:24]) % parts
    for part, share in enumerate(shares):
        if traffic == "whole" or part == number:
            share += data[at:end]
    at = end
for part, share in enumerate(shares):
    open(f"{stem}{part}.pcap", "wb").write(share)
PY
}

# Starts the database and the switch for PMDs on the given cores.
start() {
	local core mask=0 others port
	for core in "$@"; do mask=$((mask | 1 << core)); done
	others=$(tr ' ' '\n' <<< "$all_cores" | grep -vxFf <(printf '%s\n' "$@") || echo "$1")
	rm -f "$work"/*.db "$work"/*.log "$work"/*.ctl "$work"/*.sock
	run ovsdb-tool create "$work/conf.db" "$bundle/vswitch.ovsschema"
	"${loader[@]}" "$bundle/bin/ovsdb-server" "$work/conf.db" --remote="punix:$work/db.sock" \
		-vconsole:off --unixctl="$work/db.ctl" --log-file="$work/db.log" &
	pids+=($!)
	wait_for "$work/db.sock"
	vsctl init
	vsctl set Open_vSwitch . other_config:dpdk-init=true \
		"other_config:dpdk-extra=--no-huge --legacy-mem -m $memory_mb --no-pci \
--no-shconf --no-telemetry -l ${others%%$'\n'*}" \
		"other_config:pmd-cpu-mask=$(printf '0x%x' $mask)" \
		"other_config:flow-limit=$flow_limit" other_config:max-idle=600000 \
		other_config:emc-insert-inv-prob=1
	# Preloaded drivers: the EAL loads none from folders below one that anybody can write to.
	taskset -c "${others//$'\n'/,}" \
		"${loader[@]}" --preload "$drivers" \
		"$bundle/bin/ovs-vswitchd" "unix:$work/db.sock" \
		--enable-dummy --disable-system -vconsole:off --unixctl="$work/vswitchd.ctl" \
		--log-file="$work/vswitchd.log" &
	pids+=($!)
	wait_for "$work/vswitchd.ctl"
	# A dummy datapath is the userspace datapath without interfaces in the kernel.
	vsctl add-br br0 -- set Bridge br0 datapath_type=dummy fail_mode=secure
	for port in 2 3 4; do
		vsctl add-port br0 "tx$port" -- set Interface "tx$port" type=dpdk \
			"ofport_request=$port" "options:dpdk-devargs=net_null$port,no-rx=1"
	done
	wait_for "$work/br0.mgmt"
}

wait_for() {
	local tries
	for tries in {1..600}; do
		[ ! -e "$1" ] || return 0
		sleep 0.05
	done
	fail "$1 did not appear"
}

fail() {
	echo "ovs.sh: $1; see $out/ovs.log" >&2
	exit 1
}

load() {
	local wanted found
	run ovs-ofctl add-flows "$work/br0.mgmt" "$1" 2>> "$out/ovs.log" \
		|| fail "Open vSwitch refused flows of $1"
	wanted=$(wc -l < "$1")
	found=$(run ovs-ofctl dump-aggregate "$work/br0.mgmt" | grep -o 'flow_count=[0-9]*')
	[ "${found#*=}" = "$wanted" ] || echo "$1: $wanted flows sent, ${found#*=} present" >&2
}

# One receive port for each core. A pool of buffers holds all frames of four ports at most; ports
# whose MTU differs have a pool of their own.
receive() {
	local number=0 core mtu=1500
	for core in "$@"; do
		[ "$traffic" = split ] || mtu=$((1500 + number / 4 * 1024))
		local devargs=net_pcap$number,rx_pcap=$work/part$number.pcap,infinite_rx=1
		vsctl add-port br0 "rx$number" -- set Interface "rx$number" type=dpdk \
			"ofport_request=$((100 + number))" "mtu_request=$mtu" \
			"other_config:pmd-rxq-affinity=0:$core" \
			"options:dpdk-devargs=$devargs"
		number=$((number + 1))
	done
}

megaflows() { appctl dpctl/show | awk '/flows:/ {sum += $2} END {print sum + 0}'; }

# Microseconds, then over all PMDs: packets, hits of the exact-match and the signature-match cache,
# hits of the wildcard lookup, hash tables searched for them, misses.
sample() {
	local before=${EPOCHREALTIME/[.,]/} stats
	stats=$(appctl dpif-netdev/pmd-stats-show)
	awk -v now=$(((before + ${EPOCHREALTIME/[.,]/}) / 2)) '
		/^[^ ]/ { is_pmd = /^pmd thread/ }
		is_pmd && /packets received:/ { packets += $NF }
		is_pmd && / emc hits:/ { emc += $NF }
		is_pmd && / smc hits:/ { smc += $NF }
		is_pmd && / megaflow hits:/ { hits = $NF; mega += hits }
		is_pmd && /subtable lookups/ { tables += hits * $NF }
		is_pmd && /miss with/ { miss += $NF }
		END {
			printf "%.0f %.0f %.0f %.0f", now, packets, emc, smc
			printf " %.0f %.0f %.0f\n", mega, tables, miss
		}
	' <<< "$stats"
}

# Until less than a thousandth of the packets misses all caches. Open vSwitch lowers its own limit
# of datapath flows if a round of revalidation takes long, and then evicts flows within 100 ms.
warm() {
	local end=$((SECONDS + ${WARM_S:-40})) before=0 missed=0 quiet=0 now
	while [ $SECONDS -lt $end ] && [ $quiet -lt 2 ]; do
		appctl upcall/set-flow-limit "$flow_limit" > /dev/null
		sleep 0.5
		read -ra now <<< "$(sample)"
		if [ $((now[1] - before)) -gt $((1000 * (now[6] - missed))) ]; then
			quiet=$((quiet + 1))
		else
			quiet=0
		fi
		before=${now[1]} missed=${now[6]}
	done
	[ $quiet -eq 2 ] || echo "$1: caches are not warm after ${WARM_S:-40} s" >&2
	echo "warm after $((SECONDS - end + ${WARM_S:-40})) s" >> "$out/ovs.log"
}

measure() {
	local style=$1 threads=$2 cache=$3 number
	case $cache in
		default) vsctl set Open_vSwitch . other_config:emc-insert-inv-prob=100 \
			other_config:smc-enable=false ;;
		dpcls) vsctl set Open_vSwitch . other_config:emc-insert-inv-prob=0 \
			other_config:smc-enable=false ;;
		smc) vsctl set Open_vSwitch . other_config:emc-insert-inv-prob=0 \
			other_config:smc-enable=true ;;
		*) fail "unknown cache $cache; expected default, dpcls or smc" ;;
	esac
	appctl upcall/set-flow-limit "$flow_limit" >> "$out/ovs.log"
	# Each second, PMDs sort the tables of the wildcard lookup by their hits.
	sleep 1.1
	appctl dpif-netdev/pmd-stats-clear > /dev/null
	sleep 0.2
	sample > "$work/samples"
	for ((number = 0; number < windows; number++)); do
		sleep "${WINDOW_S:-1.5}"
		sample >> "$work/samples"
	done
	python3 - "$work/samples" "$style,$threads,$cache" "$(megaflows)" "$traffic" <<'PY' \
		| tee -a "$out/ovs.csv"
import statistics
import sys

samples = [list(map(int, line.split())) for line in open(sys.argv[1])]
rates = [(b[1] - a[1]) / (b[0] - a[0]) for a, b in zip(samples, samples[1:])]
emc, smc, mega, tables, miss = samples[-1][2:]
lookups = max(emc + smc + mega + miss, 1)
print(sys.argv[2], f"{statistics.median(rates):.4f}", f"{min(rates):.4f}", f"{max(rates):.4f}",
      sys.argv[3], f"{emc / lookups:.4f}", f"{tables / max(mega, 1):.2f}",
      f"{smc / lookups:.4f}", f"{miss / lookups:.6f}", sys.argv[4], sep=",")
PY
}

all_cores=$(cores)
drivers=
for driver in bus_vdev mempool_ring net_null net_pcap; do
	drivers+=${drivers:+:}$bundle/lib/librte_$driver.so.23
done
flow_limit=1000000
memory_mb=1536
[ "$traffic" = split ] || memory_mb=4096
: > "$out/ovs.log"
echo "style,threads,cache,mpps_median,mpps_min,mpps_max,megaflows,emc_share,subtables_per_hit,\
smc_share,miss_share,traffic" | tee "$out/ovs.csv"
for threads in "${thread_counts[@]}"; do
	read -ra pmd_cores <<< "${CORES:-$all_cores}"
	[ "${#pmd_cores[@]}" -ge "$threads" ] || fail "$threads threads need as many cores"
	pmd_cores=("${pmd_cores[@]:0:threads}")
	for style in ${STYLES:-acl fw ipc}; do
		split "$bundle/in/$style.pcap" "$work/part" "$threads" "$traffic"
		start "${pmd_cores[@]}"
		load "$bundle/in/$style.flows"
		receive "${pmd_cores[@]}"
		warm "$style"
		polled=$(appctl dpif-netdev/pmd-rxq-show | grep -c "port: rx" || true)
		[ "$polled" = "$threads" ] || fail "$polled of $threads receive ports are polled"
		for cache in ${CACHES:-default dpcls}; do measure "$style" "$threads" "$cache"; done
		stop
		echo "== $style, $threads threads, cores ${pmd_cores[*]}" >> "$out/ovs.log"
		cat "$work/vswitchd.log" >> "$out/ovs.log"
	done
done
