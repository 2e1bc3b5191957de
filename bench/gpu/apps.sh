# Snap's applications as configurations, for offload.sh, which reads this file. A path is a source,
# an application and a sink: many paths side by side keep many workers busy.
#
#   forward   packets as they are: what a path costs at least
#   routes    lookups of routes
#   match     detection
#   sdn       a forwarder by rules
#   headers   rules and routes
#   dpi       routes and detection
#   ids       rules, routes and detection
#   div       the same with two matchers: which of them has a packet, a predicate says
#   full      a whole IPv4 router with detection, as conf/full-router-ids.click
#
# Files are acl.rules, halves.rules (the same with two outputs), routes.txt, words.rules and
# inBYTES.pcap.

table='0.0.0.0/0 0, FILE routes.txt, FORMAT list'
routed='rt[0], rt[1], rt[2], rt[3] -> Discard;'
ip='Strip(14) -> CheckIPHeader(CHECKSUM false)'
state=${STATE:+, STATE $STATE}
matcher="IDSMatcher(RULES words.rules, LINK ip$state)"

# serial APP: the application by elements of the CPU.
serial() {
	local sdn='sdn :: SDNClassifier(acl.rules, MISS 0)'
	local rt="rt :: StaticIPLookup($table); $routed"
	local drain='sdn[1], sdn[2], sdn[3] -> Discard;'
	case $1 in
		forward) echo 'Counter -> Discard;' ;;
		routes) echo "$ip -> $rt" ;;
		match) echo "$ip -> m :: $matcher -> Discard;" ;;
		sdn) echo "$sdn -> Discard; $drain" ;;
		headers) echo "$sdn -> $ip -> $rt $drain" ;;
		dpi) echo "$ip -> m :: $matcher -> $rt" ;;
		ids) echo "$sdn -> $ip -> m :: $matcher -> $rt $drain" ;;
		div) echo "by :: SDNClassifier(halves.rules, MISS 0)
			-> $ip -> web :: $matcher -> $rt
			by[1] -> $ip -> rest :: $matcher -> rt;" ;;
		full) router "m :: $matcher" ;;
	esac
}

# chain APP BATCHER: the same by elements of the device.
chain() {
	local lookup="GPUIPLookup($table, ANNO 44)"
	local sdn='GPUSDNClassifier(acl.rules, MISS 0, ANNO 40)'
	local matcher="GPUIDSMatcher(RULES words.rules, ANNO 24$state"
	local members end="rt :: Dispatcher(ANNO 44); $routed"
	case $1 in
		routes) members=$lookup ;;
		match) members="$matcher)" end='m :: Dispatcher(ANNO 24); m[0], m[1] -> Discard;' ;;
		sdn) members=$sdn end='rt :: Dispatcher(ANNO 40); '$routed ;;
		headers) members="$sdn -> $lookup" ;;
		dpi) members="$lookup -> $matcher)" ;;
		ids) members="$sdn -> $lookup -> $matcher)" ;;
		div) members="GPUSDNClassifier(halves.rules, MISS 0, ANNO 40) -> $lookup
			-> $matcher, CHK_ANNO 40=0) -> $matcher, CHK_ANNO 40=1)" ;;
		full) router "$(wide "$2" "GPUIPLookup(FOR rt) -> $matcher, LINK ip)")"
			return ;;
		*) return 1 ;;
	esac
	local check='CheckIPHeader(14, CHECKSUM false) ->'
	if [ "$1" = sdn ]; then check=; fi
	echo "$check $(wide "$2" "$members") -> $end"
}

# wide BATCHER MEMBERS: a chain around its members.
wide() {
	echo "b :: Batcher($1) -> HostToDeviceMemcpy -> $2
		-> DeviceToHostMemcpy -> GPUCompletionQueue -> Debatcher"
}

# router DETECTION: four ways out of a router, each with a neighbour that all packets go to; errors
# go where their routes lead. What leaves is pulled from a queue, as by a port.
router() {
	echo "HostEtherFilter(02:00:00:00:00:00)
		-> sort :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
		sort[0] -> ARPResponder(10.0.0.1 02:00:00:00:00:00)
			-> send :: Queue(4096) -> out :: Discard(BURST 256);
		sort[1], sort[3] -> Discard;
		sort[2] -> Paint(1) -> Strip(14) -> CheckIPHeader -> $1
			-> rt :: StaticIPLookup($table);"
	for ((way = 0; way < 4; way++)); do
		local address=10.$way.0.1 mac=02:00:00:00:0$way:00
		echo "rt[$way] -> DropBroadcasts -> o$way :: IPGWOptions($address)
			-> FixIPSrc($address)
			-> t$way :: DecIPTTL -> k$way :: PaintTee($((way + 2)))
			-> f$way :: IPFragmenter(1500) -> SetIPAddress(10.$way.0.2)
			-> arp$way :: ARPQuerier($address, $mac) -> send;
			o$way[1] -> ICMPError($address, parameterproblem) -> rt;
			t$way[1] -> ICMPError($address, timeexceeded) -> rt;
			k$way[1] -> ICMPError($address, redirect, host) -> rt;
			f$way[1] -> ICMPError($address, unreachable, needfrag) -> rt;
			Idle -> [1]arp$way;"
	done
}

# neighbours PATH: what a script writes so that a router of full knows its neighbours.
neighbours() {
	for ((way = 0; way < 4; way++)); do
		echo "write $1/arp$way.insert 10.$way.0.2 02:00:00:00:0$way:02,"
	done
}

# source BYTES: frames from memory, again and again, addressed to a router.
source_of() {
	echo "FromDump(in$1.pcap) -> StoreData(0, \<020000000000>)
		-> play :: ReplayUnqueue(BURST 256)"
}
