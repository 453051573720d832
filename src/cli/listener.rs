//! Listening sockets of either kind, and how they pass from one process to another.

use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;

use super::args::LinkKind;
use crate::runtime::Address;

/// A listening socket.
#[derive(Debug)]
pub enum Listener {
    /// On a TCP port.
    Tcp(TcpListener),
    /// On a Unix socket.
    Unix(UnixListener),
}

impl Listener {
    /// Listens where this machine alone can connect: on a free TCP port of the loopback interface, or on the Linux abstract Unix socket of
    /// this name, which leaves no file behind.
    ///
    /// # Errors
    /// What the system says; Unix sockets without a file exist on Linux alone.
    pub fn bind(kind: LinkKind, name: &str) -> io::Result<Listener> {
        match kind {
            LinkKind::Tcp => TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map(Listener::Tcp),
            LinkKind::Unix => bind_abstract(name).map(Listener::Unix),
        }
    }

    /// Takes over a listening socket that another process has bound.
    ///
    /// # Errors
    /// When it is not what listens at this address.
    pub fn from_fd(fd: OwnedFd, address: &Address) -> io::Result<Listener> {
        let listener = match address {
            Address::Tcp(_) => Listener::Tcp(TcpListener::from(fd)),
            Address::Unix(_) | Address::Abstract(_) => Listener::Unix(UnixListener::from(fd)),
        };
        match listener.address()? {
            there if there == *address => Ok(listener),
            there => Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("the socket is at {there} and should be at {address}"),
            )),
        }
    }

    /// Where it listens.
    ///
    /// # Errors
    /// When it is no socket of its kind, or a Unix socket without a name.
    pub fn address(&self) -> io::Result<Address> {
        match self {
            Listener::Tcp(listener) => listener.local_addr().map(Address::Tcp),
            Listener::Unix(listener) => unix_address(&listener.local_addr()?),
        }
    }

    /// Whether accepting a connection waits for one.
    ///
    /// # Errors
    /// What the system says.
    pub fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        match self {
            Listener::Tcp(listener) => listener.set_nonblocking(nonblocking),
            Listener::Unix(listener) => listener.set_nonblocking(nonblocking),
        }
    }
}

impl From<Listener> for OwnedFd {
    fn from(listener: Listener) -> OwnedFd {
        match listener {
            Listener::Tcp(listener) => listener.into(),
            Listener::Unix(listener) => listener.into(),
        }
    }
}

#[cfg(target_os = "linux")]
fn bind_abstract(name: &str) -> io::Result<UnixListener> {
    use std::os::linux::net::SocketAddrExt as _;
    use std::os::unix::net::SocketAddr;

    UnixListener::bind_addr(&SocketAddr::from_abstract_name(name)?)
}

#[cfg(not(target_os = "linux"))]
fn bind_abstract(_name: &str) -> io::Result<UnixListener> {
    Err(io::Error::new(
        io::ErrorKind::Unsupported,
        "only Linux has Unix sockets without a file; use --link tcp",
    ))
}

fn unix_address(address: &std::os::unix::net::SocketAddr) -> io::Result<Address> {
    #[cfg(target_os = "linux")]
    {
        use std::os::linux::net::SocketAddrExt as _;
        if let Some(name) = address.as_abstract_name() {
            return Ok(Address::Abstract(String::from_utf8_lossy(name).into_owned()));
        }
    }
    let path = address.as_pathname().map(|path| Address::Unix(path.to_owned()));
    path.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the socket has no address"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_passes_on_as_what_it_is() {
        let kinds =
            if cfg!(target_os = "linux") { &[LinkKind::Tcp, LinkKind::Unix][..] } else { &[LinkKind::Tcp] };
        for &kind in kinds {
            let listener = Listener::bind(kind, &format!("gpc-test-{}", std::process::id())).unwrap();
            let address = listener.address().unwrap();
            assert!(address.is_local());
            let fd = OwnedFd::from(listener);
            let again = Listener::from_fd(fd.try_clone().unwrap(), &address).unwrap();
            assert_eq!(again.address().unwrap(), address);
            let other: Address =
                if kind == LinkKind::Tcp { "127.0.0.1:1" } else { "unix:@other" }.parse().unwrap();
            assert!(Listener::from_fd(fd, &other).unwrap_err().to_string().contains("should be at"));
        }
        let (one, _two) = std::os::unix::net::UnixStream::pair().unwrap();
        assert!(Listener::from_fd(one.into(), &"127.0.0.1:1".parse().unwrap()).is_err());
    }
}
