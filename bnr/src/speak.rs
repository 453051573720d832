//! Who speaks on a connection, and what that means: a machine without I/O.

use bytes::Bytes;

use crate::domain::Serial;
use crate::exit::Death;
use crate::fault::Fault;
use crate::native;
use crate::request::{Answer, Request};

/// What a connection says to its node's driver.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Said {
    /// It asks.
    Ask(Serial, Request),
    /// These bytes go back.
    Send(Bytes),
    /// It shows this to say which process it is; [`Conversation::identified`] answers.
    Who(String),
    /// It is to be closed, and why.
    Close(String),
}

/// A connection's conversation.
#[derive(Debug, Default)]
pub struct Conversation {
    native: native::Conversation,
}

impl Conversation {
    /// One that has said nothing.
    pub fn new() -> Conversation {
        Conversation::default()
    }

    /// Bytes have come.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.native.bytes(bytes);
    }

    /// A request is answered.
    pub fn answered(&mut self, serial: Serial, answer: Result<Answer, Fault>) {
        self.native.answered(serial, answer);
    }

    /// A process has ended.
    pub fn notice(&mut self, death: Death) {
        self.native.notice(death);
    }

    /// Which process it is: its rank and the size of its group.
    pub fn identified(&mut self, _process: Option<(u32, u32)>) {}

    /// What it says next.
    #[allow(clippy::should_implement_trait, reason = "it goes on after it has said nothing")]
    pub fn next(&mut self) -> Option<Said> {
        self.native.next().map(|said| match said {
            native::Said::Ask(serial, request) => Said::Ask(serial, request),
            native::Said::Send(bytes) => Said::Send(bytes),
            native::Said::Close(why) => Said::Close(why),
        })
    }
}
