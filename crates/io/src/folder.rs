//! Which folder is missing where a file cannot be opened or made.

use std::io;
use std::path::Path;

/// `error`, met at `path`, in words that name the folder that is not there, or is none, or that
/// say that `path` is one. Any other error stays as it is: the file itself is missing, say.
pub fn name_folder(path: &Path, error: io::Error) -> io::Error {
    let kind = error.kind();
    match kind {
        io::ErrorKind::IsADirectory => return kind.into(),
        // The last one where folders are created.
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => {}
        _ => return error,
    }
    let folders = path.ancestors().skip(1).filter(|folder| !folder.as_os_str().is_empty());
    // The outermost one: what is within it is missing for that reason alone.
    let first = folders.filter(|folder| !folder.is_dir()).last();
    match first.map(|folder| (folder.display(), folder.exists())) {
        Some((folder, true)) => io::Error::new(kind, format!("'{folder}' is not a folder")),
        Some((folder, false)) => io::Error::new(kind, format!("there is no folder '{folder}'")),
        None => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_outermost_folder_is_named() {
        let here = tempfile::tempdir().expect("a temporary folder");
        let file = here.path().join("file");
        std::fs::write(&file, "").expect("it can be written");
        let told = |path: &Path| {
            let error = std::fs::File::open(path).expect_err("it is not there");
            name_folder(path, error).to_string()
        };
        let (missing, none) = (here.path().join("a"), file.display());
        assert_eq!(
            told(&missing.join("b/c")),
            format!("there is no folder '{}'", missing.display())
        );
        assert_eq!(told(&file.join("b/c")), format!("'{none}' is not a folder"));
        for path in [missing.as_path(), Path::new("no-such-file")] {
            assert!(told(path).starts_with("No such file"), "{}", told(path));
        }
        let folder = std::fs::read(here.path()).expect_err("it is a folder");
        assert_eq!(name_folder(here.path(), folder).to_string(), "is a directory");
        let exists = std::fs::create_dir_all(&file).expect_err("it is a file");
        let message = name_folder(&file.join("a"), exists).to_string();
        assert_eq!(message, format!("'{none}' is not a folder"));
        let denied = io::Error::from(io::ErrorKind::PermissionDenied);
        let kept = name_folder(&missing.join("b"), denied);
        assert_eq!(kept.kind(), io::ErrorKind::PermissionDenied);
    }
}
