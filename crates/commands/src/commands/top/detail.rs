//! One element: its ports and neighbours, its configuration, its handlers.

use warpswitch_runtime::client::{HandlerFailure, HandlerValue};

/// The most ports that are shown.
const PORTS_MAX: usize = 1024;
/// The most neighbours of a port that are shown.
const PEERS_MAX: usize = 64;
/// The most handlers that are shown, and read.
const HANDLERS_MAX: usize = 64;
/// Handlers that every element has, which are shown otherwise.
const COMMON: [&str; 13] = [
    "name",
    "class",
    "config",
    "ports",
    "handlers",
    "packets",
    "bytes",
    "batches",
    "mean_batch",
    "drops_by_reason",
    "held",
    "own_ns",
    "ns_per_packet",
];

/// What is known of an element.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Detail {
    /// Its name.
    pub name: String,
    /// Its configuration.
    pub config: String,
    /// Its ports, inputs first.
    pub ports: Vec<Port>,
    /// Its handlers, but for those that every element has.
    pub handlers: Vec<Handler>,
}

/// A port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// Whether packets come in.
    pub is_input: bool,
    /// Its number.
    pub number: usize,
    /// `push` or `pull`.
    pub kind: String,
    /// The elements at the other end.
    pub peers: Vec<Peer>,
}

/// The other end of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The element.
    pub name: String,
    /// The port, as it is written.
    pub port: String,
}

/// A handler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handler {
    /// Its name.
    pub name: String,
    /// What can be done with it: `r`, `w`, `+` for a parameter, `$` for a long answer, `b`.
    flags: String,
    /// Its last text.
    pub value: Option<Result<HandlerValue, String>>,
}

impl Handler {
    /// Whether it can be read without a parameter.
    pub fn is_readable(&self) -> bool {
        self.flags.contains('r') && !self.flags.contains('+')
    }

    /// Whether it is read again and again: not if answers may be long.
    pub fn is_watched(&self) -> bool {
        self.is_readable() && !self.flags.contains('$')
    }

    /// What stands in place of a value.
    pub fn note(&self) -> &'static str {
        match () {
            () if self.is_watched() => "…",
            () if self.is_readable() => "(long: press Enter to read)",
            () if self.flags.contains('r') => "(takes a parameter)",
            () => "(write-only)",
        }
    }
}

/// Texts of handlers, by name, or their errors.
pub type Values = Vec<(String, Result<HandlerValue, String>)>;

/// The questions that [`Detail::opened`] needs answers to.
pub fn questions(name: &str) -> Vec<String> {
    ["ports", "config", "handlers"].map(|handler| format!("{name}.{handler}")).into()
}

impl Detail {
    /// The element called `name`, by the answers to [`questions`]; none if it is gone.
    pub fn opened(name: &str, answers: Vec<Result<HandlerValue, HandlerFailure>>) -> Option<Self> {
        let mut answers = answers.into_iter();
        let mut next = || answers.next()?.ok().map(|answer| answer.text);
        let (ports, config, handlers) = (next()?, next()?, next()?);
        Some(Self {
            name: name.to_owned(),
            config: config.trim().to_owned(),
            ports: ports_of(&ports),
            handlers: handlers_of(&handlers),
        })
    }

    /// Names of the handlers that are read again and again.
    pub fn watched(&self) -> Vec<String> {
        let watched = self.handlers.iter().filter(|handler| handler.is_watched());
        watched.map(|handler| handler.name.clone()).collect()
    }

    /// Takes texts of handlers.
    pub fn take(&mut self, values: Values) {
        for (name, value) in values {
            if let Some(handler) = self.handlers.iter_mut().find(|handler| handler.name == name) {
                handler.value = Some(value);
            }
        }
    }
}

/// Reads `ports`: a count, then a line per port of `kind`, a field that nobody needs, and peers
/// between commas; inputs, then outputs.
fn ports_of(text: &str) -> Vec<Port> {
    let mut ports = Vec::new();
    let (mut is_input, mut number) = (true, 0);
    for line in text.lines() {
        let mut fields = line.split('\t');
        let (Some(kind), Some(_), Some(peers)) = (fields.next(), fields.next(), fields.next())
        else {
            (is_input, number) = (line.contains("input"), 0);
            continue;
        };
        if ports.len() == PORTS_MAX {
            break;
        }
        let peers = peers.split(", ").filter_map(|peer| peer_of(peer, is_input));
        let peers = peers.take(PEERS_MAX).collect();
        ports.push(Port { is_input, number, kind: kind.to_owned(), peers });
        number += 1;
    }
    ports
}

/// Reads `name [port]` of an input, `[port] name` of an output.
fn peer_of(text: &str, is_input: bool) -> Option<Peer> {
    let (left, right) = text.split_once(' ')?;
    let (name, port) = if is_input { (left, right) } else { (right, left) };
    let is_name = !name.is_empty() && name.bytes().all(|b| b.is_ascii_graphic());
    is_name.then(|| Peer { name: name.to_owned(), port: port.to_owned() })
}

fn handlers_of(text: &str) -> Vec<Handler> {
    let handlers = text.lines().filter_map(|line| {
        let (name, flags) = line.split_once('\t')?;
        let is_name = !name.is_empty() && name.bytes().all(|b| b.is_ascii_graphic());
        let is_own = is_name && !COMMON.contains(&name);
        is_own.then(|| Handler { name: name.to_owned(), flags: flags.to_owned(), value: None })
    });
    handlers.take(HANDLERS_MAX).collect()
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// An answer of so much text.
    pub fn answer(text: &str) -> HandlerValue {
        HandlerValue { text: text.to_owned(), is_truncated: false }
    }

    /// A queue with neighbours and handlers.
    pub fn queue() -> Detail {
        let ports = "1 input\npush\t-\tsrc [0], t [1]\n2 outputs\npull\t-\t[0] u\npull\t-\t\n";
        let handlers =
            "length\tr\ncapacity\trw\ntable\tr$\nlookup\tr+\nreset\twb\nname\tr\nheld\tr\n";
        let answers = [ports, "1000, SOURCE true\n", handlers].map(|text| Ok(answer(text)));
        let mut detail = Detail::opened("q", answers.into()).expect("it is there");
        detail.take(vec![
            ("length".into(), Ok(answer("7"))),
            ("capacity".into(), Ok(answer("1000\n"))),
            ("gone".into(), Err("no".into())),
        ]);
        detail
    }

    #[test]
    fn an_element_is_read() {
        let queue = queue();
        assert_eq!(queue.config, "1000, SOURCE true");
        let peer = |name: &str, port: &str| Peer { name: name.into(), port: port.into() };
        assert_eq!(queue.ports[0].peers, [peer("src", "[0]"), peer("t", "[1]")]);
        let outputs: Vec<(bool, usize, &str, usize)> = queue.ports[1..]
            .iter()
            .map(|port| (port.is_input, port.number, port.kind.as_str(), port.peers.len()))
            .collect();
        assert_eq!(outputs, [(false, 0, "pull", 1), (false, 1, "pull", 0)]);
        let names: Vec<&str> = queue.handlers.iter().map(|h| h.name.as_str()).collect();
        assert_eq!(names, ["length", "capacity", "table", "lookup", "reset"]);
        assert_eq!(queue.watched(), ["length", "capacity"]);
        assert_eq!(queue.handlers[0].value, Some(Ok(answer("7"))));
        assert!(queue.handlers[2].is_readable() && !queue.handlers[3].is_readable());
    }

    #[test]
    fn whatever_is_answered_is_bounded_and_read_as_far_as_it_goes() {
        let many = format!("9 inputs\n{}", "push\t-\ta [0], b, [1] c d\n".repeat(2 * PORTS_MAX));
        let ports = ports_of(&many);
        assert_eq!((ports.len(), ports[0].peers.len()), (PORTS_MAX, 2));
        assert!(handlers_of(&"a\tr\n".repeat(1000)).len() == HANDLERS_MAX);
        assert!(handlers_of("a b\tr\n\tr\nx").is_empty());
        assert!(ports_of("\u{fffd}\n\t\t\t").len() == 1);
    }
}
