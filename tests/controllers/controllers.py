#!/usr/bin/env python3
"""Runs programs of others, unmodified, with hosts that talk through `warpswitch switch`.

    controllers.py --binary PATH --ryu PYTHON --faucet PYTHON [--tests ryu,faucet,tunnels]

Needs root, and `ip`, `ping`, `ethtool` and Open vSwitch. PYTHON is the interpreter of the virtual
environment that has the controller. Each test has network namespaces of its own:

    host 1 --- port 1 |            |  controller on the loopback address
    host 2 --- port 2 | warpswitch |
    ...               |            |
"""

import argparse
import os
import re
import shutil
import signal
import sys
import time

from network import CONTROLLER_PORT, Failure, Network, expect, show
from open_vswitch import test_tunnels

HERE = os.path.dirname(os.path.abspath(__file__))


def test_ryu(args):
    """The learning switch `simple_switch_13` of Ryu."""
    with Network("ryu", 3) as network:
        network.start(network.switch, "ryu.log", args.ryu, f"{HERE}/ryu_manager.py",
                      "--ofp-listen-host", "127.0.0.1",
                      "--ofp-tcp-listen-port", str(CONTROLLER_PORT), "ryu.app.simple_switch_13")
        network.start_switch(args.binary)
        try:
            for source in (1, 2, 3):
                for target in {1, 2, 3} - {source}:
                    network.expect_ping(source, target)
            expect(network.connect(1, 3, 5001), "host 1 opens a TCP connection to host 3")
            learned = [flow for flow in network.flows() if "dl_dst=" in flow]
            expect(len(learned) >= 6, f"the controller added {len(learned)} flows")
            used = [flow for flow in learned if not re.search(r"n_packets=0\b", flow)]
            expect(used, f"{len(used)} of them forwarded frames")
            expect("EventOFPErrorMsg" not in network.log("ryu.log"), "the switch sent no error")
        except Failure:
            show(network, "ryu.log", "switch.log")
            raise


def test_faucet(args):
    """Faucet with two VLANs and an ACL, which a reload removes."""
    with Network("faucet", 4) as network:
        settings = {
            # It starts os-ken's manager by its name.
            "PATH": os.path.dirname(os.path.abspath(args.faucet)) + ":" + os.environ["PATH"],
            "FAUCET_CONFIG": shutil.copy(f"{HERE}/faucet.yaml", network.folder),
            "FAUCET_LOG": f"{network.folder}/faucet.log",
            "FAUCET_EXCEPTION_LOG": f"{network.folder}/exceptions.log",
            "FAUCET_PROMETHEUS_ADDR": "127.0.0.1",
        }
        faucet = network.start(network.switch, "console.log", args.faucet, "-m", "faucet",
                               "--ryu-ofp-listen-host", "127.0.0.1",
                               "--ryu-ofp-tcp-listen-port", str(CONTROLLER_PORT),
                               env=dict(os.environ, **settings))
        network.start_switch(args.binary)
        try:
            check_faucet(network)
            remove_acl(settings["FAUCET_CONFIG"])
            faucet.send_signal(signal.SIGHUP)
            network.expect_connection(1, 2, 5001)
            check_logs(network)
        except Failure:
            show(network, "console.log", "faucet.log", "exceptions.log", "switch.log")
            raise


def check_faucet(network):
    for source, target in ((1, 2), (2, 1), (3, 4), (4, 3)):
        network.expect_ping(source, target)
    for source, target in ((1, 3), (3, 1), (2, 4), (4, 2)):
        network.expect_no_ping(source, target)
    expect(network.connect(1, 2, 5002), "host 1 opens TCP connections to host 2, port 5002")
    expect(not network.connect(1, 2, 5001), "but not to port 5001, which the ACL blocks")
    expect(network.connect(3, 4, 5001), "host 3 opens TCP connections to host 4, port 5001")
    flows = network.flows()
    tables = {found[1] for flow in flows if (found := re.search(r"table=(\d+)", flow))}
    expect(len(tables) > 3, f"the controller added {len(flows)} flows in {len(tables)} tables")


def remove_acl(path):
    """Removes the ACL from the ports."""
    with open(path) as file:
        lines = [line for line in file if "acls_in" not in line]
    with open(path, "w") as file:
        file.writelines(lines)


def check_logs(network):
    expect("OFError" not in network.log("faucet.log"), "the switch sent no error")
    expect(not network.log("exceptions.log"), "the controller had no exception")


TESTS = {"ryu": test_ryu, "faucet": test_faucet, "tunnels": test_tunnels}
PROGRAMS = {"ip": "iproute2", "ping": "iputils-ping", "ethtool": "ethtool",
            "ovs-vswitchd": "openvswitch-switch"}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--binary", required=True)
    parser.add_argument("--ryu", required=True, metavar="PYTHON")
    parser.add_argument("--faucet", required=True, metavar="PYTHON")
    parser.add_argument("--tests", default=",".join(TESTS))
    args = parser.parse_args()
    for path in (args.binary, args.ryu, args.faucet):
        if not os.path.exists(path):
            sys.exit(f"{path} is missing; 'cargo xtask controllers' makes it")
    args.binary = os.path.abspath(args.binary)
    unknown = set(args.tests.split(",")) - set(TESTS)
    if unknown:
        sys.exit(f"no test is called {', '.join(sorted(unknown))}; expected {', '.join(TESTS)}")
    for program, package in PROGRAMS.items():
        if not shutil.which(program):
            sys.exit(f"'{program}' is missing: apt install {package}")
    if os.geteuid() != 0:
        sys.exit("network namespaces require root: run it with sudo")
    failed = []
    for name in args.tests.split(","):
        print(f"{name}: {TESTS[name].__doc__}", flush=True)
        started = time.monotonic()
        try:
            TESTS[name](args)
            print(f"{name}: passed in {time.monotonic() - started:.0f} s")
        except Failure as failure:
            print(f"{name}: FAILED: {failure}")
            failed.append(name)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
