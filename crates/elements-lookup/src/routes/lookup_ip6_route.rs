//! Routes IPv6 packets: longest-prefix match on the destination annotation.
//!
//! # Synopsis
//! `LookupIP6Route(ADDR1/MASK1 [GW1] OUT1, ADDR2/MASK2 [GW2] OUT2, ..., [FILE FILENAME, FORMAT,
//! DEVICES])`
//!
//! # Ports
//! One push input, any number of outputs. A packet is emitted on the output of its route. If the
//! route has a gateway, that becomes the destination annotation.
//!
//! # Configuration
//! - `ADDR/MASK`: prefix; the mask is a length or an address
//! - `GW`: gateway; `::`, `-` or absent for none
//! - `OUT`: output
//! - `FILE`, `FORMAT`, `DEVICES`: file with more routes, as in `StaticIPLookup`
//!
//! If a prefix is repeated, the last route wins; arguments override the file.
//!
//! # Handlers
//! | name | | unit |
//! | --- | --- | --- |
//! | `table` | read | routes, one per line: prefix, gateway, output |
//! | `lookup` | read, takes an address | output, and gateway if there is one; -1 if no route |
//! | `add`, `set` | write | `ADDR[/MASK] [GW] OUT` |
//! | `remove` | write | `ADDR[/MASK]` |
//! | `ctrl` | write | lines of `add`, `set` or `remove` and their argument; applied all or none |
//! | `engine` | read | memory layout of the routes, `blocks`, and lookup code in use |
//! | `bytes` | read | memory of the routes in bytes |
//! | `ahead` | read | packets that used a cached result, for example of `GPUIP6Lookup` |
//! | `ahead_missed` | read | packets not served from the cache, by reason: `NUMBER<tab>REASON` |
//!
//! # Drops
//! - `no route`: no prefix matches the destination
//!
//! # Threads
//! One instance per worker.
//!
//! # Example
//! ```text
//! rt :: LookupIP6Route(2001:db8::1/128 0, 2001:db8::/64 1, ::/0 2001:db8::fe 1);
//! ```

use std::net::Ipv6Addr;
use std::sync::Arc;

use warpswitch_graph::language::args::{Args, ArgsError};
use warpswitch_graph::{
    ConfigureContext, Context, Element, ElementClass, HandlerError, HandlerSpec, Sharing,
};
use warpswitch_packet::Batch;
use warpswitch_routes::{NextHop, Prefix, RouteChange};

use super::copies::own;
use super::file::RouteFile;
use super::ip6_table::{Hop, RouteTable, Written, key, parse_prefix};
use super::lookup::{PacketAddress, RouteLookup};
use crate::lack::{Lack, Lacking};
use warpswitch_elements_support::cached::{CachedLookup, CachedResults};
use warpswitch_elements_support::format::parse_seen;
use warpswitch_elements_support::outputs;

/// The class.
pub static CLASS: ElementClass =
    ElementClass::new("LookupIP6Route", "1/-", "h/h", || Box::new(LookupIp6Route::new()))
        .drops(&["no route"])
        .dear();

/// Reasons for drops, by number.
const NO_ROUTE: usize = 0;

/// A change that was read and can be made.
enum Change {
    Set(Written),
    Remove(Prefix<u128>),
}

/// See the module.
#[derive(Clone, Debug)]
pub struct LookupIp6Route {
    /// Copies have the same one; it changes while there are none.
    table: Arc<RouteTable>,
    /// Of the batch at work: destinations, and what was found.
    addresses: Vec<u128>,
    found: Vec<NextHop>,
    results: CachedResults<RouteChange<u128>>,
    /// Of destinations.
    lack: Lack,
}

const NO_DESTINATION: Lacking = Lacking {
    so: "the address :: is looked up",
    what: "a destination annotation",
    remedy: "place GetIP6Address(24) before it; for Ethernet frames, Strip(14) -> \
             CheckIP6Header -> GetIP6Address(24)",
};

impl LookupIp6Route {
    fn new() -> Self {
        let (addresses, found) = Default::default();
        let (table, results) = (Arc::new(RouteTable::new()), CachedResults::default());
        Self { table, addresses, found, results, lack: Lack::of(true) }
    }

    fn read_change(cx: &Context<'_>, command: &str, text: &str) -> Result<Change, HandlerError> {
        match command {
            "add" | "set" => {
                let route = Written::parse_bare(text, &cx.names())
                    .ok_or_else(|| HandlerError::failed("expected 'ADDR/MASK [GATEWAY] OUTPUT'"))?;
                if route.hop.port >= cx.outputs() {
                    let expected = outputs::expected(cx.outputs());
                    return Err(HandlerError::failed(format!(
                        "output port {} out of range, {expected}",
                        route.hop.port
                    )));
                }
                Ok(Change::Set(route))
            }
            "remove" => parse_prefix(text, &cx.names())
                .map(|prefix| Change::Remove(key(prefix)))
                .ok_or_else(|| HandlerError::failed("expected 'ADDR/MASK'")),
            _ => Err(HandlerError::failed("bad command, should be 'add', 'set' or 'remove'")),
        }
    }

    /// Makes the change; what the prefix had before.
    fn change(&mut self, change: &Change) -> Result<(Prefix<u128>, Option<Hop>), HandlerError> {
        let (prefix, made) = match *change {
            Change::Set(route) => (route.prefix, own(&mut self.table).set(route)),
            Change::Remove(prefix) => (prefix, own(&mut self.table).remove(prefix)),
        };
        self.results.publish(&[match self.table.number(prefix) {
            Some(hop) => RouteChange::Insert(prefix, hop),
            None => RouteChange::Remove(prefix),
        }]);
        made.map(|old| (prefix, old)).map_err(HandlerError::failed)
    }

    /// Makes all changes or none.
    fn change_all(&mut self, changes: &[Change]) -> Result<(), HandlerError> {
        let mut made = Vec::new();
        for change in changes {
            match self.change(change) {
                Ok(undo) => made.push(undo),
                Err(error) => {
                    for (prefix, old) in made.into_iter().rev() {
                        // What was there before had room.
                        let _ = match old {
                            Some(hop) => self.change(&Change::Set(Written { prefix, hop })),
                            None => self.change(&Change::Remove(prefix)),
                        };
                    }
                    return Err(error);
                }
            }
        }
        Ok(())
    }
}

impl Element for LookupIp6Route {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        let file = RouteFile::named(args);
        let texts = args.rest();
        let mut routes = Vec::with_capacity(texts.len());
        for (idx, text) in texts.iter().enumerate() {
            match Written::parse(text, context.names) {
                Some(route) => routes.push(route),
                None => {
                    let number = idx + 1;
                    let message = format!("argument {number} should be DADDR/MASK [GW] OUTPUT");
                    args.error_of(idx, &message);
                }
            }
        }
        if let Some(file) = &file {
            let direct = routes.clone();
            let output_of = |gateway: u128| {
                let leading = direct.iter().filter(|route| route.prefix.contains(gateway));
                let best = leading.max_by_key(|route| route.prefix.len());
                best.and_then(|route| u32::try_from(route.hop.port).ok())
            };
            // Of one prefix the last one counts: arguments come behind the file.
            let mut all: Vec<Written> = file
                .routes(args, output_of)
                .into_iter()
                .map(|(prefix, gateway, port)| {
                    let gateway = Ipv6Addr::from(gateway.unwrap_or(0));
                    Written { prefix, hop: Hop { gateway, port: port as usize } }
                })
                .collect();
            all.append(&mut routes);
            routes = all;
        }
        let outputs = routes.iter().map(|route| route.hop.port + 1).max();
        match outputs {
            None if texts.is_empty() && file.is_none() => args.warn_at("routes", "no routes"),
            Some(outputs) if outputs > context.outputs => {
                args.error_at(
                    "",
                    &format!("need {outputs} or more output ports, there are {}", context.outputs),
                );
            }
            _ => {}
        }
        if let Err(message) = own(&mut self.table).fill(&routes) {
            args.error_at("", &message);
        }
        args.complete()
    }

    fn push(&mut self, cx: &mut Context<'_>, _input: usize, mut batch: Batch) {
        self.addresses.clear();
        self.addresses.extend(batch.iter().map(|packet| u128::from_be_bytes(packet.dst_ipv6())));
        if self.lack.is_open() {
            let has = self.addresses.iter().any(|&address| address != 0);
            self.lack.note(cx, has, batch.len(), &NO_DESTINATION);
        }
        self.found.resize(self.addresses.len(), NextHop::NONE);
        let Self { table, addresses, found, results, .. } = self;
        let hop = |answer| NextHop(answer as u16);
        results.find(&batch, found, u128::is_key, hop, |found| table.lookup(addresses, found));
        for (mut packet, &found) in batch.drain().zip(&self.found) {
            match self.table.hop(found) {
                Some(Hop { gateway, port }) => {
                    if !gateway.is_unspecified() {
                        packet.set_dst_ipv6(gateway.octets());
                    }
                    cx.emit(port, packet);
                }
                None => cx.drop_packet(packet, NO_ROUTE),
            }
        }
        cx.pool().recycle_empty(batch);
    }

    fn accepts_gso(&self) -> bool {
        true
    }

    fn handlers(&self) -> &'static [HandlerSpec] {
        const {
            &[
                HandlerSpec::read("table").expensive(),
                HandlerSpec::read("lookup").with_param(),
                HandlerSpec::write("add"),
                HandlerSpec::write("set"),
                HandlerSpec::write("remove"),
                HandlerSpec::write("ctrl"),
                HandlerSpec::read("engine"),
                HandlerSpec::read("bytes"),
                HandlerSpec::read("ahead"),
                HandlerSpec::read("ahead_missed"),
            ]
        }
    }

    fn read(
        &mut self,
        cx: &mut Context<'_>,
        name: &str,
        param: &str,
    ) -> Result<String, HandlerError> {
        match name {
            "table" => return Ok(self.table.text()),
            "ahead" => return Ok(self.results.used().to_string()),
            "engine" => return Ok(self.table.engine().0),
            "bytes" => return Ok(self.table.engine().1.to_string()),
            "ahead_missed" => return Ok(self.results.unused().text()),
            _ => {}
        }
        let address: Ipv6Addr =
            parse_seen(cx, param).map_err(|_| HandlerError::failed("expected IP6 address"))?;
        Ok(match self.table.find(address) {
            Some(Hop { gateway, port }) if gateway.is_unspecified() => port.to_string(),
            Some(Hop { gateway, port }) => format!("{port} {gateway}"),
            None => "-1".to_owned(),
        })
    }

    fn write(
        &mut self,
        cx: &mut Context<'_>,
        name: &str,
        value: &str,
    ) -> Result<String, HandlerError> {
        if name != "ctrl" {
            let change = Self::read_change(cx, name, value)?;
            self.change(&change)?;
            return Ok(String::new());
        }
        let mut changes = Vec::new();
        for line in value.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let (command, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
            changes.push(Self::read_change(cx, command, rest)?);
        }
        self.change_all(&changes)?;
        Ok(String::new())
    }

    fn sharing(&self) -> Sharing {
        Sharing::copies(Self { results: self.results.of_copy(), ..self.clone() })
    }

    fn absorb(&mut self, copy: &mut dyn Element) {
        if let Some(copy) = copy.downcast_mut::<Self>() {
            self.results.absorb(&copy.results);
        }
    }

    fn finish(&mut self, cx: &mut Context<'_>) -> Result<(), String> {
        self.lack.end(cx, &NO_DESTINATION);
        Ok(())
    }
}

impl CachedLookup for LookupIp6Route {
    type Change = RouteChange<u128>;

    fn results(&mut self) -> &mut CachedResults<Self::Change> {
        &mut self.results
    }
}

impl RouteLookup for LookupIp6Route {
    type Address = u128;

    fn without_routes() -> Self {
        Self::new()
    }

    fn numbered(&self) -> impl Iterator<Item = (Prefix<u128>, NextHop)> + Clone {
        self.table.numbered()
    }

    fn look_up(&self, addresses: &[u128], found: &mut [NextHop]) {
        self.table.lookup(addresses, found);
    }

    fn way(&self, hop: NextHop) -> Option<(Option<u128>, u32)> {
        let Hop { gateway, port } = self.table.hop(hop)?;
        // Outputs are numbers of 16 bits.
        Some(((!gateway.is_unspecified()).then_some(gateway.into()), port as u32))
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{errors_with, run_with};

    /// Where packets to `destination` leave, and for whom.
    fn way(routes: &str, destination: &str) -> Option<(String, String)> {
        let config = format!(
            "InfiniteSource(LIMIT 3, BURST 3) -> SetIP6Address({destination})
             -> rt :: LookupIP6Route({routes}) -> Show(0); rt[1] -> Show(1); rt[2] -> Show(2);"
        );
        let (shown, ..) = run_with(&crate::registry(), &config);
        assert!(shown.is_empty() || shown.len() == 3, "all go the same way");
        shown.first().map(|shown| (shown.label.clone(), shown.dst6().to_string()))
    }

    #[test]
    fn the_longest_prefix_tells_the_way() {
        let routes = "2001:db8::/32 fe80::1 1, 2001:db8:0:1::/64 2, 2001:db8:0:1::5/128 ::0 0,
            ::/0 fe80::2 2";
        let check = |destination: &str, port: &str, dst: &str| {
            assert_eq!(way(routes, destination), Some((port.to_owned(), dst.to_owned())));
        };
        check("2001:db8:7::1", "1", "fe80::1");
        check("2001:db8:0:1::4", "2", "2001:db8:0:1::4");
        check("2001:db8:0:1::5", "0", "2001:db8:0:1::5");
        check("3000::1", "2", "fe80::2");
        assert_eq!(way("2001:db8::/32 1", "3000::1"), None);
    }

    #[test]
    fn tables_are_read_and_changed() {
        let config = "Idle -> rt :: LookupIP6Route(2001:db8::1/32 1, ::/0 fe80::1 0);
            rt[0] -> Discard; rt[1] -> Discard;";
        let (_, _, mut router) = run_with(&crate::registry(), config);
        let mut read = |handler: &str| router.read(handler).expect("it is there");
        assert_eq!(read("rt.table"), "# Active routes\n2001:db8::/32\t::\t1\n::/0\tfe80::1\t0\n");
        assert_eq!(
            (read("rt.lookup 2001:db8::7"), read("rt.lookup ::5")),
            ("1".into(), "0 fe80::1".into())
        );
        assert!(read("rt.engine").starts_with("blocks "), "{}", read("rt.engine"));
        assert!(read("rt.bytes").parse::<usize>().expect("a number") > 32);
        let mut write = |handler: &str, value: &str| {
            router.write(handler, value).map_err(|error| error.to_string())
        };
        assert_eq!(
            write("rt.add", "::/0 2"),
            Err("output port 2 out of range, expected 0 to 1".into())
        );
        assert!(write("rt.set", "nothing 1").is_err());
        assert!(write("rt.add", "2001:db8::9 fe80::9 0").is_ok());
        assert!(write("rt.remove", "2001:db8::/32").is_ok());
        assert!(write("rt.remove", "2001:db8::/32").is_ok(), "a route that is not there");
        // All or nothing.
        assert!(write("rt.ctrl", "remove ::/0\nadd 1::/16 0\nmove 1::/16").is_err());
        assert!(write("rt.ctrl", "remove ::/0\n\nadd 1::/16 0").is_ok());
        let table = router.read("rt.table").expect("it is there");
        assert_eq!(table, "# Active routes\n1::/16\t::\t0\n2001:db8::9/128\tfe80::9\t0\n");
        assert_eq!(router.read("rt.lookup ::5"), Ok("-1".into()));
        assert!(router.read("rt.lookup here").is_err());
    }

    #[test]
    fn what_is_no_route_is_told() {
        let errors = errors_with(
            &crate::registry(),
            "Idle -> rt :: LookupIP6Route(::/0 1, 2001:db8::1 0, ::/0 ::1 x) -> Discard;",
        );
        for line in [
            "argument 2 should be DADDR/MASK [GW] OUTPUT",
            "argument 3 should be DADDR/MASK [GW] OUTPUT",
            "need 2 or more output ports",
        ] {
            assert!(errors.contains(line), "{errors}");
        }
    }
}
