//! Pairs of prefix lengths as a map of text: source down, destination across.

use warpswitch_rules::analysis::Count;

use crate::term::{FAINT, HEADING, paint};

/// Cells of a line; one more for "not examined" comes first.
const STEPS: usize = 8;

/// Draws the share of rules, in percent, of each pair of prefix lengths; a cell holds
/// lengths up to its name and above the one before.
pub fn draw(pairs: &[Count<(usize, usize)>], address_bits: usize) -> String {
    let step = (address_bits / STEPS).max(1);
    let place = |len: usize| len.div_ceil(step);
    let total: usize = pairs.iter().map(|count| count.rules).sum();
    let mut cells = [[0usize; STEPS + 1]; STEPS + 1];
    for count in pairs {
        cells[place(count.of.0)][place(count.of.1)] += count.rules;
    }
    let name = |place: usize| match place {
        0 => "any".to_owned(),
        _ => format!("≤{}", place * step),
    };
    let mut text = format!("  {}", paint(HEADING, format!("{:>7}", "src\\dst")));
    for column in 0..=STEPS {
        text += &paint(HEADING, format!("{:>7}", name(column)));
    }
    text.push('\n');
    for (row, line) in cells.iter().enumerate() {
        text += &format!("  {}", paint(HEADING, format!("{:>7}", name(row))));
        for &rules in line {
            text += &cell(rules, total);
        }
        text.push('\n');
    }
    text
}

/// A share in percent with a shade before it.
fn cell(rules: usize, total: usize) -> String {
    if rules == 0 {
        return paint(FAINT, format!("{:>7}", "·"));
    }
    let percent = rules as f64 * 100.0 / total as f64;
    let shade = match percent {
        p if p >= 20.0 => '█',
        p if p >= 8.0 => '▓',
        p if p >= 2.0 => '▒',
        _ => '░',
    };
    let number = match percent {
        p if p < 0.05 => "<0.1".to_owned(),
        p => format!("{p:.1}"),
    };
    format!("{:>7}", format!("{shade}{number:>5}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_has_a_cell() {
        let pairs = vec![
            Count { of: (0, 32), rules: 1 },
            Count { of: (32, 0), rules: 2 },
            Count { of: (1, 4), rules: 1 },
        ];
        let plain = anstream::adapter::strip_str(&draw(&pairs, 32)).to_string();
        let lines: Vec<&str> = plain.lines().collect();
        assert_eq!(lines.len(), STEPS + 2);
        assert!(lines[0].ends_with("≤32"));
        assert!(lines[1].ends_with(" 25.0"), "{plain}");
        assert!(lines[9].contains("50.0"));
        assert!(lines.iter().all(|line| line.chars().count() == 72));
    }
}
