#!/usr/bin/env python3
"""Measures two builds of warpswitch in turns and prints the ratio of each figure.

    bench/turns.py OLD NEW [--what classify,graph,scan,routes,gpu] [--rounds 5]
                   [--only CASES] [--data DIR] [--out FILE.csv] [--label TEXT]

OLD and NEW are binaries. Each case runs with both, OLD first in even rounds and NEW first in odd
ones, so that a machine which slows down or speeds up favours neither. A figure is every `mpps` or
`gbps` of a report; its ratio is the median over the rounds of NEW / OLD in the same round.
Reports without equal digests end the script: unequal results get no ratio.

DIR holds ClassBench sets, literals and prefixes (default: sets are generated from a seed).
Exit code: 0, or 1 if a ratio is below --least (default 0.97).
"""

import argparse
import csv
import datetime
import functools
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile

FIGURES = ("mpps", "gbps", "bare_mpps", "parsed_mpps")
# What tells the entries of a list apart.
NAMES = ("name", "traffic", "engine", "by", "what", "addresses", "payloads", "payload_bytes",
         "batch", "packed")


def figures(report, path=()):
    """Every figure of a report by its path."""
    if isinstance(report, dict):
        for key, value in report.items():
            # Figures of others, for comparison.
            if key == "stated":
                continue
            if key in FIGURES and isinstance(value, (int, float)):
                yield "/".join(path + (() if key == "mpps" else (key,))), float(value)
            elif isinstance(value, (dict, list)):
                yield from figures(value, path + ((key,) if isinstance(value, dict) else ()))
    elif isinstance(report, list):
        for idx, entry in enumerate(report):
            if not isinstance(entry, (dict, list)):
                continue
            is_named = isinstance(entry, dict)
            names = [str(entry[name]) for name in NAMES if is_named and name in entry]
            yield from figures(entry, path + (" ".join(names) or str(idx),))


def digests(report):
    """Every digest of a report, in order."""
    if isinstance(report, dict):
        for key, value in report.items():
            if key == "digest":
                yield value
            else:
                yield from digests(value)
    elif isinstance(report, list):
        for entry in report:
            yield from digests(entry)


class Files:
    """Rule sets, traces, patterns and routes: those of a folder, else generated."""

    def __init__(self, binary, data, work):
        self.binary, self.data, self.work = binary, data, pathlib.Path(work)

    def find(self, *patterns):
        for pattern in patterns if self.data else ():
            found = sorted(pathlib.Path(self.data).rglob(pattern))
            if found:
                return str(found[0])
        return None

    def generate(self, kind, out, *options):
        path = self.work / out
        if not path.exists():
            command = [self.binary, "generate", kind, *options, "--seed", "1", "--out", str(path)]
            quiet = subprocess.DEVNULL
            subprocess.run(command, check=True, stdout=quiet, stderr=quiet)
        return str(path)

    def rules(self, name, style, count, *options):
        return self.find(f"{name}.rules", f"{name}.rules.gz") or self.generate(
            "rules", f"{name}.rules", "--style", style, "--count", count, *options)

    def trace(self, name, rules, packets="1M"):
        return self.generate("trace", f"{name}.trace", "--rules", rules, "--count", packets)

    def patterns(self):
        found = self.find("literals_1k.hex")
        if found:
            return found
        path = self.work / "patterns.hex"
        path.write_text("".join(f"- {(i * 2654435761) % 2**48:012x}\n" for i in range(1, 1001)))
        return str(path)

    def routes(self):
        return self.generate("routes", "routes.txt", "--count", "100K", "--hops", "250")


SETS = (("acl1_1k", "acl", "1K"), ("fw5_10k", "fw", "10K"), ("ipc2_100k", "ipc", "100K"))


def cases(files, what, run_ms):
    """Name and arguments of each measurement."""
    runs = ["--runs", "1", "--run-ms", str(run_ms), "--json"]
    sets = [(name, files.rules(name, style, count)) for name, style, count in SETS]
    if "classify" in what or "gpu" in what:
        ipv6 = files.generate("rules", "ipv6.rules", "--style", "acl", "--count", "10K",
                              "--family", "ipv6", "--format", "canonical")
        sets.append(("ipv6_10k", ipv6))
    if "classify" in what:
        for name, rules in sets:
            trace = files.trace(name, rules)
            engines = "turbo,tuple,maskhash,hypercuts" if name != "ipc2_100k" else "turbo,maskhash"
            yield f"classify {name}", ["bench", "classify", "--rules", rules, "--trace", trace,
                                       "--engines", engines, *runs]
    if "graph" in what:
        data = ["--data", files.data] if files.data else []
        yield "graph", ["bench", "graph", *data, *runs]
    if "scan" in what:
        yield "scan", ["bench", "scan", "--patterns", files.patterns(), "--device", "host",
                       "--batch", "64", *runs]
    if "routes" in what:
        yield "routes", ["bench", "routes", "--routes", files.routes(), "--device", "host",
                         "--batch", "64K", *runs]
    if "gpu" in what:
        for name, rules in sets:
            yield f"gpu {name}", ["bench", "gpu", "--rules", rules, "--no-cpu",
                                  "--check", "engines",
                                  "--keys", "1M", "--engines", "turbo,maskhash,tuple",
                                  "--batch", "8K,256K", *runs]
        yield "gpu routes", ["bench", "routes", "--routes", files.routes(), "--no-cpu",
                             "--batch", "8K,256K", *runs]
        yield "gpu scan", ["bench", "scan", "--patterns", files.patterns(), "--no-cpu",
                           "--batch", "64,256", *runs]


def report(binary, arguments):
    """The report of one run."""
    if arguments[1] == "graph" and "--source" in help_of(binary):
        arguments = [*arguments, "--source", "memory"]
    done = subprocess.run([binary, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if done.returncode != 0:
        sys.exit(f"turns.py: {binary} {' '.join(arguments)}: {done.stderr.decode()[-400:]}")
    return json.loads(done.stdout)


@functools.cache
def help_of(binary):
    """The options of `bench graph`: only newer builds have captures as sources."""
    done = subprocess.run([binary, "bench", "graph", "--help"], stdout=subprocess.PIPE)
    return done.stdout.decode()


def cpu():
    """The processor's name."""
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or "unknown"


def main():
    raw = argparse.RawTextHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--what", default="classify,graph,scan,routes")
    parser.add_argument("--only", help="cases, separated by commas, such as 'gpu scan'")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--run-ms", type=int, default=200)
    parser.add_argument("--data")
    parser.add_argument("--out")
    parser.add_argument("--label", default="", help="commits of both builds, for the record")
    parser.add_argument("--least", type=float, default=0.97)
    args = parser.parse_args()
    binaries = [os.path.abspath(args.old), os.path.abspath(args.new)]
    rows = []
    with tempfile.TemporaryDirectory() as work:
        files = Files(binaries[0], args.data, work)
        for name, arguments in cases(files, args.what.split(","), args.run_ms):
            if args.only and name not in args.only.split(","):
                continue
            measured = {}
            for turn in range(args.rounds):
                reports = {}
                for binary in binaries if turn % 2 == 0 else binaries[::-1]:
                    reports[binary] = report(binary, arguments)
                old, new = (reports[binary] for binary in binaries)
                if list(digests(old)) != list(digests(new)):
                    sys.exit(f"turns.py: {name}: the builds return different results")
                new = dict(figures(new))
                for figure, rate in figures(old):
                    if figure in new and rate > 0:
                        measured.setdefault(figure, []).append((rate, new[figure]))
            for figure, rates in measured.items():
                ratio = statistics.median(after / before for before, after in rates)
                before = statistics.median(rate for rate, _ in rates)
                after = statistics.median(rate for _, rate in rates)
                rows.append((name, figure, before, after, ratio))
                print(f"{name:20} {figure:50} {before:10.2f} {after:10.2f} {ratio:6.3f}"
                      f"{'  below' if ratio < args.least else ''}", flush=True)
    if args.out:
        is_new = not os.path.exists(args.out)
        with open(args.out, "a", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            if is_new:
                writer.writerow("case figure old new ratio builds machine date".split())
            date = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d")
            for name, figure, before, after, ratio in rows:
                writer.writerow([name, figure, f"{before:.4g}", f"{after:.4g}", f"{ratio:.3f}",
                                 args.label, cpu(), date])
    below = sum(ratio < args.least for *_, ratio in rows)
    print(f"{len(rows)} figures, {below} below {args.least}")
    return 1 if below else 0


if __name__ == "__main__":
    sys.exit(main())
