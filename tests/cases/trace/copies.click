// Of five packets each is copied twice: one copy waits, one is delayed in a queue of three.
src :: InfiniteSource(LIMIT 5) -> t :: Tee(3);
t[0] -> keep :: Queue -> Idle;
t[1] -> q :: SimpleQueue(3) -> slow :: DelayUnqueue(1s) -> c :: Counter -> Discard;
t[2] -> CheckIPHeader -> Discard;
never :: Counter; Idle -> never -> Discard;
