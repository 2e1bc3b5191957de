// An OpenFlow switch between two networks, with a port that gets copies.
//
//   cargo run --release -- run --stats conf/openflow-switch.click
//
// The flows are conf/openflow-switch.flows, in ovs-ofctl's text. With LISTEN ptcp:6653 among the
// arguments of the switch, a controller changes them while packets flow; see docs/switch.md.

define($IN0 conf/captures/lan0.pcap, $IN1 conf/captures/lan1.pcap,
       $FLOWS conf/openflow-switch.flows);

sw :: OpenFlowSwitch(FLOWS $FLOWS);

FromDump($IN0, BURST 64, STOP true) -> in1 :: Counter -> [0] sw [0] -> out1 :: Counter -> Discard;
FromDump($IN1, BURST 64, STOP true) -> in2 :: Counter -> [1] sw [1] -> out2 :: Counter -> Discard;
Idle -> [2] sw [2] -> copies :: Counter -> Discard;

DriverManager(wait_stop 2,
              print "port 1: $(in1.count) in, $(out1.count) out",
              print "port 2: $(in2.count) in, $(out2.count) out",
              print "copies: $(copies.count)",
              stop);
