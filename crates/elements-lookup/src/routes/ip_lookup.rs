//! Looks up destinations in a route table.
//!
//! # Synopsis
//! `StaticIPLookup(ADDR/MASK [GATEWAY] OUTPUT, ..., [FILE FILENAME, FORMAT, DEVICES])`, and with
//! the same arguments `LinearIPLookup`,
//! `SortedIPLookup`, `RadixIPLookup`, `DirectIPLookup`, `RangeIPLookup`
//!
//! All classes share one implementation, which looks up whole batches. They differ in one handler:
//! only `DirectIPLookup`, `RadixIPLookup` and `RangeIPLookup` have `flush`.
//!
//! # Ports
//! One input, any number of outputs; push. The route with the longest prefix that matches the
//! destination annotation selects the output. The gateway of the route, if any, replaces the
//! annotation.
//!
//! # Configuration
//! Each argument is a route: a prefix or address, an optional gateway (`-` for none), and the
//! output. Of several routes for one prefix, the first is used.
//! - `FILE`: file of further routes, plain or gzip-compressed, added after the arguments
//! - `FORMAT`: format of the file: `click` (default; as the arguments), `ip-route` (output of
//!   `ip route`) or `list` (a prefix, and a gateway or an output)
//! - `DEVICES`: interface names. Routes through the first one use output 0, and so on. `blackhole`,
//!   `unreachable` and `prohibit` select the output of routes of that type
//!
//! A route of the file with neither an output nor a listed interface uses the output of the
//! argument that matches its gateway.
//!
//! # Handlers
//! | name | | unit |
//! | --- | --- | --- |
//! | `table` | read | routes, one per line |
//! | `lookup` | read | takes an address: its output and gateway, or -1 |
//! | `add` | write | adds a route; fails if the prefix already has one |
//! | `set` | write | adds or replaces a route |
//! | `remove` | write | removes a route, or the route of a prefix |
//! | `ctrl` | write | `add`, `set` and `remove` lines with routes, applied atomically |
//! | `engine` | read | memory layout (`dir24` or `blocks`) and lookup code in use |
//! | `bytes` | read | memory of the table |
//! | `ahead` | read | packets that used a cached result, for example of a `GPUIPLookup` |
//! | `ahead_missed` | read | packets without usable cached result, by reason: `NUMBER<tab>REASON` |
//! | `flush` | write | removes all routes; only `DirectIPLookup`, `RadixIPLookup` and `RangeIPLookup` |
//!
//! # Drops
//! - `no route`: no prefix matches the destination
//!
//! # Threads
//! One instance per worker; all share one table.
//!
//! # Example
//! ```text
//! ... -> CheckIPHeader -> rt :: RadixIPLookup(10.0.0.1/32 0, 10.0.0.0/24 1, 0/0 10.0.0.2 1);
//! ```

use std::fmt::Display;
use std::net::Ipv4Addr;
use std::sync::Arc;

use warpswitch_graph::language::args::{Args, ArgsError, split};
use warpswitch_graph::{
    ConfigureContext, Context, Element, ElementClass, HandlerError, HandlerSpec, Sharing, drop_for,
};
use warpswitch_packet::{Batch, Column, annotation};
use warpswitch_routes::{NextHop, Prefix, RouteChange};

use super::copies::own;
use super::file::RouteFile;
use super::ip_table::{Hop, Refused, RouteTable, Written, route_text};
use super::lookup::{PacketAddress, RouteLookup};
use crate::lack::{Lack, Lacking};
use warpswitch_elements_support::cached::{CachedLookup, CachedResults};
use warpswitch_elements_support::format::parse_seen;
use warpswitch_elements_support::outputs;

/// The class `StaticIPLookup`.
pub static STATIC: ElementClass = class("StaticIPLookup", || Box::new(IpLookup::new("", false)));
/// The class `LinearIPLookup`.
pub static LINEAR: ElementClass =
    class("LinearIPLookup", || Box::new(IpLookup::new("LinearIPLookup", false)));
/// The class `SortedIPLookup`.
pub static SORTED: ElementClass = class("SortedIPLookup", || Box::new(IpLookup::new("", false)));
/// The class `RadixIPLookup`.
pub static RADIX: ElementClass = class("RadixIPLookup", || Box::new(IpLookup::new("", true)));
/// The class `DirectIPLookup`.
pub static DIRECT: ElementClass = class("DirectIPLookup", || Box::new(IpLookup::new("", true)));
/// The class `RangeIPLookup`.
pub static RANGE: ElementClass = class("RangeIPLookup", || Box::new(IpLookup::new("", true)));

const fn class(name: &'static str, make: fn() -> Box<dyn Element>) -> ElementClass {
    ElementClass::new(name, "1/-", "h/h", make).drops(&["no route"]).dear()
}

/// Reasons for drops, by number.
const NO_ROUTE: usize = 0;
/// Maximum number of destinations reported as having no route.
const TOLD_MAX: u32 = 5;

/// A change of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Add,
    Set,
    Remove,
}

/// Error text for a route to an invalid output.
fn bad_output(port: impl Display, outputs: usize) -> String {
    format!("bad OUTPUT {port}, {}", outputs::expected(outputs))
}

impl Change {
    fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "add" => Self::Add,
            "set" => Self::Set,
            "remove" => Self::Remove,
            _ => return None,
        })
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub struct IpLookup {
    /// Copies have the same one; it changes while there are none.
    table: Arc<RouteTable>,
    /// Its name in the messages that report a missing route.
    speaker: &'static str,
    can_flush: bool,
    /// Outputs that routes may lead to.
    outputs_max: usize,
    told: u32,
    /// Of the batch at work: destinations, what was found, and outputs.
    addresses: Vec<u32>,
    found: Vec<NextHop>,
    outputs: Vec<u32>,
    results: CachedResults<RouteChange<u32>>,
    /// Of destinations.
    lack: Lack,
}

const NO_DESTINATION: Lacking = Lacking {
    so: "the address 0.0.0.0 is looked up",
    what: "a destination annotation",
    remedy: "place CheckIPHeader or GetIPAddress(16) before it; for Ethernet frames, Strip(14) -> \
             CheckIPHeader",
};

impl IpLookup {
    fn new(speaker: &'static str, can_flush: bool) -> Self {
        let speaker = if speaker.is_empty() { "IPRouteTable" } else { speaker };
        let (told, addresses, found, outputs) = Default::default();
        let table = Arc::new(RouteTable::new());
        Self {
            table,
            speaker,
            can_flush,
            outputs_max: 0,
            told,
            addresses,
            found,
            outputs,
            results: CachedResults::default(),
            lack: Lack::of(true),
        }
    }

    /// Whether there is a route to `address`.
    pub fn has_route(&self, address: Ipv4Addr) -> bool {
        let mut found = [NextHop::NONE];
        self.table.lookup(&[u32::from(address)], &mut found);
        self.table.hop(found[0]).is_some()
    }

    /// Publishes that these prefixes may have other hops now, or none.
    fn publish(&mut self, prefixes: &[Prefix<u32>]) {
        if !self.results.has_followers() {
            return self.results.publish(&[]);
        }
        let change = |&prefix: &Prefix<u32>| match self.table.number(prefix) {
            Some(hop) => RouteChange::Insert(prefix, hop),
            None => RouteChange::Remove(prefix),
        };
        let changes: Vec<_> = prefixes.iter().map(change).collect();
        self.results.publish(&changes);
    }

    /// Reports the first destinations without a route.
    #[cold]
    fn tell_no_route(&mut self, cx: &mut Context<'_>) {
        let all = self.addresses.iter().zip(&self.found);
        for (&address, _) in all.filter(|(_, hop)| self.table.hop(**hop).is_none()) {
            if self.told == TOLD_MAX {
                return;
            }
            self.told += 1;
            cx.say(&format!("{}: no route for {}", self.speaker, Ipv4Addr::from(address)));
        }
    }

    /// Makes a change; the prefix and what it had before are given.
    fn change(
        &mut self,
        cx: &Context<'_>,
        change: Change,
        text: &str,
    ) -> Result<(Prefix<u32>, Option<Hop>), String> {
        let is_removal = change == Change::Remove;
        let outputs = self.outputs_max;
        let written = Written::parse(text, &cx.names())
            .filter(|written| written.port.is_some() || is_removal)
            .ok_or_else(|| match is_removal {
                true => "expected 'ADDR/MASK [GATEWAY OUTPUT]'".to_owned(),
                false => "expected 'ADDR/MASK [GATEWAY] OUTPUT'".to_owned(),
            })?;
        let Written { prefix, gateway, port } = written;
        let port = match port {
            Some(port) if (0..outputs as i64).contains(&i64::from(port)) => Some(port as u32),
            None | Some(-1) if is_removal => None,
            wrong => return Err(bad_output(wrong.unwrap_or(-1), outputs)),
        };
        let hop = port.map(|port| Hop { gateway, port });
        let done = match hop {
            Some(hop) if !is_removal => {
                own(&mut self.table).add(prefix, hop, change == Change::Set)
            }
            hop => own(&mut self.table).remove(prefix, hop).map(Some),
        };
        self.publish(&[prefix]);
        let quoted = |hop: Hop| route_text(prefix, hop, false);
        done.map(|old| (prefix, old)).map_err(|refused| match refused {
            Refused::Exists(old) => format!("conflict with existing route '{}'", quoted(old)),
            Refused::Missing => {
                let sought = match hop {
                    Some(hop) => quoted(hop),
                    None => {
                        quoted(Hop { gateway, port: 0 }).trim_end_matches('0').to_owned() + "-1"
                    }
                };
                format!("route '{sought}' not found")
            }
            Refused::Full(why) => format!("no memory to store route '{}': {why}", text.trim()),
        })
    }

    /// Makes all changes that the lines of `text` request, or none.
    fn change_all(&mut self, cx: &Context<'_>, text: &str) -> Result<(), String> {
        let mut made = Vec::new();
        for line in text.lines() {
            let words = split::split_words(line);
            let Some((word, route)) = words.split_first() else { continue };
            let done = match Change::parse(word) {
                Some(change) => self.change(cx, change, &route.join(" ")),
                None => Err(format!("bad command '{word}'")),
            };
            match done {
                Ok(change) => made.push(change),
                Err(error) => {
                    self.undo(made);
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Undoes changes, the last one first.
    fn undo(&mut self, made: Vec<(Prefix<u32>, Option<Hop>)>) {
        for (prefix, old) in made.into_iter().rev() {
            // What was there before fits, and what is taken out is there.
            let _ = match old {
                Some(hop) => own(&mut self.table).add(prefix, hop, true).map(|_| ()),
                None => own(&mut self.table).remove(prefix, None).map(|_| ()),
            };
            self.publish(&[prefix]);
        }
    }
}

impl IpLookup {
    /// Adds the routes of `file` to `routes`, which lead to the gateways.
    fn add_routes_of(
        &self,
        file: &RouteFile,
        args: &mut Args<'_>,
        outputs: usize,
        routes: &mut Vec<(Prefix<u32>, Hop)>,
    ) {
        let direct = routes.clone();
        let output_of = |gateway: u32| {
            let leading = direct.iter().filter(|(prefix, _)| prefix.contains(gateway));
            leading.max_by_key(|(prefix, _)| prefix.len()).map(|(_, hop)| hop.port)
        };
        let of_file = file.routes(args, output_of);
        if let Some((prefix, _, port)) = of_file.iter().find(|(.., port)| *port as usize >= outputs)
        {
            let wrong = bad_output(format!("{port} of {prefix}"), outputs);
            let asked = 1 + of_file.iter().map(|(.., port)| u64::from(*port)).max().unwrap_or(0);
            let are = if outputs == 1 { "is" } else { "are" };
            let message = format!("{wrong}: the file needs {asked}, {outputs} {are} connected");
            args.error_at("FILE", &message);
            return;
        }
        routes.extend(
            of_file.into_iter().map(|(prefix, gateway, port)| {
                (prefix, Hop { gateway: gateway.unwrap_or(0), port })
            }),
        );
    }
}

impl CachedLookup for IpLookup {
    type Change = RouteChange<u32>;

    fn results(&mut self) -> &mut CachedResults<Self::Change> {
        &mut self.results
    }
}

impl RouteLookup for IpLookup {
    type Address = u32;

    /// What `StaticIPLookup` is.
    fn without_routes() -> Self {
        Self::new("", false)
    }

    fn numbered(&self) -> impl Iterator<Item = (Prefix<u32>, NextHop)> + Clone {
        self.table.numbered()
    }

    fn look_up(&self, addresses: &[u32], found: &mut [NextHop]) {
        self.table.lookup(addresses, found);
    }

    fn way(&self, hop: NextHop) -> Option<(Option<u32>, u32)> {
        let Hop { gateway, port } = self.table.hop(hop)?;
        Some(((gateway != 0).then_some(gateway), port))
    }
}

impl Element for IpLookup {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        self.outputs_max = context.outputs;
        let file = RouteFile::named(args);
        let mut routes = Vec::new();
        for (idx, text) in args.rest().iter().enumerate() {
            let number = idx + 1;
            let written = Written::parse(text, context.names)
                .and_then(|written| written.port.map(|port| (written, port)));
            match written {
                None => {
                    let expected = "should be 'ADDR/MASK [GATEWAY] OUTPUT'";
                    args.error_of(idx, &format!("argument {number} {expected}"));
                }
                Some((Written { prefix, gateway, .. }, port)) => match u32::try_from(port) {
                    Ok(port) if (port as usize) < context.outputs => {
                        routes.push((prefix, Hop { gateway, port }));
                    }
                    _ => {
                        let wrong = bad_output(port, context.outputs);
                        args.error_of(idx, &format!("argument {number} {wrong}"));
                    }
                },
            }
        }
        if let Some(file) = file {
            self.add_routes_of(&file, args, context.outputs, &mut routes);
        }
        match own(&mut self.table).fill(&routes) {
            Ok(0) => {}
            Ok(repeated) => {
                let message = format!("{repeated} ignored, their prefixes already have routes");
                args.warn_at("routes", &message);
            }
            Err(refused) => args.error_at("", &format!("the routes do not fit: {refused:?}")),
        }
        args.complete()
    }

    fn push(&mut self, cx: &mut Context<'_>, _input: usize, mut batch: Batch) {
        self.addresses.clear();
        batch.read_annos(annotation::DST, &mut self.addresses);
        self.addresses.iter_mut().for_each(|address| *address = u32::from_be(*address));
        if self.lack.is_open() {
            let has = self.addresses.iter().any(|&address| address != 0);
            self.lack.note(cx, has, batch.len(), &NO_DESTINATION);
        }
        self.found.clear();
        self.found.resize(batch.len(), NextHop::NONE);
        let Self { table, addresses, found, results, .. } = self;
        let hop = |answer| NextHop(answer as u16);
        results.find(&batch, found, u32::is_key, hop, |found| table.lookup(addresses, found));
        let first = self.found[0];
        if let Some(hop) = self.table.hop(first)
            && self.found.iter().all(|found| *found == first)
        {
            if hop.gateway != 0 {
                batch.set_annos(annotation::DST, Column::All(hop.gateway.to_be()));
            }
            return cx.emit_batch(hop.port as usize, batch);
        }
        let Self { table, addresses, found, outputs, .. } = self;
        let (mut has_all, mut has_gateway) = (true, false);
        let mut route = |hop| match table.hop(hop) {
            Some(Hop { gateway, port }) => (gateway, port),
            None => {
                has_all = false;
                (0, drop_for(NO_ROUTE as u32))
            }
        };
        outputs.clear();
        if batch.is_deferred() {
            outputs.extend(addresses.iter_mut().zip(&*found).map(|(address, &hop)| {
                let (gateway, output) = route(hop);
                if gateway != 0 {
                    (*address, has_gateway) = (gateway, true);
                }
                output
            }));
        } else {
            outputs.extend(batch.iter_mut().zip(&*found).map(|(packet, &hop)| {
                let (gateway, output) = route(hop);
                if gateway != 0 {
                    gateway.put(packet);
                }
                output
            }));
        }
        if !has_all && self.told < TOLD_MAX {
            self.tell_no_route(cx);
        }
        if has_gateway {
            self.addresses.iter_mut().for_each(|address| *address = address.to_be());
            batch.set_annos(annotation::DST, Column::Each(&self.addresses));
        }
        cx.emit_each(batch, &self.outputs);
    }

    fn accepts_gso(&self) -> bool {
        true
    }

    fn handlers(&self) -> &'static [HandlerSpec] {
        const ALL: &[HandlerSpec] = &[
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
            HandlerSpec::button("flush"),
        ];
        if self.can_flush { ALL } else { &ALL[..ALL.len() - 1] }
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
        let address: Ipv4Addr =
            parse_seen(cx, param).map_err(|_| HandlerError::failed("expected IP address"))?;
        let mut found = [NextHop::NONE];
        self.table.lookup(&[address.into()], &mut found);
        Ok(match self.table.hop(found[0]) {
            None => "-1".to_owned(),
            Some(Hop { gateway: 0, port }) => port.to_string(),
            Some(Hop { gateway, port }) => format!("{port} {}", Ipv4Addr::from(gateway)),
        })
    }

    fn write(
        &mut self,
        cx: &mut Context<'_>,
        name: &str,
        value: &str,
    ) -> Result<String, HandlerError> {
        let done = match Change::parse(name) {
            Some(change) => self.change(cx, change, value).map(|_| ()),
            None if name == "ctrl" => self.change_all(cx, value),
            None => {
                let prefixes: Vec<_> = self.table.numbered().map(|(prefix, _)| prefix).collect();
                own(&mut self.table).clear();
                self.publish(&prefixes);
                Ok(())
            }
        };
        done.map(|()| String::new()).map_err(HandlerError::failed)
    }

    fn sharing(&self) -> Sharing {
        Sharing::copies(Self { told: 0, results: self.results.of_copy(), ..self.clone() })
    }

    fn absorb(&mut self, copy: &mut dyn Element) {
        if let Some(copy) = copy.downcast_mut::<Self>() {
            self.told += copy.told;
            self.results.absorb(&copy.results);
        }
    }

    fn finish(&mut self, cx: &mut Context<'_>) -> Result<(), String> {
        self.lack.end(cx, &NO_DESTINATION);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn routes_come_from_files_in_each_format() {
        let folder = std::env::temp_dir().join(format!("routes-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let check = |class: &str, format: &str, text: &str, address: &str, expected: &str| {
            let path = folder.join(format!("{class}-{format}"));
            std::fs::write(&path, text).expect("a file");
            let direct = match class {
                "LookupIP6Route" => "2001:db8:1::/64 1",
                _ => "10.0.1.0/24 1",
            };
            let config = format!(
                "Idle -> r :: {class}({direct}, FILE {}, FORMAT {format},
                     DEVICES blackhole lan wan);
                 r[0] -> Discard; r[1] -> Discard; r[2] -> Discard;",
                path.display()
            );
            let made = warpswitch_graph::simulate::router(&config, &crate::registry());
            let found = match made {
                Ok((mut router, _)) => router.read(&format!("r.lookup {address}")).expect("asked"),
                Err(errors) => errors.to_click(),
            };
            assert!(found.trim_end().ends_with(expected), "{format}: {found}");
        };
        let ip = "StaticIPLookup";
        check(ip, "click", "10.9.0.0/16 10.0.1.9 1,\n0.0.0.0/0 - 2 // out", "8.8.8.8", "2");
        check(ip, "list", "10.9.0.0/16 10.0.1.9\n10.8.0.0/16 2\n", "10.9.1.1", "1 10.0.1.9");
        check(ip, "ip-route", "default via 192.0.2.1 dev wan\n", "8.8.8.8", "2 192.0.2.1");
        check(ip, "list", "10.9.0.0/16 10.0.7.9\n", "", "no output for routes via 10.0.7.9");
        check(ip, "ip-route", "prohibit 10.0.0.0/8\n", "", "add 'prohibit' to DEVICES");
        check(ip, "ip-route", "10.0.0.0/8 dev eth9\n", "", "dev eth9: add it to DEVICES");
        check(ip, "ip-route", "blackhole 10.7.0.0/16\n", "10.7.0.1", "0");
        check(
            ip,
            "list",
            "10.9.0.0/16 3\n",
            "",
            "expected 0 to 2: the file needs 4, 3 are connected",
        );
        let wrong = "expected 0 to 2: the file needs 8, 3 are connected";
        check(ip, "list", "10.9.0.0/16 3\n10.8.0.0/16 7\n", "", wrong);
        check(ip, "list", "10.9.0.1/16 3\n", "", "expected 10.9.0.0/16");
        check(ip, "xml", "", "", "expected 'click', 'ip-route' or 'list'");
        let ip6 = "LookupIP6Route";
        let routes = "2001:db8::/32 2001:db8:1::9\n2001:db8:1::/64 2\n";
        check(ip6, "list", routes, "2001:db8:2::1", "1 2001:db8:1::9");
        check(ip6, "list", routes, "2001:db8:1::1", "1");
        _ = std::fs::remove_dir_all(&folder);
    }

    use crate::testing::{ipv4, run_with, source};
    use warpswitch_graph::Router;
    use warpswitch_graph::simulate::router;

    const CLASSES: [&str; 6] = [
        "StaticIPLookup",
        "LinearIPLookup",
        "SortedIPLookup",
        "RadixIPLookup",
        "DirectIPLookup",
        "RangeIPLookup",
    ];

    fn empty(class: &str) -> Router {
        let config = format!("Idle -> r :: {class} -> Idle; r[1] -> Idle; r[2] -> Idle;");
        router(&config, &crate::registry()).unwrap_or_else(|e| panic!("{}", e.to_click())).0
    }

    #[test]
    fn routes_come_and_go_and_the_longest_prefix_decides() {
        for class in CLASSES {
            let mut router = empty(class);
            let mut step = |change: &str, route: &str, then: &str| {
                router.write(&format!("r.{change}"), route).expect("it obeys");
                assert_eq!(router.read("r.lookup 18.26.4.9"), Ok(then.into()), "{class} {route}");
            };
            step("add", "18.26/16 1.0.0.1 0", "0 1.0.0.1");
            step("add", "18.26.0/18 2.0.0.2 1", "1 2.0.0.2");
            step("add", "18.26.0/17 3.0.0.3 2", "1 2.0.0.2");
            step("remove", "18.26.0/18 2.0.0.2 1", "2 3.0.0.3");
            step("remove", "18.26.0/16", "2 3.0.0.3");
            step("add", "0/0 - 1", "2 3.0.0.3");
            step("remove", "18.26.0/17 3.0.0.3 2", "1");
            step("set", "18.26.4.9 0", "0");
            step("set", "18.26.4.9 5.0.0.5 2", "2 5.0.0.5");
            step("remove", "18.26.4.9/32 5.0.0.5 -1", "1");
            step("remove", "0/0 1", "-1");
        }
    }

    #[test]
    fn what_is_wrong_is_said_and_changes_nothing() {
        let mut router = empty("SortedIPLookup");
        router.write("r.add", "18.26.0/12 4.0.0.4 0").expect("it obeys");
        let mut fails = |handler: &str, value: &str, message: &str| {
            let error = router.write(&format!("r.{handler}"), value).expect_err("it is wrong");
            assert_eq!(error.to_string(), message, "{handler} {value}");
            assert_eq!(router.read("r.table"), Ok("18.16.0.0/12\t\t4.0.0.4\t\t0\n".into()));
        };
        fails(
            "add",
            "18.26.0/12 6.0.0.6 0",
            "conflict with existing route '18.16.0.0/12 4.0.0.4 0'",
        );
        fails("remove", "1.0.0.0/8 - 2", "route '1.0.0.0/8 - 2' not found");
        fails("remove", "1.0.0.0/8", "route '1.0.0.0/8 - -1' not found");
        fails("remove", "18.26.0/12 6.0.0.6 0", "route '18.16.0.0/12 6.0.0.6 0' not found");
        fails("add", "1.0.0.0/8", "expected 'ADDR/MASK [GATEWAY] OUTPUT'");
        fails("set", "1.0.0.0/8 - 3", "bad OUTPUT 3, expected 0 to 2");
        fails("add", "1.0.0.0/8 -1", "bad OUTPUT -1, expected 0 to 2");
        fails("remove", "hello", "expected 'ADDR/MASK [GATEWAY OUTPUT]'");
        fails(
            "ctrl",
            "add 1/8 0\nset 18.26/12 - 2\nremove 1/8\nadd 18.16/12 1",
            "conflict \
            with existing route '18.16.0.0/12 - 2'",
        );
        fails("ctrl", "remove 18.26/12\n\nadd 2/8 1\nput 3/8 1", "bad command 'put'");
        assert_eq!(router.read("r.lookup x").unwrap_err().to_string(), "expected IP address");
        router.write("r.ctrl", "add 1/8 0 // one\n\nremove 18.26/12").expect("it obeys");
        assert_eq!(router.read("r.table"), Ok("1.0.0.0/8\t\t-\t\t0\n".into()));
        assert!(router.write("r.flush", "").is_err());
        let mut router = empty("DirectIPLookup");
        router.write("r.add", "1/8 0").expect("it obeys");
        let engine = router.read("r.engine").expect("it is there");
        assert!(engine.starts_with("blocks "), "few routes: {engine}");
        assert!(router.read("r.bytes").unwrap().parse::<usize>().unwrap() > 64);
    }

    #[test]
    fn flush_removes_all_routes() {
        for class in ["DirectIPLookup", "RadixIPLookup", "RangeIPLookup"] {
            let mut router = empty(class);
            router.write("r.ctrl", "add 1/8 0\nadd 0/0 1.1.1.1 1").expect("it obeys");
            assert_eq!(router.read("r.lookup 1.2.3.4"), Ok("0".into()));
            router.write("r.flush", "").expect("it obeys");
            assert_eq!(router.read("r.table"), Ok(String::new()), "{class}");
            assert_eq!(router.read("r.lookup 1.2.3.4"), Ok("-1".into()), "{class}");
            router.write("r.add", "1/8 2").expect("it obeys");
            assert_eq!(router.read("r.lookup 1.2.3.4"), Ok("2".into()), "{class}");
        }
    }

    #[test]
    fn wrong_routes_in_the_configuration_are_all_told() {
        let config = "Idle -> r :: RadixIPLookup(1.0.0.0/8 0, 1.0.0/40 0, 2/8 1, 3/8) -> Idle;";
        let errors = router(config, &crate::registry()).map(|_| ()).expect_err("it is wrong");
        let text = errors.to_click();
        for expected in [
            "argument 2 should be 'ADDR/MASK [GATEWAY] OUTPUT'",
            "argument 3 bad OUTPUT 1, expected 0, the only output",
            "argument 4 should be 'ADDR/MASK [GATEWAY] OUTPUT'",
        ] {
            assert!(text.contains(expected), "{text}");
        }
        let config = "Idle -> r :: RadixIPLookup(1/8 0, 1/8 1.1.1.1 0) -> Idle;";
        let (mut router, transcript) = router(config, &crate::registry()).expect("it is right");
        assert!(transcript.said().contains("warning: "), "{}", transcript.said());
        assert_eq!(router.read("r.lookup 1.1.1.1"), Ok("0".into()));
    }

    #[test]
    fn packets_leave_where_their_routes_lead() {
        let to = |dst: [u8; 4]| source(&ipv4(b"", |repr| repr.dst = dst.into()));
        let sources = [[10, 0, 0, 1], [10, 0, 1, 1], [11, 0, 0, 1], [0, 0, 0, 0]].map(to);
        let sources: String = sources.iter().map(|source| format!("{source} -> all;")).collect();
        let config = format!(
            "all :: CheckIPHeader -> q :: Queue -> Unqueue(10)
             -> r :: StaticIPLookup(10.0.0.0/24 0, 10.0/16 10.9.9.9 1, 0.0.0.0/32 0)
             -> Show(0); r[1] -> Show(1); {sources}"
        );
        let (shown, said, mut router) = run_with(&crate::registry(), &config);
        let mut came: Vec<_> =
            shown.iter().map(|shown| (shown.label.clone(), shown.dst().to_string())).collect();
        came.sort();
        let label = |label: &str, dst: &str| (label.to_owned(), dst.to_owned());
        assert_eq!(came, [label("0", "0.0.0.0"), label("0", "10.0.0.1"), label("1", "10.9.9.9")]);
        assert_eq!(said, ["IPRouteTable: no route for 11.0.0.1"]);
        assert_eq!(router.read("r.drops_by_reason"), Ok("1\tno route\n".into()));
    }
}
