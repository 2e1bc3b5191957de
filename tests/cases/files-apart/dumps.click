// One file by two names, which is not there yet, and a link that leads to another one.
FromDump(victim.pcap) -> t :: Tee;
t[0] -> a :: ToDump(same.pcap);
t[1] -> b :: ToDump(./same.pcap);
t[2] -> c :: ToDump(new.pcap);
t[3] -> d :: ToDump(to-come.pcap);
