// Ten packets, of which three stand in a queue.
src :: InfiniteSource(LIMIT 10, BURST 4) -> t :: Tee -> c :: Counter -> Discard;
t[1] -> q :: Queue(3) -> Idle;
