//! Which rules one packet decides.
//!
//! | rule option | without state |
//! | --- | --- |
//! | `flow:established`, `to_server`, `to_client`, `stateless`, `no_stream`, `no_frag` | ignored: addresses and ports of the header decide |
//! | `flowbits` `set`, `unset`, `toggle` of a rule that alerts | ignored |
//! | `flow:not_established`, `only_stream`, `only_frag`; `tcp-stream` | left out |
//! | `flowbits` `isset`, `isnotset` | left out |
//! | `threshold`, `detection_filter` | left out |
//! | `noalert`, `flowbits:noalert` | left out: without bits it has no effect |
//! | buffers of HTTP | left out: they need the stream |

use crate::flowbits::FlowBits;
use crate::rule::{Check, FlowTest, LeftOut, Only, Rule, Rules};
use crate::threshold::Kind;

impl Rules {
    /// The rules that one packet decides, without the options that need state; the module's table
    /// has the choices. Adds the others to `left_out`, with `OPTION needs state` as keywords.
    pub fn without_state(mut self) -> Self {
        for mut rule in std::mem::take(&mut self.rules) {
            let keywords = needs_state(&rule);
            if keywords.is_empty() {
                rule.flow = FlowTest::default();
                rule.bits = FlowBits::default();
                rule.checks.retain(|check| *check != Check::Rebuilt(false));
                self.rules.push(rule);
            } else {
                let (file, line, sid) = (rule.about.file, rule.about.line, rule.about.sid);
                self.left_out.push(LeftOut { file, line, sid, keywords });
            }
        }
        self.left_out.sort_by_key(|rule| (rule.file, rule.line));
        self.bit_names.clear();
        self
    }
}

/// The options of a rule that need state.
fn needs_state(rule: &Rule) -> Vec<String> {
    let threshold = match rule.threshold.map(|threshold| threshold.kind) {
        Some(Kind::Filter) => Some("detection_filter"),
        Some(Kind::Limit | Kind::Threshold | Kind::Both) => Some("threshold"),
        None => None,
    };
    let options = [
        (rule.flow.established == Some(false)).then_some("flow:not_established"),
        (rule.flow.only == Some(Only::Streams)).then_some("only_stream"),
        rule.checks.contains(&Check::Rebuilt(true)).then_some("only_frag"),
        (!rule.bits.tests.is_empty()).then_some("flowbits"),
        rule.no_alert.then_some("noalert"),
        threshold,
        (!rule.buffers.is_empty()).then_some("a buffer of HTTP"),
    ];
    options.into_iter().flatten().map(|option| format!("{option} needs state")).collect()
}
