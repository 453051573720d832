//! The addresses at which a process listens for the others of its launch: loopback, and an address that other hosts
//! reach.

use std::fmt;
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::str::FromStr;

use chained_gpc::runtime::{Address, Listener, loopback};

/// Documentation addresses (RFC 5737, RFC 3849), which no host has: they follow the default route.
const ELSEWHERE: [(IpAddr, IpAddr); 2] = [
    (IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1))),
    (IpAddr::V6(Ipv6Addr::UNSPECIFIED), IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1))),
];

/// A network, as an address and the length of its prefix in bits. As text: `10.1.0.0/16`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Network {
    address: IpAddr,
    bits: u8,
}

/// Text that is not a network.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`{0}` is no network: write an address and a number of bits, such as 10.1.0.0/16")]
pub struct NetworkError(String);

impl Network {
    /// Whether an address is in it.
    pub fn contains(self, address: IpAddr) -> bool {
        match (self.address, address) {
            (IpAddr::V4(network), IpAddr::V4(address)) => {
                let differ = network.to_bits() ^ address.to_bits();
                differ.leading_zeros() >= u32::from(self.bits)
            }
            (IpAddr::V6(network), IpAddr::V6(address)) => {
                let differ = network.to_bits() ^ address.to_bits();
                differ.leading_zeros() >= u32::from(self.bits)
            }
            _ => false,
        }
    }
}

impl FromStr for Network {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Network, NetworkError> {
        let error = || NetworkError(text.chars().take(40).collect());
        let (address, bits) = text.split_once('/').ok_or_else(error)?;
        let address: IpAddr = address.parse().map_err(|_| error())?;
        let bits = bits.parse().map_err(|_| error())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        if bits > most { Err(error()) } else { Ok(Network { address, bits }) }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

/// The listening sockets of a process.
#[derive(Debug)]
pub(super) struct Listening {
    pub(super) loopback: Listener,
    /// `None` on a host without such an address.
    pub(super) outside: Option<Listener>,
}

/// The addresses of a host, by source.
struct HostAddresses {
    /// The host's name in the list, if it is an address.
    name: Option<IpAddr>,
    /// The address at which ssh has reached this host, as the ssh server reports it.
    reached: Option<IpAddr>,
    /// The source address of the default route.
    outward: Option<IpAddr>,
    /// All addresses of the host.
    all: Vec<IpAddr>,
}

impl Listening {
    /// Listens on loopback, and at the first usable address of the host. The order is: the address that ssh has
    /// reached, the one in the list of hosts, the source address of the default route, any other. If a network is
    /// given, only its addresses are usable.
    pub(super) fn open(name: &str, network: Option<Network>) -> io::Result<Listening> {
        let bind = |ip: IpAddr| Listener::bind(&Address::Tcp(SocketAddr::new(ip, 0)));
        let loopback = bind(loopback())?;
        let outside = HostAddresses::read(name).choose(network).into_iter().find_map(|ip| bind(ip).ok());
        Ok(Listening { loopback, outside })
    }
}

impl HostAddresses {
    fn read(name: &str) -> HostAddresses {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let mut all = addresses_v4(&read("/proc/net/fib_trie"));
        all.extend(addresses_v6(&read("/proc/net/if_inet6")));
        // Sends nothing: the system only selects the address.
        let outward = ELSEWHERE.into_iter().find_map(|(any, elsewhere)| {
            let socket = UdpSocket::bind((any, 0)).ok()?;
            socket.connect((elsewhere, 9)).ok()?;
            Some(socket.local_addr().ok()?.ip())
        });
        HostAddresses {
            name: name.rsplit('@').next().and_then(|host| host.parse().ok()),
            reached: std::env::var("SSH_CONNECTION").ok().as_deref().and_then(reached),
            outward,
            all,
        }
    }

    /// Addresses that other hosts may reach, the likeliest first.
    fn choose(self, network: Option<Network>) -> Vec<IpAddr> {
        let first = [self.reached, self.name, self.outward];
        let mut chosen = Vec::new();
        for address in first.into_iter().flatten().chain(self.all) {
            let wanted = network.is_none_or(|network| network.contains(address));
            if wanted && !address.is_loopback() && !address.is_unspecified() && !chosen.contains(&address) {
                chosen.push(address);
            }
        }
        chosen
    }
}

/// The address at which an ssh server was reached: the third word of `SSH_CONNECTION`.
fn reached(connection: &str) -> Option<IpAddr> {
    connection.split(' ').nth(2)?.parse().ok()
}

/// Parses the addresses of this host in `/proc/net/fib_trie`: a line with the address, then a line with its type.
fn addresses_v4(trie: &str) -> Vec<IpAddr> {
    let mut addresses = Vec::new();
    let mut last = None;
    for line in trie.lines().map(str::trim) {
        match line.strip_prefix("|-- ") {
            Some(address) => last = address.parse::<Ipv4Addr>().ok(),
            None if line == "/32 host LOCAL" => {
                let new = last.filter(|address| !address.is_loopback()).map(IpAddr::V4);
                addresses.extend(new.filter(|address| !addresses.contains(address)));
            }
            None => {}
        }
    }
    addresses
}

/// Parses the addresses of global scope in `/proc/net/if_inet6`: address, interface, length of the prefix, scope,
/// flags, name.
fn addresses_v6(table: &str) -> Vec<IpAddr> {
    let address = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let digits = words.first().filter(|digits| digits.len() == 32)?;
        let bits = u128::from_str_radix(digits, 16).ok()?;
        (words.get(3) == Some(&"00")).then(|| IpAddr::V6(Ipv6Addr::from_bits(bits)))
    };
    table.lines().filter_map(address).collect()
}

/// Identifies the boot of the machine and the network namespace: processes of one place reach each other on loopback.
pub(super) fn place() -> io::Result<String> {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    let network = fs::read_link("/proc/self/ns/net")?;
    let number: String = network.to_string_lossy().chars().filter(char::is_ascii_digit).collect();
    Ok(format!("{}:{number}", boot.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From a machine with two networks; the table of the main network has the same addresses.
    const TRIE: &str = "\
Main:
  +-- 0.0.0.0/0 3 0 5
     |-- 0.0.0.0
        /0 universe UNICAST
     +-- 127.0.0.0/8 2 0 2
        +-- 127.0.0.0/31 1 0 0
           |-- 127.0.0.1
              /32 host LOCAL
     +-- 172.17.0.0/16 2 0 2
        |-- 172.17.0.1
           /32 host LOCAL
        |-- 172.17.255.255
           /32 link BROADCAST
     |-- 192.168.0.7
        /32 host LOCAL
Local:
     |-- 192.168.0.7
        /32 host LOCAL
";

    const INET6: &str = "\
00000000000000000000000000000001 01 80 10 80       lo
fd000000000000000000000000000003 02 40 00 80     eth0
fe80000000000000023456fffe789abc 02 40 20 80     eth0
";

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn the_system_tells_the_addresses() {
        assert_eq!(addresses_v4(TRIE), [ip("172.17.0.1"), ip("192.168.0.7")]);
        assert_eq!(addresses_v6(INET6), [ip("fd00::3")]);
        assert_eq!(reached("10.0.0.9 52110 10.0.0.7 22"), Some(ip("10.0.0.7")));
        assert_eq!(reached("10.0.0.9"), None);
        assert!(addresses_v4("|-- x\n/32 host LOCAL\n").is_empty() && addresses_v6("\nzz 1 2 00").is_empty());
    }

    #[test]
    fn what_is_likeliest_is_tried_first_and_a_network_decides() {
        let addresses = || HostAddresses {
            name: None,
            reached: Some(ip("10.0.0.7")),
            outward: Some(ip("192.168.0.7")),
            all: [addresses_v4(TRIE), addresses_v6(INET6)].concat(),
        };
        let all = ["10.0.0.7", "192.168.0.7", "172.17.0.1", "fd00::3"];
        assert_eq!(addresses().choose(None), all.map(ip));
        assert_eq!(addresses().choose("172.16.0.0/12".parse().ok()), [ip("172.17.0.1")]);
        assert_eq!(addresses().choose("fd00::/8".parse().ok()), [ip("fd00::3")]);
        assert!(
            HostAddresses { name: Some(ip("127.0.0.1")), reached: None, outward: None, all: Vec::new() }
                .choose(None)
                .is_empty()
        );
    }

    #[test]
    fn a_network_has_its_addresses() {
        for (network, inside, outside) in [
            ("10.1.0.0/16", "10.1.255.3", "10.2.0.1"),
            ("0.0.0.0/0", "255.0.0.1", "::1"),
            ("10.0.0.3/32", "10.0.0.3", "10.0.0.2"),
            ("fd00::/64", "fd00::1:2", "fd00:0:0:1::"),
        ] {
            let network: Network = network.parse().unwrap();
            assert!(network.contains(ip(inside)) && !network.contains(ip(outside)), "{network}");
            assert_eq!(network.to_string().parse(), Ok(network));
        }
        for text in ["", "10.0.0.0", "10.0.0.0/33", "10.0.0/8", "::/129", "10.0.0.0/-1"] {
            assert!(text.parse::<Network>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_process_listens_on_loopback_and_knows_its_place() {
        let listening = Listening::open("nowhere", "127.0.0.0/8".parse().ok()).unwrap();
        assert!(listening.loopback.address().unwrap().is_local() && listening.outside.is_none());
        assert_eq!(place().unwrap(), place().unwrap());
    }
}
