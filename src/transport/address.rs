//! Addresses of nodes, and their text form.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

/// The address at which a node listens.
///
/// As text: `127.0.0.1:5000` or `tcp:[::1]:5000`; `unix:/run/gpc/3.sock`; `unix:@name` for a Linux abstract socket,
/// which leaves no file behind; `host` for an id that the [network of the program](crate::HostNetwork) reaches.
///
/// ```
/// use chained_gpc::Address;
///
/// let address: Address = "tcp:[::1]:5000".parse()?;
/// assert_eq!((address.is_local(), address.to_string()), (true, "[::1]:5000".to_string()));
/// assert_eq!("unix:/run/gpc/3.sock".parse(), Ok(Address::Unix("/run/gpc/3.sock".into())));
/// assert!("localhost:5000".parse::<Address>().unwrap_err().to_string().contains("not an IP address"));
/// # Ok::<(), chained_gpc::AddressError>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum Address {
    /// A TCP port.
    Tcp(SocketAddr),
    /// A Unix socket at a path.
    Unix(PathBuf),
    /// A Linux abstract Unix socket.
    Abstract(String),
    /// Over the [network of the program](crate::HostNetwork), which knows the ids.
    Host,
}

/// Text that is not an address.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`{text}` is no address: {why}; write HOST-IP:PORT, tcp:HOST-IP:PORT, unix:PATH, unix:@NAME or host")]
pub struct AddressError {
    text: String,
    why: String,
}

/// Exclusive bound of the length of a Unix socket's path or name, bytes: the system's `sun_path` has 108, the last of
/// them zero.
pub(crate) const UNIX_PATH: usize = 108;

impl Address {
    /// Whether only this machine can reach it: a loopback address or a Unix socket.
    pub fn is_local(&self) -> bool {
        match self {
            Address::Tcp(address) => address.ip().is_loopback(),
            Address::Unix(_) | Address::Abstract(_) => true,
            Address::Host => false,
        }
    }

    /// The IP address of its host, unless that is surely this one.
    pub(crate) fn remote_ip(&self) -> Option<IpAddr> {
        match self {
            Address::Tcp(address) => Some(address.ip().to_canonical()).filter(|ip| !ip.is_loopback()),
            Address::Unix(_) | Address::Abstract(_) | Address::Host => None,
        }
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Address, AddressError> {
        let error = |why: &str| AddressError { text: text.into(), why: why.into() };
        if let Some(path) = text.strip_prefix("unix:") {
            return match (path.strip_prefix('@'), path.len()) {
                (_, 0) | (Some(""), _) => Err(error("the path is missing")),
                (_, UNIX_PATH..) => {
                    Err(error("the path is longer than the 107 bytes that the system allows"))
                }
                (Some(name), _) => Ok(Address::Abstract(name.into())),
                (None, _) => Ok(Address::Unix(path.into())),
            };
        }
        if text == "host" {
            return Ok(Address::Host);
        }
        let socket = text.strip_prefix("tcp:").unwrap_or(text);
        socket.parse().map(Address::Tcp).map_err(|_| error("it is not an IP address and a port"))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp(address) => address.fmt(f),
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
            Address::Abstract(name) => write!(f, "unix:@{name}"),
            Address::Host => f.write_str("host"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_print_as_they_parse() {
        for text in [
            "127.0.0.1:80",
            "[::1]:9",
            "unix:/tmp/a.sock",
            "unix:@name",
            "host",
            &format!("unix:/{}", "a".repeat(106)),
        ] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
        assert_eq!("tcp:127.0.0.1:80".parse(), "127.0.0.1:80".parse::<Address>());
        assert!("127.0.0.1:80".parse::<Address>().unwrap().is_local());
        assert!(!"0.0.0.0:80".parse::<Address>().unwrap().is_local());
        for text in [
            "",
            "localhost:80",
            "127.0.0.1",
            "unix:",
            "unix:@",
            &format!("unix:{}", "a".repeat(108)),
            &format!("unix:@{}", "a".repeat(107)),
        ] {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
    }
}
