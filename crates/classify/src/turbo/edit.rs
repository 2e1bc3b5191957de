//! The rows of one leaf while a rule comes or goes.
//!
//! Rows that are not hidden come first, then hidden ones, both in order of precedence; see `leaf`
//! for what hides a row. A change looks at pairs of the changed row with the others only: what
//! hides a row hides also what the row would have hidden.

use warpswitch_rules::{Precedence, RuleId};

use super::leaf::{Layout, hides};
use super::rows::RowFormat;

/// Rows of a leaf, one after the other.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    pub(crate) words: Vec<u32>,
    /// How many are not hidden.
    pub(crate) visible: usize,
}

/// Precedence of a row.
pub(crate) fn precedence(format: &RowFormat, row: &[u32]) -> Precedence {
    let priority = format.priority(|column| row[column]);
    Precedence::new(priority, RuleId(row[format.id_column()]))
}

impl Rows {
    pub(crate) fn len(&self, format: &RowFormat) -> usize {
        self.words.len() / format.columns()
    }

    fn row<'a>(&'a self, format: &RowFormat, number: usize) -> &'a [u32] {
        &self.words[number * format.columns()..][..format.columns()]
    }

    /// The place of `row` among the rows `from..to`.
    fn place(&self, format: &RowFormat, row: &[u32], from: usize, to: usize) -> usize {
        let wins =
            |other: &usize| precedence(format, self.row(format, *other)) < precedence(format, row);
        from + (from..to).take_while(wins).count()
    }

    fn put(&mut self, columns: usize, at: usize, row: &[u32]) {
        self.words.splice(at * columns..at * columns, row.iter().copied());
    }

    fn take(&mut self, columns: usize, at: usize) -> Vec<u32> {
        self.words.drain(at * columns..(at + 1) * columns).collect()
    }

    /// Enters `row`, given the bits that decide the way to this leaf.
    pub(crate) fn insert(&mut self, format: &RowFormat, row: &[u32], fixed: &[u32; 4]) {
        let columns = format.columns();
        let at = self.place(format, row, 0, self.visible);
        let lanes = format.layout == Layout::Lanes;
        if lanes && (0..at).any(|above| hides(self.row(format, above), row, fixed)) {
            let at = self.place(format, row, self.visible, self.len(format));
            return self.put(columns, at, row);
        }
        self.put(columns, at, row);
        self.visible += 1;
        let mut below = at + 1;
        while lanes && below < self.visible {
            if hides(row, self.row(format, below), fixed) {
                let hidden = self.take(columns, below);
                self.visible -= 1;
                let at = self.place(format, &hidden, self.visible, self.len(format));
                self.put(columns, at, &hidden);
            } else {
                below += 1;
            }
        }
    }

    /// Takes `row` out, which is there.
    pub(crate) fn remove(&mut self, format: &RowFormat, row: &[u32], fixed: &[u32; 4]) {
        let columns = format.columns();
        let at = self.words.chunks_exact(columns).position(|other| other == row);
        let at = at.expect("every copy of a rule is where it was entered");
        self.take(columns, at);
        if at >= self.visible {
            return;
        }
        self.visible -= 1;
        // In order of precedence, so what appears hides what it must before that is looked at.
        let mut hidden = self.visible;
        while hidden < self.len(format) {
            let other = self.row(format, hidden);
            let place = self.place(format, other, 0, self.visible);
            let freed = hides(row, other, fixed)
                && !(0..place).any(|above| hides(self.row(format, above), other, fixed));
            if freed {
                let other = self.take(columns, hidden);
                self.put(columns, place, &other);
                self.visible += 1;
            }
            hidden += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::SeedStream;
    use crate::turbo::rows::nested;
    use warpswitch_rules::MatchRef;

    /// After any changes rows are what entering those that are left in order would give.
    #[test]
    fn what_is_hidden_depends_on_the_rows_alone() {
        let set = nested(60, 4);
        let format = RowFormat::for_rules(&set).with_lanes(&set).expect("plain rules fit lanes");
        // Rows of one leaf agree with each other where the way there is decided.
        let cell = [0x0a01_0100, 0x0a01_0101, 0x1234_0050, 0x0600_0000];
        let rows_of = |fixed: &[u32; 4]| -> Vec<Vec<u32>> {
            let in_cell = set.iter().filter(|rule| {
                let MatchRef { value, mask, .. } = rule.matching;
                (0..4).all(|n| (value[n] ^ cell[n]) & mask[n] & fixed[n] == 0)
            });
            let encode = |rule| {
                let mut row = vec![0; format.columns()];
                format.encode(rule, &mut row);
                row
            };
            in_cell.map(encode).collect()
        };
        let mut seeds = SeedStream::new(3, 3);
        let mut hidden_most = 0;
        for fixed in [[0; 4], [u32::MAX; 4], [0xffff_0000, 0, 0, 0xff00_0000]] {
            let all = rows_of(&fixed);
            let (mut rows, mut there) = (Rows::default(), vec![false; all.len()]);
            for _ in 0..600 {
                let idx = seeds.next() as usize % all.len();
                match there[idx] {
                    false => rows.insert(&format, &all[idx], &fixed),
                    true => rows.remove(&format, &all[idx], &fixed),
                }
                there[idx] = !there[idx];
                let mut plain = Rows::default();
                for (row, _) in all.iter().zip(&there).filter(|(_, there)| **there) {
                    plain.insert(&format, row, &fixed);
                }
                assert_eq!((&rows.words, rows.visible), (&plain.words, plain.visible));
                hidden_most = hidden_most.max(rows.len(&format) - rows.visible);
            }
        }
        assert!(hidden_most > 5, "{hidden_most}");
    }
}
