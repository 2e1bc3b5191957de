// Two sources and a queue, each with a worker of its own.
a :: InfiniteSource(LIMIT 1000, BURST 8) -> ac :: Counter -> q :: Queue(5000);
b :: InfiniteSource(LIMIT 1000, BURST 8) -> Strip(4) -> q;
q -> u :: Unqueue -> Discard;
StaticThreadSched(a 0, b 1, u 2);
