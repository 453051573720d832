//! Decoders of level-n data: one for chunks as they arrive, and iterators over complete data.
//!
//! All are thin layers over the grammar in `grammar.rs`, so they accept the same bytes and report the same errors at
//! the same positions. None of them copies or collects the bytes of a value.

use std::iter::FusedIterator;

use super::grammar::Grammar;
use super::{Event, LevelError, Limits};

/// Decodes level-n data that arrive in chunks, cut anywhere.
///
/// Call [`feed`](Self::feed) any number of times, then [`finish`](Self::finish). After an error every call returns the
/// same error.
///
/// ```
/// use chained_gpc::wire::level::{Event, Limits, StreamDecoder};
///
/// let (mut decoder, mut text) = (StreamDecoder::new(1, Limits::default()), Vec::new());
/// for chunk in [&b"2 3 a"[..], b"bc", b"2 de"] {
///     decoder.feed(chunk, &mut |event| {
///         if let Event::Piece(bytes) = event {
///             text.extend_from_slice(bytes);
///         }
///     })?;
/// }
/// decoder.finish()?;
/// assert_eq!(text, b"abcde");
/// # Ok::<(), chained_gpc::wire::level::LevelError>(())
/// ```
#[derive(Debug, Clone)]
pub struct StreamDecoder {
    grammar: Grammar,
}

impl StreamDecoder {
    /// Returns a decoder for data of `level`. A level over the limit is reported by the first [`feed`](Self::feed).
    pub fn new(level: u16, limits: Limits) -> Self {
        Self { grammar: Grammar::new(level, limits) }
    }

    /// Decodes the next chunk and passes each of its events to `sink`. An event is passed as soon as its last byte
    /// arrives: after the chunk that ends the data, `sink` has received the outermost `Close`.
    ///
    /// # Errors
    /// The first error in the data; `sink` has received all events before it. Truncated data are reported by
    /// [`finish`](Self::finish).
    pub fn feed(&mut self, chunk: &[u8], sink: &mut impl FnMut(Event<'_>)) -> Result<(), LevelError> {
        let mut rest = chunk;
        while let Some(event) = self.grammar.step(&mut rest)? {
            sink(event);
        }
        Ok(())
    }

    /// Number of bytes read so far.
    pub fn position(&self) -> u64 {
        self.grammar.position()
    }

    /// Whether the outermost value is complete. Any further byte is an error.
    pub fn is_complete(&self) -> bool {
        self.grammar.is_complete()
    }

    /// Ends the data.
    ///
    /// # Errors
    /// If the data are incomplete, or the error that [`feed`](Self::feed) returned.
    pub fn finish(self) -> Result<(), LevelError> {
        self.grammar.finish()
    }
}

/// One step through complete level-n data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Token<'a> {
    /// A value of `level` 1 or above begins; its `count` members follow, then `Close`.
    Open {
        /// Level of the value; its members are one level lower.
        level: u16,
        /// Number of members announced; they may be missing.
        count: u64,
    },
    /// The bytes of a level-0 value.
    Leaf(&'a [u8]),
    /// The innermost open value is complete.
    Close,
}

/// Iterates over the structure of level-n data, in order, borrowing the leaves.
///
/// The iterator ends after the outermost value or after the first error. Truncated data and excess bytes are errors
/// too, returned at the end.
#[derive(Debug, Clone)]
pub struct Tokens<'a> {
    grammar: Grammar,
    rest: &'a [u8],
    ended: bool,
}

impl<'a> Tokens<'a> {
    /// Returns an iterator over `data`, which are of `level`.
    pub fn new(level: u16, data: &'a [u8], limits: Limits) -> Self {
        Self { grammar: Grammar::new(level, limits), rest: data, ended: false }
    }

    /// Returns the next token; `None` after complete data.
    fn advance(&mut self) -> Result<Option<Token<'a>>, LevelError> {
        let mut leaf: &[u8] = &[];
        while let Some(event) = self.grammar.step(&mut self.rest)? {
            match event {
                Event::Open { level, count } => return Ok(Some(Token::Open { level, count })),
                Event::LeafStart { .. } => {}
                // The only piece: if it is short, the data end with it and no `LeafEnd` follows.
                Event::Piece(bytes) => leaf = bytes,
                Event::LeafEnd => return Ok(Some(Token::Leaf(leaf))),
                Event::Close => return Ok(Some(Token::Close)),
            }
        }
        self.grammar.finish().map(|()| None)
    }
}

impl<'a> Iterator for Tokens<'a> {
    type Item = Result<Token<'a>, LevelError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let token = self.advance().transpose();
        self.ended = !matches!(token, Some(Ok(_)));
        token
    }
}

impl FusedIterator for Tokens<'_> {}

/// The contents of all level-0 values of level-n data, in order, at any depth.
///
/// The iterator ends after the last value or after the first error, so the data are valid only if no item is an error.
/// To keep a leaf without copying it, slice it with `Bytes::slice_ref` from the `Bytes` that hold the data.
#[derive(Debug, Clone)]
pub struct Leaves<'a> {
    tokens: Tokens<'a>,
}

impl<'a> Leaves<'a> {
    /// Returns the leaves of `data`, which are of `level`.
    pub fn new(level: u16, data: &'a [u8], limits: Limits) -> Self {
        Self { tokens: Tokens::new(level, data, limits) }
    }

    /// Returns the next leaf if it is long, or not next to the previous one.
    #[inline(never)]
    fn leaf_further_on(&mut self) -> Option<Result<&'a [u8], LevelError>> {
        let Tokens { grammar, rest, .. } = &mut self.tokens;
        if grammar.ends(rest) {
            return None;
        }
        // Bounded by the input: each token except `Close` takes two bytes or more, and each `Close` has its `Open`.
        loop {
            match self.tokens.next()? {
                Ok(Token::Leaf(leaf)) => return Some(Ok(leaf)),
                Ok(Token::Open { .. } | Token::Close) => {}
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

impl<'a> Iterator for Leaves<'a> {
    type Item = Result<&'a [u8], LevelError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let Tokens { grammar, rest, .. } = &mut self.tokens;
        // No leaf follows the end: then the open values have no members left, or no bytes are left, or the grammar has
        // failed.
        match grammar.leaf_beside(rest).or_else(|| grammar.leaf(rest)) {
            Some(leaf) => Some(Ok(leaf)),
            None => self.leaf_further_on(),
        }
    }
}

impl FusedIterator for Leaves<'_> {}

/// Checks that `data` are data of `level`, and returns the number of their level-0 values.
///
/// # Errors
/// The first error in the data.
pub fn validate(level: u16, data: &[u8], limits: Limits) -> Result<u64, LevelError> {
    Leaves::new(level, data, limits).try_fold(0, |leaves, leaf| leaf.map(|_| leaves + 1))
}
