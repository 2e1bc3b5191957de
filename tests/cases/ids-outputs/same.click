// Two matchers that would write over each other's alerts.
define($IN x, $RULES x);
FromDump($IN, STOP true) -> a :: IDSMatcher(RULES $RULES, OUT same.json)
  -> b :: IDSMatcher(RULES $RULES, OUT ./same.json) -> Discard;
