//! Rings over plain memory: compared with a queue of bytes, with invalid indices, and in every interleaving of two
//! threads.

use std::collections::VecDeque;
use std::sync::Arc;

use proptest::prelude::*;

use super::*;

/// Ring memory inside one process.
struct Plain<C> {
    control: Vec<C>,
    data: Vec<C>,
}

impl<C: Cell> Memory for Arc<Plain<C>> {
    type Cell = C;

    fn control(&self) -> &[C] {
        &self.control
    }

    fn data(&self) -> &[C] {
        &self.data
    }
}

type Ends = (Writer<Arc<Plain<AtomicU64>>>, Reader<Arc<Plain<AtomicU64>>>, Arc<Plain<AtomicU64>>);

fn ring(words: usize) -> Ends {
    let zeros = |count| (0..count).map(|_| AtomicU64::new(0)).collect();
    let memory = Arc::new(Plain { control: zeros(CONTROL), data: zeros(words) });
    (Writer::new(memory.clone()), Reader::new(memory.clone()), memory)
}

#[derive(Clone, Debug)]
enum Step {
    Write(Vec<Vec<u8>>),
    Read(usize),
    ReaderSleeps,
    ReaderWakes,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let bytes = prop::collection::vec(any::<u8>(), 0..40);
    let write = prop::collection::vec(bytes, 0..4).prop_map(Step::Write);
    let read = (0..40usize).prop_map(Step::Read);
    let copy_max =
        prop_oneof![4 => write, 4 => read, 1 => Just(Step::ReaderSleeps), 1 => Just(Step::ReaderWakes)];
    prop::collection::vec(copy_max, 0..200)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 512 }))]
    #[test]
    fn a_ring_is_a_queue_of_bytes(steps in steps(), size in 0..5u32) {
        let words = 1 << size;
        let (mut writer, mut reader, _) = ring(words);
        let mut model = VecDeque::new();
        let mut sleeps = false;
        // Whether the writer found no room and was not notified since.
        let mut is_waiting = false;
        for copy_max in steps {
            match copy_max {
                Step::Write(parts) => {
                    let wanted: usize = parts.iter().map(Vec::len).sum();
                    let slices: Vec<IoSlice<'_>> = parts.iter().map(|part| IoSlice::new(part)).collect();
                    let written = writer.write(&slices).unwrap();
                    let room = words * WORD - model.len();
                    prop_assert_eq!(written, wanted.min(room).min(words * WORD / 2));
                    model.extend(parts.concat().drain(..written));
                    is_waiting = if wanted == 0 { is_waiting } else { written == 0 };
                    prop_assert_eq!(writer.has_room_again(), is_waiting && room > 0);
                    if written > 0 {
                        prop_assert_eq!(writer.must_notify(), std::mem::take(&mut sleeps));
                    }
                }
                Step::Read(count) => {
                    prop_assert_eq!(reader.has_bytes(), !model.is_empty());
                    let mut into = vec![0; count];
                    let read = reader.read(&mut into).unwrap();
                    prop_assert_eq!(read, count.min(model.len()).min(words * WORD / 2));
                    prop_assert_eq!(&into[..read], model.drain(..read).collect::<Vec<_>>());
                    if read > 0 && model.len() <= words * WORD / 2 && reader.must_notify() {
                        prop_assert!(writer.has_room_again());
                    }
                }
                Step::ReaderSleeps => {
                    reader.request_notifications();
                    sleeps = true;
                }
                Step::ReaderWakes => {
                    reader.stop_notifications();
                    sleeps = false;
                }
            }
        }
    }

    /// Whatever the shared words contain, each end returns an error, or continues with bytes of the ring's memory.
    #[test]
    fn impossible_indices_break_only_the_ring(
        lies in prop::collection::vec((0..CONTROL, any::<u64>()), 1..20),
        near in any::<bool>(),
    ) {
        let (mut writer, mut reader, memory) = ring(8);
        let bytes = [7; 100];
        for (word, lie) in lies {
            // Values close to the true ones go further than wild ones.
            let lie = if near { lie % 200 } else { lie };
            memory.control[word].store(lie, Relaxed);
            let mut into = [0; 100];
            if let Ok(count) = reader.read(&mut into) {
                prop_assert!(count <= 32);
                let _ = (reader.must_notify(), reader.has_bytes());
            }
            if let Ok(count) = writer.write(&[IoSlice::new(&bytes)]) {
                prop_assert!(count <= 32);
                let _ = (writer.must_notify(), writer.has_room_again());
            }
        }
    }
}

#[test]
fn an_index_that_cannot_be_is_an_error_at_either_end() {
    let (mut writer, mut reader, memory) = ring(8);
    memory.control[PRODUCED].store(65, Relaxed);
    assert!(reader.has_bytes(), "there is something to be found");
    let error = reader.read(&mut [0; 100]).unwrap_err().to_string();
    assert!(error.starts_with("the peer broke the shared ring: 65 bytes written and 0 read"), "{error}");
    // Bytes that were never written cannot have been read.
    for _ in 0..4 {
        writer.write(&[IoSlice::new(&[1; 100])]).unwrap();
    }
    memory.control[CONSUMED].store(65, Relaxed);
    assert!(writer.write(&[IoSlice::new(b"more")]).is_err());
}

#[test]
fn small_messages_use_the_start_of_a_ring_only() {
    let (mut writer, mut reader, memory) = ring(CAPACITY_WORDS);
    for round in 0..if cfg!(miri) { 100 } else { 10_000u32 } {
        writer.write(&[IoSlice::new(&[round as u8; 150])]).unwrap();
        assert_eq!(reader.read(&mut [0; 500]).unwrap(), 150);
    }
    let used = memory.data.iter().rposition(|word| word.load(Relaxed) != 0).unwrap() * WORD;
    assert!(used < REWIND as usize + 150, "{used} bytes were used");
}

const CAPACITY_WORDS: usize = if cfg!(miri) { 1 << 10 } else { 32 << 10 };

#[test]
fn a_writer_at_a_full_ring_is_notified_once_half_of_it_is_free() {
    let (mut writer, mut reader, _) = ring(8);
    let bytes = [1; 64];
    let fill = |writer: &mut Writer<_>| while writer.write(&[IoSlice::new(&bytes)]).unwrap() > 0 {};
    for _ in 0..3 {
        fill(&mut writer);
        assert!(!writer.has_room_again());
        let mut notified = Vec::new();
        while reader.read(&mut [0; 16]).unwrap() > 0 {
            notified.push(reader.must_notify());
        }
        assert_eq!(notified, [false, true, false, false]);
        assert!(writer.has_room_again());
    }
    // A writer that has found room is not notified.
    fill(&mut writer);
    reader.read(&mut [0; 16]).unwrap();
    assert_eq!(writer.write(&[IoSlice::new(&bytes)]).unwrap(), 16);
    while reader.read(&mut [0; 16]).unwrap() > 0 {
        assert!(!reader.must_notify());
    }
}

#[test]
fn a_writer_that_waits_for_a_read_is_notified_of_it() {
    let (mut writer, mut reader, memory) = ring(4);
    let mut into = [0; 3];
    assert_eq!(writer.write(&[IoSlice::new(b"abcdefghi")]).unwrap(), 9);
    assert_eq!((reader.read(&mut into).unwrap(), reader.must_notify()), (3, false));
    assert_eq!((writer.request_read_notification().unwrap(), writer.has_room_again()), (3, false));
    assert_eq!(reader.read(&mut into).unwrap(), 3);
    assert_eq!((reader.must_notify(), reader.must_notify()), (true, false));
    assert!(writer.has_room_again());
    assert_eq!((writer.consumed_by_reader().unwrap(), writer.has_room_again()), (6, false));
    // A writer without bytes stops waiting for room.
    writer.request_read_notification().unwrap();
    writer.stop_waiting();
    assert_eq!(reader.read(&mut into).unwrap(), 3);
    assert!(!reader.must_notify() && !writer.has_room_again());
    memory.control()[CONSUMED].store(10, Relaxed);
    assert!(writer.consumed_by_reader().is_err() && writer.request_read_notification().is_err());
}

/// Every interleaving of a writer and a reader on their own threads, over a memory as weak as the language allows.
#[cfg(not(miri))]
mod interleaved {
    use loom::sync::atomic::AtomicU64 as LoomU64;
    use loom::sync::{Condvar, Mutex};
    use loom::thread;

    use super::*;

    impl Cell for LoomU64 {
        fn load(&self, ordering: Ordering) -> u64 {
            LoomU64::load(self, ordering)
        }

        fn store(&self, value: u64, ordering: Ordering) {
            LoomU64::store(self, value, ordering);
        }

        fn swap(&self, value: u64, ordering: Ordering) -> u64 {
            LoomU64::swap(self, value, ordering)
        }

        fn fence() {
            loom::sync::atomic::fence(Ordering::SeqCst);
        }
    }

    /// The notification of a sleeping side; it stays set until it is taken. A missing notification is found as a
    /// deadlock.
    #[derive(Default)]
    struct Notification {
        is_set: Mutex<bool>,
        changed: Condvar,
    }

    impl Notification {
        fn notify(&self) {
            *self.is_set.lock().unwrap() = true;
            self.changed.notify_one();
        }

        fn wait(&self) {
            let mut is_set = self.is_set.lock().unwrap();
            while !std::mem::take(&mut *is_set) {
                is_set = self.changed.wait(is_set).unwrap();
            }
        }
    }

    /// Reads available bytes; sleeps if there are none.
    fn read_or_sleep<M: Memory>(
        reader: &mut Reader<M>,
        notification: &Notification,
        got: &mut Vec<u8>,
    ) -> usize {
        let mut into = [0; 2];
        let count = reader.read(&mut into).unwrap();
        got.extend_from_slice(&into[..count]);
        if count == 0 {
            reader.request_notifications();
            M::Cell::fence();
            if !reader.has_bytes() {
                notification.wait();
            }
        }
        count
    }

    fn ring(words: usize) -> Arc<Plain<LoomU64>> {
        let zeros = |count| (0..count).map(|_| LoomU64::new(0)).collect();
        Arc::new(Plain { control: zeros(CONTROL), data: zeros(words) })
    }

    fn explore(preemptions: usize, body: impl Fn() + Send + Sync + 'static) {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(preemptions);
        model.check(body);
    }

    /// A reader that sleeps whenever the ring is empty gets every byte.
    #[test]
    fn a_sleeping_reader_is_notified() {
        explore(3, || {
            let (memory, notification) = (ring(1), Arc::new(Notification::default()));
            let (mut writer, mut reader) = (Writer::new(memory.clone()), Reader::new(memory));
            let notify_reader = notification.clone();
            let writing = thread::spawn(move || {
                for byte in [1, 2] {
                    assert_eq!(writer.write(&[IoSlice::new(&[byte])]).unwrap(), 1);
                    if writer.must_notify() {
                        notify_reader.notify();
                    }
                }
            });
            let mut got = Vec::new();
            while got.len() < 2 {
                read_or_sleep(&mut reader, &notification, &mut got);
            }
            assert_eq!(got, [1, 2]);
            writing.join().unwrap();
        });
    }

    /// A writer that waits whenever the ring is full delivers every byte, in order, to a reader that sleeps whenever it
    /// is empty.
    #[test]
    fn a_waiting_writer_is_notified() {
        explore(2, || {
            let (memory, data, room) =
                (ring(1), Arc::new(Notification::default()), Arc::new(Notification::default()));
            let (mut writer, mut reader) = (Writer::new(memory.clone()), Reader::new(memory));
            let bytes: Vec<u8> = (0..10).collect();
            // The ring is full; the interleavings from here on are explored.
            for part in bytes[..8].chunks(2) {
                assert_eq!(writer.write(&[IoSlice::new(part)]).unwrap(), 2);
            }
            let (notify_reader, waited) = (data.clone(), room.clone());
            let writing = thread::spawn(move || {
                while writer.write(&[IoSlice::new(&[8, 9])]).unwrap() == 0 {
                    waited.wait();
                }
                if writer.must_notify() {
                    notify_reader.notify();
                }
            });
            let mut got = Vec::new();
            while got.len() < 10 {
                if read_or_sleep(&mut reader, &data, &mut got) > 0 && reader.must_notify() {
                    room.notify();
                }
            }
            assert_eq!(got, bytes);
            writing.join().unwrap();
        });
    }

    /// A writer that waits for a read, although there is room, is woken by that read.
    #[test]
    fn a_writer_that_waits_for_a_read_is_woken() {
        explore(3, || {
            let (memory, data, read) =
                (ring(2), Arc::new(Notification::default()), Arc::new(Notification::default()));
            let (mut writer, mut reader) = (Writer::new(memory.clone()), Reader::new(memory));
            assert_eq!(writer.write(&[IoSlice::new(&[1, 2])]).unwrap(), 2);
            let waited = read.clone();
            let writing = thread::spawn(move || {
                while writer.consumed_by_reader().unwrap() < 2
                    && writer.request_read_notification().unwrap() < 2
                {
                    waited.wait();
                }
            });
            let mut got = Vec::new();
            while got.len() < 2 {
                if read_or_sleep(&mut reader, &data, &mut got) > 0 && reader.must_notify() {
                    read.notify();
                }
            }
            writing.join().unwrap();
        });
    }

    /// A ring that restarts while its reader reads it.
    #[test]
    fn a_ring_restarts_only_while_it_is_empty() {
        explore(3, || {
            let memory = ring(2);
            let (mut writer, mut reader) = (Writer::new(memory.clone()), Reader::new(memory));
            let writing = thread::spawn(move || {
                for byte in 0..3 {
                    assert_eq!(writer.write(&[IoSlice::new(&[byte; 4])]).unwrap(), 4);
                }
            });
            let mut got = Vec::new();
            while got.len() < 12 {
                let mut into = [0; 4];
                let count = reader.read(&mut into).unwrap();
                got.extend_from_slice(&into[..count]);
                if count == 0 {
                    thread::yield_now();
                }
            }
            assert_eq!(got, [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2]);
            writing.join().unwrap();
        });
    }
}
