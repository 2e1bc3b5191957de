#!/usr/bin/env bash
# Collects Open vSwitch with DPDK out of packages of Debian 12 (openvswitch-switch-dpdk, librte-*),
# and flows and frames, into an archive for ovs.sh. Nothing is installed; the archive runs on any
# x86-64 Linux with bash 5, python3 and taskset.
#
#   ./ovs_bundle.sh WARPSWITCH OUT.tar.xz
#
# Flows and frames are those of `warpswitch bench openflow --only styles`, the frames in another
# order: rules of seed 21, frames of seed 9, actions and priorities as in `flows_of`.
set -euo pipefail
[ $# -eq 2 ] || { sed -n '2,9s/^# \{0,1\}//p' "$0"; exit 2; }
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
warpswitch=$(realpath "$1")
archive=$(realpath "$2")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bundle=$work/ovs
mkdir -p "$bundle"/{bin,lib,in} "$work/packages" "$work/root"

# The packages, and all that they require.
wanted=(openvswitch-switch-dpdk librte-net-pcap23 librte-net-null23 librte-mempool-ring23
	librte-bus-vdev23)
options=(--recurse --no-recommends --no-suggests --no-conflicts --no-breaks --no-replaces
	--no-enhances)
needed=$(apt-cache depends "${options[@]}" "${wanted[@]}" \
	| grep -E '^(lib|zlib1g|librte|openvswitch-)' | sort -u)
cd "$work/packages"
for package in $needed; do
	apt-get download -q "$package" > /dev/null 2>&1 || true # Some names are virtual.
done
for package in *.deb; do dpkg -x "$package" "$work/root"; done

root=$work/root
libraries=$root/lib/x86_64-linux-gnu:$root/usr/lib/x86_64-linux-gnu
loader=$(find "$root" -name 'ld-linux-x86-64.so.2' -path '*x86_64-linux-gnu*' | head -1)
cp "$root/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk" "$bundle/bin/ovs-vswitchd"
for program in ovsdb-server ovsdb-tool ovs-vsctl ovs-ofctl ovs-appctl; do
	cp "$(find "$root/usr/bin" "$root/usr/sbin" -name $program -type f)" "$bundle/bin/"
done
cp "$root/usr/share/openvswitch/vswitch.ovsschema" "$bundle/"
for driver in bus_vdev mempool_ring net_null net_pcap; do
	cp -L "$root/usr/lib/x86_64-linux-gnu/librte_$driver.so.23" "$bundle/lib/"
done
for file in "$bundle"/bin/* "$bundle"/lib/*; do
	"$loader" --inhibit-cache --library-path "$libraries" --list "$file"
done | awk '$2 == "=>" && $1 !~ "/" {print $3}' | sort -u | while read -r library; do
	cp -Ln "$library" "$bundle/lib/"
done
cp -L "$loader" "$bundle/lib/"
strip --strip-unneeded "$bundle"/bin/* "$bundle"/lib/* || true

for style in acl fw ipc; do
	rules=$work/$style.rules
	"$warpswitch" generate rules --style $style --count 10K --seed 21 --format canonical \
		--out "$rules"
	"$warpswitch" rules convert --to ovs "$rules" --out "$work/$style.ovs"
	awk -F '[=,]' '
		{
			rank = 65535 - $2
			sub(/^priority=[0-9]*,/, "")
			sub(/ actions=.*/, "")
			priority = 65000 - int(rank * 64999 / 10000)
			printf "priority=%d,%s,actions=output:%d\n", priority, $0, 2 + rank % 3
		}
		END { print "priority=0,actions=output:4" }
	' "$work/$style.ovs" > "$bundle/in/$style.flows"
	"$warpswitch" generate pcap --rules "$rules" --count 50K --seed 9 --sizes 60 \
		--out "$bundle/in/$style.pcap"
done
cp "$here/ovs.sh" "$bundle/"
tar -C "$work" -cJf "$archive" ovs
