//! MD5 as a fingerprint of payloads; not for security.
//!
//! # Source
//! R. Rivest, "The MD5 Message-Digest Algorithm", RFC 1321, 1992.

/// How far each step of a round turns, in bits.
const TURNS: [[u32; 4]; 4] = [[7, 12, 17, 22], [5, 9, 14, 20], [4, 11, 16, 23], [6, 10, 15, 21]];

/// The digest of `bytes`.
pub(crate) fn digest(bytes: &[u8]) -> [u8; 16] {
    let mut state = [0x6745_2301u32, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];
    let mut blocks = bytes.chunks_exact(64);
    for block in &mut blocks {
        mix(&mut state, block);
    }
    let rest = blocks.remainder();
    let mut last = [0u8; 128];
    last[..rest.len()].copy_from_slice(rest);
    last[rest.len()] = 0x80;
    let end = if rest.len() < 56 { 64 } else { 128 };
    last[end - 8..end].copy_from_slice(&(bytes.len() as u64 * 8).to_le_bytes());
    for block in last[..end].chunks_exact(64) {
        mix(&mut state, block);
    }
    let mut out = [0; 16];
    for (part, word) in out.chunks_exact_mut(4).zip(state) {
        part.copy_from_slice(&word.to_le_bytes());
    }
    out
}

/// Mixes a block of 64 bytes into `state`.
fn mix(state: &mut [u32; 4], block: &[u8]) {
    let mut words = [0u32; 16];
    for (word, bytes) in words.iter_mut().zip(block.as_chunks::<4>().0) {
        *word = u32::from_le_bytes(*bytes);
    }
    let [mut a, mut b, mut c, mut d] = *state;
    for step in 0..64 {
        let (mixed, word) = match step / 16 {
            0 => (b & c | !b & d, step),
            1 => (b & d | c & !d, (5 * step + 1) % 16),
            2 => (b ^ c ^ d, (3 * step + 5) % 16),
            _ => (c ^ (b | !d), 7 * step % 16),
        };
        // The RFC's table: the sine's digits.
        let constant = ((step as f64 + 1.0).sin().abs() * 4_294_967_296.0) as u32;
        let sum = a.wrapping_add(mixed).wrapping_add(words[word]).wrapping_add(constant);
        let turned = sum.rotate_left(TURNS[step / 16][step % 4]);
        (a, b, c, d) = (d, b.wrapping_add(turned), b, c);
    }
    for (old, new) in state.iter_mut().zip([a, b, c, d]) {
        *old = old.wrapping_add(new);
    }
}

/// The letters of [`text`], for six bits each.
const LETTERS: &[u8; 64] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@";

/// A digest in 22 letters: six bits each, lowest bits first.
pub(crate) fn text(digest: [u8; 16]) -> String {
    let bits = u128::from_le_bytes(digest);
    (0..22).map(|at| LETTERS[(bits >> (6 * at) & 63) as usize] as char).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_those_of_the_standard() {
        let hex = |bytes: &[u8]| -> String {
            digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
        };
        assert_eq!(hex(b""), "d41d8cd98f00b204e9800998ecf8427e");
        assert_eq!(hex(b"abc"), "900150983cd24fb0d6963f7d28e17f72");
        let digits = b"1234567890".repeat(8);
        assert_eq!(hex(&digits), "57edf4a22be3c955ac49da2e2107b67a");
        assert_eq!(hex(&digits[..62]).len(), 32);
        assert_eq!(text([0xff; 16]), "@".repeat(21) + "d");
        assert_eq!(text([0; 16]), "a".repeat(22));
    }
}
