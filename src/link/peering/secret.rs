//! The secret of a job: nodes that have it may be members.
//!
//! Pure: the caller supplies the randomness for a new one. The secret is never printed, and its memory is wiped on
//! drop.

use std::fmt;
use std::str::FromStr;

use zeroize::Zeroizing;

/// Minimum length of a secret, in bytes: the length of the keys derived from it.
pub const SECRET_MIN: usize = 32;

/// Maximum length of a secret, in bytes: far more than is useful.
pub const SECRET_MAX: usize = 1024;

/// The secret that all nodes of a job share: 32 random bytes or more.
///
/// The text form has 64 hexadecimal digits or more. A secret has no `Display`, and its `Debug` prints nothing of it;
/// [`to_text`](Self::to_text) serves to hand it over.
///
/// ```
/// use chained_gpc::Secret;
///
/// let text = "5b1f0c2e9a7d4c3f8e6a1b2c3d4e5f605b1f0c2e9a7d4c3f8e6a1b2c3d4e5f60";
/// let secret: Secret = text.parse()?;
/// assert_eq!(*secret.to_text(), *text);
/// assert_eq!(format!("{secret:?}"), "Secret(..)");
/// assert!("too short".parse::<Secret>().is_err());
/// # Ok::<(), chained_gpc::link::peering::SecretError>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Zeroizing<Vec<u8>>);

/// Not a valid secret. The error quotes nothing of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SecretError {
    /// Too short: it could be guessed.
    #[error(
        "a secret has at least {SECRET_MIN} bytes, and this one has {0}: draw one with `gpc secret FILE`"
    )]
    Short(usize),
    /// Too long: probably something else was read.
    #[error("a secret has at most {SECRET_MAX} bytes")]
    Long,
    /// Not the text form of a secret.
    #[error("a secret is written in hexadecimal digits, two for each byte: draw one with `gpc secret FILE`")]
    NotHex,
}

impl Secret {
    /// Returns a secret of these bytes.
    ///
    /// # Errors
    /// If they are fewer than 32, or more than 1,024.
    pub fn new(bytes: &[u8]) -> Result<Secret, SecretError> {
        match bytes.len() {
            short if short < SECRET_MIN => Err(SecretError::Short(short)),
            long if long > SECRET_MAX => Err(SecretError::Long),
            _ => Ok(Secret(Zeroizing::new(bytes.to_vec()))),
        }
    }

    /// The bytes of the secret.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The text form, to hand it over without exposing it.
    pub fn to_text(&self) -> Zeroizing<String> {
        hex(&self.0)
    }
}

/// Prints nothing of the secret.
impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

impl FromStr for Secret {
    type Err = SecretError;

    /// Surrounding white space, such as a line end, is ignored.
    fn from_str(text: &str) -> Result<Secret, SecretError> {
        let text = text.trim();
        if text.len() > 2 * SECRET_MAX {
            return Err(SecretError::Long);
        }
        Secret::new(&Zeroizing::new(unhex(text).ok_or(SecretError::NotHex)?))
    }
}

/// Returns bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> Zeroizing<String> {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    // Allocated in full at the start: growing would leave copies of the digits in freed memory.
    let mut text = Zeroizing::new(String::with_capacity(2 * bytes.len()));
    for byte in bytes {
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    text
}

/// Returns the bytes of hexadecimal digits; `None` if the text is not valid.
pub(crate) fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    if !digits.len().is_multiple_of(2) {
        return None;
    }
    let mut bytes = Vec::with_capacity(digits.len() / 2);
    for pair in digits.chunks_exact(2) {
        let digit = |digit: u8| char::from(digit).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        bytes.push(digit(pair[0])? << 4 | digit(pair[1])?);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn weak_secrets_are_rejected_and_not_quoted() {
        assert_eq!(Secret::new(&[7; 31]), Err(SecretError::Short(31)));
        assert_eq!(Secret::new(&[7; 1025]), Err(SecretError::Long));
        let error = |text: &str| text.parse::<Secret>().unwrap_err();
        assert_eq!(error(&"ab".repeat(31)), SecretError::Short(31));
        assert_eq!(error(&"ab".repeat(99_999)), SecretError::Long);
        assert_eq!(error(&"a".repeat(65)), SecretError::NotHex);
        assert_eq!(error(&"+1".repeat(32)), SecretError::NotHex);
        assert_eq!(error(&"é".repeat(32)), SecretError::NotHex);
        assert!(!error("password1").to_string().contains("password1"));
        assert!("5b".repeat(32).parse::<Secret>().is_ok_and(|secret| secret.as_bytes() == [0x5b; 32]));
    }

    proptest! {
        #[test]
        fn a_secret_parses_as_printed(bytes in prop::collection::vec(any::<u8>(), 32..100)) {
            let secret = Secret::new(&bytes).unwrap();
            let text = format!(" {}\n", secret.to_text().as_str());
            prop_assert_eq!(text.parse::<Secret>(), Ok(secret.clone()));
            prop_assert_eq!(text.to_uppercase().parse::<Secret>(), Ok(secret));
        }

        #[test]
        fn parsing_any_text_as_a_secret_does_not_panic(text in ".{0,200}") {
            let _ = text.parse::<Secret>();
        }
    }
}
