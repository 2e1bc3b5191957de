//! Files: what is there before, while and after a capture is written, and inputs that misbehave.

use std::fs;
use std::io::{self, Read};

use super::{expected, samples, write_all};
use crate::{CaptureFormat, CaptureReader, CaptureWriter, IoErrorKind};

#[test]
fn a_file_appears_when_it_is_whole() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pcap");
    let count = || fs::read_dir(folder.path()).unwrap().count();

    let mut writer = CaptureWriter::create(&path, CaptureFormat::Pcap, false).unwrap();
    writer.write_frame(1, b"frame").unwrap();
    assert!(!path.exists());
    drop(writer);
    assert_eq!(count(), 0, "an unfinished capture leaves nothing");

    fs::write(&path, b"precious").unwrap();
    let mut writer = CaptureWriter::create(&path, CaptureFormat::PcapNg, true).unwrap();
    writer.write_frame(1, b"frame").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"precious");
    writer.finish().unwrap();
    assert_eq!(count(), 1, "nothing but the capture is left");
    let mut reader = CaptureReader::open(&path).unwrap();
    assert_eq!(reader.format(), CaptureFormat::PcapNg);
    assert_eq!(reader.next_frame().unwrap().unwrap().data, b"frame");
    assert_eq!(reader.next_frame().unwrap(), None);
}

#[test]
fn what_cannot_be_opened_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let nowhere = folder.path().join("no").join("a.pcap");
    let error = CaptureReader::open(&nowhere).unwrap_err();
    assert_eq!(error.kind(), IoErrorKind::System);
    assert!(error.to_string().contains("cannot open"), "{error}");
    let error = CaptureWriter::create(&nowhere, CaptureFormat::Pcap, false).unwrap_err();
    assert_eq!(error.kind(), IoErrorKind::System);
    assert!(error.to_string().contains("cannot create"), "{error}");
    let error = CaptureReader::open(folder.path()).unwrap_err();
    assert_eq!(error.kind(), IoErrorKind::System, "a folder: {error}");
}

#[cfg(unix)]
#[test]
fn links_devices_and_permissions_are_kept() {
    use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};

    let folder = tempfile::tempdir().unwrap();
    let (target, link) = (folder.path().join("target"), folder.path().join("link"));
    fs::write(&target, b"old").unwrap();
    fs::set_permissions(&target, fs::Permissions::from_mode(0o640)).unwrap();
    symlink(&target, &link).unwrap();
    CaptureWriter::create(&link, CaptureFormat::Pcap, false).unwrap().finish().unwrap();
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(fs::metadata(&target).unwrap().len(), 24);
    assert_eq!(fs::metadata(&target).unwrap().permissions().mode() & 0o777, 0o640);

    CaptureWriter::create("/dev/null", CaptureFormat::Pcap, false).unwrap().finish().unwrap();
    assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device());
}

/// Gives one byte at a time and is interrupted before each; fails at the end if told to.
struct Slow {
    bytes: io::Cursor<Vec<u8>>,
    is_ready: bool,
    fails: bool,
}

impl Read for Slow {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.is_ready = !self.is_ready;
        if self.is_ready {
            return Err(io::ErrorKind::Interrupted.into());
        }
        match self.bytes.read(&mut out[..1])? {
            0 if self.fails => Err(io::Error::other("the disk is gone")),
            read => Ok(read),
        }
    }
}

#[test]
fn slow_interrupted_and_failing_inputs() {
    for fails in [false, true] {
        let bytes = io::Cursor::new(write_all(&samples(), CaptureFormat::Pcap, false));
        let mut reader =
            CaptureReader::from_read("slow", Slow { bytes, is_ready: false, fails }).unwrap();
        for frame in expected(&samples()) {
            assert_eq!(reader.next_frame().unwrap().unwrap().data, frame.data);
        }
        if fails {
            let error = reader.next_frame().unwrap_err();
            assert_eq!(error.kind(), IoErrorKind::System);
            assert_eq!(error.to_string(), "slow: cannot read: the disk is gone");
        } else {
            assert_eq!(reader.next_frame().unwrap(), None);
        }
    }
}

/// Takes so many bytes and no more.
struct Full(usize);

impl io::Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 = self.0.checked_sub(bytes.len()).ok_or(io::ErrorKind::StorageFull)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_disk_is_told_at_the_latest_by_finish() {
    for gzip in [false, true] {
        let mut writer = CaptureWriter::from_write(Full(10), CaptureFormat::Pcap, gzip).unwrap();
        let written = writer.write_frame(0, &[1; 60]);
        let outcome = written.and_then(|()| writer.finish());
        assert_eq!(outcome.unwrap_err().kind(), IoErrorKind::System);
    }
}
