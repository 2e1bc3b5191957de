//! Reading big-endian fields with length checks, and appending them.

use crate::ErrorCode;

/// Reads fields from the front of a slice; a missing byte is the error that it was made with.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    short: ErrorCode,
}

impl<'a> Reader<'a> {
    /// A reader whose error for missing or surplus bytes is `short`.
    pub fn new(bytes: &'a [u8], short: ErrorCode) -> Self {
        Self { bytes, short }
    }

    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The bytes not read yet.
    pub fn rest(self) -> &'a [u8] {
        self.bytes
    }

    pub fn take(&mut self, len: usize) -> Result<&'a [u8], ErrorCode> {
        let (taken, rest) = self.bytes.split_at_checked(len).ok_or(self.short)?;
        self.bytes = rest;
        Ok(taken)
    }

    pub fn skip(&mut self, len: usize) -> Result<(), ErrorCode> {
        self.take(len).map(drop)
    }

    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], ErrorCode> {
        let (taken, rest) = self.bytes.split_first_chunk().ok_or(self.short)?;
        self.bytes = rest;
        Ok(*taken)
    }

    pub fn u8(&mut self) -> Result<u8, ErrorCode> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub fn u16(&mut self) -> Result<u16, ErrorCode> {
        self.array().map(u16::from_be_bytes)
    }

    pub fn u32(&mut self) -> Result<u32, ErrorCode> {
        self.array().map(u32::from_be_bytes)
    }

    pub fn u64(&mut self) -> Result<u64, ErrorCode> {
        self.array().map(u64::from_be_bytes)
    }

    /// Splits off one entry of a list. Its length stands in two bytes `at` bytes behind its start
    /// and must be at least `min`, a multiple of `align`, and inside the list.
    pub fn entry(&mut self, at: usize, min: usize, align: usize) -> Result<Self, ErrorCode> {
        let mut field = *self;
        field.skip(at)?;
        let len = usize::from(field.u16()?);
        if len < min || len % align != 0 {
            return Err(self.short);
        }
        Ok(Self { bytes: self.take(len)?, short: self.short })
    }

    /// Text in a field of fixed length, up to its first zero byte.
    pub fn text(&mut self, len: usize) -> Result<String, ErrorCode> {
        let bytes = self.take(len)?;
        let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(len);
        Ok(String::from_utf8_lossy(&bytes[..end]).into_owned())
    }

    /// An error unless everything was read.
    pub fn finish(self) -> Result<(), ErrorCode> {
        if self.is_empty() { Ok(()) } else { Err(self.short) }
    }
}

/// Appends big-endian fields.
pub(crate) trait Append {
    fn u8(&mut self, value: u8) -> &mut Self;
    fn u16(&mut self, value: u16) -> &mut Self;
    fn u32(&mut self, value: u32) -> &mut Self;
    fn u64(&mut self, value: u64) -> &mut Self;
    fn bytes(&mut self, bytes: &[u8]) -> &mut Self;
    fn zeros(&mut self, len: usize) -> &mut Self;
    /// Text in a field of `len` bytes that ends with a zero byte.
    fn text(&mut self, text: &str, len: usize) -> &mut Self;
    /// Zeros up to a multiple of eight bytes behind `start`.
    fn pad(&mut self, start: usize) -> &mut Self;
    /// Writes the number of bytes behind `start` at `at`.
    fn length_at(&mut self, at: usize, start: usize) -> &mut Self;
    /// Writes it two bytes behind `start`, where most structures have their length.
    fn length(&mut self, start: usize) -> &mut Self {
        self.length_at(start + 2, start)
    }
}

impl Append for Vec<u8> {
    fn u8(&mut self, value: u8) -> &mut Self {
        self.push(value);
        self
    }

    fn u16(&mut self, value: u16) -> &mut Self {
        self.bytes(&value.to_be_bytes())
    }

    fn u32(&mut self, value: u32) -> &mut Self {
        self.bytes(&value.to_be_bytes())
    }

    fn u64(&mut self, value: u64) -> &mut Self {
        self.bytes(&value.to_be_bytes())
    }

    fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.extend_from_slice(bytes);
        self
    }

    fn zeros(&mut self, len: usize) -> &mut Self {
        self.resize(self.len() + len, 0);
        self
    }

    fn text(&mut self, text: &str, len: usize) -> &mut Self {
        let end = (0..len).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
        let text = &text.as_bytes()[..end.min(text.len())];
        self.bytes(text).zeros(len - text.len())
    }

    fn pad(&mut self, start: usize) -> &mut Self {
        let len = self.len() - start;
        self.zeros(len.next_multiple_of(8) - len)
    }

    fn length_at(&mut self, at: usize, start: usize) -> &mut Self {
        let len = u16::try_from(self.len() - start).unwrap_or(u16::MAX);
        self[at..at + 2].copy_from_slice(&len.to_be_bytes());
        self
    }
}
