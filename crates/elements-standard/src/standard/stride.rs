//! Pulls from inputs, or pushes to outputs, in proportion to their tickets: stride scheduling.
//!
//! # Synopsis
//! `StrideSched(TICKETS0, TICKETS1, …)`, `StrideSwitch(TICKETS0, TICKETS1, …)`
//!
//! # Ports
//! `StrideSched`: as many pull inputs as tickets, one pull output. `StrideSwitch`: one push input,
//! as many push outputs as tickets.
//!
//! # Configuration
//! - `TICKETS0` …: share of the port, at most 32768; a port with 0 tickets is never used
//!
//! # Handlers
//! | name | | unit |
//! | --- | --- | --- |
//! | `tickets0` … `tickets15` | read, write | tickets of the port |
//! | `config` | read | current tickets |
//!
//! # Drops
//! - `no tickets`: no output of a `StrideSwitch` has tickets
//!
//! # Threads
//! Runs on one worker.
//!
//! # Example
//! ```text
//! a :: Queue -> [0]s :: StrideSched(3, 1) -> Unqueue -> Discard; b :: Queue -> [1]s;
//! ```
//!
//! # Source
//! Waldspurger, Weihl, "Stride Scheduling: Deterministic Proportional-Share Resource Management",
//! 1995.

use warpswitch_graph::language::args::{Args, ArgsError, FromArg, NoNames};
use warpswitch_graph::{
    ConfigureContext, Context, Element, ElementClass, Fate, HandlerError, HandlerSpec,
};
use warpswitch_packet::Batch;

use super::sched::pull_into;
use warpswitch_elements_support::format;

/// The class `StrideSched`.
pub static SCHED: ElementClass =
    ElementClass::new("StrideSched", "1-/1", "l/l", || Box::new(Stride::new(true)));
/// The class `StrideSwitch`.
pub static SWITCH: ElementClass =
    ElementClass::new("StrideSwitch", "1/1-", "h/h", || Box::new(Stride::new(false)))
        .drops(&["no tickets"]);

/// The stride of a port with one ticket.
const STRIDE_OF_ONE: u64 = 1 << 16;
const TICKETS_MAX: i32 = 1 << 15;

/// Handlers, as many as there are ports; ports beyond have none.
const HANDLERS: [HandlerSpec; 17] = [
    HandlerSpec::read("config"),
    HandlerSpec::both("tickets0"),
    HandlerSpec::both("tickets1"),
    HandlerSpec::both("tickets2"),
    HandlerSpec::both("tickets3"),
    HandlerSpec::both("tickets4"),
    HandlerSpec::both("tickets5"),
    HandlerSpec::both("tickets6"),
    HandlerSpec::both("tickets7"),
    HandlerSpec::both("tickets8"),
    HandlerSpec::both("tickets9"),
    HandlerSpec::both("tickets10"),
    HandlerSpec::both("tickets11"),
    HandlerSpec::both("tickets12"),
    HandlerSpec::both("tickets13"),
    HandlerSpec::both("tickets14"),
    HandlerSpec::both("tickets15"),
];
static HANDLER_TABLE: [HandlerSpec; 17] = HANDLERS;

#[derive(Clone, Copy, Debug, Default)]
struct Client {
    tickets: u32,
    /// Where it stands: who is least far goes first.
    pass: u64,
}

impl Client {
    fn stride(&mut self) {
        self.pass += STRIDE_OF_ONE / u64::from(self.tickets.max(1));
    }
}

/// See the module.
#[derive(Debug)]
pub struct Stride {
    is_sched: bool,
    clients: Vec<Client>,
    /// Those with tickets, the one that is next first.
    order: Vec<usize>,
    /// Scratch space of `turn`: the clients that it has called.
    asked: Vec<usize>,
}

impl Stride {
    fn new(is_sched: bool) -> Self {
        Self { is_sched, clients: Vec::new(), order: Vec::new(), asked: Vec::new() }
    }

    /// Puts `client` into the order; before those that stand where it does.
    fn insert(&mut self, client: usize) {
        let pass = self.clients[client].pass;
        let at = self.order.partition_point(|&other| self.clients[other].pass < pass);
        self.order.insert(at, client);
    }

    /// Offers a turn to the clients in order until one takes it; each client that was offered one
    /// advances by its stride.
    fn turn(&mut self, mut ask: impl FnMut(usize) -> bool) -> bool {
        let mut taken = false;
        let mut asked = std::mem::take(&mut self.asked);
        for &client in &self.order {
            taken = ask(client);
            asked.push(client);
            self.clients[client].stride();
            if taken {
                break;
            }
        }
        self.order.drain(..asked.len());
        for client in asked.drain(..) {
            self.insert(client);
        }
        self.asked = asked;
        taken
    }

    fn set_tickets(&mut self, client: usize, tickets: u32) {
        let old = std::mem::replace(&mut self.clients[client].tickets, tickets);
        if tickets == 0 {
            self.order.retain(|&other| other != client);
        } else if old == 0 {
            let first = self.order.first().map(|&first| self.clients[first].pass);
            self.clients[client].pass = first.unwrap_or(0);
            if first.is_some() {
                self.clients[client].stride();
            }
            self.insert(client);
        }
    }
}

impl Element for Stride {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        let (ports, side) =
            if self.is_sched { (context.inputs, "input") } else { (context.outputs, "output") };
        let texts = args.rest();
        if texts.len() != ports {
            args.error_at("", &format!("need {ports} arguments, one per {side} port"));
        }
        for (at, text) in texts.iter().enumerate() {
            let mut client = Client::default();
            match i32::from_arg(text, &NoNames) {
                Err(_) => {
                    let message = format!("argument {at} should be number of tickets (integer)");
                    args.error_at("", &message);
                }
                Ok(tickets) if tickets < 0 => {
                    let message = format!("argument {at} (number of tickets) must be >= 0");
                    args.error_at("", &message);
                }
                Ok(tickets) => {
                    if tickets > TICKETS_MAX {
                        let message = format!("tickets reduced to {TICKETS_MAX}");
                        args.warn_at(&format!("{side} {at}"), &message);
                    }
                    client.tickets = tickets.min(TICKETS_MAX) as u32;
                }
            }
            client.stride();
            self.clients.push(client);
        }
        // From the last one on, so that the first one goes first where they stand alike.
        for client in (0..self.clients.len()).rev() {
            if self.clients[client].tickets > 0 {
                self.insert(client);
            }
        }
        args.consume()
    }

    fn pull(&mut self, cx: &mut Context<'_>, _output: usize, packets_max: usize) -> Batch {
        let mut batch = cx.pool().batch();
        while batch.len() < packets_max
            && self.turn(|client| pull_into(cx, client, 1, &mut batch) > 0)
        {}
        batch
    }

    fn push(&mut self, cx: &mut Context<'_>, _input: usize, mut batch: Batch) {
        cx.sort(&mut batch, |_, _| {
            let mut output = None;
            self.turn(|client| {
                output = Some(client);
                true
            });
            output.map_or(Fate::Drop(0), Fate::Emit)
        });
        cx.pool().recycle_empty(batch);
    }

    fn handlers(&self) -> &'static [HandlerSpec] {
        &HANDLER_TABLE[..(self.clients.len() + 1).min(HANDLER_TABLE.len())]
    }

    fn read(
        &mut self,
        _cx: &mut Context<'_>,
        name: &str,
        _param: &str,
    ) -> Result<String, HandlerError> {
        let tickets = self.clients.iter().map(|client| client.tickets.to_string());
        match name.strip_prefix("tickets").and_then(|port| port.parse::<usize>().ok()) {
            Some(port) => tickets.into_iter().nth(port).ok_or(HandlerError::Missing),
            None => Ok(tickets.collect::<Vec<_>>().join(", ")),
        }
    }

    fn write(
        &mut self,
        _cx: &mut Context<'_>,
        name: &str,
        value: &str,
    ) -> Result<String, HandlerError> {
        let port = name.strip_prefix("tickets").and_then(|port| port.parse::<usize>().ok());
        let port = port.filter(|&port| port < self.clients.len()).ok_or(HandlerError::Missing)?;
        let bad = |_| HandlerError::failed("tickets value must be integer");
        let tickets: i32 = format::parse(value).map_err(bad)?;
        if tickets < 0 {
            return Err(HandlerError::failed("number of tickets must be >= 0"));
        }
        self.set_tickets(port, tickets.min(TICKETS_MAX) as u32);
        Ok(String::new())
    }
}

#[cfg(test)]
mod tests {
    use warpswitch_graph::simulate::{router, run};

    #[test]
    fn packets_come_in_proportion_to_tickets_and_in_the_order_of_click() {
        for burst in [1, 4, 200] {
            let config = format!(
                "s :: StrideSched(4, 2, 1) -> Unqueue({burst}) -> Print(CONTENTS ASCII) -> Discard;
                 InfiniteSource(a, 10) -> [0]s; InfiniteSource(b, 10) -> [1]s;
                 InfiniteSource(c, 10) -> [2]s;"
            );
            let (_, transcript) = run(&config, &crate::registry());
            let order: String =
                transcript.said().lines().filter_map(|line| line.chars().last()).collect();
            assert_eq!(order, "aabaabcaabaabcaabbcbbcbbcccccc", "{burst}");
        }
    }

    #[test]
    fn a_switch_pushes_in_proportion() {
        let config = "i :: InfiniteSource(LIMIT 700, BURST 100) -> s :: StrideSwitch(4, 2, 1);
            s[0] -> a :: Counter -> Discard; s[1] -> b :: Counter -> Discard;
            s[2] -> c :: Counter -> Discard;";
        let (mut router, _) = run(config, &crate::registry());
        let counts = ["a", "b", "c"].map(|name| router.read(&format!("{name}.count")));
        assert_eq!(counts, ["400", "200", "100"].map(|count| Ok(count.to_owned())));
        for port in ["tickets0", "tickets1", "tickets2"] {
            router.write(&format!("s.{port}"), "0").expect("it obeys");
        }
        assert_eq!(router.read("s.config"), Ok("0, 0, 0".into()));
        router.write("i.reset", "").expect("it obeys");
        router.run(&mut warpswitch_graph::simulate::SimulatedHost::default());
        assert_eq!(router.read("s.drops_by_reason"), Ok("700\tno tickets\n".into()));
        router.write("s.tickets1", "7").expect("it obeys");
        router.write("i.reset", "").expect("it obeys");
        router.run(&mut warpswitch_graph::simulate::SimulatedHost::default());
        assert_eq!(router.read("b.count"), Ok("900".into()));
        assert!(router.write("s.tickets1", "-1").is_err() && router.read("s.tickets3").is_err());
    }

    #[test]
    fn tickets_must_be_as_many_as_ports() {
        for (arguments, message) in [
            ("1", "need 2 arguments, one per input port"),
            ("1, x", "argument 1 should be number of tickets (integer)"),
            ("-1, 2", "argument 0 (number of tickets) must be >= 0"),
        ] {
            let config = format!("Idle -> s :: StrideSched({arguments}) -> Discard; Idle -> [1]s");
            let errors = router(&config, &crate::registry()).err().expect("it is wrong");
            assert!(errors.to_click().contains(message), "{}", errors.to_click());
        }
    }
}
