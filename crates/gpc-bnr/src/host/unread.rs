//! Bounds on the memory of answers that processes have requested and do not read.
//!
//! While answers of a process wait, its further requests are not read: they fill its socket, and the process blocks in
//! `write`. The unread answers of all processes of a node are bounded as well.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::domain::Serial;
use crate::request::Request;

/// Bytes of queued answers at which a connection's next request is delayed: some of the largest values.
const UNREAD_MAX: usize = 1 << 20;

/// Bytes of answers of all connections of a node, including answers being made. Beyond it, each connection gets one
/// answer at a time, and answers without a small bound are delayed.
const NODE_MAX: usize = 256 << 20;

/// Largest size of one value, and most values in transit to one connection.
const VALUE: usize = 64 << 10;
const VALUES_MAX: usize = 64;

/// Most answers without a small bound that a node makes at a time; each is a copy of a database.
const LARGE_MAX: usize = 2;

/// The unread answers of all connections of a node.
#[derive(Debug, Default)]
pub(super) struct NodeUnread {
    bytes: AtomicUsize,
    large: AtomicUsize,
}

impl NodeUnread {
    /// Whether answers without a small bound can be made.
    pub(super) fn has_room(&self) -> bool {
        !self.is_full() && self.large.load(Ordering::Relaxed) < LARGE_MAX
    }

    #[cfg(feature = "snapshot")]
    pub(super) fn counts(&self) -> [(&'static str, usize); 2] {
        let count = |counter: &AtomicUsize| counter.load(Ordering::Relaxed);
        [("unread bytes", count(&self.bytes)), ("large answers", count(&self.large))]
    }

    fn is_full(&self) -> bool {
        self.bytes.load(Ordering::Relaxed) >= NODE_MAX
    }
}

/// Size class of an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Size {
    /// A few bytes.
    Small,
    /// One value.
    Value,
    /// A database, or the status of groups.
    Large,
}

impl Size {
    pub(super) fn of(request: &Request) -> Size {
        match request {
            Request::Get { .. } | Request::Lookup { .. } => Size::Value,
            Request::Iterate(_) | Request::Databases | Request::Groups | Request::Status(_) => Size::Large,
            _ => Size::Small,
        }
    }
}

/// The cause of a delayed request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum DelayCause {
    /// Answers wait at its own connection.
    Own,
    /// Answers wait at other connections of the node.
    Node,
}

/// The unread answers of one connection. Dropping it removes them from the node's count.
#[derive(Debug)]
pub(super) struct Unread {
    node: std::sync::Arc<NodeUnread>,
    /// Bytes queued for writing.
    queued: usize,
    /// Requests whose answers are being made.
    owed: BTreeMap<Serial, Size>,
}

impl Unread {
    pub(super) fn new(node: std::sync::Arc<NodeUnread>) -> Unread {
        Unread { node, queued: 0, owed: BTreeMap::new() }
    }

    pub(super) fn queued(&self) -> usize {
        self.queued
    }

    /// Counts queued bytes.
    pub(super) fn add(&mut self, bytes: usize) {
        self.queued += bytes;
        self.node.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Removes bytes that were written, or that the peer will not read.
    pub(super) fn remove(&mut self, bytes: usize) {
        self.queued -= bytes;
        self.node.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// What delays the next request, with an answer of this size.
    pub(super) fn delay(&self, size: Size) -> Option<DelayCause> {
        let waits = self.queued > 0 || !self.owed.is_empty();
        let is_large = |owed: &Size| *owed == Size::Large;
        if self.queued >= UNREAD_MAX
            || self.owed.len() >= VALUES_MAX
            || self.owed.values().any(is_large)
            || waits && (size == Size::Large || self.node.is_full())
        {
            return Some(DelayCause::Own);
        }
        (size == Size::Large && !self.node.has_room()).then_some(DelayCause::Node)
    }

    /// Counts a request that is taken.
    pub(super) fn takes(&mut self, serial: Serial, size: Size) {
        match size {
            Size::Small => return,
            Size::Value => drop(self.node.bytes.fetch_add(VALUE, Ordering::Relaxed)),
            Size::Large => drop(self.node.large.fetch_add(1, Ordering::Relaxed)),
        }
        self.owed.insert(serial, size);
    }

    /// The answer is ready; from now on its bytes are counted instead.
    pub(super) fn answered(&mut self, serial: Serial) {
        match self.owed.remove(&serial) {
            Some(Size::Value) => drop(self.node.bytes.fetch_sub(VALUE, Ordering::Relaxed)),
            Some(Size::Large) => drop(self.node.large.fetch_sub(1, Ordering::Relaxed)),
            Some(Size::Small) | None => {}
        }
    }
}

impl Drop for Unread {
    fn drop(&mut self) {
        self.remove(self.queued);
        let owed: Vec<Serial> = self.owed.keys().copied().collect();
        owed.into_iter().for_each(|serial| self.answered(serial));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_connection_that_does_not_read_is_held_and_others_are_not() {
        let node = Arc::new(NodeUnread::default());
        let (mut one, other) = (Unread::new(Arc::clone(&node)), Unread::new(Arc::clone(&node)));
        one.add(UNREAD_MAX - 1);
        assert_eq!((one.delay(Size::Small), one.delay(Size::Large)), (None, Some(DelayCause::Own)));
        one.add(1);
        assert_eq!((one.delay(Size::Small), other.delay(Size::Small)), (Some(DelayCause::Own), None));
        one.remove(UNREAD_MAX);
        (0..VALUES_MAX as u64).for_each(|serial| one.takes(serial, Size::Value));
        assert_eq!(one.delay(Size::Small), Some(DelayCause::Own));
        one.answered(0);
        assert_eq!(one.delay(Size::Small), None);
        assert_eq!(node.bytes.load(Ordering::Relaxed), (VALUES_MAX - 1) * VALUE);
        drop(one);
        assert_eq!(node.bytes.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_full_node_answers_each_connection_once_at_a_time_and_puts_large_answers_off() {
        let node = Arc::new(NodeUnread::default());
        let (mut hog, mut other) = (Unread::new(Arc::clone(&node)), Unread::new(Arc::clone(&node)));
        hog.add(NODE_MAX);
        assert_eq!((other.delay(Size::Value), other.delay(Size::Large)), (None, Some(DelayCause::Node)));
        other.takes(1, Size::Value);
        assert_eq!(other.delay(Size::Value), Some(DelayCause::Own));
        other.answered(1);
        drop(hog);
        assert_eq!(other.delay(Size::Large), None);
        let mut more: Vec<Unread> = (0..LARGE_MAX).map(|_| Unread::new(Arc::clone(&node))).collect();
        more.iter_mut().for_each(|link| link.takes(1, Size::Large));
        assert_eq!(other.delay(Size::Large), Some(DelayCause::Node));
        more.pop();
        assert_eq!(other.delay(Size::Large), None);
    }
}
