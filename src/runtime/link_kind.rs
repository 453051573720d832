//! The kinds of links between nodes of one machine, and fresh addresses for each kind.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::ops::Range;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};

use gpc_trees::Id;

use super::{Address, AddressRow, Listener};

/// The kind of the links between nodes of one machine. As text, `tcp`, `unix` or `shm`; `memory` is for nodes of one
/// process, so no text names it.
///
/// ```
/// use chained_gpc::{LinkKind, Listener};
///
/// let link: LinkKind = "unix".parse()?;
/// assert_eq!(link, LinkKind::Unix);
/// // A unique address of this kind.
/// let listener = Listener::bind(&link.fresh_address(1))?;
/// assert!(listener.address()?.is_local());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum LinkKind {
    /// TCP over loopback.
    Tcp,
    /// Unix sockets without a file (Linux abstract names).
    Unix,
    /// Rings in shared memory, which two nodes agree on over such a Unix socket; if the system refuses them, that
    /// socket.
    Shm,
    /// Messages in the memory of one process: a [`MemoryNetwork`](crate::MemoryNetwork).
    Memory,
}

impl Default for LinkKind {
    fn default() -> LinkKind {
        LinkKind::DEFAULT
    }
}

impl LinkKind {
    /// The fastest kind that leaves no file behind: shared memory on Linux.
    pub const DEFAULT: LinkKind = if cfg!(target_os = "linux") { LinkKind::Shm } else { LinkKind::Tcp };

    /// The name in arguments, files and output.
    pub fn name(self) -> &'static str {
        match self {
            LinkKind::Tcp => "tcp",
            LinkKind::Unix => "unix",
            LinkKind::Shm => "shm",
            LinkKind::Memory => "memory",
        }
    }

    /// Returns a unique address of this kind on this machine.
    pub fn fresh_address(self, id: Id) -> Address {
        match self {
            LinkKind::Tcp => Address::Tcp((loopback(), 0).into()),
            LinkKind::Unix | LinkKind::Shm => Address::Abstract(format!("{}{id}", fresh_prefix())),
            LinkKind::Memory => Address::Host,
        }
    }

    /// Listens for consecutive ids at unique addresses of this machine. [`Memory`](Self::Memory) needs no listeners.
    ///
    /// # Errors
    /// The system's, with the id for which it failed.
    pub fn listen(self, ids: Range<Id>) -> Result<(Vec<Listener>, AddressRow), (Id, io::Error)> {
        if self == LinkKind::Memory {
            return Ok((Vec::new(), AddressRow::host(ids)));
        }
        let (prefix, host) = (fresh_prefix(), loopback());
        let mut listeners = Vec::with_capacity(ids.len());
        let mut ports = Vec::new();
        for id in ids.clone() {
            let error = |error| (id, error);
            let address = match self {
                LinkKind::Tcp => Address::Tcp((host, 0).into()),
                _ => Address::Abstract(format!("{prefix}{id}")),
            };
            let listener = Listener::bind(&address).map_err(error)?;
            if let Address::Tcp(address) = listener.address().map_err(error)? {
                ports.push(address.port());
            }
            listeners.push(listener);
        }
        let row = match self {
            LinkKind::Tcp => AddressRow::ports(ids.start, host, ports),
            _ => AddressRow::names(ids, &prefix),
        };
        Ok((listeners, row.expect("the ids are a range, and a fresh prefix is short")))
    }
}

/// Returns the loopback address of this host: `127.0.0.1`, or `::1` if only that can be bound.
///
/// ```
/// assert!(chained_gpc::runtime::loopback().is_loopback());
/// ```
pub fn loopback() -> IpAddr {
    first_bound(|ip| UdpSocket::bind((ip, 0)).is_ok())
}

/// Returns the loopback address that can be bound; if none can, the first, so that the error of a later bind names that
/// one.
fn first_bound(can_bind: impl Fn(IpAddr) -> bool) -> IpAddr {
    let first = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let all = [first, IpAddr::V6(Ipv6Addr::LOCALHOST)];
    all.into_iter().find(|ip| can_bind(*ip)).unwrap_or(first)
}

impl fmt::Display for LinkKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Text that is not a kind of link.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`{0}` is no kind of link: write tcp, unix or shm")]
pub struct LinkKindError(String);

/// Maximum length of a text that an error quotes, characters.
const QUOTED_MAX: usize = 40;

impl FromStr for LinkKind {
    type Err = LinkKindError;

    fn from_str(text: &str) -> Result<LinkKind, LinkKindError> {
        let mut kinds = [LinkKind::Tcp, LinkKind::Unix, LinkKind::Shm].into_iter();
        let named = kinds.find(|kind| kind.name() == text);
        named.ok_or_else(|| LinkKindError(text.chars().take(QUOTED_MAX).collect()))
    }
}

/// Returns a unique prefix for names of Unix sockets.
fn fresh_prefix() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let (process, count) = (std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    format!("gpc-{process}-{:x}-{count}-", super::clock::incarnation())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// On a host with only `::1`, every launch over TCP failed: it could not listen at 127.0.0.1.
    #[test]
    fn the_loopback_address_is_one_that_can_be_bound() {
        let [four, six] = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
        assert_eq!(first_bound(|_| true), four);
        assert_eq!(first_bound(|ip| ip == six), six);
        assert_eq!(first_bound(|_| false), four, "the error is to name the usual one");
        assert!(UdpSocket::bind((loopback(), 0)).is_ok(), "every host has one");
        let (listeners, row) = LinkKind::Tcp.listen(3..5).unwrap();
        for (id, listener) in (3..).zip(listeners) {
            assert_eq!(row.address(id), Some(listener.address().unwrap()));
        }
    }
}
