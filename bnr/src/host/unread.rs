//! How much memory answers may take that processes have asked for and do not read.
//!
//! A process that lets answers wait is asked no more: its requests stay in its socket, and so it waits in `write`. What all processes of a node let wait has a bound as well.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::domain::Serial;
use crate::request::Request;

/// How many bytes of answers may wait for one connection before its next request is taken: some of the largest values.
const UNREAD_MAX: usize = 1 << 20;

/// How many bytes of answers may wait for all connections of a node, those that are being made among them, before each connection gets one answer at a time, and answers without a small bound are put off.
const NODE_MAX: usize = 256 << 20;

/// What one value takes at most, and how many of them may be on their way to one connection.
const VALUE: usize = 64 << 10;
const VALUES_MAX: usize = 64;

/// How many answers without a small bound may be made at a time at a node: each is a copy of a database.
const LARGE_MAX: usize = 2;

/// What waits for all connections of a node.
#[derive(Debug, Default)]
pub(super) struct Node {
    bytes: AtomicUsize,
    large: AtomicUsize,
}

impl Node {
    /// Whether answers without a small bound can be made.
    pub(super) fn has_room(&self) -> bool {
        !self.is_full() && self.large.load(Ordering::Relaxed) < LARGE_MAX
    }

    fn is_full(&self) -> bool {
        self.bytes.load(Ordering::Relaxed) >= NODE_MAX
    }
}

/// How long an answer may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Size {
    /// Some bytes.
    Small,
    /// One value.
    Value,
    /// A database, or what is known of all groups.
    Large,
}

impl Size {
    pub(super) fn of(request: &Request) -> Size {
        match request {
            Request::Get { .. } | Request::Lookup(_) => Size::Value,
            Request::Iterate(_) | Request::Databases | Request::Groups | Request::Status(_) => Size::Large,
            _ => Size::Small,
        }
    }
}

/// What keeps a request from being taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Held {
    /// Its own connection: answers wait there.
    Own,
    /// Other connections of the node.
    Node,
}

/// What waits for one connection. When it is dropped, nothing of it is left.
#[derive(Debug)]
pub(super) struct Unread {
    node: std::sync::Arc<Node>,
    /// Bytes that wait to be written.
    queued: usize,
    /// Requests whose answers are being made.
    owed: BTreeMap<Serial, Size>,
}

impl Unread {
    pub(super) fn new(node: std::sync::Arc<Node>) -> Unread {
        Unread { node, queued: 0, owed: BTreeMap::new() }
    }

    pub(super) fn queued(&self) -> usize {
        self.queued
    }

    /// Bytes wait to be written.
    pub(super) fn add(&mut self, bytes: usize) {
        self.queued += bytes;
        self.node.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// They are written, or nobody reads them any more.
    pub(super) fn remove(&mut self, bytes: usize) {
        self.queued -= bytes;
        self.node.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// What keeps the next request, with an answer of this size, from being taken.
    pub(super) fn holds(&self, size: Size) -> Option<Held> {
        let waits = self.queued > 0 || !self.owed.is_empty();
        let is_large = |owed: &Size| *owed == Size::Large;
        if self.queued >= UNREAD_MAX
            || self.owed.len() >= VALUES_MAX
            || self.owed.values().any(is_large)
            || waits && (size == Size::Large || self.node.is_full())
        {
            return Some(Held::Own);
        }
        (size == Size::Large && !self.node.has_room()).then_some(Held::Node)
    }

    /// A request is taken.
    pub(super) fn takes(&mut self, serial: Serial, size: Size) {
        match size {
            Size::Small => return,
            Size::Value => drop(self.node.bytes.fetch_add(VALUE, Ordering::Relaxed)),
            Size::Large => drop(self.node.large.fetch_add(1, Ordering::Relaxed)),
        }
        self.owed.insert(serial, size);
    }

    /// Its answer is there, and is counted by its bytes.
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
        let node = Arc::new(Node::default());
        let (mut one, other) = (Unread::new(Arc::clone(&node)), Unread::new(Arc::clone(&node)));
        one.add(UNREAD_MAX - 1);
        assert_eq!((one.holds(Size::Small), one.holds(Size::Large)), (None, Some(Held::Own)));
        one.add(1);
        assert_eq!((one.holds(Size::Small), other.holds(Size::Small)), (Some(Held::Own), None));
        one.remove(UNREAD_MAX);
        (0..VALUES_MAX as u64).for_each(|serial| one.takes(serial, Size::Value));
        assert_eq!(one.holds(Size::Small), Some(Held::Own));
        one.answered(0);
        assert_eq!(one.holds(Size::Small), None);
        assert_eq!(node.bytes.load(Ordering::Relaxed), (VALUES_MAX - 1) * VALUE);
        drop(one);
        assert_eq!(node.bytes.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_full_node_answers_each_connection_once_at_a_time_and_puts_large_answers_off() {
        let node = Arc::new(Node::default());
        let (mut hog, mut other) = (Unread::new(Arc::clone(&node)), Unread::new(Arc::clone(&node)));
        hog.add(NODE_MAX);
        assert_eq!((other.holds(Size::Value), other.holds(Size::Large)), (None, Some(Held::Node)));
        other.takes(1, Size::Value);
        assert_eq!(other.holds(Size::Value), Some(Held::Own));
        other.answered(1);
        drop(hog);
        assert_eq!(other.holds(Size::Large), None);
        let mut more: Vec<Unread> = (0..LARGE_MAX).map(|_| Unread::new(Arc::clone(&node))).collect();
        more.iter_mut().for_each(|link| link.takes(1, Size::Large));
        assert_eq!(other.holds(Size::Large), Some(Held::Node));
        more.pop();
        assert_eq!(other.holds(Size::Large), None);
    }
}
