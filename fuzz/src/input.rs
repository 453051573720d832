//! Choices out of a fuzzer's bytes.
//!
//! The bytes are read from the front, and past their end every choice is the first one: any bytes mean something, and a small change of them is a small change of what they mean.

/// Bytes that are being read.
#[derive(Clone, Debug)]
pub struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    /// All of them.
    pub fn new(bytes: &'a [u8]) -> Input<'a> {
        Input(bytes)
    }

    /// Whether all have been read.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next one; 0 past the end.
    pub fn byte(&mut self) -> u8 {
        self.bytes(1).first().copied().unwrap_or_default()
    }

    /// The next two, little-endian.
    pub fn word(&mut self) -> u16 {
        u16::from_le_bytes([self.byte(), self.byte()])
    }

    /// A number below a bound, of one byte; 0 for a bound of 0.
    pub fn below(&mut self, bound: usize) -> usize {
        usize::from(self.byte()).checked_rem(bound).unwrap_or_default()
    }

    /// One of several; there is at least one.
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }

    /// A yes in one case of two.
    pub fn flag(&mut self) -> bool {
        self.byte() & 1 == 1
    }

    /// The next so many, or as many as there are.
    pub fn bytes(&mut self, count: usize) -> &'a [u8] {
        let (first, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        first
    }

    /// All the others.
    pub fn rest(&mut self) -> &'a [u8] {
        self.bytes(usize::MAX)
    }

    /// Up to seven lengths of at least 1, by which a stream is cut in turn; none for a stream in one piece.
    pub fn cuts(&mut self, count: u8) -> Vec<usize> {
        self.bytes(usize::from(count & 7)).iter().map(|cut| 1 + usize::from(*cut)).collect()
    }
}

/// A stream, cut by these lengths in turn.
pub fn pieces<'a>(mut stream: &'a [u8], cuts: &'a [usize]) -> impl Iterator<Item = &'a [u8]> {
    let mut lengths = cuts.iter().cycle();
    std::iter::from_fn(move || {
        let length = lengths.next().copied().unwrap_or(stream.len()).min(stream.len());
        let (first, rest) = stream.split_at(length);
        stream = rest;
        (length > 0).then_some(first)
    })
}
