//! The socket interface of a connection over the network of the program.

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

/// Number of parts of one message: the header, and those of one gather write.
const PARTS: usize = 17;

/// A connection over the network of the program. Its drop sends an end message.
#[derive(Debug)]
pub(crate) struct HostSocket {
    inbound: Arc<Inbound>,
    key: Key,
    message_max: usize,
    /// The limit to announce to the peer, until the network takes the message.
    unsent_grant: Option<u64>,
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
        HostSocket { inbound: inbound.clone(), key, message_max, unsent_grant: None }
    }

    fn send(&self, kind: Kind, parts: &[IoSlice<'_>]) -> io::Result<()> {
        let bytes = if kind == Kind::Bytes { parts.iter().map(|part| part.len()).sum() } else { 0 };
        let sequence = self.inbound.with(self.key, |connection| connection.next_message(bytes)).unwrap_or(0);
        let header = self.key.record(kind, sequence).emit();
        let mut message: SmallVec<[IoSlice<'_>; PARTS]> = SmallVec::new();
        message.push(IoSlice::new(&header));
        message.extend_from_slice(parts);
        match self.inbound.send(self.key.peer, &message) {
            Ok(()) => Ok(()),
            Err(NotSent::WouldBlock) => {
                self.inbound.with(self.key, |connection| connection.revert_message(bytes));
                Err(io::ErrorKind::WouldBlock.into())
            }
            Err(NotSent::Lost(why)) => Err(io::Error::other(format!("the program's network: {why}"))),
        }
    }

    /// Announces a new limit to the peer, if it is high enough.
    fn grant(&mut self) {
        let grant = self.inbound.with(self.key, |connection| connection.grant()).flatten();
        self.unsent_grant = grant.or(self.unsent_grant);
        // If the network does not take it now, it is sent later. The next write returns an error, if there is one.
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
        self.inbound.set_token(self.key, token);
    }

    fn is_ended(&self) -> bool {
        self.inbound.with(self.key, |connection| connection.end().is_some()).unwrap_or(true)
    }

    fn origin(&self) -> (Between, Option<PeerAddress>) {
        (Between::Host(self.key.peer), None)
    }

    fn peer_name(&self) -> String {
        format!("id {} over the program's network", self.key.peer)
    }

    fn has_room(&self) -> bool {
        self.inbound.with(self.key, |connection| connection.room() > 0).unwrap_or(true)
    }

    fn prepare_for_bulk(&self, _segment: usize) {}

    fn has_unsent_bytes(&self) -> bool {
        self.unsent_grant.is_some()
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

    /// A read that does not fill the buffer has read all received bytes.
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

    /// Sends at most one message.
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

    /// Sends the limit that the network has not taken yet.
    fn flush(&mut self) -> io::Result<()> {
        if let Some(receive_limit) = self.unsent_grant {
            self.send(Kind::Room, &[IoSlice::new(&receive_limit.to_le_bytes())])?;
            self.unsent_grant = None;
        }
        Ok(())
    }
}
