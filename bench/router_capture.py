#!/usr/bin/env python3
"""Routes a capture with conf/ip-router.click by several builds in turns; prints packets a second.

    bench/router_capture.py BINARY... [--packets 1000000] [--rounds 5] [--no-print]
                            [--out FILE.csv] [--label TEXT]

The capture has 64-byte frames (60 without check sequence) from lan0 to one host of lan1. All are
forwarded, printed by `IPPrint` to a file (--no-print: not), and written to a capture. Files are
in the page cache. Rates are packets by seconds of processor time (user and system) and by seconds
of the clock; ratios are to the first binary, by round. Forwarded packets must be the same bytes.
"""

import argparse
import csv
import datetime
import hashlib
import pathlib
import re
import resource
import statistics
import struct
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
HOST0, HOST1 = bytes.fromhex("020000000010"), bytes.fromhex("020000000110")
LAN0, LAN1 = bytes.fromhex("020000000000"), bytes.fromhex("020000000100")


def checksum(header):
    total = sum(struct.unpack(f"!{len(header) // 2}H", header))
    total = (total & 0xffff) + (total >> 16)
    return ~((total & 0xffff) + (total >> 16)) & 0xffff


def datagram(number):
    """A frame of 60 bytes from 10.0.0.2 to 10.0.1.2, of one of 1024 flows."""
    header = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 46, number & 0xffff, 0, 64, 17, 0,
                         bytes([10, 0, 0, 2]), bytes([10, 0, 1, 2]))
    header = header[:10] + struct.pack("!H", checksum(header)) + header[12:]
    udp = struct.pack("!HHHH", 1024 + number % 1024, 9, 26, 0)
    return LAN0 + HOST0 + b"\x08\x00" + header + udp + struct.pack("!Q", number) + bytes(10)


def arp_reply():
    """10.0.1.2 tells the router its Ethernet address."""
    body = struct.pack("!HHBBH", 1, 0x0800, 6, 4, 2) + HOST1 + bytes([10, 0, 1, 2])
    return LAN1 + HOST1 + b"\x08\x06" + body + LAN1 + bytes([10, 0, 1, 1]) + bytes(18)


def write_capture(path, frames):
    with open(path, "wb") as file:
        file.write(struct.pack("<IHHiIII", 0xa1b2c3d4, 2, 4, 0, 0, 65535, 1))
        for number, frame in enumerate(frames):
            file.write(struct.pack("<IIII", number // 10**6, number % 10**6,
                                   len(frame), len(frame)) + frame)


def run(binary, folder):
    """Seconds of processor time and of the clock, and a digest of the forwarded frames."""
    command = [binary, "run", f"{folder}/router.click", f"IN0={folder}/in0.pcap",
               f"IN1={folder}/in1.pcap", f"OUT0={folder}/out0.pcap", f"OUT1={folder}/out1.pcap"]
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    with open(f"{folder}/printed", "wb") as printed:
        done = subprocess.run(command, cwd=ROOT, stdout=printed, stderr=subprocess.PIPE)
    wall = time.monotonic() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        sys.exit(f"router_capture.py: {' '.join(command)}: {done.stderr.decode()[-400:]}")
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return cpu, wall, digest(f"{folder}/out1.pcap")


def digest(path):
    """Of the frames of a capture that are IP, without their times."""
    data, at, sum_of = pathlib.Path(path).read_bytes(), 24, hashlib.sha256()
    while at + 16 <= len(data):
        length = struct.unpack_from("<I", data, at + 8)[0]
        frame = data[at + 16:at + 16 + length]
        if frame[12:14] == b"\x08\x00":
            sum_of.update(frame)
        at += 16 + length
    return sum_of.hexdigest()


def main():
    raw = argparse.RawTextHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("binaries", nargs="+")
    parser.add_argument("--packets", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--no-print", action="store_true")
    parser.add_argument("--out")
    parser.add_argument("--label", default="", help="commits of the builds, for the record")
    args = parser.parse_args()
    binaries = [str(pathlib.Path(binary).resolve()) for binary in args.binaries]
    rates = {binary: [] for binary in binaries}
    with tempfile.TemporaryDirectory() as folder:
        write_capture(f"{folder}/in0.pcap", map(datagram, range(args.packets)))
        write_capture(f"{folder}/in1.pcap", [arp_reply()])
        config = (ROOT / "conf/ip-router.click").read_text()
        if args.no_print:
            config = re.sub(r'IPPrint\(".*?"\)', "Null", config)
        pathlib.Path(f"{folder}/router.click").write_text(config)
        digests = set()
        for turn in range(args.rounds):
            for binary in binaries if turn % 2 == 0 else binaries[::-1]:
                cpu, wall, frames = run(binary, folder)
                digests.add(frames)
                rates[binary].append((args.packets / cpu / 1e6, args.packets / wall / 1e6))
        if len(digests) > 1:
            sys.exit("router_capture.py: the builds forward different frames")
    rows = []
    for binary in binaries:
        cpu, wall = (statistics.median(values) for values in zip(*rates[binary]))
        pairs = zip(rates[binary], rates[binaries[0]])
        ratio = statistics.median(own[0] / first[0] for own, first in pairs)
        name = binary.rsplit("/", 1)[1]
        rows.append((name, not args.no_print, f"{cpu:.3f}", f"{wall:.3f}", f"{ratio:.2f}"))
        print(f"{name:20} {cpu:7.3f} M/s of processor time {wall:7.3f} M/s {ratio:6.2f}")
    if args.out:
        with open(args.out, "a", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            if file.tell() == 0:
                writer.writerow("binary printed mpps_cpu mpps_clock ratio builds machine "
                                "date".split())
            date = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d")
            lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
            cpu = next(line.split(":")[1].strip() for line in lines if "model name" in line)
            writer.writerows([*row, args.label, cpu, date] for row in rows)


if __name__ == "__main__":
    main()
