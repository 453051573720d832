//! Invalid settings are rejected before anything is sent.

use bytes::Bytes;
use gpc_impi::client::{Client, ClientSettings};
use gpc_impi::wire::{Label, Methods, Version};

use crate::client::support::{open, settings};

fn refused(change: impl FnOnce(&mut ClientSettings)) -> String {
    let mut settings = settings(1);
    change(&mut settings);
    Client::new(settings).map(|_| ()).unwrap_err().to_string()
}

#[test]
fn each_with_what_is_wrong() {
    let said = [
        (refused(|it| it.rank = 32), "client rank 32: the ranks are 0 to 31"),
        (refused(|it| it.methods = Methods::default()), "IMPI_AUTH_KEY or IMPI_AUTH_NONE"),
        (refused(|it| it.cluster.hosts.clear()), "the cluster has no hosts"),
        (refused(|it| it.cluster.hosts[1].procs.clear()), "host 1 has no processes"),
        (
            refused(|it| it.cluster.hosts[1].address = None),
            "H_IPV6: host 0 has a value, and host 1 has none; all have one, or the label is left out",
        ),
        (refused(|it| it.cluster.hosts[0].port = None), "H_PORT: host 1 has a value, and host 0 has none"),
        (refused(|it| it.cluster.hosts[0].ackmark = None), "H_ACKMARK: host 1"),
        (refused(|it| it.cluster.hosts[1].hiwater = None), "H_HIWATER: host 0"),
        (
            refused(|it| it.cluster.hosts[0].procs[1].pid = None),
            "P_PID: process 0 of host 0 has a value, and process 1 of host 0 has none",
        ),
        (refused(|it| it.cluster.hosts[1].procs[0].address = None), "P_IPV6: process 0 of host 0"),
        (refused(|it| it.cluster.hosts[1].procs[0].port = Some(1)), "P_PORT: process 0 of host 1"),
        (
            refused(|it| it.cluster.hosts[1].ackmark = Some(33)),
            "host 1 acknowledges every 33 packets (H_ACKMARK), and only 32 may be unacknowledged (H_HIWATER)",
        ),
        (refused(|it| it.cluster.hosts[1].ackmark = Some(0)), "H_ACKMARK of host 1 is 0; allowed are 1 to"),
        (refused(|it| it.cluster.hosts[1].hiwater = Some(0)), "H_HIWATER of host 1 is 0"),
        (
            refused(|it| it.cluster.hosts[1].port = Some(65_536)),
            "H_PORT of host 1 is 65536; allowed are 1 to 65535",
        ),
        // A client accepted this value, and a server that checks values then rejected the whole session.
        (refused(|it| it.cluster.hosts[1].port = Some(0)), "H_PORT of host 1 is 0; allowed are 1 to 65535"),
        (refused(|it| it.cluster.datalen = Some(0)), "C_DATALEN of the cluster is 0"),
        (
            refused(|it| it.cluster.tag_ub = Some(32_766)),
            "C_TAGUB of the cluster is 32766; allowed are 32767 to 2147483647",
        ),
        (refused(|it| it.cluster.coll_xsize = Some(-2)), "C_COLL_XSIZE of the cluster is -2"),
        (refused(|it| it.cluster.coll_maxlinear = Some(-2)), "C_COLL_MAXLINEAR of the cluster is -2"),
        (
            refused(|it| it.cluster.hosts[0].procs[1].pid = Some(7)),
            "P_PID 7 of process 1 of host 0 is that of another process with the same address",
        ),
        // The same address in the two notations of IPv4.
        (
            refused(|it| {
                it.cluster.hosts[1].procs[0].address = Some("::10.0.1.1".parse().unwrap());
            }),
            "P_PID 7 of process 0 of host 1",
        ),
        (refused(|it| it.cluster.versions.clear()), "ascend from 0.0"),
        (refused(|it| it.cluster.versions[0] = Version::OWN), "ascend from 0.0"),
        (
            refused(|it| {
                it.cluster.versions.extend([Version { major: 1, minor: 1 }, Version { major: 1, minor: 0 }])
            }),
            "the versions 0.0, 1.1, 1.0: they ascend",
        ),
        (refused(|it| it.cluster.versions.push(Version::MANDATORY)), "ascend from 0.0"),
        (
            refused(|it| drop(it.extra.insert(Label::NONE, Bytes::new()))),
            "own under 0x0000, which is no label",
        ),
        (
            refused(|it| drop(it.extra.insert(Label::H_PORT, Bytes::new()))),
            "values of one's own under H_PORT, which is a label of the source",
        ),
        (
            refused(|it| drop(it.extra.insert(Label::P_KEY, Bytes::new()))),
            "values of one's own under P_KEY, which is a label of this project",
        ),
        (
            refused(|it| it.extra = (1..=101).map(|label| (Label(label), Bytes::new())).collect()),
            "101 labels of one's own; at most 100 are sent",
        ),
        (
            refused(|it| {
                it.bytes_max = 1000;
                it.extra.insert(Label(1), vec![0; 1001].into());
            }),
            "0x0001: 1001 bytes of values; at most 1000 can be sent",
        ),
        (refused(|it| it.bytes_max = 47), "P_IPV6: 48 bytes of values; at most 47 can be sent"),
    ];
    for (said, expected) in said {
        assert!(said.contains(expected), "{said}\nhas not: {expected}");
    }
}

#[test]
fn what_is_unusual_can_be_said() {
    let mut settings = settings(31);
    settings.methods = open();
    let host = &mut settings.cluster.hosts[0];
    (host.ackmark, host.hiwater) = (Some(9), Some(9));
    settings.cluster.hosts[1].hiwater = Some(u32::MAX);
    settings.cluster.coll_xsize = Some(0);
    settings.cluster.datalen = Some(u32::MAX);
    // Without addresses, processes of two hosts may have the same numbers.
    for host in &mut settings.cluster.hosts {
        host.address = None;
        host.procs.iter_mut().for_each(|proc| proc.address = None);
    }
    assert!(Client::new(settings).is_ok());
}
