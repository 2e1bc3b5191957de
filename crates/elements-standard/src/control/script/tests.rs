//! Scripts in small configurations.

use warpswitch_graph::simulate::{SIMULATED_START, router, run};
use warpswitch_graph::{Host, Time};

/// The output that a configuration prints, and its messages.
fn output(config: &str) -> (String, String) {
    let (_, transcript) = run(config, &crate::registry());
    (String::from_utf8(transcript.printed()).expect("text"), transcript.said())
}

fn check(config: &str, printed: &str) {
    assert_eq!(output(config), (printed.to_owned(), String::new()), "{config}");
}

#[test]
fn instructions_do_as_they_say() {
    check("Script(set x 5, print $x, print \"$x\", print '$x')", "5\n5\n$x\n");
    check("Script(set x \"a b\", print $x, setq x \"a b\", print $x)", "\"a b\"\na b\n");
    check("Script(init x 1, label l, print $x, set x $(add $x 1), goto l $(lt $x 4))", "1\n2\n3\n");
    check("Script(printn \"a\", printn \"\\<62 0a>\", print \"\", print \"c\\n\")", "ab\n\nc\n");
    check(
        "i :: Idle; Script(print i.name, set h i.class, print $h, print $($h))",
        "i\ni.class\nIdle\n",
    );
    check("Script(goto end, print \"never\")", "");
    check("Script(print \"a\", exit, print \"never\")", "a\n");
    check(
        "Script(print $(now), wait 2s, print $(now), wait 10ms, print $(now))",
        "1000000000.000000000\n1000000002.000000000\n1000000002.010000000\n",
    );
    check("Script(set t 1s, wait $t, print $(now))", "1000000001.000000000\n");
}

#[test]
fn handlers_of_its_own_need_no_name() {
    check(
        "Script(print $(add 1 2), set i add, print $($i 3 4), print $($(s.run).name), stop);
         s :: Script(TYPE PASSIVE, return i2); i1, i2 :: Idle",
        "3\n7\ni2\n",
    );
    check(
        "s0 :: Script(write set v foo bar baz, print $(shift v), print $(get v), print $(s0.get v),
         print $(sprintf \"%03d|%s\" 7 \"a b\"), print $(if $(eq 1 2) yes no), stop)",
        "foo\nbar baz\nbar baz\n007|a b\nno\n",
    );
    check(
        "Script(print $(readable i.name add), print $(writable i.name)); i :: Idle",
        "true\nfalse\n",
    );
}

#[test]
fn passive_scripts_return_and_take_arguments() {
    check(
        "Script(print $(s.run a \"b c\" d), print $(t.run), write t.run, stop);
         s :: Script(TYPE PASSIVE, return \"$#: $2 of $args\");
         t :: Script(TYPE PASSIVE, init n 0, set n $(add $n 1), returnq \"'$n'\")",
        "\"3: \\\"b c\\\" of a \\\"b c\\\" d\"\n'1'\n",
    );
    check(
        "p :: Script(TYPE PROXY, goto b $(eq $0 b), error bad, label b, return $0$write);
         Script(print p.b, stop)",
        "bfalse\n",
    );
    check(
        "s :: Script(TYPE PASSIVE, export v 7, set v 8); Script(print s.v, write s.run, print s.v)",
        "7\n8\n",
    );
}

#[test]
fn scripts_step_each_other() {
    check(
        "a :: Script(pause, print \"one\", pause 2, print \"two\", wait 9s, print \"three\", stop);
         Script(write a.step, print \"-\", write a.step, print \"-\", write a.step 2, print \".\")",
        "one\n-\n-\ntwo\nthree\n.\n",
    );
    check(
        "a :: Script(TYPE PASSIVE, print \"start\", label x, print \"x\");
         Script(write a.goto x, write a.run, stop)",
        "x\nstart\nx\n",
    );
}

#[test]
fn what_goes_wrong_is_said() {
    let said = |config: &str, said: &str| assert_eq!(output(config).1, said, "{config}");
    said(
        "s :: Script(read i.name, readq length \"\\<0a 09 01>\", stop); i :: Idle",
        "i.name:\ni\ns.length:\n3\n",
    );
    said(
        "s :: Script(write i.x 1, print $?, write i.name 1, print $(i.y), print $(i.name 3),
         print x.y, goto end maybe, error \"at last\"); i :: Idle",
        "config:1: warning: While configuring 's :: Script':\n  warning: no 'i.y' read handler\n  \
         warning: read handler 'i.name' does not take parameters\n  \
         warning: no element named 'x'\n\n\
         While executing 's :: Script':\n  no 'i.x' write handler\n  no 'i.name' write handler\n  \
         no 'i.y' read handler\n  read handler 'i.name' does not take parameters\n  \
         no element named 'x'\n  bad condition 'maybe'\n  \"at last\"\n",
    );
    said(
        "s :: Script(write q.capacity x 1, print $(t.run), print t.run); q :: Idle -> Queue -> q;
         t :: Script(TYPE PASSIVE, error no)",
        "config:1: warning: While configuring 's :: Script':\n  \
         warning: no 'q.capacity' write handler\n\n\
         While executing 's :: Script':\n  no 'q.capacity' write handler\n  no\n\
         While calling 't.run':\n  no\n",
    );
    said(
        "s0 :: Script(label a, goto a); s1 :: Script(wait 1, stop)",
        "s0 :: Script: too many jumps, giving up\n",
    );
    said(
        "s0 :: Script(set x long, label a, set x $x$x, goto a); s1 :: Script(wait 1, stop)",
        "s0 :: Script: too many jumps, giving up\n",
    );
}

#[test]
fn a_timer_that_is_due_again_at_once_leaves_others_their_turn() {
    /// A host whose time passes by the look.
    struct Ticking(i64);
    impl Host for Ticking {
        fn now(&mut self) -> Time {
            self.0 += Time::SECOND;
            Time(self.0)
        }
        fn wait(&mut self, _until: Option<Time>) -> bool {
            true
        }
    }
    let config = "Script(wait 0, loop); DriverManager(wait 10s, print \"ended\", stop)";
    let (mut router, transcript) = router(config, &crate::registry()).expect("it is right");
    router.run(&mut Ticking(SIMULATED_START.0));
    assert_eq!(transcript.printed(), b"ended\n");
}

#[test]
fn all_that_is_wrong_with_the_text_is_told() {
    let told = |config: &str| {
        let made = router(&format!("s :: {config}"), &crate::registry());
        made.err().expect("it is wrong").to_click()
    };
    let head = "config:1: While configuring 's :: Script':\n";
    assert_eq!(
        told("Script(frob, goto x, TYPE PASSIVE)"),
        format!("{head}  syntax error at 'frob'\n  no such label 'x'\n")
    );
    assert_eq!(told("Script(TYPE NONE)"), format!("{head}  bad TYPE\n"));
    assert_eq!(told("Script(TYPE PACKET)"), format!("{head}  PACKET script must have inputs\n"));
    assert_eq!(
        told("Script(TYPE ACTIVE) -> Discard"),
        format!("{head}  ports allowed only on PACKET scripts\n")
    );
    assert_eq!(
        told("Script(wait soon)"),
        "config:1: While initializing 's :: Script':\n  syntax error at 'wait'\n"
    );
    assert_eq!(
        told("Script(TYPE SIGNAL USR1)"),
        "config:1: While initializing 's :: Script':\n  no signals are watched here\n"
    );
}

#[test]
fn packets_go_where_the_script_says() {
    let config = "i :: InfiniteSource(LIMIT 7) -> s :: Script(TYPE PACKET, init i 0, set j $i,
            set i $(add $i 1), set i $(if $(eq $i 3) 0 $i), return $j)
        -> a :: Counter -> Discard; s[1] -> b :: Counter -> Discard;
        InfiniteSource(LIMIT 2) -> t :: Script -> c :: Counter -> Discard;
        InfiniteSource(LIMIT 2) -> u :: Script(exit) -> Discard;
        InfiniteSource(LIMIT 2) -> Queue -> v :: Script(end) -> d :: Counter -> Discard";
    let (mut router, _) = run(config, &crate::registry());
    let mut read = |handler: &str| router.read(handler).expect("it is there");
    assert_eq!(
        (read("a.count"), read("b.count"), read("c.count")),
        ("3".into(), "2".into(), "2".into())
    );
    assert_eq!((read("d.count"), read("s.drops_by_reason")), ("2".into(), "2\tscript\n".into()));
    assert_eq!(read("u.drops_by_reason"), "2\tscript\n");
}

#[test]
fn files_are_written_and_read() {
    let folder = std::env::temp_dir().join(format!("script-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let file = folder.join("out");
    let path = file.display();
    check(
        &format!(
            "i :: Idle; Script(print >{path} \"a\", print >>{path} i.name, append i.class {path},
             print $(cat {path}), print $(catq {path}), save i.name {path}, printn $(cat {path}))"
        ),
        "a\ni\nIdle\n\"a\\ni\\nIdle\\n\"\ni\n",
    );
    std::fs::remove_dir_all(&folder).expect("the folder goes");
}

#[test]
fn handlers_and_variables_that_are_not_there_are_told_before_it_runs() {
    let said = |config: &str| {
        let made = router(config, &crate::registry());
        made.map_or_else(|errors| errors.to_click(), |(_, transcript)| transcript.said())
    };
    let of = |script: &str| {
        said(&format!(
            "elementclass In {{ Idle -> inner :: Counter -> Discard; Script(print inner.cuont) }}
             Idle -> count :: Counter -> Discard; {script}"
        ))
    };
    for (script, expected) in [
        ("Script(print count.cuont)", "no 'count.cuont' read handler: did you mean 'count.count'?"),
        ("Script(print \"n: $(count.rats)\")", "did you mean 'count.rate'?"),
        ("Script(read cuont.count)", "no element named 'cuont': did you mean 'count.count'?"),
        ("Script(label l, wait 1s, write count.rest, goto l)", "did you mean 'count.reset'?"),
        ("Script(goto end $(qe 1 2))", "no 'qe' read handler"),
        ("Script(set x $(ad 1 2))", "no 'ad' read handler: did you mean 'add'?"),
        ("Script(print $(if $(lt 1 $(count.x)) a b))", "no 'count.x' read handler"),
        ("Script(write count.count)", "no 'count.count' write handler"),
        ("Script(TYPE PASSIVE, read count.count 1)", "does not take parameters"),
        ("PokeHandlers(1s, write count.rest)", "did you mean 'count.reset'?"),
        ("Script(set count 1, print $cuont)", "'cuont' is never set, but 'count' is"),
        ("Script(print \"a $b\")", "variable 'b' is never set: '$b' is not replaced"),
        ("i :: In", "no 'i/inner.cuont' read handler: did you mean 'inner.count'?"),
    ] {
        let told = of(script);
        assert!(told.contains(expected), "{script}: {told}");
        assert!(told.contains("warning: "), "{script}: {told}");
    }
    // Names that are computed at run time, and scripts that check a handler before its use.
    for script in [
        "Script(set h cuont, print $(count.$h), print $($h.count), write $h)",
        "Script(print $(count.$(s.run))); s :: Script(TYPE PASSIVE, return count)",
        "Script(goto end $(not $(readable count.x)), print count.x)",
        "Script(write count.x, goto end $(ne $? 0))",
        "p :: Script(TYPE PROXY, return $0); Script(print $(p.anything), write p.other)",
        "Script(print '$x', print '$(count.x)', print $args, print $1)",
        "s :: Script(TYPE PASSIVE, print $x); Script(write s.set x 1, write s.run)",
        "Script(label count.x, goto count.x, print \"count.x\")",
        "Script(write stop, print $(version), print 1.name, write hotconfig x)",
        "s :: Script(export v 1, print s.v); Script(print s.v, write s.goto l)",
        "Idle -> Script(TYPE PACKET, return $input) -> Discard",
    ] {
        assert_eq!(of(script), "", "{script}");
    }
}
