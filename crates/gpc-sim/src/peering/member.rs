//! A member that violates the protocol, as the connecting or the answering side: it claims another id, or sends an
//! invalid hello. Without proofs, any process can do so.

use gpc_trees::Id;

use super::check;
use super::model::{Model, public};
use chained_gpc::link::peering::{
    Crypto, FIRST_LENGTH, Handshake, LENGTH_BYTES, Role, SECOND_LENGTH, Session, TAG, THIRD_LENGTH,
};
use chained_gpc::wire::frame::{FRAME_HEADER, FrameHeader, Kind, flags};
use chained_gpc::wire::head::{Goodbye, GoodbyeReason};
use chained_gpc::wire::{Hello, Job};

/// Bytes of a hello in clear.
const HELLO: usize = FRAME_HEADER + 48;

/// How a member violates the protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Lie {
    /// Not at all, apart from having no process: a member may claim an id without a listed key.
    None,
    /// It proves another id, or the id of its peer.
    Proof,
    Own,
    /// Another sender, another receiver, another job.
    From,
    To,
    Job,
    /// It claims the id of its peer.
    Mirror,
    /// Rings that were not offered, or data by descriptor without rings.
    Rings,
    Extents,
    /// A GOODBYE, or a frame that must not come first.
    Goodbye(GoodbyeReason),
    Frame,
}

impl Lie {
    pub(super) const ALL: [Lie; 13] = [
        Lie::None,
        Lie::Proof,
        Lie::Own,
        Lie::From,
        Lie::To,
        Lie::Job,
        Lie::Mirror,
        Lie::Rings,
        Lie::Extents,
        Lie::Goodbye(GoodbyeReason::Duplicate),
        Lie::Goodbye(GoodbyeReason::Refused),
        Lie::Goodbye(GoodbyeReason::OtherJob),
        Lie::Frame,
    ];
}

/// One side of a connection.
#[derive(Debug)]
pub(super) struct Member {
    /// Its keys; `None` without proofs.
    model: Option<Model>,
    /// The hello that it would send without the lie.
    hello: Hello,
    lie: Lie,
    handshake: Option<Box<dyn Handshake>>,
    session: Option<Box<dyn Session>>,
    came: Vec<u8>,
    /// Whether it is the connecting side.
    first: bool,
    over: bool,
}

fn with_length(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u16).to_le_bytes()[..], bytes].concat()
}

impl Member {
    pub(super) fn new(model: Option<Model>, hello: Hello, lie: Lie, first: bool) -> Member {
        let (handshake, session) = (None, None);
        Member { model, hello, lie, handshake, session, came: Vec::new(), first, over: false }
    }

    /// It answers in place of this id.
    pub(super) fn answers_as(&mut self, id: Id) {
        self.hello.from = id;
    }

    /// Its identity, for the checkers.
    pub(super) fn who(&self) -> check::Member {
        let key = public(self.model.as_ref().map_or(0, |model| model.private));
        let psk = self.model.as_ref().map(|model| model.psk);
        check::Member { psk, proves: self.proves(), says: (self.said().from, self.hello.incarnation), key }
    }

    fn proves(&self) -> Id {
        match self.lie {
            Lie::Proof => !0,
            Lie::Own => self.hello.to,
            _ => self.hello.from,
        }
    }

    fn said(&self) -> Hello {
        let hello = self.hello;
        match self.lie {
            Lie::From => Hello { from: hello.from ^ 64, ..hello },
            Lie::To => Hello { to: hello.to ^ 64, ..hello },
            Lie::Mirror => Hello { from: hello.to, ..hello },
            Lie::Job => Hello { job: Job([hello.job.0[0] ^ 1; 16]), ..hello },
            _ => hello,
        }
    }

    /// Its first frame.
    fn frame(&self) -> Vec<u8> {
        let (kind, set, payload) = match self.lie {
            Lie::Goodbye(reason) => (Kind::Goodbye, 0, Goodbye { reason, text: "no".into() }.emit()),
            Lie::Frame => (Kind::Cancel, 0, vec![7; 16]),
            Lie::Rings => (Kind::Hello, flags::RINGS, self.said().emit()),
            Lie::Extents => (Kind::Hello, flags::EXTENTS, self.said().emit()),
            _ => (Kind::Hello, 0, self.said().emit()),
        };
        [&FrameHeader { length: payload.len() as u32, kind, flags: set }.emit()[..], &payload].concat()
    }

    /// Its first bytes, if it has connected.
    pub(super) fn begin(&mut self) -> Vec<u8> {
        if !self.first {
            return Vec::new();
        }
        let preamble = *b"cGPC\x04\0\x01\0";
        let ids = [self.proves().to_le_bytes(), self.hello.to.to_le_bytes()].concat();
        let Some(model) = &mut self.model else { return self.frame() };
        let Ok(mut handshake) = model.begin(Role::First, &preamble) else { return Vec::new() };
        let mut message = Vec::new();
        let _ = handshake.write(&ids, &mut message);
        self.handshake = Some(handshake);
        [&preamble[..], &with_length(&message)].concat()
    }

    /// Handles received bytes; returns its answer.
    pub(super) fn hear(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.came.extend_from_slice(bytes);
        if self.over {
            return Vec::new();
        }
        let said = match (self.first, &self.model) {
            (true, None) => Some(Vec::new()),
            (true, Some(_)) => self.hear_second(),
            (false, None) => self.came.get(..HELLO).map(<[u8]>::to_vec).map(|hello| {
                self.hello.to =
                    hello.get(16..20).and_then(|id| id.try_into().ok()).map_or(0, Id::from_le_bytes);
                self.frame()
            }),
            (false, Some(_)) if self.handshake.is_none() => return self.hear_first().unwrap_or_default(),
            (false, Some(_)) => self.hear_third(),
        };
        self.over = said.is_some();
        said.unwrap_or_default()
    }

    fn hear_first(&mut self) -> Option<Vec<u8>> {
        const BEGIN: usize = 8 + LENGTH_BYTES;
        let message = self.came.get(BEGIN..BEGIN + FIRST_LENGTH)?;
        let (proves, model) = (self.proves(), self.model.as_mut()?);
        let mut handshake = model.begin(Role::Second, &self.came[..8]).ok()?;
        let (mut ids, mut second) = ([0; 8], Vec::new());
        handshake
            .read(message, &mut ids)
            .and_then(|()| handshake.write(&proves.to_le_bytes(), &mut second))
            .ok()?;
        self.hello.to = Id::from_le_bytes(*ids.first_chunk()?);
        self.came.drain(..BEGIN + FIRST_LENGTH);
        self.handshake = Some(handshake);
        Some(with_length(&second))
    }

    fn hear_third(&mut self) -> Option<Vec<u8>> {
        let third = self.came.get(LENGTH_BYTES..LENGTH_BYTES + THIRD_LENGTH)?;
        let mut handshake = self.handshake.take()?;
        handshake.read(third, &mut []).ok()?;
        self.session = handshake.into_session().ok();
        Some(self.record())
    }

    fn hear_second(&mut self) -> Option<Vec<u8>> {
        let second = self.came.get(LENGTH_BYTES..LENGTH_BYTES + SECOND_LENGTH)?;
        let mut handshake = self.handshake.take()?;
        let (mut whose, mut third) = ([0; size_of::<Id>()], Vec::new());
        if handshake.read(second, &mut whose).and_then(|()| handshake.write(&[], &mut third)).is_err() {
            return Some(Vec::new());
        }
        self.session = handshake.into_session().ok();
        Some([with_length(&third), self.record()].concat())
    }

    /// Its first frame, sealed.
    fn record(&mut self) -> Vec<u8> {
        let frame = self.frame();
        let Some(session) = &mut self.session else { return Vec::new() };
        let mut record = vec![0; frame.len() + TAG];
        let _ = session.seal(&frame, &mut record);
        with_length(&record)
    }
}
