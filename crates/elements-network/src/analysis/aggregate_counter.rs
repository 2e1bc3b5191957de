//! Counts packets or bytes by aggregate annotation.
//!
//! # Synopsis
//! `AggregateCounter(BYTES, IP_BYTES, MULTIPACKET, EXTRA_LENGTH, AGGREGATE_STOP, COUNT_STOP,
//! AGGREGATE_FREEZE, COUNT_FREEZE, AGGREGATE_CALL, COUNT_CALL, BANNER)`
//!
//! # Ports
//! One or two inputs, one or two outputs; push or pull. Packets on input 1 are counted only in
//! existing groups. Packets that are not counted are emitted on output 1 if it is connected, which
//! requires push.
//!
//! # Configuration
//! - `BYTES`: count bytes instead of packets; default: false
//! - `IP_BYTES`: count bytes from the network header on instead of packets; default: false
//! - `MULTIPACKET`: add the extra-packets annotation to the packet count; default: true
//! - `EXTRA_LENGTH`: add the extra-length annotation, which counts truncated bytes, to the byte
//!   count; default: true
//! - `AGGREGATE_STOP`, `COUNT_STOP`: stop the run at this number of groups, or this count
//! - `AGGREGATE_FREEZE`, `COUNT_FREEZE`: create no more groups from this number of groups, or this
//!   count
//! - `AGGREGATE_CALL`, `COUNT_CALL`: `N HANDLER [VALUE]`; call a write handler once at `N` groups,
//!   or at count `N`
//! - `BANNER`: line in the header of written files
//!
//! The aggregate annotation of a packet is its group.
//!
//! # Handlers
//! | name | | unit |
//! | --- | --- | --- |
//! | `write_text_file` | write | a file name: writes lines of group and count, sorted by group |
//! | `write_ip_file` | write | the same with groups as IPv4 addresses |
//! | `write_file` | write | the same as records of two 32-bit little-endian numbers |
//! | `count` | read | total packets or bytes |
//! | `nagg` | read | groups |
//! | `active` | read, write | whether packets are counted |
//! | `frozen`, `freeze` | read, write | whether no groups are created |
//! | `clear` | write | removes all groups |
//! | `reaggregate_counts` | write | makes each count a group that counts the groups with it |
//! | `stop` | write | stops counting, and the run |
//!
//! # Drops
//! None.
//!
//! # Threads
//! Runs on one worker. Freezes at 2^24 groups.
//!
//! # Example
//! ```text
//! FromDump(in.pcap) -> CheckIPHeader(14) -> AggregateIPFlows -> a :: AggregateCounter -> Discard;
//! DriverManager(pause, write a.write_text_file flows.txt);
//! ```

use std::collections::HashMap;
use std::fmt::Write;
use std::net::Ipv4Addr;

use warpswitch_graph::language::args::{Args, ArgsError, Raw};
use warpswitch_graph::{
    ConfigureContext, Context, Element, ElementClass, HandlerError, HandlerSpec,
};
use warpswitch_packet::{Batch, Header, Packet, annotation};

use warpswitch_elements_support::annotation as own_annotation;
use warpswitch_elements_support::calls::{Due, wrong_call};
use warpswitch_elements_support::files::{Output, reason};
use warpswitch_elements_support::format;

/// The class.
pub static CLASS: ElementClass =
    ElementClass::new("AggregateCounter", "1-2/1-2", "a/ah", || Box::<AggregateCounter>::default());

/// The most groups.
const GROUPS_MAX: usize = 1 << 24;

/// How a file has its groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Text,
    Addresses,
    Binary,
}

/// What happens at so many groups, or counts.
#[derive(Debug, Default)]
struct Limits {
    stop: Option<u64>,
    freeze: Option<u64>,
    call: Option<Due>,
}

impl Limits {
    fn is_any(&self) -> bool {
        self.stop.is_some() || self.freeze.is_some() || self.call.is_some()
    }
}

/// See the module.
#[derive(Debug, Default)]
pub struct AggregateCounter {
    counts_bytes: bool,
    counts_ip_bytes: bool,
    is_single: bool,
    is_short: bool,
    /// Of groups and of counts.
    limits: [Limits; 2],
    banner: String,
    groups: HashMap<u32, u32>,
    count: u64,
    is_off: bool,
    is_frozen: bool,
    /// Whether there is something to be done at some count.
    has_limits: bool,
}

impl AggregateCounter {
    /// What a packet counts for.
    fn amount(&self, packet: &Packet) -> u32 {
        if !self.counts_bytes {
            let extra = packet.anno_u32(own_annotation::EXTRA_PACKETS);
            return if self.is_single { 1 } else { extra.saturating_add(1) };
        }
        let extra = if self.is_short { 0 } else { packet.anno_u32(annotation::EXTRA_LEN) };
        let link_bytes = match self.counts_ip_bytes {
            true => packet.header_offset(Header::Network).unwrap_or(0),
            false => 0,
        };
        (packet.len().saturating_sub(link_bytes) as u32).saturating_add(extra)
    }

    /// Counts a packet; returns whether it was counted.
    fn see(&mut self, packet: &Packet, is_frozen: bool) -> bool {
        if self.is_off {
            return false;
        }
        let group = packet.anno_u32(own_annotation::AGGREGATE);
        let is_closed = is_frozen || self.is_frozen || self.groups.len() >= GROUPS_MAX;
        if is_closed && !self.groups.contains_key(&group) {
            return false;
        }
        let amount = self.amount(packet);
        let count = self.groups.entry(group).or_insert(0);
        *count = count.saturating_add(amount);
        self.count += u64::from(amount);
        true
    }

    /// Does what is to be done at so many groups and counts.
    fn act(&mut self, cx: &mut Context<'_>) {
        for limit in 0..2 {
            let reached = [self.groups.len() as u64, self.count][limit];
            let Limits { stop, freeze, call } = &mut self.limits[limit];
            if freeze.is_some_and(|at| reached >= at) {
                self.is_frozen = true;
            }
            let stops = stop.take_if(|at| reached >= *at).is_some();
            let due = call.take_if(|due| reached >= due.at);
            if stops {
                self.is_off = true;
                cx.stop_driver();
            }
            if let Some(due) = due {
                cx.lend(self, |cx| cx.call_handler(&due.call));
            }
        }
    }

    /// What a file holds.
    fn text(&self, form: Form) -> Vec<u8> {
        let mut groups: Vec<(u32, u32)> = self.groups.iter().map(|(&a, &b)| (a, b)).collect();
        groups.sort_unstable();
        let mut text = String::from("!IPAggregate 1.0\n");
        if !self.banner.is_empty() {
            self.banner.lines().for_each(|line| text.extend(["!", line, "\n"]));
        }
        let _ = writeln!(text, "!num_nonzero {}", groups.len());
        match form {
            Form::Text => groups.iter().for_each(|(group, count)| {
                let _ = writeln!(text, "{group} {count}");
            }),
            Form::Addresses => groups.iter().for_each(|&(group, count)| {
                let _ = writeln!(text, "{} {count}", Ipv4Addr::from(group));
            }),
            Form::Binary => text.push_str("!packed_le\n"),
        }
        let mut bytes = text.into_bytes();
        if form == Form::Binary {
            let records = groups.iter().flat_map(|&(group, count)| [group, count]);
            bytes.extend(records.flat_map(u32::to_le_bytes));
        }
        bytes
    }

    fn write_file(&self, cx: &mut Context<'_>, name: &str, form: Form) -> Result<(), HandlerError> {
        let name = format::parse::<String>(name)?;
        let mut write = || {
            let mut output = Output::create(&name)?;
            output.write(cx, &self.text(form))?;
            output.flush()
        };
        write().map_err(|error| HandlerError::failed(format!("{name}: {}", reason(&error))))
    }
}

impl Element for AggregateCounter {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        _context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        let (mut is_multi, mut is_long) = (true, true);
        args.read("BYTES", &mut self.counts_bytes)
            .read("IP_BYTES", &mut self.counts_ip_bytes)
            .read("MULTIPACKET", &mut is_multi)
            .read("EXTRA_LENGTH", &mut is_long)
            .read("BANNER", &mut self.banner);
        (self.is_single, self.is_short) = (!is_multi, !is_long);
        self.counts_bytes |= self.counts_ip_bytes;
        let keywords = [
            ["AGGREGATE_STOP", "AGGREGATE_FREEZE", "AGGREGATE_CALL"],
            ["COUNT_STOP", "COUNT_FREEZE", "COUNT_CALL"],
        ];
        for ([stop, freeze, call], limits) in keywords.into_iter().zip(&mut self.limits) {
            let mut text = Raw::default();
            args.read(stop, &mut limits.stop)
                .read(freeze, &mut limits.freeze)
                .read(call, &mut text);
            match Due::parse(&text.0) {
                Ok(due) => limits.call = due,
                Err(message) => args.error_at(call, &message),
            }
        }
        self.has_limits = self.limits.iter().any(Limits::is_any);
        args.complete()
    }

    fn wrong_calls(&self, cx: &mut Context<'_>) -> Vec<String> {
        let calls = ["AGGREGATE_CALL", "COUNT_CALL"].into_iter().zip(&self.limits);
        let wrong = |(keyword, limits): (&str, &Limits)| {
            wrong_call(cx, keyword, &limits.call.as_ref()?.call, self.handlers())
        };
        calls.filter_map(wrong).collect()
    }

    fn process(&mut self, cx: &mut Context<'_>, batch: &mut Batch) {
        for packet in batch.iter() {
            self.see(packet, false);
            if self.has_limits {
                self.act(cx);
            }
        }
    }

    fn push(&mut self, cx: &mut Context<'_>, input: usize, mut batch: Batch) {
        let output = |counted: bool| usize::from(!counted && cx.has_output(1));
        let outputs = [output(false), output(true)];
        for packet in batch.drain() {
            let counted = self.see(&packet, input == 1);
            cx.emit(outputs[usize::from(counted)], packet);
            if self.has_limits {
                self.act(cx);
            }
        }
        cx.pool().recycle_empty(batch);
    }

    fn handlers(&self) -> &'static [HandlerSpec] {
        const {
            &[
                HandlerSpec::write("write_text_file"),
                HandlerSpec::write("write_ip_file"),
                HandlerSpec::write("write_file"),
                HandlerSpec::read("count"),
                HandlerSpec::read("nagg"),
                HandlerSpec::both("active"),
                HandlerSpec::both("frozen"),
                HandlerSpec::both("freeze"),
                HandlerSpec::button("clear"),
                HandlerSpec::button("reaggregate_counts"),
                HandlerSpec::button("stop"),
            ]
        }
    }

    fn read(
        &mut self,
        _cx: &mut Context<'_>,
        name: &str,
        _param: &str,
    ) -> Result<String, HandlerError> {
        Ok(match name {
            "count" => self.count.to_string(),
            "nagg" => self.groups.len().to_string(),
            "active" => (!self.is_off).to_string(),
            "frozen" | "freeze" => self.is_frozen.to_string(),
            _ => return Err(HandlerError::Missing),
        })
    }

    fn write(
        &mut self,
        cx: &mut Context<'_>,
        name: &str,
        value: &str,
    ) -> Result<String, HandlerError> {
        match name {
            "write_text_file" => self.write_file(cx, value, Form::Text)?,
            "write_ip_file" => self.write_file(cx, value, Form::Addresses)?,
            "write_file" => self.write_file(cx, value, Form::Binary)?,
            "active" => self.is_off = !format::parse::<bool>(value)?,
            "frozen" | "freeze" => self.is_frozen = format::parse(value)?,
            "clear" => (self.groups, self.count) = (HashMap::new(), 0),
            "reaggregate_counts" => {
                let mut groups = HashMap::new();
                self.groups.values().for_each(|&count| *groups.entry(count).or_insert(0) += 1);
                self.count = self.groups.len() as u64;
                self.groups = groups;
            }
            "stop" => {
                self.is_off = true;
                cx.stop_driver();
            }
            _ => return Err(HandlerError::Missing),
        }
        Ok(String::new())
    }

    fn take_state(&mut self, _cx: &mut Context<'_>, old: &mut dyn Element) {
        if let Some(old) = old.downcast_mut::<Self>() {
            (self.groups, self.count) = (std::mem::take(&mut old.groups), old.count);
            self.is_frozen = old.is_frozen;
        }
    }
}

#[cfg(test)]
mod tests {
    use warpswitch_graph::Router;
    use warpswitch_graph::simulate::{Transcript, router, run};

    /// Counts packets of groups 7, 7, 300, 5 and 7, of which the last stands for three.
    fn counted(arguments: &str) -> (Router, Transcript) {
        let config = format!(
            "FromIPSummaryDump(DATA \"!data aggregate count ip_len\n7 1 40\n7 1 60\n300 1 40
5 1 40\n7 3 50\", STOP true) -> c :: AggregateCounter({arguments}) -> Discard;"
        );
        run(&config, &crate::registry())
    }

    fn text(arguments: &str, handlers: &[(&str, &str)]) -> String {
        let (mut router, transcript) = counted(arguments);
        for (name, value) in handlers {
            router.write(&format!("c.{name}"), value).expect("it obeys");
        }
        let lines = String::from_utf8(transcript.printed()).expect("text");
        lines.lines().filter(|line| !line.starts_with('!')).collect::<Vec<_>>().join(";")
    }

    #[test]
    fn groups_are_counted_and_written_in_order() {
        let all = &[("write_text_file", "-")][..];
        assert_eq!(text("", all), "5 1;7 5;300 1");
        assert_eq!(text("MULTIPACKET false", all), "5 1;7 3;300 1");
        assert_eq!(text("", &[("write_ip_file", "-")]), "0.0.0.5 1;0.0.0.7 5;0.0.1.44 1");
        assert_eq!(text("", &[("reaggregate_counts", ""), all[0]]), "1 2;5 1");
        assert_eq!(text("", &[("clear", ""), all[0]]), "");
        let bytes = text("IP_BYTES true", all);
        assert!(bytes.starts_with("5 40;7 ") && bytes.ends_with(";300 40"), "{bytes}");
    }

    #[test]
    fn there_is_an_end_to_groups_and_counts() {
        let all = &[("write_text_file", "-")][..];
        assert_eq!(text("AGGREGATE_FREEZE 1, BANNER x", all), "7 5");
        assert_eq!(text("COUNT_FREEZE 2", all), "7 5");
        let (mut router, _) = counted("AGGREGATE_FREEZE 1");
        assert_eq!(router.read("c.frozen"), Ok("true".into()));
        let (mut router, _) = counted("AGGREGATE_CALL 2 c.clear");
        let mut read = |name| router.read(name).expect("it is there");
        assert_eq!((read("c.nagg"), read("c.count")), ("2".into(), "4".into()));
        let (mut router, _) = counted("COUNT_STOP 3");
        assert_eq!(router.read("c.active"), Ok("false".into()));
        assert_eq!(router.read("c.count"), Ok("3".into()));
    }

    #[test]
    fn frozen_ones_have_no_new_groups() {
        let config = "FromIPSummaryDump(DATA \"!data aggregate\n1\n2\n1\", STOP true)
            -> s :: Switch(1); c :: AggregateCounter; s[0] -> [0]c; s[1] -> [1]c;
            c[0] -> Discard; c[1] -> d :: Counter -> Discard;";
        let (mut router, _) = run(config, &crate::registry());
        assert_eq!(router.read("c.count"), Ok("0".into()));
        assert_eq!(router.read("d.count"), Ok("3".into()));
    }

    #[test]
    fn what_is_no_call_is_told() {
        let config = "Idle -> AggregateCounter(COUNT_CALL x) -> Discard";
        assert!(router(config, &crate::registry()).is_err());
    }
}
