//! What clients say in these tests.

use std::net::Ipv4Addr;

use gpc_impi::client::{ClientSettings, Cluster, Host, Proc, from_ip};
use gpc_impi::wire::{Methods, NodeAt};

/// No proof is needed.
pub(crate) fn open() -> Methods {
    Methods { none: true, key: None }
}

/// A client for so many hosts of one process each.
pub(crate) fn client(rank: u32, hosts: u16, own_labels: bool) -> ClientSettings {
    let host = |i: u16| {
        let [high, low] = i.to_be_bytes();
        let address = from_ip(Ipv4Addr::new(10, rank as u8, high, low).into());
        let proc = Proc {
            address: Some(address),
            pid: Some(i.into()),
            port: Some(u32::from(i) % 60_000 + 1),
            key: None,
        };
        Host::new(address, 4000 + rank as u16, vec![proc])
    };
    let cluster = Cluster::new((0..hosts).map(host).collect());
    let job = (rank == 0).then_some([9; 16]);
    let mut settings = ClientSettings::new(rank, open(), cluster);
    (settings.own_labels, settings.job) = (own_labels, job);
    settings
}

/// Where the node of a client listens, as far as tests in memory care.
pub(crate) fn node(rank: u32) -> NodeAt {
    NodeAt {
        address: from_ip(Ipv4Addr::LOCALHOST.into()),
        port: 5000 + rank as u16,
        key: Some([rank as u8 + 1; 32]),
    }
}
