//! A connection over the network of the program, as a link uses it.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use gpc_trees::Id;
use mio::event::Source;
use smallvec::SmallVec;

use super::connection::End;
use super::inbound::{Inbound, Key};
use super::network::NotSent;
use super::record::{HEADER, Kind};
use crate::link::peering::{Source as PeerAddress, Transport as Between};
use crate::transport::byte_stream::{ByteStream, SharedMemory};

/// Parts of one message: the header, and what one gather write has.
const PARTS: usize = 17;

/// See the module. Its drop tells the peer that the connection has ended.
#[derive(Debug)]
pub(crate) struct HostSocket {
    inbound: Arc<Inbound>,
    key: Key,
    message_max: usize,
    /// How many bytes the peer may have sent, if the network has not taken that message yet.
    owed: Option<u64>,
}

impl HostSocket {
    /// Opens a connection to a peer.
    pub(crate) fn open(inbound: &Arc<Inbound>, peer: Id) -> HostSocket {
        HostSocket::new(inbound, inbound.open(peer))
    }

    /// Accepts the next connection that a peer has opened.
    pub(crate) fn accept(inbound: &Arc<Inbound>) -> Option<HostSocket> {
        inbound.accept().map(|key| HostSocket::new(inbound, key))
    }

    fn new(inbound: &Arc<Inbound>, key: Key) -> HostSocket {
        let message_max = inbound.network.0.message_max();
        HostSocket { inbound: inbound.clone(), key, message_max, owed: None }
    }

    fn send(&self, kind: Kind, parts: &[IoSlice<'_>]) -> io::Result<()> {
        let bytes = if kind == Kind::Bytes { parts.iter().map(|part| part.len()).sum() } else { 0 };
        let sequence = self.inbound.with(self.key, |connection| connection.sends(bytes)).unwrap_or(0);
        let header = self.key.record(kind, sequence).emit();
        let mut message: SmallVec<[IoSlice<'_>; PARTS]> = SmallVec::new();
        message.push(IoSlice::new(&header));
        message.extend_from_slice(parts);
        match self.inbound.send(self.key.peer, &message) {
            Ok(()) => Ok(()),
            Err(NotSent::WouldBlock) => {
                self.inbound.with(self.key, |connection| connection.not_sent(bytes));
                Err(io::ErrorKind::WouldBlock.into())
            }
            Err(NotSent::Lost(why)) => Err(io::Error::other(format!("the program's network: {why}"))),
        }
    }

    /// Tells the peer how far it may go on, if that is news enough.
    fn grant(&mut self) {
        let news = self.inbound.with(self.key, |connection| connection.grant()).flatten();
        self.owed = news.or(self.owed);
        // What the network does not take now is held, and sent when it does; an error is found by the next write.
        let _ = self.flush();
    }
}

impl Drop for HostSocket {
    fn drop(&mut self) {
        self.inbound.close(self.key);
    }
}

impl ByteStream for HostSocket {
    fn name(&self) -> &'static str {
        "the program's network"
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn source(&mut self) -> Option<&mut dyn Source> {
        None
    }

    fn set_token(&mut self, token: usize) {
        self.inbound.name(self.key, token);
    }

    fn is_ended(&self) -> bool {
        self.inbound.with(self.key, |connection| connection.end().is_some()).unwrap_or(true)
    }

    fn origin(&self) -> (Between, Option<PeerAddress>) {
        (Between::Host(self.key.peer), None)
    }

    fn whence(&self) -> String {
        format!("id {} over the program's network", self.key.peer)
    }

    fn has_room(&self) -> bool {
        self.inbound.with(self.key, |connection| connection.room() > 0).unwrap_or(true)
    }

    fn prepare_for_bulk(&self, _segment: usize) {}

    fn is_holding(&self) -> bool {
        self.owed.is_some()
    }

    fn release_spare_memory(&mut self) {
        self.inbound.with(self.key, |connection| connection.release_spare_memory());
    }
}

impl SharedMemory for HostSocket {}

impl Read for HostSocket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.read_vectored(&mut [IoSliceMut::new(buffer)])
    }

    /// Whoever gets less than there is room for has all that has come.
    fn read_vectored(&mut self, parts: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let wants = parts.iter().any(|part| !part.is_empty());
        let read = self.inbound.with(self.key, |connection| {
            let count = parts.iter_mut().map(|part| connection.read(part)).sum();
            match connection.end() {
                _ if count > 0 || !wants => Ok(count),
                None => Err(io::ErrorKind::WouldBlock.into()),
                Some(End::Closed) => Ok(0),
                Some(End::Lost(why) | End::Broken(why)) => Err(io::Error::other(why.clone())),
            }
        });
        let count = read.unwrap_or(Ok(0))?;
        self.grant();
        Ok(count)
    }
}

impl Write for HostSocket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    /// Sends as much as one message may have.
    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        self.flush()?;
        let room = self.inbound.with(self.key, |connection| connection.room()).unwrap_or(0);
        if room == 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let mut left = room.min(self.message_max - HEADER);
        let mut message: SmallVec<[IoSlice<'_>; PARTS]> = SmallVec::new();
        for part in parts {
            let part = &part[..part.len().min(left)];
            left -= part.len();
            message.push(IoSlice::new(part));
            if left == 0 {
                break;
            }
        }
        self.send(Kind::Bytes, &message)?;
        Ok(message.iter().map(|part| part.len()).sum())
    }

    /// Sends what the network has not taken: how far the peer may go on.
    fn flush(&mut self) -> io::Result<()> {
        if let Some(permitted) = self.owed {
            self.send(Kind::Room, &[IoSlice::new(&permitted.to_le_bytes())])?;
            self.owed = None;
        }
        Ok(())
    }
}
