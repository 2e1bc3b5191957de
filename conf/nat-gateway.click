// A NAT gateway: connections of inside hosts leave from the gateway's address.
//
//   cargo run --release -- run --stats conf/nat-gateway.click
//
// Inside is 10.0.0.0/24; the gateway's outside address is 192.0.2.1. Connections from inside get a
// port of the gateway, pings an identifier; replies are translated back; unsolicited packets are
// dropped. Packets are lines of text summaries, which can be edited. Packets are printed as they
// arrive on one side and as they leave on the other.

define($INSIDE conf/captures/nat-inside.txt, $OUTSIDE conf/captures/nat-outside.txt);

nat :: IPRewriter(pattern 192.0.2.1 1024-65535 - - 0 1, drop);
icmp :: ICMPPingRewriter(pattern 192.0.2.1 1024-65535# - - 0 1, drop);

inside :: FromIPSummaryDump($INSIDE, STOP true, CHECKSUM true);
outside :: FromIPSummaryDump($OUTSIDE, STOP true, CHECKSUM true);

// The run ends with both inputs; otherwise it would wait for the flows to age.
DriverManager(wait_stop 2, stop);

inside -> IPPrint("inside:  came", TIMESTAMP false) -> from_in :: IPClassifier(tcp or udp, icmp type echo, -);
from_in[0] -> [0]nat;
from_in[1] -> [0]icmp;
from_in[2] -> Discard;

outside -> IPPrint("outside: came", TIMESTAMP false) -> from_out :: IPClassifier(tcp or udp, icmp type echo-reply, -);
from_out[0] -> [1]nat;
from_out[1] -> [1]icmp;
from_out[2] -> Discard;

nat[0], icmp[0] -> out :: IPPrint("outside: sent", TIMESTAMP false) -> Discard;
nat[1], icmp[1] -> in :: IPPrint("inside:  sent", TIMESTAMP false) -> Discard;
