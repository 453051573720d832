//! Handles: a handle is one string that locates a resource, short enough for an environment variable.
//!
//! Source: WS Rendezvous, "Integration with GRAM": `handle = serviceURL ? resource ID`.

use std::fmt;
use std::str::FromStr;

use chained_gpc::Shown;

/// Longest URL of a service, bytes.
pub const URL_MAX: usize = 1024;

/// Length of a resource id, bytes. Ids are random, so they cannot be guessed.
pub const ID_LENGTH: usize = 16;

/// Id of a resource within its service. Its text is 32 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceId(pub [u8; ID_LENGTH]);

impl ResourceId {
    /// The first digits of the id, for display: they do not suffice to access the resource.
    pub fn short(self) -> impl fmt::Display {
        let [a, b, c, d, ..] = self.0;
        format!("{:08x}", u32::from_be_bytes([a, b, c, d]))
    }
}

impl fmt::Display for ResourceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl fmt::Debug for ResourceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ResourceId({}…)", self.short())
    }
}

impl FromStr for ResourceId {
    type Err = HandleError;

    fn from_str(text: &str) -> Result<ResourceId, HandleError> {
        let digits = text.len() == 2 * ID_LENGTH && text.bytes().all(|digit| digit.is_ascii_hexdigit());
        let number = digits.then(|| u128::from_str_radix(text, 16).ok()).flatten();
        number.map(|number| ResourceId(number.to_be_bytes())).ok_or(HandleError::Id)
    }
}

/// A resource of a service: `serviceURL?resourceID`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Handle {
    service: String,
    resource: ResourceId,
}

/// The text is not a handle. The error does not quote the text, because a handle is confidential.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum HandleError {
    /// There is no `?` between the two parts.
    #[error("a handle is `serviceURL?resourceID`, and this has no `?`: quote it in a shell")]
    Parts,
    /// The part before the `?` is invalid.
    #[error(
        "a handle begins with the URL of a service, of at most {URL_MAX} printable letters without spaces"
    )]
    Url,
    /// The part after the `?` is invalid.
    #[error("the id of a resource is {} hexadecimal digits", 2 * ID_LENGTH)]
    Id,
}

impl Handle {
    /// The handle of a resource.
    ///
    /// # Errors
    /// Returns [`HandleError::Url`] if the URL is empty, longer than [`URL_MAX`], or has letters that are not
    /// printable, or a `?`.
    pub fn new(service: impl Into<String>, resource: ResourceId) -> Result<Handle, HandleError> {
        let service = service.into();
        let fits = (1..=URL_MAX).contains(&service.len());
        match fits && service.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'?') {
            true => Ok(Handle { service, resource }),
            false => Err(HandleError::Url),
        }
    }

    /// URL of the service.
    pub fn service(&self) -> &str {
        &self.service
    }

    /// Id of the resource.
    pub fn resource(&self) -> ResourceId {
        self.resource
    }
}

impl FromStr for Handle {
    type Err = HandleError;

    fn from_str(text: &str) -> Result<Handle, HandleError> {
        let (service, id) = text.split_once('?').ok_or(HandleError::Parts)?;
        Handle::new(service, id.parse()?)
    }
}

impl fmt::Display for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}?{}", self.service, self.resource)
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Handle({} {}…)", Shown(&self.service), self.resource.short())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TEXT: &str = "http://127.0.0.1:4000/rendezvous?000102030405060708090a0b0c0d0e0f";

    #[test]
    fn a_handle_is_the_url_and_the_id() {
        let handle: Handle = TEXT.parse().unwrap();
        assert_eq!(handle.service(), "http://127.0.0.1:4000/rendezvous");
        assert_eq!(handle.resource().0[..3], [0, 1, 2]);
        assert_eq!(handle.to_string(), TEXT);
    }

    #[test]
    fn what_is_shown_does_not_find_the_resource() {
        let handle: Handle = TEXT.parse().unwrap();
        assert_eq!(format!("{handle:?}"), "Handle(http://127.0.0.1:4000/rendezvous 00010203…)");
    }

    #[test]
    fn other_text_is_refused() {
        let fault = |text: &str| text.parse::<Handle>().unwrap_err();
        assert_eq!(fault("http://here"), HandleError::Parts);
        assert_eq!(fault(&TEXT.replace("http", "h ttp")), HandleError::Url);
        assert_eq!(fault(&TEXT[..TEXT.len() - 1]), HandleError::Id);
        assert_eq!(fault(&TEXT.replace("0001", "+001")), HandleError::Id);
    }

    #[test]
    fn a_url_has_at_most_1024_bytes() {
        let new = |length: usize| Handle::new("a".repeat(length), ResourceId([1; ID_LENGTH]));
        assert!(new(1).is_ok() && new(URL_MAX).is_ok());
        assert_eq!((new(0), new(URL_MAX + 1)), (Err(HandleError::Url), Err(HandleError::Url)));
    }

    proptest! {
        #[test]
        fn any_text_is_a_handle_or_refused(text in "\\PC*") {
            if let Ok(handle) = text.parse::<Handle>() {
                prop_assert_eq!(handle.to_string().parse(), Ok(handle));
            }
        }

        #[test]
        fn every_handle_is_read_back(url in "[!->@-~]{1,60}", id: [u8; ID_LENGTH]) {
            let handle = Handle::new(url, ResourceId(id)).unwrap();
            prop_assert_eq!(handle.to_string().parse(), Ok(handle));
        }
    }
}
