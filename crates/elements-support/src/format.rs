//! Numbers and times as text, in the formats of Click's handlers and messages.

use std::time::Duration;

use warpswitch_graph::language::args::{FromArg, NoNames};
use warpswitch_graph::{Context, HandlerError, Time};
use warpswitch_packet::packet::PACKET_BYTES_MAX;

/// Reads what was written to a handler.
pub fn parse<T: FromArg>(value: &str) -> Result<T, HandlerError> {
    T::from_arg(value.trim(), &NoNames).map_err(|error| HandlerError::failed(error.to_string()))
}

/// Reads what was written to a handler, with the names that its element sees.
pub fn parse_seen<T: FromArg>(cx: &Context<'_>, value: &str) -> Result<T, HandlerError> {
    T::from_arg(value.trim(), &cx.names()).map_err(|error| HandlerError::failed(error.to_string()))
}

/// Bytes for packets that were written to a handler.
pub fn packet_data(value: &str) -> Result<Vec<u8>, HandlerError> {
    match value.len() {
        0..=PACKET_BYTES_MAX => Ok(value.as_bytes().to_vec()),
        _ => Err(HandlerError::failed("too many bytes for a packet")),
    }
}

/// `value` thousandths, millionths …: `digits` digits stand behind the point, but no zeros at the
/// end.
pub fn decimal(value: u64, digits: u32) -> String {
    let unit = 10u64.pow(digits);
    let fraction = format!("{:0width$}", value % unit, width = digits as usize);
    match fraction.trim_end_matches('0') {
        "" => (value / unit).to_string(),
        fraction => format!("{}.{fraction}", value / unit),
    }
}

/// A number with `bits` fractional bits (at most 32), with as few digits as distinguish it from its
/// neighbours.
pub fn binary(value: u64, bits: u32) -> String {
    let one = 1u64 << bits;
    let (whole, fraction) = (value >> bits, value & (one - 1));
    if fraction == 0 {
        return whole.to_string();
    }
    for digits in 1..10 {
        let unit = 10u128.pow(digits);
        let rounded = (u128::from(fraction) * unit + u128::from(one / 2)) >> bits;
        let back = (rounded * u128::from(one) + unit / 2) / unit;
        if back == u128::from(fraction) && rounded < unit {
            return decimal(whole * unit as u64 + rounded as u64, digits);
        }
    }
    format!("{}", value as f64 / one as f64)
}

/// A bandwidth, given in bytes a second.
pub fn bandwidth(bytes_per_second: u64) -> String {
    match bytes_per_second {
        0x2000_0000.. => format!("{}MBps", decimal(bytes_per_second, 6)),
        125_000_000.. => format!("{}Gbps", decimal(bytes_per_second * 8, 9)),
        125_000.. => format!("{}Mbps", decimal(bytes_per_second * 8, 6)),
        _ => format!("{}kbps", decimal(bytes_per_second * 8, 3)),
    }
}

/// A time in nanoseconds: seconds with six digits behind the point, nine if they are needed.
pub fn timestamp(ns: impl Into<i128>) -> String {
    let ns: i128 = ns.into();
    let sign = if ns < 0 { "-" } else { "" };
    let ns = ns.unsigned_abs();
    let (seconds, rest) = (ns / 1_000_000_000, ns % 1_000_000_000);
    if rest % 1_000 == 0 {
        format!("{sign}{seconds}.{:06}", rest / 1_000)
    } else {
        format!("{sign}{seconds}.{rest:09}")
    }
}

/// How long something takes.
pub fn interval(time: Duration) -> String {
    let ns = time.as_nanos();
    if ns >= Time::SECOND as u128 {
        return format!("{}s", timestamp(i128::try_from(ns).unwrap_or(i128::MAX)));
    }
    match ns {
        ns if ns % 1_000_000 == 0 => format!("{}ms", ns / 1_000_000),
        ns if ns % 1_000 == 0 => format!("{}us", ns / 1_000),
        ns => format!("{ns}ns"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_look_as_in_click() {
        assert_eq!(
            (decimal(1500, 3), decimal(2000, 3), decimal(7, 3)),
            ("1.5".into(), "2".into(), "0.007".into())
        );
        for (value, bits, text) in [
            (0x8000, 16, "0.5"),
            (0x10000, 16, "1"),
            (1, 10, "0.001"),
            (655, 16, "0.01"),
            (3 << 10 | 1 << 8, 10, "3.25"),
            (0xffff, 16, "0.99998"),
        ] {
            assert_eq!(binary(value, bits), text);
        }
        for (bytes, text) in [
            (200, "1.6kbps"),
            (125_000, "1Mbps"),
            (250_000_000, "2Gbps"),
            (1_000_000_000, "1000MBps"),
            (0, "0kbps"),
        ] {
            assert_eq!(bandwidth(bytes), text);
        }
        assert_eq!(timestamp(1_500_000_000), "1.500000");
        assert_eq!((timestamp(1), timestamp(-1_000)), ("0.000000001".into(), "-0.000001".into()));
        for (ns, text) in [
            (0, "0ms"),
            (5_000_000, "5ms"),
            (1_500_000, "1500us"),
            (7, "7ns"),
            (1_000_000_000, "1.000000s"),
        ] {
            assert_eq!(interval(Duration::from_nanos(ns)), text);
        }
    }
}
