//! Addresses as arguments.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

use super::{ArgError, FromArg, Names};

/// An Ethernet address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EtherAddress(pub [u8; 6]);

impl fmt::Display for EtherAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes: Vec<String> = self.0.iter().map(|byte| format!("{byte:02X}")).collect();
        f.write_str(&bytes.join("-"))
    }
}

/// Six groups of one or two hex digits, all separated by `:` or all by `-`.
impl FromArg for EtherAddress {
    const EXPECTED: &str = "an Ethernet address, as 00:00:5e:00:53:01";

    fn from_arg(text: &str, names: &dyn Names) -> Result<Self, ArgError> {
        let separator = if text.contains('-') { '-' } else { ':' };
        let mut bytes = [0; 6];
        let mut groups = text.split(separator);
        let is_read = bytes.iter_mut().all(|byte| {
            let group = groups.next().filter(|group| (1..=2).contains(&group.len()));
            let value = group.filter(|group| group.bytes().all(|b| b.is_ascii_hexdigit()));
            value.is_some_and(|hex| u8::from_str_radix(hex, 16).map(|v| *byte = v).is_ok())
        });
        if is_read && groups.next().is_none() {
            return Ok(Self(bytes));
        }
        names.ether(text).ok_or(ArgError::Parse)
    }
}

/// `n.n.n.n`, or a name.
impl FromArg for Ipv4Addr {
    const EXPECTED: &str = "an IPv4 address, as 192.0.2.1";

    fn from_arg(text: &str, names: &dyn Names) -> Result<Self, ArgError> {
        match octets(text) {
            Some((address, 4)) => Ok(address),
            _ => names.ipv4(text).ok_or(ArgError::Parse),
        }
    }
}

/// One to four numbers between points, the rest 0; the second is how many there were.
fn octets(text: &str) -> Option<(Ipv4Addr, usize)> {
    let mut bytes = [0; 4];
    let mut count = 0;
    for part in text.split('.') {
        let is_number = (1..=3).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_digit());
        *bytes.get_mut(count)? = part.parse().ok().filter(|_| is_number)?;
        count += 1;
    }
    Some((bytes.into(), count))
}

/// An IPv4 prefix: `a.b.c.d/len`, `a.b.c/len` where the length covers no more, or with a mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ipv4Prefix {
    /// The address as written, with what lies beyond the mask.
    pub address: Ipv4Addr,
    /// The mask; not always a prefix.
    pub mask: Ipv4Addr,
}

impl Ipv4Prefix {
    /// The prefix of so many bits, at most 32.
    pub fn new(address: Ipv4Addr, len: u8) -> Self {
        let mask = u32::MAX.checked_shl(32 - u32::from(len.min(32))).unwrap_or(0);
        Self { address, mask: mask.into() }
    }

    /// How many bits it has; none if the mask has gaps.
    pub fn len(&self) -> Option<u8> {
        let mask = u32::from(self.mask);
        let ones = mask.leading_ones();
        (mask.count_ones() == ones).then_some(ones as u8)
    }

    /// Whether every address is in it.
    pub fn is_empty(&self) -> bool {
        u32::from(self.mask) == 0
    }

    /// The address without what lies beyond the mask.
    pub fn network(&self) -> Ipv4Addr {
        (u32::from(self.address) & u32::from(self.mask)).into()
    }

    /// Whether `address` is in it.
    pub fn contains(&self, address: Ipv4Addr) -> bool {
        u32::from(address) & u32::from(self.mask) == u32::from(self.network())
    }

    fn parse(text: &str) -> Option<Self> {
        let (head, tail) = text.split_once('/')?;
        let (address, octet_count) = octets(head)?;
        if let Some((mask, 4)) = octets(tail) {
            return (octet_count == 4).then_some(Self { address, mask });
        }
        let is_number = (1..=2).contains(&tail.len()) && tail.bytes().all(|b| b.is_ascii_digit());
        let len: u8 = tail.parse().ok().filter(|len| is_number && *len <= 32)?;
        (octet_count == 4 || usize::from(len) <= 8 * octet_count).then(|| Self::new(address, len))
    }
}

impl FromArg for Ipv4Prefix {
    const EXPECTED: &str = "an IPv4 prefix, as 192.0.2.0/24";

    fn from_arg(text: &str, names: &dyn Names) -> Result<Self, ArgError> {
        Self::parse(text).or_else(|| names.ipv4_prefix(text)).ok_or(ArgError::Parse)
    }
}

/// An IPv4 prefix, or an address for all of its bits. A name of both means the address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BareIpv4Prefix(pub Ipv4Prefix);

impl FromArg for BareIpv4Prefix {
    fn from_arg(text: &str, names: &dyn Names) -> Result<Self, ArgError> {
        let whole = Ipv4Addr::from_arg(text, names).map(|address| Ipv4Prefix::new(address, 32));
        whole.or_else(|_| Ipv4Prefix::from_arg(text, names)).map(Self)
    }
}

/// Colons and hex digits, the last 32 bits perhaps as IPv4 address; or a name.
impl FromArg for Ipv6Addr {
    const EXPECTED: &str = "an IPv6 address, as 2001:db8::1";

    fn from_arg(text: &str, names: &dyn Names) -> Result<Self, ArgError> {
        text.parse().ok().or_else(|| names.ipv6(text)).ok_or(ArgError::Parse)
    }
}

/// An IPv6 prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ipv6Prefix {
    /// The address as written, with what lies beyond the prefix.
    pub address: Ipv6Addr,
    /// Bits, at most 128.
    pub len: u8,
}

impl Ipv6Prefix {
    /// The address without what lies beyond the prefix.
    pub fn network(&self) -> Ipv6Addr {
        let mask = u128::MAX.checked_shl(128 - u32::from(self.len.min(128))).unwrap_or(0);
        (u128::from(self.address) & mask).into()
    }
}

impl FromArg for Ipv6Prefix {
    const EXPECTED: &str = "an IPv6 prefix, as 2001:db8::/32";

    fn from_arg(text: &str, names: &dyn Names) -> Result<Self, ArgError> {
        let parse = || {
            let (address, len) = text.split_once('/')?;
            let is_number = (1..=3).contains(&len.len()) && len.bytes().all(|b| b.is_ascii_digit());
            let address = Ipv6Addr::from_arg(address, names).ok()?;
            if let Ok(mask) = len.parse::<Ipv6Addr>() {
                let mask = u128::from(mask);
                let ones = mask.leading_ones();
                return (mask.count_ones() == ones).then_some(Self { address, len: ones as u8 });
            }
            let len = len.parse().ok().filter(|len| is_number && *len <= 128)?;
            Some(Self { address, len })
        };
        parse().or_else(|| names.ipv6_prefix(text)).ok_or(ArgError::Parse)
    }
}

/// An IPv6 prefix, or an address for all of its bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BareIpv6Prefix(pub Ipv6Prefix);

impl FromArg for BareIpv6Prefix {
    fn from_arg(text: &str, names: &dyn Names) -> Result<Self, ArgError> {
        let whole =
            || Ipv6Addr::from_arg(text, names).map(|address| Ipv6Prefix { address, len: 128 });
        Ipv6Prefix::from_arg(text, names).or_else(|_| whole()).map(Self)
    }
}
