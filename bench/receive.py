#!/usr/bin/env python3
"""Receives frames of a veth pair: ours beside a bare read loop over TPACKET_V3 in C.

    sudo bench/receive.py WARPSWITCH [--bytes 64,1518] [--seconds 3] [--rounds 5] [--out FILE.csv]

    generator ─► left │ rx ─► ring of the kernel ─► receiver
    core 0            │ core 1

`bench/peers/tpacket.c`, built here with `cc`, reads one byte and the length of each frame. Ours is
`FromDevice -> Counter -> Discard`, which copies each frame into a packet. Both get the same ring,
and more frames than they can read. By default receive packet steering has core 1 do all work from
`rx` on, as in live.py; each round also measures with the sender's core handing frames over, and
with half of core 1. Printed are medians, and the ratio to the read loop by round.

Needs root, `ip` and `cc`. It makes three network namespaces, whose names contain its process id,
and deletes them.
"""

import argparse
import csv
import datetime
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import live

HERE = pathlib.Path(__file__).resolve().parent
PEER = "tpacket.c"
# Steered, with a busy loop beside the receiver.
CASES = {"one core": (True, False), "handed over": (False, False), "half a core": (False, True)}


def build(folder):
    program = f"{folder}/tpacket"
    live.sh("cc", "-O2", "-o", program, str(HERE / "peers" / PEER))
    return program


def bare(program, seconds):
    """Command, and how to read what it prints."""
    return [program, "rx", str(seconds)], lambda text: int(text.split()[0])


def ours(binary, method, seconds):
    config = live.write_config(
        f"from :: FromDevice(rx, PROMISC true, METHOD {method}) -> c :: Counter -> Discard;"
        f"Script(wait 1ms, write c.reset_counts, wait {seconds}s, print $(c.count), stop);")
    # The file lives as long as the function that is returned.
    return [binary, "run", config.name], lambda text, _file=config: int(text.split()[-1])


def measure(receiver, binary, frame_bytes, is_steered, is_half, seconds):
    """Frames a second that `receiver` read, and that were sent."""
    command, read = receiver
    net = live.Net(is_steered)
    try:
        loop = ["sh", "-c", "while :; do :; done"] if is_half else ["true"]
        busy = net.start(net.device, 1, *loop)
        text = f"FromDevice(gen:{frame_bytes - 4}, BURST 64) -> Queue(256) -> ToDevice(left)"
        config = live.write_config(text)
        generator = net.start(net.left, 0, binary, "run", config.name)
        try:
            time.sleep(0.5)
            sent, start = net.sent(), time.monotonic()
            done = subprocess.run(["ip", "netns", "exec", net.device, "taskset", "-c", "1",
                                   *command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  text=True)
            if done.returncode != 0:
                sys.exit(f"receive.py: {' '.join(command)}: {done.stdout.strip()}")
            rate = (net.sent() - sent) / (time.monotonic() - start)
        finally:
            live.stop(generator)
            busy.kill()
            busy.wait()
        return read(done.stdout) / seconds, rate
    finally:
        net.close()


def main():
    raw = argparse.RawTextHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("binary")
    parser.add_argument("--bytes", default="64,1518")
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out")
    args = parser.parse_args()
    binary = os.path.abspath(args.binary)
    commit = live.sh(binary, "--version").split("(commit ")[-1].strip().rstrip(")")
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        program = build(folder)
        receivers = {
            "read loop": lambda: bare(program, args.seconds),
            "AFPACKET_BLOCKS": lambda: ours(binary, "AFPACKET_BLOCKS", args.seconds),
            "AFPACKET": lambda: ours(binary, "AFPACKET", args.seconds),
        }
        for frame_bytes in map(int, args.bytes.split(",")):
            for case, (is_steered, is_half) in CASES.items():
                rates = {name: [] for name in receivers}
                offered = {name: [] for name in receivers}
                for _ in range(args.rounds):
                    for name, make in receivers.items():
                        rate, sent = measure(make(), binary, frame_bytes, is_steered, is_half,
                                             args.seconds)
                        rates[name].append(rate)
                        offered[name].append(sent)
                for name in receivers:
                    ratios = [a / b for a, b in zip(rates[name], rates["read loop"])]
                    row = (frame_bytes, case, name, f"{statistics.median(offered[name]):.0f}",
                           f"{statistics.median(rates[name]):.0f}",
                           f"{statistics.median(ratios):.3f}")
                    print(f"{row[0]:5} {case:12} {name:16} {float(row[4]) / 1e6:7.3f} Mpps of "
                          f"{float(row[3]) / 1e6:6.3f}  {row[5]}", flush=True)
                    rows.append(row)
    if args.out:
        date = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d")
        lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
        cpu = next(line.split(":")[1].strip() for line in lines if "model name" in line)
        with open(args.out, "w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow("bytes case receiver offered_pps received_pps ratio commit machine "
                            "date".split())
            writer.writerows([*row, commit, cpu, date] for row in rows)


if __name__ == "__main__":
    main()
