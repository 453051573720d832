//! The secret of a job: who has it may take part.
//!
//! Pure: the randomness of a new one comes from the caller. It is never printed, and its memory is wiped when it is dropped.

use std::fmt;
use std::str::FromStr;

use zeroize::Zeroizing;

/// Fewest bytes of a secret: as many as the keys have that are made of it.
pub const SECRET_MIN: usize = 32;

/// Most bytes: far more than help.
pub const SECRET_MAX: usize = 1024;

/// What all nodes of a job have in common and nobody else knows: 32 random bytes, or more.
///
/// As text: hexadecimal digits, 64 or more. It has no `Display`, and `Debug` shows nothing of it; [`to_text`](Self::to_text) is for handing it over.
///
/// ```
/// use chained_gpc::Secret;
///
/// let text = "5b1f0c2e9a7d4c3f8e6a1b2c3d4e5f605b1f0c2e9a7d4c3f8e6a1b2c3d4e5f60";
/// let secret: Secret = text.parse()?;
/// assert_eq!(*secret.to_text(), *text);
/// assert_eq!(format!("{secret:?}"), "Secret(..)");
/// assert!("too short".parse::<Secret>().is_err());
/// # Ok::<(), chained_gpc::peering::SecretError>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Zeroizing<Vec<u8>>);

/// What is no secret. Nothing of it is quoted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SecretError {
    /// Others could guess it.
    #[error(
        "a secret has at least {SECRET_MIN} bytes, and this one has {0}: draw one with `gpc secret FILE`"
    )]
    Short(usize),
    /// Something else was read.
    #[error("a secret has at most {SECRET_MAX} bytes")]
    Long,
    /// It is not the text of one.
    #[error("a secret is written in hexadecimal digits, two for each byte: draw one with `gpc secret FILE`")]
    NotHex,
}

impl Secret {
    /// A secret of these bytes.
    ///
    /// # Errors
    /// When they are fewer than 32, or more than 1,024.
    pub fn new(bytes: &[u8]) -> Result<Secret, SecretError> {
        match bytes.len() {
            short if short < SECRET_MIN => Err(SecretError::Short(short)),
            long if long > SECRET_MAX => Err(SecretError::Long),
            _ => Ok(Secret(Zeroizing::new(bytes.to_vec()))),
        }
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Its text, for handing it over where nobody else reads it.
    pub fn to_text(&self) -> Zeroizing<String> {
        hex(&self.0)
    }
}

/// Nothing of the secret.
impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

impl FromStr for Secret {
    type Err = SecretError;

    /// White space around it, such as the end of a line, does not count.
    fn from_str(text: &str) -> Result<Secret, SecretError> {
        let text = text.trim();
        if text.len() > 2 * SECRET_MAX {
            return Err(SecretError::Long);
        }
        Secret::new(&Zeroizing::new(unhex(text).ok_or(SecretError::NotHex)?))
    }
}

/// Bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> Zeroizing<String> {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    // Of its full length from the start, so that no part of it is left where it was copied from.
    let mut text = Zeroizing::new(String::with_capacity(2 * bytes.len()));
    for byte in bytes {
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    text
}

/// The bytes of hexadecimal digits.
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
    fn what_others_could_guess_is_refused_and_not_quoted() {
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
        fn a_secret_reads_as_it_is_written(bytes in prop::collection::vec(any::<u8>(), 32..100)) {
            let secret = Secret::new(&bytes).unwrap();
            let text = format!(" {}\n", secret.to_text().as_str());
            prop_assert_eq!(text.parse::<Secret>(), Ok(secret.clone()));
            prop_assert_eq!(text.to_uppercase().parse::<Secret>(), Ok(secret));
        }

        #[test]
        fn any_text_is_a_secret_or_refused(text in ".{0,200}") {
            let _ = text.parse::<Secret>();
        }
    }
}
