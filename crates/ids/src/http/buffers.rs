//! From a message to the buffers that rules look into.
//!
//! All buffers of a message are in one piece of memory, which is used again for the next one.

use std::io::Read;
use std::ops::Range;

use super::{
    BODY_BYTES_MAX, Buffer, BufferSet, FIELDS_MAX, Kind, Message, field, first_line, is_folded,
    join_folded, lines,
};

/// The buffers of one message.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    bytes: Vec<u8>,
    /// The same with letters in lower case, once somebody asked for it.
    folded: Vec<u8>,
    /// Where each buffer is; those that are not there are empty.
    places: [Range<usize>; Buffer::ALL.len()],
    /// Values of fields without their folds.
    values: Vec<u8>,
    fields: Vec<Field>,
}

/// A header field.
#[derive(Clone, Debug)]
struct Field {
    /// Its name, in the head.
    name: Range<usize>,
    /// A hash of its name in lower case.
    hash: u32,
    /// Its value, in [`Buffers::values`].
    value: Range<usize>,
    /// Whether one before it has its name.
    is_again: bool,
}

impl Buffers {
    /// Makes those of `wanted` that the message has.
    pub(crate) fn fill(&mut self, message: &Message<'_>, wanted: BufferSet) {
        self.bytes.clear();
        self.folded.clear();
        self.places.fill(0..0);
        match Buffer::ALL.into_iter().any(|it| wanted.contains(it) && it.needs_fields()) {
            true => self.read_fields(message.head),
            false => self.fields.clear(),
        }
        for buffer in Buffer::ALL {
            let is_had = buffer.kind().is_none_or(|kind| kind == message.kind);
            if is_had && wanted.contains(buffer) {
                let start = self.bytes.len();
                self.put(buffer, message);
                self.places[buffer as usize] = start..self.bytes.len();
            }
        }
    }

    /// A buffer; empty if it is not there.
    pub(crate) fn bytes(&self, buffer: Buffer) -> &[u8] {
        &self.bytes[self.places[buffer as usize].clone()]
    }

    /// The same with letters in lower case; [`Buffers::fold`] must have been called.
    pub(crate) fn folded(&self, buffer: Buffer) -> &[u8] {
        &self.folded[self.places[buffer as usize].clone()]
    }

    /// Makes what [`Buffers::folded`] gives.
    pub(crate) fn fold(&mut self) {
        if self.folded.len() != self.bytes.len() {
            self.folded.clear();
            self.folded.extend(self.bytes.iter().map(u8::to_ascii_lowercase));
        }
    }

    fn read_fields(&mut self, head: &[u8]) {
        self.values.clear();
        self.fields.clear();
        let place = |part: &[u8]| {
            let start = part.as_ptr() as usize - head.as_ptr() as usize;
            start..start + part.len()
        };
        let mut is_open = false;
        for line in lines(head).skip(1) {
            if is_folded(line) {
                if let (Some(last), true) = (self.fields.last_mut(), is_open) {
                    join_folded(&mut self.values, last.value.start, line);
                    last.value.end = self.values.len();
                }
                continue;
            }
            is_open = false;
            let Some((name, value)) = field(line) else { continue };
            if self.fields.len() == FIELDS_MAX {
                break;
            }
            let hash = hash(name);
            let is_same = |other: &Field| {
                other.hash == hash && head[other.name.clone()].eq_ignore_ascii_case(name)
            };
            let is_again = self.fields.iter().any(is_same);
            let start = self.values.len();
            self.values.extend_from_slice(value);
            let value = start..self.values.len();
            self.fields.push(Field { name: place(name), hash, value, is_again });
            is_open = true;
        }
    }

    /// Puts what the fields named `name` say, with `, ` between them.
    fn put_values(&mut self, head: &[u8], name: &[u8]) {
        for field in &self.fields {
            if head[field.name.clone()].eq_ignore_ascii_case(name) {
                if field.is_again {
                    self.bytes.extend_from_slice(b", ");
                }
                self.bytes.extend_from_slice(&self.values[field.value.clone()]);
            }
        }
    }

    fn put(&mut self, buffer: Buffer, message: &Message<'_>) {
        let head = message.head;
        let line = lines(head).next().unwrap_or(&[]);
        let [one, two, three] = first_line(message.kind, line);
        let is_request = message.kind == Kind::Request;
        match buffer {
            Buffer::Uri => put_uri(one, two, &mut self.bytes),
            Buffer::RawUri | Buffer::StatusCode => self.bytes.extend_from_slice(two),
            Buffer::Header => self.put_header(head),
            Buffer::RawHeader => {
                let start = memchr::memchr(b'\n', head).map_or(head.len(), |at| at + 1);
                self.bytes.extend_from_slice(&head[start..]);
            }
            Buffer::Method => self.bytes.extend_from_slice(one),
            Buffer::Host => self.put_host(head, one, two),
            Buffer::HeaderNames => self.put_names(head),
            Buffer::RequestLine | Buffer::ResponseLine => self.bytes.extend_from_slice(line),
            Buffer::Protocol => self.bytes.extend_from_slice(if is_request { three } else { one }),
            Buffer::Start => self.bytes.extend_from_slice(head),
            Buffer::StatusMessage => self.bytes.extend_from_slice(three),
            Buffer::RequestBody => self.bytes.extend_from_slice(message.body),
            Buffer::ResponseBody => self.put_body(head, message.body),
            Buffer::Whole => {
                self.bytes.extend_from_slice(head);
                self.bytes.extend_from_slice(message.body);
            }
            _ => {
                if let Some(name) = buffer.field(message.kind) {
                    self.put_values(head, name);
                }
            }
        }
    }

    fn put_header(&mut self, head: &[u8]) {
        for (idx, first) in self.fields.iter().enumerate() {
            let name = &head[first.name.clone()];
            let is_cookie = |name: &[u8]| {
                name.eq_ignore_ascii_case(b"cookie") || name.eq_ignore_ascii_case(b"set-cookie")
            };
            if first.is_again || is_cookie(name) {
                continue;
            }
            self.bytes.extend_from_slice(name);
            self.bytes.extend_from_slice(b": ");
            self.bytes.extend_from_slice(&self.values[first.value.clone()]);
            for again in self.fields[idx + 1..].iter().filter(|field| field.is_again) {
                if head[again.name.clone()].eq_ignore_ascii_case(name) {
                    self.bytes.extend_from_slice(b", ");
                    self.bytes.extend_from_slice(&self.values[again.value.clone()]);
                }
            }
            self.bytes.extend_from_slice(b"\r\n");
        }
    }

    fn put_names(&mut self, head: &[u8]) {
        if self.fields.is_empty() {
            return;
        }
        self.bytes.extend_from_slice(b"\r\n");
        for field in self.fields.iter().filter(|field| !field.is_again) {
            self.bytes.extend_from_slice(&head[field.name.clone()]);
            self.bytes.extend_from_slice(b"\r\n");
        }
        self.bytes.extend_from_slice(b"\r\n");
    }

    /// The host that the target names, or else the field.
    fn put_host(&mut self, head: &[u8], method: &[u8], target: &[u8]) {
        let start = self.bytes.len();
        match authority(method, target) {
            Some(authority) => self.bytes.extend_from_slice(authority),
            None => self.put_values(head, b"host"),
        }
        let host = &self.bytes[start..];
        let bytes = match host {
            // An address of IPv6 has colons of its own.
            [b'[', ..] => memchr::memchr(b']', host).map_or(host.len(), |at| at + 1),
            _ => memchr::memchr(b':', host).unwrap_or(host.len()),
        };
        self.bytes.truncate(start + bytes);
        self.bytes[start..].make_ascii_lowercase();
    }

    /// A response's body, unpacked as far as that goes.
    fn put_body(&mut self, head: &[u8], body: &[u8]) {
        let start = self.bytes.len();
        self.put_values(head, b"content-encoding");
        let coding = self.bytes.split_off(start);
        let most = BODY_BYTES_MAX as u64;
        // What comes before an error is kept.
        let _ = match &coding.to_ascii_lowercase()[..] {
            b"gzip" | b"x-gzip" => {
                flate2::read::MultiGzDecoder::new(body).take(most).read_to_end(&mut self.bytes)
            }
            // Either form is sent under this name: what begins as the one is it.
            b"deflate" if is_zlib(body) => {
                flate2::read::ZlibDecoder::new(body).take(most).read_to_end(&mut self.bytes)
            }
            b"deflate" => {
                flate2::read::DeflateDecoder::new(body).take(most).read_to_end(&mut self.bytes)
            }
            _ => {
                self.bytes.extend_from_slice(body);
                Ok(body.len())
            }
        };
    }
}

/// The hash FNV-1a of a name in lower case: names that meet are compared.
fn hash(name: &[u8]) -> u32 {
    let step = |hash: u32, byte: &u8| {
        (hash ^ u32::from(byte.to_ascii_lowercase())).wrapping_mul(0x0100_0193)
    };
    name.iter().fold(0x811c_9dc5, step)
}

/// The host and port that a target names itself.
fn authority<'a>(method: &[u8], target: &'a [u8]) -> Option<&'a [u8]> {
    if method == b"CONNECT" {
        return Some(target);
    }
    let rest = behind_scheme(target)?;
    let bytes = rest.iter().take_while(|byte| !b"/?#".contains(byte)).count();
    let user = rest[..bytes].iter().rposition(|&byte| byte == b'@').map_or(0, |at| at + 1);
    Some(&rest[user..bytes])
}

fn behind_scheme(target: &[u8]) -> Option<&[u8]> {
    let letters = target.iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
    target[letters..].strip_prefix(b"://").filter(|_| letters > 0)
}

/// Puts a target in its plain form: without scheme and authority, decoded, and of its path no empty
/// parts and no dots.
fn put_uri(method: &[u8], target: &[u8], out: &mut Vec<u8>) {
    if method == b"CONNECT" {
        return out.extend_from_slice(target);
    }
    let target = match behind_scheme(target) {
        Some(rest) => &rest[rest.iter().take_while(|byte| !b"/?#".contains(byte)).count()..],
        None => target,
    };
    let path = target.iter().take_while(|&&byte| byte != b'?').count();
    let mut decoded = Vec::with_capacity(path);
    decode(&target[..path], &mut decoded);
    simplify(&decoded, out);
    decode(&target[path..], out);
}

/// Puts bytes with `%` and two hexadecimal digits as what these stand for.
fn decode(bytes: &[u8], out: &mut Vec<u8>) {
    let digit = |at: usize| bytes.get(at).and_then(|&byte| (byte as char).to_digit(16));
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        match (byte, digit(at + 1), digit(at + 2)) {
            (b'%', Some(high), Some(low)) => {
                out.push((high << 4 | low) as u8);
                at += 3;
            }
            _ => {
                out.push(byte);
                at += 1;
            }
        }
    }
}

/// Puts a path without empty parts, `.` and what `..` takes back; as it is if it has no root.
fn simplify(path: &[u8], out: &mut Vec<u8>) {
    if !path.starts_with(b"/") {
        return out.extend_from_slice(path);
    }
    let base = out.len();
    for (idx, part) in path.split(|&byte| byte == b'/').enumerate() {
        if idx > 0 && out[base..].last().is_none_or(|&byte| byte != b'/') {
            out.push(b'/');
        }
        match part {
            b"." => {}
            b".." => {
                let kept = out[base..].strip_suffix(b"/").unwrap_or(&[]);
                let kept = kept.iter().rposition(|&byte| byte == b'/').map_or(0, |at| at + 1);
                out.truncate(base + kept.max(1));
            }
            _ => out.extend_from_slice(part),
        }
    }
}

/// Whether a packed body begins as zlib's form does (RFC 1950, section 2.2).
fn is_zlib(body: &[u8]) -> bool {
    let [first, second, ..] = *body else { return false };
    first & 0x0f == 8 && (u16::from(first) << 8 | u16::from(second)).is_multiple_of(31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uri(target: &str) -> String {
        let mut out = b"x/".to_vec();
        put_uri(b"GET", target.as_bytes(), &mut out);
        String::from_utf8_lossy(&out[2..]).into_owned()
    }

    #[test]
    fn targets_have_one_form() {
        for (target, expected) in [
            ("/a/b?c=d", "/a/b?c=d"),
            ("/%61//b/./c/../d", "/a/b/d"),
            ("/a%2fb%2F..%2f..%2f..%2fc", "/c"),
            ("/..", "/"),
            ("/a/..", "/"),
            ("/a/../", "/"),
            ("/a/b/..", "/a/"),
            ("/a/.", "/a/"),
            ("/...//x", "/.../x"),
            ("/a?x=%41%zz%4&y=../%2e%2e//", "/a?x=A%zz%4&y=../..//"),
            ("http://u@Host:80/a//b", "/a/b"),
            ("http://host", ""),
            ("http://host?q", "?q"),
            ("a/../b%20", "a/../b "),
            ("*", "*"),
            ("/%2541", "/%41"),
            ("/a+b%00", "/a+b\0"),
        ] {
            assert_eq!(uri(target), expected, "{target}");
        }
    }

    fn buffers(kind: Kind, head: &str, body: &[u8]) -> Buffers {
        let mut buffers = Buffers::default();
        let mut all = BufferSet::default();
        Buffer::ALL.into_iter().for_each(|buffer| all.insert(buffer));
        buffers.fill(&Message { kind, head: head.as_bytes(), body }, all);
        buffers
    }

    #[test]
    fn a_request_has_its_buffers() {
        let head = "POST http://www.Example.org:8080/a%20b HTTP/1.1\r\nHost: Other\r\n\
            X-A:1\r\nCookie: c=1\r\nx-a : 2\r\n\tand 3\r\nno field\r\n of it\r\n: nameless\r\n\r\n";
        let found = buffers(Kind::Request, head, b"body");
        let check = |buffer, expected: &str| {
            assert_eq!(String::from_utf8_lossy(found.bytes(buffer)), expected, "{buffer:?}");
        };
        check(Buffer::Uri, "/a b");
        check(Buffer::RawUri, "http://www.Example.org:8080/a%20b");
        check(Buffer::Method, "POST");
        check(Buffer::Protocol, "HTTP/1.1");
        check(Buffer::Host, "www.example.org");
        check(Buffer::RawHost, "Other");
        check(Buffer::Header, "Host: Other\r\nX-A: 1, 2 and 3\r\n");
        check(Buffer::HeaderNames, "\r\nHost\r\nX-A\r\nCookie\r\n\r\n");
        check(Buffer::Cookie, "c=1");
        check(Buffer::RawHeader, &head[head.find('\n').unwrap() + 1..]);
        check(Buffer::Start, head);
        check(Buffer::RequestLine, "POST http://www.Example.org:8080/a%20b HTTP/1.1");
        check(Buffer::RequestBody, "body");
        for absent in [Buffer::Referer, Buffer::StatusCode, Buffer::ResponseBody, Buffer::Server] {
            check(absent, "");
        }
        let v6 = buffers(Kind::Request, "GET / HTTP/1.0\nHost: [2001:DB8::1]:80\n\n", b"");
        assert_eq!(v6.bytes(Buffer::Host), b"[2001:db8::1]");
        assert_eq!(v6.bytes(Buffer::RawHeader), b"Host: [2001:DB8::1]:80\n\n");
    }

    #[test]
    fn a_response_has_its_buffers_and_its_body_is_unpacked() {
        use std::io::Write;
        let head = "HTTP/1.1 404 Not  found\r\nServer: x\r\nSet-Cookie: a\r\nset-cookie: b\r\n";
        let found = buffers(Kind::Response, head, b"plain");
        assert_eq!(found.bytes(Buffer::StatusCode), b"404");
        assert_eq!(found.bytes(Buffer::StatusMessage), b"Not  found");
        assert_eq!(found.bytes(Buffer::Protocol), b"HTTP/1.1");
        assert_eq!(found.bytes(Buffer::Cookie), b"a, b");
        assert_eq!(found.bytes(Buffer::Header), b"Server: x\r\n");
        assert_eq!(found.bytes(Buffer::ResponseBody), b"plain");
        assert_eq!(found.bytes(Buffer::Uri), b"");
        // Twice what is looked at.
        let text = vec![b'x'; 2 * BODY_BYTES_MAX];
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), Default::default());
        gzip.write_all(&text).unwrap();
        let gzip = gzip.finish().unwrap();
        let head = "HTTP/1.1 200 OK\r\nContent-Encoding: GZip\r\n\r\n";
        let found = buffers(Kind::Response, head, &gzip);
        assert_eq!(found.bytes(Buffer::ResponseBody), &text[..BODY_BYTES_MAX]);
        // Cut off: as far as it goes; and none at all.
        let half = &gzip[..gzip.len() / 2];
        assert!(buffers(Kind::Response, head, half).bytes(Buffer::ResponseBody).starts_with(b"xx"));
        assert_eq!(buffers(Kind::Response, head, b"none").bytes(Buffer::ResponseBody), b"");
        let head = "HTTP/1.1 200 OK\r\nContent-Encoding: deflate\r\n\r\n";
        let mut raw = flate2::write::DeflateEncoder::new(Vec::new(), Default::default());
        raw.write_all(b"raw").unwrap();
        let raw = raw.finish().unwrap();
        assert_eq!(buffers(Kind::Response, head, &raw).bytes(Buffer::ResponseBody), b"raw");
        let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), Default::default());
        zlib.write_all(b"zlib").unwrap();
        let zlib = zlib.finish().unwrap();
        assert_eq!(buffers(Kind::Response, head, &zlib).bytes(Buffer::ResponseBody), b"zlib");
    }
}
