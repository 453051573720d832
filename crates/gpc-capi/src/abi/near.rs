//! Objects that a thread has used lately: looking their handles up again costs no lock and no atomic change.
//!
//! A thread that drives nodes passes the same few handles millions of times. It keeps the objects of those, and checks
//! with one read that the handle has not been freed since. An object in use stays kept until the use ends.

use std::any::{Any, TypeId};
use std::cell::Cell;
use std::mem::MaybeUninit;
use std::ops::Deref;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Number of objects that a thread keeps: nodes that one thread drives, and their calls. Two handles whose slots
/// differ by a multiple of it replace each other.
const KEPT: usize = 128;

/// An object that any thread may use.
pub(crate) type Shared = Arc<dyn Any + Send + Sync>;

/// A place for an object. One line of the cache: a program that drives many nodes uses one for each turn of a node. All
/// zeros if it is free: so the entries of a thread take no space in the file of the library.
#[repr(align(64))]
struct Entry {
    /// The handle; 0 if the place is free, and then the rest does not count.
    number: Cell<u64>,
    valid: Cell<Option<&'static AtomicU64>>,
    /// Number of uses in progress.
    uses: Cell<u32>,
    /// Where the object is, and its type.
    object: Cell<*const ()>,
    of: Cell<MaybeUninit<TypeId>>,
    /// Keeps the object.
    owner: Cell<Option<Shared>>,
}

impl Entry {
    const fn free() -> Entry {
        Entry {
            number: Cell::new(0),
            valid: Cell::new(None),
            uses: Cell::new(0),
            object: Cell::new(ptr::null()),
            of: Cell::new(MaybeUninit::zeroed()),
            owner: Cell::new(None),
        }
    }
}

const _: () = assert!(size_of::<Entry>() == 64);

thread_local! {
    static ENTRIES: [Entry; KEPT] = const { [const { Entry::free() }; KEPT] };
}

/// An object in use by this thread.
pub(crate) struct Held<T> {
    object: NonNull<T>,
    /// The count of uses of its entry; null if it has none.
    uses: *const Cell<u32>,
    /// Present if the object has no entry.
    _own: Option<Arc<T>>,
}

impl<T: Any + Send + Sync> Held<T> {
    /// An object that is not kept afterwards.
    pub(crate) fn new(object: Arc<T>) -> Held<T> {
        Held { object: NonNull::from(&*object), uses: ptr::null(), _own: Some(object) }
    }

    /// An object that is kept afterwards, unless its entry is in use. `valid` has the number of its handle as long as
    /// that is valid.
    pub(crate) fn kept(object: Arc<T>, number: u64, slot: u32, valid: &'static AtomicU64) -> Held<T> {
        let place = NonNull::from(&*object);
        let mut object = Some(object);
        let keep = |entries: &[Entry; KEPT]| {
            let entry = &entries[slot as usize % KEPT];
            if entry.uses.get() > 0 {
                return None;
            }
            entry.number.set(number);
            entry.valid.set(Some(valid));
            entry.object.set(place.as_ptr().cast());
            entry.of.set(MaybeUninit::new(TypeId::of::<T>()));
            entry.uses.set(1);
            let object = object.take()?;
            Some((&raw const entry.uses, entry.owner.replace(Some(object))))
        };
        let kept = ENTRIES.try_with(keep).ok().flatten();
        match (object, kept) {
            (None, Some((uses, old))) => {
                // Its drop may run code of the application, which finds the entry in use.
                drop(old);
                Held { object: place, uses, _own: None }
            }
            // The entry is in use, or this thread ends.
            (object, _) => Held { object: place, uses: ptr::null(), _own: object },
        }
    }

    /// The object for longer than this use.
    pub(crate) fn shared(&self) -> Arc<T> {
        // SAFETY: the pointer is that of an `Arc` of this type, which the entry or `_own` keeps.
        unsafe {
            Arc::increment_strong_count(self.object.as_ptr());
            Arc::from_raw(self.object.as_ptr())
        }
    }
}

impl<T> Deref for Held<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the object lives as long as its `Arc`, which is `_own` or that of the entry. The entry does not
        // change while it has a use, and this is one. It lives until the thread ends, and this value stays in its
        // thread.
        unsafe { self.object.as_ref() }
    }
}

impl<T> Drop for Held<T> {
    #[inline]
    fn drop(&mut self) {
        if !self.uses.is_null() {
            // SAFETY: as in `deref`.
            let uses = unsafe { &*self.uses };
            uses.set(uses.get() - 1);
        }
    }
}

/// The object of a handle of this type, if the thread keeps it and the handle is valid.
#[inline]
pub(crate) fn find<T: Any>(number: u64, slot: u32) -> Option<Held<T>> {
    let find = |entries: &[Entry; KEPT]| {
        let entry = &entries[slot as usize % KEPT];
        if number == 0 || entry.number.get() != number {
            return None;
        }
        // SAFETY: an entry with a number has a type.
        let of = unsafe { entry.of.get().assume_init() };
        let is_valid = of == TypeId::of::<T>()
            && entry.valid.get().is_some_and(|valid| valid.load(Ordering::Acquire) == number);
        let object = NonNull::new(entry.object.get().cast_mut().cast::<T>()).filter(|_| is_valid)?;
        entry.uses.set(entry.uses.get() + 1);
        Some(Held { object, uses: &raw const entry.uses, _own: None })
    };
    ENTRIES.try_with(find).ok().flatten()
}

/// Forgets the object of a handle that this thread frees, unless it is in use.
pub(crate) fn forget(number: u64, slot: u32) {
    let forget = |entries: &[Entry; KEPT]| {
        let entry = &entries[slot as usize % KEPT];
        if entry.number.get() != number || entry.uses.get() > 0 {
            return None;
        }
        entry.number.set(0);
        entry.owner.take()
    };
    // Outside of the entry: its drop may run code of the application.
    drop(ENTRIES.try_with(forget));
}

#[cfg(test)]
mod tests {
    use super::*;

    static VALID: AtomicU64 = AtomicU64::new(0);

    #[test]
    fn an_object_is_found_as_long_as_its_handle_is_valid_and_its_entry_not_another_ones() {
        let (first, second) = (Arc::new(7u32), Arc::new(8u32));
        VALID.store(5, Ordering::Release);
        drop(Held::kept(first.clone(), 5, 1, &VALID));
        let found = find::<u32>(5, 1).unwrap();
        assert_eq!((*found, *found.shared()), (7, 7));
        assert_eq!(Arc::strong_count(&first), 2);
        assert!(find::<u32>(6, 1).is_none() && find::<u32>(5, 2).is_none());
        // In use, the entry does not change.
        let other = Held::kept(second.clone(), 6, 1 + KEPT as u32, &VALID);
        assert_eq!((*other, *found, *find::<u32>(5, 1).unwrap()), (8, 7, 7));
        drop((found, other));
        assert_eq!(Arc::strong_count(&second), 1);
        VALID.store(6, Ordering::Release);
        assert!(find::<u32>(5, 1).is_none(), "another thread has freed it");
        drop(Held::kept(second.clone(), 6, 1 + KEPT as u32, &VALID));
        assert_eq!((*find::<u32>(6, 1).unwrap(), Arc::strong_count(&first)), (8, 1));
        forget(5, 1);
        assert_eq!(Arc::strong_count(&second), 2);
        forget(6, 1);
        assert_eq!(Arc::strong_count(&second), 1);
        assert!(find::<u32>(6, 1).is_none());
    }

    #[test]
    fn a_use_outlives_the_handle() {
        static VALID: AtomicU64 = AtomicU64::new(9);
        let object = Arc::new(String::from("used"));
        let used = Held::kept(object.clone(), 9, 3, &VALID);
        VALID.store(0, Ordering::Release);
        forget(9, 3);
        drop(object);
        assert_eq!(*used, "used");
    }
}
