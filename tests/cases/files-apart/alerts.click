// Alerts that would be written over the capture that is read.
in :: FromDump(victim.pcap) -> IDSMatcher(RULES some.rules, OUT ./victim.pcap) -> Discard;
