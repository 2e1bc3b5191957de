//! The reference for lists of addresses: each is asked for one address, as it is written.

use std::net::IpAddr;

/// Whether a list of a rule's header, without variables, names an address; none if it cannot be
/// read.
pub fn names(list: &str, address: IpAddr) -> Option<bool> {
    let list = list.trim();
    if let Some(rest) = list.strip_prefix('!') {
        return Some(!names(rest, address)?);
    }
    if let Some(inner) = list.strip_prefix('[').and_then(|list| list.strip_suffix(']')) {
        let (mut has_wanted, mut is_wanted) = (false, false);
        for item in items(inner) {
            match item.trim().strip_prefix('!') {
                Some(refused) if names(refused, address)? => return Some(false),
                Some(_) => {}
                None => {
                    has_wanted = true;
                    is_wanted |= names(item, address)?;
                }
            }
        }
        return Some(is_wanted || !has_wanted);
    }
    if list.eq_ignore_ascii_case("any") {
        return Some(true);
    }
    if let Some((low, high)) = list.split_once('-') {
        let (low, high): (IpAddr, IpAddr) = (low.trim().parse().ok()?, high.trim().parse().ok()?);
        let is_of_family = low.is_ipv4() == address.is_ipv4();
        return Some(is_of_family && bits(low) <= bits(address) && bits(address) <= bits(high));
    }
    let (prefix, len) = list.split_once('/').unwrap_or((list, "128"));
    let prefix: IpAddr = prefix.trim().parse().ok()?;
    let len = match len.trim().parse::<IpAddr>() {
        Ok(mask) => bits(mask).iter().filter(|&&bit| bit).count(),
        Err(_) => len.trim().parse().ok()?,
    };
    let is_same = bits(prefix).iter().zip(bits(address)).take(len).all(|(a, b)| *a == b);
    Some(prefix.is_ipv4() == address.is_ipv4() && is_same)
}

/// The parts between commas that are in no brackets.
fn items(list: &str) -> Vec<&str> {
    let mut depth = 0;
    list.split(|sign| {
        match sign {
            '[' => depth += 1,
            ']' => depth -= 1,
            _ => {}
        }
        sign == ',' && depth == 0
    })
    .collect()
}

/// The bits of an address, the first one first.
fn bits(address: IpAddr) -> Vec<bool> {
    let bytes = match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    };
    bytes.iter().flat_map(|byte| (0..8).map(move |bit| byte >> (7 - bit) & 1 != 0)).collect()
}
