//! What one client says of its cluster, and what is learned of another one.

use std::net::Ipv6Addr;

use chained_gpc::PublicKey;

use crate::wire::Version;

/// A cluster: what one client speaks for. What is `None` is left out: no value of it is sent, or none came.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cluster {
    /// C_VERSION: strictly ascending, 0.0 first.
    pub versions: Vec<Version>,
    /// C_NHOSTS is their number.
    pub hosts: Vec<Host>,
    /// C_DATALEN: longest packet of data, bytes.
    pub datalen: Option<u32>,
    /// C_TAGUB: largest tag.
    pub tag_ub: Option<i32>,
    /// C_COLL_XSIZE: from how many bytes on collectives are long, -1 for the default.
    pub coll_xsize: Option<i32>,
    /// C_COLL_MAXLINEAR: up to how many hosts collectives are linear, -1 for the default.
    pub coll_maxlinear: Option<i32>,
}

/// A host of a cluster.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Host {
    /// H_IPV6.
    pub address: Option<Ipv6Addr>,
    /// H_PORT.
    pub port: Option<u32>,
    /// H_ACKMARK: after how many packets it acknowledges.
    pub ackmark: Option<u32>,
    /// H_HIWATER: how many packets may be unacknowledged.
    pub hiwater: Option<u32>,
    /// H_NPROCS is their number.
    pub procs: Vec<Proc>,
}

/// A process of a host.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Proc {
    /// P_IPV6.
    pub address: Option<Ipv6Addr>,
    /// P_PID: a number of its own among those of its address.
    pub pid: Option<u64>,
    /// P_PORT, of this project: where it listens.
    pub port: Option<u32>,
    /// P_KEY, of this project: the key that it is known by.
    pub key: Option<PublicKey>,
}

impl Cluster {
    /// Of these hosts, with what a client says who wants nothing special: packets of 64 KiB, any tag, the defaults of collectives.
    pub fn new(hosts: Vec<Host>) -> Cluster {
        Cluster {
            versions: vec![Version::MANDATORY],
            hosts,
            datalen: Some(65_536),
            tag_ub: Some(i32::MAX),
            coll_xsize: Some(-1),
            coll_maxlinear: Some(-1),
        }
    }

    /// How many processes it has.
    pub fn procs(&self) -> usize {
        self.hosts.iter().map(|host| host.procs.len()).sum()
    }
}

impl Host {
    /// At this address and port, with these processes; it acknowledges every 16 packets, and 32 may be unacknowledged.
    pub fn new(address: Ipv6Addr, port: u16, procs: Vec<Proc>) -> Host {
        Host { address: Some(address), port: Some(port.into()), ackmark: Some(16), hiwater: Some(32), procs }
    }
}

impl Proc {
    /// At this address, with this number; it says neither a port nor a key.
    pub fn new(address: Ipv6Addr, pid: u64) -> Proc {
        Proc { address: Some(address), pid: Some(pid), port: None, key: None }
    }
}
