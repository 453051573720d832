//! Decoders of level-n data: one for chunks as they arrive, and iterators over data that are all there.
//!
//! All are thin: the grammar is in `grammar.rs`, so that they accept the same bytes and report the same errors at
//! the same places. None of them copies or collects the bytes of a value.

use std::iter::FusedIterator;

use super::grammar::Grammar;
use super::{Event, LevelError, Limits};

/// Decodes level-n data that arrive in chunks, cut anywhere.
///
/// Order of use: any number of [`feed`](Self::feed), then [`finish`](Self::finish). After an error the same error
/// is returned for ever.
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
    /// Ready for data of `level`. A level over the limit is reported by the first [`feed`](Self::feed).
    pub fn new(level: u16, limits: Limits) -> Self {
        Self { grammar: Grammar::new(level, limits) }
    }

    /// Takes the next chunk and gives `sink` every event up to its end. An event is given as soon as its last byte
    /// is there: after the chunk that ends the data, the outermost `Close` has been given.
    ///
    /// # Errors
    /// The first thing wrong in the data. What came before it has been given to `sink`; that the data were cut
    /// short is for [`finish`](Self::finish) to say.
    pub fn feed(&mut self, chunk: &[u8], sink: &mut impl FnMut(Event<'_>)) -> Result<(), LevelError> {
        let mut rest = chunk;
        while let Some(event) = self.grammar.step(&mut rest)? {
            sink(event);
        }
        Ok(())
    }

    /// Bytes taken so far.
    pub fn position(&self) -> u64 {
        self.grammar.position()
    }

    /// Whether the outermost value is complete. Any further byte is left over.
    pub fn is_complete(&self) -> bool {
        self.grammar.is_complete()
    }

    /// Says that no more chunks come.
    ///
    /// # Errors
    /// If the data are incomplete, or the error that [`feed`](Self::feed) returned.
    pub fn finish(self) -> Result<(), LevelError> {
        self.grammar.finish()
    }
}

/// One step through level-n data that are all there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Token<'a> {
    /// A value of `level` 1 or above begins; its `count` members follow, then `Close`.
    Open {
        /// Its level; the members are one lower.
        level: u16,
        /// How many members it says it has: a promise, not yet kept.
        count: u64,
    },
    /// The bytes of a level-0 value.
    Leaf(&'a [u8]),
    /// The innermost open value is complete.
    Close,
}

/// Walks through the structure of level-n data, in order, borrowing the leaves.
///
/// Ends after the outermost value or after the first error. Data cut short and bytes left over are errors too, given
/// at the end.
#[derive(Debug, Clone)]
pub struct Tokens<'a> {
    grammar: Grammar,
    rest: &'a [u8],
    ended: bool,
}

impl<'a> Tokens<'a> {
    /// A walk through `data`, which are of `level`.
    pub fn new(level: u16, data: &'a [u8], limits: Limits) -> Self {
        Self { grammar: Grammar::new(level, limits), rest: data, ended: false }
    }

    /// The next token, `None` at a proper end.
    fn advance(&mut self) -> Result<Option<Token<'a>>, LevelError> {
        let mut leaf: &[u8] = &[];
        while let Some(event) = self.grammar.step(&mut self.rest)? {
            match event {
                Event::Open { level, count } => return Ok(Some(Token::Open { level, count })),
                Event::LeafStart { .. } => {}
                // The only piece: if it were short the data would end with it, and no `LeafEnd` come.
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

/// The contents of all level-0 values of level-n data, in order, whatever their depth.
///
/// Ends after the last one or after the first error, so all is well only if no item is an error. To keep a leaf
/// without copying it, take it from the `Bytes` that hold the data with `Bytes::slice_ref`.
#[derive(Debug, Clone)]
pub struct Leaves<'a> {
    tokens: Tokens<'a>,
}

impl<'a> Leaves<'a> {
    /// The leaves of `data`, which are of `level`.
    pub fn new(level: u16, data: &'a [u8], limits: Limits) -> Self {
        Self { tokens: Tokens::new(level, data, limits) }
    }

    /// The next leaf, if it does not lie whole and small in front.
    #[inline(never)]
    fn leaf_further_on(&mut self) -> Option<Result<&'a [u8], LevelError>> {
        let Tokens { grammar, rest, .. } = &mut self.tokens;
        if grammar.ends(rest) {
            return None;
        }
        // Bounded by the input: each token but `Close` takes two bytes or more, and each `Close` has its `Open`.
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
        // Never after the end: then no open value has a leaf left, or no byte is, or the grammar has failed.
        match grammar.leaf_beside(rest).or_else(|| grammar.leaf(rest)) {
            Some(leaf) => Some(Ok(leaf)),
            None => self.leaf_further_on(),
        }
    }
}

impl FusedIterator for Leaves<'_> {}

/// Checks that `data` are data of `level`, and says how many level-0 values they hold.
///
/// # Errors
/// The first thing wrong in the data.
pub fn validate(level: u16, data: &[u8], limits: Limits) -> Result<u64, LevelError> {
    Leaves::new(level, data, limits).try_fold(0, |leaves, leaf| leaf.map(|_| leaves + 1))
}
