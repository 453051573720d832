//! A member that has connected, and does not keep to the protocol: it proves itself as one id, and says hello as another.

use gpc_trees::Id;

use super::model::Model;
use crate::peering::{Crypto, Handshake, LENGTH_BYTES, SECOND_LENGTH, TAG, Turn};
use crate::wire::Hello;

/// The side that has connected.
#[derive(Debug)]
pub(super) struct Member {
    model: Model,
    /// Who it proves to be.
    proves: Id,
    /// What it says.
    hello: Hello,
    handshake: Option<Box<dyn Handshake>>,
    came: Vec<u8>,
}

fn with_length(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u16).to_le_bytes()[..], bytes].concat()
}

impl Member {
    pub(super) fn new(model: Model, proves: Id, hello: Hello) -> Member {
        Member { model, proves, hello, handshake: None, came: Vec::new() }
    }

    /// What it says first.
    pub(super) fn begin(&mut self) -> Vec<u8> {
        let preamble = *b"cGPC\x02\0\x01\0";
        let Ok(mut handshake) = self.model.begin(Turn::First, &preamble) else { return Vec::new() };
        let ids = [self.proves.to_le_bytes(), self.hello.to.to_le_bytes()].concat();
        let mut message = Vec::new();
        let _ = handshake.write(&ids, &mut message);
        self.handshake = Some(handshake);
        [&preamble[..], &with_length(&message)].concat()
    }

    /// What it says to what comes.
    pub(super) fn hear(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.came.extend_from_slice(bytes);
        let Some(second) = self.came.get(LENGTH_BYTES..LENGTH_BYTES + SECOND_LENGTH) else {
            return Vec::new();
        };
        let Some(mut handshake) = self.handshake.take() else { return Vec::new() };
        let (mut whose, mut third) = ([0; size_of::<Id>()], Vec::new());
        if handshake.read(second, &mut whose).and_then(|()| handshake.write(&[], &mut third)).is_err() {
            return Vec::new();
        }
        let Ok(mut session) = handshake.into_session() else { return Vec::new() };
        let frame = [&[48, 0, 0, 0, 1, 0, 0, 0][..], &self.hello.emit()].concat();
        let mut record = vec![0; frame.len() + TAG];
        let _ = session.seal(&frame, &mut record);
        [with_length(&third), with_length(&record)].concat()
    }
}
