// A cache in front of a classifier: hits carry their result, which the classifier uses.
table :: SDNClassifier(RULES conf/sdn-cached.rules, ENGINE hypercuts);
web :: InfiniteSource(DATA \<020000000002 020000000001 0800 45000028 00000000 40060000 0a000001
                            c6336401 9c400050 00000000 00000000 50020000 00000000>,
                      LIMIT 20000, BURST 5, STOP true);
any :: InfiniteSource(DATA \<020000000002 020000000001 0800 45000028 00000000 40060000 0a000001
                            c6336401 9c42232a 00000000 00000000 50020000 00000000>,
                      LIMIT 20000, BURST 1);
web -> SetRandIPAddress(198.51.100.0/24) -> StoreIPAddress(30) -> in :: Counter;
any -> SetRandIPAddress(0.0.0.0/0) -> StoreIPAddress(30) -> in;
in -> cache :: RuleCache(table, CACHED_RULES 10) -> table;
table[0] -> port0 :: Counter -> Discard;
table[1] -> port1 :: Counter -> Discard;
DriverManager(wait_stop,
              print "$(in.count) frames: $(port0.count) left by port 0, $(port1.count) by port 1",
              print "cache: $(cache.hits) hits, $(table.ahead) used", stop);
