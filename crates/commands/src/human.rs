//! Numbers as people read them.

use std::time::Duration;

/// `1234567` as `1,234,567`.
pub fn count(number: impl TryInto<u64>) -> String {
    let digits = number.try_into().unwrap_or(u64::MAX).to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (idx, digit) in digits.chars().enumerate() {
        if idx > 0 && (digits.len() - idx).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A count with its noun: `1 rule`, `2 rules`.
pub fn counted(number: usize, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", count(number as u64))
}

/// Bytes in the unit that leaves at most four digits.
pub fn bytes(bytes: usize) -> String {
    let mut value = bytes as f64;
    for unit in ["B", "KiB", "MiB", "GiB"] {
        if value < 1000.0 {
            let decimals = usize::from(unit != "B" && value < 100.0);
            return format!("{value:.decimals$} {unit}");
        }
        value /= 1024.0;
    }
    format!("{value:.1} TiB")
}

/// Three significant digits.
pub fn significant(value: f64) -> String {
    let decimals = match value.abs() {
        v if v >= 99.95 => 0,
        v if v >= 9.995 => 1,
        v if v >= 0.9995 => 2,
        v if v >= 0.09995 => 3,
        0.0 => 0,
        _ => 4,
    };
    format!("{value:.decimals$}")
}

/// Three significant digits and a letter: `1.50K`, `12.3M`.
pub fn scaled(value: f64) -> String {
    for (unit, letter) in [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "K")] {
        if value >= 0.9995 * unit {
            return format!("{}{letter}", significant(value / unit));
        }
    }
    // Whole numbers below a thousand stay as they are.
    if value.fract() == 0.0 { format!("{value:.0}") } else { significant(value) }
}

/// So many decimals and no more: the rest of a measured number is noise.
pub fn rounded(value: f64, decimals: i32) -> f64 {
    let scale = 10f64.powi(decimals);
    (value * scale).round() / scale
}

/// A rate in packets per second, in the unit that leaves few digits.
pub fn rate(per_second: f64) -> String {
    match per_second {
        r if r >= 1e6 => format!("{} Mpps", significant(r / 1e6)),
        r if r >= 1e3 => format!("{} Kpps", significant(r / 1e3)),
        r => format!("{} pps", significant(r)),
    }
}

/// A rate in bits per second, in the unit that leaves few digits.
pub fn bit_rate(per_second: f64) -> String {
    match per_second {
        r if r >= 1e9 => format!("{} Gbit/s", significant(r / 1e9)),
        r if r >= 1e6 => format!("{} Mbit/s", significant(r / 1e6)),
        r => format!("{} Kbit/s", significant(r / 1e3)),
    }
}

/// A time in the unit that leaves few digits.
pub fn time(time: Duration) -> String {
    match time.as_secs_f64() {
        s if s >= 0.9995 => format!("{} s", significant(s)),
        s if s >= 0.9995e-3 => format!("{} ms", significant(s * 1e3)),
        s => format!("{} us", significant(s * 1e6)),
    }
}

/// A part of a whole in percent.
pub fn percent(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "-".into();
    }
    format!("{:.1} %", part as f64 * 100.0 / whole as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        for (number, text) in [(0u64, "0"), (999, "999"), (1000, "1,000"), (12345678, "12,345,678")]
        {
            assert_eq!(count(number), text);
        }
        for (number, text) in [(0.0, "0"), (0.01234, "0.0123"), (1.0, "1.00"), (99.96, "100")] {
            assert_eq!(significant(number), text);
        }
        for (number, text) in [(12, "12 B"), (1000, "1.0 KiB"), (5 << 20, "5.0 MiB")] {
            assert_eq!(bytes(number), text);
        }
        assert_eq!(rate(123_456_789.0), "123 Mpps");
        for (number, text) in [(0.0, "0"), (999.0, "999"), (0.5, "0.500"), (1e15, "1000T")] {
            assert_eq!(scaled(number), text);
        }
        assert_eq!((scaled(1500.0), scaled(999_999.0)), ("1.50K".into(), "1.00M".into()));
        assert_eq!(rate(1_500.0), "1.50 Kpps");
        assert_eq!(time(Duration::from_micros(1500)), "1.50 ms");
        assert_eq!(counted(1, "rule"), "1 rule");
        assert_eq!(counted(2000, "rule"), "2,000 rules");
        assert_eq!(percent(1, 3), "33.3 %");
    }
}
