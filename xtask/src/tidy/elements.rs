//! Checks of elements: each file that declares a class documents it under the fixed headings.

use super::Finding;

/// The headings, in order.
const HEADINGS: [&str; 7] =
    ["Synopsis", "Ports", "Configuration", "Handlers", "Drops", "Threads", "Example"];

/// The crates with elements.
const FOLDERS: [&str; 5] = [
    "crates/elements-lookup/src/",
    "crates/elements-network/src/",
    "crates/elements-standard/src/",
    "crates/inspect/src/",
    "crates/offload/src/",
];

/// Whether `text` declares an element class.
fn declares_class(text: &str) -> bool {
    text.lines().any(|line| line.starts_with("pub static ") && line.contains(": ElementClass"))
}

/// The headings of the documentation of an element file.
pub fn check(path: &str, text: &str) -> Option<Finding> {
    if !FOLDERS.iter().any(|folder| path.starts_with(folder)) || !declares_class(text) {
        return None;
    }
    let headings: Vec<&str> =
        text.lines().map_while(|line| line.strip_prefix("//!")).filter_map(heading).collect();
    // Other headings may stand between them.
    let mut wanted = HEADINGS.iter().peekable();
    for found in headings {
        wanted.next_if(|wanted| **wanted == found);
    }
    let missing = *wanted.next()?;
    let message = format!("no heading '# {missing}', or not in its place: {}", HEADINGS.join(", "));
    Some(Finding::new("element-doc", path, 1, message))
}

fn heading(line: &str) -> Option<&str> {
    line.trim_start().strip_prefix("# ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_are_there_and_in_order() {
        let class = "pub static CLASS: ElementClass = 1;\n";
        let doc = |headings: &[&str]| -> String {
            headings.iter().map(|h| format!("//! # {h}\n//! Text.\n")).collect()
        };
        let path = "crates/elements-network/src/ip/x.rs";
        let check = |text: &str| check(path, text).map(|finding| finding.message);
        assert_eq!(check(&(doc(&HEADINGS) + class)), None);
        let mut more = HEADINGS.to_vec();
        more.insert(3, "Errors");
        assert_eq!(check(&(doc(&more) + class)), None);
        assert_eq!(check("//! No class here.\n"), None);
        let mut fewer = HEADINGS.to_vec();
        fewer.remove(4);
        assert!(check(&(doc(&fewer) + class)).is_some_and(|m| m.contains("'# Drops'")));
        let mut swapped = HEADINGS.to_vec();
        swapped.swap(0, 1);
        assert!(check(&(doc(&swapped) + class)).is_some());
    }
}
