//! Error text for an invalid output number.

/// The numbers that are right where there are so many outputs: `expected 0 to 3`.
pub fn expected(outputs: usize) -> String {
    match outputs {
        0 => "there are no outputs".to_owned(),
        1 => "expected 0, the only output".to_owned(),
        _ => format!("expected 0 to {}", outputs - 1),
    }
}
