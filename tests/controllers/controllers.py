#!/usr/bin/env python3
"""Runs real controllers, as PyPI has them, with hosts that talk through `warpswitch switch`.

    controllers.py --binary PATH --ryu PYTHON --faucet PYTHON [--tests ryu,faucet]

Needs root, and `ip`, `ping` and `ovs-ofctl`. PYTHON is the interpreter of the virtual environment
that has the controller. Each test has network namespaces of its own:

    host 1 --- port 1 |            |  controller on the loopback address
    host 2 --- port 2 | warpswitch |
    ...               |            |
"""

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
CONTROLLER_PORT = 6653
LISTEN_PORT = 6654
# How long something may take that has to happen, and seconds in which nothing may pass.
PATIENCE = 40
SERVER = """
import socket, sys
server = socket.create_server(("0.0.0.0", int(sys.argv[1])))
print("ready", flush=True)
connection, _ = server.accept()
connection.sendall(b"hello")
"""
CLIENT = """
import socket, sys
with socket.create_connection((sys.argv[1], int(sys.argv[2])), float(sys.argv[3])) as stream:
    sys.exit(stream.recv(5) != b"hello")
"""


class Failure(Exception):
    """A test failed, for this reason."""


def sh(*command, check=True, **options):
    """Runs a command; its output is the reason of the failure if it fails."""
    done = subprocess.run(command, capture_output=True, text=True, **options)
    if check and done.returncode != 0:
        raise Failure(f"{' '.join(command)}: {done.stderr or done.stdout}")
    return done


def expect(condition, what):
    if not condition:
        raise Failure(what)
    print(f"  {what}", flush=True)


class Network:
    """Hosts in namespaces around a namespace with the switch and its controller."""

    def __init__(self, name, hosts):
        self.switch = f"wsctl-{os.getpid()}-{name}"
        self.hosts = [f"{self.switch}-{number}" for number in range(1, hosts + 1)]
        self.folder = tempfile.mkdtemp(prefix="wsctl-")
        self.processes = []
        self.namespaces = []

    def __enter__(self):
        try:
            self.plug_in()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_):
        self.close()

    def plug_in(self):
        for name in (self.switch, *self.hosts):
            sh("ip", "netns", "add", name)
            self.namespaces.append(name)
        sh("ip", "-n", self.switch, "link", "set", "lo", "up")
        for number, host in enumerate(self.hosts, 1):
            port, mac = f"port{number}", f"02:00:00:00:00:{number:02x}"
            sh("ip", "link", "add", port, "netns", self.switch, "type", "veth",
               "peer", "name", "end", "netns", host)
            # The kernel would send frames of its own.
            for namespace, link in ((self.switch, port), (host, "end")):
                setting = f"/proc/sys/net/ipv6/conf/{link}/disable_ipv6"
                self.inside(namespace, "sh", "-c", f"test ! -e {setting} || echo 1 > {setting}")
            sh("ip", "-n", host, "link", "set", "end", "address", mac)
            sh("ip", "-n", host, "addr", "add", f"10.0.0.{number}/24", "dev", "end")
            sh("ip", "-n", host, "link", "set", "end", "up")
            sh("ip", "-n", self.switch, "link", "set", port, "up")

    def inside(self, namespace, *command, **options):
        return sh("ip", "netns", "exec", namespace, *command, **options)

    def start(self, namespace, log, *command, **options):
        """Starts a process whose output goes to a file."""
        with open(f"{self.folder}/{log}", "w") as out:
            process = subprocess.Popen(["ip", "netns", "exec", namespace, *command], stdout=out,
                                       stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                                       **options)
        self.processes.append(process)
        return process

    def start_switch(self, binary):
        ports = ",".join(f"port{number}" for number in range(1, len(self.hosts) + 1))
        self.start(self.switch, "switch.log", binary, "switch", "--ports", ports,
                   "--controller", f"tcp:127.0.0.1:{CONTROLLER_PORT}",
                   "--listen", f"ptcp:{LISTEN_PORT}", "--datapath-id", "1")

    def log(self, name):
        with open(f"{self.folder}/{name}") as file:
            return file.read()

    def flows(self):
        """The flows of the switch, one per line."""
        done = self.inside(self.switch, "ovs-ofctl", "-O", "OpenFlow13", "dump-flows",
                           f"tcp:127.0.0.1:{LISTEN_PORT}")
        return [line for line in done.stdout.splitlines() if "actions=" in line]

    def ping(self, source, target):
        """Whether an echo request gets its reply within a second."""
        done = self.inside(self.hosts[source - 1], "ping", "-c", "1", "-W", "1",
                           f"10.0.0.{target}", check=False)
        return done.returncode == 0

    def expect_ping(self, source, target):
        end = time.monotonic() + PATIENCE
        while not self.ping(source, target):
            if any(process.poll() is not None for process in self.processes):
                raise Failure("the controller or the switch ended")
            if time.monotonic() > end:
                raise Failure(f"host {source} does not reach host {target}")
        print(f"  host {source} pings host {target}", flush=True)

    def expect_no_ping(self, source, target):
        passed = any(self.ping(source, target) for _ in range(3))
        expect(not passed, f"host {source} does not reach host {target}")

    def connect(self, source, target, port):
        """Whether host `source` opens a TCP connection to host `target` and gets its bytes."""
        server = subprocess.Popen(
            ["ip", "netns", "exec", self.hosts[target - 1], sys.executable, "-c", SERVER,
             str(port)], stdout=subprocess.PIPE, text=True)
        try:
            server.stdout.readline()
            done = self.inside(self.hosts[source - 1], sys.executable, "-c", CLIENT,
                               f"10.0.0.{target}", str(port), "5", check=False)
            return done.returncode == 0
        finally:
            server.kill()
            server.wait()

    def expect_connection(self, source, target, port):
        end = time.monotonic() + PATIENCE
        while not self.connect(source, target, port):
            if time.monotonic() > end:
                raise Failure(f"host {source} cannot connect to host {target}, port {port}")
        print(f"  host {source} now opens TCP connections to host {target}, port {port}",
              flush=True)

    def close(self):
        for process in reversed(self.processes):
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for name in self.namespaces:
            sh("ip", "netns", "delete", name)
        shutil.rmtree(self.folder)


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


def show(network, *logs):
    """Prints the logs of a failed test."""
    for log in logs:
        if os.path.exists(f"{network.folder}/{log}"):
            print(f"--- {log}\n{network.log(log)[-4000:]}", file=sys.stderr)


TESTS = {"ryu": test_ryu, "faucet": test_faucet}
PROGRAMS = {"ip": "iproute2", "ping": "iputils-ping", "ovs-ofctl": "openvswitch-common"}


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
