//! Addresses and ports of rule headers, one by one.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::addresses::Addresses;
use crate::ranges::Set;
use crate::rule::Ports;

/// Values of one kind, read.
pub(super) trait Literal: Set {
    /// What the values are.
    const NAME: &'static str;
    /// How a literal looks, for errors.
    const LOOKS: &'static str;
    /// The values that a literal names, or why it names none.
    fn read(text: &str) -> Result<Self, String>;
}

/// What is told of a literal of which nothing else is known.
const UNREADABLE: &str = "cannot be read";

impl Literal for Addresses {
    const NAME: &'static str = "addresses";
    const LOOKS: &'static str = "an address, as 10.0.0.1, 10.0.0.0/8 or 2001:db8::/32";

    fn read(text: &str) -> Result<Self, String> {
        if let Some((low, high)) = text.split_once('-') {
            let (low, high) = (address(low)?, address(high)?);
            if low.is_ipv4() != high.is_ipv4() {
                return Err("a range from an IPv4 address to an IPv6 one".into());
            }
            if low > high {
                return Err(format!("an empty range: {low} is above {high}"));
            }
            return Ok(Self::range(low, high));
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
        Ok(prefix(addr, bits))
    }
}

/// The addresses whose first `bits` are those of `address`.
fn prefix(address: IpAddr, bits: u32) -> Addresses {
    match address {
        IpAddr::V4(address) => {
            let (number, host) = (u32::from(address), u32::MAX.checked_shr(bits).unwrap_or(0));
            Addresses::range(
                Ipv4Addr::from(number & !host).into(),
                Ipv4Addr::from(number | host).into(),
            )
        }
        IpAddr::V6(address) => {
            let (number, host) = (u128::from(address), u128::MAX.checked_shr(bits).unwrap_or(0));
            Addresses::range(
                Ipv6Addr::from(number & !host).into(),
                Ipv6Addr::from(number | host).into(),
            )
        }
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

impl Literal for Ports {
    const NAME: &'static str = "ports";
    const LOOKS: &'static str = "a port or a range, as 80, 1024: or 8000:8080";

    fn read(text: &str) -> Result<Self, String> {
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
            true => Ok(Self::range(low, high)),
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
