//! Rings over plain memory: against a queue of bytes, against liars, and every interleaving of two threads.

use std::collections::VecDeque;
use std::sync::Arc;

use proptest::prelude::*;

use super::*;

/// A ring's memory inside of one process.
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
    let step =
        prop_oneof![4 => write, 4 => read, 1 => Just(Step::ReaderSleeps), 1 => Just(Step::ReaderWakes)];
    prop::collection::vec(step, 0..200)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 512 }))]
    #[test]
    fn a_ring_is_a_queue_of_bytes(steps in steps(), size in 0..5u32) {
        let words = 1 << size;
        let (mut writer, mut reader, _) = ring(words);
        let mut model = VecDeque::new();
        let mut sleeps = false;
        // Whether the writer has found no room and was not rung since.
        let mut waits = false;
        for step in steps {
            match step {
                Step::Write(parts) => {
                    let wanted: usize = parts.iter().map(Vec::len).sum();
                    let slices: Vec<IoSlice<'_>> = parts.iter().map(|part| IoSlice::new(part)).collect();
                    let written = writer.write(&slices).unwrap();
                    let room = words * WORD - model.len();
                    prop_assert_eq!(written, wanted.min(room).min(words * WORD / 2));
                    model.extend(parts.concat().drain(..written));
                    waits = if wanted == 0 { waits } else { written == 0 };
                    prop_assert_eq!(writer.has_room_again(), waits && room > 0);
                    if written > 0 {
                        prop_assert_eq!(writer.must_ring(), std::mem::take(&mut sleeps));
                    }
                }
                Step::Read(count) => {
                    prop_assert_eq!(reader.has_bytes(), !model.is_empty());
                    let mut into = vec![0; count];
                    let read = reader.read(&mut into).unwrap();
                    prop_assert_eq!(read, count.min(model.len()).min(words * WORD / 2));
                    prop_assert_eq!(&into[..read], model.drain(..read).collect::<Vec<_>>());
                    if read > 0 && model.len() <= words * WORD / 2 && reader.must_ring() {
                        prop_assert!(writer.has_room_again());
                    }
                }
                Step::ReaderSleeps => {
                    reader.sleep();
                    sleeps = true;
                }
                Step::ReaderWakes => {
                    reader.wake();
                    sleeps = false;
                }
            }
        }
    }

    /// Whatever stands in the shared words, either end says what is wrong, or goes on with bytes of the ring's memory.
    #[test]
    fn a_liar_breaks_a_ring_and_nothing_else(
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
                let _ = (reader.must_ring(), reader.has_bytes());
            }
            if let Ok(count) = writer.write(&[IoSlice::new(&bytes)]) {
                prop_assert!(count <= 32);
                let _ = (writer.must_ring(), writer.has_room_again());
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
    // Nobody has read what was never written.
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
fn a_writer_at_a_full_ring_is_rung_once_half_of_it_is_free() {
    let (mut writer, mut reader, _) = ring(8);
    let bytes = [1; 64];
    let fill = |writer: &mut Writer<_>| while writer.write(&[IoSlice::new(&bytes)]).unwrap() > 0 {};
    for _ in 0..3 {
        fill(&mut writer);
        assert!(!writer.has_room_again());
        let mut rung = Vec::new();
        while reader.read(&mut [0; 16]).unwrap() > 0 {
            rung.push(reader.must_ring());
        }
        assert_eq!(rung, [false, true, false, false]);
        assert!(writer.has_room_again());
    }
    // One that has had its room is not rung.
    fill(&mut writer);
    reader.read(&mut [0; 16]).unwrap();
    assert_eq!(writer.write(&[IoSlice::new(&bytes)]).unwrap(), 16);
    while reader.read(&mut [0; 16]).unwrap() > 0 {
        assert!(!reader.must_ring());
    }
}

#[test]
fn a_writer_is_rung_when_something_was_read_if_it_waits_for_that() {
    let (mut writer, mut reader, memory) = ring(4);
    let mut into = [0; 3];
    assert_eq!(writer.write(&[IoSlice::new(b"abcdefghi")]).unwrap(), 9);
    assert_eq!((reader.read(&mut into).unwrap(), reader.must_ring()), (3, false));
    assert_eq!((writer.wait_for_reader().unwrap(), writer.has_room_again()), (3, false));
    assert_eq!(reader.read(&mut into).unwrap(), 3);
    assert_eq!((reader.must_ring(), reader.must_ring()), (true, false));
    assert!(writer.has_room_again());
    assert_eq!((writer.read_by_now().unwrap(), writer.has_room_again()), (6, false));
    // Who has nothing to write any more is not to look for room for ever.
    writer.wait_for_reader().unwrap();
    writer.stop_waiting();
    assert_eq!(reader.read(&mut into).unwrap(), 3);
    assert!(!reader.must_ring() && !writer.has_room_again());
    memory.control()[CONSUMED].store(10, Relaxed);
    assert!(writer.read_by_now().is_err() && writer.wait_for_reader().is_err());
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

    /// What a side sleeps on: it stays rung until somebody has heard it. One who waits for a bell that nobody rings is
    /// found as a deadlock.
    #[derive(Default)]
    struct Bell {
        rung: Mutex<bool>,
        heard: Condvar,
    }

    impl Bell {
        fn ring(&self) {
            *self.rung.lock().unwrap() = true;
            self.heard.notify_one();
        }

        fn wait(&self) {
            let mut rung = self.rung.lock().unwrap();
            while !std::mem::take(&mut *rung) {
                rung = self.heard.wait(rung).unwrap();
            }
        }
    }

    /// Reads what is there; sleeps if it is nothing.
    fn read_or_sleep<M: Memory>(reader: &mut Reader<M>, bell: &Bell, got: &mut Vec<u8>) -> usize {
        let mut into = [0; 2];
        let count = reader.read(&mut into).unwrap();
        got.extend_from_slice(&into[..count]);
        if count == 0 {
            reader.sleep();
            M::Cell::fence();
            if !reader.has_bytes() {
                bell.wait();
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

    /// A reader that sleeps whenever it finds nothing gets every byte.
    #[test]
    fn a_sleeping_reader_is_rung() {
        explore(3, || {
            let (memory, bell) = (ring(1), Arc::new(Bell::default()));
            let (mut writer, mut reader) = (Writer::new(memory.clone()), Reader::new(memory));
            let rung = bell.clone();
            let writing = thread::spawn(move || {
                for byte in [1, 2] {
                    assert_eq!(writer.write(&[IoSlice::new(&[byte])]).unwrap(), 1);
                    if writer.must_ring() {
                        rung.ring();
                    }
                }
            });
            let mut got = Vec::new();
            while got.len() < 2 {
                read_or_sleep(&mut reader, &bell, &mut got);
            }
            assert_eq!(got, [1, 2]);
            writing.join().unwrap();
        });
    }

    /// A writer that waits whenever it finds no room brings every byte, in order, to a reader that sleeps whenever it
    /// finds nothing.
    #[test]
    fn a_waiting_writer_is_rung() {
        explore(2, || {
            let (memory, data, room) = (ring(1), Arc::new(Bell::default()), Arc::new(Bell::default()));
            let (mut writer, mut reader) = (Writer::new(memory.clone()), Reader::new(memory));
            let bytes: Vec<u8> = (0..10).collect();
            // Full already: what both do from here on is what is explored.
            for part in bytes[..8].chunks(2) {
                assert_eq!(writer.write(&[IoSlice::new(part)]).unwrap(), 2);
            }
            let (rung, waited) = (data.clone(), room.clone());
            let writing = thread::spawn(move || {
                while writer.write(&[IoSlice::new(&[8, 9])]).unwrap() == 0 {
                    waited.wait();
                }
                if writer.must_ring() {
                    rung.ring();
                }
            });
            let mut got = Vec::new();
            while got.len() < 10 {
                if read_or_sleep(&mut reader, &data, &mut got) > 0 && reader.must_ring() {
                    room.ring();
                }
            }
            assert_eq!(got, bytes);
            writing.join().unwrap();
        });
    }

    /// A writer that waits until something was read, though there is room, sleeps no longer than that.
    #[test]
    fn a_writer_that_waits_to_be_read_is_rung() {
        explore(3, || {
            let (memory, data, read) = (ring(2), Arc::new(Bell::default()), Arc::new(Bell::default()));
            let (mut writer, mut reader) = (Writer::new(memory.clone()), Reader::new(memory));
            assert_eq!(writer.write(&[IoSlice::new(&[1, 2])]).unwrap(), 2);
            let waited = read.clone();
            let writing = thread::spawn(move || {
                while writer.read_by_now().unwrap() < 2 && writer.wait_for_reader().unwrap() < 2 {
                    waited.wait();
                }
            });
            let mut got = Vec::new();
            while got.len() < 2 {
                if read_or_sleep(&mut reader, &data, &mut got) > 0 && reader.must_ring() {
                    read.ring();
                }
            }
            writing.join().unwrap();
        });
    }

    /// A ring that begins anew while its reader looks at it.
    #[test]
    fn a_ring_begins_anew_only_where_nobody_reads() {
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
