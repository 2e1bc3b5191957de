// The standard IP router with two interfaces, and the host itself as a third way out.

elementclass OutputPort {
  // What leaves an interface after routing: errors go to output 1, back to the routing table.
  COLOR $color, IP $ip, MTU $mtu |
  input -> DropBroadcasts
    -> cp :: PaintTee($color)
    -> gio :: IPGWOptions($ip)
    -> FixIPSrc($ip)
    -> dt :: DecIPTTL
    -> fr :: IPFragmenter($mtu)
    -> output;
  cp [1] -> ICMPError($ip, redirect, host) -> [1] output;
  gio [1] -> ICMPError($ip, parameterproblem) -> [1] output;
  dt [1] -> ICMPError($ip, timeexceeded) -> [1] output;
  fr [1] -> ICMPError($ip, unreachable, needfrag) -> [1] output;
}

define($IP0 10.0.0.1, $MAC0 00:00:c0:00:00:01,
       $IP1 10.1.0.1, $MAC1 00:00:c0:00:00:02);

// From the interfaces: ARP apart, IP painted with where it came from.
c0, c1 :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
FromDevice(eth0) -> c0;
FromDevice(eth1) -> c1;

out0, out1 :: Queue(200);
out0 -> ToDevice(eth0);
out1 -> ToDevice(eth1);

c0 [0] -> ARPResponder($IP0 $MAC0) -> out0;
c1 [0] -> ARPResponder($IP1 $MAC1) -> out1;

arpq0 :: ARPQuerier($IP0, $MAC0) -> out0;
arpq1 :: ARPQuerier($IP1, $MAC1) -> out1;
tee :: Tee;
c0 [1], c1 [1] -> tee;
tee => [1] arpq0, [1] arpq1, host :: Discard;

c0 [2] -> Paint(1) -> ip :: Strip(14)
  -> CheckIPHeader(INTERFACES 10.0.0.1/16 10.1.0.1/16)
  -> rt :: StaticIPLookup(
       $IP0/32 0, 10.0.255.255/32 0, 10.0.0.0/32 0,   // our own, and broadcasts
       $IP1/32 0, 10.1.255.255/32 0, 10.1.0.0/32 0,
       10.0.0.0/16 1, 10.1.0.0/16 2,
       255.255.255.255/32 0, 0.0.0.0/32 0,
       0.0.0.0/0 10.1.0.254 2);
c1 [2] -> Paint(2) -> ip;
c0 [3] -> Print(eth0) -> Discard;
c1 [3] -> Print(eth1) -> Discard;

rt [0] -> EtherEncap(0x0800, 1:1:1:1:1:1, 2:2:2:2:2:2) -> host;
rt [1] -> port0 :: OutputPort(COLOR 1, IP $IP0, MTU 1500) -> arpq0;
rt [2] -> port1 :: OutputPort(COLOR 2, IP $IP1, MTU 1500) -> arpq1;
port0 [1], port1 [1] -> rt;
