//! Locality of traces: runs of equal keys whose lengths follow a Pareto distribution, computed with
//! integers alone.
//!
//! A Pareto variable with shape a and scale b is b / u^(1/a) for a uniform u in (0, 1], so
//!
//! ```text
//! log2 length = log2 b + (32 − log2 U) / a      U uniform in 1..=2^32, u = U / 2^32
//! ```
//! rounded up, and at least 1. Logarithms are fixed-point numbers with 24 bits behind the point:
//! one bit per squaring to take one, one factor 2^(2^−i) per bit to undo it.
//!
//! # Source
//! ClassBench's trace generator draws its runs so; it calls a and b the locality parameters, and
//! 1 and 0.1 is what its users set for moderate locality.

use std::fmt;
use std::str::FromStr;

use super::prng::Prng;

/// The most keys in one run.
pub const RUN_MAX: u32 = 1 << 24;

/// Bits behind the point of a logarithm.
pub(super) const POINT: u32 = 24;

/// How long runs of equal keys are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pareto {
    shape_milli: u32,
    scale_milli: u32,
}

/// Text that is no pair of locality parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadPareto(String);

impl fmt::Display for BadPareto {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = &self.0;
        write!(
            f,
            "invalid locality '{text}'; expected 'SHAPE,SCALE', each above 0, at most 1000 and \
             with at most three decimals, such as '1,0.1'"
        )
    }
}

impl std::error::Error for BadPareto {}

impl Pareto {
    /// ClassBench's usual locality: shape 1, scale 0.1. Nine runs in ten have one key.
    pub const CLASSBENCH: Pareto = Pareto { shape_milli: 1000, scale_milli: 100 };

    /// Shape and scale in thousandths, each above 0 and at most a million.
    pub fn new(shape_milli: u32, scale_milli: u32) -> Option<Self> {
        let allowed = 1..=1_000_000;
        let is_allowed = allowed.contains(&shape_milli) && allowed.contains(&scale_milli);
        is_allowed.then_some(Self { shape_milli, scale_milli })
    }

    /// Draws the length of a run: 1 to [`RUN_MAX`] keys.
    pub fn draw(&self, prng: &mut Prng) -> u32 {
        let uniform = prng.below(1 << 32) + 1;
        let exponent = (32 << POINT) - log2(uniform);
        let stretched = exponent * 1000 / i64::from(self.shape_milli);
        let log_length = log2(u64::from(self.scale_milli)) - log2(1000) + stretched;
        if log_length <= 0 {
            return 1;
        }
        if log_length >> POINT >= i64::from(RUN_MAX.ilog2()) {
            return RUN_MAX;
        }
        let length = exp2(log_length);
        u32::try_from((length + 0xffff) >> 16).unwrap_or(RUN_MAX).clamp(1, RUN_MAX)
    }
}

impl FromStr for Pareto {
    type Err = BadPareto;

    /// Reads `A,B`, decimal numbers.
    fn from_str(text: &str) -> Result<Self, BadPareto> {
        let parsed = text.split_once(',').and_then(|(a, b)| Pareto::new(milli(a)?, milli(b)?));
        parsed.ok_or_else(|| BadPareto(text.to_owned()))
    }
}

/// A decimal number in thousandths.
pub(super) fn milli(text: &str) -> Option<u32> {
    let (whole, decimals) = text.trim().split_once('.').unwrap_or((text.trim(), ""));
    let is_digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    if !is_digits(whole) || !is_digits(decimals) || decimals.len() > 3 || whole.len() > 7 {
        return None;
    }
    if whole.is_empty() && decimals.is_empty() {
        return None;
    }
    let whole: u32 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let thousandths: u32 = format!("{decimals:0<3}").parse().ok()?;
    whole.checked_mul(1000)?.checked_add(thousandths)
}

/// The binary logarithm of `x`, which is not zero, rounded down.
pub(super) fn log2(x: u64) -> i64 {
    let whole = x.ilog2();
    // In [1, 2), 63 bits behind the point.
    let mut mantissa = x << (63 - whole);
    let mut log = i64::from(whole);
    for _ in 0..POINT {
        let square = u128::from(mantissa) * u128::from(mantissa);
        // The square is in [1, 4) with 126 bits behind the point.
        let is_above_two = square >> 127 == 1;
        mantissa = (square >> if is_above_two { 64 } else { 63 }) as u64;
        log = log << 1 | i64::from(is_above_two);
    }
    log
}

/// Two to the power of `log`, which lies in 0 to 40: 16 bits behind the point.
pub(super) fn exp2(log: i64) -> u64 {
    let mut power = 1u128 << 62;
    for (idx, root) in ROOTS.iter().enumerate() {
        if log >> (POINT as usize - 1 - idx) & 1 == 1 {
            power = (power * u128::from(*root)) >> 62;
        }
    }
    (power >> (46 - (log >> POINT))) as u64
}

/// `ROOTS[i]` is 2^(2^-(i+1)), 62 bits behind the point.
const ROOTS: [u64; POINT as usize] = {
    let mut roots = [0; POINT as usize];
    let mut power = 2u128 << 62;
    let mut idx = 0;
    while idx < roots.len() {
        power = (power << 62).isqrt();
        roots[idx] = power as u64;
        idx += 1;
    }
    roots
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithms_are_near_the_real_ones_and_undone() {
        for x in [1u64, 2, 3, 7, 10, 1000, 65_537, (1 << 32) - 1, 1 << 32] {
            let near = log2(x) as f64 / f64::from(1u32 << POINT);
            assert!((near - (x as f64).log2()).abs() < 1e-6, "{x}: {near}");
            let back = exp2(log2(x)) as f64 / 65_536.0;
            assert!((back / x as f64 - 1.0).abs() < 1e-4, "{x}: {back}");
        }
    }

    #[test]
    fn lengths_follow_the_distribution() {
        // P(length > k) = (b / k)^a for k >= b.
        let cases =
            [((1000, 100), 0.1), ((1000, 1000), 1.0), ((2000, 1000), 1.0), ((500, 250), 0.25)];
        for ((shape, scale), b) in cases {
            let pareto = Pareto::new(shape, scale).unwrap();
            let mut prng = Prng::new(11);
            let mut above = [0u32; 20];
            let draws = 100_000;
            for _ in 0..draws {
                let length = pareto.draw(&mut prng);
                assert!((1..=RUN_MAX).contains(&length));
                for (k, count) in above.iter_mut().enumerate().skip(1) {
                    *count += u32::from(length as usize > k);
                }
            }
            for k in [1, 2, 5, 19] {
                let a = f64::from(shape) / 1000.0;
                let expected = (b / k as f64).powf(a).min(1.0);
                let found = f64::from(above[k]) / f64::from(draws);
                assert!(
                    (found - expected).abs() < 0.006,
                    "{shape} {scale} {k}: {found} {expected}"
                );
            }
        }
    }

    #[test]
    fn parameters_are_read_and_refused() {
        assert_eq!("1,0.1".parse(), Ok(Pareto::CLASSBENCH));
        assert_eq!("1.5, .25".parse(), Ok(Pareto { shape_milli: 1500, scale_milli: 250 }));
        for text in ["", "1", "1,0", "0,1", "-1,1", "1,0.0001", "1,2,3", "a,b", "1001,1", ".,1"] {
            assert!(text.parse::<Pareto>().is_err(), "{text}");
        }
    }
}
