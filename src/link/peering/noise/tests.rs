//! Tests of the proof between two sides, and of what it must reject.

use super::super::proof::{FIRST_LENGTH, RECORD_MAX, SECOND_LENGTH, TAG, THIRD_LENGTH};
use super::*;

/// Deterministic randomness that never repeats within a run.
fn counted(first: u8) -> Fill {
    let mut next = first;
    Box::new(move |bytes| {
        bytes.fill(next);
        next = next.wrapping_add(1);
        Ok(())
    })
}

fn noise(secret: u8, job: u8, key: u8) -> Noise {
    Noise::new(&Secret::new(&[secret; 32]).unwrap(), Job([job; 16]), PrivateKey::new([key; 32]), counted(key))
}

/// Result of a handshake at one side: the other side's key, and the session.
type End = (Option<PublicKey>, Box<dyn Session>);

/// Runs a handshake, with the prologue that each side has seen.
fn shake(mut one: Noise, mut two: Noise, said: &[u8], heard: &[u8]) -> Result<[End; 2], ProofError> {
    let (mut one, mut two) = (one.begin(Role::First, said)?, two.begin(Role::Second, heard)?);
    let mut payload = [0; 8];
    let mut message = Vec::new();
    one.write(b"12345678", &mut message)?;
    assert_eq!(message.len(), FIRST_LENGTH);
    two.read(&message, &mut payload)?;
    assert_eq!(&payload, b"12345678");
    message.clear();
    two.write(b"abcd", &mut message)?;
    assert_eq!(message.len(), SECOND_LENGTH);
    one.read(&message, &mut payload[..4])?;
    assert_eq!(&payload[..4], b"abcd");
    message.clear();
    one.write(&[], &mut message)?;
    assert_eq!(message.len(), THIRD_LENGTH);
    two.read(&message, &mut [])?;
    Ok([(one.remote(), one.into_session()?), (two.remote(), two.into_session()?)])
}

#[test]
fn two_sides_with_the_secret_learn_their_keys_and_seal_records() {
    let [(first, mut one), (second, mut two)] =
        shake(noise(1, 1, 10), noise(1, 1, 90), b"said", b"said").unwrap();
    assert_eq!(first, Some(PrivateKey::new([90; 32]).public()));
    assert_eq!(second, Some(PrivateKey::new([10; 32]).public()));
    let (mut record, mut plain) = (vec![0; RECORD_MAX], vec![0; RECORD_MAX]);
    // Enough rounds to pass the change of the key.
    for round in 0..RECORDS_PER_KEY + 3 {
        let said = round.to_le_bytes();
        let length = one.seal(&said, &mut record).unwrap();
        assert_eq!(length, said.len() + TAG);
        assert_eq!(two.open(&record[..length], &mut plain), Ok(said.len()));
        assert_eq!(plain[..8], said);
    }
    let longest = vec![7; RECORD_MAX - TAG];
    assert_eq!(two.seal(&longest, &mut record), Ok(RECORD_MAX));
    assert_eq!(one.open(&record, &mut plain), Ok(longest.len()));
    assert_eq!(two.seal(&vec![7; RECORD_MAX - TAG + 1], &mut record), Err(ProofError));
}

#[test]
fn another_secret_job_or_prologue_is_rejected_at_the_first_message() {
    for (secret, job, heard) in [(2, 1, b"said"), (1, 2, b"said"), (1, 1, b"sAid")] {
        let shaken = shake(noise(1, 1, 10), noise(secret, job, 90), b"said", heard);
        assert!(shaken.is_err(), "{secret} {job} {heard:?}");
    }
}

#[test]
fn changed_and_replayed_records_are_rejected() {
    let [(_, mut one), (_, mut two)] = shake(noise(1, 1, 10), noise(1, 1, 90), b"", b"").unwrap();
    let (mut record, mut plain) = ([0; 64], [0; 64]);
    let length = one.seal(b"pay 1", &mut record).unwrap();
    let sealed = record;
    record[2] ^= 1;
    assert_eq!(two.open(&record[..length], &mut plain), Err(ProofError));
    assert_eq!(two.open(&sealed[..length], &mut plain), Ok(5));
    assert_eq!(two.open(&sealed[..length], &mut plain), Err(ProofError), "again");
    assert_eq!(one.open(&sealed[..length], &mut plain), Err(ProofError), "sent back");
}

#[test]
fn debug_output_shows_no_keys() {
    let mut noise = noise(1, 1, 0x61);
    let handshake = noise.begin(Role::First, b"").unwrap();
    assert_eq!(format!("{noise:?} {handshake:?}"), "Noise(..) NoiseHandshake(..)");
}

#[test]
fn without_randomness_there_is_no_handshake() {
    let fill: Fill = Box::new(|_| Err(ProofError));
    let mut none = Noise { fill, ..noise(1, 1, 1) };
    assert!(none.begin(Role::First, b"").is_err());
}
