"""Hosts in network namespaces around a namespace with a switch."""

import os
import shutil
import subprocess
import sys
import tempfile
import time

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


def show(network, *logs):
    """Prints the logs of a failed test."""
    for log in logs:
        if os.path.exists(f"{network.folder}/{log}"):
            print(f"--- {log}\n{network.log(log)[-4000:]}", file=sys.stderr)
