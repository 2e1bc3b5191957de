//! What all views share: reading and writing big-endian fields, and the constructors.

/// Reads two bytes at `at`.
#[inline]
pub(crate) fn get_u16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

/// Reads four bytes at `at`.
#[inline]
pub(crate) fn get_u32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(get_array(bytes, at))
}

/// Copies `N` bytes at `at`.
#[inline]
pub(crate) fn get_array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&bytes[at..at + N]);
    out
}

/// Writes `field` at `at`.
#[inline]
pub(crate) fn put(bytes: &mut [u8], at: usize, field: &[u8]) {
    bytes[at..at + field.len()].copy_from_slice(field);
}

/// Declares a view over bytes and its constructors; the protocol adds `check` and the accessors.
macro_rules! view {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        ///
        /// Accessors panic on bytes that did not pass `check`: use `new_checked` on bytes from
        /// outside.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name<T> {
            bytes: T,
        }

        impl<T: AsRef<[u8]>> $name<T> {
            /// Views `bytes` without looking at them.
            #[inline]
            pub const fn new_unchecked(bytes: T) -> Self {
                Self { bytes }
            }

            /// Views `bytes` after a check of all lengths that accessors depend on.
            ///
            /// # Errors
            /// Those of `check`.
            #[inline]
            pub fn new_checked(bytes: T) -> Result<Self, $crate::ParseError> {
                let view = Self { bytes };
                view.check()?;
                Ok(view)
            }

            /// The bytes that are viewed.
            pub fn into_inner(self) -> T {
                self.bytes
            }

            #[inline]
            fn raw(&self) -> &[u8] {
                self.bytes.as_ref()
            }
        }
    };
}
pub(crate) use view;

/// Fails with `error` if `bytes` is shorter than `bytes_min`.
#[inline]
pub(crate) fn need(
    bytes: &[u8],
    bytes_min: usize,
    error: crate::ParseError,
) -> Result<(), crate::ParseError> {
    if bytes.len() < bytes_min { Err(error) } else { Ok(()) }
}
