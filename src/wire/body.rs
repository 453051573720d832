//! The data of a request, or of a reply that is forwarded: complete, or still arriving segment by segment.
//!
//! A node that forwards first gives its children the body that it is still receiving; each link reads the bytes that
//! have arrived. If func needs its data whole, the bytes grow in one buffer, and func gets them as one slice without a
//! second copy. The buffer grows by what has arrived, never by what was announced.
//!
//! If func takes the data as they arrive and they are not needed again later, each byte stays until func and every
//! child's link have read it: at most a window, whatever the length. [`BodyWriter::grant`] then returns how far the
//! sender may go.
//!
//! Data that arrive in [sealed memory](Sealed) are not copied at all. If func needs them whole, the pieces are mapped
//! side by side, and their descriptors are retained for the links that pass them on.

mod chunk;
mod extent;
mod passing;
mod read_range;
mod span;
mod spare;

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use bytes::Bytes;

pub use chunk::{CHUNK_MIN, Chunk};
pub use extent::{Extent, Room, Sealed};
pub use spare::Spare;

use self::chunk::Pool;
use self::extent::Extents;
use self::passing::Passing;
use self::read_range::read_range;
use self::span::Span;
use super::budget::Counted;
use super::frame::{SEGMENT, WINDOW};
use super::payload::Payload;

/// The data of a request or a reply. Cloning shares it; the clone of an arriving body reads from the same position.
#[derive(Clone)]
pub struct Body(Repr);

#[derive(Clone)]
enum Repr {
    Whole(Bytes),
    Arriving(Arc<Reader>),
    /// A range of an arriving body, with a reader of its own.
    Part(Arc<(Body, Span)>),
}

/// How the bytes of an arriving body are used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BodyUse {
    /// func gets them as a whole.
    Whole,
    /// func takes them as they arrive, and they are retained: for children that get them after func has ended, or for
    /// an adopter.
    Retained,
    /// func and the children take them as they arrive; bytes that all of them have are dropped.
    Passing,
}

/// A reader of an arriving body: the node itself, or a child's link.
struct Reader {
    body: Arc<Arriving>,
    /// How far it has read, in bytes. Changed only under the body's lock.
    place: AtomicU64,
    /// Whether it waits for permission to begin.
    waits: AtomicBool,
}

struct Arriving {
    announced: u64,
    usage: BodyUse,
    received: Mutex<Received>,
    /// The descriptors of data that arrived in sealed memory. Where both locks are taken, `received` is locked first.
    extents: Mutex<Extents>,
    /// The same data from another sender, if this sender has stopped.
    instead: OnceLock<Body>,
    pool: Arc<Pool>,
    spare: Spare,
}

/// The bytes of an arriving body that have arrived.
enum Received {
    Part(Counted<Vec<u8>>),
    /// The first piece arrived in sealed memory.
    Laid(Counted<Box<dyn Room>>),
    Whole(Bytes),
    /// It was filled whole, in parts.
    Parts(Payload),
    Passing(Passing),
    /// Out of memory: this many bytes have arrived and were dropped.
    Refused(u64),
}

impl Arriving {
    /// A poisoned lock is safe to use: it guards plain bytes, which are valid after any panic.
    fn received(&self) -> MutexGuard<'_, Received> {
        self.received.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// As for [`received`](Self::received).
    fn extents(&self) -> MutexGuard<'_, Extents> {
        self.extents.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Drops the descriptors of a passing body's bytes that every reader has read.
    fn forget_extents(&self, passing: &Passing) {
        self.extents().forget_before(passing.start());
    }

    /// Returns a copy of the bytes; long ones are copied into reused memory.
    fn copied(&self, bytes: &[u8]) -> Bytes {
        let long = (CHUNK_MIN..=SEGMENT).contains(&bytes.len());
        let chunk = long.then(|| Chunk::of(&self.pool, self.spare.budget())).flatten();
        let Some(mut chunk) = chunk else { return Bytes::copy_from_slice(bytes) };
        chunk.room()[..bytes.len()].copy_from_slice(bytes);
        chunk.fill(bytes.len());
        chunk.freeze()
    }

    /// Appends bytes to the body.
    fn take(&self, received: &mut Received, bytes: &[u8]) {
        if let Received::Laid(room) = received {
            if room.share.grow(bytes.len() as u64) && room.bytes.push(bytes) {
                return received.close_laid(self.announced);
            }
            received.copy_laid(&self.spare, self.announced);
        }
        let taken = match received {
            Received::Part(part) => {
                let taken = self.spare.append(part, bytes, self.announced);
                if part.bytes.len() as u64 == self.announced {
                    let whole = std::mem::take(part);
                    *received = Received::Whole(self.spare.share(whole));
                }
                taken
            }
            Received::Passing(passing) if !bytes.is_empty() => {
                let part = self.spare.copy(bytes, b"");
                part.map(|part| passing.push(part, &self.spare)).is_some()
            }
            Received::Refused(came) => {
                *came += bytes.len() as u64;
                true
            }
            Received::Passing(_) | Received::Laid(_) | Received::Whole(_) | Received::Parts(_) => true,
        };
        if !taken {
            received.refuse(bytes.len());
        }
    }

    fn reader(self: &Arc<Arriving>) -> Body {
        if let Received::Passing(passing) = &mut *self.received() {
            passing.enter(0);
        }
        let (place, waits) = (AtomicU64::new(0), AtomicBool::new(false));
        Body(Repr::Arriving(Arc::new(Reader { body: self.clone(), place, waits })))
    }
}

impl Received {
    fn len(&self) -> u64 {
        match self {
            Received::Part(part) => part.bytes.len() as u64,
            Received::Laid(room) => room.bytes.filled() as u64,
            Received::Whole(bytes) => bytes.len() as u64,
            Received::Parts(payload) => payload.len() as u64,
            Received::Passing(passing) => passing.end(),
            Received::Refused(came) => *came,
        }
    }

    /// Drops the arrived bytes, because there is no memory for `more` bytes.
    fn refuse(&mut self, more: usize) {
        *self = Received::Refused(self.len() + more as u64);
    }

    /// Continues in the process's own memory if the system cannot map more pieces side by side.
    fn copy_laid(&mut self, spare: &Spare, announced: u64) {
        if let Received::Laid(room) = self {
            let laid = room.bytes.view(0..room.bytes.filled());
            let mut part = Counted::default();
            match spare.append(&mut part, &laid, announced) {
                true => *self = Received::Part(part),
                false => self.refuse(0),
            }
        }
    }

    /// Completes a body of mapped pieces if all its bytes have arrived.
    fn close_laid(&mut self, announced: u64) {
        if let Received::Laid(room) = self
            && room.bytes.filled() as u64 == announced
        {
            let (bytes, share) = (room.bytes.view(0..room.bytes.filled()), std::mem::take(&mut room.share));
            *self = Received::Whole(Bytes::from_owner(Counted { bytes, share }));
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        if let Received::Passing(passing) = &mut *self.body.received() {
            passing.leave(self.place.load(Ordering::Relaxed));
            if self.waits.load(Ordering::Relaxed) {
                passing.wait(false);
            }
            self.body.forget_extents(passing);
        }
    }
}

impl Body {
    /// Returns a complete body.
    pub fn whole(bytes: impl Into<Bytes>) -> Body {
        Body(Repr::Whole(bytes.into()))
    }

    /// Returns an empty body of `announced` bytes, and the writer that fills it; func gets it whole.
    pub fn arriving(announced: u64) -> (Body, BodyWriter) {
        Body::arriving_for(announced, BodyUse::Whole)
    }

    /// Like [`arriving`](Self::arriving), for the given use of the bytes.
    pub fn arriving_for(announced: u64, usage: BodyUse) -> (Body, BodyWriter) {
        Body::arriving_in(announced, usage, &Spare::default())
    }

    /// Like [`arriving_for`](Self::arriving_for), in reused memory.
    pub fn arriving_in(announced: u64, usage: BodyUse, spare: &Spare) -> (Body, BodyWriter) {
        let start = match usage {
            _ if announced == 0 => Received::Whole(Bytes::new()),
            BodyUse::Passing => Received::Passing(Passing::default()),
            BodyUse::Whole | BodyUse::Retained => Received::Part(Counted::default()),
        };
        let (received, extents, instead) = (Mutex::new(start), Mutex::default(), OnceLock::new());
        let (pool, spare) = (Arc::default(), spare.clone());
        let arriving = Arc::new(Arriving { announced, usage, received, extents, instead, pool, spare });
        let granted = announced.min(WINDOW);
        (arriving.reader(), BodyWriter { body: arriving, granted })
    }

    /// Returns the same body for another reader that starts at its beginning, such as a child's link.
    ///
    /// Call it before any bytes are dropped: before the first [`passed`](Self::passed).
    pub fn fork(&self) -> Body {
        match &self.0 {
            Repr::Whole(_) => self.clone(),
            Repr::Arriving(reader) => reader.body.reader(),
            Repr::Part(part) => Body(Repr::Part(Arc::new((part.0.fork(), part.1)))),
        }
    }

    /// Returns the bytes of a range as a body; they are shared, and may still be arriving. The body must not be
    /// [`Passing`](BodyUse::Passing). A range beyond the end is cut off.
    pub fn part(&self, range: Range<u64>) -> Body {
        debug_assert!(
            self.usage() != BodyUse::Passing,
            "its reader would hold up all bytes before the range"
        );
        let span = Span::within(range, self.len());
        match &self.0 {
            // It need not wait for others.
            _ if span.len() == 0 => Body::default(),
            Repr::Whole(bytes) => Body::whole(bytes.slice(span.range(bytes.len()))),
            _ => Body(Repr::Part(Arc::new((self.fork(), span)))),
        }
    }

    /// Marks all bytes before `offset` as read by this reader; bytes that no other reader needs are dropped.
    pub fn passed(&self, offset: u64) {
        let reader = match &self.0 {
            Repr::Whole(_) => return,
            Repr::Arriving(reader) => reader,
            Repr::Part(part) => return part.0.passed(part.1.outer(offset)),
        };
        let mut received = reader.body.received();
        let from = reader.place.load(Ordering::Relaxed);
        let to = match &*received {
            Received::Passing(passing) => offset.min(passing.end()),
            _ => offset.min(reader.body.announced),
        };
        if to <= from {
            return;
        }
        reader.place.store(to, Ordering::Relaxed);
        if let Received::Passing(passing) = &mut *received {
            passing.advance(from, to);
            reader.body.forget_extents(passing);
            if passing.start() == reader.body.announced {
                reader.body.pool.close();
            }
        }
    }

    /// How far this reader has [read](Self::passed), in bytes.
    pub fn taken(&self) -> u64 {
        match &self.0 {
            Repr::Whole(bytes) => bytes.len() as u64,
            Repr::Arriving(reader) => reader.place.load(Ordering::Relaxed),
            Repr::Part(part) => part.1.inner(part.0.taken()),
        }
    }

    /// Sets whether this reader waits for permission to begin. While it waits, the sender does not wait for it: the
    /// bytes are retained.
    pub fn waits(&self, waits: bool) {
        let Repr::Arriving(reader) = &self.0 else { return };
        if let Received::Passing(passing) = &mut *reader.body.received()
            && reader.waits.swap(waits, Ordering::Relaxed) != waits
        {
            passing.wait(waits);
        }
    }

    /// How the bytes are used.
    pub fn usage(&self) -> BodyUse {
        match &self.0 {
            Repr::Whole(_) => BodyUse::Whole,
            Repr::Arriving(reader) => reader.body.usage,
            Repr::Part(part) => part.0.usage(),
        }
    }

    /// Whether func can take data: the whole body, or, if it takes the bytes as they arrive, any unread bytes.
    pub fn is_due(&self) -> bool {
        match self.usage() {
            BodyUse::Whole => self.is_whole(),
            BodyUse::Retained | BodyUse::Passing => {
                let arrived = self.arrived();
                !self.is_refused() && (arrived > self.taken() || arrived == self.len())
            }
        }
    }

    /// Continues with the bytes of another body of the same data, after the sender of this one is lost. All readers of
    /// this body get them, including those that have already begun.
    ///
    /// It has no effect if this body is complete, if its bytes are dropped once read, or if the lengths differ.
    pub fn follow(&self, other: &Body) {
        if self.len() != other.len() || self.is_whole() || self.usage() == BodyUse::Passing {
            return;
        }
        // Each body follows a younger one, so the loop ends at the youngest.
        let mut last = self;
        while let Repr::Arriving(reader) = &last.0 {
            match reader.body.instead.get() {
                Some(next) => last = next,
                None => {
                    // No other thread sets it: one thread owns a node's state.
                    let _ = reader.body.instead.set(other.clone());
                    return;
                }
            }
        }
    }

    /// The body that this one follows.
    fn instead(&self) -> Option<&Body> {
        match &self.0 {
            Repr::Whole(_) | Repr::Part(_) => None,
            Repr::Arriving(reader) => reader.body.instead.get(),
        }
    }

    /// Whether there was no memory for it, and no other sender supplies it.
    pub fn is_refused(&self) -> bool {
        match (&self.0, self.instead()) {
            (Repr::Part(part), _) => part.0.is_refused(),
            (_, Some(followed)) => followed.is_refused(),
            (Repr::Whole(_), None) => false,
            (Repr::Arriving(reader), None) => matches!(*reader.body.received(), Received::Refused(_)),
        }
    }

    /// Length when complete, in bytes.
    pub fn len(&self) -> u64 {
        match &self.0 {
            Repr::Whole(bytes) => bytes.len() as u64,
            Repr::Arriving(reader) => reader.body.announced,
            Repr::Part(part) => part.1.len(),
        }
    }

    /// Whether its announced length is zero.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of bytes that have arrived.
    pub fn arrived(&self) -> u64 {
        let followed = self.instead().map_or(0, Body::arrived);
        followed.max(self.arrived_here())
    }

    /// Number of bytes that have arrived in this body. Refused bytes are dropped: readers get them from the body that
    /// is followed.
    fn arrived_here(&self) -> u64 {
        match &self.0 {
            Repr::Whole(bytes) => bytes.len() as u64,
            Repr::Arriving(reader) => match &*reader.body.received() {
                Received::Refused(_) if reader.body.instead.get().is_some() => 0,
                received => received.len(),
            },
            Repr::Part(part) => part.1.inner(part.0.arrived()),
        }
    }

    /// Returns all bytes once they have arrived; always `None` if bytes are dropped once read.
    pub fn bytes(&self) -> Option<Bytes> {
        self.as_bytes().map(Cow::into_owned)
    }

    /// Like [`bytes`](Self::bytes), borrowed if it arrived in one piece: the first sharing of bytes costs an
    /// allocation.
    pub fn as_bytes(&self) -> Option<Cow<'_, Bytes>> {
        match &self.0 {
            Repr::Whole(bytes) => Some(Cow::Borrowed(bytes)),
            Repr::Arriving(reader) => match &*reader.body.received() {
                Received::Part(_) | Received::Laid(_) | Received::Refused(_) => self.instead()?.as_bytes(),
                Received::Whole(bytes) => Some(Cow::Owned(bytes.clone())),
                Received::Parts(payload) => Some(Cow::Owned(payload.to_bytes())),
                Received::Passing(_) => None,
            },
            Repr::Part(part) => {
                let base = part.0.as_bytes()?;
                Some(Cow::Owned(base.slice(part.1.range(base.len()))))
            }
        }
    }

    /// Like [`bytes`](Self::bytes), in the parts that it [was filled with](BodyWriter::fill).
    pub fn payload(&self) -> Option<Payload> {
        if let Repr::Arriving(reader) = &self.0
            && let Received::Parts(payload) = &*reader.body.received()
        {
            return Some(payload.clone());
        }
        self.bytes().map(Payload::from)
    }

    /// Whether all bytes have arrived and are present.
    pub fn is_whole(&self) -> bool {
        match &self.0 {
            Repr::Arriving(reader) if matches!(*reader.body.received(), Received::Parts(_)) => true,
            _ => self.as_bytes().is_some(),
        }
    }

    /// Returns up to `max` bytes from `offset`, as far as they have arrived; empty only if none of them is present. It
    /// copies only while a retained body is still arriving.
    pub fn read(&self, offset: u64, max: usize) -> Bytes {
        match self.instead() {
            Some(followed) if self.arrived_here() <= offset => followed.read(offset, max),
            _ => self.read_here(offset, max),
        }
    }

    fn read_here(&self, offset: u64, max: usize) -> Bytes {
        match &self.0 {
            Repr::Whole(bytes) => bytes.slice(read_range(bytes.len(), offset, max)),
            Repr::Arriving(reader) => match &*reader.body.received() {
                Received::Part(part) => {
                    reader.body.copied(&part.bytes[read_range(part.bytes.len(), offset, max)])
                }
                Received::Laid(room) => room.bytes.view(read_range(room.bytes.filled(), offset, max)),
                Received::Refused(_) => Bytes::new(),
                Received::Whole(bytes) => bytes.slice(read_range(bytes.len(), offset, max)),
                Received::Parts(payload) => payload.read(offset, max),
                Received::Passing(passing) => passing.read(offset, max),
            },
            Repr::Part(part) => match part.1.left(offset, max) {
                0 => Bytes::new(),
                max => part.0.read(part.1.outer(offset), max),
            },
        }
    }

    /// Returns the sealed memory that begins at this offset, if the bytes arrived that way and the descriptor is still
    /// retained.
    pub fn extent(&self, offset: u64) -> Option<Extent> {
        match (&self.0, self.instead()) {
            (Repr::Arriving(reader), _) if self.arrived_here() > offset => {
                reader.body.extents().at(offset).cloned()
            }
            (_, Some(followed)) => followed.extent(offset),
            _ => None,
        }
    }
}

impl Default for Body {
    fn default() -> Body {
        Body::whole(Bytes::new())
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Body({} of {} bytes)", self.arrived(), self.len())
    }
}

/// The writer that fills an arriving body.
pub struct BodyWriter {
    body: Arc<Arriving>,
    /// How far the sender may go, as last granted.
    granted: u64,
}

impl BodyWriter {
    /// Number of bytes still to come.
    pub fn missing(&self) -> u64 {
        self.body.announced - self.body.received().len()
    }

    /// Number of bytes that the sender may send before the next [grant](Self::grant).
    pub fn allowed(&self) -> u64 {
        self.granted.saturating_sub(self.body.received().len())
    }

    /// How the bytes are used.
    pub fn usage(&self) -> BodyUse {
        self.body.usage
    }

    /// Returns how far the sender may go, if the extension is large enough to announce. A body that is needed whole is
    /// granted all at once; others by at least a quarter of a window, or by what is left.
    pub fn grant(&mut self) -> Option<u64> {
        let limit = match &*self.body.received() {
            Received::Passing(passing) => passing.limit().min(self.body.announced),
            _ => self.body.announced,
        };
        let news = limit.saturating_sub(self.granted);
        if news == 0 || (news < WINDOW / 4 && limit < self.body.announced) {
            return None;
        }
        self.granted = limit;
        Some(limit)
    }

    /// Whether a later [`grant`](Self::grant) will extend the limit.
    pub fn will_grant(&self) -> bool {
        self.granted < self.body.announced
    }

    /// Whether there was no memory for some of its bytes: all of them are dropped, for good.
    pub fn is_refused(&self) -> bool {
        matches!(*self.body.received(), Received::Refused(_))
    }

    /// Returns the reason, for people.
    pub fn refusal(&self) -> String {
        self.body.spare.budget().refusal()
    }

    /// Appends received bytes, at most [`missing`](Self::missing) of them; returns how many were taken.
    pub fn push(&mut self, bytes: &[u8]) -> usize {
        let mut received = self.body.received();
        let missing = usize::try_from(self.body.announced - received.len()).unwrap_or(usize::MAX);
        let taken = bytes.len().min(missing);
        self.body.take(&mut received, &bytes[..taken]);
        taken
    }

    /// Fills the body at once with shared parts. Returns whether the length was as announced and no bytes had arrived
    /// before.
    pub fn fill(&mut self, payload: Payload) -> bool {
        let mut received = self.body.received();
        let fits = received.len() == 0 && payload.len() as u64 == self.body.announced;
        if fits {
            *received = Received::Parts(payload);
        }
        fits
    }

    /// Appends data that arrived in sealed memory, mapped instead of copied where possible. Returns false if they are
    /// longer than [`missing`](Self::missing), and then nothing has changed.
    pub fn extend(&mut self, extent: &Extent) -> bool {
        let mut received = self.body.received();
        let offset = received.len();
        if extent.length() as u64 > self.body.announced - offset {
            return false;
        }
        self.body.extents().keep(offset, extent);
        let (spare, announced) = (&self.body.spare, self.body.announced);
        if let Received::Part(part) = &*received
            && part.bytes.is_empty()
            && let Some(room) = extent.room(announced)
        {
            *received = Received::Laid(Counted { bytes: room, share: spare.budget().share() });
        }
        if let Received::Passing(passing) = &mut *received {
            match spare.retain(extent.bytes()) {
                Some(part) => {
                    passing.push(part, spare);
                    self.body.forget_extents(passing);
                }
                None => received.refuse(extent.length()),
            }
            return true;
        }
        let laid = match &mut *received {
            Received::Laid(room) => room.share.grow(extent.length() as u64) && room.bytes.lay(&**extent),
            _ => false,
        };
        match laid {
            true => received.close_laid(announced),
            false => {
                received.copy_laid(spare, announced);
                self.body.take(&mut received, &extent.bytes());
            }
        }
        true
    }

    /// Returns room for the next bytes of a passing body, to be returned with [`append`](Self::append). Returns `None`
    /// for other bodies, which grow in one buffer, and if there is no memory.
    pub fn chunk(&self) -> Option<Chunk> {
        let passes = self.body.usage == BodyUse::Passing;
        passes.then(|| Chunk::of(&self.body.pool, self.body.spare.budget())).flatten()
    }

    /// Appends the bytes of a chunk without copying them, at most [`missing`](Self::missing) of them.
    pub fn append(&mut self, chunk: Chunk) {
        let mut received = self.body.received();
        let missing = usize::try_from(self.body.announced - received.len()).unwrap_or(usize::MAX);
        let taken = chunk.filled().min(missing);
        if let Received::Passing(passing) = &mut *received
            && taken > 0
        {
            passing.push(chunk.freeze().slice(..taken), &self.body.spare);
        }
    }
}

impl fmt::Debug for BodyWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BodyWriter({} bytes missing)", self.missing())
    }
}

#[cfg(test)]
mod tests;
