// links.click: the capture IN with other link headers
define($IN conf/captures/ids.pcap);
FromDump($IN, STOP true) -> Strip(14) -> t :: Tee(5);
t[0] -> ToDump(ip.pcap, ENCAP IP);
t[1] -> Unstrip(16) -> StoreData(0, \<0000 0001 0006 020000000001 0000 0800>)
  -> ToDump(sll.pcap, ENCAP SLL);
t[2] -> Unstrip(20) -> StoreData(0, \<0800 0000 00000001 0001 00 06 020000000001 0000>)
  -> ToDump(sll2.pcap, ENCAP LINUX_SLL2);
t[3] -> Unstrip(4) -> StoreData(0, \<00000002>) -> ToDump(null.pcap, ENCAP NULL);
t[4] -> Unstrip(14) -> ToDump(wifi.pcap, ENCAP 802.11);
