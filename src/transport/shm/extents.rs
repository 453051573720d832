//! The sealed memory of one node: made of its own data, taken from peers, and how much of it there may be.
//!
//! Must never keep a descriptor that nobody can want any more, nor so many that the process runs out of them. Source:
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

/// Descriptors from peers that a node keeps to pass them on; what comes beyond is mapped, and copied where it must be
/// passed on. Those of half a gibibyte.
const KEPT_MAX: u64 = 256;

/// The part of the descriptors which a process may have that a node keeps at most.
const KEPT_PART: u64 = 8;

/// Addresses that a node reserves at once for data that come: a hundredth of what there are, so that no peer uses them
/// up by announcing what it never sends. Bodies beyond are copied.
const ADDRESSES_MAX: u64 = 1 << 40;

/// The part of the addresses that a process with a limit may have, of which a node reserves no more: what is allocated
/// needs addresses, too.
const ADDRESSES_PART: u64 = 16;

/// Pieces that are remembered for the links that send the same data next: links that go on at the same pace are no more
/// apart.
const RECENT_MAX: usize = 4;

/// What a node needs to know of its sealed memory. Cloning shares it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Extents(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    /// Descriptors from peers that are open.
    held: AtomicU64,
    /// How many may be kept, once that was asked for.
    kept_max: OnceLock<u64>,
    /// Addresses that are reserved.
    addresses: AtomicU64,
    /// How many may be, once that was asked for.
    addresses_max: OnceLock<u64>,
    /// A descriptor of no use, which makes room for one that comes: a process that has as many as it may would lose it,
    /// and the data with it.
    place: Mutex<Option<SealedFile>>,
    /// What was made last, with the bytes that it was made of: as long as they are held, no others can have their
    /// place.
    recent: Mutex<VecDeque<(Bytes, Extent)>>,
}

impl Extents {
    /// Sealed memory with these bytes: what was made of the same a moment ago, or a copy. `None` where the system has
    /// none.
    pub(crate) fn seal(&self, bytes: &Bytes) -> Option<Extent> {
        let mut recent = self.recent();
        let same = |(of, _): &&(Bytes, Extent)| (of.as_ptr(), of.len()) == (bytes.as_ptr(), bytes.len());
        if let Some((_, extent)) = recent.iter().find(same) {
            return Some(extent.clone());
        }
        let file = SealedFile::of(bytes);
        let file =
            file.inspect_err(|error| debug!(%error, "data go through a ring, not by descriptor")).ok()?;
        let extent: Extent = Arc::new(Piece { file, node: self.0.clone(), counted: false });
        if recent.len() >= RECENT_MAX {
            recent.pop_front();
        }
        recent.push_back((bytes.clone(), extent.clone()));
        Some(extent)
    }

    /// Whether anything that was made is remembered.
    pub(crate) fn is_held(&self) -> bool {
        !self.recent().is_empty()
    }

    /// Forgets what was made: nobody sends it any more.
    pub(crate) fn forget(&self) {
        self.recent().clear();
    }

    /// Keeps a place for a descriptor that comes, as long as there is one; says whether there is.
    pub(crate) fn keep_place(&self) -> bool {
        let mut place = self.place();
        if place.is_none() {
            // Not one of a socket, which would stay open with it.
            *place = SealedFile::of(&[]).ok();
        }
        place.is_some()
    }

    /// Makes room for a descriptor that comes now.
    pub(super) fn give_place(&self) {
        drop(self.place().take());
    }

    /// Takes memory that a peer has handed over.
    ///
    /// # Errors
    /// When it is not what it must be, in words.
    pub(super) fn take(&self, descriptor: OwnedFd, length: usize) -> io::Result<Extent> {
        let file = SealedFile::open(descriptor, length)?;
        self.0.held.fetch_add(1, Ordering::Relaxed);
        let piece = Piece { file, node: self.0.clone(), counted: true };
        if self.keep_place() {
            return Ok(Arc::new(piece));
        }
        // No descriptor is left: this one's place is the next one's.
        let bytes = piece.bytes();
        drop(piece);
        self.keep_place();
        Ok(Arc::new(Loose(bytes)))
    }

    /// Number of open descriptors of sealed memory, and of reserved addresses.
    #[cfg(feature = "snapshot")]
    pub(crate) fn held(&self) -> (usize, usize) {
        let place = usize::from(self.place().is_some());
        let descriptors = self.recent().len() + place + self.0.held.load(Ordering::Relaxed) as usize;
        (descriptors, self.0.addresses.load(Ordering::Relaxed) as usize)
    }

    fn place(&self) -> MutexGuard<'_, Option<SealedFile>> {
        // Whether there is one is true after any panic.
        self.0.place.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn recent(&self) -> MutexGuard<'_, VecDeque<(Bytes, Extent)>> {
        // What is remembered is whole after any panic.
        self.0.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The descriptor of a piece, to be handed over.
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
    /// Whether it is one of those held.
    counted: bool,
}

impl Drop for Piece {
    fn drop(&mut self) {
        if self.counted {
            self.node.held.fetch_sub(1, Ordering::Relaxed);
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
        let limit = || getrlimit(Resource::As).current.map_or(u64::MAX, |limit| limit / ADDRESSES_PART);
        let most = *self.node.addresses_max.get_or_init(|| limit().min(ADDRESSES_MAX));
        let length = usize::try_from(announced).ok().filter(|_| announced <= most)?;
        let others = self.node.addresses.fetch_add(announced, Ordering::Relaxed);
        let share = Share { node: self.node.clone(), addresses: announced };
        if others + announced > most {
            return None;
        }
        let region = Region::reserve(length).ok()?;
        Some(Box::new(Laid { region, share: Arc::new(share) }))
    }

    fn may_be_kept(&self) -> bool {
        let limit = || getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX) / KEPT_PART;
        let most = *self.node.kept_max.get_or_init(|| limit().min(KEPT_MAX));
        self.node.held.load(Ordering::Relaxed) <= most
    }
}

/// The bytes of a piece whose descriptor could not be kept.
#[derive(Debug)]
struct Loose(Bytes);

impl Sealed for Loose {
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

/// Addresses that are counted as reserved.
#[derive(Debug)]
struct Share {
    node: Arc<Shared>,
    addresses: u64,
}

impl Drop for Share {
    fn drop(&mut self) {
        self.node.addresses.fetch_sub(self.addresses, Ordering::Relaxed);
    }
}

/// The data of one body, side by side.
#[derive(Debug)]
struct Laid {
    region: Region,
    share: Arc<Share>,
}

/// Some of them, as long as somebody reads them.
struct View {
    bytes: super::mapping::View,
    _share: Arc<Share>,
}

impl AsRef<[u8]> for View {
    fn as_ref(&self) -> &[u8] {
        self.bytes.as_ref()
    }
}

impl Room for Laid {
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
        Bytes::from_owner(View { bytes: self.region.view(range), _share: self.share.clone() })
    }
}

#[cfg(all(test, target_os = "linux", not(miri)))]
mod tests {
    use super::*;

    /// Addresses that were refused counted as reserved for ever: in the end all data went through rings.
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
