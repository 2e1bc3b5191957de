//! Addresses and ports of rule headers: lists, negation, variables.
//!
//! ```text
//! item    = ["!"] ( "any" | "$" NAME | "[" item { "," item } "]" | literal )
//! address = ADDR | ADDR "/" LENGTH | ADDR "/" MASK | ADDR "-" ADDR
//! port    = N | N ":" M | N ":" | ":" M
//! ```
//! A list is what any of its items without `!` gives, all values if it has none, without what those
//! with `!` name.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use warpswitch_rules::diagnostic::Diagnostics;

use super::literals::Literal;
use super::near::nearest;
use super::source::{Part, Skip, Source};
use crate::addresses::{Addresses, Family};
use crate::ranges::Union;
use crate::rule::LISTED_RANGES_MAX;

/// The most lists and variables within each other.
const NESTING_MAX: usize = 16;

/// Names of variables and what they stand for, as text.
///
/// Addresses: `HOME_NET` and `EXTERNAL_NET` are any, servers (`HTTP_SERVERS` and the like) are
/// `$HOME_NET`. Ports: `HTTP_PORTS` and its kind are the usual ones of their protocols. All can be
/// set anew.
#[derive(Clone, Debug)]
pub struct Variables {
    values: BTreeMap<String, String>,
    /// Those that were set, not those that have a value unless they are.
    given: BTreeSet<String>,
}

/// A variable that was set and that no rule asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnusedVariable {
    /// Its name.
    pub name: String,
    /// The variable that is asked for whose name is most like it, if one is.
    pub meant: Option<String>,
}

impl fmt::Display for UnusedVariable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no rule asks for the variable {}", self.name)?;
        match &self.meant {
            Some(meant) => write!(f, "; rules ask for {meant}"),
            None => Ok(()),
        }
    }
}

impl Default for Variables {
    fn default() -> Self {
        let servers = ["HTTP", "SMTP", "SQL", "DNS", "TELNET", "FTP", "SSH", "SIP", "DC", "AIM"];
        let systems = ["DNP3", "MODBUS", "ENIP"];
        let mut values = BTreeMap::new();
        let mut set = |name: &str, value: &str| values.insert(name.to_owned(), value.to_owned());
        set("HOME_NET", "any");
        set("EXTERNAL_NET", "any");
        for name in servers {
            set(&format!("{name}_SERVERS"), "$HOME_NET");
        }
        for name in systems {
            set(&format!("{name}_SERVER"), "$HOME_NET");
            set(&format!("{name}_CLIENT"), "$HOME_NET");
        }
        for (name, value) in [
            ("HTTP_PORTS", "[80,8000,8080]"),
            ("SHELLCODE_PORTS", "!80"),
            ("ORACLE_PORTS", "1521"),
            ("SSH_PORTS", "22"),
            ("FTP_PORTS", "21"),
            ("SIP_PORTS", "[5060,5061]"),
            ("FILE_DATA_PORTS", "[$HTTP_PORTS,110,143]"),
            ("MODBUS_PORTS", "502"),
            ("DNP3_PORTS", "20000"),
            ("GTP_PORTS", "[2123,2152,3386]"),
            ("GENEVE_PORTS", "6081"),
            ("VXLAN_PORTS", "4789"),
            ("TEREDO_PORTS", "3544"),
        ] {
            set(name, value);
        }
        Self { values, given: BTreeSet::new() }
    }
}

impl Variables {
    /// Sets a variable by `NAME=VALUE`; the name may stand with its `$`.
    ///
    /// # Errors
    /// What is wrong with the text. The value is looked at when a rule uses it.
    pub fn set(&mut self, text: &str) -> Result<(), String> {
        let (name, value) =
            text.split_once('=').ok_or("expected NAME=VALUE, as HOME_NET=10.0.0.0/8")?;
        let name = name.trim().trim_start_matches('$');
        let is_name = !name.is_empty()
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if !is_name {
            return Err(format!("'{name}' is no name of a variable: letters, digits and _"));
        }
        if value.trim().is_empty() {
            return Err(format!("{name} has no value; write {name}=any for everything"));
        }
        self.values.insert(name.to_owned(), value.trim().to_owned());
        self.given.insert(name.to_owned());
        Ok(())
    }

    /// Those that were set and that `is_used` says no rule asked for.
    pub(super) fn unused(&self, is_used: impl Fn(&str) -> bool) -> Vec<UnusedVariable> {
        let used = || self.values.keys().map(String::as_str).filter(|name| is_used(name));
        let unused = self.given.iter().filter(|name| !is_used(name));
        unused
            .map(|name| UnusedVariable {
                name: name.clone(),
                meant: nearest(name, used()).map(str::to_owned),
            })
            .collect()
    }
}

/// Sets that were read: rules name the same ones again and again. Equal ones are one in memory,
/// however they are written.
pub(super) struct Sets<'v, S> {
    variables: &'v Variables,
    /// By their text, which is never more than that of the rules; none where it told an error.
    known: HashMap<Box<str>, Option<Arc<S>>>,
    shared: HashSet<Arc<S>>,
    all: Arc<S>,
    /// Those of one family, by where the whole set lies, which `shared` keeps there.
    of_family: HashMap<(usize, Family), Arc<S>>,
    /// Ranges that lists were put together from.
    listed: usize,
}

impl<'v, S: Literal> Sets<'v, S> {
    pub(super) fn new(variables: &'v Variables) -> Self {
        let all = Arc::new(S::all());
        Self {
            variables,
            known: HashMap::new(),
            shared: HashSet::from([Arc::clone(&all)]),
            all,
            of_family: HashMap::new(),
            listed: 0,
        }
    }

    /// Whether a rule asked for the variable `name`.
    pub(super) fn uses(&self, name: &str) -> bool {
        self.known.contains_key(&*format!("${name}"))
    }

    /// The set that `span` of `source` names.
    pub(super) fn read(
        &mut self,
        source: &Source<'_>,
        span: Range<usize>,
        errors: &mut Diagnostics,
    ) -> Part<Arc<S>> {
        let text = source.text(&span);
        if let Some(Some(known)) = self.known.get(&*text) {
            return Ok(Arc::clone(known));
        }
        self.count(1, source, &span, errors)?;
        let set = self.item(source, span, errors, 0)?;
        let set = self.share(set);
        self.known.insert(text.into(), Some(Arc::clone(&set)));
        Ok(set)
    }

    /// The set of all values.
    pub(super) fn all(&self) -> Arc<S> {
        Arc::clone(&self.all)
    }

    /// The one in memory that is equal. Cost: linear in the set.
    fn share(&mut self, set: Arc<S>) -> Arc<S> {
        if let Some(shared) = self.shared.get(&set) {
            return Arc::clone(shared);
        }
        self.shared.insert(Arc::clone(&set));
        set
    }

    /// Counts ranges that are taken into a list. Of too many it is told once.
    fn count(
        &mut self,
        ranges: usize,
        source: &Source<'_>,
        span: &Range<usize>,
        errors: &mut Diagnostics,
    ) -> Part<()> {
        if self.listed > LISTED_RANGES_MAX {
            return Err(Skip::Told);
        }
        self.listed += ranges;
        if self.listed <= LISTED_RANGES_MAX {
            return Ok(());
        }
        let message = format!("lists of more than {LISTED_RANGES_MAX} {} in all rules", S::NAME);
        let expected = "fewer; a list that is written alike in many rules counts once";
        let help = "a variable in a list with others counts with all that it holds each time: \
                    make the whole list a variable, --var NAME=[...]";
        Err(source.tell(errors, span.clone(), &message, expected, help))
    }

    fn item(
        &mut self,
        source: &Source<'_>,
        span: Range<usize>,
        errors: &mut Diagnostics,
        depth: usize,
    ) -> Part<Arc<S>> {
        let span = source.trim(span);
        if depth > NESTING_MAX {
            let message = format!("more than {NESTING_MAX} lists and variables in each other");
            return Err(source.tell(errors, span, &message, "fewer", ""));
        }
        match source.bytes[span.clone()] {
            [b'!', ..] => {
                let set = self.item(source, span.start + 1..span.end, errors, depth + 1)?;
                self.count(set.ranges_len(), source, &span, errors)?;
                Ok(Arc::new(set.complement()))
            }
            [b'$', ..] => self.variable(source, span, errors, depth),
            [b'[', .., b']'] => self.list(source, span.start + 1..span.end - 1, errors, depth),
            _ => {
                let text = source.text(&span);
                if text.eq_ignore_ascii_case("any") {
                    return Ok(self.all());
                }
                let set = S::read(&text);
                set.map(Arc::new).map_err(|why| source.tell(errors, span, &why, S::LOOKS, ""))
            }
        }
    }

    fn list(
        &mut self,
        source: &Source<'_>,
        span: Range<usize>,
        errors: &mut Diagnostics,
        depth: usize,
    ) -> Part<Arc<S>> {
        let (mut with, mut without) = (Union::new(), Union::new());
        for item in source.split_commas(span) {
            let (union, inner) = match source.bytes[item.clone()] {
                [b'!', ..] => (&mut without, item.start + 1..item.end),
                _ => (&mut with, item.clone()),
            };
            let set = self.item(source, inner, errors, depth + 1)?;
            self.count(set.ranges_len().max(1), source, &item, errors)?;
            union.push(set);
        }
        let with = with.finish().unwrap_or_else(|| self.all());
        Ok(without.finish().map_or(with.clone(), |without| Arc::new(with.without(&without))))
    }

    fn variable(
        &mut self,
        source: &Source<'_>,
        span: Range<usize>,
        errors: &mut Diagnostics,
        depth: usize,
    ) -> Part<Arc<S>> {
        let key = source.text(&span);
        let name = &key[1..];
        match self.known.get(&*key) {
            Some(Some(set)) => return Ok(Arc::clone(set)),
            // It was told where the value is read first.
            Some(None) => return Err(Skip::Told),
            None => {}
        }
        let Some(value) = self.variables.values.get(name) else {
            // Of many errors only some are kept.
            let known = self.variables.values.keys().map(String::as_str);
            let meant = if errors.wants_more() { nearest(name, known) } else { None };
            let help = match meant {
                Some(meant) => format!("is ${meant} meant? Or set it: --var {name}=VALUE"),
                None => format!("give it a value: --var {name}=VALUE"),
            };
            return Err(source.tell(errors, span, "no such variable", "one that is set", &help));
        };
        let place = format!("--var {name}");
        let inner = Source::new(&place, value.as_bytes());
        let set = self.item(&inner, 0..value.len(), errors, depth + 1);
        let set = set.map(|set| self.share(set));
        self.known.insert(key.into(), set.as_ref().ok().map(Arc::clone));
        set
    }
}

impl Sets<'_, Addresses> {
    /// Those of a set that was read that are of one family.
    pub(super) fn of_family(&mut self, set: &Arc<Addresses>, family: Family) -> Arc<Addresses> {
        let key = (Arc::as_ptr(set).addr(), family);
        if let Some(known) = self.of_family.get(&key) {
            return Arc::clone(known);
        }
        let part = self.share(Arc::new(set.of(family)));
        self.of_family.insert(key, Arc::clone(&part));
        part
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;
    use crate::naive;
    use crate::ranges::Set;
    use crate::rule::Ports;

    fn read<S: Literal>(text: &str) -> Result<S, String> {
        let mut variables = Variables::default();
        variables.set("A=[10.0.0.0/8,!10.1.0.0/16]").unwrap();
        variables.set("LOOP=$LOOP").unwrap();
        let mut errors = Diagnostics::default();
        let source = Source::new("x", text.as_bytes());
        let set = Sets::<S>::new(&variables).read(&source, 0..text.len(), &mut errors);
        match set {
            Ok(set) => Ok(set.as_ref().clone()),
            Err(_) => Err(errors.to_string()),
        }
    }

    fn has(text: &str, address: &str) -> bool {
        read::<Addresses>(text).unwrap().contains(address.parse().unwrap())
    }

    /// Lists of lists, with all that may stand in them.
    fn list() -> impl Strategy<Value = String> {
        let literal = select(&[
            "any",
            "0.0.0.0/0",
            "::/0",
            "10.0.0.0/8",
            "10.0.0.1",
            "10.0.0.0/255.255.255.254",
            "10.0.0.1-10.0.1.255",
            "255.255.255.255",
            "::ffff:10.0.0.0/104",
            "::ffff:0:0-::ffff:ffff:ffff",
            "2001:db8::/32",
            "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
        ]);
        let literal = (any::<bool>(), literal).prop_map(|(negated, literal)| match negated {
            true => format!("!{literal}"),
            false => literal.to_owned(),
        });
        literal.prop_recursive(3, 16, 5, |inner| {
            let items = prop::collection::vec(inner, 1..5);
            (any::<bool>(), items).prop_map(|(negated, items)| {
                let sign = if negated { "!" } else { "" };
                format!("{sign}[{}]", items.join(","))
            })
        })
    }

    proptest! {
        /// Of the same family, beside it, mapped to the other one, and at the ends of both.
        #[test]
        fn lists_name_what_each_item_names(list in list()) {
            let set = read::<Addresses>(&list).unwrap();
            for address in [
                "0.0.0.0", "10.0.0.0", "10.0.0.1", "10.0.0.2", "10.0.1.255", "10.255.255.255",
                "11.0.0.0", "255.255.255.255", "::", "::1", "::a00:1", "::ffff:0.0.0.0",
                "::ffff:10.0.0.1", "::ffff:255.255.255.255", "2001:db8::1", "2001:db9::",
                "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
            ] {
                let address = address.parse().unwrap();
                let expected = naive::addresses::names(&list, address);
                prop_assert_eq!(Some(set.contains(address)), expected, "{} {}", list, address);
            }
        }
    }

    #[test]
    fn a_prefix_of_one_family_says_nothing_of_the_other() {
        for (text, v4, v6) in [
            ("any", true, true),
            ("0.0.0.0/0", true, false),
            ("::/0", false, true),
            ("[0.0.0.0/0,::/0]", true, true),
            ("[any,!::/0]", true, false),
            ("!10.0.0.0/8", true, true),
            ("!0.0.0.0/0", false, true),
            ("[11.0.0.0/8,!2001:db8::/32]", true, false),
            ("::ffff:0:0/96", false, false),
        ] {
            let found = (has(text, "11.0.0.1"), has(text, "2001:db9::1"));
            assert_eq!(found, (v4, v6), "{text}");
        }
        assert!(has("::ffff:0:0/96", "::ffff:11.0.0.1") && !has("11.0.0.1", "::ffff:11.0.0.1"));
    }

    #[test]
    fn equal_lists_are_one_in_memory() {
        let mut variables = Variables::default();
        variables.set("A=[10.0.0.0/9,10.128.0.0/9]").unwrap();
        let (mut errors, mut sets) = (Diagnostics::default(), Sets::new(&variables));
        let mut read = |text: &str, family: Option<Family>| {
            let source = Source::new("x", text.as_bytes());
            let set: Arc<Addresses> = sets.read(&source, 0..text.len(), &mut errors).ok().unwrap();
            family.map_or(set.clone(), |family| sets.of_family(&set, family))
        };
        let first = read("$A", None);
        for text in ["$A", "[$A]", "[ $A, $A ]", "10.0.0.0/8", "[10.0.0.0/8,10.1.1.1]", "!!$A"] {
            assert!(Arc::ptr_eq(&first, &read(text, None)), "{text}");
            assert!(Arc::ptr_eq(&first, &read(text, Some(Family::V4))), "{text}");
            assert!(read(text, Some(Family::V6)).is_none());
        }
    }

    #[test]
    fn lists_have_a_bound_that_is_told_once() {
        let hosts: Vec<String> =
            (0..4096).map(|n| format!("10.{}.{}.0/32", n / 256, n % 256)).collect();
        let mut variables = Variables::default();
        variables.set(&format!("A=[{}]", hosts.join(","))).unwrap();
        let mut sets = Sets::<Addresses>::new(&variables);
        let mut errors = Diagnostics::default();
        let mut failed = Vec::new();
        for n in 0..1100 {
            // Alike, it counts once; with another host, anew.
            for text in ["$A".to_owned(), "[!$A]".to_owned(), format!("[$A,11.0.{n}.1]")] {
                let text = text.replace(&format!("0.{n}."), &format!("{}.{}.", n / 256, n % 256));
                let source = Source::new("x.rules", text.as_bytes());
                if sets.read(&source, 0..text.len(), &mut errors).is_err() {
                    failed.push(n);
                }
            }
        }
        let told = errors.to_string();
        assert_eq!((failed[0], failed.len()), (1021, 1100 - 1021), "{told}");
        for part in [
            "error: lists of more than 4194304 addresses in all rules",
            "--> x.rules:1:2",
            "expected",
            "help: a variable in a list with others counts",
        ] {
            assert!(told.contains(part), "{part}: {told}");
        }
        assert_eq!(errors.len(), 1);
    }

    #[test]
    fn lists_take_away_what_they_negate() {
        assert!(has("any", "10.0.0.1") && has("any", "::1"));
        assert!(has("$A", "10.0.0.1") && !has("$A", "10.1.0.1") && !has("$A", "11.0.0.0"));
        assert!(!has("!$A", "10.0.0.1") && has("!$A", "10.1.0.1") && has("!$A", "::1"));
        assert!(has("[ !10.0.0.0/8 , !::1 ]", "11.0.0.0") && !has("[!10.0.0.0/8,!::1]", "::1"));
        assert!(has("10.0.0.0/255.0.0.0", "10.9.9.9") && has("10.0.0.1-10.0.0.3", "10.0.0.2"));
        assert!(has("[10.0.0.1,[2001:db8::/32,!2001:db8::1]]", "2001:db8::2"));
        let ports = read::<Ports>("[80,1024:,!2000:3000]").unwrap();
        assert!(ports.contains(80) && ports.contains(65535) && !ports.contains(2500));
        assert!(!ports.contains(81) && read::<Ports>(":9").unwrap().contains(0));
        assert!(read::<Ports>("!any").unwrap().is_none());
    }

    #[test]
    fn what_cannot_be_is_told_at_its_place() {
        let told = |text: &str, part: &str| {
            let error = read::<Addresses>(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        };
        told("[10.0.0.1,10.0.0.0/33]", "x:1:11");
        told("$NONE", "help: give it a value: --var NONE=VALUE");
        told("$HOME_NETT", "help: is $HOME_NET meant? Or set it: --var HOME_NETT=VALUE");
        told("10.0.0.300", "error: 300 is above 255");
        told("10.0.0.0.1", "error: an IPv4 address is four numbers");
        told("10.0/8", "error: an IPv4 address is four numbers");
        told("10.0.0.01", "error: a number of an IPv4 address begins with 0");
        told("10.0.0.x", "error: cannot be read");
        told("10.0.0.0/40", "error: IPv4 addresses have 32 bits, not 40");
        told("2001:db8::/129", "error: IPv6 addresses have 128 bits, not 129");
        told("10.0.0.0/99999999999", "error: IPv4 addresses have 32 bits, not 9999999999\n");
        told("10.0.0.0/255.0.255.0", "error: the mask 255.0.255.0 is no prefix");
        told("10.0.0.0/", "error: cannot be read");
        told("::/255.0.0.0", "error: cannot be read");
        told("10.0.0.9-10.0.0.1", "error: an empty range: 10.0.0.9 is above 10.0.0.1");
        told("10.0.0.9-::1", "error: a range from an IPv4 address to an IPv6 one");
        told("$LOOP", "in each other");
        told(&"[".repeat(40), "cannot be read");
        told(&format!("{}any", "!".repeat(40)), "in each other");
        told("10.0.0.9-10.0.0.1", "an address");
        assert!(read::<Ports>("9:1").unwrap_err().contains("a port or a range"));
        let told = |text: &str, part: &str| {
            let error = read::<Ports>(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        };
        told("80000", "error: 80000 is above 65535");
        told("1:65536", "error: 65536 is above 65535");
        told("90:80", "error: an empty range: 90 is above 80");
        told("http", "error: cannot be read");
        told("80-90", "error: cannot be read");
        let mut variables = Variables::default();
        assert!(variables.set("X").is_err() && variables.set("X=").is_err());
        assert!(variables.set("$X=any").is_ok() && variables.set("a b=any").is_err());
    }
}
