//! Response body with level-n data, which may be long: it is produced in pieces as the client takes them, also for
//! base64. All clients that take the same data share one copy.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};

use super::response_budget::InFlightData;

/// Most bytes of data in a plain piece.
const PIECE: usize = 64 << 10;

/// Most bytes of data in a base64 piece: a multiple of 3, so that pieces can be joined.
const ENCODED_PIECE: usize = 12 << 10;

/// Data, and the text before and after them.
#[derive(Debug)]
pub(super) struct DataBody {
    before: Bytes,
    data: Bytes,
    whole: Arc<InFlightData>,
    encoded: bool,
    behind: Bytes,
}

/// A part of the data. It keeps the whole in memory, and counted as in progress, until it is written.
struct Part {
    bytes: Bytes,
    _whole: Arc<InFlightData>,
}

impl AsRef<[u8]> for Part {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl DataBody {
    /// A body of plain data.
    pub(super) fn plain(whole: Arc<InFlightData>) -> DataBody {
        let data = whole.data().clone();
        DataBody { before: Bytes::new(), data, whole, encoded: false, behind: Bytes::new() }
    }

    /// A body of data as base64, between two texts.
    pub(super) fn encoded(
        before: impl Into<Bytes>,
        whole: Arc<InFlightData>,
        behind: impl Into<Bytes>,
    ) -> DataBody {
        let data = whole.data().clone();
        DataBody { before: before.into(), data, whole, encoded: true, behind: behind.into() }
    }

    /// The next piece.
    pub(super) fn next(&mut self) -> Option<Bytes> {
        if !self.before.is_empty() {
            return Some(std::mem::take(&mut self.before));
        }
        if !self.data.is_empty() {
            let most = if self.encoded { ENCODED_PIECE } else { PIECE };
            let piece = self.data.split_to(most.min(self.data.len()));
            return Some(match self.encoded {
                true => STANDARD.encode(&piece).into(),
                false => Bytes::from_owner(Part { bytes: piece, _whole: Arc::clone(&self.whole) }),
            });
        }
        Some(std::mem::take(&mut self.behind)).filter(|behind| !behind.is_empty())
    }

    fn length(&self) -> u64 {
        let data = match self.encoded {
            true => self.data.len().div_ceil(3) * 4,
            false => self.data.len(),
        };
        (self.before.len() + data + self.behind.len()) as u64
    }
}

impl Body for DataBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.next().map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.length() == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.length())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::http::response_budget::ResponseBudget;

    fn whole(mut sent: DataBody) -> Vec<u8> {
        let mut whole = Vec::new();
        while let Some(piece) = sent.next() {
            whole.extend_from_slice(&piece);
        }
        whole
    }

    proptest! {
        #[test]
        fn the_pieces_are_the_whole(length in 0..100_000_usize, seed: u8) {
            let data = Bytes::from_iter((0..length).map(|at| (at * 31) as u8 ^ seed));
            let text = format!("before{}behind", STANDARD.encode(&data));
            let answers = ResponseBudget::new(1);
            let sent = DataBody::encoded("before", answers.send(data.clone()).unwrap(), "behind");
            prop_assert_eq!(sent.length(), text.len() as u64);
            prop_assert!(whole(sent) == text.as_bytes());
            let sent = DataBody::plain(answers.send(data.clone()).unwrap());
            prop_assert_eq!(sent.length(), length as u64);
            prop_assert!(whole(sent) == data);
        }
    }
}
