// One that would write over its rules.
Idle -> IDSMatcher(RULES some.rules, OUT ./some.rules) -> Discard;
