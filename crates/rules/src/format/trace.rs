//! Traces: lists of flow keys as text, read as a stream and written.
//!
//! ClassBench's form has one header a line, decimal numbers with blanks between them:
//!
//! ```text
//! 167772161  3232235777  1234  80  6  33554944  17
//! source     destination ports     |  |         the rule it was made from (ignored)
//!                           protocol  flags
//! ```
//! Both last columns may be absent. The flags column is what `trace_generator` writes: the value
//! of a filter's flags column times 65536, plus its mask; 0 and 4294967295 stand for none. Where a
//! sixth column ends the line, it is the flags if its upper byte is set (every TCP flag but NS
//! lies there) and the rule number if not. Addresses may also be dotted quads; for IPv6 they are
//! text or one decimal number of 128 bits. Two decimal numbers that IPv4 addresses have, both at
//! least 2^24, are errors where addresses are IPv6: the trace is of the other family.
//!
//! The canonical form is described in [`canonical`].
//!
//! # Invariants
//! - T1: memory is bounded by the longest line, and that by [`LINE_BYTES_MAX`].
//! - T2: once a line is wrong no more keys are delivered; the rest of the input is read for its
//!   errors alone, and all of them are returned together.

use std::fmt;
use std::io::{self, BufRead, Write};
use std::ops::{Range, RangeInclusive};
use std::str::FromStr;

use super::text::{
    self, Fault, Faults, Parsed, Reporter, Token, is_blank_or_comment, is_space, trim_end_of_line,
};
use super::{WriteError, canonical};
use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::key::{KeyBatch, KeyBuf};
use crate::schema::{Field, FieldSpec, Schema, WORDS_MAX};

/// The longest line of a trace, in bytes.
pub const LINE_BYTES_MAX: usize = 64 * 1024;

/// A text form of traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TraceFormat {
    /// The output of ClassBench's `trace_generator`.
    ClassBench,
    /// Ours, which expresses every key.
    Canonical,
}

impl TraceFormat {
    /// Every format, in the order in which commands list them.
    pub const ALL: [TraceFormat; 2] = [TraceFormat::ClassBench, TraceFormat::Canonical];

    /// The name that commands use.
    pub fn name(self) -> &'static str {
        match self {
            TraceFormat::ClassBench => "classbench",
            TraceFormat::Canonical => "canonical",
        }
    }
}

impl fmt::Display for TraceFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for TraceFormat {
    type Err = String;
    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|f| f.name() == name);
        found.ok_or_else(|| {
            format!(
                "unknown trace format {name}; expected classbench or \
            canonical"
            )
        })
    }
}

/// Reads a trace, never more than a line of it in memory beside the keys that were asked for.
#[derive(Debug)]
pub struct TraceReader<R: BufRead> {
    input: R,
    /// The start of a line whose end is not in the input's buffer yet.
    partial: Vec<u8>,
    sink: LineSink,
    is_done: bool,
}

/// Turns lines into keys and errors.
#[derive(Debug)]
struct LineSink {
    format: Option<TraceFormat>,
    parser: HeaderParser,
    /// Whether the header line of the canonical form has been read.
    has_header: bool,
    reporter: Reporter,
    line_no: u32,
}

impl<R: BufRead> TraceReader<R> {
    /// A reader of keys of `schema`; the format is recognised by content if `None`. `name` is what
    /// diagnostics call the input.
    pub fn new(name: &str, input: R, schema: &'static Schema, format: Option<TraceFormat>) -> Self {
        let sink = LineSink {
            format,
            parser: HeaderParser::new(schema),
            has_header: false,
            reporter: Reporter::new(name),
            line_no: 0,
        };
        Self { input, partial: Vec::new(), sink, is_done: false }
    }

    /// Appends up to `keys_max` keys and tells how many; 0 is the end, if `keys_max` is not 0.
    ///
    /// # Errors
    /// Every error from here to the end of the input (T2), or that the input cannot be read. What
    /// this call has appended by then are the keys before the first error; every later call says 0.
    /// # Panics
    /// If `keys` is of another schema than this reader: a caller bug, not an input.
    pub fn read_batch(&mut self, keys: &mut KeyBuf, keys_max: usize) -> Result<usize, Diagnostics> {
        assert_eq!(keys.schema(), self.sink.parser.schema, "keys of another schema");
        let mut count = 0;
        while !self.is_done && (count < keys_max || !self.sink.reporter.is_clean()) {
            count += self.read_buffer(keys, keys_max - count);
        }
        std::mem::take(&mut self.sink.reporter.diagnostics).into_result(count)
    }

    /// Handles what the input has at hand, up to `keys_max` keys, and tells how many it found.
    fn read_buffer(&mut self, keys: &mut KeyBuf, keys_max: usize) -> usize {
        let Self { input, partial, sink, is_done } = self;
        let buffer = match input.fill_buf() {
            Ok(buffer) => buffer,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return 0,
            Err(error) => {
                let message = format!("cannot read past line {}: {error}", sink.line_no);
                let file = sink.reporter.file().to_owned();
                sink.reporter.diagnostics.push(Diagnostic::whole(&file, message));
                *is_done = true;
                return 0;
            }
        };
        let mut count = 0;
        if buffer.is_empty() {
            *is_done = true;
            if !partial.is_empty() {
                count += usize::from(sink.line(partial, keys));
            }
            return count;
        }
        let mut used = 0;
        while used < buffer.len() && (count < keys_max || !sink.reporter.is_clean()) {
            let rest = &buffer[used..];
            let Some(len) = memchr::memchr(b'\n', rest) else {
                keep(partial, rest);
                used = buffer.len();
                break;
            };
            used += len + 1;
            if partial.is_empty() {
                count += usize::from(sink.line(&rest[..len], keys));
            } else {
                keep(partial, &rest[..len]);
                count += usize::from(sink.line(partial, keys));
                partial.clear();
            }
        }
        input.consume(used);
        count
    }
}

/// Appends to a line that came in parts; a line that is too long stays recognisably so.
fn keep(partial: &mut Vec<u8>, bytes: &[u8]) {
    let room = LINE_BYTES_MAX + 1 - partial.len().min(LINE_BYTES_MAX + 1);
    partial.extend_from_slice(&bytes[..bytes.len().min(room)]);
}

impl LineSink {
    /// Handles one line; tells whether it was a key, which is appended then.
    fn line(&mut self, line: &[u8], keys: &mut KeyBuf) -> bool {
        self.line_no = self.line_no.saturating_add(1);
        let line = match line.strip_prefix(b"\xef\xbb\xbf") {
            Some(rest) if self.line_no == 1 => rest,
            _ => line,
        };
        let line = trim_end_of_line(line);
        if line.len() > LINE_BYTES_MAX {
            let at = LINE_BYTES_MAX..LINE_BYTES_MAX;
            let message = format!("the line is longer than {LINE_BYTES_MAX} bytes");
            self.reporter.fault(
                self.line_no,
                line,
                *Fault::new(at, message, "the end of the line"),
            );
            return false;
        }
        if !line.first().is_some_and(u8::is_ascii_digit) && is_blank_or_comment(line) {
            return false;
        }
        match self.format {
            Some(TraceFormat::ClassBench) => {}
            Some(TraceFormat::Canonical) => return self.canonical(line, keys),
            None => {
                let is_canonical = line.starts_with(b"keys");
                self.format = Some(if is_canonical {
                    TraceFormat::Canonical
                } else {
                    TraceFormat::ClassBench
                });
                if is_canonical {
                    return self.canonical(line, keys);
                }
            }
        }
        let mut key = [0; WORDS_MAX];
        self.parser.key(line, &mut key);
        self.deliver(line, &key, keys)
    }

    /// Handles a line of the canonical form.
    fn canonical(&mut self, line: &[u8], keys: &mut KeyBuf) -> bool {
        let schema = self.parser.schema;
        let mut key = [0; WORDS_MAX];
        if self.has_header {
            canonical::parse_key(line, 0, schema, &mut key, &mut self.parser.faults);
            return self.deliver(line, &key, keys);
        }
        self.has_header = true;
        if let Err(fault) = canonical::parse_keys_header(line, schema) {
            self.reporter.fault(self.line_no, line, *fault);
        }
        false
    }

    /// Appends the key unless there were faults, which are reported.
    #[inline]
    fn deliver(&mut self, line: &[u8], key: &[u32], keys: &mut KeyBuf) -> bool {
        if self.parser.faults.is_empty() {
            if self.reporter.is_clean() {
                keys.push(key);
                return true;
            }
            return false;
        }
        self.reporter.faults(self.line_no, line, &mut self.parser.faults);
        false
    }
}

/// Numbers of IPv4 addresses from 1.0.0.0 up; no IPv6 address in use is among them.
const IPV4_NUMBERS: RangeInclusive<u128> = 1 << 24..=u32::MAX as u128;

/// The most columns that a header line has.
const COLUMNS_MAX: usize = 7;

/// Parses ClassBench's header lines.
#[derive(Debug)]
struct HeaderParser {
    schema: &'static Schema,
    ipv4: Option<[&'static FieldSpec; 2]>,
    ipv6: Option<[&'static FieldSpec; 2]>,
    eth_type: Option<&'static FieldSpec>,
    ip_proto: &'static FieldSpec,
    tcp_flags: &'static FieldSpec,
    faults: Faults,
}

impl HeaderParser {
    fn new(schema: &'static Schema) -> Self {
        let pair = |src, dst| Some([schema.field(src)?, schema.field(dst)?]);
        let every = |field| schema.field(field).expect("every schema has it");
        Self {
            schema,
            ipv4: pair(Field::Ipv4Src, Field::Ipv4Dst),
            ipv6: pair(Field::Ipv6Src, Field::Ipv6Dst),
            eth_type: schema.field(Field::EthType),
            ip_proto: every(Field::IpProto),
            tcp_flags: every(Field::TcpFlags),
            faults: Faults::default(),
        }
    }

    /// The value, or zero and one more fault.
    #[inline]
    fn note<T: Default>(&mut self, parsed: Parsed<T>) -> T {
        self.faults.note(parsed).unwrap_or_default()
    }

    /// Fills `key`, which is zero, from a line.
    fn key(&mut self, line: &[u8], key: &mut [u32; WORDS_MAX]) {
        let mut columns = [Token { bytes: &[], start: line.len() }; COLUMNS_MAX];
        let mut len = 0;
        let mut at = 0;
        loop {
            while at < line.len() && is_space(line[at]) {
                at += 1;
            }
            if at == line.len() {
                break;
            }
            let start = at;
            if len == COLUMNS_MAX {
                let message = format!("more than {COLUMNS_MAX} columns");
                self.faults.push(Fault::new(start..line.len(), message, "the end of the line"));
                return;
            }
            while at < line.len() && !is_space(line[at]) {
                at += 1;
            }
            columns[len] = Token::new(line, start..at);
            len += 1;
        }
        if len < 5 {
            let message = format!("{len} columns; expected at least 5");
            let expected = "SOURCE DESTINATION SOURCE-PORT DESTINATION-PORT PROTOCOL";
            self.faults.push(Fault::new(line.len()..line.len(), message, expected));
            return;
        }
        self.addresses(columns[0], columns[1], key);
        let l4_src = self.note(text::decimal(columns[2], 65535, "the source port"));
        let l4_dst = self.note(text::decimal(columns[3], 65535, "the destination port"));
        key[self.schema.ports_word] = l4_src << 16 | l4_dst;
        let proto = self.note(text::decimal(columns[4], 255, "the protocol"));
        self.ip_proto.write(key, proto.into());
        if len > 5 {
            let column = self.note(text::decimal(columns[5], u32::MAX, "the flags column"));
            if len > 6 || column >> 24 != 0 {
                self.tcp_flags.write(key, flags_of_column(column).into());
            }
        }
    }

    fn addresses(&mut self, src: Token<'_>, dst: Token<'_>, key: &mut [u32; WORDS_MAX]) {
        let is_ipv6 = |t: Token<'_>| memchr::memchr(b':', t.bytes).is_some();
        match (self.ipv4, self.ipv6) {
            (Some(fields), None) => self.ipv4_pair(fields, src, dst, key),
            (Some(fields), Some(_)) if !is_ipv6(src) => self.ipv4_pair(fields, src, dst, key),
            (_, Some(fields)) => self.ipv6_pair(fields, src, dst, key),
            (None, None) => unreachable!("every schema has addresses"),
        }
    }

    fn ipv4_pair(
        &mut self,
        fields: [&FieldSpec; 2],
        src: Token<'_>,
        dst: Token<'_>,
        key: &mut [u32; WORDS_MAX],
    ) {
        for (field, token) in fields.into_iter().zip([src, dst]) {
            let is_dotted = memchr::memchr(b'.', token.bytes).is_some();
            let parsed = if is_dotted {
                text::ipv4(token)
            } else {
                text::decimal(token, u32::MAX, "the IPv4 address").map_err(|fault| {
                    let is_ipv6 = memchr::memchr(b':', token.bytes).is_some();
                    if is_ipv6 { self.other_family(token.span(), ["IPv6", "IPv4"]) } else { fault }
                })
            };
            let address = self.note(parsed);
            // Every IPv4 address fills one word.
            key[field.bit_offset / 32] = address;
        }
        if let Some(eth_type) = self.eth_type {
            eth_type.write(key, 0x0800);
        }
    }

    fn ipv6_pair(
        &mut self,
        fields: [&FieldSpec; 2],
        src: Token<'_>,
        dst: Token<'_>,
        key: &mut [u32; WORDS_MAX],
    ) {
        let mut ipv4_numbers = 0;
        for (field, token) in fields.into_iter().zip([src, dst]) {
            let is_text = memchr::memchr(b':', token.bytes).is_some();
            let parsed = if is_text {
                text::ipv6(token)
            } else {
                text::number(token, u128::MAX, "the IPv6 address")
            };
            let address = self.note(parsed);
            ipv4_numbers += usize::from(!is_text && IPV4_NUMBERS.contains(&address));
            field.write(key, address);
        }
        if ipv4_numbers == 2 {
            let span = src.span().start..dst.span().end;
            let fault = self.other_family(span, ["IPv4", "IPv6"]);
            self.faults.push(fault);
        }
        if let Some(eth_type) = self.eth_type {
            eth_type.write(key, 0x86dd);
        }
    }

    #[cold]
    fn other_family(&self, span: Range<usize>, [found, wanted]: [&str; 2]) -> Box<Fault> {
        let message = format!("{found} addresses in a trace of {} keys", self.schema.name);
        let help = "rules and trace must be of the same address family";
        Fault::new(span, message, format!("{wanted} addresses")).help(help)
    }
}

/// The TCP flags that a header's flags column stands for.
fn flags_of_column(column: u32) -> u16 {
    match column {
        0 | u32::MAX => 0,
        _ => ((column >> 16) as u16 & column as u16).swap_bytes() & 0x0fff,
    }
}

/// The flags column for TCP flags: all twelve bits, in the filters' byte order.
fn column_of_flags(flags: u16) -> u32 {
    match flags {
        0 => 0,
        _ => u32::from(flags.swap_bytes()) << 16 | u32::from(0x0fffu16.swap_bytes()),
    }
}

/// Writes keys.
///
/// ClassBench's form holds the six fields of the 5-tuple schemas; other schemas need the canonical
/// form.
///
/// # Errors
/// [`WriteError::Schema`] if the format cannot express keys of `schema`: nothing is written then;
/// [`WriteError::Io`] if the output fails.
/// # Panics
/// If `keys` is not of `schema`: a caller bug, not an input.
pub fn write_trace(
    keys: KeyBatch<'_>,
    schema: &'static Schema,
    format: TraceFormat,
    out: &mut dyn Write,
) -> Result<(), WriteError> {
    assert_eq!(keys.words_per_key(), schema.words, "keys of another schema");
    match format {
        TraceFormat::ClassBench => write_headers(keys, schema, out),
        TraceFormat::Canonical => Ok(canonical::write_keys(keys, schema, out)?),
    }
}

fn write_headers(
    keys: KeyBatch<'_>,
    schema: &'static Schema,
    out: &mut dyn Write,
) -> Result<(), WriteError> {
    let parser = HeaderParser::new(schema);
    if parser.eth_type.is_some() {
        return Err(WriteError::Schema(schema));
    }
    let mut line = String::new();
    for key in keys.iter() {
        use fmt::Write as _;
        line.clear();
        match (parser.ipv4, parser.ipv6) {
            (Some([src, dst]), _) => write!(line, "{}\t{}", src.read(key), dst.read(key)),
            (None, Some([src, dst])) => {
                let text = |spec: &FieldSpec| std::net::Ipv6Addr::from_bits(spec.read(key));
                write!(line, "{}\t{}", text(src), text(dst))
            }
            (None, None) => unreachable!("every schema has addresses"),
        }
        .expect("a String takes every write");
        let ports = key[schema.ports_word];
        let proto = parser.ip_proto.read(key);
        let flags = column_of_flags(parser.tcp_flags.read(key) as u16);
        let (src, dst) = (ports >> 16, ports & 0xffff);
        // Flags without any in the upper byte would be taken for a rule number at the line's end.
        let rule = if flags != 0 && flags >> 24 == 0 { "\t0" } else { "" };
        writeln!(line, "\t{src}\t{dst}\t{proto}\t{flags}{rule}")
            .expect("a String takes every write");
        out.write_all(line.as_bytes())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{IPV4_5TUPLE, IPV6_5TUPLE, OPENFLOW12, OPENFLOW12_IPV6, SCHEMAS};

    fn read(
        text: &[u8],
        schema: &'static Schema,
        buffer_bytes: usize,
    ) -> Result<Vec<Vec<u32>>, Diagnostics> {
        let input = io::BufReader::with_capacity(buffer_bytes, text);
        let mut reader = TraceReader::new("t", input, schema, None);
        let mut keys = KeyBuf::new(schema);
        while reader.read_batch(&mut keys, 3)? > 0 {}
        Ok(keys.as_batch().iter().map(<[u32]>::to_vec).collect())
    }

    fn check(text: &str, schema: &'static Schema, expected: &[&[u32]]) {
        for buffer_bytes in [1, 7, 4096] {
            let keys = read(text.as_bytes(), schema, buffer_bytes).unwrap();
            assert_eq!(keys, expected, "{text:?} with buffers of {buffer_bytes}");
        }
    }

    #[test]
    fn headers_fill_keys() {
        check("", &IPV4_5TUPLE, &[]);
        check("\n# none\n \t\n", &IPV4_5TUPLE, &[]);
        check("1\t2\t3\t4\t6", &IPV4_5TUPLE, &[&[1, 2, 3 << 16 | 4, 6 << 24]]);
        let two = "1\t2\t3\t4\t6\t0\t9\r\n4294967295 10.0.0.1 65535 65535 255 4294967295 0\r\n";
        let last = [u32::MAX, 0x0a00_0001, u32::MAX, 255 << 24];
        check(two, &IPV4_5TUPLE, &[&[1, 2, 3 << 16 | 4, 6 << 24], &last]);
        // SYN in a flags column, with and without a rule number; then a rule number alone.
        let flags =
            format!("1 2 0 0 6 {0} 70000\n1 2 0 0 6 {0}\n1 2 0 0 6 70000\n", 0x0200_1200u32);
        let syn: [u32; 4] = [1, 2, 0, 6 << 24 | 0x002];
        check(&flags, &IPV4_5TUPLE, &[&syn, &syn, &[1, 2, 0, 6 << 24]]);
        check("::1 ::2 0 0 6\n", &IPV6_5TUPLE, &[&[0, 0, 0, 1, 0, 0, 0, 2, 0, 6 << 24]]);
        check("1 2 0 0 6\n", &IPV6_5TUPLE, &[&[0, 0, 0, 1, 0, 0, 0, 2, 0, 6 << 24]]);
        let openflow: [u32; 10] = [0, 0, 0, 0, 0x0800_0000, 1, 2, 3 << 16 | 4, 6 << 24, 0];
        check("1 2 3 4 6", &OPENFLOW12, &[&openflow]);
        let mut ipv6 = [0u32; 16];
        (ipv6[4], ipv6[8], ipv6[12]) = (0x86dd_0000, 1, 2);
        check("::1 ::2 0 0 0", &OPENFLOW12_IPV6, &[&ipv6]);
    }

    #[test]
    fn every_error_is_reported_at_its_place() {
        let text = b"1 2 3 4 6\n1 x 3 70000 6\n1 2\n1 2 3 4 5 6 7 8\n9 9 9 9 9\n\xff\n";
        let errors = read(text, &IPV4_5TUPLE, 5).unwrap_err();
        let places: Vec<_> = errors.iter().map(|d| (d.line, d.column, d.text.as_str())).collect();
        let expected = [(2, 3, "x"), (2, 7, "70000"), (3, 4, ""), (4, 15, "8"), (6, 2, "")];
        assert_eq!(places, expected, "{errors}");
    }

    #[test]
    fn traces_of_the_other_address_family_are_errors() {
        let fails = |text: &str, schema, column, message: &str| {
            let errors = read(text.as_bytes(), schema, 99).unwrap_err();
            let first = errors.iter().next().expect("it is not empty");
            assert_eq!((first.column, first.message.as_str()), (column, message), "{text}");
        };
        let ipv4 = "IPv4 addresses in a trace of ipv6_5tuple keys";
        fails("2761916877 16777216 1 2 17", &IPV6_5TUPLE, 1, ipv4);
        fails("::1 ::2 0 0 6\n4294967295 3232235777 1 2 17", &IPV6_5TUPLE, 1, ipv4);
        fails(
            "1 2001:db8::1 1 2 6",
            &IPV4_5TUPLE,
            3,
            "IPv6 addresses in a trace of ipv4_5tuple keys",
        );
        // Numbers of 128 bits, some of them small.
        for text in ["4294967296 16777216 0 0 6", "16777215 4294967295 0 0 6", "1 0 0 0 6"] {
            assert_eq!(
                read(text.as_bytes(), &IPV6_5TUPLE, 99).map(|keys| keys.len()),
                Ok(1),
                "{text}"
            );
        }
        assert!(read(b"16777216 16777217 0 0 6", &OPENFLOW12_IPV6, 99).is_ok(), "it has both");
    }

    #[test]
    fn a_reader_ends_after_its_errors_and_bounds_its_lines() {
        let mut text = b"1 2 3 4 6\n".to_vec();
        text.extend(std::iter::repeat_n(b'1', 3 * LINE_BYTES_MAX));
        text.extend(b"\n1 2 3 4 6\n");
        let input = io::BufReader::with_capacity(100, text.as_slice());
        let mut reader = TraceReader::new("t", input, &IPV4_5TUPLE, None);
        let mut keys = KeyBuf::new(&IPV4_5TUPLE);
        assert_eq!(reader.read_batch(&mut keys, 1).unwrap(), 1);
        assert_eq!(reader.read_batch(&mut keys, 1).unwrap_err().len(), 1);
        assert_eq!(reader.read_batch(&mut keys, 1).unwrap(), 0);
        assert_eq!(keys.len(), 1);
    }

    #[test]
    fn keys_survive_both_formats() {
        for schema in SCHEMAS {
            let mut keys = KeyBuf::new(schema);
            let mut state = 1u32;
            for round in 0..200 {
                let mut key = [0; WORDS_MAX];
                for spec in schema.fields {
                    state = state.wrapping_mul(0x9e37_79b1) ^ (state >> 15);
                    let value = (u128::from(state) * u128::from(state >> 3)) & spec.value_max();
                    spec.write(&mut key, if state & 3 == round & 3 { 0 } else { value });
                }
                keys.push(&key);
            }
            for format in TraceFormat::ALL {
                let mut text = Vec::new();
                match write_trace(keys.as_batch(), schema, format, &mut text) {
                    Err(WriteError::Schema(_)) => assert!(schema.field(Field::EthType).is_some()),
                    Err(error) => panic!("{error}"),
                    Ok(()) => {
                        let back = read(&text, schema, 50).unwrap();
                        let back: Vec<u32> = back.into_iter().flatten().collect();
                        assert_eq!(back, keys.as_batch().words(), "{} {format}", schema.name);
                    }
                }
            }
        }
    }

    #[test]
    fn canonical_traces_name_their_schema() {
        let key = [0, 0, 80, 0];
        check("keys ipv4_5tuple\nl4_dst=80\n", &IPV4_5TUPLE, &[&key]);
        let wrong = read(b"keys openflow12\nl4_dst=80\n", &IPV4_5TUPLE, 99).unwrap_err();
        assert!(wrong.to_string().contains("keys of schema openflow12"), "{wrong}");
    }
}
