//! Authentication of a client: the methods and the key.

use std::fmt;
use std::str::FromStr;

use zeroize::Zeroizing;

/// Environment variable that enables the method without a proof, whatever its value. All implementations use this name.
pub const NONE_VARIABLE: &str = "IMPI_AUTH_NONE";

/// Environment variable with the key, a decimal number.
pub const KEY_VARIABLE: &str = "IMPI_AUTH_KEY";

/// An authentication method.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Method {
    /// No proof: every client that reaches the server is admitted.
    None,
    /// An 8-byte number that client and server share.
    Key,
}

/// The methods that one side accepts. If both sides have a key, that method is preferred.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Methods {
    /// The method without a proof.
    pub none: bool,
    /// The key, for the method by key.
    pub key: Option<Key>,
}

impl Methods {
    /// Mask of the methods: bit i for method i.
    pub fn mask(&self) -> u32 {
        u32::from(self.none) | u32::from(self.key.is_some()) << 1
    }

    /// The methods that a client with these offers. Without a key it also offers the method without a proof, and the
    /// server decides.
    #[must_use]
    pub fn offered(self) -> Methods {
        Methods { none: self.none || self.key.is_none(), key: self.key }
    }

    /// The method to use with a peer that offers `mask`.
    pub fn choose(&self, mask: u32) -> Option<Method> {
        match self.mask() & mask {
            common if common & 2 != 0 => Some(Method::Key),
            common if common & 1 != 0 => Some(Method::None),
            _ => None,
        }
    }
}

/// The key of a session: a number of 8 bytes. It is never displayed, and it is wiped from memory when dropped.
#[derive(Clone)]
pub struct Key(Zeroizing<[u8; 8]>);

/// The text is not a key. The message omits the text, because it may be a key with a typing error.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("it is no decimal number of 64 bits, such as 13577531")]
pub struct KeyError;

impl Key {
    /// The key with these bytes on the wire.
    pub fn from_bytes(bytes: [u8; 8]) -> Key {
        Key(Zeroizing::new(bytes))
    }

    /// The bytes on the wire.
    pub fn bytes(&self) -> Zeroizing<[u8; 8]> {
        self.0.clone()
    }
}

/// Compares in constant time.
impl PartialEq for Key {
    fn eq(&self, other: &Key) -> bool {
        let differ = self.0.iter().zip(other.0.iter()).fold(0, |differ, (a, b)| differ | (a ^ b));
        std::hint::black_box(differ) == 0
    }
}

impl Eq for Key {}

impl FromStr for Key {
    type Err = KeyError;

    /// Parses a decimal number, as in `IMPI_AUTH_KEY`: a `Uint8`, or a negative number as an `Int8`, which is how C
    /// programs read it.
    fn from_str(text: &str) -> Result<Key, KeyError> {
        let text = text.trim();
        let number = text.parse::<u64>().or_else(|_| text.parse::<i64>().map(|number| number as u64));
        number.map(|number| Key::from_bytes(number.to_be_bytes())).map_err(|_| KeyError)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> Option<Key> {
        text.parse().ok()
    }

    #[test]
    fn the_key_is_preferred() {
        let both = Methods { none: true, key: key("5") };
        let none = Methods { none: true, key: None };
        assert_eq!((both.mask(), none.mask(), Methods::default().mask()), (3, 1, 0));
        assert_eq!(
            [1, 2, 3, 4, 0].map(|mask| both.choose(mask)).map(|method| format!("{method:?}")),
            ["Some(None)", "Some(Key)", "Some(Key)", "None", "None"]
        );
        assert_eq!(none.choose(2), None);
        // Bits of unknown methods are ignored.
        assert_eq!(none.choose(0xffff_ffff), Some(Method::None));
    }

    #[test]
    fn keys_are_numbers_and_are_not_shown() {
        assert_eq!(*key(" 258 ").unwrap().bytes(), [0, 0, 0, 0, 0, 0, 1, 2]);
        assert_eq!(*key("-1").unwrap().bytes(), [255; 8]);
        assert_eq!(key("18446744073709551615"), key("-1"));
        for bad in ["", "abc", "1e3", "18446744073709551616", "0x10", "1 2"] {
            assert_eq!(key(bad), None, "{bad}");
        }
        assert_ne!(key("5"), key("6"));
        assert!(!format!("{:?}", Methods { none: false, key: key("123454321") }).contains("12345"));
        assert!(!"12345x".parse::<Key>().unwrap_err().to_string().contains("12345x"));
    }
}
