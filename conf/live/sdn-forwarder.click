// Forwards frames between two interfaces of this machine by a flow table.
//
//   sudo warpswitch run conf/live/sdn-forwarder.click ETH0=eth0 ETH1=eth1 RULES=my.rules
//
// ETH0 and ETH1 are names of interfaces, and switch ports 0 and 1 of the table. The table RULES is
// in ovs-ofctl's flow syntax: rules match in_port=0 or 1 and end with actions=output:0, output:1 or
// drop. Frames that match no rule are dropped. Rules are added and removed while it runs, through a
// control socket (run --control PORT):
//
//   warpswitch write PORT table.add 'priority=400,udp,tp_dst=53 actions=drop'
//
// Elements are those of conf/sdn-forwarder.click.

define($ETH0 eth0, $ETH1 eth1, $METHOD AUTO, $QUEUE 1000, $RULES conf/live/sdn-forwarder.rules);

table :: SDNClassifier(RULES $RULES);

// The paint is the input port of the rules.
from0 :: FromDevice($ETH0, PROMISC true, METHOD $METHOD) -> Paint(0) -> in :: Counter -> table;
from1 :: FromDevice($ETH1, PROMISC true, METHOD $METHOD) -> Paint(1) -> in;

table[0] -> port0 :: Counter -> Queue($QUEUE) -> to0 :: ToDevice($ETH0, METHOD $METHOD);
table[1] -> port1 :: Counter -> Queue($QUEUE) -> to1 :: ToDevice($ETH1, METHOD $METHOD);
