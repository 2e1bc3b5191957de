//! Branches: a `Dispatcher` in a chain selects members by packet, and splits no wide batch.

use super::*;

/// A chain with branches, from the elements in front of `d :: Dispatcher` and the branches.
fn branched(batcher: &str, front: &str, by: &str, branches: &[&str]) -> String {
    let branches = branches.iter().enumerate();
    let branches: String = branches.map(|(k, one)| format!("d[{k}] -> {one} d2h; ")).collect();
    format!(
        "FromDump(IN, STOP true) -> {batcher} -> HostToDeviceMemcpy -> {front} d :: {by};
        d2h :: DeviceToHostMemcpy; {branches} d2h -> GPUCompletionQueue -> Debatcher"
    )
}

fn count(router: &mut Router, handler: &str) -> u64 {
    let value = router.read(handler).unwrap_or_else(|error| panic!("{handler}: {error}"));
    value.parse().unwrap_or_else(|_| panic!("{handler}: {value}"))
}

const ENDS: &str = "by :: Dispatcher(ANNO 44);
    by[0] -> way0; by[1] -> way1; by[2] -> way2; by[3] -> way3;\n";
const FLOWS_FIRST: &str = "GPUSDNClassifier(FLOWS, MISS 2) ->";

#[test]
fn branches_give_the_same_output_as_predicates() {
    let folder = Folder::new();
    let forward = "GPUIPForward(ROUTES, OFFSET 14, BAD 3, UNROUTED 3, ANNO 44";
    let members = format!(
        "{FLOWS_FIRST} GPUIPLookup(ROUTES, ANNO 44, CHK_ANNO 40=0) -> {forward}, CHK_ANNO 40=1)"
    );
    let in_line = chain("Batcher", &members);
    run(&folder.config(&format!("FromDump(IN, STOP true) -> {in_line} -> {ENDS}")), None);
    let sizes: Vec<usize> = folder.outputs().iter().map(Vec::len).collect();
    assert!(sizes.iter().all(|&size| size > 100), "{sizes:?}");
    let forward = format!("gr :: {forward}) ->");
    let config = |batcher: &str| {
        let branches = ["GPUIPLookup(ROUTES, ANNO 44) ->", &forward];
        let config = branched(batcher, FLOWS_FIRST, "Dispatcher", &branches);
        format!("{config} -> {ENDS}")
    };
    agree(&folder, config, &[]);
}

/// A member overwrites the number that the `Dispatcher` reads, and others have a predicate, too.
#[test]
fn members_process_only_packets_of_their_branch() {
    let folder = Folder::new();
    let branches = [
        "GPUIPLookup(0/0 1) -> GPUIPLookup(0/0 1, ANNO 44) ->",
        "GPUIPLookup(0/0 0) -> GPUIPLookup(0/1 1, 128/1 2, ANNO 44)
            -> gr :: GPUIPLookup(0/0 3, ANNO 36, CHK_ANNO 44=1) ->",
    ];
    let front = "GPUSDNClassifier(FLOWS, MISS 2, ANNO 24) -> GPUSDNClassifier(FLOWS, MISS 2) ->";
    let config = branched("GetIPAddress(30) -> Batcher(SIZE 200)", front, "Dispatcher", &branches);
    let config = folder.config(&format!(
        "{config} -> by :: Dispatcher(ANNO 24);
        by[0] -> a :: Dispatcher(ANNO 44); by[1] -> b :: Dispatcher(ANNO 44);
        by[2] -> none :: Dispatcher(ANNO 44); none[0] -> way3;
        wrong :: Counter -> way3;
        a[0] -> wrong; a[1] -> a36 :: Dispatcher(ANNO 36); a36[0] -> way0;
        b[0] -> wrong; b[1] -> b36 :: Dispatcher(ANNO 36); b[2] -> c36 :: Dispatcher(ANNO 36);
        b36[0], b36[1], b36[2] -> wrong; b36[3] -> x :: Counter -> way1;
        c36[0] -> y :: Counter -> way2;\n"
    ));
    let expected = ["a", "b", "none", "a36", "b36", "c36"];
    for offload in [None, Some(pool(FaultPlan::default()))] {
        let (mut router, _) = run(&config, offload.as_ref());
        for handler in expected {
            let drops = router.read(&format!("{handler}.drops_by_reason"));
            assert_eq!(drops, Ok("0\tno output\n0\tbeyond outputs\n".into()), "{handler}");
        }
        assert_eq!(count(&mut router, "wrong.count"), 0);
        let on_branch_1 = ["x.count", "y.count"].map(|handler| count(&mut router, handler));
        assert!(on_branch_1.iter().all(|&packets| packets > 30), "{on_branch_1:?}");
        let rest = &folder.outputs()[3];
        assert!(rest.len() > 1000, "packets without a branch leave the chain, too");
    }
}

#[test]
fn gives_the_same_alerts_on_a_branch() {
    let folder = Folder::with(detection::frame);
    std::fs::write(folder.file("rules"), detection::RULES).expect("a file");
    let flows = "priority=1,tcp actions=output:1\npriority=0,ip actions=output:0\n";
    std::fs::write(folder.file("flows"), flows).expect("a file");
    let ids = "ids :: GPUIDSMatcher(RULES DIRrules, OUT DIReve";
    let in_line = format!("GPUSDNClassifier(DIRflows, MISS 2) -> {ids}, CHK_ANNO 40=1)");
    let in_line = chain("Batcher(IDLE true)", &in_line);
    let in_line = format!("FromDump(DIRin, STOP true) -> {in_line} -> Discard;");
    let (expected, _) = detection::alerts_of(&folder, &in_line, None);
    assert!(expected.matches("signature_id").count() > 300);
    assert!(!expected.contains("\"signature_id\":3,"), "a rule for UDP");
    let none = FaultPlan::default();
    let broken = FaultPlan { error_chance: 0.1, ..none };
    let (front, ids) = ("GPUSDNClassifier(DIRflows, MISS 2) ->", format!("{ids}) ->"));
    let branches = ["GPUIPLookup(0/0 1, ANNO 36) ->", &ids];
    let config = branched("Batcher(SIZE 100)", front, "Dispatcher", &branches);
    let config = format!("{config} -> Discard;").replace("IN,", "DIRin,");
    for offload in [None, Some(pool(none)), Some(pool(broken))] {
        let (text, [on_device, _]) = detection::alerts_of(&folder, &config, offload.as_ref());
        assert_eq!(text, expected);
        let is_ready = offload.as_ref().is_some_and(|one| one.device().retired().is_none());
        assert!(!is_ready || on_device > 20, "{on_device}");
    }
}

#[test]
fn packets_of_other_branches_stay_off_the_device() {
    let folder = Folder::new();
    let front = "c :: Classifier(12/0800 23/11, -); c[0] -> marked :: Counter
        -> SetAnnoByte(44, 1) -> all :: Null; c[1] -> all -> Batcher";
    let branches = ["", "gr :: GPUIPLookup(ROUTES) ->"];
    let config = branched(front, "", "Dispatcher(ANNO 44)", &branches);
    let config =
        folder.config(&format!("{config} -> way0; Idle -> way1; Idle -> way2; Idle -> way3;\n"));
    let (mut router, _) = run(&config, Some(&pool(FaultPlan::default())));
    let marked = count(&mut router, "marked.count");
    assert_eq!((count(&mut router, "gr.on_device"), marked > 100), (marked, true));
}

/// The messages of `check` about a chain, with the elements from the `Dispatcher` on.
fn messages(front: &str, rest: &str) -> String {
    let config = format!(
        "d2h :: DeviceToHostMemcpy; rt :: StaticIPLookup(0/0 0); Idle -> Batcher
        -> HostToDeviceMemcpy -> {front} d :: {rest};
        d2h -> GPUCompletionQueue -> Debatcher -> rt -> Discard;"
    );
    let registry = crate::registry();
    let loaded = language::load("c", config.as_bytes(), &registry, &BTreeMap::new(), None);
    let loaded = loaded.unwrap_or_else(|errors| panic!("{}", errors.to_click()));
    let transcript = Transcript::default();
    let console = Box::new(transcript.clone());
    let options = RouterOptions { console, seed: 0, now: Time::default(), ticks: None };
    match Router::check(loaded, &registry, options) {
        Ok(()) => transcript.said(),
        Err(errors) => errors.to_click(),
    }
}

#[test]
fn check_validates_branches() {
    let front = "GPUIPLookup(0/0 7) ->";
    let two = "GPUIPLookup(0/0 0, ANNO 44) -> d2h; d[1] -> GPUIPLookup(0/0 1, ANNO 44) -> d2h";
    assert_eq!(messages(front, &format!("Dispatcher -> {two}")), "");
    assert_eq!(messages(front, "Dispatcher -> d2h; d[1] -> d2h"), "");
    for (front, rest, expected) in [
        ("", two, "ANNO 40: no upstream element writes the annotation at 40, so it is 0"),
        (
            front,
            "d2h; d[1] -> c :: Counter -> d2h",
            "'c :: Counter' is invalid on a branch of 'd :: Dispatcher': a device element or \
             DeviceToHostMemcpy was expected",
        ),
        (
            front,
            "d2h; d[1] -> e :: Dispatcher -> d2h",
            "'e :: Dispatcher' is invalid on a branch of 'd :: Dispatcher': a device element or \
             DeviceToHostMemcpy was expected; branches do not branch: use CHK_ANNO",
        ),
        (
            front,
            "d2h; d[1] -> other :: DeviceToHostMemcpy -> GPUCompletionQueue -> Debatcher -> rt",
            "lead to 'd2h :: DeviceToHostMemcpy' and 'other :: DeviceToHostMemcpy': expected only",
        ),
        (
            front,
            "g :: GPUIPLookup(0/0 0, ANNO 44) -> d2h; d[1] -> g",
            "'g :: GPUIPLookup' has other inputs, too",
        ),
        (front, "d2h; d[1] -> d2h; Idle -> d2h", "'d2h :: DeviceToHostMemcpy' has other inputs"),
        (
            front,
            "d2h; d[1] -> g :: GPUIPLookup(FOR rt) -> d2h",
            "FOR of 'g :: GPUIPLookup' is not allowed on a branch",
        ),
    ] {
        let messages = messages(front, &format!("Dispatcher -> {rest}"));
        assert!(messages.contains(expected), "{rest}: {messages}");
    }
    let twice = "GPUIPLookup(0/0 0, ANNO 44) -> b :: GPUIPLookup(0/0 1, ANNO 44) -> d2h";
    let messages = messages(front, &format!("Dispatcher -> {twice}"));
    assert!(messages.contains("'b :: GPUIPLookup' overwrites ANNO 44 of"), "{messages}");
}
