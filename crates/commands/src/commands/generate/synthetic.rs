//! GSwitch's parameters as one option: `N=10K,C=64,F=16,Cm=4`.

use warpswitch_rules::generate::SyntheticSpec;

use crate::args::parse_count;

/// Help for the option.
pub const HELP: &str = "\
GSwitch's synthetic rules, as N=10K,C=64,F=16,Cm=4: N rules with C distinct masks, F of which \
share the rules evenly (each other mask has one rule); every key of the trace matches in Cm masks. \
',fields=12' generates OpenFlow rules";

/// A synthetic set, but for its seed.
#[derive(Clone, Copy, Debug)]
pub struct SyntheticArg(SyntheticSpec);

impl SyntheticArg {
    /// The set of one seed.
    pub fn with_seed(self, seed: u64) -> SyntheticSpec {
        SyntheticSpec { seed, ..self.0 }
    }
}

/// Reads the option's value.
pub fn parse(text: &str) -> Result<SyntheticArg, String> {
    let (mut rules, mut tuples, mut full, mut overlap) = (None, None, None, None);
    let mut fields = Some(5);
    for part in text.split(',') {
        let (name, value) =
            part.split_once('=').ok_or_else(|| format!("expected NAME=VALUE, not '{part}'"))?;
        let place = match name.trim().to_ascii_lowercase().as_str() {
            "n" => &mut rules,
            "c" => &mut tuples,
            "f" => &mut full,
            "cm" => &mut overlap,
            "fields" => &mut fields,
            _ => return Err(format!("unknown parameter '{name}'; expected N, C, F, Cm or fields")),
        };
        *place = Some(parse_count(value.trim())?);
    }
    let given = |value: Option<usize>, name: &str| value.ok_or(format!("missing parameter {name}"));
    Ok(SyntheticArg(SyntheticSpec {
        rules: given(rules, "N")?,
        tuples: given(tuples, "C")?,
        full: given(full, "F")?,
        overlap: given(overlap, "Cm")?,
        fields: given(fields, "fields")?,
        seed: 0,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_parameters_are_named_in_any_order() {
        let spec = parse("c=64,N=10K,Cm=4,F=16").unwrap().with_seed(9);
        assert_eq!((spec.rules, spec.tuples, spec.full), (10_000, 64, 16));
        assert_eq!((spec.overlap, spec.fields, spec.seed), (4, 5, 9));
        for text in ["", "N=1", "N=1,C=1,F=1,Cm=1,x=1", "N=1,C=1,F=1,Cm", "N=a,C=1,F=1,Cm=1"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
