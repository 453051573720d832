//! How far a long response may go: its peer takes the data up to a window, and says when it takes more.
//!
//! Header and data come before the report, so report and trace wait until all data may go. Source: docs/wire.md, "WINDOW".

use crate::wire::frame::WINDOW;
use crate::wire::head::ResponseHead;

/// What of a body may leave.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leave {
    /// How much more of it for the moment, bytes.
    left: u64,
    /// How far the data may go, as the peer has said.
    limit: u64,
    data_len: u64,
    /// What follows the data.
    behind: u64,
}

impl Leave {
    /// Everything may go.
    pub(super) fn unbounded() -> Leave {
        Leave { left: u64::MAX, limit: 0, data_len: 0, behind: 0 }
    }

    /// A response of which the peer has not said anything yet.
    pub(super) fn of_response(head: &ResponseHead) -> Leave {
        let behind = u64::from(head.report_len) + u64::from(head.trace_len);
        let data_len = head.data_len;
        let mut leave = Leave { left: head.header_len, limit: 0, data_len, behind };
        leave.grant(WINDOW);
        leave
    }

    /// The peer takes the data so far.
    pub(super) fn widen(&mut self, limit: u64) {
        if self.limit < self.data_len {
            self.grant(limit);
        }
    }

    fn grant(&mut self, limit: u64) {
        let limit = limit.min(self.data_len).max(self.limit);
        let whole = if limit == self.data_len { self.behind } else { 0 };
        self.left = self.left.saturating_add(limit - self.limit).saturating_add(whole);
        self.limit = limit;
    }

    /// How much more may leave for the moment, bytes.
    pub(super) fn left(&self) -> u64 {
        self.left
    }

    /// The same, at most so many.
    pub(super) fn room(&self, most: usize) -> usize {
        usize::try_from(self.left).unwrap_or(most).min(most)
    }

    /// So many have left.
    pub(super) fn spend(&mut self, bytes: usize) {
        self.left = self.left.saturating_sub(bytes as u64);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire::CallId;
    use crate::wire::head::AnswerKind;

    proptest! {
        /// As much has left as header, data up to the highest limit, and behind all of the data the report.
        #[test]
        fn it_keeps_to_the_highest_limit(
            header_len in 0u64..9,
            data_len in 0u64..3 * WINDOW,
            report_len in 0u32..9,
            steps in proptest::collection::vec((0u64..4 * WINDOW, 0usize..3 << 20), 0..30),
        ) {
            let call = CallId { root: 0, sequence: 0 };
            let kind = AnswerKind::Partial;
            let head = ResponseHead { call, level: 0, kind, header_len, data_len, report_len, trace_len: 0 };
            let (mut leave, mut gone, mut limit) = (Leave::of_response(&head), 0, WINDOW);
            for (widened, most) in steps {
                leave.widen(widened);
                limit = limit.max(widened);
                let room = leave.room(most);
                leave.spend(room);
                gone += room as u64;
                let data = limit.min(data_len);
                let behind = if data == data_len { u64::from(report_len) } else { 0 };
                prop_assert_eq!(gone + leave.left(), header_len + data + behind);
            }
        }
    }

    #[test]
    fn a_request_is_not_held_up_here() {
        let mut leave = Leave::unbounded();
        leave.spend(5);
        leave.widen(3);
        assert_eq!(leave.room(7), 7);
    }
}
