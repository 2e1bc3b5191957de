//! Addresses and ports of rule headers: lists, negation, variables.
//!
//! ```text
//! item    = ["!"] ( "any" | "$" NAME | "[" item { "," item } "]" | literal )
//! address = ADDR | ADDR "/" LENGTH | ADDR "/" MASK | ADDR "-" ADDR
//! port    = N | N ":" M | N ":" | ":" M
//! ```
//! A list is what any of its items without `!` gives, all values if it has none, without what those
//! with `!` name.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;
use std::ops::Range;
use std::sync::Arc;

use warpswitch_rules::diagnostic::Diagnostics;

use super::near::nearest;
use super::source::{Part, Skip, Source};
use crate::ranges::{Ranges, Value};
use crate::rule::address_number;

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

/// Values of one kind, read.
pub(super) trait Literal: Value {
    /// How it looks, for errors.
    const LOOKS: &'static str;
    /// The values that a literal names, or why it names none.
    fn read(text: &str) -> Result<Ranges<Self>, String>;
}

/// What is told of a literal of which nothing else is known.
const UNREADABLE: &str = "cannot be read";

impl Literal for u128 {
    const LOOKS: &'static str = "an address, as 10.0.0.1, 10.0.0.0/8 or 2001:db8::/32";

    fn read(text: &str) -> Result<Ranges<u128>, String> {
        if let Some((low, high)) = text.split_once('-') {
            let (low, high) = (address(low)?, address(high)?);
            if low.is_ipv4() != high.is_ipv4() {
                return Err("a range from an IPv4 address to an IPv6 one".into());
            }
            if low > high {
                return Err(format!("an empty range: {low} is above {high}"));
            }
            return Ok(Ranges::range(address_number(low), address_number(high)));
        }
        let (addr, len) = text.split_once('/').map_or((text, None), |(a, l)| (a, Some(l)));
        let addr = address(addr)?;
        let (family, bits_max) = if addr.is_ipv4() { ("IPv4", 32) } else { ("IPv6", 128) };
        let bits = match len.map(str::trim) {
            None => bits_max,
            Some(len) if !len.is_empty() && len.bytes().all(|byte| byte.is_ascii_digit()) => {
                let bits = len.parse().ok().filter(|&bits: &u32| bits <= bits_max);
                let why = || format!("{family} addresses have {bits_max} bits, not {len:.10}");
                bits.ok_or_else(why)?
            }
            Some(mask) if addr.is_ipv4() => mask_bits(mask)?,
            Some(_) => return Err(UNREADABLE.into()),
        };
        let host = u128::MAX.checked_shr(bits + 128 - bits_max).unwrap_or(0);
        let number = address_number(addr);
        Ok(Ranges::range(number & !host, number | host))
    }
}

fn address(text: &str) -> Result<IpAddr, String> {
    let text = text.trim();
    text.parse().map_err(|_| why_no_address(text))
}

/// Why a text is no address, if it looks like one of IPv4.
fn why_no_address(text: &str) -> String {
    let numbers: Vec<&str> = text.split('.').take(6).collect();
    let is_number = |text: &&str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if numbers.len() < 2 || !numbers.iter().all(is_number) {
        return UNREADABLE.into();
    }
    if numbers.len() != 4 {
        return "an IPv4 address is four numbers".into();
    }
    match numbers.iter().find(|number| number.parse::<u8>().is_err()) {
        Some(number) => format!("{number:.10} is above 255"),
        None => "a number of an IPv4 address begins with 0".into(),
    }
}

/// The length of a dotted mask.
fn mask_bits(text: &str) -> Result<u32, String> {
    let mask = match address(text)? {
        IpAddr::V4(mask) => u32::from(mask),
        IpAddr::V6(_) => return Err(UNREADABLE.into()),
    };
    match mask.count_ones() == mask.leading_ones() {
        true => Ok(mask.leading_ones()),
        false => Err(format!("the mask {text} is no prefix: it has a 0 before a 1")),
    }
}

impl Literal for u16 {
    const LOOKS: &'static str = "a port or a range, as 80, 1024: or 8000:8080";

    fn read(text: &str) -> Result<Ranges<u16>, String> {
        let (low, high) = match text.split_once(':') {
            None => {
                let port = port(text)?;
                (port, port)
            }
            Some((low, high)) => {
                let low = if low.trim().is_empty() { 0 } else { port(low)? };
                let high = if high.trim().is_empty() { u16::MAX } else { port(high)? };
                (low, high)
            }
        };
        match low <= high {
            true => Ok(Ranges::range(low, high)),
            false => Err(format!("an empty range: {low} is above {high}")),
        }
    }
}

fn port(text: &str) -> Result<u16, String> {
    let text = text.trim();
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().map_err(|_| match is_number {
        true => format!("{text:.10} is above 65535"),
        false => UNREADABLE.into(),
    })
}

/// Sets that were read, by their text: rules name the same ones again and again.
pub(super) struct Sets<'v, T> {
    variables: &'v Variables,
    known: BTreeMap<String, Option<Arc<Ranges<T>>>>,
}

impl<'v, T: Literal> Sets<'v, T> {
    pub(super) fn new(variables: &'v Variables) -> Self {
        Self { variables, known: BTreeMap::new() }
    }

    /// Whether a rule asked for the variable `name`.
    pub(super) fn uses(&self, name: &str) -> bool {
        self.known.contains_key(&format!("${name}"))
    }

    /// The set that `span` of `source` names.
    pub(super) fn read(
        &mut self,
        source: &Source<'_>,
        span: Range<usize>,
        errors: &mut Diagnostics,
    ) -> Part<Arc<Ranges<T>>> {
        let text = source.text(&span);
        if let Some(Some(known)) = self.known.get(&text) {
            return Ok(Arc::clone(known));
        }
        let set = Arc::new(self.item(source, span, errors, 0)?);
        if self.known.len() < 1 << 12 {
            self.known.insert(text, Some(Arc::clone(&set)));
        }
        Ok(set)
    }

    fn item(
        &mut self,
        source: &Source<'_>,
        span: Range<usize>,
        errors: &mut Diagnostics,
        depth: usize,
    ) -> Part<Ranges<T>> {
        let span = source.trim(span);
        if depth > NESTING_MAX {
            let message = format!("more than {NESTING_MAX} lists and variables in each other");
            return Err(source.tell(errors, span, &message, "fewer", ""));
        }
        match source.bytes[span.clone()] {
            [b'!', ..] => {
                let set = self.item(source, span.start + 1..span.end, errors, depth + 1)?;
                Ok(set.complement())
            }
            [b'$', ..] => self.variable(source, span, errors, depth),
            [b'[', .., b']'] => self.list(source, span.start + 1..span.end - 1, errors, depth),
            _ => {
                let text = source.text(&span);
                if text.eq_ignore_ascii_case("any") {
                    return Ok(Ranges::all());
                }
                T::read(&text).map_err(|why| source.tell(errors, span, &why, T::LOOKS, ""))
            }
        }
    }

    fn list(
        &mut self,
        source: &Source<'_>,
        span: Range<usize>,
        errors: &mut Diagnostics,
        depth: usize,
    ) -> Part<Ranges<T>> {
        let mut with: Option<Ranges<T>> = None;
        let mut without = Ranges::none();
        for item in source.split_commas(span) {
            if let [b'!', ..] = source.bytes[item.clone()] {
                let set = self.item(source, item.start + 1..item.end, errors, depth + 1)?;
                without = without.union(&set);
            } else {
                let set = self.item(source, item, errors, depth + 1)?;
                with = Some(with.unwrap_or_else(Ranges::none).union(&set));
            }
        }
        Ok(with.unwrap_or_else(Ranges::all).without(&without))
    }

    fn variable(
        &mut self,
        source: &Source<'_>,
        span: Range<usize>,
        errors: &mut Diagnostics,
        depth: usize,
    ) -> Part<Ranges<T>> {
        let name = source.text(&(span.start + 1..span.end));
        let Some(value) = self.variables.values.get(&name) else {
            // Of many errors only some are kept.
            let known = self.variables.values.keys().map(String::as_str);
            let meant = if errors.wants_more() { nearest(&name, known) } else { None };
            let help = match meant {
                Some(meant) => format!("is ${meant} meant? Or set it: --var {name}=VALUE"),
                None => format!("give it a value: --var {name}=VALUE"),
            };
            return Err(source.tell(errors, span, "no such variable", "one that is set", &help));
        };
        let key = format!("${name}");
        match self.known.get(&key) {
            Some(Some(set)) => return Ok(set.as_ref().clone()),
            // It was told where the value is read first.
            Some(None) => return Err(Skip::Told),
            None => {}
        }
        let place = format!("--var {name}");
        let inner = Source::new(&place, value.as_bytes());
        let set = self.item(&inner, 0..value.len(), errors, depth + 1);
        self.known.insert(key, set.as_ref().ok().map(|set| Arc::new(set.clone())));
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read<T: Literal>(text: &str) -> Result<Ranges<T>, String> {
        let mut variables = Variables::default();
        variables.set("A=[10.0.0.0/8,!10.1.0.0/16]").unwrap();
        variables.set("LOOP=$LOOP").unwrap();
        let mut errors = Diagnostics::default();
        let source = Source::new("x", text.as_bytes());
        let set = Sets::new(&variables).read(&source, 0..text.len(), &mut errors);
        match set {
            Ok(set) => Ok(set.as_ref().clone()),
            Err(_) => Err(errors.to_string()),
        }
    }

    fn has(text: &str, address: &str) -> bool {
        read::<u128>(text).unwrap().contains(address_number(address.parse().unwrap()))
    }

    #[test]
    fn lists_take_away_what_they_negate() {
        assert!(has("any", "10.0.0.1") && has("any", "::1"));
        assert!(has("$A", "10.0.0.1") && !has("$A", "10.1.0.1") && !has("$A", "11.0.0.0"));
        assert!(!has("!$A", "10.0.0.1") && has("!$A", "10.1.0.1") && has("!$A", "::1"));
        assert!(has("[ !10.0.0.0/8 , !::1 ]", "11.0.0.0") && !has("[!10.0.0.0/8,!::1]", "::1"));
        assert!(has("10.0.0.0/255.0.0.0", "10.9.9.9") && has("10.0.0.1-10.0.0.3", "10.0.0.2"));
        assert!(has("[10.0.0.1,[2001:db8::/32,!2001:db8::1]]", "2001:db8::2"));
        let ports = read::<u16>("[80,1024:,!2000:3000]").unwrap();
        assert!(ports.contains(80) && ports.contains(65535) && !ports.contains(2500));
        assert!(!ports.contains(81) && read::<u16>(":9").unwrap().contains(0));
        assert!(read::<u16>("!any").unwrap().is_none());
    }

    #[test]
    fn what_cannot_be_is_told_at_its_place() {
        let told = |text: &str, part: &str| {
            let error = read::<u128>(text).unwrap_err();
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
        assert!(read::<u16>("9:1").unwrap_err().contains("a port or a range"));
        let told = |text: &str, part: &str| {
            let error = read::<u16>(text).unwrap_err();
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
