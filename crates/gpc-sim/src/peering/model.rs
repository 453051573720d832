//! A model of the cryptography: the handshake of Noise (`XXpsk0`) token by token, with messages of the real lengths,
//! over a toy hash and a toy group.
//!
//! In a world only these handshakes compute tags, each with the secret and the key of its process. So a process without
//! the secret has no valid tag, by construction. An attacker has recorded bytes and bytes of its own making, which pass
//! with a probability of at most 2^-61. That the real functions are as hard is assumed here; the fuzz target drives the
//! real ones.

use std::fmt;

use crate::Random;
use chained_gpc::link::peering::{
    Crypto, FIRST_LENGTH, Handshake, KEY_LENGTH, ProofError, PublicKey, RECORD_MAX, Role, SECOND_LENGTH,
    Session, TAG, THIRD_LENGTH,
};

/// The group: powers of a generator modulo a Mersenne prime, so that both sides compute the same shared number.
const PRIME: u128 = (1 << 61) - 1;
const GENERATOR: u64 = 37;

fn power(base: u64, exponent: u64) -> u64 {
    let (mut result, mut base, mut exponent) = (1u128, u128::from(base) % PRIME, exponent);
    while exponent > 0 {
        if exponent & 1 == 1 {
            result = result * base % PRIME;
        }
        base = base * base % PRIME;
        exponent >>= 1;
    }
    result as u64
}

/// Public key of a private number.
pub(super) fn public(private: u64) -> PublicKey {
    let mut bytes = [0; KEY_LENGTH];
    bytes[..8].copy_from_slice(&power(GENERATOR, private).to_le_bytes());
    PublicKey(bytes)
}

/// Shared number of two sides, computed from one private number and the other public key.
fn shared(private: u64, public: &[u8; KEY_LENGTH]) -> [u8; 8] {
    let [a, b, c, d, e, f, g, h, ..] = *public;
    power(u64::from_le_bytes([a, b, c, d, e, f, g, h]), private).to_le_bytes()
}

/// Hash over parts and their lengths. It is fast and even, but not secure.
fn hash(label: u8, parts: &[&[u8]]) -> u128 {
    let mut lanes = [0xcbf2_9ce4_8422_2325u64 ^ u64::from(label), 0x9e37_79b9_7f4a_7c15 + u64::from(label)];
    let mut take = |word: u64| {
        lanes[0] = (lanes[0] ^ word).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(29);
        lanes[1] = (lanes[1] ^ word.rotate_left(32)).wrapping_mul(0xbf58_476d_1ce4_e5b9).rotate_left(31);
    };
    for part in parts {
        take(part.len() as u64);
        for chunk in part.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            take(u64::from_le_bytes(word));
        }
    }
    let [one, two] = [Random::new(lanes[0]).draw(), Random::new(lanes[1] ^ lanes[0]).draw()];
    u128::from(one) << 64 | u128::from(two)
}

/// Seals and opens with one key and a running counter.
#[derive(Clone, Copy, Debug)]
struct Cipher {
    key: u128,
    count: u64,
}

impl Cipher {
    fn new(key: u128) -> Cipher {
        Cipher { key, count: 0 }
    }

    fn stream(&self, bytes: &mut [u8]) {
        let (key, count) = (self.key.to_le_bytes(), self.count.to_le_bytes());
        for (place, chunk) in bytes.chunks_mut(16).enumerate() {
            let pad = hash(1, &[&key, &count, &place.to_le_bytes()]).to_le_bytes();
            chunk.iter_mut().zip(pad).for_each(|(byte, pad)| *byte ^= pad);
        }
    }

    fn tag(&self, beside: &[u8], sealed: &[u8]) -> [u8; TAG] {
        hash(2, &[&self.key.to_le_bytes(), &self.count.to_le_bytes(), beside, sealed]).to_le_bytes()
    }

    fn seal(&mut self, beside: &[u8], plain: &[u8]) -> Vec<u8> {
        let mut sealed = plain.to_vec();
        self.stream(&mut sealed);
        let tag = self.tag(beside, &sealed);
        self.count += 1;
        sealed.extend_from_slice(&tag);
        sealed
    }

    fn open(&mut self, beside: &[u8], sealed: &[u8]) -> Result<Vec<u8>, ProofError> {
        let (bytes, tag) = sealed.split_last_chunk::<TAG>().ok_or(ProofError)?;
        if self.tag(beside, bytes) != *tag {
            return Err(ProofError);
        }
        let mut plain = bytes.to_vec();
        self.stream(&mut plain);
        self.count += 1;
        Ok(plain)
    }
}

/// Secrets of a process and its job.
pub(super) struct Model {
    /// Number for the secret and the job.
    pub(super) psk: u64,
    /// Private key.
    pub(super) private: u64,
    pub(super) random: Random,
}

/// Cryptography of a process in a world of calls.
pub(crate) fn crypto(psk: u64, private: u64) -> Box<dyn Crypto> {
    Box::new(Model { psk, private, random: Random::new(psk ^ private) })
}

/// Hides the numbers, as the real type does.
impl fmt::Debug for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Model(..)")
    }
}

impl Crypto for Model {
    fn begin(&mut self, role: Role, prologue: &[u8]) -> Result<Box<dyn Handshake>, ProofError> {
        let mut symmetric = Symmetric { chain: 7, all: hash(3, &[b"XXpsk0"]), cipher: None };
        symmetric.take(prologue);
        let ephemeral = self.random.between(2, PRIME as u64 - 2);
        let Model { psk, private, .. } = *self;
        Ok(Box::new(ModelHandshake {
            role,
            psk,
            private,
            ephemeral,
            symmetric,
            step: 0,
            their_ephemeral: None,
            their_static: None,
        }))
    }
}

/// Handshake state that both sides share.
#[derive(Debug)]
struct Symmetric {
    chain: u128,
    /// Hash over all messages so far, in order.
    all: u128,
    cipher: Option<Cipher>,
}

impl Symmetric {
    fn mix(&mut self, number: &[u8]) {
        let chain = self.chain.to_le_bytes();
        self.chain = hash(4, &[&chain, number]);
        self.cipher = Some(Cipher::new(hash(5, &[&chain, number])));
    }

    fn take(&mut self, said: &[u8]) {
        self.all = hash(6, &[&self.all.to_le_bytes(), said]);
    }

    fn seal(&mut self, plain: &[u8]) -> Result<Vec<u8>, ProofError> {
        let beside = self.all.to_le_bytes();
        let sealed = self.cipher.as_mut().ok_or(ProofError)?.seal(&beside, plain);
        self.take(&sealed);
        Ok(sealed)
    }

    fn open(&mut self, sealed: &[u8]) -> Result<Vec<u8>, ProofError> {
        let beside = self.all.to_le_bytes();
        let plain = self.cipher.as_mut().ok_or(ProofError)?.open(&beside, sealed)?;
        self.take(sealed);
        Ok(plain)
    }
}

#[derive(Debug)]
struct ModelHandshake {
    role: Role,
    psk: u64,
    private: u64,
    ephemeral: u64,
    symmetric: Symmetric,
    /// Number of messages done.
    step: u8,
    their_ephemeral: Option<[u8; KEY_LENGTH]>,
    their_static: Option<[u8; KEY_LENGTH]>,
}

impl ModelHandshake {
    fn mix_shared(&mut self, private: u64, public: Option<[u8; KEY_LENGTH]>) -> Result<(), ProofError> {
        let number = shared(private, &public.ok_or(ProofError)?);
        self.symmetric.mix(&number);
        Ok(())
    }

    /// Mixes in an ephemeral key of either side.
    fn said_ephemeral(&mut self, key: &[u8; KEY_LENGTH]) {
        self.symmetric.take(key);
        self.symmetric.mix(key);
    }

    fn next(&mut self, by: Role) -> Result<u8, ProofError> {
        let role = if self.step.is_multiple_of(2) { Role::First } else { Role::Second };
        if role != by || self.step > 2 {
            return Err(ProofError);
        }
        self.step += 1;
        Ok(self.step)
    }

    fn other(&self) -> Role {
        if self.role == Role::First { Role::Second } else { Role::First }
    }

    fn mix_psk(&mut self) {
        let psk = self.psk.to_le_bytes();
        self.symmetric.mix(&psk);
        self.symmetric.take(&psk);
    }
}

impl Handshake for ModelHandshake {
    fn write(&mut self, payload: &[u8], message: &mut Vec<u8>) -> Result<(), ProofError> {
        let step = self.next(self.role)?;
        if step == 1 {
            self.mix_psk();
        }
        if step < 3 {
            let own = public(self.ephemeral).0;
            message.extend_from_slice(&own);
            self.said_ephemeral(&own);
        }
        if step == 2 {
            self.mix_shared(self.ephemeral, self.their_ephemeral)?;
        }
        if step > 1 {
            message.extend(self.symmetric.seal(&public(self.private).0)?);
            // This side's static key with the other's ephemeral one: `es` for the second message, `se` for the third.
            self.mix_shared(self.private, self.their_ephemeral)?;
        }
        message.extend(self.symmetric.seal(payload)?);
        Ok(())
    }

    fn read(&mut self, message: &[u8], payload: &mut [u8]) -> Result<(), ProofError> {
        let step = self.next(self.other())?;
        let lengths = [FIRST_LENGTH, SECOND_LENGTH, THIRD_LENGTH];
        if message.len() != lengths[usize::from(step) - 1] {
            return Err(ProofError);
        }
        if step == 1 {
            self.mix_psk();
        }
        let mut rest = message;
        if step < 3 {
            let (theirs, behind) = rest.split_first_chunk::<KEY_LENGTH>().ok_or(ProofError)?;
            self.said_ephemeral(theirs);
            (self.their_ephemeral, rest) = (Some(*theirs), behind);
        }
        if step == 2 {
            self.mix_shared(self.ephemeral, self.their_ephemeral)?;
        }
        if step > 1 {
            let (sealed, behind) = rest.split_at_checked(KEY_LENGTH + TAG).ok_or(ProofError)?;
            let key = self.symmetric.open(sealed)?;
            (self.their_static, rest) = (key.first_chunk().copied(), behind);
            self.mix_shared(self.ephemeral, self.their_static)?;
        }
        let said = self.symmetric.open(rest)?;
        if said.len() != payload.len() {
            return Err(ProofError);
        }
        payload.copy_from_slice(&said);
        Ok(())
    }

    fn remote(&self) -> Option<PublicKey> {
        self.their_static.map(PublicKey)
    }

    fn into_session(self: Box<Self>) -> Result<Box<dyn Session>, ProofError> {
        if self.step != 3 {
            return Err(ProofError);
        }
        let chain = self.symmetric.chain.to_le_bytes();
        let [first, second] = [7, 8].map(|label| Cipher::new(hash(label, &[&chain])));
        Ok(match self.role {
            Role::First => Box::new(ModelSession { ours: first, theirs: second }),
            Role::Second => Box::new(ModelSession { ours: second, theirs: first }),
        })
    }
}

#[derive(Debug)]
struct ModelSession {
    ours: Cipher,
    theirs: Cipher,
}

/// Records have a tag but are readable: no attacker uses their contents, and the checkers read them.
impl Session for ModelSession {
    fn seal(&mut self, plain: &[u8], record: &mut [u8]) -> Result<usize, ProofError> {
        let sealed = [plain, &self.ours.tag(&[], plain)].concat();
        self.ours.count += 1;
        let room =
            record.get_mut(..sealed.len()).filter(|room| room.len() <= RECORD_MAX).ok_or(ProofError)?;
        room.copy_from_slice(&sealed);
        Ok(sealed.len())
    }

    fn open(&mut self, record: &[u8], plain: &mut [u8]) -> Result<usize, ProofError> {
        let (opened, tag) = record.split_last_chunk::<TAG>().ok_or(ProofError)?;
        if self.theirs.tag(&[], opened) != *tag {
            return Err(ProofError);
        }
        self.theirs.count += 1;
        plain.get_mut(..opened.len()).ok_or(ProofError)?.copy_from_slice(opened);
        Ok(opened.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(psk: u64, private: u64) -> Model {
        Model { psk, private, random: Random::new(private) }
    }

    /// Runs a handshake, with one byte of one message flipped if requested.
    fn shake(
        psks: [u64; 2],
        prologues: [&[u8]; 2],
        flip: Option<(usize, usize)>,
    ) -> Result<[Option<PublicKey>; 2], ProofError> {
        let mut first = model(psks[0], 11).begin(Role::First, prologues[0])?;
        let mut second = model(psks[1], 22).begin(Role::Second, prologues[1])?;
        let lengths = [FIRST_LENGTH, SECOND_LENGTH, THIRD_LENGTH];
        for (step, said) in [&b"12345678"[..], b"abcd", b""].into_iter().enumerate() {
            let (writer, reader) =
                if step == 1 { (&mut second, &mut first) } else { (&mut first, &mut second) };
            let (mut message, mut heard) = (Vec::new(), vec![0; said.len()]);
            writer.write(said, &mut message)?;
            assert_eq!(message.len(), lengths[step]);
            if let Some((_, place)) = flip.filter(|(flipped, _)| *flipped == step) {
                message[place] ^= 1;
            }
            reader.read(&message, &mut heard)?;
            assert_eq!(heard, said);
        }
        let keys = [first.remote(), second.remote()];
        let (mut one, mut two) = (first.into_session()?, second.into_session()?);
        let (mut record, mut plain) = ([0; 64], [0; 64]);
        let length = one.seal(b"hello", &mut record)?;
        assert_eq!((length, two.open(&record[..length], &mut plain)), (5 + TAG, Ok(5)));
        assert_eq!(two.open(&record[..length], &mut plain), Err(ProofError), "again");
        assert_eq!(one.open(&record[..length], &mut plain), Err(ProofError), "sent back");
        Ok(keys)
    }

    #[test]
    fn who_has_the_secret_comes_through_and_learns_the_others_key() {
        assert_eq!(shake([5, 5], [b"p", b"p"], None), Ok([Some(public(22)), Some(public(11))]));
        assert_eq!(shake([5, 6], [b"p", b"p"], None), Err(ProofError), "another secret");
        assert_eq!(shake([5, 5], [b"p", b"q"], None), Err(ProofError), "another prologue");
    }

    #[test]
    fn every_byte_of_every_message_counts() {
        for (step, length) in [FIRST_LENGTH, SECOND_LENGTH, THIRD_LENGTH].into_iter().enumerate() {
            for place in 0..length {
                assert_eq!(
                    shake([5, 5], [b"p", b"p"], Some((step, place))),
                    Err(ProofError),
                    "{step} {place}"
                );
            }
        }
    }
}
