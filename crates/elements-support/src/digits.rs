//! Numbers, addresses and times as text, for elements that describe every packet: the formatting
//! machinery of the standard library takes several times as long.

use std::net::Ipv4Addr;

use itoa::{Buffer, Integer};

/// Appends `number` in decimal.
pub fn decimal(out: &mut String, number: impl Integer) {
    out.push_str(Buffer::new().format(number));
}

/// Appends `number` in decimal, with zeros in front up to `digits` digits.
pub fn padded(out: &mut String, number: u64, digits: usize) {
    const ZEROS: &str = "00000000000000000000";
    let mut buffer = Buffer::new();
    let text = buffer.format(number);
    let missing = digits.saturating_sub(text.len()).min(ZEROS.len());
    out.push_str(&ZEROS[..missing]);
    out.push_str(text);
}

/// Appends an address in dotted form.
pub fn dotted(out: &mut String, address: Ipv4Addr) {
    for (idx, octet) in address.octets().into_iter().enumerate() {
        if idx > 0 {
            out.push('.');
        }
        decimal(out, octet);
    }
}

/// Appends a part of a second: six digits, or nine if there are nanoseconds.
pub fn fraction(out: &mut String, ns: u64) {
    match ns % 1000 {
        0 => padded(out, ns / 1000, 6),
        _ => padded(out, ns, 9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(write: impl FnOnce(&mut String)) -> String {
        let mut out = String::new();
        write(&mut out);
        out
    }

    #[test]
    fn writes_what_the_standard_library_writes() {
        for number in [0u64, 7, 10, 999, 65_535, u64::MAX] {
            assert_eq!(text(|out| decimal(out, number)), number.to_string());
            assert_eq!(text(|out| padded(out, number, 6)), format!("{number:06}"));
            assert_eq!(text(|out| padded(out, number, 9)), format!("{number:09}"));
        }
        for address in [Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST, Ipv4Addr::new(10, 0, 100, 7)] {
            assert_eq!(text(|out| dotted(out, address)), address.to_string());
        }
        assert_eq!(text(|out| fraction(out, 5_000)), "000005");
        assert_eq!(text(|out| fraction(out, 5_001)), "000005001");
    }
}
