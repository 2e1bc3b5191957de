// A firewall between two interfaces of this machine. It has no addresses: it is put into a link.
//
//   sudo warpswitch run conf/live/firewall.click ETH0=eth0 ETH1=eth1 \
//     INWARD='allow tcp and dst port 22, allow icmp type echo'
//
// ETH0 and ETH1 are the interfaces to the inside and to the outside. OUTWARD and INWARD are lists
// of patterns of IPFilter for connections that may begin inside and outside: by default all from
// inside, and pings from outside. A line that starts with 'deny' also ends connections that the
// other side began. Replies, and ICMP errors about the packets of a connection, pass. Other IPv4
// packets are dropped: other protocols, and fragments after the first. ARP passes, other frames do
// not, so IPv6 does not. 'warpswitch top' shows the drops:
//
//   filter0, filter1         packets that a line denies
//   state, pings: no flow    packets of TCP, UDP and ping that no line allows
//   errors                   ICMP errors about unknown connections
//   others                   other protocols, frames without IPv4
//
// Elements are those of conf/firewall.click; rewriters that change nothing track the connections.

define($ETH0 eth0, $ETH1 eth1, $METHOD AUTO, $QUEUE 1000,
       $OUTWARD allow tcp or udp or icmp type echo, $INWARD allow icmp type echo);

// Checks and sorts frames of one side.
// Output 0: ARP. Output 1: TCP, UDP and pings. Output 2: ICMP errors. Output 3: others.
elementclass Gate {
  input -> sort :: Classifier(12/0806, 12/0800, -);
  sort[0] -> [0]output;
  sort[1] -> Strip(14) -> CheckIPHeader
    -> protocol :: IPClassifier(tcp or udp or icmp type echo or echo-reply,
                                icmp type unreachable or 11 or 12, -);
  protocol[0] -> [1]output;
  protocol[1] -> [2]output;
  sort[2], protocol[2] -> [3]output;
}

from0 :: FromDevice($ETH0, PROMISC true, METHOD $METHOD) -> inside :: Gate;
from1 :: FromDevice($ETH1, PROMISC true, METHOD $METHOD) -> outside :: Gate;
send0 :: Queue($QUEUE) -> to0 :: ToDevice($ETH0, METHOD $METHOD);
send1 :: Queue($QUEUE) -> to1 :: ToDevice($ETH1, METHOD $METHOD);

// Inputs 0 and 1: allowed packets from inside and from outside, which may begin a connection.
// Input 2: others, which may only continue one. Output 0: to the outside. Output 1: to the inside.
state :: IPRewriter(keep 0 1, keep 1 0, drop);
pings :: ICMPPingRewriter(keep 0 1, keep 1 0, drop);
errors :: ICMPRewriter(state:0 pings:0);
others :: Discard;

inside[0] -> send1;
inside[1] -> filter0 :: IPFilter($OUTWARD, 1 all);
inside[2] -> errors;
inside[3] -> others;
filter0[0] -> new0 :: IPClassifier(icmp, -);
new0[0] -> [0]pings;
new0[1] -> [0]state;

outside[0] -> send0;
outside[1] -> filter1 :: IPFilter($INWARD, 1 all);
outside[2] -> errors;
outside[3] -> others;
filter1[0] -> new1 :: IPClassifier(icmp, -);
new1[0] -> [1]pings;
new1[1] -> [1]state;

filter0[1], filter1[1] -> known :: IPClassifier(icmp, -);
known[0] -> [2]pings;
known[1] -> [2]state;

state[0], pings[0], errors[0] -> Unstrip(14) -> send1;
state[1], pings[1], errors[1] -> Unstrip(14) -> send0;
