//! Settings of the authentication of a node's links.

use std::io;

use super::Address;
use crate::link::peering::{Crypto, PrivateKey, Secret, Strictness};
use crate::wire::Job;

/// The settings. By default there is no secret, and none is needed on this host.
#[derive(Clone, Default, Debug)]
pub(super) struct Trust {
    pub(super) secret: Option<Secret>,
    pub(super) key: Option<PrivateKey>,
    pub(super) no_encryption: bool,
    pub(super) encrypt_loopback: bool,
    pub(super) insecure: bool,
}

impl Trust {
    pub(super) fn strictness(&self) -> Strictness {
        let Trust { no_encryption, encrypt_loopback, insecure, .. } = *self;
        Strictness { no_encryption, encrypt_loopback, insecure }
    }

    /// Checks that the node may listen there.
    ///
    /// # Errors
    /// If other hosts reach that address, and no secret authenticates them.
    pub(super) fn permits(&self, listens: Option<&Address>) -> io::Result<()> {
        match listens.filter(|address| !address.is_local()) {
            Some(address) if self.secret.is_none() && !self.insecure => {
                let text = format!(
                    "other machines can reach {address}, and without a secret whoever does can call functions here: give all nodes of the job the same secret, or accept that as insecure"
                );
                Err(io::Error::new(io::ErrorKind::PermissionDenied, text))
            }
            _ => Ok(()),
        }
    }

    /// Creates the cryptography of a node of this job; `None` without a secret.
    ///
    /// # Errors
    /// The system's, if it has no randomness for a key; without the feature `noise`, any secret is an error.
    #[cfg(feature = "noise")]
    pub(super) fn crypto(self, job: Job) -> io::Result<Option<Box<dyn Crypto>>> {
        use super::randomness::fill;
        use crate::link::peering::{Noise, ProofError};

        let Some(secret) = self.secret else { return Ok(None) };
        let key = self.key.map_or_else(PrivateKey::random, Ok)?;
        let draw = |bytes: &mut [u8]| fill(bytes).map_err(|_| ProofError);
        Ok(Some(Box::new(Noise::new(&secret, job, key, Box::new(draw)))))
    }

    #[cfg(not(feature = "noise"))]
    pub(super) fn crypto(self, _: Job) -> io::Result<Option<Box<dyn Crypto>>> {
        match self.secret {
            None => Ok(None),
            Some(_) => {
                let text =
                    "a secret needs the feature `noise` of chained-gpc, which this program was built without";
                Err(io::Error::new(io::ErrorKind::Unsupported, text))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_other_hosts_reach_has_a_secret_or_says_that_it_needs_none() {
        let permits = |trust: &Trust| {
            ["127.0.0.1:1", "unix:@one", "0.0.0.0:1", "[2001:db8::1]:1"]
                .map(|address| trust.permits(Some(&address.parse().unwrap())).is_ok())
        };
        let none = Trust::default();
        assert_eq!(permits(&none), [true, true, false, false]);
        let error = none.permits(Some(&"0.0.0.0:1".parse().unwrap())).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        assert!(none.permits(None).is_ok());
        assert_eq!(permits(&Trust { insecure: true, ..Trust::default() }), [true; 4]);
        let secret = Some(Secret::new(&[7; 32]).unwrap());
        assert_eq!(permits(&Trust { secret, ..Trust::default() }), [true; 4]);
    }

    #[test]
    fn each_setting_is_passed_on_as_it_is() {
        let set = |no_encryption, encrypt_loopback, insecure| {
            Trust { no_encryption, encrypt_loopback, insecure, ..Trust::default() }.strictness()
        };
        for (one, two, three) in [(true, false, false), (false, true, false), (false, false, true)] {
            let strictness = set(one, two, three);
            let Strictness { no_encryption, encrypt_loopback, insecure } = strictness;
            assert_eq!((no_encryption, encrypt_loopback, insecure), (one, two, three));
        }
        assert!(Trust::default().crypto(Job::default()).unwrap().is_none());
    }
}
