//! What each syntax reads, refuses and writes.

use proptest::prelude::*;

use super::*;

/// Every route as `prefix gateway out`, or every error as `line:column text`.
fn told<A: Address>(syntax: Syntax, text: &str) -> Vec<String> {
    match read::<A>(syntax, "routes", text.as_bytes()) {
        Ok(routes) => {
            let one = |(prefix, hop): (Prefix<A>, NextHop)| {
                let via = &routes.vias[usize::from(hop.0)];
                let gateway = via.gateway.map_or("-".to_owned(), |ip| ip.to_std().to_string());
                format!("{prefix} {gateway} {:?}", via.out)
            };
            routes.table.iter().map(one).collect()
        }
        Err(errors) => {
            let one = |e: &Diagnostic| format!("{}:{} {}", e.line, e.column, e.text);
            errors.kept().iter().map(one).collect()
        }
    }
}

fn check(syntax: Syntax, cases: &[(&str, &[&str])]) {
    for (text, expected) in cases {
        assert_eq!(told::<u32>(syntax, text), *expected, "{text}");
    }
}

#[test]
fn click_routes() {
    check(
        Syntax::Click,
        &[
            ("", &[]),
            ("10.0.0.0/8 192.0.2.1 3, 1.2.3.4 0 // host\n0/0 1", &["2:1 0/0"]),
            (
                "10.0.0.0/8 192.0.2.1 3,\n1.2.3.4 0 // host, 5\n0.0.0.0/0 - 1",
                &["0.0.0.0/0 - Port(1)", "10.0.0.0/8 192.0.2.1 Port(3)", "1.2.3.4/32 - Port(0)"],
            ),
            ("10.9.9.9/255.255.0.0 0.0.0.0 7", &["10.9.0.0/16 - Port(7)"]),
            ("/* two\nlines */ 10.0.0.0/8 1 /* open", &["10.0.0.0/8 - Port(1)"]),
            ("10.0.0.0/8", &["1:11 "]),
            (
                "10.0.0.0/33 1, 10.0.0.0/255.0.255.0 x, 10.0.0.0/8 a.b 1",
                &["1:1 10.0.0.0/33", "1:16 10.0.0.0/255.0.255.0", "1:37 x", "1:51 a.b"],
            ),
            ("1.0.0.0/8 1, 1.2.0.0/8 2", &["1:14 1.2.0.0/8"]),
            ("1.0.0.0/8 1 2 3", &["1:15 3"]),
            ("1.0.0.0/8 65536\n::/0 1", &["1:11 65536", "2:1 ::/0"]),
        ],
    );
    let v6 = told::<u128>(Syntax::Click, "2001:db8::/32 fe80::1 2, ::/0 ::1 0, 1.2.3.4/32 1");
    assert_eq!(v6, ["1:38 1.2.3.4/32"]);
}

#[test]
fn ip_routes() {
    check(
        Syntax::IpRoute,
        &[
            (
                "default via 10.0.0.1 dev eth0 proto static metric 100 onlink\n\
                 10.0.0.0/24 dev eth0 scope link src 10.0.0.2\n\
                 blackhole 192.0.2.0/24 metric 5\nunreachable 1.1.1.1",
                &[
                    "0.0.0.0/0 10.0.0.1 Device(\"eth0\")",
                    "10.0.0.0/24 - Device(\"eth0\")",
                    "192.0.2.0/24 - Blackhole",
                    "1.1.1.1/32 - Unreachable",
                ],
            ),
            (
                "default proto bgp\n\tnexthop via 10.0.0.1 dev a weight 1\n\
                 \tnexthop via 10.0.0.2 dev b weight 1",
                &["0.0.0.0/0 10.0.0.1 Device(\"a\")"],
            ),
            (
                "default via 10.0.0.1 dev a metric 9\ndefault via 10.0.0.2 dev b metric 3",
                &["0.0.0.0/0 10.0.0.2 Device(\"b\")"],
            ),
            ("nexthop via 10.0.0.1", &["1:1 nexthop"]),
            ("default via", &["1:12 "]),
            ("blackhole", &["1:1 "]),
            (
                "10.0.0.1/8 dev a\n10.0.0.0/8 over a\ndefault via inet6 fe80::1 dev a",
                &["1:1 10.0.0.1/8", "2:12 over", "2:17 a", "3:13 inet6"],
            ),
        ],
    );
    let text = "default via fe80::1 dev eth0 metric 1024 pref medium\n::1 dev lo";
    let v6 = told::<u128>(Syntax::IpRoute, text);
    assert_eq!(v6, ["::/0 fe80::1 Device(\"eth0\")", "::1/128 - Device(\"lo\")"]);
}

#[test]
fn lists() {
    check(
        Syntax::List,
        &[
            (
                "# dump\n10.0.0.0/8 7\r\n11.0.0.0/8 192.0.2.1\n12.0.0.0/8\n",
                &["10.0.0.0/8 - Port(7)", "11.0.0.0/8 192.0.2.1 Unknown", "12.0.0.0/8 - Unknown"],
            ),
            ("é 1\n10.0.0.0/8 x\n10.0.0.0/08x 1", &["1:1 é", "2:12 x", "3:1 10.0.0.0/08x"]),
            ("1.0.0.0/8 1 2\n1.0.0.0/8 1 # 2\n1.0.0.0/8", &["1:13 2", "3:1 1.0.0.0/8"]),
        ],
    );
}

#[test]
fn many_errors_are_counted_and_few_kept() {
    let errors = read::<u32>(Syntax::List, "f", "x\n".repeat(1000).as_bytes()).unwrap_err();
    assert_eq!((errors.total(), errors.kept().len()), (1000, DIAGNOSTICS_KEPT_MAX));
    let shown = errors.to_string();
    assert!(shown.starts_with("f:1:1: not a prefix of this family: 'x'; expected a prefix like"));
    assert!(shown.ends_with("and 990 more"), "{shown}");
    let long = "y".repeat(1 << 20);
    let errors = read::<u32>(Syntax::Click, "f", long.as_bytes()).unwrap_err();
    assert!(errors.to_string().len() < 1000);
}

#[test]
fn a_table_has_at_most_65535_next_hops() {
    let line = |i: u32| format!("{}/32 {i}\n", std::net::Ipv4Addr::from_bits(i));
    let text: String = (0..65_537).map(line).collect();
    let errors = read::<u32>(Syntax::List, "f", text.as_bytes()).unwrap_err();
    assert_eq!((errors.total(), errors.kept()[0].line), (2, 65_536));
}

#[test]
fn what_a_syntax_cannot_say_is_refused() {
    let routes = read::<u32>(Syntax::IpRoute, "f", b"default dev eth0").unwrap();
    for syntax in [Syntax::Click, Syntax::List] {
        assert_eq!(write(syntax, &routes).unwrap_err().kind(), ErrorKind::NotInSyntax);
    }
    assert_eq!(write(Syntax::IpRoute, &routes).unwrap(), "default dev eth0\n");
}

proptest! {
    #[test]
    fn any_bytes_are_routes_or_errors(text in proptest::collection::vec(any::<u8>(), 0..200)) {
        for syntax in [Syntax::Click, Syntax::IpRoute, Syntax::List] {
            let _ = read::<u32>(syntax, "f", &text);
            let _ = read::<u128>(syntax, "f", &text);
        }
    }

    #[test]
    fn likely_texts_are_routes_or_errors(
        text in "([0-9a-f:./]{0,12}|via|dev|metric|nexthop|default|[ \n,/*#-]{1,3}){0,40}"
    ) {
        for syntax in [Syntax::Click, Syntax::IpRoute, Syntax::List] {
            let _ = read::<u32>(syntax, "f", text.as_bytes());
            let _ = read::<u128>(syntax, "f", text.as_bytes());
        }
    }

    #[test]
    fn what_was_written_is_read_back(
        routes in proptest::collection::vec(
            (any::<u128>(), 0u8..=128, 1u32..5, any::<bool>()), 0..40)
    ) {
        round_trip::<u32>(&routes);
        round_trip::<u128>(&routes);
    }
}

fn round_trip<A: Address>(routes: &[(u128, u8, u32, bool)]) {
    for syntax in [Syntax::Click, Syntax::IpRoute, Syntax::List] {
        let mut reader = Reader::<A>::new("f");
        let place = reader.place(1, b"");
        let word = Word { text: "", span: 0..0 };
        for &(addr, len, number, has_gateway) in routes {
            let gateway = has_gateway.then(|| A::from_left(u128::from(number) << 96));
            let out = match syntax {
                Syntax::Click => Out::Port(number),
                Syntax::IpRoute => Out::Device(format!("eth{number}")),
                Syntax::List if has_gateway => Out::Unknown,
                Syntax::List => Out::Port(number),
            };
            let prefix = Prefix::containing(A::from_left(addr), len);
            reader.route(&place, &word, prefix, Via { gateway, out });
        }
        let text = write(syntax, &reader.routes).unwrap();
        let back = read::<A>(syntax, "f", text.as_bytes()).unwrap();
        assert_eq!(write(syntax, &back).unwrap(), text);
        assert_eq!(back.table.len(), reader.routes.table.len());
        for (prefix, hop) in reader.routes.table.iter() {
            let other = back.table.get(prefix).unwrap();
            assert_eq!(back.vias[usize::from(other.0)], reader.routes.vias[usize::from(hop.0)]);
        }
    }
}
