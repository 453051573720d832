//! Checks on whose behalf a browser sends a request: pages of other sites must neither use the service nor learn
//! anything about it.
//!
//! A page can make its visitor's browser send requests to any address, even one that only the visitor can reach. The
//! browser names the page's origin in `Origin` and `Sec-Fetch-Site`. `Host` reveals DNS rebinding: it has a name of the
//! attacking page's own, which now resolves to this server.

use std::net::IpAddr;

use axum::http::uri::Authority;
use axum::http::{HeaderMap, StatusCode, Uri, Version, header};
use chained_gpc::Shown;

use super::problem::Problem;
use crate::machine::FaultKind;

/// Names of the server.
#[derive(Debug)]
pub(super) struct Names {
    /// Whether it listens on loopback. Its names are then its addresses, `localhost`, and the host in its URL.
    pub(super) loopback: bool,
    /// Host and port of its URL.
    pub(super) authority: String,
    /// `http` or `https`.
    pub(super) scheme: &'static str,
}

impl Names {
    /// Rejects a request that a page of another site makes its visitor's browser send.
    pub(super) fn check(&self, version: Version, uri: &Uri, headers: &HeaderMap) -> Result<(), Problem> {
        let host = host(version, headers)?;
        let called = uri.authority().map(Authority::as_str).into_iter().chain(host);
        for name in called {
            if self.loopback && !self.is_ours(name) {
                return Err(refused(format!(
                    "the service listens on loopback and is not called {}: use its address or `localhost`",
                    Shown(name)
                )));
            }
        }
        let site = headers.get("sec-fetch-site").map(|site| site.as_bytes());
        if site == Some(b"cross-site") {
            return Err(refused("a page of another site has asked for this"));
        }
        for origin in headers.get_all(header::ORIGIN) {
            let origin = origin.to_str().unwrap_or_default();
            let own = origin.split_once("://").is_some_and(|(scheme, authority)| {
                let called = host.is_some_and(|host| host.eq_ignore_ascii_case(authority));
                // Behind a proxy the scheme may differ from the server's own.
                called && (scheme == self.scheme || scheme == "https")
                    || authority.eq_ignore_ascii_case(&self.authority)
            });
            if !own {
                let message = format!("a page of {} has asked for this, another site", Shown(origin));
                return Err(refused(message));
            }
        }
        Ok(())
    }

    fn is_ours(&self, name: &str) -> bool {
        let Ok(name) = name.parse::<Authority>() else { return false };
        let host = name.host().trim_start_matches('[').trim_end_matches(']');
        let public = self.authority.parse::<Authority>().ok();
        host.parse::<IpAddr>().is_ok()
            || host.eq_ignore_ascii_case("localhost")
            || public.is_some_and(|public| public.host().eq_ignore_ascii_case(name.host()))
    }
}

fn host(version: Version, headers: &HeaderMap) -> Result<Option<&str>, Problem> {
    let mut hosts = headers.get_all(header::HOST).iter();
    match (hosts.next(), hosts.next()) {
        (Some(host), None) => match host.to_str() {
            Ok(host) => Ok(Some(host)),
            Err(_) => Err(Problem::bad("`Host` is no name")),
        },
        (None, _) if version < Version::HTTP_11 => Ok(None),
        (None, _) => Err(Problem::bad("a request of HTTP/1.1 has the header `Host`")),
        (Some(_), Some(_)) => Err(Problem::bad("`Host` is there twice")),
    }
}

fn refused(message: impl Into<String>) -> Problem {
    Problem::new(StatusCode::FORBIDDEN, FaultKind::BadRequest, message)
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn allowed(loopback: bool, headers: &[(&'static str, &'static str)]) -> bool {
        let names = Names { loopback, authority: "head.cluster:4000".into(), scheme: "http" };
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, HeaderValue::from_static(value));
        }
        names.check(Version::HTTP_11, &Uri::from_static("/"), &map).is_ok()
    }

    #[test]
    fn on_loopback_it_is_called_by_address_or_by_a_name_of_its_own() {
        for host in ["127.0.0.1:4000", "[::1]:4000", "localhost", "LOCALHOST:1", "head.cluster", "10.0.0.1"] {
            assert!(allowed(true, &[("host", host)]), "{host}");
        }
        for host in ["evil.example", "localhost.evil.example:4000", "127.0.0.1.evil.example", "", "a b"] {
            assert!(!allowed(true, &[("host", host)]), "{host}");
        }
        assert!(allowed(false, &[("host", "any.name")]));
        assert!(!allowed(false, &[]));
        assert!(!allowed(false, &[("host", "a"), ("host", "a")]));
    }

    #[test]
    fn pages_of_other_sites_are_refused() {
        let from = |origin| allowed(true, &[("host", "localhost:4000"), ("origin", origin)]);
        assert!(from("http://localhost:4000"));
        assert!(from("http://head.cluster:4000"));
        for origin in ["http://localhost:4001", "http://evil.example", "null", "", "ftp://localhost:4000"] {
            assert!(!from(origin), "{origin}");
        }
        let own = ("origin", "http://localhost:4000");
        assert!(!allowed(true, &[("host", "localhost:4000"), own, ("origin", "http://evil.example")]));
        assert!(!allowed(true, &[("host", "localhost"), ("sec-fetch-site", "cross-site")]));
        assert!(allowed(true, &[("host", "localhost"), ("sec-fetch-site", "same-origin")]));
    }

    #[test]
    fn a_whole_url_in_the_first_line_is_a_name_too() {
        let names = Names { loopback: true, authority: "127.0.0.1:1".into(), scheme: "http" };
        let uri = Uri::from_static("http://evil.example/rendezvous");
        assert!(names.check(Version::HTTP_10, &uri, &HeaderMap::new()).is_err());
        assert!(names.check(Version::HTTP_10, &Uri::from_static("/rendezvous"), &HeaderMap::new()).is_ok());
    }
}
