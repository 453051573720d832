//! Send window of a long response: how many of its bytes may be sent before the peer extends the window.
//!
//! The peer limits the data; the report and the trace follow once all data may be sent. Source: docs/wire.md, "WINDOW".

use crate::wire::frame::WINDOW;
use crate::wire::head::ResponseHead;

/// The part of a body that may be sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct SendWindow {
    /// Number of bytes that may be sent now.
    remaining: u64,
    /// Limit of the data, as the peer has announced it.
    limit: u64,
    data_len: u64,
    /// Length of the report and the trace, which follow the data.
    trailer_len: u64,
}

impl SendWindow {
    /// Returns a window without a limit.
    pub(super) fn unbounded() -> SendWindow {
        SendWindow { remaining: u64::MAX, limit: 0, data_len: 0, trailer_len: 0 }
    }

    /// Returns the initial window of a response.
    pub(super) fn of_response(head: &ResponseHead) -> SendWindow {
        let trailer_len = u64::from(head.report_len) + u64::from(head.trace_len);
        let data_len = head.data_len;
        let mut window = SendWindow { remaining: head.header_len, limit: 0, data_len, trailer_len };
        window.grant(WINDOW);
        window
    }

    /// Extends the window to this limit of the data; a lower limit than before has no effect.
    pub(super) fn extend(&mut self, limit: u64) {
        if self.limit < self.data_len {
            self.grant(limit);
        }
    }

    fn grant(&mut self, limit: u64) {
        let limit = limit.min(self.data_len).max(self.limit);
        let whole = if limit == self.data_len { self.trailer_len } else { 0 };
        self.remaining = self.remaining.saturating_add(limit - self.limit).saturating_add(whole);
        self.limit = limit;
    }

    /// Number of bytes that may be sent now.
    pub(super) fn remaining(&self) -> u64 {
        self.remaining
    }

    /// Number of bytes that may be sent now, at most this many.
    pub(super) fn remaining_up_to(&self, most: usize) -> usize {
        usize::try_from(self.remaining).unwrap_or(most).min(most)
    }

    /// Counts sent bytes.
    pub(super) fn consume(&mut self, bytes: usize) {
        self.remaining = self.remaining.saturating_sub(bytes as u64);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire::CallId;
    use crate::wire::head::AnswerKind;

    proptest! {
        /// The sent bytes are the header, the data up to the highest limit, and after all data the report.
        #[test]
        fn a_window_respects_the_highest_limit(
            header_len in 0u64..9,
            data_len in 0u64..3 * WINDOW,
            report_len in 0u32..9,
            steps in proptest::collection::vec((0u64..4 * WINDOW, 0usize..3 << 20), 0..30),
        ) {
            let call = CallId { root: 0, sequence: 0 };
            let kind = AnswerKind::Partial;
            let head = ResponseHead { call, level: 0, kind, header_len, data_len, report_len, trace_len: 0 };
            let (mut window, mut sent, mut limit) = (SendWindow::of_response(&head), 0, WINDOW);
            for (extended, most) in steps {
                window.extend(extended);
                limit = limit.max(extended);
                let room = window.remaining_up_to(most);
                window.consume(room);
                sent += room as u64;
                let data = limit.min(data_len);
                let trailer_len = if data == data_len { u64::from(report_len) } else { 0 };
                prop_assert_eq!(sent + window.remaining(), header_len + data + trailer_len);
            }
        }
    }

    #[test]
    fn a_request_has_no_send_window() {
        let mut window = SendWindow::unbounded();
        window.consume(5);
        window.extend(3);
        assert_eq!(window.remaining_up_to(7), 7);
    }
}
