//! `threshold` and `detection_filter`: words with a value each, in any order.

use std::ops::Range;

use warpswitch_rules::diagnostic::Diagnostics;

use super::source::{Part, Skip, Source};
use crate::threshold::{Kind, Threshold, Track};

/// Reads `type TYPE, track TRACK, count N, seconds N`, or the same without a type of a filter.
pub(super) fn threshold(
    source: &Source<'_>,
    span: Range<usize>,
    is_filter: bool,
    errors: &mut Diagnostics,
) -> Part<Threshold> {
    let mut kind = is_filter.then_some(Kind::Filter);
    let (mut track, mut count, mut seconds) = (None, None, None);
    for part in source.split_commas(span.clone()) {
        let text = source.text(&part).to_ascii_lowercase();
        let (word, value) = text.split_once(char::is_whitespace).unwrap_or((&text, ""));
        let value = value.trim();
        let number = || value.parse::<u32>().ok().filter(|&number| number > 0);
        let (is_new, expected) = match word {
            "type" if !is_filter => {
                if value == "backoff" {
                    return Err(Skip::Unsupported("threshold type backoff".into()));
                }
                (set(&mut kind, kind_of(value)), "limit, threshold or both, once")
            }
            "track" => {
                let expected = "by_src, by_dst, by_both, by_rule or by_flow, once";
                (set(&mut track, track_of(value)), expected)
            }
            "count" => (set(&mut count, number()), "a number from 1 on, once"),
            "seconds" => (set(&mut seconds, number()), "a number from 1 on, once"),
            "unique_on" if is_filter && matches!(value, "src_port" | "dst_port") => {
                return Err(Skip::Unsupported("detection_filter unique_on".into()));
            }
            "multiplier" if !is_filter && number().is_some() => {
                return Err(Skip::Unsupported("threshold multiplier".into()));
            }
            _ if is_filter => (false, "track, count or seconds"),
            _ => (false, "type, track, count or seconds"),
        };
        if !is_new {
            let message = format!("{word:.20} without a right value");
            return Err(source.tell(errors, part, &message, expected, ""));
        }
    }
    match (kind, track, count, seconds) {
        (Some(kind), Some(track), Some(count), Some(seconds)) => {
            Ok(Threshold { kind, track, count, seconds })
        }
        _ => {
            let expected = match is_filter {
                true => "track, count and seconds",
                false => "type, track, count and seconds",
            };
            Err(source.tell(errors, span, "something is missing", expected, ""))
        }
    }
}

/// Sets what was not set; tells whether it is then.
fn set<T>(place: &mut Option<T>, value: Option<T>) -> bool {
    if place.is_some() {
        return false;
    }
    *place = value;
    place.is_some()
}

fn kind_of(word: &str) -> Option<Kind> {
    Some(match word {
        "limit" => Kind::Limit,
        "threshold" => Kind::Threshold,
        "both" => Kind::Both,
        _ => return None,
    })
}

fn track_of(word: &str) -> Option<Track> {
    Some(match word {
        "by_src" => Track::Src,
        "by_dst" => Track::Dst,
        "by_both" => Track::Both,
        "by_rule" => Track::Rule,
        "by_flow" => Track::Flow,
        _ => return None,
    })
}
