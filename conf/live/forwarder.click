// Forwards frames between two interfaces of this machine and counts them.
//
//   sudo warpswitch run conf/live/forwarder.click ETH0=eth0 ETH1=eth1
//
// ETH0 and ETH1 are names of interfaces. All frames pass, up to the MTU of the links; offloads of
// hosts on this machine: docs/interfaces.md, "Limits". Elements are those of conf/forwarder.click.

define($ETH0 eth0, $ETH1 eth1, $METHOD AUTO, $QUEUE 1000);

from0 :: FromDevice($ETH0, PROMISC true, METHOD $METHOD)
  -> count0 :: Counter -> Queue($QUEUE) -> to1 :: ToDevice($ETH1, METHOD $METHOD);
from1 :: FromDevice($ETH1, PROMISC true, METHOD $METHOD)
  -> count1 :: Counter -> Queue($QUEUE) -> to0 :: ToDevice($ETH0, METHOD $METHOD);
