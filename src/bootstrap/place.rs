//! The place of this process: its host, its network namespace, and the addresses at which it listens for the others.

use std::fs;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::Duration;

use gpc_trees::Id;

use super::BootstrapError;
use super::entry::host_name;
use super::variables::HOST_ADDRESS;
use crate::runtime::{Address, LinkKind, Listener, Resolver};

/// Documentation addresses, which are assigned to no host and follow the default route. The system selects the local
/// address for them without sending anything.
const ELSEWHERE: [&str; 2] = ["192.0.2.1:9", "[2001:db8::1]:9"];

/// Longest time limit of the look-up of this host's own name, which is in a file or on a server nearby.
const NAME_LIMIT: Duration = Duration::from_secs(5);

/// The name of this host, and the digest of its machine and network namespace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Place {
    pub(super) host: String,
    pub(super) reach: u64,
}

impl Place {
    /// Asks the system. A value that the system does not report counts as the same everywhere.
    pub(super) fn this_host() -> Place {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let name = read("/proc/sys/kernel/hostname");
        let machine = read("/proc/sys/kernel/random/boot_id");
        let namespace = fs::read_link("/proc/self/ns/net").unwrap_or_default();
        let known = !machine.is_empty();
        // A machine without a boot id is identified by its name.
        let machine = if known { machine.trim() } else { name.trim() };
        Place { host: host_name(&name), reach: digest(&[machine, &namespace.to_string_lossy()]) }
    }
}

/// FNV-1a over texts: equal texts have equal digests in every process.
fn digest(texts: &[&str]) -> u64 {
    let bytes = texts.iter().flat_map(|text| text.bytes().chain([0]));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Listens for the others: on this host alone if all are here, else at the address that others reach. `left` is the
/// rest of the caller's time limit.
pub(super) fn listen(
    me: Id,
    one_host: Option<bool>,
    wanted: Option<IpAddr>,
    (link, left): (LinkKind, Duration),
) -> Result<Listener, BootstrapError> {
    let bind = |address: &Address| {
        Listener::bind(address).map_err(|error| BootstrapError::Listen { address: address.clone(), error })
    };
    if let Some(wanted) = wanted {
        return bind(&Address::Tcp((wanted, 0).into()));
    }
    if one_host == Some(true) {
        return bind(&link.fresh_address(me));
    }
    let candidates = addresses_within(left)?;
    let bound = candidates.iter().find_map(|ip| bind(&Address::Tcp((*ip, 0).into())).ok());
    match (bound, one_host) {
        (Some(listener), _) => Ok(listener),
        // All processes may be here. A process on another host reports that it cannot reach this one.
        (None, None) => bind(&link.fresh_address(me)),
        (None, Some(_)) => Err(BootstrapError::NoAddress),
    }
}

/// Parses the address that the user has set.
pub(super) fn wanted(value: Option<&str>) -> Result<Option<IpAddr>, BootstrapError> {
    let parse = |text: &str| text.trim().parse();
    value.map(parse).transpose().map_err(|_| BootstrapError::Variables {
        launcher: "a launcher",
        why: format!("{HOST_ADDRESS} is no IP address: write the one at which others reach this host"),
    })
}

/// Returns the addresses of this host that others may reach: the source addresses of its default routes. If there is no
/// such route, the addresses of its host name, whose look-up may take seconds.
pub fn host_addresses() -> Vec<IpAddr> {
    addresses_within(Duration::MAX).unwrap_or_default()
}

/// The same within the rest of the caller's time limit.
///
/// # Errors
/// If the look-up of the host name takes all of it.
pub(super) fn addresses_within(left: Duration) -> Result<Vec<IpAddr>, BootstrapError> {
    let routed = usable(ELSEWHERE.iter().filter_map(|elsewhere| route(elsewhere).ok()));
    if !routed.is_empty() {
        return Ok(routed);
    }
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    addresses_of(&Resolver::system(), name.trim(), left)
}

/// The addresses of this host by its name; none if the look-up fails before the caller's time limit is over.
fn addresses_of(resolver: &Resolver, name: &str, left: Duration) -> Result<Vec<IpAddr>, BootstrapError> {
    match resolver.host(name, left.min(NAME_LIMIT)) {
        Ok(found) => Ok(usable(found.into_iter().map(|ip| SocketAddr::new(ip, 0)))),
        Err(error) if error.kind() == ErrorKind::TimedOut && left <= NAME_LIMIT => {
            Err(BootstrapError::OwnName(error))
        }
        Err(_) => Ok(Vec::new()),
    }
}

/// Each address once, without loopback, unspecified and link-local ones.
fn usable(addresses: impl Iterator<Item = SocketAddr>) -> Vec<IpAddr> {
    let mut found: Vec<IpAddr> = Vec::new();
    for ip in addresses.map(|address| address.ip()) {
        let scoped = matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local());
        if !(ip.is_loopback() || ip.is_unspecified() || scoped || found.contains(&ip)) {
            found.push(ip);
        }
    }
    found
}

/// The local address on the route to `to`. Nothing is sent.
fn route(to: &str) -> io::Result<SocketAddr> {
    let any = if to.starts_with('[') { "[::]:0" } else { "0.0.0.0:0" };
    let socket = UdpSocket::bind(any)?;
    socket.connect(to)?;
    socket.local_addr()
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Barrier};

    use super::*;

    const LONG: Duration = Duration::from_secs(3600);

    #[test]
    fn processes_of_one_host_have_the_same_digest() {
        assert_eq!(Place::this_host(), Place::this_host());
        assert_ne!(digest(&["ab", "c"]), digest(&["a", "bc"]));
        assert_ne!(digest(&["machine", "net:[1]"]), digest(&["machine", "net:[2]"]));
    }

    #[test]
    fn a_process_listens_for_its_host_alone_where_all_are_there() {
        let address = |listener: Listener| listener.address().unwrap();
        let here = |link| address(listen(3, Some(true), None, (link, LONG)).unwrap());
        assert!(matches!(here(LinkKind::Unix), Address::Abstract(_)));
        assert!(matches!(here(LinkKind::Tcp), Address::Tcp(tcp) if tcp.ip().is_loopback() && tcp.port() > 0));
        let wanted = wanted(Some(" 127.0.0.2\n")).unwrap();
        let listener = listen(3, Some(true), wanted, (LinkKind::Unix, LONG)).unwrap();
        assert!(matches!(address(listener), Address::Tcp(tcp) if tcp.ip() == wanted.unwrap()));
        assert_eq!(super::wanted(None).unwrap(), None);
        let error = super::wanted(Some("my-host")).unwrap_err().to_string();
        assert!(error.contains("GPC_HOST_ADDRESS is no IP address"), "{error}");
    }

    /// The look-up of the host's own name took 5 s, even if the caller's time limit was 2 s. The error was that of the
    /// next operation, which had no time left.
    #[test]
    fn a_host_name_that_takes_the_whole_time_limit_is_the_cause() {
        let gate = Arc::new(Barrier::new(2));
        let held = gate.clone();
        let hangs = Resolver::by(move |_| {
            held.wait();
            Ok(Vec::new())
        });
        let error = addresses_of(&hangs, "head", Duration::from_millis(20)).unwrap_err().to_string();
        assert!(error.contains("cannot find the address of `head`"), "{error}");
        assert!(
            error.contains("the name service does not answer") && error.ends_with(HOST_ADDRESS),
            "{error}"
        );
        gate.wait();
        let fails = Resolver::by(|_| Err(io::Error::other("no such name")));
        assert!(addresses_of(&fails, "head", Duration::from_secs(1)).unwrap().is_empty());
    }

    #[test]
    fn addresses_of_one_host_or_one_cable_are_of_no_use_to_others() {
        let all =
            ["127.0.0.1:1", "10.1.2.3:4", "[::1]:1", "[fe80::1]:1", "[fd00::2]:0", "10.1.2.3:9", "0.0.0.0:1"];
        let found = usable(all.iter().map(|address| address.parse().unwrap()));
        assert_eq!(found, ["10.1.2.3", "fd00::2"].map(|ip| ip.parse::<IpAddr>().unwrap()));
        assert!(host_addresses().iter().all(|ip| !ip.is_loopback() && !ip.is_unspecified()));
    }
}
