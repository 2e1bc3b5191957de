//! Answers ARP requests.
//!
//! # Synopsis
//! `ARPResponder(IP[/MASK] … ETH, IP2[/MASK2] … ETH2, …)`
//!
//! # Ports
//! One input, agnostic: frames. Output 0: replies. Output 1, optional, push: frames that are not
//! ARP requests, and requests for other addresses.
//!
//! # Configuration
//! - each argument: addresses or prefixes, and the Ethernet address to answer with, in any order.
//!   The longest matching prefix wins; if a prefix is repeated, the last one wins.
//!
//! # Handlers
//! | name | | unit |
//! | --- | --- | --- |
//! | `table` | read | lines of prefix and Ethernet address |
//! | `lookup` | read with an address | its Ethernet address, empty if none |
//! | `add` | write | as an argument |
//! | `remove` | write | `IP[/MASK]` |
//! | `config` | read, write | all arguments |
//!
//! # Drops
//! - `unanswered`: not answered, and output 1 is not connected
//!
//! # Threads
//! One instance per worker.
//!
//! # Example
//! Answers for its own address and for a network behind it.
//! ```text
//! c :: Classifier(12/0806 20/0001, -);
//! c[0] -> ARPResponder(10.0.0.1 10.1.0.0/16 0:0:5e:0:0:1) -> Queue -> ToDevice(eth0);
//! ```

use std::net::Ipv4Addr;

use warpswitch_graph::language::args::split::split_words;
use warpswitch_graph::language::args::{
    Args, ArgsError, BareIpv4Prefix, EtherAddress, FromArg, Ipv4Prefix, Names,
};
use warpswitch_graph::{
    ConfigureContext, Context, Element, ElementClass, Fate, HandlerError, HandlerSpec, Sharing,
};
use warpswitch_packet::{Batch, Packet};
use warpswitch_wire::arp::{ArpRepr, OPERATION_REPLY, OPERATION_REQUEST};
use warpswitch_wire::ethernet::MacAddr;

use super::{arp_of, reconfigure, set_arp, set_vlan_tci, vlan_tci, written_address};

/// The class.
pub static CLASS: ElementClass =
    ElementClass::new("ARPResponder", "1/1-2", "a/ah", || Box::<ArpResponder>::default())
        .drops(&["unanswered"]);

/// Reason for drops, by number.
const UNANSWERED: usize = 0;

#[derive(Clone, Copy, Debug, PartialEq)]
struct Entry {
    prefix: Ipv4Prefix,
    address: EtherAddress,
}

impl Entry {
    fn is_of(&self, prefix: Ipv4Prefix) -> bool {
        (self.prefix.network(), self.prefix.mask) == (prefix.network(), prefix.mask)
    }

    /// Whether all of `prefix` is in it.
    fn covers(&self, prefix: Ipv4Prefix) -> bool {
        self.prefix.contains(prefix.network())
    }
}

/// A prefix as it is printed: with the number of its bits if it is one, else with its mask.
fn show(prefix: Ipv4Prefix) -> String {
    match prefix.len() {
        Some(len) => format!("{}/{len}", prefix.network()),
        None => format!("{}/{}", prefix.network(), prefix.mask),
    }
}

/// The entries of one argument.
fn entries_of(arg: &str, names: &dyn Names) -> Result<Vec<Entry>, &'static str> {
    let words = split_words(arg);
    let (mut prefixes, mut address) = (Vec::new(), None);
    for word in &words {
        if let Ok(BareIpv4Prefix(prefix)) = BareIpv4Prefix::from_arg(word, names) {
            prefixes.push(prefix);
        } else if let Ok(ether) = EtherAddress::from_arg(word, names) {
            if address.replace(ether).is_some() {
                return Err("more than one ETH");
            }
        } else {
            return Err("expected IP/MASK ETH");
        }
    }
    // One name may stand for an IP address and an Ethernet address.
    let both = || words.iter().find_map(|word| EtherAddress::from_arg(word, names).ok());
    if prefixes.is_empty() {
        return Err("missing IP/MASK");
    }
    let address = address.or_else(both).ok_or("missing ETH")?;
    Ok(prefixes.into_iter().map(|prefix| Entry { prefix, address }).collect())
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct ArpResponder {
    /// None lies behind one that covers it.
    entries: Vec<Entry>,
    /// What was written to the handler `config`.
    config: Option<String>,
}

impl ArpResponder {
    /// Adds `entry`; returns whether it replaced one.
    fn add(entries: &mut Vec<Entry>, entry: Entry) -> bool {
        if let Some(same) = entries.iter_mut().find(|other| other.is_of(entry.prefix)) {
            *same = entry;
            return true;
        }
        let covers = |other: &Entry| other.covers(entry.prefix);
        let at = entries.iter().position(covers).unwrap_or(entries.len());
        entries.insert(at, entry);
        false
    }

    fn lookup(&self, address: Ipv4Addr) -> Option<EtherAddress> {
        let found = self.entries.iter().find(|entry| entry.prefix.contains(address));
        found.map(|entry| entry.address)
    }

    /// Makes a request its answer.
    fn answer(&self, packet: &mut Packet) -> Fate {
        let request = arp_of(packet.data()).filter(|arp| arp.operation == OPERATION_REQUEST);
        let answer = request.and_then(|arp| self.lookup(arp.target_ip).map(|mac| (arp, mac)));
        let Some((request, mac)) = answer else { return Fate::EmitOrDrop(1, UNANSWERED) };
        let reply = ArpRepr {
            operation: OPERATION_REPLY,
            sender_mac: MacAddr(mac.0),
            sender_ip: request.target_ip,
            target_mac: request.sender_mac,
            target_ip: request.sender_ip,
        };
        let (tci, trace) = (vlan_tci(packet), packet.trace());
        packet.reset();
        packet.set_trace(trace);
        set_arp(packet, request.sender_mac, &reply);
        set_vlan_tci(packet, tci);
        Fate::Pass
    }
}

impl Element for ArpResponder {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        let mut entries = Vec::new();
        for (idx, arg) in args.rest().iter().enumerate() {
            match entries_of(arg, context.names) {
                Err(message) => args.error_of(idx, &format!("argument {idx}: {message}")),
                Ok(added) => {
                    for entry in added {
                        if Self::add(&mut entries, entry) {
                            let prefix = show(entry.prefix);
                            args.warn_at("", &format!("multiple entries for {prefix}"));
                        }
                    }
                }
            }
        }
        args.complete()?;
        self.entries = entries;
        Ok(())
    }

    fn process(&mut self, cx: &mut Context<'_>, batch: &mut Batch) {
        cx.sort(batch, |_, packet| self.answer(packet));
    }

    fn handlers(&self) -> &'static [HandlerSpec] {
        static ALL: [HandlerSpec; 5] = [
            HandlerSpec::read("table").expensive(),
            HandlerSpec::read("lookup").with_param(),
            HandlerSpec::write("add"),
            HandlerSpec::write("remove"),
            HandlerSpec::both("config"),
        ];
        &ALL
    }

    fn read(
        &mut self,
        cx: &mut Context<'_>,
        name: &str,
        param: &str,
    ) -> Result<String, HandlerError> {
        match name {
            "table" => {
                let line = |entry: &Entry| format!("{} {}\n", show(entry.prefix), entry.address);
                Ok(self.entries.iter().map(line).collect())
            }
            "lookup" => {
                let address = written_address(cx, param)
                    .ok_or_else(|| HandlerError::failed("expected IP address"))?;
                Ok(self.lookup(address).map_or(String::new(), |address| address.to_string()))
            }
            _ => {
                let config = || cx.graph().elements[cx.element()].config.clone();
                Ok(self.config.clone().unwrap_or_else(config))
            }
        }
    }

    fn write(
        &mut self,
        cx: &mut Context<'_>,
        name: &str,
        value: &str,
    ) -> Result<String, HandlerError> {
        match name {
            "add" => {
                let entries = entries_of(value, &cx.names()).map_err(HandlerError::failed)?;
                for entry in entries {
                    Self::add(&mut self.entries, entry);
                }
            }
            "remove" => {
                let BareIpv4Prefix(prefix) = BareIpv4Prefix::from_arg(value.trim(), &cx.names())
                    .map_err(|_| HandlerError::failed("expected IP/MASK"))?;
                let at = self.entries.iter().position(|entry| entry.is_of(prefix));
                let missing = || HandlerError::failed(format!("{} not found", show(prefix)));
                self.entries.remove(at.ok_or_else(missing)?);
            }
            _ => {
                reconfigure(self, cx, value)?;
                self.config = Some(value.to_owned());
            }
        }
        Ok(String::new())
    }

    fn sharing(&self) -> Sharing {
        Sharing::copies(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use crate::ethernet::tests::frames;
    use warpswitch_graph::simulate::{router, run};

    #[test]
    fn requests_are_answered_and_the_rest_leaves() {
        let head = "ffffffffffff 020000000009 0806";
        let arp = |operation: u8, target: &str, extra: &str| {
            format!(
                "\\<{head} 0001 0800 06 04 00{operation:02x} 020000000009 0a000009
                 000000000000 {target}{extra}>"
            )
        };
        let sources = [
            arp(1, "0a000001", " 0000"),
            arp(1, "0a010203", ""),
            arp(1, "0a020304", ""),
            arp(2, "0a000001", ""),
            arp(1, "0a0000", ""),
        ];
        let mut config = "r :: ARPResponder(10.0.0.1 02:00:00:00:00:01,
            10.1.0.0/16 02:00:00:00:00:02) -> Tap -> Discard; r[1] -> c :: Counter -> Discard;"
            .to_owned();
        for source in sources {
            config += &format!("InfiniteSource(DATA {source}, LIMIT 1) -> r;");
        }
        let tail = "0001080006040002";
        assert_eq!(
            frames(&config),
            [
                format!(
                    "020000000009 020000000001 0806 {tail}0200000000010a0000010200000000090a000009"
                ),
                format!(
                    "020000000009 020000000002 0806 {tail}0200000000020a0102030200000000090a000009"
                ),
            ]
        );
        let config = config.replace("-> Tap ", "");
        let (mut router, _) = run(&config, &crate::registry());
        assert_eq!(router.read("c.count"), Ok("3".into()));
    }

    #[test]
    fn the_table_can_be_asked_and_changed() {
        let config = "Idle -> r :: ARPResponder(1.0.0.0/24 0:1:2:3:4:6, 1.0.0.2 0:1:2:3:4:5)
            -> Discard;";
        let (mut router, transcript) = run(config, &crate::registry());
        let table = "1.0.0.2/32 00-01-02-03-04-05\n1.0.0.0/24 00-01-02-03-04-06\n";
        assert_eq!(router.read("r.table"), Ok(table.into()));
        assert_eq!(router.read("r.lookup 1.0.0.2"), Ok("00-01-02-03-04-05".into()));
        assert_eq!(router.read("r.lookup 1.0.0.9"), Ok("00-01-02-03-04-06".into()));
        assert_eq!(router.read("r.lookup 1.0.1.9"), Ok(String::new()));
        router.write("r.remove", "1.0.0.2").expect("it obeys");
        assert_eq!(router.read("r.lookup 1.0.0.2"), Ok("00-01-02-03-04-06".into()));
        let error = router.write("r.remove", "1.0.0.2").unwrap_err();
        assert_eq!(error.to_string(), "1.0.0.2/32 not found");
        router.write("r.add", "0:0:0:0:0:7 1.0.0.0/24 2.0.0.0/255.0.255.0").expect("it obeys");
        let table = "1.0.0.0/24 00-00-00-00-00-07\n2.0.0.0/255.0.255.0 00-00-00-00-00-07\n";
        assert_eq!(router.read("r.table"), Ok(table.into()));
        router.write("r.config", "1.0.0.2 0:1:2:3:4:5, 1.0.0.2 0:1:2:3:4:6").expect("it obeys");
        assert_eq!(router.read("r.table"), Ok("1.0.0.2/32 00-01-02-03-04-06\n".into()));
        assert!(transcript.said().ends_with("  warning: multiple entries for 1.0.0.2/32\n"));
        assert!(router.write("r.config", "nobody").is_err());
        assert_eq!(router.read("r.lookup 1.0.0.2"), Ok("00-01-02-03-04-06".into()));
    }

    #[test]
    fn wrong_arguments_are_told_by_their_number() {
        let config = "Idle -> ARPResponder(1.0.0.1 x, 1:1:1:1:1:1, 1.0.0.1,
            1.0.0.1 1:1:1:1:1:1 1:1:1:1:1:2) -> Discard;";
        let errors = router(config, &crate::registry()).err().expect("it is wrong").to_click();
        for error in [
            "argument 0: expected IP/MASK ETH",
            "argument 1: missing IP/MASK",
            "argument 2: missing ETH",
            "argument 3: more than one ETH",
        ] {
            assert!(errors.contains(error), "{errors}");
        }
    }
}
