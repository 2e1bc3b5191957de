//! Routes from a file, for elements that look up routes.
//!
//! | argument | meaning |
//! | --- | --- |
//! | `FILE` | the file; its routes follow those given as arguments |
//! | `FORMAT` | format of the file: `click` (the default), `ip-route` or `list` |
//! | `DEVICES` | names of interfaces: routes to the first one use output 0, and so on; `blackhole`, `unreachable` and `prohibit` name the outputs of such routes |
//!
//! A route without an output and without one of these interfaces uses the output of its gateway.
//! One of the routes given as arguments must lead to that gateway as to a neighbour.

use std::io::Read;

use warpswitch_graph::language::args::{Args, Word};
use warpswitch_io::Unpacked;
use warpswitch_routes::text::{self, Out, Syntax, Via};
use warpswitch_routes::{Address, NextHop, Prefix};

use warpswitch_elements_support::files::reason;

/// The most bytes of a file: thrice a table of the whole Internet.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// A route of a file: prefix, gateway, output.
pub(super) type FileRoute<A> = (Prefix<A>, Option<A>, u32);

/// A file of routes, as arguments name it.
pub(super) struct RouteFile {
    path: String,
    syntax: Syntax,
    devices: Vec<Word>,
}

impl RouteFile {
    /// Reads `FILE`, `FORMAT` and `DEVICES`; none if no file is named.
    pub(super) fn named(args: &mut Args<'_>) -> Option<Self> {
        let (mut path, mut format) = (String::new(), Word("click".into()));
        let mut devices = Vec::<Word>::new();
        args.read("FILE", &mut path).read("FORMAT", &mut format).read("DEVICES", &mut devices);
        args.note_input("FILE", &path);
        let syntax = match format.0.as_str() {
            "click" => Syntax::Click,
            "ip-route" => Syntax::IpRoute,
            "list" => Syntax::List,
            _ => {
                args.error_at("FORMAT", "expected 'click', 'ip-route' or 'list'");
                return None;
            }
        };
        (!path.is_empty()).then_some(Self { path, syntax, devices })
    }

    /// Reads the routes; errors are reported to `args`. `output_of` returns the output through
    /// which a neighbour is reached.
    pub(super) fn routes<A: Address>(
        &self,
        args: &mut Args<'_>,
        output_of: impl Fn(A) -> Option<u32>,
    ) -> Vec<FileRoute<A>> {
        let path = &self.path;
        let mut bytes = Vec::new();
        let read = Unpacked::open(path)
            .and_then(|opened| opened.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes));
        if let Err(error) = read {
            args.error_at("FILE", &format!("{path}: {}", reason(&error)));
            return Vec::new();
        }
        if bytes.len() as u64 > FILE_BYTES_MAX {
            args.error_at("FILE", &format!("{path}: more than {FILE_BYTES_MAX} bytes"));
            return Vec::new();
        }
        let routes = match text::read::<A>(self.syntax, path, &bytes) {
            Ok(routes) => routes,
            Err(wrong) => {
                wrong.kept().iter().for_each(|error| args.error_at("FILE", &error.to_string()));
                return Vec::new();
            }
        };
        let mut outputs = Vec::with_capacity(routes.vias.len());
        for via in &routes.vias {
            let output = output(via, &self.devices, &output_of);
            if output.is_none() {
                let (routes, mend) = (shown(via), mend(via));
                args.error_at("FILE", &format!("{path}: no output for routes {routes}{mend}"));
            }
            outputs.push(output);
        }
        let route = |(prefix, hop): (Prefix<A>, NextHop)| {
            let at = usize::from(hop.0);
            outputs[at].map(|output| (prefix, routes.vias[at].gateway, output))
        };
        routes.table.iter().filter_map(route).collect()
    }
}

fn output<A: Address>(
    via: &Via<A>,
    devices: &[Word],
    output_of: &impl Fn(A) -> Option<u32>,
) -> Option<u32> {
    let by_gateway = || via.gateway.and_then(output_of);
    let by_device = |name: &str| {
        let at = devices.iter().position(|device| device.0 == name);
        at.and_then(|at| u32::try_from(at).ok())
    };
    match &via.out {
        Out::Port(port) => Some(*port),
        Out::Unknown => by_gateway(),
        Out::Device(name) => by_device(name).or_else(by_gateway),
        out => by_device(special(out)?),
    }
}

/// What `DEVICES` calls the output of routes that have no device by intent.
fn special(out: &Out) -> Option<&'static str> {
    match out {
        Out::Blackhole => Some("blackhole"),
        Out::Unreachable => Some("unreachable"),
        Out::Prohibit => Some("prohibit"),
        Out::Port(_) | Out::Unknown | Out::Device(_) => None,
    }
}

/// What to do about a next hop without an output.
fn mend<A: Address>(via: &Via<A>) -> String {
    match (&via.out, special(&via.out)) {
        (Out::Device(_), _) => ": add it to DEVICES".to_owned(),
        (_, Some(name)) => format!(": add '{name}' to DEVICES"),
        _ => String::new(),
    }
}

/// A next hop, for messages.
fn shown<A: Address>(via: &Via<A>) -> String {
    let gateway = via.gateway.map_or(String::new(), |gateway| format!("via {} ", gateway.to_std()));
    let out = match &via.out {
        Out::Device(name) => format!("dev {name}"),
        Out::Blackhole => "that are a blackhole".into(),
        Out::Unreachable => "that are unreachable".into(),
        Out::Prohibit => "that are prohibited".into(),
        Out::Unknown | Out::Port(_) if via.gateway.is_none() => "that lead nowhere".into(),
        Out::Unknown | Out::Port(_) => String::new(),
    };
    format!("{gateway}{out}").trim_end().to_owned()
}
