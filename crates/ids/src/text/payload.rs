//! Options that look at the payload: `content` with its modifiers, and `isdataat`.
//!
//! Modifiers may stand behind a content's comma, as in Snort 3, or as options of their own, as in
//! Snort 2 and Suricata; either way they are collected in a draft, which is made whole at the end.

use std::ops::Range;

use warpswitch_rules::diagnostic::Diagnostics;

use super::bytes::{Names, is_name};
use super::quotes;
use super::said::Said;
use super::source::{Part, Skip, Source};
use crate::bytes::Amount;
use crate::rule::{CONTENT_BYTES_MAX, Content, DataAt, Place, PlaceBy};

/// The most bytes that `offset`, `depth`, `within` and `isdataat` may say, and `distance` in either
/// direction: the most that a packet has.
const BYTES_MAX: i64 = 65535;

/// The most bytes that `distance` and `within` may have in Suricata.
const RELATIVE_BYTES_MAX: i64 = 1 << 20;

/// A content whose modifiers are being collected.
#[derive(Clone, Debug)]
pub(super) struct Draft {
    bytes: Vec<u8>,
    span: Range<usize>,
    negated: bool,
    nocase: bool,
    offset: Option<Amount>,
    depth: Option<Amount>,
    distance: Option<Amount>,
    within: Option<Amount>,
    /// Variables that options before it had set.
    variables: usize,
    at_start: bool,
    at_end: bool,
    fast: Option<(u32, u32)>,
    /// Modifiers that may stand once.
    said: Said,
    /// Modifiers stand behind its comma.
    pub(super) has_commas: bool,
}

/// What a modifier is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Modifier {
    Nocase,
    Rawbytes,
    StartsWith,
    EndsWith,
    Offset,
    Depth,
    Distance,
    Within,
    FastPattern,
    FastOffset,
    FastLength,
}

impl Modifier {
    pub(super) fn of(keyword: &str) -> Option<Self> {
        Some(match keyword {
            "nocase" => Self::Nocase,
            "rawbytes" => Self::Rawbytes,
            "startswith" => Self::StartsWith,
            "endswith" => Self::EndsWith,
            "offset" => Self::Offset,
            "depth" => Self::Depth,
            "distance" => Self::Distance,
            "within" => Self::Within,
            "fast_pattern" => Self::FastPattern,
            "fast_pattern_offset" => Self::FastOffset,
            "fast_pattern_length" => Self::FastLength,
            _ => return None,
        })
    }

    /// Its keyword, if a content may have one of it alone: the others say the same again.
    fn once(self) -> Option<&'static str> {
        Some(match self {
            Self::Nocase | Self::Rawbytes | Self::StartsWith | Self::EndsWith => return None,
            Self::Offset => "offset",
            Self::Depth => "depth",
            Self::Distance => "distance",
            Self::Within => "within",
            Self::FastPattern => "fast_pattern",
            Self::FastOffset => "fast_pattern_offset",
            Self::FastLength => "fast_pattern_length",
        })
    }
}

/// Reads the value of `content`: `[!]"TEXT"`, and modifiers behind commas.
pub(super) fn content(
    source: &Source<'_>,
    span: Range<usize>,
    names: &Names,
    errors: &mut Diagnostics,
) -> Part<Draft> {
    let mut parts = source.split_commas(span.clone()).into_iter();
    let first = parts.next().unwrap_or(span);
    let (negated, quoted) = unquote(source, first.clone(), errors)?;
    quotes::check_end(source, quoted.clone(), errors)?;
    let bytes = unescape(source, quoted, errors)?;
    if bytes.is_empty() {
        let message = "a content of no bytes would be everywhere";
        return Err(source.tell(errors, first, message, "at least one byte", ""));
    }
    if bytes.len() > CONTENT_BYTES_MAX {
        return Err(Skip::Unsupported(format!("content (beyond {CONTENT_BYTES_MAX} bytes)")));
    }
    let mut draft = Draft {
        bytes,
        span: first,
        negated,
        nocase: false,
        offset: None,
        depth: None,
        distance: None,
        within: None,
        variables: names.len(),
        at_start: false,
        at_end: false,
        fast: None,
        said: Said::default(),
        has_commas: parts.len() > 0,
    };
    for part in parts {
        let text = source.text(&part);
        let (name, value) = text.split_once(char::is_whitespace).unwrap_or((&text, ""));
        let Some(modifier) = Modifier::of(name) else {
            if matches!(name, "width" | "endian") {
                // Of Snort 3: contents of wider characters.
                return Err(Skip::Unsupported(format!("content {name}")));
            }
            let expected = "nocase, offset, depth, distance, within or fast_pattern";
            return Err(source.tell(errors, part, "no modifier of content", expected, ""));
        };
        draft.modify(source, modifier, part, value.trim(), names, errors)?;
    }
    Ok(draft)
}

/// The text between the quotes, and whether `!` stands before them.
pub(super) fn unquote(
    source: &Source<'_>,
    span: Range<usize>,
    errors: &mut Diagnostics,
) -> Part<(bool, Range<usize>)> {
    let negated = source.bytes[span.clone()].first() == Some(&b'!');
    let rest = source.trim(span.start + usize::from(negated)..span.end);
    let bytes = &source.bytes[rest.clone()];
    if bytes.len() < 2 || bytes[0] != b'"' || bytes[bytes.len() - 1] != b'"' {
        let expected = "text in quotes, with ! before them to negate";
        return Err(source.tell(errors, span, "no quoted text", expected, ""));
    }
    Ok((negated, rest.start + 1..rest.end - 1))
}

/// The bytes that a content's text stands for: `|41 42|` is hexadecimal, `\` quotes a character.
fn unescape(source: &Source<'_>, span: Range<usize>, errors: &mut Diagnostics) -> Part<Vec<u8>> {
    let text = &source.bytes[span.clone()];
    let mut bytes = Vec::with_capacity(text.len());
    let (mut at, mut hex_from, mut digits) = (0, None, Vec::new());
    while at < text.len() {
        let (byte, here) = (text[at], span.start + at);
        at += 1;
        match (hex_from, byte) {
            (None, b'|') => hex_from = Some(here),
            (None, b'\\') => {
                let Some(&quoted) = text.get(at) else { break };
                bytes.push(quoted);
                at += 1;
            }
            (None, _) => bytes.push(byte),
            (Some(_), b'|') if digits.len() % 2 == 0 => {
                bytes.extend(digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]));
                digits.clear();
                hex_from = None;
            }
            (Some(_), _) if byte.is_ascii_whitespace() => {}
            (Some(_), _) => match (byte as char).to_digit(16) {
                Some(digit) => digits.push(digit as u8),
                None => {
                    let (message, expected) = ("no hexadecimal byte", "two digits for each byte");
                    let help = "write \\| where a bar itself is meant";
                    return Err(source.tell(errors, here..here + 1, message, expected, help));
                }
            },
        }
    }
    if let Some(from) = hex_from {
        let message = "hexadecimal bytes that do not end";
        return Err(source.tell(errors, from..span.end, message, "a bar behind them", ""));
    }
    Ok(bytes)
}

/// A number that an option says, or one of the first variables.
fn amount_or_variable(
    source: &Source<'_>,
    (span, text): (&Range<usize>, &str),
    (what, low): (&str, i64),
    (names, variables): (&Names, usize),
    errors: &mut Diagnostics,
) -> Part<Amount> {
    let known = names.get(text).filter(|&number| usize::from(number) < variables);
    match known.filter(|_| is_name(text)) {
        Some(variable) => Ok(Amount::Variable(variable)),
        None => amount(source, span, what, text, low, errors).map(Amount::Number),
    }
}

/// A number that an option says; a name in its place would be a variable that no option before has
/// set.
pub(super) fn amount(
    source: &Source<'_>,
    span: &Range<usize>,
    what: &str,
    text: &str,
    low: i64,
    errors: &mut Diagnostics,
) -> Part<i64> {
    if is_name(text) {
        return Err(Skip::Unsupported(format!("{what} by an unknown variable")));
    }
    let number = text.parse::<i64>().ok();
    number.filter(|number| (low..=BYTES_MAX).contains(number)).ok_or_else(|| {
        let least = if what == "distance" { -RELATIVE_BYTES_MAX } else { low };
        let is_relative = matches!(what, "distance" | "within");
        if is_relative && number.is_some_and(|n| (least..=RELATIVE_BYTES_MAX).contains(&n)) {
            return Skip::Unsupported(format!("{what} beyond {BYTES_MAX}"));
        }
        let expected = format!("a number from {low} to {BYTES_MAX}");
        source.tell(errors, span.clone(), &format!("{what} without a right number"), &expected, "")
    })
}

impl Draft {
    /// Takes a modifier, which stands at `span`.
    pub(super) fn modify(
        &mut self,
        source: &Source<'_>,
        modifier: Modifier,
        span: Range<usize>,
        value: &str,
        names: &Names,
        errors: &mut Diagnostics,
    ) -> Part<()> {
        if let Some(keyword) = modifier.once() {
            self.said.once(source, keyword, span.clone(), value, errors)?;
        }
        let known = (names, self.variables);
        let mut place = |what: &str, low: i64| {
            amount_or_variable(source, (&span, value), (what, low), known, &mut *errors)
        };
        match modifier {
            Modifier::Offset => self.offset = Some(place("offset", 0)?),
            Modifier::Depth => self.depth = Some(place("depth", 1)?),
            Modifier::Distance => self.distance = Some(place("distance", -BYTES_MAX)?),
            Modifier::Within => self.within = Some(place("within", 1)?),
            _ => return self.say(source, modifier, span, value, errors),
        }
        Ok(())
    }

    /// Takes a modifier that says no place by numbers.
    fn say(
        &mut self,
        source: &Source<'_>,
        modifier: Modifier,
        span: Range<usize>,
        value: &str,
        errors: &mut Diagnostics,
    ) -> Part<()> {
        let mut number =
            |what: &str, low: i64| amount(source, &span, what, value, low, &mut *errors);
        match modifier {
            Modifier::Nocase => self.nocase = true,
            Modifier::Rawbytes => {}
            Modifier::StartsWith => self.at_start = true,
            Modifier::EndsWith => self.at_end = true,
            // Those are places.
            Modifier::Offset | Modifier::Depth | Modifier::Distance | Modifier::Within => {}
            Modifier::FastPattern => {
                let whole = (0, self.bytes.len() as u32);
                self.fast = match value {
                    "" | "only" => Some(whole),
                    part => Some(self.fast_part(source, &span, part, errors)?),
                };
            }
            Modifier::FastOffset => {
                let offset = number("fast_pattern_offset", 0)? as u32;
                let len = self.fast.map_or(self.bytes.len() as u32, |(_, len)| len);
                self.fast =
                    Some((offset, len.min((self.bytes.len() as u32).saturating_sub(offset))));
            }
            Modifier::FastLength => {
                let len = number("fast_pattern_length", 1)? as u32;
                self.fast = Some((self.fast.map_or(0, |(offset, _)| offset), len));
            }
        }
        Ok(())
    }

    fn fast_part(
        &self,
        source: &Source<'_>,
        span: &Range<usize>,
        part: &str,
        errors: &mut Diagnostics,
    ) -> Part<(u32, u32)> {
        let (offset, len) = part.split_once(',').unwrap_or((part, ""));
        let offset = amount(source, span, "fast_pattern", offset.trim(), 0, errors)?;
        let len = amount(source, span, "fast_pattern", len.trim(), 1, errors)?;
        Ok((offset as u32, len as u32))
    }

    /// The content, with all its modifiers.
    pub(super) fn finish(mut self, source: &Source<'_>, errors: &mut Diagnostics) -> Part<Content> {
        let mut tell = |message: &str, expected: &str| {
            Err(source.tell(errors, self.span.clone(), message, expected, ""))
        };
        let len = self.bytes.len() as u32;
        let is_relative = self.distance.is_some() || self.within.is_some();
        let is_absolute = self.offset.is_some() || self.depth.is_some() || self.at_start;
        if is_relative && is_absolute {
            let expected = "offset and depth, or distance and within";
            return tell("a place that counts both from the start and from another", expected);
        }
        if self.at_start && (self.offset.is_some() || self.depth.is_some()) {
            return tell("startswith says the place, so does offset or depth", "one of them");
        }
        let is_less = |amount: Option<Amount>| match amount {
            Some(Amount::Number(number)) => number < i64::from(len),
            Some(Amount::Variable(_)) | None => false,
        };
        if is_less(self.depth) && !self.negated {
            return tell("a depth below the content's bytes", "at least as many");
        }
        if is_less(self.within) && !self.negated {
            return tell("within fewer bytes than the content has", "at least as many");
        }
        if let Some((offset, fast)) = self.fast
            && (fast == 0 || offset.saturating_add(fast) > len)
        {
            return tell("the part to search first is not within the content", "a part of it");
        }
        // Numbers are within their limits; where there are variables, others stand for them.
        let number = |amount: Amount| match amount {
            Amount::Number(number) => number as i32,
            Amount::Variable(_) => 0,
        };
        let start = if is_relative { self.distance } else { self.offset };
        let bound = if is_relative { self.within } else { self.depth };
        let (from, bytes) = (start.map_or(0, number), bound.map(|bound| number(bound) as u32));
        let place = match is_relative {
            true => Place::Relative { distance: from, within: bytes },
            false => Place::Absolute {
                offset: from as u32,
                depth: bytes.or(self.at_start.then_some(len)),
            },
        };
        let by = PlaceBy {
            start: start.and_then(Amount::variable),
            len: bound.and_then(Amount::variable),
        };
        if self.nocase {
            self.bytes.make_ascii_lowercase();
        }
        Ok(Content {
            bytes: self.bytes,
            nocase: self.nocase,
            negated: self.negated,
            place,
            by,
            at_end: self.at_end,
            fast: self.fast,
        })
    }
}

/// Reads the value of `isdataat`: `[!]N[,relative][,rawbytes]`.
pub(super) fn data_at(
    source: &Source<'_>,
    span: Range<usize>,
    names: &Names,
    errors: &mut Diagnostics,
) -> Part<DataAt> {
    let mut parts = source.split_commas(span.clone()).into_iter();
    let text = parts.next().map(|part| source.text(&part)).unwrap_or_default();
    let (negated, text) = text.strip_prefix('!').map_or((false, &text[..]), |rest| (true, rest));
    let (text, known) = ((&span, text.trim()), (names, names.len()));
    let bytes = amount_or_variable(source, text, ("isdataat", 0), known, errors)?;
    let mut relative = false;
    for part in parts {
        match source.text(&part).as_str() {
            "relative" => relative = true,
            "rawbytes" => {}
            _ => {
                let message = "no such word of isdataat";
                return Err(source.tell(errors, part, message, "relative or rawbytes", ""));
            }
        }
    }
    Ok(DataAt { bytes, relative, negated })
}
