//! Where numbers and names stand on the axes of a drawing, and how they are written there.

use super::paper::Paper;
use super::rows::Row;

/// Where the values of what is varied stand.
pub struct Axis<'a> {
    pub name: &'a str,
    /// Place, value, and what is written there.
    pub ticks: Vec<(f64, &'a str, String)>,
    /// Whether lines between the places mean something.
    pub is_number: bool,
}

impl<'a> Axis<'a> {
    /// The axis of what `rows` vary; none if there is no row.
    pub fn new(rows: &[&'a Row]) -> Option<Self> {
        let name = &rows.first()?.varied;
        let mut values: Vec<&str> = Vec::new();
        for row in rows {
            if !values.contains(&row.value.as_str()) {
                values.push(&row.value);
            }
        }
        let numbers: Option<Vec<f64>> =
            values.iter().map(|value| value.parse().ok().filter(|number| *number > 0.0)).collect();
        let place = |idx: usize| match &numbers {
            Some(numbers) => numbers[idx].log2(),
            None => idx as f64,
        };
        let tick = |(idx, value): (usize, &&'a str)| (place(idx), *value, short(value));
        let ticks = values.iter().enumerate().map(tick).collect();
        Some(Self { name, ticks, is_number: numbers.is_some() })
    }

    /// Where a value stands.
    pub fn place(&self, value: &str) -> f64 {
        self.ticks.iter().find(|tick| tick.1 == value).map_or(0.0, |tick| tick.0)
    }

    /// How far beside its place an engine's mark stands: names have room for that.
    pub fn aside(&self, paper: &Paper, engine: &str) -> f64 {
        if self.is_number { 0.0 } else { paper.rank(engine) * 0.13 }
    }

    /// What is written at a place.
    pub fn label(&self, place: f64) -> String {
        let here = self.ticks.iter().find(|tick| (tick.0 - place).abs() < 1e-6);
        here.map_or_else(String::new, |tick| tick.2.clone())
    }

    /// From where to where, with room at both ends.
    pub fn range(&self) -> (f64, f64) {
        let places = || self.ticks.iter().map(|tick| tick.0);
        let (low, high) = (places().fold(f64::MAX, f64::min), places().fold(f64::MIN, f64::max));
        let room = if self.is_number { ((high - low) * 0.06).max(0.3) } else { 0.5 };
        (low - room, high + room)
    }
}

/// 131072 as 128K; names as they are.
pub fn short(value: &str) -> String {
    match value.parse::<u64>() {
        Ok(number) if number >= 1 << 20 && number.is_multiple_of(1 << 20) => {
            format!("{}M", number >> 20)
        }
        Ok(number) if number >= 1024 && number.is_multiple_of(1024) => {
            format!("{}K", number / 1024)
        }
        Ok(number) => thousands(number),
        Err(_) => value.to_owned(),
    }
}

fn thousands(number: u64) -> String {
    if number < 1000 {
        return number.to_string();
    }
    format!("{},{:03}", thousands(number / 1000), number % 1000)
}

/// The range of all numbers as powers of ten, with room around them.
pub fn decades<'a>(rows: impl Iterator<Item = &'a Row>) -> (f64, f64) {
    let (mut low, mut high) = (f64::MAX, f64::MIN);
    for number in rows.flat_map(|row| [Some(row.ours), row.paper]).flatten() {
        low = low.min(number.log10());
        high = high.max(number.log10());
    }
    let room = ((high - low) * 0.06).max(0.15);
    (low - room, high + room)
}

/// Powers of ten within a range; with 2 and 5 between them where there are few.
pub fn ticks((low, high): (f64, f64)) -> Vec<f64> {
    let steps: &[f64] = if high - low > 2.2 { &[1.0] } else { &[1.0, 2.0, 5.0] };
    let all = (low.floor() as i32..=high.ceil() as i32)
        .flat_map(|power| steps.iter().map(move |step| f64::from(power) + step.log10()));
    all.filter(|place| (low..=high).contains(place)).collect()
}

/// The number whose logarithm this is, of ticks.
pub fn power_text(place: f64) -> String {
    let number = 10f64.powf(place);
    if place < -0.01 {
        let digits = (-place).ceil() as usize;
        return format!("{number:.digits$}");
    }
    thousands(number.round() as u64)
}

#[cfg(test)]
mod tests {
    use super::super::paper::GSWITCH;
    use super::super::rows;
    use super::*;

    #[test]
    fn names_stand_side_by_side_and_numbers_on_a_scale() {
        let header = "figure,varied,value,engine,kind,batch,unit,ours,paper";
        let text = [
            header,
            "6c,set,acl,tuple,cpu,256,Mpps,7,",
            "6c,set,ipc,tuple,cpu,256,Mpps,7,",
            "6c,set,acl,tuple,kernel,256,Mpps,7,",
        ];
        let sweep = rows::read(&text.join("\n")).unwrap();
        let rows: Vec<&Row> = sweep.rows.iter().collect();
        let axis = Axis::new(&rows).unwrap();
        assert!(!axis.is_number);
        assert_eq!((axis.place("acl"), axis.place("ipc")), (0.0, 1.0));
        let aside = ["tuple", "bloom"].map(|engine| axis.aside(&GSWITCH, engine));
        assert!(-0.5 < aside[0] && aside[0] < aside[1] && aside[1] < 0.5);
        assert_eq!((axis.label(1.0), axis.label(0.5)), ("ipc".to_owned(), String::new()));
    }

    #[test]
    fn numbers_are_short() {
        for (value, text) in [
            ("256", "256"),
            ("131072", "128K"),
            ("1048576", "1M"),
            ("1834", "1,834"),
            ("1000000", "1,000,000"),
        ] {
            assert_eq!(short(value), text);
        }
        let written = |range| ticks(range).into_iter().map(power_text).collect::<Vec<_>>();
        assert_eq!(written((-1.2, 3.1)), ["0.1", "1", "10", "100", "1,000"]);
        assert_eq!(written((-0.5, 1.1)), ["0.5", "1", "2", "5", "10"]);
    }
}
