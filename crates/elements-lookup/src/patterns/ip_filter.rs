//! Classifies IP packets by addresses, protocols, ports, flags and other header bits.
//!
//! # Synopsis
//! `IPFilter(ACTION PATTERN, …)`, `IPClassifier(PATTERN, …)`
//!
//! # Ports
//! One input, any number of outputs; push. `IPClassifier` has one output per pattern.
//!
//! # Configuration
//! - `ACTION`: an output number, `allow` (output 0), or `drop` or `deny` (both drop the packet)
//! - `PATTERN`: an expression, or `-`, `any` or `all`
//!
//! The first pattern that matches a packet decides. Expressions are tests combined with `&&`
//! (`and`, or juxtaposition), `||` (`or`), `!` (`not`), `? :` (with spaces around the colon) and
//! parentheses.
//!
//! | test | matches |
//! | --- | --- |
//! | `ip proto P`, or just `P` | packets of protocol `P`, a number or a name such as `tcp`, `icmp` or `ospf` |
//! | `SIDE host A`, or just `A` | packets from or to the address; `ether host` for Ethernet addresses |
//! | `SIDE net A/B`, or just `A/B` | packets from or to the network; also `A mask M` |
//! | `SIDE [tcp\|udp] port N` | first fragments of TCP or UDP from or to the port, a name or number |
//! | `ip vers`, `hl`, `id`, `tos`, `dscp`, `ttl`, `len N` | packets with that value in the IP header |
//! | `ip ect`, `ip ce` | ECN-capable packets, packets marked with congestion experienced |
//! | `ip frag`, `ip unfrag` | fragments, unfragmented packets |
//! | `tcp opt F`, or just `F` | first fragments of TCP with the flag `syn ack fin rst psh urg` |
//! | `tcp win N` | first fragments of TCP with that window |
//! | `icmp type T` | first fragments of ICMP of the type, a name or number |
//! | `ip[POS:LEN] N`, `transp[…]`, `tcp[…]`, … | packets with that value at this offset in the header |
//! | `true`, `false` | all packets, none |
//!
//! `SIDE` is `src`, `dst`, `src or dst` (the default) or `src and dst`. A value may be preceded by
//! `& MASK` and by one of `== != < > <= >=`. `port != N` still matches only TCP and UDP, unlike
//! `!(port N)`. A test may omit qualifiers that the previous test specifies: `src port 80 or 81`. A
//! test of bytes beyond the end of the packet is false, also with `!=`.
//!
//! Port names are those of `PortInfo` elements and of common services, such as `http`; protocol
//! names those of common protocols, such as `ospf`. After `port` and `proto`, names of
//! `/etc/services` and `/etc/protocols` work as well; their meaning depends on the machine.
//!
//! Requires the network header annotation, as set by `CheckIPHeader` or `MarkIPHeader`. If more
//! than 16 patterns test only addresses, protocol, ports and flags, they are compiled into a
//! classifier, which looks up a batch at a time. The cost of all other patterns is linear in their
//! number.
//!
//! # Handlers
//! | name | | unit |
//! | --- | --- | --- |
//! | `program` | read | the decision program compiled from all patterns |
//! | `engine` | read | how patterns are looked up |
//! | `config` | read, write | the arguments |
//!
//! # Drops
//! - `filtered`: the action of the first matching pattern is to drop, or none matches
//!
//! # Threads
//! One instance per worker.
//!
//! # Example
//! ```text
//! FromDump(in.pcap) -> Strip(14) -> CheckIPHeader
//!     -> IPFilter(deny src 10.0.0.0/8, allow tcp && dst port 80 or 443, allow icmp type echo)
//!     -> Discard;
//! ```

use warpswitch_graph::language::args::{Args, ArgsError, FromArg, NoNames, split::unquote};
use warpswitch_graph::language::nearest;
use warpswitch_graph::{
    ConfigureContext, Context, Element, ElementClass, HandlerError, HandlerSpec, Sharing,
};
use warpswitch_packet::packet::Header;
use warpswitch_packet::{Batch, Packet};

use super::list::{List, Pattern};
use super::parse::{self, Problems};
use super::program::Way;
use super::words;
use crate::lack::{Lack, Lacking};
use warpswitch_elements_support::outputs;

/// The class `IPFilter`.
pub static CLASS: ElementClass =
    ElementClass::new("IPFilter", "1/-", "h/h", || Box::new(IpFilter::new(true)))
        .live()
        .drops(&["filtered"]);
/// The class `IPClassifier`.
pub static CLASSIFIER: ElementClass =
    ElementClass::new("IPClassifier", "1/-", "h/h", || Box::new(IpFilter::new(false)))
        .live()
        .drops(&["filtered"]);

/// See the module.
#[derive(Clone)]
pub struct IpFilter {
    /// Whether patterns begin with an action.
    has_actions: bool,
    list: List,
    outputs: Vec<u32>,
    /// Whether patterns mean the length of packets as on the wire.
    asks_for_length: bool,
    /// Of marked IP headers, if a pattern tests anything behind the Ethernet header.
    lack: Lack,
}

const UNMARKED: Lacking = Lacking {
    so: "no pattern about IP matches",
    what: "its header marked",
    remedy: "place CheckIPHeader before it; for Ethernet frames, Strip(14) -> CheckIPHeader",
};

impl IpFilter {
    fn new(has_actions: bool) -> Self {
        let (list, outputs) = (List::new(Vec::new()), Vec::new());
        Self { has_actions, list, outputs, asks_for_length: false, lack: Lack::default() }
    }

    /// Reads an action; wrong ones drop.
    fn action(word: &str, outputs: usize, problems: &mut Problems) -> Way {
        match word {
            "allow" if outputs == 0 => {
                let message = "'allow' is meaningless, element has zero outputs";
                problems.errors.push(message.to_owned());
            }
            "allow" => return Way::Output(0),
            "deny" if outputs > 1 => {
                let message = "meaning of 'deny' has changed (now it means 'drop')";
                problems.warnings.push(message.to_owned());
            }
            "deny" | "drop" => {}
            number => match i32::from_arg(number, &NoNames) {
                Ok(output) if usize::try_from(output).is_ok_and(|output| output < outputs) => {
                    return Way::Output(output as u32);
                }
                Ok(output) => {
                    let expected = outputs::expected(outputs);
                    problems.errors.push(format!("slot '{output}' out of range, {expected}"));
                }
                Err(_) => {
                    problems.errors.push(format!("unknown slot ID '{number}'"));
                    let near = nearest(number, ["allow", "deny", "drop"]);
                    problems.help.push(match near {
                        Some(near) => format!("unknown action '{number}': did you mean '{near}'?"),
                        None => ACTION_HELP.to_owned(),
                    });
                }
            },
        }
        Way::Drop
    }
}

/// What begins a pattern of `IPFilter`.
const ACTION_HELP: &str = "a pattern begins with an action: allow, deny, drop or an output number, \
    as in: allow tcp and dst port 80";
/// Examples of the tests in a pattern.
const EXPRESSION_HELP: &str = "tests are for example tcp, src host 10.0.0.1, dst net 10.0.0.0/8, \
    dst port 80 or http, icmp type echo, ttl < 2, with and, or, not and parentheses; \
    `warpswitch elements IPFilter` lists them";

/// Reads the patterns of `args`, and reports errors and warnings to `args`. With `has_actions`, the
/// first word of each pattern is its action.
fn patterns(
    args: &mut Args<'_>,
    context: &ConfigureContext<'_>,
    has_actions: bool,
) -> Vec<Pattern> {
    let mut patterns = Vec::new();
    for (idx, text) in args.rest().iter().enumerate() {
        let text = unquote(text);
        let words = words::split(&String::from_utf8_lossy(&text));
        let mut problems = Problems::default();
        let (way, words) = match words.split_first() {
            Some((word, rest)) if has_actions => {
                (IpFilter::action(word, context.outputs, &mut problems), rest)
            }
            None if has_actions => {
                args.error_of(idx, &format!("empty pattern {idx}"));
                args.help(ACTION_HELP);
                continue;
            }
            _ => (Way::Output(idx as u32), words.as_slice()),
        };
        let errors = problems.errors.len();
        let expr = parse::expression(words, context.names, &mut problems);
        if problems.errors.len() > errors {
            problems.help.push(EXPRESSION_HELP.to_owned());
        }
        problems.help.into_iter().for_each(|line| args.help(line));
        for message in problems.errors {
            args.error_of(idx, &format!("pattern {idx}: {message}"));
        }
        for message in problems.warnings {
            args.warn_at("", &format!("pattern {idx}: {message}"));
        }
        patterns.push(Pattern { expr, way });
    }
    patterns
}

impl Element for IpFilter {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        if !self.has_actions && args.len() != context.outputs {
            let message = format!("need {} arguments, one per output port", context.outputs);
            args.error_at("", &message);
            args.help(super::one_for_each(context.outputs));
        }
        let patterns = patterns(args, context, self.has_actions);
        args.complete()?;
        self.list = List::new(patterns);
        self.lack = Lack::of(self.list.asks_of_ip());
        self.asks_for_length = self.list.asks_for_ip_length();
        for warning in self.list.unused_outputs(context.outputs) {
            args.warn_at("", &warning);
        }
        Ok(())
    }

    fn push(&mut self, cx: &mut Context<'_>, _input: usize, batch: Batch) {
        if self.lack.is_open() {
            let is_marked = |packet: &Packet| packet.header_offset(Header::Network).is_some();
            self.lack.note(cx, batch.iter().any(is_marked), batch.len(), &UNMARKED);
        }
        self.list.run(&batch, &mut self.outputs);
        cx.emit_each(batch, &self.outputs);
    }

    fn accepts_gso(&self) -> bool {
        !self.asks_for_length
    }

    fn handlers(&self) -> &'static [HandlerSpec] {
        const { &[HandlerSpec::read("program").expensive().as_is(), HandlerSpec::read("engine")] }
    }

    fn read(
        &mut self,
        _cx: &mut Context<'_>,
        name: &str,
        _param: &str,
    ) -> Result<String, HandlerError> {
        Ok(if name == "program" { self.list.text() } else { self.list.engine() })
    }

    fn sharing(&self) -> Sharing {
        Sharing::copies(self.clone())
    }

    fn finish(&mut self, cx: &mut Context<'_>) -> Result<(), String> {
        self.lack.end(cx, &UNMARKED);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use warpswitch_graph::simulate::{router, run};

    fn program(config: &str) -> String {
        let (mut router, _) = run(config, &crate::registry());
        router.read("c.program").expect("it is there")
    }

    #[test]
    fn programs_are_short() {
        let check = |filter: &str, outputs: usize, expected: &str| {
            let outputs: Vec<String> =
                (0..outputs).map(|output| format!("c [{output}] -> Idle;")).collect();
            let config = format!("Idle -> c :: {filter}; {}", outputs.concat());
            assert_eq!(program(&config), expected, "{filter}");
        };
        check(
            "IPClassifier(dst port 22, udp dst port 53, icmp, -)",
            4,
            " 0 264/00060000%00ff0000  yes->step 2  no->step 1\n \
              1 264/00110000%00ff0000  yes->step 2  no->step 6\n \
              2 260/00000000%00001fff  yes->step 3  no->[3]\n \
              3 512/00000016%0000ffff  yes->[0]  no->step 4\n \
              4 264/00110000%00ff0000  yes->step 5  no->[3]\n \
              5 512/00000035%0000ffff  yes->[1]  no->[3]\n \
              6 264/00010000%00ff0000  yes->[2]  no->[3]\n\
              safe length 516\nalignment offset 0\n",
        );
        check(
            "IPFilter(0 tcp && src port >= 4096, 0 syn, drop src host != 10.0.0.1)",
            1,
            " 0 264/00060000%00ff0000  yes->step 1  no->[X]\n \
              1 260/00000000%00001fff  yes->step 2  no->[X]\n \
              2 512/00000000%f0000000  yes->step 3  no->[0]  short->yes\n \
              3 524/00000000%00020000  yes->[X]  no->[0]  short->yes\n\
              safe length 526\nalignment offset 0\n",
        );
    }

    #[test]
    fn edge_cases_have_programs_too() {
        let all = |to: &str| format!("all->[{to}]\nsafe length 0\nalignment offset 0\n");
        let check = |patterns: &str, expected: &str| {
            let config = format!("Idle -> c :: IPFilter({patterns}) -> Idle;");
            assert_eq!(program(&config), expected, "{patterns}");
        };
        check("allow false", &all("X"));
        check("", &all("X"));
        check("allow all", &all("0"));
        check("drop tcp, drop all", &all("X"));
        check("allow false, allow not false, allow tcp", &all("0"));
        check("allow udp && src 10.0.0.0/8, allow src 10.1.0.0/16 udp, allow any", &all("0"));
        check(
            "drop false, allow false, allow dst 10.0.0.1",
            " 0 272/0a000001%ffffffff  yes->[0]  no->[X]\n\
             safe length 276\nalignment offset 0\n",
        );
    }

    #[test]
    fn what_is_wrong_is_told_pattern_by_pattern() {
        let check = |filter: &str, expected: &[&str]| {
            let config = format!("Idle -> {filter} -> Idle;");
            let errors = router(&config, &crate::registry()).err().expect("it is wrong");
            let errors = errors.to_click();
            for part in expected {
                assert!(errors.contains(part), "{filter}: {errors}");
            }
        };
        check(
            "IPFilter(1 tcp, accept udp)",
            &[
                "pattern 0: slot '1' out of range, expected 0, the only output",
                "pattern 1: unknown slot ID 'accept'",
            ],
        );
        check(
            "IPFilter(0 tcp and, , deny host 5)",
            &[
                "pattern 0: missing expression",
                "empty pattern 1",
                "pattern 2: 'ip host': address missing",
            ],
        );
        check("IPClassifier(tcp, udp)", &["need 1 arguments, one per output port"]);
    }

    /// The commonest mistake of who begins: patterns about IP, and nobody has looked for it.
    #[test]
    fn packets_whose_headers_nobody_marked_are_told_of_once() {
        let frame =
            "\\<020000000002 020000000001 0800 45000014 00010000 40110000 0a000001 0a000002>";
        let said = |before: &str, patterns: &str, limit: usize| {
            let source = format!("InfiniteSource(DATA {frame}, LIMIT {limit}, STOP true)");
            let config = format!("{source} -> {before} f :: IPFilter({patterns}) -> Discard;");
            run(&config, &crate::registry()).1.said().matches("no pattern about IP").count()
        };
        assert_eq!(said("", "allow udp, deny all", 3000), 1);
        for limit in [20, 3, 1] {
            assert_eq!(said("", "allow udp, deny all", limit), 1, "at the end");
        }
        assert_eq!(said("", "allow udp, deny all", 0), 0, "there was none");
        assert_eq!(said("", "allow ether src 2:0:0:0:0:1, deny all", 20), 0, "nothing of IP");
        assert_eq!(said("Strip(14) -> CheckIPHeader(CHECKSUM false) ->", "allow udp", 3000), 0);
        assert_eq!(said("MarkIPHeader(14) ->", "allow tcp", 3000), 0);
        assert_eq!(said("", "allow all", 3000), 0, "nothing is asked");
    }

    #[test]
    fn names_of_ports_and_protocols_are_numbers() {
        let program = |info: &str, pattern: &str| {
            program(&format!("{info} Idle -> c :: IPFilter(allow {pattern}) -> Idle;"))
        };
        for (pattern, numbers) in [
            ("dst port http", "dst port 80"),
            ("tcp port ldap or bgp", "tcp port 389 or 179"),
            ("proto ospf", "proto 89"),
            ("esp or ip proto 4", "proto 50 or ip proto ipip"),
        ] {
            assert_eq!(program("", pattern), program("", numbers), "{pattern}");
        }
        let info = "PortInfo(web 8080/tcp, http 8081, dual 1/tcp, dual 2/udp);";
        for (pattern, numbers) in [
            ("tcp dst port web", "tcp dst port 8080"),
            ("port http", "port 8081"),
            ("udp port dual", "udp port 2"),
            ("tcp dual", "tcp port 1"),
        ] {
            assert_eq!(program(info, pattern), program("", numbers), "{pattern}");
        }
        let config = format!("{info} Idle -> IPFilter(allow port dual) -> Discard;");
        let errors = router(&config, &crate::registry()).err().expect("it has two meanings");
        let errors = errors.to_click();
        assert!(errors.contains("ambiguous; try 'port tcp dual', 'port udp dual'"), "{errors}");
        for (pattern, expected) in [
            ("port no-such", "unknown port 'no-such'"),
            ("proto no-such", "unknown protocol 'no-such'"),
        ] {
            let config = format!("Idle -> IPFilter(allow {pattern}) -> Discard;");
            let errors = router(&config, &crate::registry()).err().expect("no such name");
            assert!(errors.to_string().contains(expected), "{errors}");
        }
    }

    #[test]
    fn outputs_that_no_packet_reaches_are_warned_about() {
        let config = "Idle -> c :: IPClassifier(tcp, tcp port 80, -);
            c -> Idle; c [1] -> Idle; c [2] -> Idle;";
        let (_, transcript) = run(config, &crate::registry());
        assert!(transcript.said().contains("warning: output 1 matches no packets"));
    }
}
