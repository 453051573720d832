//! Random secrets and keys, from the system's random numbers.

use std::io;

use rustix::io::retry_on_intr;
use rustix::rand::{GetRandomFlags, getrandom};
use zeroize::Zeroizing;

use crate::link::peering::{KEY_LENGTH, PrivateKey, SECRET_MIN, Secret};

/// Fills a few bytes with random numbers of the system; waits if the system has just started.
pub(super) fn fill(bytes: &mut [u8]) -> io::Result<()> {
    let mut filled = 0;
    while filled < bytes.len() {
        // Each call fills at least one byte.
        filled += retry_on_intr(|| getrandom(&mut bytes[filled..], GetRandomFlags::empty()))?;
    }
    Ok(())
}

impl Secret {
    /// Draws a secret: 32 random bytes of the system.
    ///
    /// # Errors
    /// The system's, if it has no random numbers.
    pub fn random() -> io::Result<Secret> {
        let mut bytes = Zeroizing::new([0; SECRET_MIN]);
        fill(&mut *bytes)?;
        Secret::new(&*bytes).map_err(io::Error::other)
    }
}

impl PrivateKey {
    /// Draws a key from the system's random numbers.
    ///
    /// # Errors
    /// The system's, if it has no random numbers.
    pub fn random() -> io::Result<PrivateKey> {
        let mut bytes = Zeroizing::new([0; KEY_LENGTH]);
        fill(&mut *bytes)?;
        Ok(PrivateKey::new(*bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_and_keys_are_drawn_apart() {
        let secrets: Vec<Secret> = (0..100).map(|_| Secret::random().unwrap()).collect();
        for (place, secret) in secrets.iter().enumerate() {
            assert!(!secrets[..place].contains(secret) && secret.as_bytes().len() == 32);
        }
        assert_ne!(PrivateKey::random().unwrap(), PrivateKey::random().unwrap());
    }
}
