//! The proof in production: `Noise_XXpsk0_25519_AESGCM_SHA256` of the crate snow, with no cryptography of its own.
//!
//! Source: The Noise Protocol Framework, revision 34. The caller supplies the randomness, 32 bytes for each handshake.

use std::fmt;
use std::sync::Mutex;

use ring::hkdf::{HKDF_SHA256, KeyType, Salt};
use snow::params::{CipherChoice, DHChoice, HashChoice};
use snow::resolvers::{CryptoResolver, DefaultResolver, RingResolver};
use snow::types::{Cipher, Dh, Hash, Random};
use snow::{HandshakeState, TransportState};
use zeroize::Zeroizing;

use super::key::{KEY_LENGTH, PrivateKey, PublicKey};
use super::proof::{Crypto, Handshake, ProofError, Role, Session};
use super::secret::Secret;
use crate::wire::Job;

/// Pattern, curve, cipher and hash.
const NAME: &str = "Noise_XXpsk0_25519_AESGCM_SHA256";

/// Label for the key of a job's handshakes, so that other uses of the secret derive other keys.
const LABEL: &[u8] = b"chained GPC: links, 2";

/// Length of that key, in bytes.
const PSK: usize = 32;

/// Number of records sealed with one key. The key is changed after 4 GiB at most, far below the limit of the cipher.
const RECORDS_PER_KEY: u64 = 1 << 16;

/// Fills bytes with randomness.
pub type Fill = Box<dyn FnMut(&mut [u8]) -> Result<(), ProofError> + Send>;

/// Handshake factory of a node that has the secret of its job and a key of its own.
pub struct Noise {
    psk: Zeroizing<[u8; PSK]>,
    key: PrivateKey,
    fill: Fill,
}

impl Noise {
    /// Returns handshakes with the secret of this job, this key, and this source of randomness.
    pub fn new(secret: &Secret, job: Job, key: PrivateKey, fill: Fill) -> Noise {
        Noise { psk: psk(secret, job), key, fill }
    }
}

/// Derives the key of a job's handshakes from the secret.
fn psk(secret: &Secret, job: Job) -> Zeroizing<[u8; PSK]> {
    struct Length;
    impl KeyType for Length {
        fn len(&self) -> usize {
            PSK
        }
    }
    let mut psk = Zeroizing::new([0; PSK]);
    let extracted = Salt::new(HKDF_SHA256, LABEL).extract(secret.as_bytes());
    let expanded = extracted.expand(&[&job.0], Length).and_then(|okm| okm.fill(&mut *psk));
    expanded.expect("one block of output is always given");
    psk
}

impl PrivateKey {
    /// The public half, which identifies the node to others.
    pub fn public(&self) -> PublicKey {
        let mut dh = DefaultResolver.resolve_dh(&DHChoice::Curve25519).expect("the curve is compiled in");
        dh.set(self.as_bytes());
        PublicKey(dh.pubkey().try_into().expect("a key of this curve has this length"))
    }
}

/// Prints nothing of the keys.
impl fmt::Debug for Noise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Noise(..)")
    }
}

impl Crypto for Noise {
    fn begin(&mut self, role: Role, prologue: &[u8]) -> Result<Box<dyn Handshake>, ProofError> {
        let mut drawn = Zeroizing::new([0; KEY_LENGTH]);
        (self.fill)(&mut *drawn)?;
        let resolver = Box::new(Resolver(Mutex::new(Some(EphemeralRandom(drawn)))));
        let builder = snow::Builder::with_resolver(NAME.parse().map_err(wrong)?, resolver)
            .local_private_key(self.key.as_bytes())
            .and_then(|builder| builder.psk(0, &self.psk))
            .and_then(|builder| builder.prologue(prologue))
            .map_err(wrong)?;
        let state = match role {
            Role::First => builder.build_initiator(),
            Role::Second => builder.build_responder(),
        };
        Ok(Box::new(NoiseHandshake(state.map_err(wrong)?)))
    }
}

fn wrong(_: snow::Error) -> ProofError {
    ProofError
}

/// Algorithms for snow: ring for cipher and hash, where it is fast; snow's own curve; and randomness drawn in advance.
struct Resolver(Mutex<Option<EphemeralRandom>>);

impl CryptoResolver for Resolver {
    fn resolve_rng(&self) -> Option<Box<dyn Random>> {
        let mut drawn = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        drawn.take().map(|drawn| Box::new(drawn) as Box<dyn Random>)
    }

    // The algorithms of `NAME` as constants: those of other names need not be in the program, 60 KB of them.
    fn resolve_dh(&self, choice: &DHChoice) -> Option<Box<dyn Dh>> {
        let is_named = matches!(choice, DHChoice::Curve25519);
        is_named.then(|| DefaultResolver.resolve_dh(&DHChoice::Curve25519)).flatten()
    }

    fn resolve_hash(&self, choice: &HashChoice) -> Option<Box<dyn Hash>> {
        let is_named = matches!(choice, HashChoice::SHA256);
        is_named.then(|| RingResolver.resolve_hash(&HashChoice::SHA256)).flatten()
    }

    fn resolve_cipher(&self, choice: &CipherChoice) -> Option<Box<dyn Cipher>> {
        let is_named = matches!(choice, CipherChoice::AESGCM);
        is_named.then(|| RingResolver.resolve_cipher(&CipherChoice::AESGCM)).flatten()
    }
}

/// Randomness for one handshake, enough for one ephemeral key. A second request fails.
struct EphemeralRandom(Zeroizing<[u8; KEY_LENGTH]>);

impl Random for EphemeralRandom {
    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), snow::Error> {
        if bytes.len() != KEY_LENGTH || *self.0 == [0; KEY_LENGTH] {
            return Err(snow::Error::Rng);
        }
        bytes.copy_from_slice(&*self.0);
        *self.0 = [0; KEY_LENGTH];
        Ok(())
    }
}

struct NoiseHandshake(HandshakeState);

impl fmt::Debug for NoiseHandshake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NoiseHandshake(..)")
    }
}

/// Longer than any message of the handshake, in bytes.
const MESSAGE_MAX: usize = 256;

impl Handshake for NoiseHandshake {
    fn write(&mut self, payload: &[u8], message: &mut Vec<u8>) -> Result<(), ProofError> {
        let mut written = [0; MESSAGE_MAX];
        let length = self.0.write_message(payload, &mut written).map_err(wrong)?;
        message.extend_from_slice(&written[..length]);
        Ok(())
    }

    fn read(&mut self, message: &[u8], payload: &mut [u8]) -> Result<(), ProofError> {
        let mut read = [0; MESSAGE_MAX];
        let length = self.0.read_message(message, &mut read).map_err(wrong)?;
        if length != payload.len() {
            return Err(ProofError);
        }
        payload.copy_from_slice(&read[..length]);
        Ok(())
    }

    fn remote(&self) -> Option<PublicKey> {
        self.0.get_remote_static().and_then(|key| key.try_into().ok()).map(PublicKey)
    }

    fn into_session(self: Box<Self>) -> Result<Box<dyn Session>, ProofError> {
        let state = self.0.into_transport_mode().map_err(wrong)?;
        Ok(Box::new(NoiseSession { state, sealed: 0, opened: 0 }))
    }
}

struct NoiseSession {
    state: TransportState,
    sealed: u64,
    opened: u64,
}

impl fmt::Debug for NoiseSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NoiseSession(..)")
    }
}

impl Session for NoiseSession {
    fn seal(&mut self, plain: &[u8], record: &mut [u8]) -> Result<usize, ProofError> {
        let length = self.state.write_message(plain, record).map_err(wrong)?;
        self.sealed += 1;
        if self.sealed.is_multiple_of(RECORDS_PER_KEY) {
            self.state.rekey_outgoing();
        }
        Ok(length)
    }

    fn open(&mut self, record: &[u8], plain: &mut [u8]) -> Result<usize, ProofError> {
        let length = self.state.read_message(record, plain).map_err(wrong)?;
        self.opened += 1;
        if self.opened.is_multiple_of(RECORDS_PER_KEY) {
            self.state.rekey_incoming();
        }
        Ok(length)
    }
}

#[cfg(test)]
mod tests;
