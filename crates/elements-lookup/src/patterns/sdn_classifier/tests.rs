//! Tests of `SDNClassifier`, and the traffic that tests of elements around it share.

use std::path::PathBuf;

use warpswitch_graph::simulate::{SimulatedHost, router, run};

/// A file that goes when it is no longer used.
pub(crate) struct File(pub(crate) PathBuf);

impl File {
    pub(crate) fn new(name: &str, text: &str) -> Self {
        let path = std::env::temp_dir()
            .join(format!("warpswitch-sdn-{}-{name}.rules", std::process::id()));
        std::fs::write(&path, text).expect("it can be written");
        Self(path)
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A source of `count` TCP packets to port `port` of 10.0.0.2.
pub(crate) fn source(port: u16, count: u32) -> String {
    let port: String = port.to_be_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    format!(
        "InfiniteSource(DATA \\<020000000002 020000000001 0800
            4500 0028 0000 0000 4006 0000 0a000001 0a000002
            0400 {port} 00000000 00000000 5002 0000 0000 0000>, LIMIT {count}, BURST 7)"
    )
}

pub(crate) const FLOWS: &str = "priority=9,tcp,tp_dst=80 actions=output:1\n\
    priority=8,tcp,tp_dst=81 actions=drop\n\
    priority=7,ip,nw_dst=10.0.0.3 actions=NORMAL\n\
    priority=6,tcp,tp_dst=82 actions=load:0x105->NXM_NX_PKT_MARK[],NORMAL\n";

#[test]
fn each_frame_goes_where_its_rule_says() {
    let file = File::new("each", FLOWS);
    let path = file.0.display();
    for engine in ["turbo", "linear"] {
        let (web, drop, mark, other) =
            (source(80, 10), source(81, 11), source(82, 12), source(83, 13));
        let config = format!(
            "sdn :: SDNClassifier(RULES {path}, ENGINE {engine}, MISS 2);
            {web} -> sdn; {drop} -> sdn; {mark} -> sdn; {other} -> sdn;
            InfiniteSource(DATA short, LIMIT 3) -> sdn;
            sdn -> a :: Discard; sdn [1] -> b :: Discard; sdn [2] -> c :: Discard;"
        );
        let (mut router, _) = run(&config, &crate::registry());
        let mut read = |handler: &str| router.read(handler).expect("it is there");
        assert_eq!([read("a.count"), read("b.count"), read("c.count")], ["12", "10", "16"]);
        assert_eq!(read("sdn.drops_by_reason"), "11\trule\n0\tno_rule\n0\tno_key\n");
        assert_eq!(read("sdn.hits"), "0 10\n1 11\n3 12\n");
        assert_eq!((read("sdn.rules"), read("sdn.engine")), ("4".into(), engine.into()));
    }
}

/// Rules change while frames hit the cache: no answer is stale.
#[test]
fn a_cache_changes_no_result() {
    let file = File::new("cache", FLOWS);
    for cache in ["none", "storm", "auto"] {
        let config = format!(
            "s :: {} -> sdn :: SDNClassifier({}, ENGINE hypercuts, CACHE {cache});
            sdn -> a :: Discard; sdn [1] -> b :: Discard;",
            source(80, 10_000),
            file.0.display()
        );
        let (mut router, _) = router(&config, &crate::registry()).expect("a valid file");
        let again = |router: &mut warpswitch_graph::Router| {
            router.write("s.reset", "").expect("a handler");
            router.run(&mut SimulatedHost::default());
            [router.read("a.count").unwrap(), router.read("b.count").unwrap()]
        };
        assert_eq!(again(&mut router), ["0", "10000"]);
        let hit_ratio: f64 = router.read("sdn.cache_hit_ratio").unwrap().parse().unwrap();
        assert_eq!(hit_ratio > 0.5, cache != "none", "{hit_ratio}");
        router.write("sdn.add", "priority=10,tcp,tp_dst=80 actions=output:0").expect("a rule");
        assert_eq!(again(&mut router), ["10000", "10000"]);
        router.write("sdn.remove", "4").expect("rule 4");
        assert_eq!(again(&mut router), ["10000", "20000"]);
        assert_eq!(router.read("sdn.cache_on"), Ok((cache != "none").to_string()));
        let cached = router.read("sdn.cached_rules").unwrap();
        assert_eq!(cached, if cache == "none" { "0" } else { "1" });
    }
}

#[test]
fn a_file_has_so_many_bytes_and_no_more() {
    let file = File::new("many", FLOWS);
    let path = file.0.display().to_string();
    let read = |bytes_max| super::read_file(&path, &super::ReadOptions::default(), bytes_max);
    assert_eq!(read(FLOWS.len() as u64).map(|rules| rules.len()), Ok(4));
    let bound = FLOWS.len() as u64 - 1;
    let expected =
        format!("{path}: it has more than {bound} bytes, unpacked, the most of a rule file");
    assert_eq!(read(bound).map(|rules| rules.len()), Err(expected));
}

#[test]
fn rules_come_and_go_while_it_runs() {
    let file = File::new("come", FLOWS);
    let config = format!(
        "s :: {} -> sdn :: SDNClassifier({}); sdn -> a :: Discard; sdn [1] -> b :: Discard;",
        source(80, 10),
        file.0.display()
    );
    let (mut router, _) = router(&config, &crate::registry()).expect("it is right");
    let again = |router: &mut warpswitch_graph::Router| {
        router.write("s.reset", "").expect("it obeys");
        router.run(&mut SimulatedHost::default());
        [router.read("a.count").unwrap(), router.read("b.count").unwrap()]
    };
    assert_eq!(again(&mut router), ["0", "10"]);
    let added = router.write("sdn.add", "priority=10,tcp,tp_dst=80 actions=output:0");
    assert_eq!(added, Ok("4".into()));
    assert_eq!(again(&mut router), ["10", "10"]);
    router.write("sdn.remove", "4").expect("it is there");
    router.write("sdn.remove", "0").expect("it is there");
    assert!(router.write("sdn.remove", "0").is_err() && router.write("sdn.remove", "x").is_err());
    assert_eq!(again(&mut router), ["10", "10"]);
    assert_eq!(router.read("sdn.drops_by_reason"), Ok("0\trule\n10\tno_rule\n0\tno_key\n".into()));
    let wrong = "priority=10,tcp actions=output:7";
    let error = router.write("sdn.add", wrong).expect_err("there is no such output");
    assert_eq!(error.to_string(), "'output:7': no such output, expected 0 to 1");
    assert_eq!(router.read("sdn.rules"), Ok("3".into()));
}

#[test]
fn what_is_wrong_with_a_file_is_told() {
    let file = File::new("wrong", "tcp actions=output:3\nudp actions=mod_nw_tos:4,output:0\n");
    let check = |args: String, expected: &[&str]| {
        let config = format!("Idle -> SDNClassifier({args}) -> Idle;");
        let errors = router(&config, &crate::registry()).err().expect("it is wrong");
        let errors = errors.to_click();
        for part in expected {
            assert!(errors.contains(part), "{args}: {errors}");
        }
    };
    let path = file.0.display();
    check(
        format!("{path}"),
        &["line 1: 'output:3': no such output, expected 0", "line 2: unsupported action"],
    );
    check(format!("{path}, ENGINE fast, MISS 1"), &["unknown engine 'fast'", "MISS: out"]);
    check(format!("{path}, CACHE big"), &["CACHE: unknown cache 'big', expected storm"]);
    check(format!("{path}, RULES_FORMAT xml"), &["RULES_FORMAT: unknown rule format 'xml'"]);
    check("/no/such/file".into(), &["RULES: /no/such/file: "]);
    check(String::new(), &["RULES: required argument missing"]);
}
