//! Rules about buffers of messages.

use std::io::Write;

use proptest::prelude::*;

use super::agree::step;
use super::frames::*;
use super::{alerts, inspect_ahead, inspector, packets, rules, told};
use crate::http::{Kind, Part, Speaker, Told, Wants};
use crate::inspect::InspectorOptions;
use crate::naive::http::{Message, holds, messages};

const GET: &[u8] =
    b"GET /a/%65vil?q=1 HTTP/1.1\r\nHost: WWW.example.org\r\nUser-Agent: x\r\nCookie: k=v\r\n\r\n";

fn rule(sid: u32, options: &str) -> String {
    format!("alert tcp any any -> any any ({options} sid:{sid};)\n")
}

/// Which of these options hold for a client's bytes, in one segment and byte by byte.
fn holding(stream: &[u8], options: &[&str]) -> Vec<usize> {
    let text: String = options.iter().zip(1..).map(|(options, sid)| rule(sid, options)).collect();
    let whole = told(&text, &connection(&[(0, stream)]));
    let bytes: Vec<(u32, &[u8])> = (0..).zip(stream.chunks(1)).collect();
    let cut = told(&text, &connection(&bytes));
    let sids = |told: Vec<(u64, u32)>| told.into_iter().map(|(_, sid)| sid as usize - 1).collect();
    let (whole, cut): (Vec<usize>, Vec<usize>) = (sids(whole), sids(cut));
    assert_eq!(whole, cut);
    whole
}

#[test]
fn words_of_all_three_languages_name_buffers() {
    let options = [
        "content:\"/a/evil?q=1\"; http_uri;",
        "http.uri; content:\"/a/evil\"; startswith;",
        "http_uri; content:\"/A/EVIL\",nocase;",
        "pcre:\"/^\\/a\\/evil/U\";",
        "content:\"%65\"; http_raw_uri;",
        "http.uri.raw; content:\"%65\";",
        "content:\"GET\"; http_method; content:\"www.example.org\"; http_host;",
        "content:\"WWW\"; http_host;",
        "content:\"Agent: x|0d 0a|\"; http_header; content:!\"Cookie\"; http_header;",
        "content:\"k=v\"; http_cookie; depth:3;",
        "http.header_names; content:\"|0d 0a|Host|0d 0a|\"; startswith;",
        "http.user_agent; content:\"x\"; bsize:1;",
        "http_uri; bufferlen:11; http_header; content:\"Host\",offset 0;",
        "urilen:11;",
        "urilen:>11;",
        "urilen:13,raw; content:\"evil\"; http_uri;",
        "content:\"/a\"; http_uri; content:\"evil\"; http_uri; distance:1; within:4;",
        "content:\"q=1\"; http_uri; isdataat:!1,relative;",
        "content:!\"x\"; http_client_body;",
        "http.referer; content:!\"x\";",
        "http_protocol; content:\"HTTP/1.1\"; content:!\"z\"; http_uri;",
        "http.protocol; content:\"HTTP/1.1\"; endswith;",
        "http.request_line; content:\"GET /a/%65\";",
        "http.start; content:\"|0d 0a 0d 0a|\"; endswith;",
        "http.header; content:\"evil\";",
        "content:\"200\"; http_stat_code;",
        "pcre:\"/^k=\\w$/C\"; pcre:\"/^GET$/M\"; pcre:\"/x\\r\\n/H\"; pcre:\"/%65/I\";",
        "content:\"/a\"; http_uri; content:\"Host\"; http_header; content:\"evil\"; http_uri; \
            distance:1;",
    ];
    let expected = [0, 1, 2, 3, 4, 5, 6, 8, 9, 10, 11, 12, 13, 15, 16, 17, 20, 21, 22, 23, 26, 27];
    assert_eq!(holding(GET, &options), expected);
}

#[test]
fn what_no_message_can_hold_is_left_out_with_its_reason() {
    let options = [
        ("content:\"a\"; http_uri; dsize:9;", "header options beside buffers"),
        (
            "http.uri; content:\"a\"; file_data; content:\"b\";",
            "buffers of requests and of responses",
        ),
        ("flow:to_client; http.uri; content:\"a\";", "a buffer of the other direction"),
        ("flow:to_server; file_data; content:\"a\";", "a buffer of the other direction"),
        ("flow:no_stream; http.uri; content:\"a\";", "buffers of what is no stream"),
        ("http.location;", "a buffer that nothing is said about"),
        ("content:\"a\"; http.location;", "a buffer that nothing is said about"),
        ("http.uri; http.host; content:\"a\";", "a buffer that nothing is said about"),
        ("http_uri;", "a buffer that nothing is said about"),
        ("http_header:field host; content:\"a\";", "http_header with a value"),
        ("content:\"a\"; bsize:1;", "bsize of the payload"),
        (
            "http.uri; byte_extract:1,0,v; http.header; content:\"a\"; offset:v;",
            "variables of another buffer",
        ),
        ("http.uri; content:\"a\"; bsize:1,relative;", "bsize relative"),
    ];
    let text: String = options.iter().zip(1..).map(|((text, _), sid)| rule(sid, text)).collect();
    let rules = rules(&(text + "alert udp any any -> any any (http.uri; content:\"a\"; sid:99;)"));
    assert_eq!(rules.rules.len(), 0);
    let found: Vec<&[String]> = rules.left_out.iter().map(|rule| &rule.keywords[..]).collect();
    let expected = options.iter().map(|(_, reason)| vec![reason.to_string()]);
    let expected: Vec<Vec<String>> =
        expected.chain([vec!["buffers of what is no stream".to_owned()]]).collect();
    assert_eq!(found, expected);
}

#[test]
fn bodies_are_told_when_they_end() {
    let options = ["content:\"evil\"; http_client_body;", "content:\"POST\"; http_method;"];
    let plain = b"POST / HTTP/1.1\r\nContent-Length: 4\r\n\r\nevilGET /evil HTTP/1.0\r\n\r\n";
    assert_eq!(holding(plain, &options), [1, 0]);
    let chunked =
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nev\r\n2;x=y\r\nil\r\n\
        0\r\nTrailer: x\r\n\r\nPOST / HTTP/1.1\r\n\r\n";
    assert_eq!(holding(chunked, &options), [1, 0, 1]);
    // Never whole: as it is when the flow ends.
    let part = b"POST / HTTP/1.1\r\nContent-Length: 9999\r\n\r\nan evil";
    assert_eq!(holding(part, &options), [1, 0]);
    // What looks like a request within a body is none.
    let within = b"POST / HTTP/1.1\r\nContent-Length: 18\r\n\r\nPOST / HTTP/1.1\r\n\r\n";
    assert_eq!(holding(within, &options), [1]);
}

#[test]
fn payload_options_beside_buffers_are_about_the_message() {
    let options = [
        "content:\"POST\"; http_method; content:\"evil\";",
        "content:\"POST \"; depth:5; content:\"/a\"; http_uri;",
        "content:!\"evil\"; content:\"/a\"; http_uri;",
        "http_uri; content:\"/a\"; pkt_data; content:\"|0d 0a|an evil\",fast_pattern;",
        "content:\"evil\"; http_client_body; content:\"Length: 7\";",
        "content:\"GET\"; http_method; content:\"evil\";",
        "urilen:2; content:\"|20|HTTP/1.1\";",
    ];
    // Told once, though some hold in the head and in all.
    let body = b"POST /a HTTP/1.1\r\nContent-Length: 7\r\n\r\nan evil";
    assert_eq!(holding(body, &options), [1, 2, 6, 0, 3, 4]);
    // What is in the next message is none of this one's.
    let two = b"GET /a HTTP/1.1\r\n\r\nPOST / HTTP/1.1\r\nX: evil\r\n\r\n";
    assert_eq!(holding(two, &options), [2, 6, 0]);
}

/// A connection whose sides say these.
fn talk(parts: &[(bool, &[u8])]) -> Vec<Vec<u8>> {
    let (mut frames, mut seqs) = (handshake(CLIENT, SERVER), [1001u32, 5001]);
    for &(is_client, bytes) in parts {
        let [client, server] = seqs;
        frames.push(match is_client {
            true => tcp(CLIENT, SERVER, ACK, client, server, bytes),
            false => tcp(SERVER, CLIENT, ACK, server, client, bytes),
        });
        seqs[usize::from(!is_client)] += bytes.len() as u32;
    }
    frames
}

#[test]
fn answers_are_those_of_their_requests() {
    let text = rule(1, "flow:to_client; content:\"404\"; http_stat_code;")
        + &rule(2, "flow:to_client; file_data; content:\"evil\";")
        + &rule(3, "flow:to_client,established; content:\"Server: x\"; http_header;");
    let head = b"HTTP/1.1 404 None\r\nServer: x\r\nContent-Length: 4\r\n\r\n";
    let requests = b"HEAD / HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\n";
    let answers = [&head[..], head, b"evil"].concat();
    assert_eq!(
        told(&text, &talk(&[(true, requests), (false, &answers)])),
        [(5, 1), (5, 3), (5, 1), (5, 3), (5, 2)]
    );
    // As long as the stream: told where its sender ends it.
    let mut frames = talk(&[(true, GET), (false, b"HTTP/1.0 200 OK\r\n\r\nev"), (false, b"il")]);
    frames.push(tcp(SERVER, CLIENT, ACK | 1, 5001 + 23, 1001 + GET.len() as u32, b""));
    assert_eq!(told(&text, &frames), [(7, 2)]);
    // Packed.
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), Default::default());
    gzip.write_all(b"some evil text").unwrap();
    let body = gzip.finish().unwrap();
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    let answer = [head.as_bytes(), &body].concat();
    assert_eq!(told(&text, &talk(&[(true, GET), (false, &answer)])), [(5, 2)]);
}

/// Who says no more, or says it in another way, takes nothing from what the other side says.
#[test]
fn answers_go_on_whatever_becomes_of_requests() {
    let text = rule(1, "flow:to_client; content:\"404\"; http_stat_code;")
        + &rule(2, "content:\"body\"; http_client_body;");
    let not_found = b"HTTP/1.1 404 None\r\n\r\n";
    let head = b"HTTP/1.1 200 Yes\r\nContent-Length: 4\r\n\r\n";
    let answers = [&head[..], not_found].concat();
    // The client ends its side, or goes on with something else.
    let requests = b"HEAD / HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\n";
    for end in [&b""[..], b"\0"] {
        let requests = [&requests[..], end].concat();
        let mut frames = talk(&[(true, &requests)]);
        let seq = 1001 + requests.len() as u32;
        if end.is_empty() {
            frames.push(tcp(CLIENT, SERVER, ACK | 1, seq, 5001, b""));
        }
        frames.push(tcp(SERVER, CLIENT, ACK, 5001, seq, &answers));
        let sids: Vec<u32> = told(&text, &frames).into_iter().map(|(_, sid)| sid).collect();
        assert_eq!(sids, [1], "{end:?}");
    }
    // More requests than are known one by one.
    let many = b"GET / HTTP/1.1\r\n\r\n".repeat(70);
    let all = b"HTTP/1.1 200 Yes\r\nContent-Length: 0\r\n\r\n".repeat(70);
    let parts = [(true, &many[..]), (false, &all), (true, requests), (false, &answers)];
    assert_eq!(told(&text, &talk(&parts)).len(), 1);
    // A tunnel that is refused has a body, one that is not has none.
    let connect = b"CONNECT a:1 HTTP/1.1\r\n\r\n";
    let refused = [&b"HTTP/1.1 407 No\r\nContent-Length: 4\r\n\r\nnono"[..], not_found].concat();
    assert_eq!(told(&text, &talk(&[(true, connect), (false, &refused)])).len(), 1);
    assert_eq!(told(&text, &talk(&[(true, connect), (false, &answers)])).len(), 1);
    // Folded fields.
    for field in
        ["Content-Length:\r\n 4\r\n\r\nbody", "Transfer-Encoding:\r\n\tchunked\r\n\r\n4\r\nbody"]
    {
        let request = format!("POST / HTTP/1.1\r\n{field}");
        let sids: Vec<u32> = told(&text, &talk(&[(true, request.as_bytes())]))
            .into_iter()
            .map(|(_, sid)| sid)
            .collect();
        assert_eq!(sids, [2], "{field}");
    }
    assert_eq!(
        holding(
            b"GET / HTTP/1.1\r\nHost:\r\n evil.com\r\n \r\n\r\n",
            &["http.host; content:\"evil.com\"; bsize:8;"]
        ),
        [0]
    );
}

#[test]
fn only_what_begins_and_goes_on_as_http_is_read() {
    let text = rule(1, "content:\"/evil\"; http_uri;");
    let evil = b"GET /evil HTTP/1.0\r\n\r\n";
    let found = |parts: &[(u32, &[u8])]| told(&text, &connection(parts));
    assert_eq!(found(&[(0, evil)]), [(4, 1)]);
    assert_eq!(found(&[(0, b"\r\n"), (2, evil)]), [(5, 1)]);
    assert_eq!(found(&[(0, b"EHLO x\r\n"), (8, evil)]), []);
    assert_eq!(found(&[(0, b"\x16\x03\x01"), (3, evil)]), []);
    assert_eq!(found(&[(0, b"OPTIONS /evil RTSP/1.0\r\n\r\n")]), []);
    assert_eq!(found(&[(0, b"ODD /evil HTTP/1.0\r\n\r\n")]), [(4, 1)]);
    assert_eq!(found(&[(0, evil), (22, b"junk\r\n"), (28, evil)]), [(4, 1)]);
    // Segments that had to wait; and a gap, behind which nothing is a message's beginning.
    assert_eq!(found(&[(4, &evil[4..]), (0, b"GET ")]), [(5, 1)]);
    let mut frames = connection(&[(0, b"GET /"), (105, evil)]);
    frames.push(tcp(SERVER, CLIENT, ACK, 5001, 1127, b""));
    frames.push(tcp(CLIENT, SERVER, ACK, 1128, 5001, evil));
    assert_eq!(told(&text, &frames), []);
    // Met midway, at the beginning of a message.
    assert_eq!(told(&text, &connection(&[(0, evil)])[3..]), [(1, 1)]);
    // Nothing ends this head but the flow.
    assert_eq!(found(&[(0, b"GET /evil HTTP/1.1\r\nHost: x\r\n")]), [(4, 1)]);
}

#[test]
fn bits_thresholds_and_passes_are_those_of_messages() {
    let text = rule(1, "http.uri; content:\"/first\"; flowbits:set,seen; noalert;")
        + &rule(2, "http.uri; content:\"/second\"; flowbits:isset,seen;")
        + &rule(
            3,
            "http.method; content:\"GET\"; threshold:type limit,track by_src,count 2,\
            seconds 60;",
        )
        + &rule(4, "http.uri; content:\"quiet\"; http.request_body; content:\"x\";")
        + "pass tcp any any -> any any (http.uri; content:\"quiet\"; sid:5;)\n";
    let get = |uri: &str| format!("GET {uri} HTTP/1.1\r\n\r\n");
    let all = [get("/second"), get("/first"), get("/second"), get("/second")].concat();
    assert_eq!(told(&text, &connection(&[(0, all.as_bytes())])), [(4, 3), (4, 3), (4, 2), (4, 2)]);
    let quiet = b"GET /quiet HTTP/1.1\r\nContent-Length: 1\r\n\r\nx";
    let mut one = inspector(&text, InspectorOptions::default());
    assert_eq!(alerts(&mut one, &connection(&[(0, quiet)])), []);
    assert_eq!(one.stats().passed, 2);
}

#[test]
fn messages_and_sides_that_are_given_up_are_counted() {
    let text = rule(1, "http.uri; content:\"/x\";");
    let counted = |frames: &[Vec<u8>]| {
        let mut one = inspector(&text, InspectorOptions::default());
        alerts(&mut one, frames);
        let stats = one.stats();
        (stats.http_requests, stats.http_responses, stats.http_given_up)
    };
    let get = &b"GET / HTTP/1.1\r\n\r\n"[..];
    let of_client = |segments: &[(u32, &[u8])]| counted(&connection(segments));
    assert_eq!(of_client(&[(0, get), (18, get)]), (2, 0, 0));
    assert_eq!(of_client(&[(0, b"GET / HTTP/1.1\r\nHost: x\r\n")]), (1, 0, 0));
    // It may have been HTTP, and is none; it was, and goes on otherwise.
    assert_eq!(of_client(&[(0, b"EHLO x\r\n"), (8, get)]), (0, 0, 0));
    assert_eq!(of_client(&[(0, get), (18, b"\x16\x03\x01\r\n")]), (1, 0, 1));
    // A gap, over which the server's acknowledgement goes.
    let mut frames = connection(&[(0, get), (118, get)]);
    frames.push(tcp(SERVER, CLIENT, ACK, 5001, 1137, b""));
    assert_eq!(counted(&frames), (1, 0, 1));
    for (answer, expected) in [
        (&b"HTTP/1.1 204 x\r\n\r\n"[..], (1, 1, 0)),
        (b"HTTP/1.1 101 x\r\n\r\n", (1, 1, 1)),
        (b"HTTP/1.1 200 x\r\nTransfer-Encoding: chunked\r\n\r\nwrong", (1, 1, 1)),
    ] {
        let mut frames = connection(&[(0, get)]);
        frames.push(tcp(SERVER, CLIENT, ACK, 5001, 1019, answer));
        assert_eq!(counted(&frames), expected);
    }
}

#[test]
fn memory_of_messages_counts_and_is_given_back() {
    let text = rule(1, "content:\"evil\"; http_client_body;");
    let mut frames = Vec::new();
    let ports = 40000..40032u16;
    for port in ports.clone() {
        let client = End("10.0.0.1", port);
        frames.extend(handshake(client, SERVER));
        let head = b"POST / HTTP/1.1\r\nContent-Length: 99999\r\n\r\nevil";
        frames.push(tcp(client, SERVER, ACK, 1001, 5001, head));
        let seq = 1001 + head.len() as u32;
        frames.push(tcp(client, SERVER, ACK, seq, 5001, &[b'x'; 8000]));
    }
    let options = |stream_bytes_max| InspectorOptions { stream_bytes_max, ..Default::default() };
    let mut large = inspector(&text, options(1 << 20));
    let mut found = Vec::new();
    large.inspect(packets(&frames), &mut found);
    assert!(large.stream_bytes() > 32 * 8000 && found.is_empty());
    large.finish(&mut found);
    assert_eq!((found.len(), large.stream_bytes(), large.flows()), (32, 0, 0));
    assert!(found.iter().all(|alert| alert.packet.is_none()));
    // With less they end before, whatever the batches.
    let run = |batch| {
        let mut small = inspector(&text, options(100_000));
        let mut found = Vec::new();
        for frames in packets(&frames).chunks(batch) {
            small.inspect(frames.iter().copied(), &mut found);
            assert!(small.stream_bytes() <= 100_000);
        }
        small.finish(&mut found);
        assert!(small.stats().flows_evicted_for_memory > 10);
        found
    };
    assert_eq!(run(1).len(), 32);
    assert_eq!(run(1), run(7));
    assert_eq!(run(1), run(1000));
}

/// Parts of messages, right ones and others.
fn stream() -> impl Strategy<Value = Vec<u8>> {
    let part = prop::sample::select(vec![
        &b"GET /a%41/./b//..?A=%62 HTTP/1.1\r\n"[..],
        b"POST http://aB:8/x HTTP/1.0\n",
        b"HEAD / HTTP/1.1\r\n",
        b"Ab /b a HTTP/1.1\r\n",
        b"CONNECT aA:1 HTTP/1.1\r\n",
        b"HTTP/1.1 200 A b\r\n",
        b"HTTP/1.1 304 Ab\r\n",
        b"HTTP/1.1 100 x\r\n\r\n",
        b"HTTP/1.1 101 x\r\n\r\n",
        b"Content-Length: 3\r\n",
        b"content-length:0\r\n",
        b"Transfer-Encoding: Chunked\r\n",
        b"Transfer-Encoding:\r\n\tchunked\r\n",
        b"Content-Length:\n \r\n 3\r\n",
        b"Host:\r\n Ab\r\n \r\n",
        b"Host: aB:1\r\n",
        b"X: a\r\nCookie: A\r\nx:b\r\n",
        b"Set-Cookie: A\n",
        b" ab\r\n",
        b"\tA",
        b"\r\n",
        b"\r\n",
        b"\n",
        b"3\r\nabA\r\n",
        b"2 ;a\r\nab\r\n0\r\n\r\n",
        b"0\r\nA: b\r\n\r\n",
        b"abA",
        b"b\0A",
    ]);
    let message = (part.clone(), prop::collection::vec(part.clone(), 0..5))
        .prop_map(|(first, rest)| [first, &rest.concat(), b"\r\n"].concat());
    let piece = prop_oneof![2 => message, 1 => part.prop_map(<[u8]>::to_vec)];
    prop::collection::vec(piece, 0..6).prop_map(|pieces| pieces.concat())
}

type Said = (Part, Kind, u64, Vec<u8>, Vec<u8>);

/// What a speaker tells of a stream in pieces of these lengths.
fn said(stream: &[u8], lens: &[usize]) -> Vec<Said> {
    let wants = Wants { request_bodies: true, response_bodies: true };
    let mut speaker = Speaker::new(0);
    let mut all = Vec::new();
    let mut put = |told: Told<'_>| {
        all.push((told.part, told.kind, told.number, told.head.to_vec(), told.body.to_vec()));
    };
    let (mut rest, mut lens) = (stream, lens.iter().cycle());
    while !rest.is_empty() {
        let len = lens.next().map_or(rest.len(), |&len| len.min(rest.len()));
        speaker.feed(&rest[..len], None, wants, &mut put);
        rest = &rest[len..];
    }
    speaker.close(&mut put);
    assert!(speaker.is_off());
    all
}

fn plain(messages: &[Message]) -> Vec<Said> {
    let mut all = Vec::new();
    for (message, number) in messages.iter().zip(1..) {
        let Message { kind, head, body, .. } = message.clone();
        all.push((Part::Head, kind, number, head.clone(), Vec::new()));
        all.extend(body.map(|body| (Part::Body, kind, number, head, body)));
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    /// Messages are those of the reference, however the stream is cut.
    #[test]
    fn messages_hang_on_the_bytes_alone(
        stream in stream(),
        lens in prop::collection::vec(1usize..9, 1..6),
    ) {
        let expected = plain(&messages(&stream, &[]));
        prop_assert_eq!(&said(&stream, &[]), &expected);
        prop_assert_eq!(&said(&stream, &[1]), &expected);
        prop_assert_eq!(&said(&stream, &lens), &expected);
    }

    #[test]
    fn any_bytes_are_messages_or_none(
        stream in prop::collection::vec(any::<u8>(), 0..60),
        begin in prop::sample::select(vec![&b""[..], b"GET / HTTP/1.1\r\n", b"HTTP/1.1 200\n\n"]),
    ) {
        let stream = [begin, &stream].concat();
        prop_assert_eq!(said(&stream, &[]), plain(&messages(&stream, &[])));
        prop_assert_eq!(said(&stream, &[1, 3]), plain(&messages(&stream, &[])));
    }
}

/// Options about buffers.
fn about() -> impl Strategy<Value = String> {
    let word = prop::sample::select(vec![
        "pkt_data",
        "http.uri",
        "http.uri.raw",
        "http.header",
        "http.header.raw",
        "http.method",
        "http.cookie",
        "http.host",
        "http.host.raw",
        "http.header_names",
        "http.request_line",
        "http.protocol",
        "http.start",
        "http.request_body",
        "http.content_len",
    ]);
    (word, prop::collection::vec(step(), 1..3), prop::option::of(0usize..9)).prop_map(
        |(word, steps, size)| {
            let size = size.filter(|_| word != "pkt_data");
            let size = size.map_or(String::new(), |size| format!(" bsize:>{size};"));
            format!("{word};{size} {}", steps.concat())
        },
    )
}

/// Options at least one of which is about a buffer.
fn about_messages(options: &[String]) -> String {
    let is_plain = options.iter().all(|option| option.starts_with("pkt_data"));
    let more = if is_plain { "http.start; content:\"A\";" } else { "" };
    options.concat() + more
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 800, ..ProptestConfig::default() })]

    /// Each rule is told once for each part of a message that it holds in, with the packet that
    /// makes it whole; the same in batches of any size, and whatever was searched before.
    #[test]
    fn rules_are_found_where_the_reference_finds_them(
        bodies in prop::collection::vec(prop::collection::vec(about(), 1..3), 1..6),
        stream in stream(),
        lens in prop::collection::vec(1usize..40, 12),
        batch in 1usize..5,
        ahead in any::<u32>(),
    ) {
        let text: String =
            bodies.iter().zip(1..).map(|(steps, sid)| rule(sid, &about_messages(steps))).collect();
        let rules = rules(&text).rules;
        let (mut segments, mut at): (Vec<(u32, &[u8])>, usize) = (Vec::new(), 0);
        for len in lens.into_iter().chain([usize::MAX]) {
            let end = at.saturating_add(len).min(stream.len());
            if end > at {
                segments.push((at as u32, &stream[at..end]));
            }
            at = end;
        }
        let packet = |end: Option<usize>| {
            let holds = |(at, bytes): &(u32, &[u8])| end.is_some_and(|end| {
                *at as usize + bytes.len() >= end
            });
            segments.iter().position(holds).map(|idx| idx as u32 + 3)
        };
        let mut expected = Vec::new();
        for message in messages(&stream, &[]) {
            for (with_body, end) in [(false, message.ends.0), (true, message.ends.1)] {
                for (idx, rule) in rules.iter().enumerate() {
                    if (!with_body || message.body.is_some()) && holds(rule, &message, with_body) {
                        expected.push((packet(end), idx as u32));
                    }
                }
            }
        }
        let frames = connection(&segments);
        let all = |found: Vec<crate::Alert>| -> Vec<(Option<u32>, u32)> {
            found.iter().map(|a| (a.packet.map(|_| a.number as u32 - 1), a.rule)).collect()
        };
        let mut one = inspector(&text, InspectorOptions::default());
        prop_assert_eq!(all(alerts(&mut one, &frames)), &expected[..]);
        let mut other = inspector(&text, InspectorOptions::default());
        let mut found = Vec::new();
        for frames in frames.chunks(batch) {
            inspect_ahead(&mut other, frames, ahead, &mut found);
        }
        other.finish(&mut found);
        prop_assert_eq!(all(found), expected);
        prop_assert_eq!(other.stats().stream_bytes_peak, one.stats().stream_bytes_peak);
    }
}
