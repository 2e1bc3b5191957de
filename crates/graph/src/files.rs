//! Files that elements read and write: none is written that another element reads or writes.
//!
//! Elements note them while they are configured, see [`Args::note_input`] and
//! [`Args::note_output`]; they are compared before any element opens one.
//!
//! [`Args::note_input`]: crate::language::args::Args::note_input
//! [`Args::note_output`]: crate::language::args::Args::note_output

use std::fs;
use std::path::{Path, PathBuf};

use crate::language::args::{ArgsError, NotedFile};
use crate::language::{Diagnostics, FlatGraph};

/// Links to links that are followed, as far as systems do.
const LINKS_MAX: usize = 40;

/// Which file a name leads to, by whatever links. It need not be there yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileId(Identity);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Identity {
    /// Device and number of one that is there: hard links have the same.
    #[cfg(unix)]
    Number(u64, u64),
    Path(PathBuf),
}

impl FileId {
    /// That of `name`; none for the standard streams, `-`, and for what is no regular file: a
    /// device, a pipe, a folder.
    pub fn of(name: impl AsRef<Path>) -> Option<Self> {
        let name = name.as_ref();
        if name.as_os_str().is_empty() || name.as_os_str() == "-" {
            return None;
        }
        let Ok(metadata) = fs::metadata(name) else {
            return Some(Self(Identity::Path(to_be_made(name))));
        };
        #[cfg(unix)]
        let identity = {
            use std::os::unix::fs::MetadataExt;
            Identity::Number(metadata.dev(), metadata.ino())
        };
        #[cfg(not(unix))]
        let identity = Identity::Path(name.canonicalize().unwrap_or_else(|_| name.to_owned()));
        metadata.is_file().then_some(Self(identity))
    }
}

/// Where a file will be that is not there yet: a link may lead to it.
fn to_be_made(name: &Path) -> PathBuf {
    let mut name = name.to_owned();
    for _ in 0..LINKS_MAX {
        let folder = name.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
        match fs::read_link(&name) {
            Ok(target) => name = folder.join(target),
            Err(_) => return name.file_name().map_or(folder.clone(), |file| folder.join(file)),
        }
    }
    name
}

/// Reports every element that would write a file which is another one's, or its own input. `files`
/// has what each noted, in the order of the text.
pub(crate) fn compare(files: &[(usize, NotedFile)], graph: &FlatGraph, errors: &mut Diagnostics) {
    if !files.iter().any(|(_, file)| file.is_written) {
        return;
    }
    let ids: Vec<_> = files.iter().map(|(_, file)| FileId::of(&file.name)).collect();
    for (at, (element, file)) in files.iter().enumerate() {
        // Of two that write one file the later one is told.
        let is_other = |&other: &usize| {
            other != at && ids[other] == ids[at] && (!files[other].1.is_written || other < at)
        };
        if !file.is_written || ids[at].is_none() {
            continue;
        }
        let Some(other) = (0..files.len()).find(is_other) else { continue };
        let (by, other) = (files[other].0, &files[other].1);
        let who = match by == *element {
            true => format!("{} names", other.keyword),
            false if other.is_written => format!("'{}' writes", graph.elements[by].name),
            false => format!("'{}' reads", graph.elements[by].name),
        };
        let name = match other.name == file.name {
            true => String::new(),
            false => format!(", as {}", other.name),
        };
        let message = match other.is_written {
            true => format!("{who} {}, too{name}: use a separate file for each", file.name),
            false => {
                format!("would overwrite {}, which {who}{name}: use a separate file", file.name)
            }
        };
        let wrong = ArgsError {
            messages: vec![format!("{}: {message}", file.keyword)],
            args: vec![file.arg],
            meant: Default::default(),
            help: Vec::new(),
        };
        errors.push(graph.argument_error(*element, &wrong));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(unix)]
    fn all_names_of_a_file_are_one() {
        use std::os::unix::fs::symlink;
        let folder = std::env::temp_dir().join(format!("warpswitch-files-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(folder.join("sub")).expect("it can be made");
        let name = |name: &str| folder.join(name);
        let id = |file: &str| FileId::of(name(file));
        for file in ["a", "b"] {
            fs::write(name(file), "").expect("it can be written");
        }
        fs::hard_link(name("a"), name("hard")).expect("it can be linked");
        for (target, link) in [("a", "soft"), ("new", "soft-new"), ("soft-new", "sub/../twice")] {
            symlink(target, name(link)).expect("it can be linked");
        }
        symlink(name("round"), name("round")).expect("it can be linked");
        for same in ["./a", "sub/../a", "hard", "soft"] {
            assert_eq!(id(same), id("a"), "{same}");
        }
        for same in ["./new", "sub/../new", "soft-new", "twice"] {
            assert_eq!(id(same), id("new"), "{same}");
        }
        let different = ["a", "b", "new", "newer", "sub/new", "round", "none/new"];
        for (at, one) in different.iter().enumerate() {
            assert!(different[..at].iter().all(|other| id(other) != id(one)), "{one}");
            assert!(id(one).is_some(), "{one}");
        }
        assert_eq!(["", "-", "/dev/null"].map(FileId::of), [None, None, None]);
        assert_eq!(id("sub"), None);
        fs::remove_dir_all(&folder).expect("it can be removed");
    }
}
