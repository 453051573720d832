//! URL of a service, and the URLs derived from it.

use std::str::FromStr;

use chained_gpc::Shown;
use hyper::Uri;

use crate::machine::URL_MAX;

/// Path of a service whose URL has only a host.
const PATH: &str = "/rendezvous";

/// URL of a service: `http://HOST:PORT/rendezvous`, or with `https`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServiceUrl {
    /// Without a trailing `/`.
    text: String,
    secure: bool,
}

/// The text is not the URL of a service.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "`{}` is no URL of a rendezvous service: {why}; write it as `gpc rendezvous serve` prints it, such as http://127.0.0.1:4000/rendezvous",
    Shown(text)
)]
pub struct UrlError {
    text: String,
    why: &'static str,
}

impl ServiceUrl {
    /// The URL as it stands in handles.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether connections are encrypted.
    pub fn is_secure(&self) -> bool {
        self.secure
    }

    /// The host, in lower case; an IPv6 address is in brackets.
    pub(super) fn host(&self) -> String {
        let url = self.text.parse::<Uri>().unwrap_or_default();
        url.host().unwrap_or_default().to_ascii_lowercase()
    }

    /// Scheme, host and port.
    pub(super) fn origin(&self) -> String {
        let url = self.text.parse::<Uri>().unwrap_or_default();
        let (scheme, port) = if self.secure { ("https", 443) } else { ("http", 80) };
        format!("{scheme}://{}:{}", self.host(), url.port_u16().unwrap_or(port))
    }

    /// A sibling path: for example `http://HOST:PORT/jobs` for `http://HOST:PORT/rendezvous`.
    pub(super) fn beside(&self, name: &str) -> String {
        let above = self.text.rsplit_once('/').map_or(self.text.as_str(), |(above, _)| above);
        format!("{above}/{name}")
    }
}

impl FromStr for ServiceUrl {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<ServiceUrl, UrlError> {
        let error = |why| UrlError { text: text.chars().take(URL_MAX).collect(), why };
        // The margin covers the path that may be added, so one check of the length suffices.
        if text.len() > URL_MAX - PATH.len() {
            return Err(error("it is too long"));
        }
        let url: Uri = text.parse().map_err(|_| error("it is none at all"))?;
        let secure = match url.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(error("it begins with neither http:// nor https://")),
        };
        let authority = url.authority().ok_or_else(|| error("it has no host"))?;
        if authority.as_str().contains('@') {
            return Err(error("it names a user, of whom services know nothing"));
        }
        if authority.host().is_empty() {
            return Err(error("it has no host"));
        }
        if text.contains(['?', '#']) {
            return Err(error("something stands behind its path"));
        }
        let bare = text.trim_end_matches('/');
        let text =
            if url.path().trim_matches('/').is_empty() { format!("{bare}{PATH}") } else { bare.into() };
        Ok(ServiceUrl { text, secure })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_service_is_named_by_its_host_or_its_whole_url() {
        for (text, whole) in [
            ("http://a:1", "http://a:1/rendezvous"),
            ("http://a:1/", "http://a:1/rendezvous"),
            ("http://a:1/rendezvous/", "http://a:1/rendezvous"),
            ("https://[::1]:9/behind/rendezvous", "https://[::1]:9/behind/rendezvous"),
        ] {
            let url: ServiceUrl = text.parse().unwrap();
            assert_eq!((url.as_str(), url.is_secure()), (whole, text.starts_with("https")));
        }
        let url: ServiceUrl = "http://a:1/behind/rendezvous".parse().unwrap();
        assert_eq!(url.beside("jobs"), "http://a:1/behind/jobs");
    }

    #[test]
    fn what_is_none_says_why() {
        let long = format!("http://{}", "a".repeat(URL_MAX));
        for (text, why) in [
            ("", "none at all"),
            ("a:1", "http://"),
            ("/rendezvous", "http://"),
            ("ftp://a/rendezvous", "http://"),
            ("http://me@a/rendezvous", "user"),
            ("http://a:1/rendezvous?00", "behind its path"),
            (&long, "too long"),
        ] {
            let error = text.parse::<ServiceUrl>().unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_url_or_refused(text in "(https?://)?\\PC{0,40}") {
            if let Ok(url) = text.parse::<ServiceUrl>() {
                prop_assert_eq!(url.as_str().parse(), Ok(url.clone()));
                prop_assert!(url.beside("jobs").parse::<Uri>().is_ok());
            }
        }
    }
}
