//! The token of a service, which authorizes requests. It is derived from the job's secret and does not reveal it.

use std::fmt;
use std::str::FromStr;

use chained_gpc::Secret;
use ring::hmac;
use zeroize::Zeroizing;

/// The text that is signed: the purpose of the token.
const LABEL: &[u8] = b"gpc rendezvous token 1";

/// Length of a token, bytes. Its text is 64 hexadecimal digits.
const LENGTH: usize = 32;

/// The token of a service: HMAC-SHA256 of the text `gpc rendezvous token 1`, with the bytes of the secret as key.
#[derive(Clone)]
pub struct ServiceToken(Zeroizing<[u8; LENGTH]>);

/// The text is not a service token.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the token of a service is {} hexadecimal digits", 2 * LENGTH)]
pub struct ServiceTokenError;

impl ServiceToken {
    /// Derives the token for services of the job with this secret.
    pub fn of(secret: &Secret) -> ServiceToken {
        let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes()), LABEL);
        let mut bytes = Zeroizing::new([0; LENGTH]);
        bytes.copy_from_slice(tag.as_ref());
        ServiceToken(bytes)
    }

    /// The token as hexadecimal digits.
    pub fn to_text(&self) -> Zeroizing<String> {
        let mut text = Zeroizing::new(String::with_capacity(2 * LENGTH));
        for byte in self.0.iter() {
            for digit in [byte >> 4, byte & 15] {
                text.push(char::from_digit(digit.into(), 16).unwrap_or('0'));
            }
        }
        text
    }
}

/// Compares in constant time.
impl PartialEq for ServiceToken {
    fn eq(&self, other: &ServiceToken) -> bool {
        let different =
            self.0.iter().zip(other.0.iter()).fold(0, |different, (one, two)| different | (one ^ two));
        std::hint::black_box(different) == 0
    }
}

impl Eq for ServiceToken {}

impl FromStr for ServiceToken {
    type Err = ServiceTokenError;

    fn from_str(text: &str) -> Result<ServiceToken, ServiceTokenError> {
        let digits: Option<Zeroizing<Vec<u8>>> = text
            .chars()
            .map(|digit| digit.to_digit(16).map(|digit| digit as u8))
            .collect::<Option<_>>()
            .map(Zeroizing::new);
        let digits = digits.filter(|digits| digits.len() == 2 * LENGTH).ok_or(ServiceTokenError)?;
        let mut bytes = Zeroizing::new([0; LENGTH]);
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = (pair[0] << 4) | pair[1];
        }
        Ok(ServiceToken(bytes))
    }
}

impl fmt::Debug for ServiceToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ServiceToken(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Test vector from `openssl dgst -sha256 -mac HMAC -macopt hexkey:00…`, for a secret of 32 zero bytes.
    #[test]
    fn others_derive_the_same_token() {
        let token = ServiceToken::of(&Secret::new(&[0; 32]).unwrap());
        assert_eq!(token.to_text().len(), 64);
        assert_eq!(token.to_text().parse(), Ok(token.clone()));
        assert_eq!(
            token.to_text().as_str(),
            "f40facfbf476dbdc18173e89c2ea9f85aedf5e1655f70fe5cffdbe83a7d875be"
        );
        assert_ne!(token, ServiceToken::of(&Secret::new(&[1; 32]).unwrap()));
    }

    #[test]
    fn tokens_differ_by_any_digit() {
        let text = "f40facfbf476dbdc18173e89c2ea9f85aedf5e1655f70fe5cffdbe83a7d875be";
        let token: ServiceToken = text.parse().unwrap();
        for at in 0..2 * LENGTH {
            let mut other = text.to_owned();
            other.replace_range(at..=at, if text[at..].starts_with('0') { "1" } else { "0" });
            assert_ne!(other.parse(), Ok(token.clone()), "{at}");
        }
    }

    #[test]
    fn other_text_is_refused() {
        for text in ["", "00", &"g".repeat(64), &"0".repeat(65), "ä"] {
            assert_eq!(text.parse::<ServiceToken>(), Err(ServiceTokenError));
        }
    }
}
