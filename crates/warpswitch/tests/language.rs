//! What docs/language.md and docs/offload.md show runs as it is pasted.

use std::fs;
use std::path::Path;
use std::process::Command;

/// The blocks of a page that are in a language.
fn blocks<'t>(page: &'t str, language: &str) -> Vec<&'t str> {
    let fence = format!("```{language}\n");
    let behind = page.split(&fence as &str).skip(1);
    behind.map(|rest| rest.split("```").next().expect("a split has a part")).collect()
}

/// Runs a command line in a folder; gives what was printed, with standard error behind.
fn run(folder: &Path, line: &str) -> String {
    let line = line.split('#').next().expect("a split has a part");
    let mut words = line.split_whitespace();
    assert_eq!(words.next(), Some("warpswitch"), "{line}");
    let mut command = Command::new(env!("CARGO_BIN_EXE_warpswitch"));
    let output = command.args(words).current_dir(folder).output().expect("the program starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{line}: {said}");
    text + &said
}

#[test]
fn the_chains_of_the_page_run_from_the_root() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = fs::read_to_string(root.join("docs/offload.md")).expect("the page");
    let [chain, branches] = blocks(&page, "click")[..] else { panic!("two configurations") };
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("chain.click");
    fs::write(&file, chain).expect("it can be written");
    let lines = blocks(&page, "sh").into_iter().flat_map(str::lines);
    let lines: Vec<String> = lines
        .filter(|line| line.contains(" chain.click"))
        .map(|line| line.replace("chain.click", &file.to_string_lossy()))
        .collect();
    let said: String = lines.iter().map(|line| run(&root, line)).collect();
    assert!(lines.len() == 2 && said.contains(": valid") && !said.contains("warning"), "{said}");
    assert!(said.contains("GPUSDNClassifier") && said.contains("2 no output"), "{said}");
    let eve = folder.path().join("eve.json");
    let branches = branches.replace("eve.json", &eve.to_string_lossy());
    fs::write(&file, branches).expect("it can be written");
    let said = run(&root, &lines[1]);
    assert!(!said.contains("warning") && !said.contains("no output"), "{said}");
    let alerts = fs::read_to_string(eve).expect("alerts");
    assert!(alerts.contains("\"event_type\":\"alert\""), "{alerts}");
}

#[test]
fn what_the_page_shows_runs_as_it_is_pasted() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/language.md");
    let page = fs::read_to_string(page).expect("the page");
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let configurations = blocks(&page, "click");
    let named: Vec<&str> = configurations
        .iter()
        .filter_map(|text| {
            let name = text.strip_prefix("// ")?.split(':').next()?;
            fs::write(folder.join(name), text).expect("it can be written");
            Some(name)
        })
        .collect();
    assert_eq!(named, ["first.click", "lanes.click"]);
    let lines: Vec<&str> = blocks(&page, "sh").into_iter().flat_map(str::lines).collect();
    let said: String = lines.iter().map(|line| run(folder, line)).collect();
    assert!(said.contains("first.click: 11 elements, 9 connections: valid"), "{said}");
    assert!(said.contains("web 409, UDP 2404"), "{said}");
    assert!(!said.contains("warning"), "{said}");
    let lanes = run(folder, "warpswitch run lanes.click");
    let counts: Vec<u64> = lanes.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    assert!(counts.len() == 2 && counts.iter().all(|&count| count > 0), "{lanes}");
    assert!(!lanes.contains("warning"), "{lanes}");
    // The script, in the place of the first one's.
    let (rest, _) = configurations[0].split_once("DriverManager").expect("it has one");
    let script = configurations[2].replace("1s", "1ms");
    fs::write(folder.join("script.click"), format!("{rest}{script}")).expect("it can be written");
    assert!(run(folder, "warpswitch run script.click").contains("so far "));
}
