// Read twice; written to what is no file.
FromDump(victim.pcap) -> ToDump(/dev/null) -> ToDump(-) -> ToDump(pipe) -> Discard;
FromDump(soft.pcap) -> ToDump(/dev/null) -> ToDump(-) -> ToDump(pipe) -> Discard;
