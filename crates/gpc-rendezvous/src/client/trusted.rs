//! Decides which services receive this service's token when it acts as controlling task. Clients name the parents of
//! their resources, so naming a host must not suffice to get the token sent there.

use std::net::IpAddr;

use super::url::ServiceUrl;

/// Parent services that receive the token.
#[derive(Clone, Debug)]
pub(crate) struct Trusted {
    /// Host in this service's own URL.
    own: Option<String>,
    /// Scheme, host and port of the configured services.
    named: Vec<String>,
}

impl Trusted {
    #[cfg(any(feature = "http", test))]
    /// Trusts the host of this service's own URL `own`, and the configured services.
    pub(crate) fn new(own: &str, named: &[ServiceUrl]) -> Trusted {
        let own = own.parse().ok().map(|own: ServiceUrl| own.host());
        Trusted { own, named: named.iter().map(ServiceUrl::origin).collect() }
    }

    /// Whether a service receives the token: over https, where its certificate is checked; on this host; or if it is
    /// configured.
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

    /// The token was sent to any host that a client named as parent.
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
