//! The data of a request, or of a reply that is passed on: whole, or still arriving segment by segment.
//!
//! A node that forwards first passes its children the same body that it is still receiving; each link reads from it what has come so
//! far. Where func wants its data whole, the bytes grow in one buffer, by what has arrived and never by what was announced, so that func gets them as one slice without a second copy. Where it takes them
//! as they come, and nobody else may ask for them later, they stay until func and every child's link has them: a window, whatever the length. [`BodyWriter::grant`] says then how far the sender may go.
//! What comes in [sealed memory](Sealed) of its own is not copied at all: where func wants it whole the pieces are laid side by side, and their descriptors wait for the links that pass them on.

mod chunk;
mod extent;
mod passing;
mod spare;

use std::borrow::Cow;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use bytes::Bytes;

pub use chunk::{CHUNK_MIN, Chunk};
pub use extent::{Extent, Room, Sealed};
pub use spare::Spare;

use self::chunk::Pool;
use self::extent::Extents;
use self::passing::Passing;
use super::budget::Counted;
use super::frame::{SEGMENT, WINDOW};
use super::payload::Payload;

/// The data of a request or a reply. Cloning shares it; a clone of an arriving body reads at the same place as the one it was made of.
#[derive(Clone)]
pub struct Body(Repr);

#[derive(Clone)]
enum Repr {
    Whole(Bytes),
    Arriving(Arc<Reader>),
}

/// What becomes of the bytes of an arriving body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Use {
    /// func gets them whole.
    Whole,
    /// func takes them as they come, and they are kept for others: for children that get them after func has ended, or for an adopter.
    Kept,
    /// func takes them as they come, and so do the children: what all have is dropped.
    Passing,
}

/// One who reads an arriving body: the node itself, or a child's link.
struct Reader {
    body: Arc<Arriving>,
    /// How far it has read. It changes under the body's lock alone.
    place: AtomicU64,
    /// Whether it waits for leave to begin.
    waits: AtomicBool,
}

struct Arriving {
    announced: u64,
    usage: Use,
    received: Mutex<Received>,
    /// The descriptors of what came in sealed memory. Locked behind `received`, where both are.
    extents: Mutex<Extents>,
    /// The same bytes from another sender, where this one has stopped.
    instead: OnceLock<Body>,
    pool: Arc<Pool>,
    spare: Spare,
}

/// What has come of an arriving body.
enum Received {
    Part(Counted<Vec<u8>>),
    /// It began in sealed memory.
    Laid(Counted<Box<dyn Room>>),
    Whole(Bytes),
    /// It was given whole, in parts.
    Parts(Payload),
    Passing(Passing),
    /// There was no memory for more. So many have come, and they are gone.
    Refused(u64),
}

impl Arriving {
    /// The lock guards plain bytes that are valid after any panic.
    fn received(&self) -> MutexGuard<'_, Received> {
        self.received.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// As for [`received`](Self::received).
    fn extents(&self) -> MutexGuard<'_, Extents> {
        self.extents.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What every reader has passed of a body that passes through is passed on no more.
    fn forget_extents(&self, passing: &Passing) {
        self.extents().forget_before(passing.start());
    }

    /// A copy of some of the bytes; long ones in memory that is used again.
    fn copied(&self, bytes: &[u8]) -> Bytes {
        let long = (CHUNK_MIN..=SEGMENT).contains(&bytes.len());
        let chunk = long.then(|| Chunk::of(&self.pool, self.spare.budget())).flatten();
        let Some(mut chunk) = chunk else { return Bytes::copy_from_slice(bytes) };
        chunk.room()[..bytes.len()].copy_from_slice(bytes);
        chunk.fill(bytes.len());
        chunk.freeze()
    }

    /// Takes bytes that belong to it.
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

    /// Drops what has come, since there is no memory for so many bytes more.
    fn refuse(&mut self, more: usize) {
        *self = Received::Refused(self.len() + more as u64);
    }

    /// Goes on in memory of the process's own, where the system has none for what was laid side by side.
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

    /// What was laid side by side, if that is all.
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
    /// A body that is all there.
    pub fn whole(bytes: impl Into<Bytes>) -> Body {
        Body(Repr::Whole(bytes.into()))
    }

    /// A body of `announced` bytes of which none has come yet, and the end that fills it; func gets it whole.
    pub fn arriving(announced: u64) -> (Body, BodyWriter) {
        Body::arriving_for(announced, Use::Whole)
    }

    /// Like [`arriving`](Self::arriving), for whatever becomes of the bytes.
    pub fn arriving_for(announced: u64, usage: Use) -> (Body, BodyWriter) {
        Body::arriving_in(announced, usage, &Spare::default())
    }

    /// Like [`arriving_for`](Self::arriving_for), in memory that is used again.
    pub fn arriving_in(announced: u64, usage: Use, spare: &Spare) -> (Body, BodyWriter) {
        let start = match usage {
            _ if announced == 0 => Received::Whole(Bytes::new()),
            Use::Passing => Received::Passing(Passing::default()),
            Use::Whole | Use::Kept => Received::Part(Counted::default()),
        };
        let (received, extents, instead) = (Mutex::new(start), Mutex::default(), OnceLock::new());
        let (pool, spare) = (Arc::default(), spare.clone());
        let arriving = Arc::new(Arriving { announced, usage, received, extents, instead, pool, spare });
        let granted = announced.min(WINDOW);
        (arriving.reader(), BodyWriter { body: arriving, granted })
    }

    /// The same body for another who reads it from its beginning, such as a child's link.
    ///
    /// To be made before anything is dropped: before the first [`passed`](Self::passed).
    pub fn fork(&self) -> Body {
        match &self.0 {
            Repr::Whole(_) => self.clone(),
            Repr::Arriving(reader) => reader.body.reader(),
        }
    }

    /// Notes that this reader has all bytes before `offset`; where nobody else needs them, they are dropped.
    pub fn passed(&self, offset: u64) {
        let Repr::Arriving(reader) = &self.0 else { return };
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

    /// How far this reader has come, bytes: what it has [passed](Self::passed).
    pub fn taken(&self) -> u64 {
        match &self.0 {
            Repr::Whole(bytes) => bytes.len() as u64,
            Repr::Arriving(reader) => reader.place.load(Ordering::Relaxed),
        }
    }

    /// Notes whether this reader waits for leave to begin. As long as it does, nothing waits for it: the bytes are kept.
    pub fn waits(&self, waits: bool) {
        let Repr::Arriving(reader) = &self.0 else { return };
        if let Received::Passing(passing) = &mut *reader.body.received()
            && reader.waits.swap(waits, Ordering::Relaxed) != waits
        {
            passing.wait(waits);
        }
    }

    /// What becomes of its bytes.
    pub fn usage(&self) -> Use {
        match &self.0 {
            Repr::Whole(_) => Use::Whole,
            Repr::Arriving(reader) => reader.body.usage,
        }
    }

    /// Whether func may have it: all of it, or if it takes the bytes as they come, any that it has not.
    pub fn is_due(&self) -> bool {
        match &self.0 {
            Repr::Arriving(reader) if reader.body.usage != Use::Whole => {
                let arrived = self.arrived();
                !self.is_refused()
                    && (arrived > reader.place.load(Ordering::Relaxed) || arrived == self.len())
            }
            _ => self.is_whole(),
        }
    }

    /// Goes on with the bytes of another body of the same data: the sender of this one is lost. Whoever reads this body gets them, also those who began before.
    ///
    /// Without effect on a body that is whole or whose bytes are dropped, or where the lengths differ.
    pub fn follow(&self, other: &Body) {
        if self.len() != other.len() || self.is_whole() || self.usage() == Use::Passing {
            return;
        }
        // Each body follows a younger one, so that this ends at the youngest.
        let mut last = self;
        while let Repr::Arriving(reader) = &last.0 {
            match reader.body.instead.get() {
                Some(next) => last = next,
                None => {
                    // Nobody else sets it: a node's state has one thread.
                    let _ = reader.body.instead.set(other.clone());
                    return;
                }
            }
        }
    }

    /// The body that this one follows.
    fn instead(&self) -> Option<&Body> {
        match &self.0 {
            Repr::Whole(_) => None,
            Repr::Arriving(reader) => reader.body.instead.get(),
        }
    }

    /// Whether there was no memory for it, and nobody else brings it.
    pub fn is_refused(&self) -> bool {
        match (&self.0, self.instead()) {
            (_, Some(followed)) => followed.is_refused(),
            (Repr::Whole(_), None) => false,
            (Repr::Arriving(reader), None) => matches!(*reader.body.received(), Received::Refused(_)),
        }
    }

    /// Its length when all has come, bytes.
    pub fn len(&self) -> u64 {
        match &self.0 {
            Repr::Whole(bytes) => bytes.len() as u64,
            Repr::Arriving(reader) => reader.body.announced,
        }
    }

    /// Whether it is empty by announcement.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many bytes have come.
    pub fn arrived(&self) -> u64 {
        let followed = self.instead().map_or(0, Body::arrived);
        followed.max(self.arrived_here())
    }

    /// How many of them here. What was refused is gone, and whoever reads on has it of the body that is followed.
    fn arrived_here(&self) -> u64 {
        match &self.0 {
            Repr::Whole(bytes) => bytes.len() as u64,
            Repr::Arriving(reader) => match &*reader.body.received() {
                Received::Refused(_) if reader.body.instead.get().is_some() => 0,
                received => received.len(),
            },
        }
    }

    /// All of it, once all has come; never of one whose bytes are dropped.
    pub fn bytes(&self) -> Option<Bytes> {
        self.as_bytes().map(Cow::into_owned)
    }

    /// Like [`bytes`](Self::bytes), borrowed where it came in one piece: to share bytes for the first time costs an allocation.
    pub fn as_bytes(&self) -> Option<Cow<'_, Bytes>> {
        match &self.0 {
            Repr::Whole(bytes) => Some(Cow::Borrowed(bytes)),
            Repr::Arriving(reader) => match &*reader.body.received() {
                Received::Part(_) | Received::Laid(_) | Received::Refused(_) => self.instead()?.as_bytes(),
                Received::Whole(bytes) => Some(Cow::Owned(bytes.clone())),
                Received::Parts(payload) => Some(Cow::Owned(payload.to_bytes())),
                Received::Passing(_) => None,
            },
        }
    }

    /// Like [`bytes`](Self::bytes), in the parts that it [was given in](BodyWriter::fill).
    pub fn payload(&self) -> Option<Payload> {
        if let Repr::Arriving(reader) = &self.0
            && let Received::Parts(payload) = &*reader.body.received()
        {
            return Some(payload.clone());
        }
        self.bytes().map(Payload::from)
    }

    /// Whether all of it has come, and is there.
    pub fn is_whole(&self) -> bool {
        match &self.0 {
            Repr::Arriving(reader) if matches!(*reader.body.received(), Received::Parts(_)) => true,
            _ => self.as_bytes().is_some(),
        }
    }

    /// Up to `max` bytes from `offset`, as far as they have come: none only if none of them is there. Copies only while a body that is kept is still arriving.
    pub fn read(&self, offset: u64, max: usize) -> Bytes {
        match self.instead() {
            Some(followed) if self.arrived_here() <= offset => followed.read(offset, max),
            _ => self.read_here(offset, max),
        }
    }

    fn read_here(&self, offset: u64, max: usize) -> Bytes {
        match &self.0 {
            Repr::Whole(bytes) => bytes.slice(window(bytes.len(), offset, max)),
            Repr::Arriving(reader) => match &*reader.body.received() {
                Received::Part(part) => {
                    reader.body.copied(&part.bytes[window(part.bytes.len(), offset, max)])
                }
                Received::Laid(room) => room.bytes.view(window(room.bytes.filled(), offset, max)),
                Received::Refused(_) => Bytes::new(),
                Received::Whole(bytes) => bytes.slice(window(bytes.len(), offset, max)),
                Received::Parts(payload) => payload.read(offset, max),
                Received::Passing(passing) => passing.read(offset, max),
            },
        }
    }

    /// The sealed memory that begins at this offset, if the bytes from there came so, and its descriptor is still there.
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

/// The range of at most `max` bytes from `offset`, cut to `len`.
fn window(len: usize, offset: u64, max: usize) -> std::ops::Range<usize> {
    let start = usize::try_from(offset).unwrap_or(len).min(len);
    start..start.saturating_add(max).min(len)
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

/// The end of an arriving body that fills it.
pub struct BodyWriter {
    body: Arc<Arriving>,
    /// How far the sender may go, as it knows.
    granted: u64,
}

impl BodyWriter {
    /// How many bytes are still to come.
    pub fn missing(&self) -> u64 {
        self.body.announced - self.body.received().len()
    }

    /// How many bytes the sender may still send before it hears [how far it may go on](Self::grant).
    pub fn allowed(&self) -> u64 {
        self.granted.saturating_sub(self.body.received().len())
    }

    /// What becomes of the bytes.
    pub fn usage(&self) -> Use {
        self.body.usage
    }

    /// How far the sender may go from now on, if that is enough news to tell it: a whole body's all at once, of others a quarter of a window or what is left.
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

    /// Whether [`grant`](Self::grant) will have more to say some time.
    pub fn will_grant(&self) -> bool {
        self.granted < self.body.announced
    }

    /// Whether there was no memory for some that came: it has none of its bytes any more, and never will.
    pub fn is_refused(&self) -> bool {
        matches!(*self.body.received(), Received::Refused(_))
    }

    /// Why, in words.
    pub fn refusal(&self) -> String {
        self.body.spare.budget().refusal()
    }

    /// Appends what has come: at most [`missing`](Self::missing) bytes; returns how many were taken.
    pub fn push(&mut self, bytes: &[u8]) -> usize {
        let mut received = self.body.received();
        let missing = usize::try_from(self.body.announced - received.len()).unwrap_or(usize::MAX);
        let taken = bytes.len().min(missing);
        self.body.take(&mut received, &bytes[..taken]);
        taken
    }

    /// Gives all of it at once, shared with whoever else holds its parts; says whether it was as long as announced, and nothing had come before.
    pub fn fill(&mut self, payload: Payload) -> bool {
        let mut received = self.body.received();
        let fits = received.len() == 0 && payload.len() as u64 == self.body.announced;
        if fits {
            *received = Received::Parts(payload);
        }
        fits
    }

    /// Appends what has come in sealed memory, without copying it where it can be mapped; says whether it was as much as is [missing](Self::missing) at most, and taken.
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
            match spare.hold(extent.bytes()) {
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

    /// Room for the next bytes of a body that passes through, to be given back with [`append`](Self::append); `None` of others, which grow in one buffer, and where there is no memory for it.
    pub fn chunk(&self) -> Option<Chunk> {
        let passes = self.body.usage == Use::Passing;
        passes.then(|| Chunk::of(&self.body.pool, self.body.spare.budget())).flatten()
    }

    /// Appends the bytes of a chunk without copying them: at most [`missing`](Self::missing) of them.
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
