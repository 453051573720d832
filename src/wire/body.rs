//! The data of a request: whole, or still arriving segment by segment.
//!
//! A node that forwards first passes its children the same body that it is still receiving; each link reads from it what has come so
//! far. The bytes grow in one buffer, by what has arrived and never by what was announced, so that func gets them as one slice without a second copy.

use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use bytes::Bytes;

/// A request's data. Cloning shares it.
#[derive(Clone)]
pub struct Body(Repr);

#[derive(Clone)]
enum Repr {
    Whole(Bytes),
    Arriving(Arc<Arriving>),
}

struct Arriving {
    announced: u64,
    received: Mutex<Received>,
    /// The same bytes from another sender, where this one has stopped.
    instead: OnceLock<Body>,
}

/// What has come of an arriving body.
enum Received {
    Part(Vec<u8>),
    Whole(Bytes),
}

impl Arriving {
    /// The lock guards plain bytes that are valid after any panic.
    fn received(&self) -> MutexGuard<'_, Received> {
        self.received.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Body {
    /// A body that is all there.
    pub fn whole(bytes: impl Into<Bytes>) -> Body {
        Body(Repr::Whole(bytes.into()))
    }

    /// A body of `announced` bytes of which none has come yet, and the end that fills it.
    pub fn arriving(announced: u64) -> (Body, BodyWriter) {
        let start = if announced == 0 { Received::Whole(Bytes::new()) } else { Received::Part(Vec::new()) };
        let arriving =
            Arc::new(Arriving { announced, received: Mutex::new(start), instead: OnceLock::new() });
        (Body(Repr::Arriving(arriving.clone())), BodyWriter(arriving))
    }

    /// Goes on with the bytes of another body of the same data: the sender of this one is lost. Whoever reads this body gets them, also those who began before.
    ///
    /// Without effect on a body that is whole, or where the lengths differ.
    pub fn follow(&self, other: &Body) {
        if self.len() != other.len() || self.is_whole() {
            return;
        }
        // Each body follows a younger one, so that this ends at the youngest.
        let mut last = self;
        while let Repr::Arriving(arriving) = &last.0 {
            match arriving.instead.get() {
                Some(next) => last = next,
                None => {
                    // Nobody else sets it: a node's state has one thread.
                    let _ = arriving.instead.set(other.clone());
                    return;
                }
            }
        }
    }

    /// The body that this one follows.
    fn instead(&self) -> Option<&Body> {
        match &self.0 {
            Repr::Whole(_) => None,
            Repr::Arriving(arriving) => arriving.instead.get(),
        }
    }

    /// Its length when all has come, bytes.
    pub fn len(&self) -> u64 {
        match &self.0 {
            Repr::Whole(bytes) => bytes.len() as u64,
            Repr::Arriving(arriving) => arriving.announced,
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

    fn arrived_here(&self) -> u64 {
        match &self.0 {
            Repr::Whole(bytes) => bytes.len() as u64,
            Repr::Arriving(arriving) => match &*arriving.received() {
                Received::Part(part) => part.len() as u64,
                Received::Whole(bytes) => bytes.len() as u64,
            },
        }
    }

    /// All of it, once all has come.
    pub fn bytes(&self) -> Option<Bytes> {
        self.as_bytes().map(Cow::into_owned)
    }

    /// Like [`bytes`](Self::bytes), borrowed where it came in one piece: to share bytes for the first time costs an allocation.
    pub fn as_bytes(&self) -> Option<Cow<'_, Bytes>> {
        match &self.0 {
            Repr::Whole(bytes) => Some(Cow::Borrowed(bytes)),
            Repr::Arriving(arriving) => match &*arriving.received() {
                Received::Part(_) => self.instead()?.as_bytes(),
                Received::Whole(bytes) => Some(Cow::Owned(bytes.clone())),
            },
        }
    }

    /// Whether all of it has come.
    pub fn is_whole(&self) -> bool {
        self.as_bytes().is_some()
    }

    /// Up to `max` bytes from `offset`, as far as they have come. Copies only while the body is still arriving.
    pub fn read(&self, offset: u64, max: usize) -> Bytes {
        match self.instead() {
            Some(followed) if self.arrived_here() <= offset => followed.read(offset, max),
            _ => self.read_here(offset, max),
        }
    }

    fn read_here(&self, offset: u64, max: usize) -> Bytes {
        match &self.0 {
            Repr::Whole(bytes) => bytes.slice(window(bytes.len(), offset, max)),
            Repr::Arriving(arriving) => match &*arriving.received() {
                Received::Part(part) => Bytes::copy_from_slice(&part[window(part.len(), offset, max)]),
                Received::Whole(bytes) => bytes.slice(window(bytes.len(), offset, max)),
            },
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
pub struct BodyWriter(Arc<Arriving>);

impl BodyWriter {
    /// How many bytes are still to come.
    pub fn missing(&self) -> u64 {
        match &*self.0.received() {
            Received::Part(part) => self.0.announced - part.len() as u64,
            Received::Whole(_) => 0,
        }
    }

    /// Appends what has come: at most [`missing`](Self::missing) bytes; returns how many were taken.
    pub fn push(&mut self, bytes: &[u8]) -> usize {
        let mut received = self.0.received();
        let Received::Part(part) = &mut *received else { return 0 };
        let missing = usize::try_from(self.0.announced - part.len() as u64).unwrap_or(usize::MAX);
        let taken = bytes.len().min(missing);
        part.extend_from_slice(&bytes[..taken]);
        if part.len() as u64 == self.0.announced {
            let whole = std::mem::take(part);
            *received = Received::Whole(Bytes::from(whole));
        }
        taken
    }
}

impl fmt::Debug for BodyWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BodyWriter({} bytes missing)", self.missing())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_grows_by_what_arrives_and_can_be_read_meanwhile() {
        let (body, mut writer) = Body::arriving(10);
        assert_eq!((body.len(), body.arrived(), body.bytes()), (10, 0, None));
        assert_eq!(writer.push(b"0123"), 4);
        assert_eq!(body.read(2, 100).as_ref(), b"23");
        assert_eq!(body.read(9, 100).as_ref(), b"");
        assert_eq!(writer.missing(), 6);
        assert_eq!(writer.push(b"456789and too much"), 6);
        assert_eq!(body.bytes().unwrap().as_ref(), b"0123456789");
        assert_eq!(writer.push(b"x"), 0);
        assert_eq!(body.read(u64::MAX, 3).as_ref(), b"");
    }

    #[test]
    fn an_announced_length_takes_no_memory() {
        let (body, mut writer) = Body::arriving(u64::MAX);
        assert_eq!(writer.push(&[7; 100]), 100);
        assert_eq!(body.arrived(), 100);
    }

    #[test]
    fn a_body_goes_on_with_the_one_that_it_follows() {
        let (body, mut writer) = Body::arriving(10);
        writer.push(b"0123");
        let (second, mut other) = Body::arriving(10);
        other.push(b"01");
        body.follow(&second);
        assert_eq!((body.arrived(), body.read(2, 100).as_ref()), (4, &b"23"[..]));
        assert_eq!(body.read(4, 100).as_ref(), b"");
        other.push(b"234567");
        assert_eq!((body.arrived(), body.read(4, 2).as_ref(), body.bytes()), (8, &b"45"[..], None));
        // The second stops too; a third is whole, and one of another length is none of this data.
        body.follow(&Body::whole("x"));
        body.follow(&Body::whole("0123456789"));
        assert_eq!(body.bytes().unwrap().as_ref(), b"0123456789");
        assert_eq!((body.read(8, 9).as_ref(), second.read(0, 2).as_ref()), (&b"89"[..], &b"01"[..]));
        // The first sender is heard no more, and breaks nothing.
        assert_eq!((writer.missing(), writer.push(b"4567"), body.arrived()), (6, 4, 10));
        body.follow(&Body::whole("9876543210"));
        assert_eq!(body.bytes().unwrap().as_ref(), b"0123456789");
    }

    #[test]
    fn an_empty_body_is_whole_at_once() {
        let (body, writer) = Body::arriving(0);
        assert_eq!((body.bytes(), writer.missing()), (Some(Bytes::new()), 0));
    }
}
