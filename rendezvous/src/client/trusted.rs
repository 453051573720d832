//! Which services get the token of this one, when it asks them as the controlling task of a unit. Clients name the parents of their resources: whoever names a host must not thereby be sent the token there.

use std::net::IpAddr;

use super::url::ServiceUrl;

/// The services above that get the token.
#[derive(Clone, Debug)]
pub(crate) struct Trusted {
    /// The host that this service is reached by.
    own: Option<String>,
    /// Scheme, host and port of those that are named.
    named: Vec<String>,
}

impl Trusted {
    #[cfg(any(feature = "http", test))]
    /// Those that this service, whose URL is `own`, trusts by itself, and those that are named.
    pub(crate) fn new(own: &str, named: &[ServiceUrl]) -> Trusted {
        let own = own.parse().ok().map(|own: ServiceUrl| own.host());
        Trusted { own, named: named.iter().map(ServiceUrl::origin).collect() }
    }

    /// Whether a service gets the token: over https, where its certificate is checked, on this host, and where it is named.
    pub(crate) fn has(&self, service: &ServiceUrl) -> bool {
        let host = service.host();
        let address = host.trim_matches(['[', ']']).parse::<IpAddr>().ok();
        service.is_secure()
            || host == "localhost"
            || address.is_some_and(|address| address.to_canonical().is_loopback())
            || self.own.as_ref() == Some(&host)
            || self.named.contains(&service.origin())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The token went wherever a client said that a resource above was.
    #[test]
    fn who_is_named_by_clients_alone_gets_no_token() {
        let named = ["http://Head:4000".parse().unwrap(), "http://plain".parse().unwrap()];
        let trusted = Trusted::new("http://10.0.0.7:4000/rendezvous", &named);
        for (url, has) in [
            ("https://anywhere/rendezvous", true),
            ("http://127.0.0.1:1", true),
            ("http://127.9.9.9", true),
            ("http://[::1]:1", true),
            ("http://[::ffff:127.0.0.1]:1", true),
            ("http://LocalHost:1/behind", true),
            ("http://10.0.0.7:1", true),
            ("http://head:4000/rendezvous", true),
            ("http://plain:80/rendezvous", true),
            ("http://head:4001", false),
            ("http://head", false),
            ("http://10.0.0.8:4000", false),
            ("http://0.0.0.0:4000", false),
            ("http://127.0.0.1.evil.example:4000", false),
            ("http://localhost.evil.example", false),
            ("http://evil.example:4000/10.0.0.7", false),
        ] {
            assert_eq!(trusted.has(&url.parse().unwrap()), has, "{url}");
        }
    }
}
