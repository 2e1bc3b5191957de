// What the check `graph_frames` sends packets through. Each frame enters at one of the `inN`.
Idle -> in0 :: Counter -> t :: Tee -> Strip(14) -> Unstrip(20) -> q :: Queue(50) -> Unqueue(7)
  -> Discard;
t[1] -> Counter -> Discard;
