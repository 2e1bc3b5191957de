//! The "may import" table: which crate may depend on which.
//!
//! Read from the manifests, so nothing has to compile. Only what is shipped counts, which is
//! `[dependencies]` and `[build-dependencies]`, for every target; tests may use anything that does
//! not close a cycle. The table has rows for rooms that are planned and not built yet, so that a
//! new crate finds its place waiting.

use std::collections::BTreeMap;

use super::Finding;
use crate::repo::SourceFile;

/// One crate and what it may import.
pub struct Room {
    /// Folder under `crates/`, or `python`.
    pub name: &'static str,
    /// Its layer; an import never goes up.
    pub layer: u8,
    /// The project's crates it may depend on.
    pub may_import: &'static [&'static str],
}

/// Layer of `testkit`, which only tests may import.
const DEV: u8 = 11;

/// The crates below commands: none with elements.
const BELOW_COMMANDS: &[&str] = &[
    "wire",
    "packet",
    "rules",
    "classify",
    "routes",
    "scan",
    "ids",
    "flow",
    "io",
    "openflow",
    "pipeline",
    "switch",
    "gpu",
    "graph",
    "kit",
    "runtime",
    "provenance",
];

/// Every room below the binary.
const ALL: &[&str] = &[
    "wire",
    "packet",
    "rules",
    "classify",
    "routes",
    "scan",
    "ids",
    "flow",
    "io",
    "openflow",
    "pipeline",
    "switch",
    "gpu",
    "graph",
    "kit",
    "elements-support",
    "elements-standard",
    "elements-lookup",
    "elements-network",
    "elements",
    "inspect",
    "offload",
    "runtime",
    "provenance",
    "commands",
];

/// The table. `ids` may import `scan`, whose searches it confirms, `rules` for diagnostics, and
/// `packet` for asking for memory ahead.
/// `classify` and `routes` may import `packet`, whose `sync` room has the code that
/// publishes and retires snapshots.
pub const ROOMS: &[Room] = &[
    Room { name: "wire", layer: 0, may_import: &[] },
    Room { name: "packet", layer: 0, may_import: &[] },
    Room { name: "rules", layer: 1, may_import: &["wire"] },
    Room { name: "classify", layer: 2, may_import: &["rules", "packet"] },
    Room { name: "routes", layer: 2, may_import: &["wire", "packet"] },
    Room { name: "scan", layer: 2, may_import: &["wire"] },
    Room { name: "flow", layer: 2, may_import: &["rules", "packet", "classify"] },
    Room { name: "io", layer: 2, may_import: &["wire", "packet"] },
    Room { name: "openflow", layer: 2, may_import: &["wire", "rules"] },
    Room {
        name: "gpu",
        layer: 3,
        may_import: &["wire", "packet", "rules", "classify", "routes", "scan"],
    },
    Room { name: "ids", layer: 3, may_import: &["wire", "packet", "rules", "scan"] },
    Room {
        name: "pipeline",
        layer: 3,
        may_import: &["wire", "packet", "rules", "classify", "flow"],
    },
    Room { name: "graph", layer: 3, may_import: &["wire", "packet"] },
    Room {
        name: "switch",
        layer: 4,
        may_import: &["wire", "packet", "rules", "flow", "openflow", "pipeline", "graph"],
    },
    Room { name: "kit", layer: 4, may_import: &["gpu", "graph"] },
    Room { name: "elements-support", layer: 5, may_import: &["wire", "packet", "io", "graph"] },
    Room {
        name: "elements-standard",
        layer: 6,
        may_import: &["wire", "packet", "io", "graph", "elements-support"],
    },
    Room {
        name: "elements-lookup",
        layer: 6,
        may_import: &[
            "wire",
            "packet",
            "rules",
            "classify",
            "routes",
            "flow",
            "io",
            "graph",
            "elements-support",
        ],
    },
    Room {
        name: "elements-network",
        layer: 7,
        may_import: &[
            "wire",
            "packet",
            "rules",
            "routes",
            "io",
            "openflow",
            "graph",
            "switch",
            "elements-support",
            "elements-lookup",
        ],
    },
    Room {
        name: "elements",
        layer: 8,
        may_import: &[
            "graph",
            "elements-support",
            "elements-standard",
            "elements-lookup",
            "elements-network",
        ],
    },
    Room {
        name: "inspect",
        layer: 6,
        may_import: &["wire", "packet", "scan", "ids", "io", "graph", "elements-support"],
    },
    Room {
        name: "offload",
        layer: 7,
        may_import: &[
            "wire",
            "packet",
            "rules",
            "classify",
            "routes",
            "scan",
            "ids",
            "gpu",
            "graph",
            "kit",
            "elements-support",
            "elements-lookup",
            "inspect",
        ],
    },
    Room {
        name: "runtime",
        layer: 8,
        may_import: &["wire", "packet", "rules", "io", "openflow", "graph", "switch"],
    },
    Room { name: "provenance", layer: 8, may_import: &[] },
    Room { name: "commands", layer: 9, may_import: BELOW_COMMANDS },
    Room { name: "warpswitch", layer: 10, may_import: ALL },
    Room { name: "python", layer: 10, may_import: ALL },
    Room { name: "testkit", layer: DEV, may_import: ALL },
];

/// The room called `name`.
pub fn room(name: &str) -> Option<&'static Room> {
    ROOMS.iter().find(|room| room.name == name)
}

/// Checks every manifest under `crates/` and `python/`.
pub fn check(files: &[SourceFile]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files {
        let (Some(name), Some(text)) = (room_of_manifest(&file.path), &file.text) else { continue };
        match toml::from_str::<toml::Table>(text) {
            Ok(manifest) => findings.extend(check_manifest(&file.path, name, &manifest)),
            Err(error) => {
                findings.push(Finding::new("layers", &file.path, 0, error.message().to_owned()));
            }
        }
    }
    findings
}

/// `crates/NAME/Cargo.toml` and `python/Cargo.toml` belong to rooms.
fn room_of_manifest(path: &str) -> Option<&str> {
    let folder = path.strip_suffix("/Cargo.toml")?;
    match folder.strip_prefix("crates/") {
        Some(name) if !name.contains('/') => Some(name),
        _ => (folder == "python").then_some("python"),
    }
}

fn check_manifest(path: &str, name: &str, manifest: &toml::Table) -> Vec<Finding> {
    let Some(room) = room(name) else {
        let message = format!("no room is called '{name}': add it to the table, with its layer");
        return vec![Finding::new("layers", path, 0, message).of(name, 0)];
    };
    let mut findings = Vec::new();
    for import in imports(manifest) {
        if !room.may_import.contains(&import.as_str()) {
            let allowed = match room.may_import {
                [] => "nothing".to_owned(),
                some => some.join(", "),
            };
            let message = format!("'{name}' imports '{import}'; it may import {allowed}");
            findings.push(Finding::new("layers", path, 0, message).of(import, 0));
        }
    }
    findings
}

/// The project's own crates among the shipped dependencies, as room names.
fn imports(manifest: &toml::Table) -> Vec<String> {
    let mut names = BTreeMap::new();
    let mut tables = vec![manifest];
    if let Some(targets) = manifest.get("target").and_then(toml::Value::as_table) {
        tables.extend(targets.values().filter_map(toml::Value::as_table));
    }
    for table in tables {
        for section in ["dependencies", "build-dependencies"] {
            let Some(section) = table.get(section).and_then(toml::Value::as_table) else {
                continue;
            };
            for (key, value) in section {
                let renamed = value.get("package").and_then(toml::Value::as_str);
                let package = renamed.unwrap_or(key);
                if let Some(room) = package.strip_prefix("warpswitch-") {
                    names.insert(room.to_owned(), ());
                } else if package == "warpswitch" {
                    names.insert(package.to_owned(), ());
                }
            }
        }
    }
    names.into_keys().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests::tree;

    fn wrong_imports(path: &str, manifest: &str) -> Vec<String> {
        check(&tree(&[(path, manifest)])).into_iter().map(|f| f.item).collect()
    }

    #[test]
    fn imports_are_held_against_the_table() {
        let cases: &[(&str, &str, &[&str])] = &[
            ("crates/rules/Cargo.toml", "[dependencies]\nwarpswitch-wire.workspace = true", &[]),
            (
                "crates/wire/Cargo.toml",
                "[dependencies]\nwarpswitch-rules.workspace = true",
                &["rules"],
            ),
            (
                "crates/graph/Cargo.toml",
                "[dependencies]\nr = { package = \"warpswitch-rules\", path = \"../rules\" }",
                &["rules"],
            ),
            (
                "crates/io/Cargo.toml",
                "[target.'cfg(unix)'.dependencies]\nwarpswitch-classify.workspace = true",
                &["classify"],
            ),
            (
                "crates/scan/Cargo.toml",
                "[build-dependencies]\nwarpswitch-rules.workspace = true",
                &["rules"],
            ),
            (
                "crates/wire/Cargo.toml",
                "[dev-dependencies]\nwarpswitch-testkit.workspace = true",
                &[],
            ),
            (
                "crates/classify/Cargo.toml",
                "[dependencies]\nwarpswitch-testkit.workspace = true",
                &["testkit"],
            ),
            (
                "crates/elements-network/Cargo.toml",
                "[dependencies]\nwarpswitch-openflow = \"1\"\nwarpswitch-ids = \"1\"",
                &["ids"],
            ),
            (
                "crates/runtime/Cargo.toml",
                "[dependencies]\nwarpswitch-graph = \"1\"\nwarpswitch-gpu = \"1\"",
                &["gpu"],
            ),
            ("crates/kitchen/Cargo.toml", "", &["kitchen"]),
            ("fuzz/Cargo.toml", "[dependencies]\nwarpswitch-rules = \"1\"", &[]),
        ];
        for (path, manifest, wrong) in cases {
            assert_eq!(wrong_imports(path, manifest), *wrong, "{path}: {manifest}");
        }
    }

    #[test]
    fn a_manifest_that_does_not_parse_is_a_finding() {
        assert_eq!(check(&tree(&[("crates/wire/Cargo.toml", "[dependencies")])).len(), 1);
    }

    #[test]
    fn the_table_never_goes_up_and_names_only_rooms() {
        for from in ROOMS {
            for name in from.may_import {
                let to = room(name).unwrap_or_else(|| panic!("{name} has no row"));
                let down = to.layer < from.layer;
                // `flow` stands on `classify`, its neighbour.
                let neighbour = (from.name, to.name) == ("flow", "classify");
                assert!(down || neighbour, "{} imports {}", from.name, to.name);
            }
        }
    }
}
