#!/usr/bin/env python3
"""Forwards frames between two veth pairs: ours beside the kernel bridge and Open vSwitch.

    sudo bench/live.py WARPSWITCH [--bytes 64,1518] [--seconds 3] [--rounds 5] [--only NAME,...]
                       [--free] [--half] [--senders 1] [--out FILE.csv] [--label COMMIT]

    generator ─► left │ rx ─► device under test ─► tx │ right ─► counted
    core 0            │ core 1                        │

Each device under test gets more frames than it can forward; its rate is what arrives at `right`,
by the counters of the kernel. The devices take turns in every round; printed are medians, and
ratios to the first one by round. By default receive packet steering has core 1 do all work from
`rx` on, also that of the kernel: one core a device. With --free the sender's core hands frames
over, as veth does by itself: most devices then forward all that the sender can send. With --half
a busy loop shares core 1 with the device as well, so that the device is the limit. With --senders N
there are N generators, on core 0 and on those from 2 on, which offer more than one core can send.

Needs root, `ip`, and for the peers `openvswitch-switch`. It makes three network namespaces, whose
names contain its process id, and deletes them.
"""

import argparse
import csv
import datetime
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent


def sh(*command, check=True, **options):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          **options)
    if check and done.returncode != 0:
        sys.exit(f"live.py: {' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


class Net:
    """Three namespaces: left, device, right."""

    def __init__(self, steered):
        self.left, self.device, self.right = (f"ws{os.getpid()}{side}" for side in "ldr")
        for name in (self.left, self.device, self.right):
            sh("ip", "netns", "add", name)
        try:
            self.connect(steered)
        except BaseException:
            self.close()
            raise

    def connect(self, steered):
        for name in (self.left, self.device, self.right):
            sh("ip", "netns", "exec", name, "sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=1",
               "net.ipv6.conf.default.disable_ipv6=1")
        for inner, outer, end in (("rx", "left", self.left), ("tx", "right", self.right)):
            sh("ip", "-n", self.device, "link", "add", "name", inner, "type", "veth", "peer",
               "name", outer, "netns", end)
            sh("ip", "-n", self.device, "link", "set", "dev", inner, "up", "promisc", "on")
            sh("ip", "-n", end, "link", "set", "dev", outer, "up", "promisc", "on")
        if steered:
            self.inside("sh", "-c", "echo 2 > /sys/class/net/rx/queues/rx-0/rps_cpus")
        # What arrives there ends there, at the least cost.
        self.drop_at_right()

    def drop_at_right(self):
        if shutil.which("tc"):
            sh("ip", "netns", "exec", self.right, "tc", "qdisc", "add", "dev", "right", "ingress")
            sh("ip", "netns", "exec", self.right, "tc", "filter", "add", "dev", "right", "ingress",
               "matchall", "action", "drop", check=False)

    def inside(self, *command, check=True):
        return sh("ip", "netns", "exec", self.device, *command, check=check)

    def start(self, namespace, core, *command, **options):
        quiet = options.pop("stderr", subprocess.DEVNULL)
        first = ["chrt", "-f", "10"] if options.pop("realtime", False) else []
        return subprocess.Popen(["ip", "netns", "exec", namespace, *first, "taskset", "-c",
                                 str(core), *command],
                                stdout=subprocess.DEVNULL, stderr=quiet, **options)

    def arrived(self):
        path = "/sys/class/net/right/statistics/rx_packets"
        return int(sh("ip", "netns", "exec", self.right, "cat", path))

    def sent(self):
        path = "/sys/class/net/left/statistics/tx_packets"
        return int(sh("ip", "netns", "exec", self.left, "cat", path))

    def close(self):
        for name in (self.left, self.device, self.right):
            sh("ip", "netns", "del", name, check=False)


def stop(process):
    process.send_signal(signal.SIGINT)
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def write_config(text):
    """A file with a configuration, deleted at the end."""
    file = tempfile.NamedTemporaryFile("w", suffix=".click")
    file.write(text)
    file.flush()
    return file


class Ours:
    """`warpswitch run` with one worker and a queue between two interfaces."""

    def __init__(self, net, binary, method, config="Queue(4096)"):
        text = (f"FromDevice(rx, PROMISC true, METHOD {method}) -> {config} "
                f"-> ToDevice(tx, METHOD {method});")
        self.config = write_config(text)
        self.process = net.start(net.device, 1, binary, "run", self.config.name)
        time.sleep(0.7)
        if self.process.poll() is not None:
            sys.exit(f"live.py: {text}: ended with {self.process.returncode}")

    def close(self):
        stop(self.process)


class Bridge:
    """The kernel's bridge."""

    def __init__(self, net):
        self.net = net
        net.inside("ip", "link", "add", "br0", "type", "bridge")
        net.inside("ip", "link", "set", "br0", "up")
        for port in ("rx", "tx"):
            net.inside("ip", "link", "set", "dev", port, "master", "br0")
        # The generator's destination is behind `tx`.
        net.inside("bridge", "fdb", "add", "02:00:00:00:00:01", "dev", "tx", "master", "static")
        time.sleep(0.5)

    def close(self):
        self.net.inside("ip", "link", "del", "br0")


class Ovs:
    """Open vSwitch's userspace datapath, with its database and daemon of our own."""

    def __init__(self, net, kind):
        self.folder = tempfile.mkdtemp()
        self.env = {**os.environ, "OVS_RUNDIR": self.folder, "OVS_LOGDIR": self.folder,
                    "OVS_DBDIR": self.folder}
        database = f"{self.folder}/conf.db"
        socket = f"{self.folder}/db.sock"
        sh("ovsdb-tool", "create", database, "/usr/share/openvswitch/vswitch.ovsschema")
        self.database = net.start(net.device, 1, "ovsdb-server", database,
                                  f"--remote=punix:{socket}",
                                  f"--unixctl={self.folder}/db.ctl", env=self.env)
        time.sleep(0.5)
        self.ctl = ("ovs-vsctl", f"--db=unix:{socket}", "--no-wait")
        self.run("init")
        self.daemon = net.start(net.device, 1, "ovs-vswitchd", f"unix:{socket}",
                                f"--unixctl={self.folder}/vs.ctl", env=self.env,
                                stderr=open(f"{self.folder}/log", "w"))
        time.sleep(0.5)
        self.run("set", "Open_vSwitch", ".", "other_config:pmd-cpu-mask=2")
        self.run("add-br", "br0", "--", "set", "bridge", "br0", "datapath_type=netdev")
        for port in ("rx", "tx"):
            setting = ["--", "set", "interface", port, f"type={kind}"] if kind else []
            if kind == "afxdp":
                setting += ["options:xdp-mode=best-effort"]
            self.run("add-port", "br0", port, *setting)
        time.sleep(2)

    def run(self, *command):
        sh(*self.ctl, *command, env=self.env)

    def close(self):
        stop(self.daemon)
        stop(self.database)
        shutil.rmtree(self.folder)


def devices(binary):
    return {
        "warpswitch afpacket": lambda net: Ours(net, binary, "AFPACKET"),
        "warpswitch afpacket_blocks": lambda net: Ours(net, binary, "AFPACKET_BLOCKS"),
        "warpswitch afxdp": lambda net: Ours(net, binary, "AFXDP"),
        "kernel bridge": Bridge,
        "ovs afpacket": lambda net: Ovs(net, ""),
        "ovs afxdp": lambda net: Ovs(net, "afxdp"),
    }


def measure(net, binary, frame_bytes, seconds, senders):
    """Rates sent and arrived, frames a second, of a running device under test."""
    # Without frame check sequence, as interfaces count.
    text = f"FromDevice(gen:{frame_bytes - 4}, BURST 64) -> Queue(256) -> ToDevice(left)"
    config = write_config(text)
    cores = [0, *range(2, senders + 1)]
    generators = [net.start(net.left, core, binary, "run", config.name) for core in cores]
    time.sleep(1)
    before, sent, start = net.arrived(), net.sent(), time.monotonic()
    time.sleep(seconds)
    after, sent_after, end = net.arrived(), net.sent(), time.monotonic()
    for generator in generators:
        stop(generator)
    return (sent_after - sent) / (end - start), (after - before) / (end - start)


def main():
    raw = argparse.RawTextHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("binary")
    parser.add_argument("--bytes", default="64")
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="")
    parser.add_argument("--free", action="store_true")
    parser.add_argument("--half", action="store_true")
    parser.add_argument("--senders", type=int, default=1)
    parser.add_argument("--out")
    parser.add_argument("--label", default="")
    args = parser.parse_args()
    binary = os.path.abspath(args.binary)
    named = devices(binary)
    chosen = [name for name in named if not args.only or name in args.only.split(",")]
    rows = []
    for frame_bytes in map(int, args.bytes.split(",")):
        rates = {name: [] for name in chosen}
        offered = {name: [] for name in chosen}
        for _ in range(args.rounds):
            for name in chosen:
                net = Net(not args.free)
                try:
                    device = named[name](net)
                    loop = ["sh", "-c", "while :; do :; done"] if args.half else ["true"]
                    busy = net.start(net.device, 1, *loop)
                    try:
                        sent, arrived = measure(net, binary, frame_bytes, args.seconds,
                                                args.senders)
                    finally:
                        busy.kill()
                        busy.wait()
                        device.close()
                finally:
                    net.close()
                rates[name].append(arrived)
                offered[name].append(sent)
        for name in chosen:
            ratios = [a / b if b else 0 for a, b in zip(rates[name], rates[chosen[0]])]
            rate, ratio = statistics.median(rates[name]), statistics.median(ratios)
            print(f"{frame_bytes:5} {name:28} {rate / 1e6:7.3f} Mpps of "
                  f"{statistics.median(offered[name]) / 1e6:6.3f}  {ratio:6.3f}", flush=True)
            rows.append((frame_bytes, name, f"{statistics.median(offered[name]):.0f}",
                         f"{rate:.0f}", f"{ratio:.3f}"))
    if args.out:
        is_new = not os.path.exists(args.out)
        with open(args.out, "a", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            if is_new:
                writer.writerow("bytes device offered_pps forwarded_pps ratio steered half senders "
                                "commit machine date".split())
            date = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d")
            lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
            cpu = next(line.split(":")[1].strip() for line in lines if "model name" in line)
            for row in rows:
                writer.writerow([*row, not args.free, args.half, args.senders, args.label,
                                 cpu, date])


if __name__ == "__main__":
    main()
