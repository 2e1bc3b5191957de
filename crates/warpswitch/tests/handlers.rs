//! `warpswitch read` and `warpswitch write` as a user runs them, beside a router.

mod beside;

use std::io::Write;
use std::process::Stdio;

use beside::{pasted, start, told, warpswitch};

const CONFIG: &str =
    "i :: Idle -> route :: StaticIPLookup(0.0.0.0/0 0) -> c :: Counter -> Discard;";

#[test]
fn handlers_are_read_and_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let (mut router, _) = start(folder.path(), CONFIG, "r.sock");
    let ask = |args: &[&str]| told(&warpswitch(folder.path(), args).output().expect("it starts"));
    let done = |text: &str| (text.to_owned(), String::new(), Some(0));
    assert_eq!(ask(&["read", "r.sock", "c.count"]), done("0\n"));
    assert_eq!(ask(&["write", "r.sock", "route.add", "192.0.2.0/24", "-", "0"]), done(""));
    let (table, _, _) = ask(&["read", "r.sock", "route.table"]);
    assert!(table.contains("192.0.2.0/24") && table.ends_with('\n'), "{table}");
    assert_eq!(ask(&["read", "r.sock", "route.lookup", "192.0.2.1"]).2, Some(0));
    // From the standard input, lines and all.
    let mut write = warpswitch(folder.path(), &["write", "r.sock", "route.ctrl", "-"]);
    let mut child = write.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let lines = b"remove 192.0.2.0/24\nadd 198.51.100.0/24 0\n";
    child.stdin.take().expect("a pipe").write_all(lines).expect("it reads");
    assert_eq!(told(&child.wait_with_output().expect("it ends")), done(""));
    let (table, _, _) = ask(&["read", "r.sock", "route.table"]);
    assert!(!table.contains("192.0.2.0/24") && table.contains("198.51.100.0/24"), "{table}");
    assert_eq!(ask(&["write", "r.sock", "stop"]), done(""));
    assert!(router.0.wait().expect("it ends").success());
}

#[test]
fn what_is_not_there_or_refused_is_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let _router = start(folder.path(), CONFIG, "r.sock");
    let cases: [(&[&str], i32, &str); 9] = [
        (&["read", "r.sock", "c.coutn"], 2, "did you mean 'c.count'?"),
        (&["read", "r.sock", "rouet.table"], 2, "did you mean 'route.table'?"),
        (&["read", "r.sock", "lits"], 2, "did you mean 'list'?"),
        (&["read", "r.sock", "c.count\nx"], 2, "one line"),
        // That one is written, and is not read.
        (&["write", "r.sock", "route.tabel", "x"], 2, "'route.tabel': "),
        (&["write", "r.sock", "route.addd", "x"], 2, "did you mean 'route.add'?"),
        (&["write", "r.sock", "route.add", "nonsense"], 1, "'route.add': "),
        (&["write", "r.sock", "route add", "x"], 2, "contains a space"),
        (&["read", "nobody.sock", "c.count"], 1, "start a router there"),
    ];
    for (args, exit, why) in cases {
        let (out, errors, code) =
            told(&warpswitch(folder.path(), args).output().expect("it starts"));
        assert_eq!((out.as_str(), code), ("", Some(exit)), "{args:?}: {errors}");
        assert!(errors.contains(why), "{args:?}: {errors}");
    }
}

#[test]
fn the_examples_of_their_help_run_as_pasted() {
    for (command, socket) in [("read", "routes.sock"), ("write", "changed.sock")] {
        // Their last example stops the router.
        let (out, errors, code) = pasted(command, socket, ":");
        assert_eq!(code, Some(0), "{errors}");
        assert!(out.contains("/24"), "{out}");
    }
}
