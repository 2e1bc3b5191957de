//! Messages and their buffers in the plainest form: all bytes of a direction are at hand, and each
//! buffer is made of text that was copied.

use super::{Answer, answer_of};
use crate::confirm::Text;
use crate::http::{BODY_BYTES_MAX, Buffer, FIELDS_MAX, HEAD_BYTES_MAX, Kind};
use crate::rule::{Rule, ToldWith};

/// A message of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// What it is.
    pub kind: Kind,
    /// Its head.
    pub head: Vec<u8>,
    /// As much of it as is looked at; none if there is none.
    pub body: Option<Vec<u8>>,
    /// Bytes of the stream up to where head and body are known; none where its end tells.
    pub ends: (Option<usize>, Option<usize>),
}

const METHODS: &str = "GET POST HEAD PUT DELETE OPTIONS TRACE CONNECT PATCH PROPFIND PROPPATCH \
    MKCOL COPY MOVE LOCK UNLOCK SEARCH REPORT";

/// Whether a rule about buffers is told of a message whose headers allow all: one about bodies with
/// its body, any other without; one about all of it with its body if it is not before.
///
/// Cost: exponential in the rule's options.
pub fn holds(rule: &Rule, message: &Message, with_body: bool) -> bool {
    let head = Message { body: None, ..message.clone() };
    match rule.told_with() {
        ToldWith::Head => !with_body && all_hold(rule, &head),
        ToldWith::Body => with_body && all_hold(rule, message),
        ToldWith::Either if with_body => all_hold(rule, message) && !all_hold(rule, &head),
        ToldWith::Either => all_hold(rule, &head),
    }
}

fn all_hold(rule: &Rule, message: &Message) -> bool {
    let fields = fields(&message.head);
    rule.buffers.iter().all(|of| {
        let bytes = buffer(of.buffer, message, &fields);
        let folded = bytes.to_ascii_lowercase();
        let text = Text { bytes: &bytes, folded: &folded, from: 0, is_start: true };
        !bytes.is_empty()
            && of.sizes.iter().all(|size| size.holds(bytes.len()))
            && answer_of(&of.steps, &text) != Answer::No
    })
}

/// The messages of a direction, all of whose bytes these are; `answers` says of which responses it
/// is known that they have no body, in order.
///
/// Cost: quadratic in the length. For tests.
pub fn messages(stream: &[u8], bodiless: &[bool]) -> Vec<Message> {
    let (mut found, mut at, mut answers) = (Vec::new(), 0, bodiless.iter());
    loop {
        while at < stream.len() && b"\r\n".contains(&stream[at]) {
            at += 1;
        }
        let (head, is_whole) = head(&stream[at..]);
        let Some(kind) = head.iter().position(|&byte| byte == b'\n').and_then(|end| {
            let line = String::from_utf8_lossy(&head[..end]).replace('\u{fffd}', "?");
            kind_of(line.strip_suffix('\r').unwrap_or(&line))
        }) else {
            return found;
        };
        let head = head.to_vec();
        let end = at + head.len();
        let mut message = Message { kind, head, body: None, ends: (Some(end), Some(end)) };
        if !is_whole {
            message.ends = (None, None);
            found.push(message);
            return found;
        }
        let words = words(&message);
        if kind == Kind::Response && words[1] == b"101" {
            found.push(message);
            return found;
        }
        let is_before = words[1].len() == 3 && words[1][0] == b'1';
        let is_bodiless =
            kind == Kind::Response && !is_before && answers.next().copied().unwrap_or(false);
        let rest = &stream[end..];
        let (body, used) = match body_kind(&message, is_bodiless) {
            Body::None => (Vec::new(), End::Whole(0)),
            Body::Length(length) if length > rest.len() as u64 => (rest.to_vec(), End::Open),
            Body::Length(length) => (rest[..length as usize].to_vec(), End::Whole(length as usize)),
            Body::Rest => (rest.to_vec(), End::Open),
            Body::Chunks => chunks(rest),
        };
        message.ends.1 = match used {
            End::Whole(used) | End::Wrong(used) => Some(end + used),
            End::Open => None,
        };
        let kept = body[..body.len().min(BODY_BYTES_MAX)].to_vec();
        message.body = Some(kept).filter(|body| !body.is_empty());
        found.push(message);
        match used {
            End::Whole(used) => at = end + used,
            End::Wrong(_) | End::Open => return found,
        }
    }
}

/// The head that a text begins with, and whether it is whole.
fn head(text: &[u8]) -> (&[u8], bool) {
    let text = &text[..text.len().min(HEAD_BYTES_MAX)];
    for end in 1..=text.len() {
        if text[..end].ends_with(b"\n\r\n") || text[..end].ends_with(b"\n\n") {
            return (&text[..end], true);
        }
    }
    (text, false)
}

fn is_version(word: &str) -> bool {
    word.starts_with("HTTP/")
}

fn kind_of(line: &str) -> Option<Kind> {
    if let Some(version) = line.strip_prefix("HTTP/") {
        return version.starts_with(|c: char| c.is_ascii_digit()).then_some(Kind::Response);
    }
    let (method, rest) = line.split_once([' ', '\t'])?;
    let is_letter = |c: char| c.is_ascii_alphabetic() || "-_".contains(c);
    let is_method = (1..=32).contains(&method.len()) && method.chars().all(is_letter);
    let rest = rest.trim_ascii();
    let last = rest.rsplit([' ', '\t']).next().unwrap_or("");
    let has_target = !rest.is_empty() && rest != last || !rest.is_empty() && !is_version(last);
    if !is_method || !has_target {
        return None;
    }
    let target = if is_version(last) { rest[..rest.len() - last.len()].trim_ascii() } else { rest };
    let is_other = ["RTSP/", "SIP/"].iter().any(|name| {
        target.len() > name.len()
            && target.as_bytes()[1..].windows(name.len()).any(|part| part == name.as_bytes())
    });
    let is_known = METHODS.split(' ').any(|known| known == method) && !is_other;
    (is_known || is_version(last)).then_some(Kind::Request)
}

/// Method, target and version; or version, code and the rest.
fn words(message: &Message) -> [Vec<u8>; 3] {
    let line = first_line(&message.head);
    let is_blank = |byte: &u8| b" \t".contains(byte);
    let mut words = line.splitn(2, is_blank);
    let one = words.next().unwrap_or(&[]).to_vec();
    let rest = words.next().unwrap_or(&[]).trim_ascii();
    if message.kind == Kind::Response {
        let mut words = rest.splitn(2, is_blank);
        let two = words.next().unwrap_or(&[]).to_vec();
        return [one, two, words.next().unwrap_or(&[]).trim_ascii().to_vec()];
    }
    let last = rest.rsplitn(2, is_blank).next().unwrap_or(&[]);
    if !last.starts_with(b"HTTP/") {
        return [one, rest.to_vec(), Vec::new()];
    }
    [one, rest[..rest.len() - last.len()].trim_ascii().to_vec(), last.to_vec()]
}

fn first_line(head: &[u8]) -> &[u8] {
    let line = head.split(|&byte| byte == b'\n').next().unwrap_or(&[]);
    line.strip_suffix(b"\r").unwrap_or(line)
}

enum Body {
    None,
    Length(u64),
    Chunks,
    Rest,
}

fn body_kind(message: &Message, is_bodiless: bool) -> Body {
    let code = &words(message)[1];
    let is_short = code.len() == 3 && code[0] == b'1' || code == b"204" || code == b"304";
    if is_bodiless || message.kind == Kind::Response && is_short {
        return Body::None;
    }
    let mut length = None;
    for (name, value) in raw_fields(&message.head) {
        let value = String::from_utf8_lossy(&value).to_ascii_lowercase();
        if name == b"transfer-encoding" && value.contains("chunked") {
            return Body::Chunks;
        }
        if name == b"content-length" && length.is_none() {
            let digits: String = value.chars().take_while(char::is_ascii_digit).collect();
            length = digits.parse().ok();
        }
    }
    match (length, message.kind) {
        (Some(0), _) | (None, Kind::Request) => Body::None,
        (Some(length), _) => Body::Length(length),
        (None, Kind::Response) => Body::Rest,
    }
}

/// Where a body ends that is in chunks.
enum End {
    /// Behind so many bytes.
    Whole(usize),
    /// Where these bytes show that there are no more chunks.
    Wrong(usize),
    /// Not among those that are there.
    Open,
}

/// What chunks hold, and where they end.
fn chunks(text: &[u8]) -> (Vec<u8>, End) {
    let (mut body, mut at) = (Vec::new(), 0);
    let behind = |mut at: usize, skipped: &[u8]| {
        while text.get(at).is_some_and(|byte| skipped.contains(byte)) {
            at += 1;
        }
        at
    };
    let line_end = |at: usize| text[at..].iter().position(|&byte| byte == b'\n');
    loop {
        at = behind(at, b" \t");
        match text.get(at) {
            None => return (body, End::Open),
            Some(byte) if !byte.is_ascii_hexdigit() => return (body, End::Wrong(at + 1)),
            Some(_) => {}
        }
        let Some(end) = line_end(at) else { return (body, End::Open) };
        let digits = text[at..at + end].iter().map_while(|&byte| (byte as char).to_digit(16));
        let size =
            digits.fold(0u64, |size, digit| size.saturating_mul(16).saturating_add(digit.into()));
        at += end + 1;
        if size == 0 {
            break;
        }
        let taken = usize::try_from(size).map_or(text.len() - at, |it| it.min(text.len() - at));
        body.extend_from_slice(&text[at..at + taken]);
        at = behind(at + taken, if taken as u64 == size { b"\r" } else { b"" });
        match text.get(at) {
            None => return (body, End::Open),
            Some(b'\n') => at += 1,
            Some(_) => return (body, End::Wrong(at + 1)),
        }
    }
    while let Some(end) = line_end(at) {
        let line = &text[at..at + end];
        at += end + 1;
        if line.iter().all(|&byte| byte == b'\r') {
            return (body, End::Whole(at));
        }
    }
    (body, End::Open)
}

/// Lines with a colon, as they are: name in lower case, and value.
fn raw_fields(head: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut all: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
    for line in head.split(|&byte| byte == b'\n').skip(1) {
        if line.starts_with(b" ") || line.starts_with(b"\t") {
            if let Some(last) = all.last_mut() {
                last.1 = folded(&last.1, line);
            }
            continue;
        }
        let mut parts = line.splitn(2, |&byte| byte == b':');
        let name = parts.next().unwrap_or(&[]).trim_ascii().to_ascii_lowercase();
        // Without a colon it has no name, and what is folded behind it is nobody's.
        let name = if line.contains(&b':') { name } else { Vec::new() };
        all.push((name, parts.next().unwrap_or(&[]).trim_ascii().to_vec()));
    }
    all.retain(|(name, _)| !name.is_empty());
    all
}

/// A value that goes on in another line.
fn folded(value: &[u8], line: &[u8]) -> Vec<u8> {
    let words: Vec<&[u8]> =
        [value, line.trim_ascii()].into_iter().filter(|part| !part.is_empty()).collect();
    words.join(&b' ')
}

/// Fields, those of one name joined, in the order of the first ones.
fn fields(head: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut all: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
    let mut is_field = false;
    for line in head.split(|&byte| byte == b'\n').skip(1) {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.starts_with(b" ") || line.starts_with(b"\t") {
            if let (Some(last), true) = (all.last_mut(), is_field) {
                last.1 = folded(&last.1, line);
            }
            continue;
        }
        let mut parts = line.splitn(2, |&byte| byte == b':');
        let name = parts.next().unwrap_or(&[]).trim_ascii();
        let value = parts.next();
        is_field = value.is_some() && !name.is_empty();
        if let (Some(value), true) = (value, is_field) {
            if all.len() == FIELDS_MAX {
                break;
            }
            all.push((name.to_vec(), value.trim_ascii().to_vec()));
        }
    }
    let mut joined: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
    for (name, value) in all {
        match joined.iter_mut().find(|(known, _)| known.eq_ignore_ascii_case(&name)) {
            Some((_, known)) => *known = [&known[..], b", ", &value].concat(),
            None => joined.push((name, value)),
        }
    }
    joined
}

fn buffer(buffer: Buffer, message: &Message, fields: &[(Vec<u8>, Vec<u8>)]) -> Vec<u8> {
    if buffer.kind().is_some_and(|kind| kind != message.kind) {
        return Vec::new();
    }
    let [one, two, three] = words(message);
    let value = |name: &str| {
        let found = fields.iter().find(|(known, _)| known.eq_ignore_ascii_case(name.as_bytes()));
        found.map(|(_, value)| value.clone()).unwrap_or_default()
    };
    let is_request = message.kind == Kind::Request;
    let body = message.body.clone().unwrap_or_default();
    match buffer {
        Buffer::Uri => uri(&one, &two),
        Buffer::RawUri | Buffer::StatusCode => two,
        Buffer::Method => one,
        Buffer::Protocol => [one, three][usize::from(is_request)].clone(),
        Buffer::StatusMessage => three,
        Buffer::Start => message.head.clone(),
        Buffer::RequestLine | Buffer::ResponseLine => first_line(&message.head).to_vec(),
        Buffer::RawHeader => message.head.splitn(2, |&b| b == b'\n').nth(1).unwrap_or(&[]).to_vec(),
        Buffer::Header => {
            let is_cookie = |name: &[u8]| {
                [&b"cookie"[..], b"set-cookie"].contains(&&name.to_ascii_lowercase()[..])
            };
            let shown = fields.iter().filter(|(name, _)| !is_cookie(name));
            shown.flat_map(|(name, value)| [name, &b": "[..], value, b"\r\n"].concat()).collect()
        }
        Buffer::HeaderNames if fields.is_empty() => Vec::new(),
        Buffer::HeaderNames => {
            let names: Vec<&[u8]> = fields.iter().map(|(name, _)| &name[..]).collect();
            [b"\r\n", &names.join(&b"\r\n"[..])[..], b"\r\n\r\n"].concat()
        }
        Buffer::Host => {
            let scheme = two.windows(3).position(|part| part == b"://");
            let named =
                scheme.is_some_and(|at| at > 0 && two[..at].iter().all(u8::is_ascii_alphabetic));
            let host = match (&one[..], named) {
                (b"CONNECT", _) => two,
                (_, true) => {
                    let start = two.windows(3).position(|part| part == b"://").unwrap_or(0) + 3;
                    let rest = two[start..].split(|byte| b"/?#".contains(byte)).next();
                    let rest = rest.unwrap_or(&[]);
                    rest.rsplit(|&byte| byte == b'@').next().unwrap_or(&[]).to_vec()
                }
                (_, false) => value("host"),
            };
            let end = match host.first() {
                Some(b'[') => host.iter().position(|&byte| byte == b']').map(|at| at + 1),
                _ => host.iter().position(|&byte| byte == b':'),
            };
            host[..end.unwrap_or(host.len())].to_ascii_lowercase()
        }
        Buffer::Cookie if is_request => value("cookie"),
        Buffer::Cookie => value("set-cookie"),
        Buffer::UserAgent => value("user-agent"),
        Buffer::RawHost => value("host"),
        Buffer::Accept => value("accept"),
        Buffer::AcceptEncoding => value("accept-encoding"),
        Buffer::AcceptLanguage => value("accept-language"),
        Buffer::Referer => value("referer"),
        Buffer::Connection => value("connection"),
        Buffer::ContentType => value("content-type"),
        Buffer::ContentLength => value("content-length"),
        Buffer::Location => value("location"),
        Buffer::Server => value("server"),
        // What is packed is told apart by its own tests.
        Buffer::RequestBody | Buffer::ResponseBody => body,
        Buffer::Whole => [&message.head[..], &body].concat(),
    }
}

fn uri(method: &[u8], target: &[u8]) -> Vec<u8> {
    if method == b"CONNECT" {
        return target.to_vec();
    }
    let mut target = target;
    if let Some(at) = target.windows(3).position(|part| part == b"://")
        && at > 0
        && target[..at].iter().all(u8::is_ascii_alphabetic)
    {
        let rest = &target[at + 3..];
        let end = rest.iter().position(|byte| b"/?#".contains(byte)).unwrap_or(rest.len());
        target = &rest[end..];
    }
    let path = target.iter().position(|&byte| byte == b'?').unwrap_or(target.len());
    let decoded = decoded(&target[..path]);
    if !decoded.starts_with(b"/") {
        return [decoded, self::decoded(&target[path..])].concat();
    }
    let mut parts: Vec<&[u8]> = Vec::new();
    let mut is_folder = true;
    for part in decoded.split(|&byte| byte == b'/') {
        is_folder = matches!(part, b"" | b"." | b"..");
        match part {
            b"" | b"." => {}
            b".." => drop(parts.pop()),
            _ => parts.push(part),
        }
    }
    let end = if is_folder && !parts.is_empty() { &b"/"[..] } else { b"" };
    [b"/", &parts.join(&b'/')[..], end, &self::decoded(&target[path..])].concat()
}

fn decoded(text: &[u8]) -> Vec<u8> {
    let digit = |byte: u8| (byte as char).to_digit(16);
    let (mut out, mut at) = (Vec::new(), 0);
    while at < text.len() {
        if let [b'%', high, low, ..] = text[at..]
            && let (Some(high), Some(low)) = (digit(high), digit(low))
        {
            out.push((high * 16 + low) as u8);
            at += 3;
        } else {
            out.push(text[at]);
            at += 1;
        }
    }
    out
}
