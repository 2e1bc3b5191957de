elementclass Pair { $n | input -> Strip($n) -> output; input[1] -> Counter -> [1]output }
elementclass Pair { input -> output; ... || $a, BYTES $b, __REST__ $c | input -> Strip($a) -> output }
define($X 4); s :: InfiniteSource(DATA "\\<00 01>", LIMIT ${X-3});
s => ( [0] -> [0]; ) -> p :: Pair($X)[0,1] => Discard, Discard;
# 7 "other"
Idle -> [1]p; /* a comment */ x, y :: Counter; x -> y -> Discard; Idle -> x
