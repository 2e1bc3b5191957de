// All kinds of outputs against each other, and against rules.
Idle -> IDSMatcher(RULES some.rules, OUT x.json) -> ToDump(x.json) -> IPPrint(OUTFILE some.rules)
  -> ARPPrint(OUTFILE y) -> ToIPSummaryDump(y) -> Discard;
FromIPSummaryDump(z) -> ToIPSummaryDump(z);
