//! Captures, written: frames of one link type with nanosecond time stamps.
//!
//! A file appears under its name only once it is whole: it is written beside it and renamed by
//! [`CaptureWriter::finish`]. A writer that is dropped before leaves nothing behind. What is no
//! regular file (a pipe, a device) is written as it is.

use std::fmt;
use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use flate2::Compression;
use flate2::write::GzEncoder;
use tempfile::{NamedTempFile, TempPath};

use crate::error::IoError;
use crate::folder::name_folder;
use crate::reader::FRAME_BYTES_MAX;

/// A format of captures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CaptureFormat {
    /// The classic format; written with nanoseconds.
    Pcap,
    /// The block format.
    PcapNg,
}

impl CaptureFormat {
    /// The name that commands use.
    pub fn name(self) -> &'static str {
        match self {
            CaptureFormat::Pcap => "pcap",
            CaptureFormat::PcapNg => "pcapng",
        }
    }
}

impl fmt::Display for CaptureFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that is no capture format's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownFormat(String);

impl fmt::Display for UnknownFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown capture format '{}'; expected pcap or pcapng", self.0)
    }
}

impl std::error::Error for UnknownFormat {}

impl FromStr for CaptureFormat {
    type Err = UnknownFormat;

    fn from_str(name: &str) -> Result<Self, UnknownFormat> {
        match name {
            "pcap" => Ok(CaptureFormat::Pcap),
            "pcapng" => Ok(CaptureFormat::PcapNg),
            _ => Err(UnknownFormat(name.to_owned())),
        }
    }
}

/// The link type of Ethernet.
const LINK_ETHERNET: u32 = 1;

/// How a capture is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CaptureOptions {
    /// The format.
    pub format: CaptureFormat,
    /// Whether it is gzip'd.
    pub gzip: bool,
    /// How frames start, as capture files number it: 1 is Ethernet, 101 an IP header.
    pub link_type: u32,
    /// The most bytes of a frame that are captured, as the capture tells: frames are not cut.
    pub snap_bytes: u32,
}

impl CaptureOptions {
    /// Whole Ethernet frames.
    pub fn new(format: CaptureFormat, gzip: bool) -> Self {
        Self { format, gzip, link_type: LINK_ETHERNET, snap_bytes: FRAME_BYTES_MAX as u32 }
    }

    /// The file header of pcap: nanoseconds, version 2.4, snap length, link type.
    fn pcap_header(self) -> [u32; 6] {
        [0xa1b2_3c4d, 4 << 16 | 2, 0, 0, self.snap_bytes, self.link_type]
    }

    /// A section header of pcapng, then an interface with the option that its time is in 10^-9 s.
    #[rustfmt::skip]
    fn pcapng_header(self) -> [u32; 15] {
        [
            0x0a0d_0d0a, 28, 0x1a2b_3c4d, 1, u32::MAX, u32::MAX, 28,
            1, 32, self.link_type, self.snap_bytes, 1 << 16 | 9, 9, 0, 32,
        ]
    }
}

/// Bytes are gathered in blocks of this size.
const BUFFER_BYTES: usize = 256 << 10;

/// What bytes go through.
enum Sink<'w> {
    Plain(BufWriter<Box<dyn Write + Send + 'w>>),
    Gzip(GzEncoder<BufWriter<Box<dyn Write + Send + 'w>>>),
}

impl<'w> Sink<'w> {
    fn new(out: Box<dyn Write + Send + 'w>, gzip: bool) -> Self {
        let out = BufWriter::with_capacity(BUFFER_BYTES, out);
        // The encoder writes no time stamp: the same frames give the same bytes.
        if gzip {
            Sink::Gzip(GzEncoder::new(out, Compression::default()))
        } else {
            Sink::Plain(out)
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Sink::Plain(out) => out.write_all(bytes),
            Sink::Gzip(out) => out.write_all(bytes),
        }
    }

    fn finish(self) -> io::Result<()> {
        match self {
            Sink::Plain(mut out) => out.flush(),
            Sink::Gzip(out) => out.finish()?.flush(),
        }
    }
}

/// Writes a capture.
///
/// [`CaptureWriter::finish`] must be called: without it, nothing is there.
pub struct CaptureWriter<'w> {
    name: String,
    format: CaptureFormat,
    sink: Sink<'w>,
    /// What the file header says, as long as that is not written.
    header: Option<CaptureOptions>,
    /// A file that is not under its name yet, and that name.
    rename: Option<(TempPath, PathBuf)>,
}

impl fmt::Debug for CaptureWriter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = f.debug_struct("CaptureWriter");
        fields.field("name", &self.name).field("format", &self.format).finish()
    }
}

impl CaptureWriter<'static> {
    /// Starts a capture file; `-` is the standard output.
    ///
    /// # Errors
    /// [`IoErrorKind::System`](crate::IoErrorKind::System).
    pub fn create(
        path: impl AsRef<Path>,
        format: CaptureFormat,
        gzip: bool,
    ) -> Result<Self, IoError> {
        Self::create_as(path, CaptureOptions::new(format, gzip))
    }

    /// The same, in any way.
    ///
    /// # Errors
    /// As [`CaptureWriter::create`].
    pub fn create_as(path: impl AsRef<Path>, options: CaptureOptions) -> Result<Self, IoError> {
        let path = path.as_ref();
        if path.as_os_str() == "-" {
            return Self::start("standard output", Box::new(io::stdout()), options, None);
        }
        let name = path.display().to_string();
        let fail = |error| IoError::system(&name, "create", name_folder(path, error));
        // A link stays a link: the file that it leads to is replaced.
        let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let is_special = fs::metadata(&target).is_ok_and(|metadata| !metadata.is_file());
        if is_special {
            let file = fs::OpenOptions::new().write(true).open(&target).map_err(fail)?;
            return Self::start(&name, Box::new(file), options, None);
        }
        let (file, temporary) = temporary_beside(&target).map_err(fail)?.into_parts();
        Self::start(&name, Box::new(file), options, Some((temporary, target)))
    }
}

impl<'w> CaptureWriter<'w> {
    /// Starts a capture in `out`. No buffering is needed.
    ///
    /// # Errors
    /// [`IoErrorKind::System`](crate::IoErrorKind::System).
    pub fn from_write(
        out: impl Write + Send + 'w,
        format: CaptureFormat,
        gzip: bool,
    ) -> Result<Self, IoError> {
        Self::from_write_as(out, CaptureOptions::new(format, gzip))
    }

    /// The same, in any way.
    ///
    /// # Errors
    /// [`IoErrorKind::System`](crate::IoErrorKind::System).
    pub fn from_write_as(
        out: impl Write + Send + 'w,
        options: CaptureOptions,
    ) -> Result<Self, IoError> {
        Self::start("capture", Box::new(out), options, None)
    }

    fn start(
        name: &str,
        out: Box<dyn Write + Send + 'w>,
        options: CaptureOptions,
        rename: Option<(TempPath, PathBuf)>,
    ) -> Result<Self, IoError> {
        let CaptureOptions { format, gzip, .. } = options;
        let (sink, header) = (Sink::new(out, gzip), Some(options));
        Ok(Self { name: name.to_owned(), format, sink, header, rename })
    }

    /// Says how frames start, as [`CaptureOptions::link_type`] does. Only before the first frame:
    /// tells whether it was.
    pub fn set_link_type(&mut self, link_type: u32) -> bool {
        self.header.as_mut().map(|options| options.link_type = link_type).is_some()
    }

    /// Writes the file header, if that was not done.
    fn begin(&mut self) -> Result<(), IoError> {
        match self.header.take() {
            None => Ok(()),
            Some(options) if self.format == CaptureFormat::Pcap => {
                self.write_words(options.pcap_header())
            }
            Some(options) => self.write_words(options.pcapng_header()),
        }
    }

    /// Appends a frame that was captured as a whole.
    ///
    /// # Errors
    /// As [`CaptureWriter::write_cut_frame`].
    pub fn write_frame(&mut self, timestamp_ns: u64, data: &[u8]) -> Result<(), IoError> {
        self.write_cut_frame(timestamp_ns, data, data.len())
    }

    /// Appends the first bytes of a frame that had `original_bytes` on the wire.
    ///
    /// # Errors
    /// [`IoErrorKind::System`](crate::IoErrorKind::System);
    /// [`IoErrorKind::Unwritable`](crate::IoErrorKind::Unwritable) for a frame of more than
    /// [`FRAME_BYTES_MAX`] bytes, or a time past 2106 in a pcap file. Nothing of the frame is
    /// written then.
    pub fn write_cut_frame(
        &mut self,
        timestamp_ns: u64,
        data: &[u8],
        original_bytes: usize,
    ) -> Result<(), IoError> {
        if data.len() > FRAME_BYTES_MAX {
            let bytes = data.len();
            let message = format!("frame of {bytes} bytes; expected at most {FRAME_BYTES_MAX}");
            return Err(IoError::unwritable(&self.name, message));
        }
        self.begin()?;
        let captured = data.len() as u32;
        let original = u32::try_from(original_bytes.max(data.len())).unwrap_or(u32::MAX);
        match self.format {
            CaptureFormat::Pcap => {
                let seconds = timestamp_ns / 1_000_000_000;
                let Ok(seconds) = u32::try_from(seconds) else {
                    let message =
                        format!("a time stamp of {seconds} s; pcap has 32 bits: use pcapng");
                    return Err(IoError::unwritable(&self.name, message));
                };
                let fraction = (timestamp_ns % 1_000_000_000) as u32;
                self.write_words([seconds, fraction, captured, original])?;
                self.write(data)
            }
            CaptureFormat::PcapNg => {
                let padding = data.len().wrapping_neg() % 4;
                let block = (32 + data.len() + padding) as u32;
                let (high, low) = ((timestamp_ns >> 32) as u32, timestamp_ns as u32);
                self.write_words([6, block, 0, high, low, captured, original])?;
                self.write(data)?;
                self.write(&[0; 3][..padding])?;
                self.write(&block.to_le_bytes())
            }
        }
    }

    /// Ends the capture and gives the file its name.
    ///
    /// # Errors
    /// [`IoErrorKind::System`](crate::IoErrorKind::System); a file that was there before is
    /// untouched then.
    pub fn finish(mut self) -> Result<(), IoError> {
        self.begin()?;
        let Self { name, sink, rename, .. } = self;
        sink.finish().map_err(|error| IoError::system(&name, "write", error))?;
        if let Some((temporary, target)) = rename {
            let renamed = temporary.persist(&target);
            renamed.map_err(|error| IoError::system(&name, "rename into place", error.error))?;
        }
        Ok(())
    }

    /// Writes little-endian words.
    fn write_words<const LEN: usize>(&mut self, words: [u32; LEN]) -> Result<(), IoError> {
        let bytes = words.map(u32::to_le_bytes);
        self.write(bytes.as_flattened())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), IoError> {
        self.sink.write(bytes).map_err(|error| IoError::system(&self.name, "write", error))
    }
}

/// A new file in the folder of `target`, with the permissions that new files get.
fn temporary_beside(target: &Path) -> io::Result<NamedTempFile> {
    let folder = match target.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let mut prefix = std::ffi::OsString::from(".");
    prefix.push(target.file_name().unwrap_or_default());
    let mut builder = tempfile::Builder::new();
    builder.prefix(&prefix).suffix(".part");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        // The process's mask takes away what it takes away from any new file.
        let kept = fs::metadata(target).map(|metadata| metadata.permissions());
        builder.permissions(kept.unwrap_or_else(|_| fs::Permissions::from_mode(0o666)));
    }
    builder.tempfile_in(folder)
}
