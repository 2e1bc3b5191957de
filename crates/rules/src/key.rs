//! Flow keys: the packed fields of packets, as one block of words for a whole batch.

use crate::schema::Schema;

/// A borrowed run of keys of one schema, `words` each, back to back.
#[derive(Clone, Copy, Debug)]
pub struct KeyBatch<'a> {
    words: &'a [u32],
    words_per_key: usize,
}

impl<'a> KeyBatch<'a> {
    /// Views `words` as keys of `schema`.
    ///
    /// # Panics
    /// If `words` is not a whole number of keys: a caller bug, not an input.
    pub fn new(schema: &Schema, words: &'a [u32]) -> Self {
        assert!(words.len().is_multiple_of(schema.words), "keys of {} words", schema.words);
        Self { words, words_per_key: schema.words }
    }

    /// Number of keys.
    pub fn len(&self) -> usize {
        self.words.len() / self.words_per_key
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Words in each key.
    pub fn words_per_key(&self) -> usize {
        self.words_per_key
    }

    /// All words, key after key.
    pub fn words(&self) -> &'a [u32] {
        self.words
    }

    /// The words of key `idx`.
    ///
    /// # Panics
    /// If `idx` is out of range: a caller bug, not an input.
    #[inline]
    pub fn key(&self, idx: usize) -> &'a [u32] {
        &self.words[idx * self.words_per_key..][..self.words_per_key]
    }

    /// The keys `start..end`.
    ///
    /// # Panics
    /// If the range is not within the batch: a caller bug, not an input.
    pub fn slice(&self, start: usize, end: usize) -> KeyBatch<'a> {
        let words = &self.words[start * self.words_per_key..end * self.words_per_key];
        KeyBatch { words, words_per_key: self.words_per_key }
    }

    /// Every key in turn.
    pub fn iter(&self) -> std::slice::ChunksExact<'a, u32> {
        self.words.chunks_exact(self.words_per_key)
    }
}

/// An owned, growing run of keys of one schema: a trace in memory.
#[derive(Clone, Debug)]
pub struct KeyBuf {
    schema: &'static Schema,
    words: Vec<u32>,
}

impl KeyBuf {
    /// An empty run.
    pub fn new(schema: &'static Schema) -> Self {
        Self { schema, words: Vec::new() }
    }

    /// An empty run with room for `keys` keys.
    pub fn with_capacity(schema: &'static Schema, keys: usize) -> Self {
        Self { schema, words: Vec::with_capacity(keys * schema.words) }
    }

    /// The layout of the keys.
    pub fn schema(&self) -> &'static Schema {
        self.schema
    }

    /// Appends a key; `key` may be longer than the schema's, the rest is ignored.
    ///
    /// # Panics
    /// If `key` is shorter than the schema's keys: a caller bug, not an input.
    pub fn push(&mut self, key: &[u32]) {
        self.words.extend_from_slice(&key[..self.schema.words]);
    }

    /// Forgets the keys and keeps the memory.
    pub fn clear(&mut self) {
        self.words.clear();
    }

    /// Number of keys.
    pub fn len(&self) -> usize {
        self.words.len() / self.schema.words
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// All keys as a batch.
    pub fn as_batch(&self) -> KeyBatch<'_> {
        KeyBatch { words: &self.words, words_per_key: self.schema.words }
    }
}
