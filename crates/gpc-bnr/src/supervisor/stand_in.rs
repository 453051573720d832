//! A supervisor that the test plays, for tests of the node's side: it receives orders and sends events.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use bytes::BytesMut;
use chained_gpc::Clock;

use super::codec::{Frames, HELLO, SupervisorMessage, get_message, put_event, put_hello};
use super::connection::Connection;
use super::handle::Supervisor;
use super::orders::{SupervisorEvent, SupervisorOrder};
use super::passing::{receive, send};

/// The test's end of the socket.
pub(crate) struct StandIn {
    socket: UnixStream,
    frames: Frames,
    pub(crate) descriptors: VecDeque<OwnedFd>,
}

impl StandIn {
    /// A connection, and the other end of it.
    pub(super) fn connect(at_once: usize, clock: Clock) -> (Connection, StandIn) {
        let (ours, socket) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        socket.set_nonblocking(true).unwrap();
        let stand_in = StandIn { socket, frames: Frames::default(), descriptors: VecDeque::new() };
        (Connection::new(ours, at_once, clock), stand_in)
    }

    /// A supervisor for a node. Its process has ended already.
    pub(crate) fn supervisor(clock: Clock) -> (Supervisor, StandIn) {
        let (connection, stand_in) = StandIn::connect(40, clock.clone());
        (Supervisor::with(connection, std::process::Command::new("true").spawn().unwrap(), clock), stand_in)
    }

    /// Sends the version.
    pub(crate) fn greet(&mut self) {
        self.greet_as(HELLO);
    }

    pub(super) fn greet_as(&mut self, text: &str) {
        let mut bytes = BytesMut::new();
        put_hello(&mut bytes, text);
        assert_eq!(send(&self.socket, &bytes, &[]).unwrap(), Some(bytes.len()));
    }

    pub(crate) fn tell(&mut self, event: &SupervisorEvent) {
        let mut bytes = BytesMut::new();
        put_event(&mut bytes, event);
        assert_eq!(send(&self.socket, &bytes, &[]).unwrap(), Some(bytes.len()));
    }

    /// The messages that have arrived; `descriptors` has theirs.
    pub(super) fn messages(&mut self) -> Vec<SupervisorMessage> {
        let mut buffer = vec![0; 1 << 16];
        let descriptors = &mut self.descriptors;
        // Terminates: the test sends nothing meanwhile.
        while let Some(count @ 1..) =
            receive(&self.socket, &mut buffer, |descriptor| descriptors.push_back(descriptor)).unwrap()
        {
            self.frames.push(&buffer[..count]);
        }
        let next = || self.frames.next().unwrap().map(|body| get_message(body).unwrap());
        std::iter::from_fn(next).collect()
    }

    /// The orders that have arrived, each with its descriptors.
    pub(crate) fn orders(&mut self) -> Vec<(SupervisorOrder, Vec<OwnedFd>)> {
        let messages = self.messages();
        let order = |message| match message {
            SupervisorMessage::Order(order, count) => {
                (order, self.descriptors.drain(..usize::from(count)).collect())
            }
            SupervisorMessage::Refused(..) => panic!("{message:?}"),
        };
        messages.into_iter().map(order).collect()
    }
}
