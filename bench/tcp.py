#!/usr/bin/env python3
"""Measures TCP between two namespaces: the kernel's forwarding and ours in turns.

    sudo bench/tcp.py WARPSWITCH [--config conf/live/ip-router.click] [--seconds 4] [--rounds 3]
                      [--only NAME,...] [--offloads on,off] [--out FILE.csv] [--label COMMIT]

    iperf3 -c ─► end │ eth0 ─► router ─► eth1 │ end ─► iperf3 -s

In every round the routers take turns; printed are medians, and ratios to the kernel by round.
NAME is `kernel` or a METHOD. With `off` the interfaces segment nothing and complete no checksums,
so that senders do. Needs root, `ip`, `ethtool`, and `iperf3`. It makes three network namespaces,
whose names contain its process id, and deletes them.
"""

import argparse
import csv
import datetime
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

OFFLOADS = ("tso", "gso", "gro", "tx")


def sh(*command, check=True):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if check and done.returncode != 0:
        sys.exit(f"tcp.py: {' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


class Net:
    """Two hosts and a router, each a namespace."""

    def __init__(self):
        self.left, self.router, self.right = (f"tcp{os.getpid()}{side}" for side in "abc")

    def hosts(self):
        return self.left, self.right

    def all(self):
        return self.left, self.router, self.right

    def connect(self):
        for name in self.all():
            sh("ip", "netns", "add", name)
        for number, host in enumerate(self.hosts()):
            sh("ip", "-n", self.router, "link", "add", "name", f"eth{number}", "type", "veth",
               "peer", "name", "end", "netns", host)
            sh("ip", "-n", self.router, "link", "set", "dev", f"eth{number}", "up")
            sh("ip", "-n", host, "addr", "add", f"10.0.{number}.2/24", "dev", "end")
            sh("ip", "-n", host, "link", "set", "dev", "end", "up")
            sh("ip", "-n", host, "route", "add", "default", "via", f"10.0.{number}.1")

    def inside(self, name, *command, check=True):
        return sh("ip", "netns", "exec", name, *command, check=check)

    def set_offloads(self, state):
        settings = [word for name in OFFLOADS for word in (name, state)]
        for host in self.hosts():
            self.inside(host, "ethtool", "-K", "end", *settings, check=False)
        for number in (0, 1):
            self.inside(self.router, "ethtool", "-K", f"eth{number}", *settings, check=False)

    def forward(self, on):
        """Has the kernel route, or not."""
        for number in (0, 1):
            sh("ip", "-n", self.router, "addr", "add" if on else "del", f"10.0.{number}.1/24",
               "dev", f"eth{number}")
        self.inside(self.router, "sysctl", "-qw", f"net.ipv4.ip_forward={int(on)}")

    def forget_neighbours(self):
        for host in self.hosts():
            sh("ip", "-n", host, "neigh", "flush", "dev", "end")

    def close(self):
        for name in self.all():
            sh("ip", "netns", "del", name, check=False)


def iperf(net, seconds):
    """Gbit/s that arrive, and segments sent again."""
    net.forget_neighbours()
    command = ["ip", "netns", "exec", net.right, "iperf3", "-s", "-1"]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    time.sleep(0.4)
    report = json.loads(net.inside(net.left, "iperf3", "-c", "10.0.1.2", "-t", str(seconds), "-J",
                                   check=False))
    server.wait(20)
    if "end" not in report or "sum_received" not in report["end"]:
        sys.exit(f"tcp.py: iperf3: {report.get('error', 'no result')}")
    end = report["end"]
    return end["sum_received"]["bits_per_second"] / 1e9, end["sum_sent"].get("retransmits", 0)


def measure(net, router, args):
    if router == "kernel":
        net.forward(True)
        result = iperf(net, args.seconds)
        net.forward(False)
        return result
    command = ["ip", "netns", "exec", net.router, os.path.abspath(args.binary), "run", args.config,
               "ETH0=eth0", "ETH1=eth1", f"METHOD={router}"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    time.sleep(0.8)
    try:
        if process.poll() is not None:
            sys.exit(f"tcp.py: {' '.join(command)}: ended with {process.returncode}")
        return iperf(net, args.seconds)
    finally:
        process.terminate()
        process.wait(10)


def main():
    raw = argparse.RawTextHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("binary")
    parser.add_argument("--config", default="conf/live/ip-router.click")
    parser.add_argument("--seconds", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="kernel,AFPACKET,AFPACKET_BLOCKS,AFXDP")
    parser.add_argument("--offloads", default="on,off")
    parser.add_argument("--out")
    parser.add_argument("--label", default="")
    args = parser.parse_args()
    routers = args.only.split(",")
    net, rows = Net(), []
    try:
        net.connect()
        for offloads in args.offloads.split(","):
            net.set_offloads(offloads)
            rates = {router: [] for router in routers}
            again = dict.fromkeys(routers, 0)
            for _ in range(args.rounds):
                for router in routers:
                    rate, retransmits = measure(net, router, args)
                    rates[router].append(rate)
                    again[router] += retransmits
            for router in routers:
                ratios = [a / b for a, b in zip(rates[router], rates[routers[0]])]
                rate, ratio = statistics.median(rates[router]), statistics.median(ratios)
                print(f"offloads {offloads:4} {router:16} {rate:7.2f} Gbit/s {ratio:6.3f}  "
                      f"{again[router]} sent again", flush=True)
                rows.append((offloads, router, f"{rate:.2f}", f"{ratio:.3f}", again[router]))
    finally:
        net.close()
    if args.out:
        is_new = not os.path.exists(args.out)
        with open(args.out, "a", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            if is_new:
                names = "offloads router gbps ratio retransmits commit machine date"
                writer.writerow(names.split())
            date = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d")
            lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
            cpu = next(line.split(":")[1].strip() for line in lines if "model name" in line)
            for row in rows:
                writer.writerow([*row, args.label, cpu, date])


if __name__ == "__main__":
    main()
