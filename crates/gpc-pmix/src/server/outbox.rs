//! Events on their way to the node: threads queue them without waiting, and one thread writes them.

use std::io::{self, Write};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use bytes::BytesMut;

use super::codec::{FRAME_MAX, encode_event, encode_hello};
use super::orders::Event;

/// Bytes that may be queued when an upcall is queued. A node reads what its helper sends, so this is reached only if
/// the node is stopped: two of the longest frames.
const QUEUE_MAX: usize = 2 * FRAME_MAX;

/// The queue.
#[derive(Default)]
pub(super) struct Outbox {
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Default)]
struct Queue {
    bytes: BytesMut,
    is_closed: bool,
}

/// The reason why an event was not queued.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum NotQueued {
    /// It is longer than a frame may be.
    TooLong,
    /// The node does not read.
    Full,
}

impl Outbox {
    /// A queue that begins with the hello.
    pub(super) fn new() -> Outbox {
        let outbox = Outbox::default();
        encode_hello(&mut outbox.lock().bytes);
        outbox
    }

    /// Queues an event.
    ///
    /// # Errors
    /// The event is too long, or an upcall has no room.
    pub(super) fn put(&self, event: &Event) -> Result<(), NotQueued> {
        // All other events answer an order, and the node orders no more than it waits for.
        if matches!(event, Event::Upcall { .. }) && self.lock().bytes.len() > QUEUE_MAX {
            return Err(NotQueued::Full);
        }
        self.put_beyond(event)
    }

    /// Queues an event whether there is room or not: for short ones, which the node must not miss. A process that has
    /// called waits, so these are no more than the processes of this node.
    ///
    /// # Errors
    /// The event is too long.
    pub(super) fn put_beyond(&self, event: &Event) -> Result<(), NotQueued> {
        let mut queue = self.lock();
        encode_event(event, &mut queue.bytes).map_err(|_| NotQueued::TooLong)?;
        drop(queue);
        self.changed.notify_one();
        Ok(())
    }

    /// Makes [`write_to`](Outbox::write_to) return when all that is queued was written.
    pub(super) fn close(&self) {
        self.lock().is_closed = true;
        self.changed.notify_one();
    }

    /// Writes what is queued, until the queue is closed or the node has closed the socket.
    pub(super) fn write_to(&self, mut socket: impl Write) -> io::Result<()> {
        loop {
            let mut queue = self.lock();
            while queue.bytes.is_empty() && !queue.is_closed {
                queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
            }
            let bytes = std::mem::take(&mut queue.bytes);
            drop(queue);
            if bytes.is_empty() {
                return Ok(());
            }
            socket.write_all(&bytes)?;
        }
    }

    /// No code under the lock panics, so the queue is valid.
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::codec::Events;
    use crate::server::orders::{Process, Upcall};

    fn fence(length: usize) -> Event {
        let upcall = Upcall::Fence { processes: Vec::new(), data: vec![7; length], info: Vec::new() };
        Event::Upcall { serial: 1, upcall }
    }

    #[test]
    fn what_was_queued_before_the_end_is_written_in_order() {
        let outbox = Outbox::new();
        let process = Process { namespace: "job".into(), rank: 0 };
        let all = [
            Event::Ready("4".into()),
            Event::Upcall { serial: 1, upcall: Upcall::Connected(process) },
            fence(9),
        ];
        all.iter().for_each(|event| outbox.put(event).unwrap());
        outbox.close();
        let mut written = Vec::new();
        outbox.write_to(&mut written).unwrap();
        let mut events = Events::default();
        events.push(&written);
        let found: Vec<Event> = std::iter::from_fn(|| events.next_event().unwrap()).collect();
        assert_eq!(found, all);
    }

    #[test]
    fn an_upcall_is_refused_if_the_node_does_not_read_and_an_answer_is_not() {
        let outbox = Outbox::new();
        assert_eq!(outbox.put(&fence(FRAME_MAX)), Err(NotQueued::TooLong));
        let half = fence(FRAME_MAX / 2);
        let queued = (0..10).take_while(|_| outbox.put(&half).is_ok()).count();
        assert_eq!(queued, 4);
        assert_eq!(outbox.put(&half), Err(NotQueued::Full));
        assert_eq!(outbox.put(&Event::Data { serial: 1, data: Ok(vec![1]) }), Ok(()));
    }
}
