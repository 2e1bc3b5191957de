"""Open vSwitch as the other end of tunnels.

    host 1 --- port 1 | warpswitch |--- under === under ---| Open vSwitch | host 2
    10.0.0.1          192.0.2.1                      192.0.2.2          10.0.0.2

Its userspace datapath encapsulates by itself, without the kernel's tunnels.
"""

import os
import subprocess
import time

from network import Failure, Network, expect, sh, show

SCHEMA = "/usr/share/openvswitch/vswitch.ovsschema"
# The MTU of both hosts leaves room for the headers of a tunnel.
MTU = "1400"
TUNNELS = [(kind, options) for kind in ("vxlan", "geneve", "gre")
           for options in (["key=5"], ["key=7", "csum=true", "tos=inherit", "ttl=inherit"])]


class OpenVSwitch:
    """Open vSwitch in a namespace. Bridge `outer` has the underlay, `inner` the host."""

    def __init__(self, network, namespace):
        self.network, self.namespace = network, namespace
        folder = f"{network.folder}/ovs"
        os.mkdir(folder)
        self.database = f"unix:{folder}/db.sock"
        self.env = dict(os.environ, OVS_RUNDIR=folder, OVS_LOGDIR=folder, OVS_DBDIR=folder)
        sh("ovsdb-tool", "create", f"{folder}/conf.db", SCHEMA)
        network.start(namespace, "ovsdb.log", "ovsdb-server", f"{folder}/conf.db",
                      f"--remote=p{self.database}", f"--unixctl={folder}/db.ctl", env=self.env)
        self.wait_for(f"{folder}/db.sock")
        self.vsctl("--no-wait", "init")
        network.start(namespace, "vswitchd.log", "ovs-vswitchd", self.database,
                      f"--unixctl={folder}/vs.ctl", env=self.env)
        self.wait_for(f"{folder}/vs.ctl")
        for bridge, address in (("outer", "192.0.2.2/24"), ("inner", "10.0.0.2/24")):
            self.vsctl("add-br", bridge, "--", "set", "bridge", bridge, "datapath_type=netdev")
            sh("ip", "-n", namespace, "addr", "add", address, "dev", bridge)
            sh("ip", "-n", namespace, "link", "set", bridge, "up")
        sh("ip", "-n", namespace, "link", "set", "inner", "mtu", MTU)
        self.vsctl("add-port", "outer", "under")

    def wait_for(self, path):
        for _ in range(100):
            if os.path.exists(path):
                return
            time.sleep(0.1)
        raise Failure(f"{path} does not appear")

    def vsctl(self, *command):
        self.network.inside(self.namespace, "ovs-vsctl", f"--db={self.database}", "--timeout=20",
                            *command, env=self.env)

    def set_tunnel(self, kind, options):
        settings = [f"options:{option}" for option in ("remote_ip=192.0.2.1", *options)]
        self.vsctl("--if-exists", "del-port", "tunnel", "--", "add-port", "inner", "tunnel",
                   "--", "set", "interface", "tunnel", f"type={kind}", *settings)


def test_tunnels(args):
    """VXLAN, Geneve and GRE tunnels to Open vSwitch."""
    with Network("tunnels", 1) as network:
        peer = f"{network.switch}-peer"
        sh("ip", "netns", "add", peer)
        network.namespaces.append(peer)
        sh("ip", "link", "add", "under", "netns", network.switch, "type", "veth",
           "peer", "name", "under", "netns", peer)
        sh("ip", "-n", network.switch, "addr", "add", "192.0.2.1/24", "dev", "under")
        sh("ip", "-n", network.hosts[0], "link", "set", "end", "mtu", MTU)
        for namespace in (network.switch, peer):
            sh("ip", "-n", namespace, "link", "set", "under", "up")
            # Open vSwitch does not complete what a sender left to its interface.
            network.inside(namespace, "ethtool", "-K", "under", "tx", "off")
        # The host behind Open vSwitch is the peer's namespace itself.
        network.hosts.append(peer)
        try:
            peer_switch = OpenVSwitch(network, peer)
            for kind, options in TUNNELS:
                peer_switch.set_tunnel(kind, options)
                check(args, network, kind, options)
        except Failure:
            show(network, "vswitchd.log", "switch.log")
            raise


def check(args, network, kind, options):
    """Checks ping and TCP through one kind of tunnel."""
    tunnel = ",".join([f"{kind}:t:remote_ip=192.0.2.2", *options])
    print(f"  {tunnel}", flush=True)
    switch = network.start(network.switch, "switch.log", args.binary, "switch",
                           "--ports", f"port1,{tunnel}", "--fail-mode", "standalone")
    network.expect_ping(1, 2)
    expect(network.connect(1, 2, 5001), "host 1 opens a TCP connection to host 2")
    network.processes.remove(switch)
    switch.terminate()
    try:
        switch.wait(10)
    except subprocess.TimeoutExpired:
        switch.kill()
    expect("dropped by tunnels" not in network.log("switch.log"), "no tunnel dropped a packet")
