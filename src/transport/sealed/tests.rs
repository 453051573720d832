//! Bytes written at one end of an encrypted socket are read at the other, for any split of writes and reads, and any
//! capacity of the socket.

use std::net::{TcpListener, TcpStream as Std};

use proptest::prelude::*;
use socket2::SockRef;

use super::*;
use crate::link::peering::ProofError;

/// A session that numbers its records: it checks their order and their integrity.
#[derive(Debug, Default)]
struct Numbered {
    sealed: u64,
    opened: u64,
}

fn tag(number: u64, plain: &[u8]) -> [u8; TAG] {
    let sum = plain.iter().fold(number, |sum, byte| sum.rotate_left(7) ^ u64::from(*byte));
    let mut tag = [0; TAG];
    tag[..8].copy_from_slice(&sum.to_le_bytes());
    tag
}

impl Session for Numbered {
    fn seal(&mut self, plain: &[u8], record: &mut [u8]) -> Result<usize, ProofError> {
        let length = plain.len() + TAG;
        if record.len() < length || length > RECORD_MAX {
            return Err(ProofError);
        }
        self.sealed += 1;
        record[..plain.len()].copy_from_slice(plain);
        record[plain.len()..length].copy_from_slice(&tag(self.sealed, plain));
        Ok(length)
    }

    fn open(&mut self, record: &[u8], plain: &mut [u8]) -> Result<usize, ProofError> {
        self.opened += 1;
        let (data, seal) = record.split_at(record.len().checked_sub(TAG).ok_or(ProofError)?);
        if plain.len() < record.len() || *seal != tag(self.opened, data) {
            return Err(ProofError);
        }
        plain[..data.len()].copy_from_slice(data);
        Ok(data.len())
    }
}

/// Two ends; the first takes few bytes at a time.
fn pair() -> (SealedSocket, Std) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let one = Std::connect(listener.local_addr().unwrap()).unwrap();
    let (two, _) = listener.accept().unwrap();
    SockRef::from(&one).set_send_buffer_size(64 << 10).unwrap();
    SockRef::from(&two).set_recv_buffer_size(64 << 10).unwrap();
    one.set_nonblocking(true).unwrap();
    two.set_nonblocking(true).unwrap();
    (SealedSocket::new(TcpStream::from_std(one), Box::<Numbered>::default()), two)
}

fn sealed(stream: Std) -> SealedSocket {
    SealedSocket::new(TcpStream::from_std(stream), Box::<Numbered>::default())
}

fn is_no_more(error: &io::Error) -> bool {
    error.kind() == ErrorKind::WouldBlock
}

#[derive(Clone, Debug)]
enum Step {
    Write(Vec<usize>),
    Read(usize),
    ReadParts(usize, usize),
    Release,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let size = prop_oneof![4 => 1..200usize, 2 => 1..70_000usize, 1 => 60_000..300_000usize];
    let step = prop_oneof![
        3 => prop::collection::vec(size.clone(), 1..5).prop_map(Step::Write),
        3 => size.clone().prop_map(Step::Read),
        1 => (size.clone(), size).prop_map(|(one, two)| Step::ReadParts(one, two)),
        1 => Just(Step::Release),
    ];
    prop::collection::vec(step, 1..40)
}

/// The bytes of the stream; no two ranges are equal.
fn stretch(from: u64, count: usize) -> Vec<u8> {
    (from..from + count as u64).map(|place| (place.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn a_sealed_stream_is_the_stream(steps in steps()) {
        let (mut from, to) = pair();
        let mut to = sealed(to);
        let (mut written, mut read) = (0u64, 0u64);
        let mut take = |to: &mut SealedSocket, one: usize, two: usize| {
            let (mut first, mut second) = (vec![0; one], vec![0; two]);
            let taken = match two {
                0 => to.read(&mut first),
                _ => to.read_vectored(&mut [IoSliceMut::new(&mut first), IoSliceMut::new(&mut second)]),
            };
            let count = match taken {
                Ok(count) => count,
                Err(error) => { assert!(is_no_more(&error), "{error}"); 0 }
            };
            let received = [first, second].concat();
            assert_eq!(received[..count], stretch(read, count));
            read += count as u64;
            (count, read)
        };
        for step in steps {
            match step {
                Step::Write(sizes) => {
                    let total: usize = sizes.iter().sum();
                    let bytes = stretch(written, total);
                    let mut rest = &bytes[..];
                    let parts: Vec<IoSlice<'_>> = sizes.iter().map(|size| {
                        let (now, later) = rest.split_at(*size);
                        rest = later;
                        IoSlice::new(now)
                    }).collect();
                    match from.write_vectored(&parts) {
                        Ok(count) => written += count as u64,
                        Err(error) => prop_assert!(is_no_more(&error) && from.has_unsent_bytes(), "{}", error),
                    }
                }
                Step::Read(count) => drop(take(&mut to, count, 0)),
                Step::ReadParts(one, two) => drop(take(&mut to, one, two)),
                Step::Release => { from.release_spare_memory(); to.release_spare_memory(); }
            }
        }
        // All bytes that were accepted arrive. Terminates: the bytes in flight decrease in each iteration.
        loop {
            let held = from.flush().is_err();
            let (count, read) = take(&mut to, 1 << 20, 0);
            if read == written {
                break;
            }
            if count == 0 && !held {
                std::thread::yield_now();
            }
        }
        prop_assert!(!from.has_unsent_bytes());
    }
}

#[test]
fn a_changed_record_ends_the_connection() {
    for (place, waits) in [(0, false), (1, true), (2, false), (31, false)] {
        let (mut from, to) = pair();
        let mut forged = [0; 2 + 30];
        forged[0] = 30;
        forged[2 + 14..2 + 30].copy_from_slice(&tag(1, &[0; 14]));
        forged[place] ^= if place == 0 { 2 } else { 1 };
        from.stream.write_all(&forged).unwrap();
        let mut to = sealed(to);
        let mut tries = 0;
        let error = loop {
            match to.read(&mut [0; 64]) {
                // A record with a greater length waits for the missing bytes.
                Err(error) if is_no_more(&error) && waits && to.received.used().len() == forged.len() => {
                    break None;
                }
                Err(error) if is_no_more(&error) => std::thread::yield_now(),
                other => break Some(other.unwrap_err().kind()),
            }
            tries += 1;
            assert!(tries < 10_000_000, "it never ends");
        };
        assert_eq!(error, (!waits).then_some(ErrorKind::InvalidData), "{place}");
    }
}

#[test]
fn a_record_without_bytes_is_refused() {
    let (mut from, to) = pair();
    from.seal(b"").unwrap();
    from.flush().unwrap();
    let mut to = sealed(to);
    let error = loop {
        match to.read(&mut [0; 9]) {
            Err(error) if is_no_more(&error) => std::thread::yield_now(),
            other => break other.unwrap_err(),
        }
    };
    assert_eq!(error.kind(), ErrorKind::InvalidData);
}

/// The first byte on an idle link made it allocate a buffer for the longest read.
#[test]
fn an_idle_socket_reads_little_at_first() {
    let (mut socket, _other) = pair();
    socket.read = READ.1;
    socket.release_spare_memory();
    assert_eq!(socket.read, READ.0);
}
