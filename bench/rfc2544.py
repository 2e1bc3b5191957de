#!/usr/bin/env python3
"""Measures forwarders, routers and firewalls as RFC 2544 does: ours, the kernel, Open vSwitch.

    sudo bench/rfc2544.py WARPSWITCH [--sizes 64,512,1518,IMIX] [--trial 1s] [--repeat 10]
                          [--only NAME,...] [--sustain 60s] [--tester-cores 0] [--realtime]
                          [--out FOLDER]

    sender ─► left │ rx ─► device under test ─► tx │ right ─► sink
          tester   │            core 1             │   the same tester

One tester, `warpswitch bench rfc2544`, measures all devices, one after the other: throughput,
and latency at the throughput and at half of it. The throughput has passed --repeat trials in
sequence, as the capacity of a device varies on shared machines. With --sustain ours then get
90 % of their throughput for so long, with 64 bytes and IMIX, and must lose nothing. Devices run
on core 1, the tester where the scheduler puts it; the kernel forwards on the cores of sender and
sink. With --tester-cores 0, or 2-15 where there are so many, the tester keeps off core 1, so
latency is less that of the scheduler, and the kernel forwards on the tester's cores only. With
--realtime ours goes before all else on its core (`chrt`), as on a core of its own; not Open
vSwitch, whose busy threads would not let its others run. With --out FOLDER the results are
written to rfc2544.csv and sustain.csv there.

Needs root, `ip`, and for the peers `openvswitch-switch`. It makes two network namespaces, whose
names contain its process id, and deletes them.
"""

import argparse
import csv
import json
import os
import pathlib
import subprocess
import sys

import live

ROOT = pathlib.Path(__file__).resolve().parent.parent
LAN = {"rx": "198.18.0.1/24", "tx": "198.19.0.1/24"}
GATEWAY = "198.18.0.1"
# The address that frames for the flows of Open vSwitch have; no interface has it.
ROUTER_MAC = "02:00:00:00:00:fe"
# What the tester may lose without a chance for the device: see docs/benchmarking.md.
SHARE = 0.9


class Net(live.Net):
    """Two namespaces: tester and device."""

    def __init__(self, tester_cores=None, realtime=False):
        self.realtime = realtime
        self.pinned = ["taskset", "-c", tester_cores] if tester_cores else []
        self.left = self.right = f"ws{os.getpid()}t"
        self.device = f"ws{os.getpid()}d"
        names = (self.left, self.device)
        for name in names:
            live.sh("ip", "netns", "add", name)
        try:
            for name in names:
                live.sh("ip", "netns", "exec", name, "sysctl", "-qw",
                        "net.ipv6.conf.all.disable_ipv6=1",
                        "net.ipv6.conf.default.disable_ipv6=1")
            for inner, outer in (("rx", "left"), ("tx", "right")):
                live.sh("ip", "-n", self.device, "link", "add", "name", inner, "type", "veth",
                        "peer", "name", outer, "netns", self.left)
                live.sh("ip", "-n", self.device, "link", "set", "dev", inner, "up", "promisc",
                        "on")
                live.sh("ip", "-n", self.left, "link", "set", "dev", outer, "up", "promisc", "on")
        except BaseException:
            self.close()
            raise

    def mac(self, interface):
        path = f"/sys/class/net/{interface}/address"
        return live.sh("ip", "netns", "exec", self.left, "cat", path).strip()

    def sink_mac(self):
        """The address of the tester's sink: the local bit of the interface's inverted."""
        first, rest = self.mac("right").split(":", 1)
        return f"{int(first, 16) ^ 2:02x}:{rest}"

    def tester(self, *command):
        done = subprocess.run(["ip", "netns", "exec", self.left, *self.pinned, *command],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if done.returncode not in (0, 1) or not done.stdout:
            raise RuntimeError(done.stderr.strip())
        return json.loads(done.stdout)

    def close(self):
        for name in (self.left, self.device):
            live.sh("ip", "netns", "del", name, check=False)


class Ours:
    """A configuration of conf/live."""

    def __init__(self, net, binary, name, *variables):
        config = ROOT / "conf/live" / f"{name}.click"
        self.process = net.start(net.device, 1, binary, "run", str(config), "ETH0=rx", "ETH1=tx",
                                 *variables, realtime=net.realtime)
        live.time.sleep(0.7)
        if self.process.poll() is not None:
            sys.exit(f"rfc2544.py: {config}: ended with {self.process.returncode}")

    def close(self):
        live.stop(self.process)


class KernelRouter:
    """The kernel's own forwarding."""

    def __init__(self, net):
        for interface, address in LAN.items():
            net.inside("ip", "addr", "add", address, "dev", interface)
        net.inside("sysctl", "-qw", "net.ipv4.ip_forward=1")

    def close(self):
        # Its state is that of the namespace.
        pass


class OvsFlows(live.Ovs):
    """Open vSwitch with flows in place of a learning switch."""

    def __init__(self, net, kind, flows):
        super().__init__(net, kind)
        try:
            for flow in ["priority=0,actions=drop", *flows]:
                live.sh("ovs-ofctl", "--names", "-O", "OpenFlow14", "add-flow",
                        f"unix:{self.folder}/br0.mgmt", flow, env=self.env)
        except BaseException:
            self.close()
            raise


def router_flows(net):
    rewrite = f"mod_dl_src:{ROUTER_MAC},mod_dl_dst:{net.sink_mac()},dec_ttl"
    return [f"priority=1,ip,nw_dst=198.19.0.0/24,actions={rewrite},output:tx"]


# Connections may begin behind the first port only.
FIREWALL_FLOWS = [
    "priority=9,arp,in_port=rx,actions=output:tx",
    "priority=9,arp,in_port=tx,actions=output:rx",
    "priority=5,ip,ct_state=-trk,actions=ct(table=1)",
    "table=1,priority=5,ip,in_port=rx,ct_state=+trk+new,actions=ct(commit),output:tx",
    "table=1,priority=5,ip,in_port=rx,ct_state=+trk+est,actions=output:tx",
    "table=1,priority=5,ip,in_port=tx,ct_state=+trk+est,actions=output:rx",
]


def devices(binary):
    """Name: what it does, how it starts, options of the tester."""
    addresses = [f"ADDR{at}={address}" for at, address in enumerate(LAN.values())]
    gateway = ["--gateway", GATEWAY]
    return {
        "warpswitch forwarder": (lambda net: Ours(net, binary, "forwarder"), []),
        "kernel forwarder": (live.Bridge, []),
        "ovs-afpacket forwarder": (lambda net: live.Ovs(net, ""), []),
        "ovs-afxdp forwarder": (lambda net: live.Ovs(net, "afxdp"), []),
        "warpswitch ip-router":
            (lambda net: Ours(net, binary, "ip-router", *addresses), gateway),
        "kernel ip-router": (KernelRouter, gateway),
        "ovs-afpacket ip-router": (lambda net: OvsFlows(net, "", router_flows(net)),
                          ["--dst-mac", ROUTER_MAC]),
        "warpswitch firewall": (lambda net: Ours(net, binary, "firewall"), []),
        "ovs-afpacket firewall": (lambda net: OvsFlows(net, "", FIREWALL_FLOWS), []),
    }


def rows_of(name, report):
    device, what = name.split()
    stamp = [report[key] for key in ("commit", "machine", "date")]
    for size in report["sizes"]:
        found = size["throughput"]
        half = next((at for at in size.get("latency", []) if at["load_percent"] == 50), {})
        yield [device, what, size["size"], round(size["pps_max"]), round(found["pps"]),
               round(found["wire_bps"]), found["limited_by"], half.get("pps", ""),
               half.get("p50_us", ""), half.get("p99_us", ""), half.get("max_us", ""), *stamp]


HEADER = ("device what size pps_max pps wire_bps limited_by half_pps half_p50_us half_p99_us "
          "half_max_us commit machine date").split()
SUSTAINED = "device what size pps seconds sent lost kernel_drops p99_us".split()


def sustain(net, binary, options, size, pps, duration):
    """Offers a rate for long; returns frames sent and lost, and the latency."""
    report = net.tester(binary, "generate", "traffic", "--tx", "left", "--rx", "right", "--size",
                        size, "--rate", str(int(pps)), "--duration", duration, "--json", *options)
    return report


def measure(binary, name, start, options, args):
    net = Net(args.tester_cores, args.realtime)
    try:
        device = start(net)
        try:
            report = net.tester(binary, "bench", "rfc2544", "--tx", "left", "--rx", "right",
                                "--sizes", args.sizes, "--trial", args.trial, "--repeat",
                                str(args.repeat), "--wait", "100ms",
                                "--precision", str(args.precision), "--tests",
                                "throughput,latency", "--json", *options)
            found = list(rows_of(name, report))
            kept = []
            for row in found if args.sustain and name.startswith("warpswitch") else []:
                if row[2] in ("64", "IMIX"):
                    result = sustain(net, binary, options, row[2], SHARE * row[4], args.sustain)
                    kept.append((row, result))
        finally:
            device.close()
    finally:
        net.close()
    return found, kept


def write(folder, name, header, rows):
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / name, "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


def main():
    raw = argparse.RawTextHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("binary")
    parser.add_argument("--sizes", default="64,512,1518,IMIX")
    parser.add_argument("--trial", default="1s")
    parser.add_argument("--repeat", type=int, default=10)
    parser.add_argument("--precision", type=float, default=0.03)
    parser.add_argument("--only", default="")
    parser.add_argument("--sustain")
    parser.add_argument("--tester-cores", metavar="LIST")
    parser.add_argument("--realtime", action="store_true")
    parser.add_argument("--out", type=pathlib.Path)
    args = parser.parse_args()
    binary = os.path.abspath(args.binary)
    only = set(filter(None, args.only.split(",")))
    rows, kept = [], []
    for name, (start, options) in devices(binary).items():
        if only and not only & {name, *name.split()}:
            continue
        try:
            found, held = measure(binary, name, start, options, args)
        except RuntimeError as error:
            print(f"{name}: {error}", file=sys.stderr)
            continue
        for row in found:
            print(f"{row[1]:10} {row[0]:14} {row[2]:>5} {row[4] / 1e6:7.3f} Mpps of "
                  f"{row[3] / 1e6:6.3f}  limit {row[6]:7}  at half p50 {row[8]} us, "
                  f"p99 {row[9]} us", flush=True)
        for row, result in held:
            summary = [row[0], row[1], row[2], int(SHARE * row[4]), args.sustain,
                       result["sent"], result["lost"], result["sink_drops"],
                       (result.get("latency") or {}).get("p99_us", ""), *row[-3:]]
            print("sustained", *summary[:-3], flush=True)
            kept.append(summary)
        rows += found
    if args.out:
        write(args.out, "rfc2544.csv", HEADER, rows)
        if kept:
            write(args.out, "sustain.csv", SUSTAINED + HEADER[-3:], kept)


if __name__ == "__main__":
    main()
