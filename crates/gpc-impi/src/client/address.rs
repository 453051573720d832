//! Addresses of hosts and processes: 16 bytes, with IPv4 in two notations.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Decodes an address. Some implementations send IPv4 as `::a.b.c.d`, others as `::ffff:a.b.c.d`. No host's IPv4
/// address begins with 0, so `::1` stays an IPv6 address.
pub fn to_ip(address: Ipv6Addr) -> IpAddr {
    match address.octets() {
        [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d] => Ipv4Addr::new(a, b, c, d).into(),
        [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, a, b, c, d] if a != 0 => Ipv4Addr::new(a, b, c, d).into(),
        _ => address.into(),
    }
}

/// Encodes an address: IPv4 as `::ffff:a.b.c.d`, today's notation in IPv6. Readers of either notation use the last 4
/// bytes.
pub fn from_ip(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    }
}

/// Converts an address to one of the two notations.
pub(super) fn canonical(address: Ipv6Addr) -> Ipv6Addr {
    from_ip(to_ip(address))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ipv4_stands_in_two_ways() {
        for (bytes, ip) in [
            ("::10.1.2.3", "10.1.2.3"),
            ("::ffff:10.1.2.3", "10.1.2.3"),
            ("::1", "::1"),
            ("::", "::"),
            ("fd00::1", "fd00::1"),
        ] {
            assert_eq!(to_ip(bytes.parse().unwrap()), ip.parse::<IpAddr>().unwrap(), "{bytes}");
            let address: IpAddr = ip.parse().unwrap();
            assert_eq!(to_ip(from_ip(address)), address);
            assert_eq!(from_ip(address).octets()[12..], bytes.parse::<Ipv6Addr>().unwrap().octets()[12..]);
        }
    }
}
