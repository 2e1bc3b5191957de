//! How arguments are found, and what each type makes of a text.

use std::time::Duration;

use proptest::prelude::*;

use super::*;

fn read<T: FromArg>(text: &str) -> Result<T, String> {
    T::from_arg(text, &NoNames).map_err(|error| error.to_string())
}

#[test]
fn keywords_and_positions_find_arguments() {
    // What A (mandatory, positional), B (positional) and C (keyword) get.
    let check = |config: &str, expected: Result<(&str, &str, &str), &str>| {
        let (mut a, mut b, mut c) = (Raw::default(), Raw::default(), Raw::default());
        let mut args = Args::new(config);
        args.read_mp("A", &mut a).read_p("B", &mut b).read("C", &mut c);
        let found = args.complete().map(|()| (a.0.as_str(), b.0.as_str(), c.0.as_str()));
        assert_eq!(
            found.map_err(|error| error.to_string()),
            expected.map_err(str::to_owned),
            "{config}"
        );
    };
    check("1", Ok(("1", "", "")));
    check("1, 2, C 3", Ok(("1", "2", "3")));
    check("B 2, A 1", Ok(("1", "2", "")));
    check("A 1, A 2", Ok(("2", "", "")));
    check("1, A 2", Ok(("2", "", "")));
    check("X y", Ok(("X y", "", "")));
    check("1, X y", Err("X: unknown argument"));
    check("", Err("A: required argument missing"));
    check("1, 2, 3", Err("too many arguments"));
    check("1, C 3, 2", Err("too many arguments"));
    check("1, D 3, E 4, 5, 6", Err("D: unknown argument\nE: unknown argument\ntoo many arguments"));
    check("A\t 1 2", Ok(("1 2", "", "")));
    check("1, C", Ok(("1", "C", "")));
    let mut args = Args::new("LIMTI 5, X y, STOPP true");
    args.read("LIMIT", &mut 0u32).read("STOP", &mut false);
    let wrong = args.complete().unwrap_err();
    assert_eq!(wrong.to_string().matches("unknown argument").count(), 3);
    assert_eq!(wrong.meant, [(0, "LIMIT".to_owned()), (2, "STOP".to_owned())].into());
    // Lists of addresses are values, not keywords.
    check("1, ::1 ::2", Ok(("1", "::1 ::2", "")));
    check("1, 10.0.0.1 10.0.0.2", Ok(("1", "10.0.0.1 10.0.0.2", "")));
}

#[test]
fn the_rest_can_be_taken_and_repeats_collected() {
    let mut args = Args::new("1, K 2, x, K 3, y z");
    let (mut first, mut all) = (0u32, Vec::<u32>::new());
    args.read_p("FIRST", &mut first).read_all("K", &mut all);
    assert_eq!((first, all, args.len()), (1, vec![2, 3], 2));
    assert_eq!(args.rest(), ["x", "y z"]);
    assert!(args.is_empty() && args.complete().is_ok());
    let mut words = Args::of_words("a 'b c'", &NoNames);
    assert_eq!(words.rest(), ["a", "'b c'"]);
    let mut args = Args::new("K x");
    args.read_all("K", &mut Vec::<u32>::new()).warn_at("K", "strange");
    assert_eq!(args.warnings(), ["K: strange"]);
    assert_eq!(args.consume().unwrap_err().messages, ["K: invalid number"]);
}

#[test]
fn integers_are_read_in_four_bases() {
    assert_eq!(read("4294967295"), Ok(u32::MAX));
    assert_eq!(read("0xFFFFFFFE"), Ok(4_294_967_294u32));
    assert_eq!(read("017"), Ok(15u8));
    assert_eq!(read("0b101"), Ok(5u8));
    assert_eq!(read("1_000"), Ok(1_000u16));
    assert_eq!(read("+7"), Ok(7i8));
    assert_eq!(read("-0"), Ok(0i32));
    assert_eq!(read("-2147483648"), Ok(i32::MIN));
    assert_eq!(read("9223372036854775807"), Ok(i64::MAX));
    fn check_bound<T: FromArg + std::fmt::Debug>(text: &str, bound: &str) {
        let error = read::<T>(text).unwrap_err();
        assert_eq!(error, format!("out of range, bound {bound}"), "{text}");
    }
    check_bound::<u32>("4294967296", "4294967295");
    check_bound::<i32>("-2147483649", "-2147483648");
    check_bound::<i8>("128", "127");
    check_bound::<u64>("18446744073709551616", "18446744073709551615");
    check_bound::<u8>(&"9".repeat(1_000), "255");
    for bad in ["", "-", "x", "0x", "08", "1__0", "_1", "1_", "1 ", "0xg", "1.5", "é"] {
        assert_eq!(read::<u32>(bad), Err("invalid number".to_owned()), "{bad}");
    }
    assert_eq!(read::<u32>("-0"), Err("invalid number".to_owned()));
    assert_eq!(read("300").map(|Saturating(v): Saturating<u8>| v), Ok(255));
    assert_eq!(read("-300").map(|Saturating(v): Saturating<i8>| v), Ok(-128));
    assert!(read::<Saturating<u8>>("x").is_err());
}

#[test]
fn fractions_times_and_bandwidths_are_exact() {
    assert_eq!(read("0.5").map(|Fixed(v): Fixed<1>| v), Ok(1));
    assert_eq!(read("0.73").map(|Fixed(v): Fixed<8>| v), Ok(187));
    assert_eq!(read("0.1").map(|Fixed(v): Fixed<16>| v), Ok(6_554));
    assert_eq!(read("0.999995").map(|Fixed(v): Fixed<16>| v), Ok(65_536));
    assert_eq!(read::<Fixed<16>>("65536"), Err("out of range, bound 65535.99998474121".into()));
    assert_eq!(read("-1.5e3"), Ok(-1_500.0));
    let time = |text: &str| read::<Duration>(text).map(|time| time.as_nanos());
    for text in ["5400", "5400s", "5.4e6 msec", "90m", "1.5 hr", "1.5h", "0.15e1h"] {
        assert_eq!(time(text), Ok(5_400_000_000_000), "{text}");
    }
    assert_eq!(time("7.3ms"), Ok(7_300_000));
    assert_eq!(time("2.5 us"), Ok(2_500));
    assert_eq!(time("1.00000000000000000000000000000000 day"), Ok(86_400_000_000_000));
    assert_eq!(time("100000000000000000000000000000000e-32"), Ok(1_000_000_000));
    assert_eq!(time("0.4ns"), Ok(0));
    assert_eq!(time("1e-300"), Ok(0));
    assert_eq!(time("0e99999999999"), Ok(0));
    assert_eq!(time("1e30"), Err("out of range, bound 18446744073".into()));
    assert_eq!(time("-1"), Err("out of range, bound 0".into()));
    for bad in ["", "s", ".", "1 x", "1sx", "e5", "1e"] {
        assert_eq!(time(bad), Err("invalid number".into()), "{bad}");
    }
    let bandwidth = |text: &str| read::<Bandwidth>(text).map(|b| (b.bytes_per_second, b.has_unit));
    assert_eq!(bandwidth("24"), Ok((24, false)));
    assert_eq!(bandwidth("24 baud"), Ok((3, true)));
    assert_eq!(bandwidth("24Kbps"), Ok((3_000, true)));
    assert_eq!(bandwidth("24kBps"), Ok((24_000, true)));
    assert_eq!(bandwidth("1.5 Gbps"), Ok((187_500_000, true)));
    assert_eq!(bandwidth("10M"), Ok((10_000_000, false)));
    assert_eq!(bandwidth("10 parsec"), Err("invalid number".into()));
}

#[test]
fn words_and_booleans() {
    for (text, value) in
        [("1", true), ("yes", true), ("\"true\"", true), ("0", false), ("no", false)]
    {
        assert_eq!(read(text), Ok(value), "{text}");
    }
    assert_eq!(read::<bool>("2"), Err("parse error".to_owned()));
    assert_eq!(read("'a b'"), Ok(Word("a b".into())));
    assert!(read::<Word>("a b").is_err() && read::<Word>("").is_err());
    assert_eq!(read::<String>("\\<ff>"), Err("not valid UTF-8".to_owned()));
    assert_eq!(read("\\<ff>"), Ok(Bytes(vec![0xff])));
    assert_eq!(read("1 2 0x3"), Ok(vec![1u8, 2, 3]));
    assert_eq!(read("5"), Ok(Some(5u8)));
}

#[test]
fn addresses() {
    let prefix =
        |text: &str| read::<Ipv4Prefix>(text).map(|p| (p.network().to_string(), p.len())).ok();
    assert_eq!(read("10.9.8.7"), Ok(Ipv4Addr::new(10, 9, 8, 7)));
    assert_eq!(prefix("10.9.8/24"), Some(("10.9.8.0".into(), Some(24))));
    assert_eq!(prefix("10.9.8/25"), None);
    assert_eq!(prefix("10.9.8.7/255.255.0.0"), Some(("10.9.0.0".into(), Some(16))));
    assert_eq!(prefix("1.2.3.4/255.0.255.0"), Some(("1.0.3.0".into(), None)));
    assert_eq!(prefix("0.0.0.0/0"), Some(("0.0.0.0".into(), Some(0))));
    for bad in
        ["1.2.3.4", "1.2.3.4/33", "1.2.3.4/", "1.2.3.4/+8", "1.2.3.4.5/8", "256.0.0.0/8", "/8"]
    {
        assert_eq!(prefix(bad), None, "{bad}");
    }
    assert_eq!(read("1.2.3.4").map(|BareIpv4Prefix(p)| p.len()), Ok(Some(32)));
    assert!(Ipv4Prefix::new(Ipv4Addr::new(10, 1, 0, 0), 16).contains(Ipv4Addr::new(10, 1, 9, 9)));
    for bad in ["1.2.3", "1.2.3.0004", "1.2.3.x", "", "1.2.3.+4"] {
        assert!(read::<Ipv4Addr>(bad).is_err(), "{bad}");
    }
    let mac = |text: &str| read::<EtherAddress>(text).map(|mac| mac.to_string()).ok();
    assert_eq!(mac("2:0:5e:10:0:1").as_deref(), Some("02-00-5E-10-00-01"));
    assert_eq!(mac("02-00-5E-10-00-01").as_deref(), Some("02-00-5E-10-00-01"));
    for bad in
        ["2:0:5e:10:0", "2:0:5e:10:0:1:1", "2:0:5e:10:0:100", "2:0-5e:10:0:9", "2:+a:5e:10:0:9"]
    {
        assert_eq!(mac(bad), None, "{bad}");
    }
    assert_eq!(read::<Ipv6Addr>("::ffff:192.0.2.1").unwrap().segments()[6], 0xc000);
    for bad in [":::", "8000::1:1:1:1:1:1:1:1", "ffff:"] {
        assert!(read::<Ipv6Addr>(bad).is_err(), "{bad}");
    }
    let net = |text: &str| read::<Ipv6Prefix>(text).map(|p| (p.network().to_string(), p.len)).ok();
    assert_eq!(net("2001:db8::1/32"), Some(("2001:db8::".into(), 32)));
    assert_eq!(net("::/0"), Some(("::".into(), 0)));
    assert_eq!(net("1::1/ffff:ffff::"), Some(("1::".into(), 32)));
    assert_eq!(net("::1/129"), None);
    assert_eq!(read("::1").map(|BareIpv6Prefix(p)| p.len), Ok(128));
}

#[test]
fn names_stand_for_addresses_and_elements() {
    struct Known;
    impl Names for Known {
        fn ipv4(&self, name: &str) -> Option<Ipv4Addr> {
            (name == "gate").then_some(Ipv4Addr::new(1, 2, 3, 4))
        }
        fn element(&self, name: &str) -> Option<usize> {
            (name == "q").then_some(7)
        }
    }
    let (mut address, mut queue) = (Ipv4Addr::UNSPECIFIED, ElementRef(0));
    let mut args = Args::with_names("gate, q", &Known);
    args.read_mp("ADDR", &mut address).read_mp("QUEUE", &mut queue);
    assert!(args.complete().is_ok());
    assert_eq!((address, queue), (Ipv4Addr::new(1, 2, 3, 4), ElementRef(7)));
    let mut args = Args::with_names("gat, r", &Known);
    args.read_mp("ADDR", &mut address).read_mp("QUEUE", &mut queue);
    let messages = args.complete().unwrap_err().messages;
    assert_eq!(messages, ["ADDR: parse error", "QUEUE: no element named 'r'"]);
}

proptest! {
    #[test]
    fn no_argument_panics(text in r"[-+0-9xa-f.:/_eEsmh kMGbps]{0,20}|.{0,12}") {
        let _ = (read::<u64>(&text), read::<i8>(&text), read::<f64>(&text), read::<bool>(&text));
        let _ = (read::<Duration>(&text), read::<Bandwidth>(&text), read::<Fixed<16>>(&text));
        let _ = (read::<Ipv4Prefix>(&text), read::<Ipv6Prefix>(&text), read::<EtherAddress>(&text));
        let mut args = Args::new(&text);
        let mut word = Word::default();
        args.read_mp("e", &mut word).read_p("a", &mut word).read("s", &mut word);
        let _ = args.complete();
    }

    #[test]
    fn integers_come_back(value: i64) {
        prop_assert_eq!(read(&value.to_string()), Ok(value));
        prop_assert_eq!(read(&format!("{:#x}", value.unsigned_abs())), Ok(value.unsigned_abs()));
    }
}

#[test]
fn sizes_have_suffixes() {
    let size = |text: &str| read::<Size>(text).map(|size| size.0);
    for (text, bytes) in
        [("7", 7), ("2K", 2048), ("128m", 128 << 20), ("3G", 3 << 30), ("0x10k", 16384)]
    {
        assert_eq!(size(text), Ok(bytes), "{text}");
    }
    for text in ["", "K", "-1", "1.5M", "1 K", "1KB", "1T"] {
        assert_eq!(size(text), Err("invalid number".into()), "{text}");
    }
    assert_eq!(size("17179869184G"), Err("out of range, bound 18446744073709551615".into()));
}

#[test]
fn what_would_be_right_is_told_once_and_only_beside_an_error() {
    let (mut limit, mut stop, mut more) = (0u32, false, false);
    let mut args = Args::new("x, STOP maybe");
    args.read_p("LIMIT", &mut limit).read("STOP", &mut stop).read_m("MORE", &mut more);
    args.help("a line");
    args.help("a line");
    let wrong = args.complete().unwrap_err();
    assert_eq!(wrong.help[0], "LIMIT takes a whole number from 0 up, such as 20 or 0x14");
    assert_eq!(wrong.help[1..], ["STOP takes true or false", "MORE takes true or false", "a line"]);
    assert_eq!(wrong.to_string().lines().count(), 3, "{wrong}");
    let mut args = Args::new("LIMIT 4294967296");
    args.read("LIMIT", &mut limit).error_by("LIMIT", "too many");
    let wrong = args.complete().unwrap_err();
    assert_eq!(wrong.messages, ["LIMIT: out of range, bound 4294967295", "too many"]);
    assert_eq!(wrong.args, [Some(0); 2]);
}

#[test]
fn keywords_without_values_are_told() {
    let read = |config: &str| {
        let (mut name, mut timing, mut stop, mut link) =
            (String::new(), false, false, Raw::default());
        let mut args = Args::new(config);
        args.read_mp("FILENAME", &mut name)
            .read_p("TIMING", &mut timing)
            .read("STOP", &mut stop)
            .read("LINK", &mut link);
        args.note_input("FILENAME", &name);
        let help = args.complete().err().map_or(Vec::new(), |errors| errors.help);
        (help.first().cloned().unwrap_or_default(), args.warnings().join(", "))
    };
    let (nothing, told) = (String::new(), |text: &str| text.to_owned());
    assert_eq!(read("a, STOP"), (told("STOP needs a value: STOP true"), nothing.clone()));
    assert_eq!(read("a, LINK"), (told("LINK needs a value"), nothing.clone()));
    assert_eq!(
        read("a, true, TIMING"),
        (told("TIMING needs a value: TIMING true"), nothing.clone())
    );
    assert_eq!(read("a, STOPP"), (told("TIMING takes true or false"), nothing.clone()));
    let file = told("FILENAME: 'STOP true' is in the position of the file name");
    assert_eq!(read("STOP true"), (nothing.clone(), file));
    let file = told("FILENAME: 'LINK' is in the position of the file name");
    assert_eq!(read("LINK, LINK x"), (nothing.clone(), file));
    let missing = told("missing FILENAME: 'LINK x' is in its position");
    let mut args = Args::new("LINK x, STOP true");
    args.read_mp("FILENAME", &mut String::new()).read("LINK", &mut Raw::default());
    args.read("STOP", &mut false).complete().expect("any text may be a file");
    args.error_at("FILENAME", "No such file");
    assert_eq!(args.consume().unwrap_err().help, [missing]);
    assert_eq!(read("a, STOP true, LINK x"), (nothing.clone(), nothing.clone()));
    assert_eq!(read("FILENAME a, STOP true"), (nothing.clone(), nothing));
}
