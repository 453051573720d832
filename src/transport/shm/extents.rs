//! Sealed memory of one node: created from its own data, or received from peers, with limits.
//!
//! Unused descriptors are closed, and their number is limited, so that the process does not run out of them. Source:
//! docs/wire.md, "Data by descriptor".

use std::any::Any;
use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use bytes::Bytes;
use rustix::process::{Resource, getrlimit};
use tracing::debug;

use super::mapping::{Region, SealedFile};
use crate::wire::body::{Extent, Room, Sealed};

/// Maximum number of received descriptors that a node retains for forwarding: half a gibibyte of data. Further data are
/// mapped, and copied when they are forwarded.
const RETAINED_MAX: u64 = 256;

/// One in this many descriptors of the process may be retained.
const RETAINED_DIVISOR: u64 = 8;

/// Maximum number of addresses that a node reserves for announced data: a hundredth of the address space, so that
/// announcements of a peer cannot exhaust it. Longer bodies are copied.
const ADDRESSES_MAX: u64 = 1 << 40;

/// One in this many addresses may be reserved if the process has a limit, since allocations need addresses, too.
const ADDRESSES_DIVISOR: u64 = 16;

/// Maximum number of sealed pieces retained for other links that send the same data next. Links of equal pace differ by
/// no more.
const RECENT_MAX: usize = 4;

/// State of a node's sealed memory. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Extents(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    /// Number of open descriptors from peers.
    received_descriptors: AtomicU64,
    /// Maximum number of retained descriptors, computed on first use.
    retained_max: OnceLock<u64>,
    /// Number of reserved addresses.
    addresses: AtomicU64,
    /// Maximum number of reserved addresses, computed on first use.
    addresses_max: OnceLock<u64>,
    /// A spare descriptor, closed before one is received: a process at its limit would lose the received descriptor,
    /// and the data with it.
    reserve: Mutex<Option<SealedFile>>,
    /// The pieces sealed last, with their source bytes. While those are retained, no other bytes have their address.
    recent: Mutex<VecDeque<(Bytes, Extent)>>,
}

impl Extents {
    /// Returns sealed memory with these bytes: a recent piece of the same bytes, or a copy. `None` if the system
    /// provides none.
    pub(crate) fn seal(&self, bytes: &Bytes) -> Option<Extent> {
        let mut recent = self.recent();
        let same = |(of, _): &&(Bytes, Extent)| (of.as_ptr(), of.len()) == (bytes.as_ptr(), bytes.len());
        if let Some((_, extent)) = recent.iter().find(same) {
            return Some(extent.clone());
        }
        let file = SealedFile::of(bytes);
        let file = file
            .inspect_err(|error| debug!(%error, "cannot create sealed memory: the data go through the ring"))
            .ok()?;
        let extent: Extent = Arc::new(Piece { file, node: self.0.clone(), is_counted: false });
        if recent.len() >= RECENT_MAX {
            recent.pop_front();
        }
        recent.push_back((bytes.clone(), extent.clone()));
        Some(extent)
    }

    /// Whether recent pieces are retained.
    pub(crate) fn has_recent(&self) -> bool {
        !self.recent().is_empty()
    }

    /// Releases the recent pieces: no link sends them any more.
    pub(crate) fn release_recent(&self) {
        self.recent().clear();
    }

    /// Opens the spare descriptor if it is missing; returns whether it is open.
    pub(crate) fn hold_reserve(&self) -> bool {
        let mut reserve = self.reserve();
        if reserve.is_none() {
            // Never a duplicate of a socket, which would keep the socket open.
            *reserve = SealedFile::of(&[]).ok();
        }
        reserve.is_some()
    }

    /// Closes the spare descriptor, before one is received.
    pub(super) fn release_reserve(&self) {
        drop(self.reserve().take());
    }

    /// Checks and takes memory that a peer has passed.
    ///
    /// # Errors
    /// If the memory is not sealed, has another length, or has pages that were never written; and the system's.
    pub(super) fn take(&self, descriptor: OwnedFd, length: usize) -> io::Result<Extent> {
        let file = SealedFile::open(descriptor, length)?;
        self.0.received_descriptors.fetch_add(1, Ordering::Relaxed);
        let piece = Piece { file, node: self.0.clone(), is_counted: true };
        if self.hold_reserve() {
            return Ok(Arc::new(piece));
        }
        // No descriptor is left: copies the data, and closes this descriptor, so that the spare one can be opened.
        let bytes = piece.bytes();
        drop(piece);
        self.hold_reserve();
        Ok(Arc::new(CopiedExtent(bytes)))
    }

    /// Number of open descriptors of sealed memory, and of reserved addresses.
    #[cfg(feature = "snapshot")]
    pub(crate) fn open_descriptors(&self) -> (usize, usize) {
        let reserve = usize::from(self.reserve().is_some());
        let descriptors =
            self.recent().len() + reserve + self.0.received_descriptors.load(Ordering::Relaxed) as usize;
        (descriptors, self.0.addresses.load(Ordering::Relaxed) as usize)
    }

    fn reserve(&self) -> MutexGuard<'_, Option<SealedFile>> {
        // The state is valid after any panic.
        self.0.reserve.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn recent(&self) -> MutexGuard<'_, VecDeque<(Bytes, Extent)>> {
        // The state is valid after any panic.
        self.0.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The descriptor of a piece, for passing.
pub(super) fn descriptor(extent: &dyn Sealed) -> Option<BorrowedFd<'_>> {
    piece(extent).map(|piece| piece.file.descriptor().as_fd())
}

fn piece(extent: &dyn Sealed) -> Option<&Piece> {
    (extent as &dyn Any).downcast_ref()
}

/// A piece of sealed memory.
#[derive(Debug)]
struct Piece {
    file: SealedFile,
    node: Arc<Shared>,
    /// Whether it counts as a descriptor from a peer.
    is_counted: bool,
}

impl Drop for Piece {
    fn drop(&mut self) {
        if self.is_counted {
            self.node.received_descriptors.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Sealed for Piece {
    fn length(&self) -> usize {
        self.file.length()
    }

    fn bytes(&self) -> Bytes {
        if let Ok(mapped) = self.file.map() {
            return Bytes::from_owner(mapped);
        }
        let mut bytes = vec![0; self.file.length()];
        self.file.read(0, &mut bytes).expect("memory that cannot shrink is read to its end");
        bytes.into()
    }

    fn room(&self, announced: u64) -> Option<Box<dyn Room>> {
        let limit = || getrlimit(Resource::As).current.map_or(u64::MAX, |limit| limit / ADDRESSES_DIVISOR);
        let max = *self.node.addresses_max.get_or_init(|| limit().min(ADDRESSES_MAX));
        let length = usize::try_from(announced).ok().filter(|_| announced <= max)?;
        let reserved = self.node.addresses.fetch_add(announced, Ordering::Relaxed);
        let reservation = AddressReservation { node: self.node.clone(), addresses: announced };
        if reserved + announced > max {
            return None;
        }
        let region = Region::reserve(length).ok()?;
        Some(Box::new(BodyRegion { region, reservation: Arc::new(reservation) }))
    }

    fn may_be_kept(&self) -> bool {
        let limit = || getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX) / RETAINED_DIVISOR;
        let max = *self.node.retained_max.get_or_init(|| limit().min(RETAINED_MAX));
        self.node.received_descriptors.load(Ordering::Relaxed) <= max
    }
}

/// A copy of a piece whose descriptor could not be retained.
#[derive(Debug)]
struct CopiedExtent(Bytes);

impl Sealed for CopiedExtent {
    fn length(&self) -> usize {
        self.0.len()
    }

    fn bytes(&self) -> Bytes {
        self.0.clone()
    }

    fn room(&self, _: u64) -> Option<Box<dyn Room>> {
        None
    }

    fn may_be_kept(&self) -> bool {
        false
    }
}

/// A counted reservation of addresses.
#[derive(Debug)]
struct AddressReservation {
    node: Arc<Shared>,
    addresses: u64,
}

impl Drop for AddressReservation {
    fn drop(&mut self) {
        self.node.addresses.fetch_sub(self.addresses, Ordering::Relaxed);
    }
}

/// The contiguous data of one body.
#[derive(Debug)]
struct BodyRegion {
    region: Region,
    reservation: Arc<AddressReservation>,
}

/// A range of the data, which keeps the reservation.
struct View {
    bytes: super::mapping::View,
    _share: Arc<AddressReservation>,
}

impl AsRef<[u8]> for View {
    fn as_ref(&self) -> &[u8] {
        self.bytes.as_ref()
    }
}

impl Room for BodyRegion {
    fn filled(&self) -> usize {
        self.region.filled()
    }

    fn lay(&mut self, extent: &dyn Sealed) -> bool {
        match piece(extent) {
            Some(piece) => self.region.lay(&piece.file).is_ok(),
            None => self.region.push(&extent.bytes()).is_ok(),
        }
    }

    fn push(&mut self, bytes: &[u8]) -> bool {
        self.region.push(bytes).is_ok()
    }

    fn view(&self, range: Range<usize>) -> Bytes {
        Bytes::from_owner(View { bytes: self.region.view(range), _share: self.reservation.clone() })
    }
}

#[cfg(all(test, target_os = "linux", not(miri)))]
mod tests {
    use super::*;

    /// Rejected reservations still counted as reserved: in the end all data went through rings.
    #[test]
    fn a_refused_reservation_holds_no_addresses() {
        let node = Extents::default();
        node.0.addresses_max.set(1000).unwrap();
        let extent = node.seal(&Bytes::from(vec![7; 1000])).expect("the system seals memory");
        let reserved = || node.0.addresses.load(Ordering::Relaxed);
        let first = extent.room(600).expect("there are as many");
        assert!(extent.room(600).is_none() && extent.room(1001).is_none());
        assert_eq!(reserved(), 600);
        let second = extent.room(400).expect("these are left");
        assert!(extent.room(1).is_none());
        drop((first, second));
        assert_eq!(reserved(), 0);
    }
}
