// Forwards frames by a flow table.
//
//   cargo run --release -- run --stats conf/sdn-forwarder.click
//
// The table is conf/sdn-forwarder.rules, in ovs-ofctl's flow syntax; the engine is that of
// `warpswitch classify`. Outputs 0 and 1 are switch ports; drops are counted and printed at the end.

define($IN conf/captures/firewall.pcap, $RULES conf/sdn-forwarder.rules);

FromDump($IN, BURST 64, STOP true)
  -> in :: Counter
  -> table :: SDNClassifier(RULES $RULES);

table[0] -> port0 :: Counter -> Discard;
table[1] -> port1 :: Counter -> Discard;

DriverManager(wait_stop,
              print "$(in.count) frames came: $(port0.count) left by port 0, $(port1.count) by port 1",
              print "$(sub $(in.count) $(add $(port0.count) $(port1.count))) did not leave",
              stop);
