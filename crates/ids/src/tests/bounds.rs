//! Hostile rules and packets: memory and work stay within their bounds, and counters say so.

use super::frames::*;
use super::{alerts, inspector, packets};
use crate::inspect::{InspectorOptions, Uninspected};

fn options() -> InspectorOptions {
    InspectorOptions::default()
}

#[test]
fn half_open_flows_take_each_others_places() {
    let text = "alert tcp any any -> any any (content:\"evil\"; sid:1;)";
    let mut frames = connection(&[(0, b"ev")]);
    for n in 0..5000u32 {
        let mut frame = tcp(End("10.9.0.0", 9), SERVER, SYN, n, 0, b"");
        frame[28..30].copy_from_slice(&(n as u16).to_be_bytes());
        frames.push(frame);
    }
    frames.push(tcp(CLIENT, SERVER, ACK, 1003, 5001, b"il"));
    let mut one = inspector(text, InspectorOptions { flows_max: 100, ..options() });
    let mut found = Vec::new();
    one.inspect(packets(&frames), &mut found);
    assert_eq!(found.len(), 1);
    assert_eq!((one.flows(), one.stats().flows_evicted), (100, 4901));
}

#[test]
fn streams_take_no_more_memory_than_they_may() {
    let text = "alert tcp any any -> any any (content:\"evil\"; sid:1;)";
    let bounds = InspectorOptions { stream_bytes_max: 100_000, ..options() };
    let mut one = inspector(text, bounds.clone());
    let mut found = Vec::new();
    for port in 0..200u16 {
        let client = End("10.0.0.7", 1000 + port);
        let mut frames = handshake(client, SERVER);
        // Every second byte is missing.
        let parts = (1..200).map(|n| tcp(client, SERVER, ACK, 1001 + 2 * n, 5001, b"x"));
        frames.extend(parts);
        one.inspect(packets(&frames), &mut found);
        // What one packet brings may be too much until its flow is the last.
        assert!(one.stream_bytes() <= bounds.stream_bytes_max + 70_000);
    }
    assert!(one.stats().flows_evicted_for_memory > 100);
    one.finish(&mut found);
    assert_eq!((one.stream_bytes(), one.flows(), found.len()), (0, 0, 0));
}

#[test]
fn a_stream_full_of_holes_moves_on() {
    let text = "alert tcp any any -> any any (content:\"x\"; sid:1;)";
    let mut one = inspector(text, options());
    let mut frames = handshake(CLIENT, SERVER);
    frames.extend((0..20_000).map(|n| tcp(CLIENT, SERVER, ACK, 1002 + 2 * n, 5001, b"x")));
    let found = alerts(&mut one, &frames);
    let stats = one.stats().streams;
    assert_eq!((stats.gaps, found.len()), (20_000, 20_000));
    assert!(one.stats().stream_bytes_peak < 100_000);
}

#[test]
fn chains_that_fit_in_many_ways_cost_what_they_are_long() {
    // Each of ten letters may be any of a thousand: all ways would be a thousand to the tenth.
    let chain: String = (0..10).map(|_| "content:\"a\"; distance:0; ").collect();
    let text = format!("alert udp any any -> any any ({chain} content:\"z\"; distance:0; sid:1;)");
    let mut one = inspector(&text, options());
    let mut payload = vec![b'a'; 1400];
    payload[0] = b'z';
    assert_eq!(alerts(&mut one, &[udp(CLIENT, SERVER, &payload)]).len(), 0);
    payload[1399] = b'z';
    assert_eq!(alerts(&mut one, &[udp(CLIENT, SERVER, &payload)]).len(), 1);
    assert_eq!(one.stats().work_cut, 0);
}

#[test]
fn work_is_bounded_and_counted() {
    // Expressions behind each occurrence, each of which reads all that follows.
    let chain: String = (0..6).map(|_| "pcre:\"/a.*?[^q]/Rs\"; ").collect();
    let text =
        format!("alert udp any any -> any any (content:\"a\"; {chain} pcre:\"/q/R\"; sid:1;)");
    let mut one = inspector(&text, InspectorOptions { work_max: 1 << 20, ..options() });
    let payload = vec![b'a'; 1400];
    assert_eq!(alerts(&mut one, &[udp(CLIENT, SERVER, &payload)]).len(), 0);
    assert_eq!(one.stats().work_cut, 1);
}

/// Many rules with these options, and one for `attack` behind them.
fn behind_many(proto: &str, buffer: &str, options: &str) -> String {
    let many = (1..=1000)
        .map(|sid| format!("alert {proto} any any -> any any ({buffer} {options} sid:{sid};)\n"));
    let last = format!("alert {proto} any any -> any any ({buffer} content:\"attack\"; sid:9999;)");
    many.collect::<String>() + &last
}

/// Contents of one byte that cost a look at a whole text each, if each looks for itself: the byte
/// is not there, or at the end.
const SINGLES: [(&str, usize); 7] = [
    ("content:\"z\";", 0),
    ("content:\"Z\"; nocase;", 0),
    ("content:!\"z\"; content:\"y\";", 0),
    ("content:\"!\"; content:\"z\"; distance:0;", 0),
    ("content:\"z\"; byte_extract:1,0,n,relative; content:\"a\"; offset:n;", 0),
    ("content:\"!\";", 1000),
    ("content:!\"z\"; content:\"!\"; nocase;", 1000),
];

#[test]
fn many_contents_of_one_byte_leave_work_for_others() {
    let payload = [&[b'a'; 1400][..], b"attack!"].concat();
    let work_max = 100_000;
    for (singles, held) in SINGLES {
        let text = behind_many("udp", "", singles);
        let mut one = inspector(&text, InspectorOptions { work_max, ..options() });
        let found = alerts(&mut one, &[udp(CLIENT, SERVER, &payload)]);
        assert_eq!((found.len(), one.stats().work_cut), (held + 1, 0), "{singles}");
        assert_eq!(found.last().map(|alert| alert.rule), Some(1000), "{singles}");
        // In a stream, whose bytes before are none of it.
        let text = behind_many("tcp", "", singles);
        let mut one = inspector(&text, InspectorOptions { work_max, ..options() });
        let found = alerts(&mut one, &connection(&[(0, &payload)]));
        assert_eq!((found.len(), one.stats().work_cut), (held + 1, 0), "{singles}");
        // And in a buffer of a message.
        let text = behind_many("tcp", "http.request_body;", singles);
        let mut one = inspector(&text, InspectorOptions { work_max, ..options() });
        let head = format!("POST / HTTP/1.1\r\nContent-Length: {}\r\n\r\n", payload.len());
        let message = [head.as_bytes(), &payload].concat();
        let found = alerts(&mut one, &connection(&[(0, &message)]));
        assert_eq!((found.len(), one.stats().work_cut), (held + 1, 0), "{singles}");
    }
}

#[test]
fn old_bytes_of_a_window_are_not_gone_through_for_each_rule() {
    let text = behind_many("tcp", "", "content:\"a\";")
        + "\nalert tcp any any -> any any (content:\"a\"; content:\"bb\"; within:1200; sid:10000;)";
    let mut one = inspector(&text, InspectorOptions { work_max: 100_000, ..options() });
    let found =
        alerts(&mut one, &connection(&[(0, &[b'a'; 1000]), (1000, b"attack"), (1006, b"-")]));
    assert_eq!((found.len(), one.stats().work_cut), (2001, 0));
}

#[test]
fn zeros_and_suffixes_of_each_other() {
    // Each pattern is the end of the next, and all occur at every place.
    let rules: String = (1..2000)
        .map(|len| {
            format!(
                "alert udp any any -> any any (content:\"|{}|\"; sid:{len};)\n",
                "00 ".repeat(len)
            )
        })
        .collect();
    let mut one = inspector(&rules, options());
    let found = alerts(&mut one, &[udp(CLIENT, SERVER, &[0; 1400])]);
    assert_eq!((found.len(), one.stats().work_cut), (1400, 0));
}

#[test]
fn what_is_not_inspected_is_counted() {
    let text = "alert ip any any -> any any (sid:1;)";
    let mut one = inspector(text, options());
    let mut fragment = udp(CLIENT, SERVER, b"abc");
    fragment[20] = 0x20;
    let mut arp = vec![0; 42];
    arp[12..14].copy_from_slice(&[8, 6]);
    let cut = udp(CLIENT, SERVER, b"abc");
    let frames = [fragment, arp, vec![1, 2, 3], cut[..20].to_vec(), udp(CLIENT, SERVER, b"a")];
    assert_eq!(alerts(&mut one, &frames).len(), 1);
    let stats = one.stats();
    let of = |reason: Uninspected| stats.uninspected[reason as usize];
    assert_eq!(of(Uninspected::Fragment), 1);
    assert_eq!(of(Uninspected::Malformed) + of(Uninspected::NotIp), 3);
}

#[test]
fn flows_end_by_the_time_of_packets() {
    let text = "alert tcp any any -> any any (content:\"evil\"; sid:1;)";
    let mut one = inspector(text, options());
    let frames = connection(&[(0, b"ev"), (2, b"il")]);
    let mut found = Vec::new();
    let mut all = packets(&frames);
    // The second half comes an hour later: nobody waits for that long.
    all[4].timestamp_ns += 3_600_000_000_000;
    one.inspect(all, &mut found);
    assert_eq!((found.len(), one.stats().flows_timed_out, one.stats().flows), (0, 1, 2));
}

#[test]
fn room_for_segments_that_waited_is_counted_or_given_back() {
    let text = "alert tcp any any -> any any (content:\"evil\"; sid:1;)";
    let mut one = inspector(text, options());
    let mut found = Vec::new();
    let mut frames = handshake(CLIENT, SERVER);
    frames.extend((1..=500).map(|n| tcp(CLIENT, SERVER, ACK, 1001 + 2 * n, 5001, b"x")));
    one.inspect(packets(&frames), &mut found);
    // A list of 512 places, and an allocation for each segment.
    assert!(one.stream_bytes() >= 500 * (32 + 32), "{}", one.stream_bytes());
    let rest = [tcp(CLIENT, SERVER, ACK, 1001, 5001, &[b'y'; 1100])];
    one.inspect(packets(&rest), &mut found);
    assert!(one.stream_bytes() <= 2048, "{}", one.stream_bytes());
}

#[test]
fn texts_of_flows_that_end_do_not_pile_up() {
    let text = "alert tcp any any -> any any (content:\"evil\"; sid:1;)";
    let mut one = inspector(text, options());
    let mut found = Vec::new();
    for port in 0..100u16 {
        let client = End("10.0.0.7", 1000 + port);
        let mut frames = handshake(client, SERVER);
        // Every second byte is missing: each that waits is a text.
        frames.extend((1..300).map(|n| tcp(client, SERVER, ACK, 1001 + 2 * n, 5001, b"x")));
        one.inspect(packets(&frames), &mut found);
    }
    let last = [tcp(CLIENT, SERVER, SYN, 1, 0, b"")];
    let mut last = packets(&last);
    last[0].timestamp_ns += 3_600_000_000_000;
    one.inspect(last, &mut found);
    assert_eq!((one.stats().flows_timed_out, one.stats().streams.gaps), (100, 29_900));
    assert!(one.texts_peak() <= 2 * 4096, "{}", one.texts_peak());
}

#[test]
fn bounds_that_cannot_be_kept_are_told() {
    let odd = |options: InspectorOptions| options.check().map_err(|odd| odd.field);
    assert_eq!(odd(options()), Ok(()));
    assert_eq!(odd(InspectorOptions { flows_max: 0, ..options() }), Err("flows_max"));
    assert_eq!(odd(InspectorOptions { flows_max: usize::MAX, ..options() }), Err("flows_max"));
    let narrow = |stream_bytes_max, window_bytes| {
        odd(InspectorOptions { stream_bytes_max, window_bytes: Some(window_bytes), ..options() })
    };
    assert_eq!(
        (narrow(0, 0), narrow(2047, 2048)),
        (Err("stream_bytes_max"), Err("stream_bytes_max"))
    );
    assert_eq!((narrow(1, 0), narrow(2048, 2048)), (Ok(()), Ok(())));
}

#[test]
fn an_absence_is_asked_of_payloads_that_have_a_byte() {
    let rules = "alert tcp any any -> any any (content:!\"Z\"; sid:1;)\n\
        alert ip any any -> any any (pcre:!\"/Z/\"; isdataat:!9; sid:2;)\n\
        alert ip any any -> any any (pcre:\"/^x*$/\"; sid:3;)\n\
        alert ip any any -> any any (dsize:0; sid:4;)\n";
    let frames = [
        tcp(CLIENT, SERVER, SYN, 1, 0, b""),
        udp(CLIENT, SERVER, b""),
        tcp(CLIENT, SERVER, ACK, 2, 1, b"x"),
        tcp(CLIENT, SERVER, ACK, 3, 1, b"Z"),
    ];
    assert_eq!(super::told(rules, &frames), [(1, 4), (2, 4), (3, 1), (3, 2), (3, 3)]);
}
