//! Handles: numbers that C programs hold in place of pointers, and the table of the objects behind them.
//!
//! A handle is never followed as a pointer: it is looked up. So a freed handle, a handle of another type and an
//! arbitrary number are errors and not undefined behaviour. An object that a thread uses lives until that use ends,
//! even if another thread frees its handle.
//!
//! The table is the only state of the process as a whole. It does not connect contexts with each other. A forked child
//! has a table of its own, because a lock of its parent's table may be held by a thread that the child does not have.

use std::any::Any;
use std::cell::Cell;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::abi::exclusive::Exclusive;
use crate::abi::near::{self, Held, Shared};
use crate::error::{Error, Result};
use crate::process::{GENERATIONS, generation, watch_forks};
use crate::status::{CGPC_ERR_FORKED, CGPC_ERR_LENGTH};

/// The type of the object of a handle, or of a value that exists while a function runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Kind {
    Context = 1,
    Call,
    Outcome,
    Token,
    Tree,
    Events,
    Request,
    Reply,
    Gpc,
    Rendezvous,
    Completion,
    Subscription,
    Impi,
    Bnr,
    BnrInfo,
}

impl Kind {
    fn of(number: u64) -> Option<Kind> {
        use Kind::*;
        let core = [Context, Call, Outcome, Token, Tree, Events, Request, Reply, Gpc];
        let services = [Rendezvous, Completion, Subscription, Impi, Bnr, BnrInfo];
        core.into_iter().chain(services).find(|kind| *kind as u64 == number)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Context => "cgpc_context",
            Kind::Call => "cgpc_call",
            Kind::Outcome => "cgpc_outcome",
            Kind::Token => "cgpc_token",
            Kind::Tree => "cgpc_tree",
            Kind::Events => "cgpc_events",
            Kind::Request => "cgpc_request",
            Kind::Reply => "cgpc_reply",
            Kind::Gpc => "gpc_hdl_t",
            Kind::Rendezvous => "cgpc_rendezvous",
            Kind::Completion => "cgpc_completion",
            Kind::Subscription => "cgpc_subscription",
            Kind::Impi => "cgpc_impi",
            Kind::Bnr => "link of BNR",
            Kind::BnrInfo => "BNR_Info",
        })
    }
}

/// An object that has handles.
pub(crate) trait Object: Any + Send + Sync {
    /// Its type in C.
    const KIND: Kind;

    /// Whether threads keep it for their next use, also after another thread has freed its handle: it is small then.
    const IS_KEPT: bool = false;
}

/// A handle as a number. From the lowest bit: 1, kind (7 bits), place (48 bits), generation of the process (8 bits).
/// The lowest bit makes a mistaken use as a pointer fail early.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Handle(pub(crate) u64);

/// Number of bits of a place.
pub(crate) const PLACE_BITS: u32 = 48;

impl Handle {
    /// Makes the handle of a place in this process.
    pub(crate) fn new(kind: Kind, place: u64) -> Handle {
        let place = place & ((1 << PLACE_BITS) - 1);
        Handle((generation() as u64) << 56 | place << 8 | (kind as u64) << 1 | 1)
    }

    /// The place of a handle of this kind.
    ///
    /// # Errors
    /// If it is null, not a handle, of another kind, or of the process that forked this one.
    #[inline]
    pub(crate) fn place(self, kind: Kind) -> Result<u64> {
        let Handle(number) = self;
        if number & 0xff == (kind as u64) << 1 | 1 && (number >> 56) as usize == generation() {
            return Ok(number >> 8 & ((1 << PLACE_BITS) - 1));
        }
        Err(self.is_not(kind))
    }

    /// Why this is not a handle of this kind in this process.
    #[cold]
    #[inline(never)]
    fn is_not(self, kind: Kind) -> Error {
        let Handle(number) = self;
        let is = if number & 1 == 1 { Kind::of(number >> 1 & 0x7f) } else { None };
        match is {
            _ if number == 0 => Error::argument(format!("null was passed where a {kind} is needed")),
            None => Error::argument(format!("{number:#x} is not a {kind}, or any handle")),
            Some(is) if is != kind => Error::argument(format!("a {is} was passed where a {kind} is needed")),
            Some(_) => forked(kind),
        }
    }
}

/// The error of a handle of the process that forked this one.
fn forked(kind: Kind) -> Error {
    let message =
        format!("this {kind} belongs to the process that forked this one, and only that process can use it");
    Error::new(CGPC_ERR_FORKED, message)
}

/// Slots of the first chunk; each further chunk has twice as many.
const FIRST_CHUNK: u32 = 64;

/// Number of chunks: 2^24 handles in all, as many as a place can name.
const CHUNKS: usize = 18;

/// Number of slots of all chunks.
const SLOTS: u32 = FIRST_CHUNK * ((1 << CHUNKS) - 1);

/// Bits of a place that name the slot. The others are the number of times that the slot has been used.
const SLOT_BITS: u32 = 24;

const _: () = assert!(SLOTS <= 1 << SLOT_BITS);

/// A place of the table.
#[derive(Default)]
struct Slot {
    /// The handle, as long as it is valid. Changed by the thread that uses the content.
    valid: AtomicU64,
    content: Exclusive<Content>,
}

#[derive(Default)]
struct Content {
    /// Number of uses, so that a freed handle is not mistaken for the next one.
    uses: u32,
    object: Option<Shared>,
}

type Chunk = Box<[Slot]>;

/// Slots that are free.
#[derive(Default)]
struct Free {
    slots: Vec<u32>,
    /// The slots from here on have never been used.
    fresh: u32,
}

/// The objects of a process by their handles. Chunks are never freed or moved, so a look-up uses one slot only.
struct Table {
    chunks: [OnceLock<Chunk>; CHUNKS],
    free: Mutex<Free>,
}

/// Number of free slots that a thread keeps for the handles that it makes next, without a lock.
const OWN_MAX: usize = 32;

/// Free slots of one thread.
struct Own {
    /// The generation of the process whose table they are of.
    generation: Cell<usize>,
    slots: [Cell<u32>; OWN_MAX],
    /// How many of them there are.
    count: Cell<usize>,
}

impl Own {
    fn take(&self) -> Option<u32> {
        let count = self.count.get().checked_sub(1)?;
        self.count.set(count);
        self.slots.get(count).map(Cell::get)
    }

    /// Keeps a slot, if there is room.
    fn keep(&self, slot: u32) -> bool {
        let count = self.count.get();
        let Some(place) = self.slots.get(count) else { return false };
        place.set(slot);
        self.count.set(count + 1);
        true
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        if self.generation.get() == generation()
            && let Some(table) = TABLES[self.generation.get()].get()
        {
            lock(&table.free).slots.extend(std::iter::from_fn(|| self.take()));
        }
    }
}

thread_local! {
    static OWN: Own = const {
        Own { generation: Cell::new(0), slots: [const { Cell::new(0) }; OWN_MAX], count: Cell::new(0) }
    };
}

/// Uses the free slots of this thread; `None` while the thread ends.
fn own<T>(run: impl FnOnce(&Own) -> T) -> Option<T> {
    let run = |own: &Own| {
        if own.generation.get() != generation() {
            // Those of the process that forked this one are not of this table.
            own.generation.set(generation());
            own.count.set(0);
        }
        run(own)
    };
    OWN.try_with(run).ok()
}

static TABLES: [OnceLock<Box<Table>>; GENERATIONS] = [const { OnceLock::new() }; GENERATIONS];

/// No code panics while it holds a lock of this module, except in the drop of an object, which holds none.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The chunk of a slot, and the slot's index in it.
fn chunk_of(slot: u32) -> (usize, usize) {
    let chunk = (slot / FIRST_CHUNK + 1).ilog2();
    (chunk as usize, (slot - FIRST_CHUNK * ((1 << chunk) - 1)) as usize)
}

impl Table {
    fn of_this_process() -> &'static Table {
        TABLES[generation()].get_or_init(|| {
            Box::new(Table { chunks: [const { OnceLock::new() }; CHUNKS], free: Mutex::default() })
        })
    }

    fn take_free(&self) -> Option<u32> {
        if let Some(slot) = own(Own::take).flatten() {
            return Some(slot);
        }
        let mut free = lock(&self.free);
        free.slots.pop().or_else(|| {
            let slot = free.fresh;
            (slot < SLOTS).then(|| {
                free.fresh += 1;
                slot
            })
        })
    }

    fn free(&self, slot: u32) {
        if own(|own| own.keep(slot)) != Some(true) {
            lock(&self.free).slots.push(slot);
        }
    }

    /// A slot, if it has ever been used.
    fn slot(&'static self, slot: u32) -> Option<&'static Slot> {
        let (chunk, index) = chunk_of(slot);
        self.chunks.get(chunk)?.get()?.get(index)
    }
}

/// The slot of a place.
fn slot_of(place: u64) -> u32 {
    place as u32 & ((1 << SLOT_BITS) - 1)
}

/// The number of uses in a place.
fn uses_of(place: u64) -> u32 {
    (place >> SLOT_BITS) as u32
}

/// Gives an object a handle.
///
/// # Errors
/// If there are 2^24 handles already.
pub(crate) fn insert<T: Object>(object: Arc<T>) -> Result<Handle> {
    watch_forks();
    let table = Table::of_this_process();
    let full = || Error::new(CGPC_ERR_LENGTH, format!("there are {SLOTS} handles already: free some"));
    let slot = table.take_free().ok_or_else(full)?;
    let (chunk, index) = chunk_of(slot);
    let slots =
        table.chunks[chunk].get_or_init(|| (0..FIRST_CHUNK << chunk).map(|_| Slot::default()).collect());
    let mut content = slots[index].content.use_soon();
    content.uses = (content.uses + 1) % (1 << (PLACE_BITS - SLOT_BITS));
    let handle = Handle::new(T::KIND, u64::from(content.uses) << SLOT_BITS | u64::from(slot));
    let kept = T::IS_KEPT.then(|| object.clone());
    content.object = Some(object);
    slots[index].valid.store(handle.0, Ordering::Release);
    drop(content);
    if let Some(kept) = kept {
        drop(Held::kept(kept, handle.0, slot, &slots[index].valid));
    }
    Ok(handle)
}

/// The object of a handle.
///
/// # Errors
/// As for [`Handle::place`], and if it was freed.
#[inline]
pub(crate) fn get<T: Object>(handle: Handle) -> Result<Held<T>> {
    let place = handle.place(T::KIND)?;
    if T::IS_KEPT
        && let Some(held) = near::find(handle.0, slot_of(place))
    {
        return Ok(held);
    }
    look_up(handle, place)
}

#[inline(never)]
fn look_up<T: Object>(handle: Handle, place: u64) -> Result<Held<T>> {
    let slot = Table::of_this_process().slot(slot_of(place)).ok_or_else(|| freed(T::KIND))?;
    let content = slot.content.use_soon();
    let object = content.object.as_ref().filter(|_| content.uses == uses_of(place)).cloned();
    drop(content);
    let object = object.and_then(|object| object.downcast().ok()).ok_or_else(|| freed(T::KIND))?;
    Ok(match T::IS_KEPT {
        true => Held::kept(object, handle.0, slot_of(place), &slot.valid),
        false => Held::new(object),
    })
}

/// Frees a handle, and returns its object.
///
/// # Errors
/// As for [`get`].
pub(crate) fn remove<T: Object>(handle: Handle) -> Result<Arc<T>> {
    let place = handle.place(T::KIND)?;
    let table = Table::of_this_process();
    let slot = table.slot(slot_of(place)).ok_or_else(|| freed(T::KIND))?;
    let mut content = slot.content.use_soon();
    let is_there = content.object.as_ref().is_some_and(|object| object.is::<T>());
    let object = if content.uses == uses_of(place) && is_there { content.object.take() } else { None };
    let object = object.ok_or_else(|| freed(T::KIND))?;
    slot.valid.store(0, Ordering::Release);
    drop(content);
    if T::IS_KEPT {
        near::forget(handle.0, slot_of(place));
    }
    table.free(slot_of(place));
    object.downcast().map_err(|_| freed(T::KIND))
}

fn freed(kind: Kind) -> Error {
    Error::argument(format!("this {kind} was freed, or never existed"))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Thing(u32);

    impl Object for Thing {
        const KIND: Kind = Kind::Tree;
        const IS_KEPT: bool = true;
    }

    struct Other;

    impl Object for Other {
        const KIND: Kind = Kind::Events;
    }

    fn refused<T: Object>(handle: Handle) -> String {
        get::<T>(handle).err().expect("it is refused").message.clone()
    }

    #[test]
    fn a_handle_leads_to_its_object_until_it_is_freed() {
        let handle = insert(Arc::new(Thing(7))).unwrap();
        let used = get::<Thing>(handle).unwrap();
        assert_eq!(remove::<Thing>(handle).unwrap().0, 7);
        assert_eq!(used.0, 7, "a use in progress goes on");
        assert!(refused::<Thing>(handle).contains("was freed"));
        assert!(remove::<Thing>(handle).is_err());
        let next = insert(Arc::new(Thing(8))).unwrap();
        assert!(refused::<Thing>(handle).contains("was freed"), "the slot may have another object now");
        remove::<Thing>(next).unwrap();
    }

    /// The thread keeps it for the next use; the drop of its handle ends that.
    #[test]
    fn an_object_of_a_freed_handle_is_dropped() {
        let object = Arc::new(Thing(7));
        let handle = insert(object.clone()).unwrap();
        assert_eq!(get::<Thing>(handle).unwrap().0, 7);
        drop(remove::<Thing>(handle).unwrap());
        assert_eq!(Arc::strong_count(&object), 1);
    }

    #[test]
    fn what_is_no_handle_of_the_type_is_refused() {
        let handle = insert(Arc::new(Other)).unwrap();
        assert_eq!(refused::<Thing>(handle), "a cgpc_events was passed where a cgpc_tree is needed");
        assert_eq!(refused::<Thing>(Handle(0)), "null was passed where a cgpc_tree is needed");
        // A pointer to memory, a byte, and numbers that only look like handles.
        let memory = Box::new(0u64);
        for number in [&raw const *memory as u64, 1, u64::MAX, 0x5b, !0xff | 0x0b] {
            assert!(get::<Thing>(Handle(number)).is_err(), "{number:#x}");
            assert!(remove::<Thing>(Handle(number)).is_err(), "{number:#x}");
        }
        remove::<Other>(handle).unwrap();
    }

    #[test]
    fn a_handle_of_another_generation_is_of_the_parent() {
        let handle = insert(Arc::new(Thing(1))).unwrap();
        assert!(get::<Thing>(handle).is_ok());
        let other = Handle(handle.0 ^ 1 << 56);
        assert_eq!(get::<Thing>(other).err().unwrap().status, CGPC_ERR_FORKED);
        remove::<Thing>(handle).unwrap();
    }

    /// Other tests use the table, too, so the slot of a freed handle may have another object first.
    #[test]
    fn a_freed_handle_does_not_lead_to_the_next_object_in_its_slot() {
        let slot = |handle: Handle| handle.0 >> 8 & ((1 << SLOT_BITS) - 1);
        let mut reused = 0;
        for _ in 0..1000 {
            let old = insert(Arc::new(Thing(1))).unwrap();
            remove::<Thing>(old).unwrap();
            let next = insert(Arc::new(Thing(2))).unwrap();
            reused += u32::from(slot(old) == slot(next));
            assert!(get::<Thing>(old).is_err() && remove::<Thing>(old).is_err());
            assert_eq!(remove::<Thing>(next).unwrap().0, 2);
        }
        assert!(reused > 500, "{reused} slots were used again");
    }

    #[test]
    fn slots_fill_the_chunks_without_a_gap() {
        let mut expected = (0, 0);
        for slot in 0..FIRST_CHUNK * 15 {
            assert_eq!(chunk_of(slot), expected);
            expected.1 += 1;
            if expected.1 == (FIRST_CHUNK as usize) << expected.0 {
                expected = (expected.0 + 1, 0);
            }
        }
        assert_eq!(chunk_of(SLOTS - 1).0, CHUNKS - 1);
    }

    #[test]
    fn threads_insert_and_free_at_once() {
        std::thread::scope(|scope| {
            for thread in 0..4 {
                scope.spawn(move || {
                    for number in 0..500 {
                        let mine = thread * 1000 + number;
                        let handle = insert(Arc::new(Thing(mine))).unwrap();
                        assert_eq!(get::<Thing>(handle).unwrap().0, mine);
                        assert_eq!(remove::<Thing>(handle).unwrap().0, mine);
                    }
                });
            }
        });
    }
}
