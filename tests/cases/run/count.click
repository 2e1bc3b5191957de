// Counts packets, and leaves some standing in a queue.
define($N 10)
src :: InfiniteSource(LIMIT $N, BURST 4, STOP true) -> t :: Tee -> c :: Counter -> Discard;
t[1] -> q :: Queue(3) -> Idle;
