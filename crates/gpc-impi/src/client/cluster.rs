//! Description of a client's cluster: sent by this client, or learned of another.

use std::net::Ipv6Addr;

use chained_gpc::PublicKey;

use crate::wire::Version;

/// A cluster, for which one client speaks. If a value is `None`, its label is left out, or was missing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cluster {
    /// C_VERSION: strictly ascending, 0.0 first.
    pub versions: Vec<Version>,
    /// Hosts; their number is C_NHOSTS.
    pub hosts: Vec<Host>,
    /// C_DATALEN: longest packet of data, bytes.
    pub datalen: Option<u32>,
    /// C_TAGUB: largest tag.
    pub tag_ub: Option<i32>,
    /// C_COLL_XSIZE: bytes from which on collectives count as long, -1 for the default.
    pub coll_xsize: Option<i32>,
    /// C_COLL_MAXLINEAR: most hosts for linear collectives, -1 for the default.
    pub coll_maxlinear: Option<i32>,
}

/// A host of a cluster.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Host {
    /// H_IPV6.
    pub address: Option<Ipv6Addr>,
    /// H_PORT.
    pub port: Option<u32>,
    /// H_ACKMARK: number of packets after which it acknowledges.
    pub ackmark: Option<u32>,
    /// H_HIWATER: most packets that may be unacknowledged.
    pub hiwater: Option<u32>,
    /// Processes; their number is H_NPROCS.
    pub procs: Vec<Proc>,
}

/// A process of a host.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Proc {
    /// P_IPV6.
    pub address: Option<Ipv6Addr>,
    /// P_PID: a number that is unique among the processes of its address.
    pub pid: Option<u64>,
    /// P_PORT, of this project: the port at which it listens.
    pub port: Option<u32>,
    /// P_KEY, of this project: its public key.
    pub key: Option<PublicKey>,
}

impl Cluster {
    /// A cluster of these hosts with default values: packets of 64 KiB, any tag, the defaults of collectives.
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

    /// Number of processes.
    pub fn procs(&self) -> usize {
        self.hosts.iter().map(|host| host.procs.len()).sum()
    }
}

impl Host {
    /// A host with this address, port and processes; it acknowledges every 16 packets, and 32 may be unacknowledged.
    pub fn new(address: Ipv6Addr, port: u16, procs: Vec<Proc>) -> Host {
        Host { address: Some(address), port: Some(port.into()), ackmark: Some(16), hiwater: Some(32), procs }
    }
}

impl Proc {
    /// A process with this address and number, without a port and a key.
    pub fn new(address: Ipv6Addr, pid: u64) -> Proc {
        Proc { address: Some(address), pid: Some(pid), port: None, key: None }
    }
}
