//! Keys that identify nodes: a node proves that it has the private half of the public key that others list for its id.
//!
//! Pure: a key pair is drawn with randomness from the caller.

use std::fmt;
use std::str::FromStr;

use zeroize::Zeroizing;

use super::secret::{hex, unhex};

/// Length of either half of a key, in bytes.
pub const KEY_LENGTH: usize = 32;

/// Maximum length of the text that an error quotes, in characters.
const QUOTED_MAX: usize = 70;

/// X25519 public key that identifies a node. The text form is 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PublicKey(pub [u8; KEY_LENGTH]);

/// X25519 private key of a node. The text form is 64 hexadecimal digits; `Debug` never prints it.
#[derive(Clone, PartialEq, Eq)]
pub struct PrivateKey(Zeroizing<[u8; KEY_LENGTH]>);

/// Text that is not a valid key. A private key is not quoted.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// Not a valid public key.
    #[error("`{0}` is no public key: write its 64 hexadecimal digits")]
    Public(String),
    /// Not a valid private key.
    #[error("this is no private key, which has 64 hexadecimal digits: draw one with `gpc secret --key FILE`")]
    Private,
}

impl PrivateKey {
    /// Returns a key of these bytes, which must be secret and unpredictable.
    pub fn new(bytes: [u8; KEY_LENGTH]) -> PrivateKey {
        PrivateKey(Zeroizing::new(bytes))
    }

    /// The bytes of the key.
    pub fn as_bytes(&self) -> &[u8; KEY_LENGTH] {
        &self.0
    }

    /// The text form, for storage that only the node can read.
    pub fn to_text(&self) -> Zeroizing<String> {
        hex(&*self.0)
    }
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PrivateKey(..)")
    }
}

impl FromStr for PrivateKey {
    type Err = KeyError;

    /// Surrounding white space, such as a line end, is ignored.
    fn from_str(text: &str) -> Result<PrivateKey, KeyError> {
        let bytes = Zeroizing::new(unhex(text.trim()).ok_or(KeyError::Private)?);
        bytes.as_slice().try_into().map(PrivateKey::new).map_err(|_| KeyError::Private)
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({self})")
    }
}

impl FromStr for PublicKey {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<PublicKey, KeyError> {
        let key = unhex(text).and_then(|bytes| bytes.try_into().ok());
        key.map(PublicKey).ok_or_else(|| KeyError::Public(text.chars().take(QUOTED_MAX).collect()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn invalid_keys_are_rejected_and_private_ones_not_quoted() {
        let error = "12".parse::<PublicKey>().unwrap_err().to_string();
        assert_eq!(error, "`12` is no public key: write its 64 hexadecimal digits");
        assert!("x".repeat(9999).parse::<PublicKey>().unwrap_err().to_string().len() < 150);
        assert!(!"4711".parse::<PrivateKey>().unwrap_err().to_string().contains("4711"));
        assert_eq!(format!("{:?}", PrivateKey::new([7; 32])), "PrivateKey(..)");
    }

    proptest! {
        #[test]
        fn keys_parse_as_printed(bytes in any::<[u8; KEY_LENGTH]>()) {
            let (public, private) = (PublicKey(bytes), PrivateKey::new(bytes));
            prop_assert_eq!(public.to_string().parse(), Ok(public));
            prop_assert_eq!(format!("{}\n", *private.to_text()).parse(), Ok(private));
        }

        #[test]
        fn parsing_any_text_as_a_key_does_not_panic(text in ".{0,80}") {
            let _ = (text.parse::<PublicKey>(), text.parse::<PrivateKey>());
        }
    }
}
