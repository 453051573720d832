//! Choices from the bytes of a fuzzer.
//!
//! The bytes are read from the front. Past their end every choice is the first one, so any bytes are valid, and a small
//! change of the bytes is a small change of their meaning.

/// An input that is being read.
#[derive(Clone, Debug)]
pub struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    /// Creates an input from all of the bytes.
    pub fn new(bytes: &'a [u8]) -> Input<'a> {
        Input(bytes)
    }

    /// Whether all bytes have been read.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the next byte; 0 past the end.
    pub fn byte(&mut self) -> u8 {
        self.bytes(1).first().copied().unwrap_or_default()
    }

    /// Returns the next two bytes as a number, little-endian.
    pub fn word(&mut self) -> u16 {
        u16::from_le_bytes([self.byte(), self.byte()])
    }

    /// Returns a number below `bound`, from one byte; 0 if the bound is 0.
    pub fn below(&mut self, bound: usize) -> usize {
        usize::from(self.byte()).checked_rem(bound).unwrap_or_default()
    }

    /// Returns one of several choices, of which there must be at least one.
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }

    /// Returns true in one case of two.
    pub fn flag(&mut self) -> bool {
        self.byte() & 1 == 1
    }

    /// Returns the next `count` bytes, or as many as there are.
    pub fn bytes(&mut self, count: usize) -> &'a [u8] {
        let (first, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        first
    }

    /// Returns all bytes that are left.
    pub fn rest(&mut self) -> &'a [u8] {
        self.bytes(usize::MAX)
    }

    /// Returns up to seven lengths of at least 1, by which a stream is cut in turn; none if the stream stays in one
    /// piece.
    pub fn cuts(&mut self, count: u8) -> Vec<usize> {
        self.bytes(usize::from(count & 7)).iter().map(|cut| 1 + usize::from(*cut)).collect()
    }
}

/// Cuts a stream by these lengths in turn.
pub fn pieces<'a>(mut stream: &'a [u8], cuts: &'a [usize]) -> impl Iterator<Item = &'a [u8]> {
    let mut lengths = cuts.iter().cycle();
    std::iter::from_fn(move || {
        let length = lengths.next().copied().unwrap_or(stream.len()).min(stream.len());
        let (first, rest) = stream.split_at(length);
        stream = rest;
        (length > 0).then_some(first)
    })
}
