//! Compiled kernels on disk.
//!
//! A file is named by a hash of everything that decides the machine code, and holds that text
//! whole: two texts with one hash cannot be mixed up. It is written beside its place and renamed
//! into it, so that programs that start together see all of it or nothing; a checksum tells what a
//! crash or a full disk left. The folder is bounded: the oldest files go first.
//!
//! Every failure here means "compile again": a cache is never a reason not to run.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process;

/// First bytes of a file; the number is the format's.
const MAGIC: &[u8; 8] = b"wskernl1";
/// Most files that a cache keeps.
const FILES_MAX: usize = 256;
/// Most bytes of a file that is read back: kernels are far smaller.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// A folder of compiled kernels.
#[derive(Clone, Debug)]
pub struct KernelCache {
    folder: PathBuf,
    files_max: usize,
}

impl KernelCache {
    /// The cache in `folder`, which is made when it is first needed.
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into(), files_max: FILES_MAX }
    }

    /// What was put under `key`, if it is still there, whole.
    pub fn get(&self, key: &str) -> Option<Vec<u8>> {
        let path = self.path(key);
        if fs::metadata(&path).ok()?.len() > FILE_BYTES_MAX {
            return None;
        }
        let bytes = fs::read(&path).ok()?;
        let rest = bytes.strip_prefix(MAGIC)?;
        let (key_len, rest) = rest.split_first_chunk::<8>()?;
        let key_len = usize::try_from(u64::from_le_bytes(*key_len)).ok()?;
        let (stored, rest) = rest.split_at_checked(key_len)?;
        let (sum, code) = rest.split_first_chunk::<8>()?;
        let whole = stored == key.as_bytes() && u64::from_le_bytes(*sum) == fnv(code);
        whole.then(|| code.to_vec())
    }

    /// Keeps `code` under `key`, if that can be done.
    pub fn put(&self, key: &str, code: &[u8]) {
        if self.write(key, code).is_ok() {
            self.drop_oldest();
        }
    }

    fn write(&self, key: &str, code: &[u8]) -> io::Result<()> {
        fs::create_dir_all(&self.folder)?;
        let path = self.path(key);
        let draft = path.with_extension(format!("{}.part", process::id()));
        let mut bytes = MAGIC.to_vec();
        bytes.extend((key.len() as u64).to_le_bytes());
        bytes.extend(key.as_bytes());
        bytes.extend(fnv(code).to_le_bytes());
        bytes.extend(code);
        let written = fs::write(&draft, bytes).and_then(|()| fs::rename(&draft, &path));
        if written.is_err() {
            _ = fs::remove_file(&draft);
        }
        written
    }

    fn path(&self, key: &str) -> PathBuf {
        self.folder.join(format!("{:016x}.kernel", fnv(key.as_bytes())))
    }

    fn drop_oldest(&self) {
        let Ok(entries) = fs::read_dir(&self.folder) else { return };
        let dated = |path: PathBuf| {
            let date = fs::metadata(&path).and_then(|meta| meta.modified()).ok()?;
            is_ours(&path).then_some((date, path))
        };
        let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
        let mut files: Vec<_> = paths.filter_map(dated).collect();
        files.sort();
        let excess = files.len().saturating_sub(self.files_max);
        for (_, path) in &files[..excess] {
            _ = fs::remove_file(path);
        }
    }
}

/// Kernels, and drafts that a crash left behind.
fn is_ours(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "kernel" || ending == "part")
}

/// 64-bit FNV-1a (RFC 9923).
fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_put_is_found_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let cache = KernelCache::at(folder.path().join("new"));
        assert_eq!(cache.get("a"), None);
        cache.put("a", b"machine code");
        cache.put("b", b"");
        assert_eq!(cache.get("a").as_deref(), Some(&b"machine code"[..]));
        assert_eq!(cache.get("b").as_deref(), Some(&b""[..]));
        let path = cache.path("a");
        let whole = fs::read(&path).unwrap();
        for len in 0..whole.len() {
            fs::write(&path, &whole[..len]).unwrap();
            assert_eq!(cache.get("a"), None, "{len} bytes");
        }
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x10;
            fs::write(&path, bytes).unwrap();
            assert_eq!(cache.get("a"), None, "byte {at}");
        }
        // Another text with the same hash.
        fs::copy(cache.path("b"), &path).unwrap();
        assert_eq!(cache.get("a"), None);
    }

    #[test]
    fn a_cache_is_bounded_and_a_folder_that_cannot_be_is_no_error() {
        let folder = tempfile::tempdir().unwrap();
        let cache = KernelCache { files_max: 3, ..KernelCache::at(folder.path()) };
        for n in 0..10 {
            cache.put(&n.to_string(), &[n]);
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3);
        fs::write(folder.path().join("file"), "").unwrap();
        let impossible = KernelCache::at(folder.path().join("file"));
        impossible.put("a", b"code");
        assert_eq!(impossible.get("a"), None);
    }
}
