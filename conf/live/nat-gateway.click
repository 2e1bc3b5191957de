// A NAT gateway between two interfaces of this machine: connections of inside hosts leave from the
// gateway's outside address.
//
//   sudo warpswitch run conf/live/nat-gateway.click ETH0=eth0 ETH1=eth1 \
//     ADDR0=10.0.0.1/24 ADDR1=192.0.2.1/24 GATEWAY=192.0.2.254
//
// ETH0 is the interface to the inside, ETH1 the one to the outside. ADDR0 and ADDR1 are the
// addresses of the gateway there, MAC0 and MAC1 its Ethernet addresses. GATEWAY is the next hop to
// networks beyond the outside link. Give the interfaces no IP addresses of the kernel on these
// links. Inside hosts use ADDR0 as their gateway.
//
// Connections from inside get a port of the gateway, pings an identifier; replies, and ICMP errors
// about them, are translated back. The gateway answers pings from inside. Unsolicited packets are
// dropped; 'warpswitch top' shows how many:
//
//   nat, pings: no flow      TCP, UDP and ping replies that belong to no connection
//   errors                   ICMP errors about unknown connections
//   unsolicited              packets of other kinds
//
// Rewriters are those of conf/nat-gateway.click, Port is that of conf/live/ip-router.click.

define($ETH0 eth0, $ETH1 eth1, $METHOD AUTO, $QUEUE 1000,
       $ADDR0 10.0.0.1/24, $ADDR1 192.0.2.1/24, $GATEWAY 192.0.2.254, $MTU0 1500, $MTU1 1500,
       $MAC0 02:00:00:00:00:00, $MAC1 02:00:00:00:01:00);

AddressInfo(inside $ADDR0 $MAC0, outside $ADDR1 $MAC1);

// Input side of an interface: accepts frames for it, answers ARP.
// Input 0: frames received. Output 0: IPv4 packets. Output 1: ARP replies. Output 2: frames to send.
elementclass Port { $name |
  input -> HostEtherFilter($name)
    -> sort :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
  sort[0] -> ARPResponder($name) -> [2]output;
  sort[1] -> [1]output;
  sort[2] -> Strip(14) -> [0]output;
  sort[3] -> Discard;
}

from0 :: FromDevice($ETH0, PROMISC true, METHOD $METHOD) -> port0 :: Port(inside);
from1 :: FromDevice($ETH1, PROMISC true, METHOD $METHOD) -> port1 :: Port(outside);
arp0 :: ARPQuerier(inside);
arp1 :: ARPQuerier(outside);
send0 :: Queue($QUEUE) -> to0 :: ToDevice($ETH0, METHOD $METHOD);
send1 :: Queue($QUEUE) -> to1 :: ToDevice($ETH1, METHOD $METHOD);

// Output 0: to the outside. Output 1: to the inside.
nat :: IPRewriter(pattern outside 1024-65535 - - 0 1, drop);
pings :: ICMPPingRewriter(pattern outside 1024-65535# - - 0 1, drop);
errors :: ICMPRewriter(nat:0 pings:0);

// From inside. Packets for the gateway, packets to translate, and packets that must not leave:
// to the inside, or from an address that is not of the inside.
port0
  -> CheckIPHeader(INTERFACES $ADDR0)
  -> DropBroadcasts
  -> from_in :: IPClassifier(dst host inside, dst net inside, src net inside, -);
from_in[0] -> IPReassembler -> local :: IPClassifier(icmp type echo, -);
local[0] -> CheckICMPHeader -> ICMPPingResponder -> arp0;
local[1], from_in[1], from_in[3] -> Discard;
from_in[2] -> ttl0 :: DecIPTTL
  -> IPReassembler
  -> kind0 :: IPClassifier(tcp or udp, icmp type echo, -);
ttl0[1] -> ICMPError(inside, timeexceeded) -> limit :: RatedSplitter(1000) -> arp0;
limit[1] -> Discard;
kind0[0] -> [0]nat;
kind0[1] -> [0]pings;
kind0[2] -> Discard;

// From outside.
port1
  -> CheckIPHeader(INTERFACES $ADDR1)
  -> DropBroadcasts
  -> ttl1 :: DecIPTTL
  -> IPReassembler
  -> kind1 :: IPClassifier(tcp or udp, icmp type echo-reply,
                           icmp type unreachable or 11 or 12, -);
kind1[0] -> [1]nat;
kind1[1] -> [1]pings;
kind1[2] -> errors;
ttl1[1], kind1[3] -> unsolicited :: Discard;

// To the outside: fragments long packets. The rewriter translates ICMP errors to the inside.
nat[0], pings[0], errors[0]
  -> StaticIPLookup(outside:ipnet 0, 0.0.0.0/0 $GATEWAY 0)
  -> cut1 :: IPFragmenter($MTU1)
  -> arp1 -> send1;
cut1[1] -> ICMPError(outside, unreachable, needfrag, PMTU $MTU1) -> errors;

// To the inside.
nat[1], pings[1], errors[1] -> cut0 :: IPFragmenter($MTU0) -> arp0 -> send0;
cut0[1] -> ICMPError(outside, unreachable, needfrag, PMTU $MTU0) -> errors;

// ARP queries are sent like frames.
arp0[1] -> send0;
arp1[1] -> send1;
port0[1] -> [1]arp0;
port1[1] -> [1]arp1;
port0[2] -> send0;
port1[2] -> send1;
