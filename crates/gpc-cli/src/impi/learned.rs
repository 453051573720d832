//! Prints what a client has learned, as a table and as JSON.

use std::io::{self, Write};

use gpc_impi::client::{Host, Learned, Proc, to_ip};
use gpc_impi::wire::Version;
use serde::Serialize;

use crate::output::{Align, write_columns};

/// Maximum number of PIDs, or ports, of a host in a table.
const SHOWN_MAX: usize = 4;

/// Writes a line for each host, and the values that all clients have agreed on.
pub(super) fn write_table(learned: &Learned, out: &mut dyn Write) -> io::Result<()> {
    let columns = [
        ("client", Align::Right),
        ("host", Align::Right),
        ("address", Align::Left),
        ("port", Align::Right),
        ("procs", Align::Right),
        ("pids", Align::Left),
        ("ports of processes", Align::Left),
    ];
    let mut lines = Vec::new();
    for (client, cluster) in learned.clusters.iter().enumerate() {
        for (number, host) in cluster.hosts.iter().enumerate() {
            lines.push(vec![
                client.to_string(),
                number.to_string(),
                host.address.map_or_else(unsaid, |address| to_ip(address).to_string()),
                host.port.map_or_else(unsaid, |port| port.to_string()),
                host.procs.len().to_string(),
                shown_of(host, |proc| proc.pid),
                shown_of(host, |proc| proc.port.map(u64::from)),
            ]);
        }
    }
    write_columns(&columns, &lines, out)?;
    writeln!(out)?;
    let summary = summary(learned);
    let width = summary.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    summary.iter().try_for_each(|(name, text)| writeln!(out, "{name:<width$}  {text}"))
}

fn unsaid() -> String {
    "-".into()
}

/// Returns a number of each process; of many processes, only the first ones.
fn shown_of(host: &Host, number: impl Fn(&Proc) -> Option<u64>) -> String {
    let numbers = host.procs.iter().filter_map(number);
    let shown: Vec<String> = numbers.take(SHOWN_MAX).map(|number| number.to_string()).collect();
    match (shown.len(), host.procs.len() - shown.len()) {
        (0, _) => unsaid(),
        (_, 0) => shown.join(", "),
        (_, more) => format!("{} and {more} more", shown.join(", ")),
    }
}

fn summary(learned: &Learned) -> Vec<(&'static str, String)> {
    let hosts: usize = learned.clusters.iter().map(|cluster| cluster.hosts.len()).sum();
    let said = |value: Option<String>| value.unwrap_or_else(unsaid);
    vec![
        ("clients", format!("{}, this one is {}", learned.clusters.len(), learned.rank)),
        ("hosts", hosts.to_string()),
        ("processes", learned.procs().to_string()),
        ("versions", versions(learned)),
        ("packets", said(learned.datalen.map(|bytes| format!("{bytes} bytes at most")))),
        ("tags", said(learned.tag_ub.map(|tag| format!("{tag} at most")))),
        ("collectives", format!("long from {} bytes on", learned.coll_xsize)),
        ("", format!("linear up to {} hosts", learned.coll_maxlinear)),
    ]
}

/// Returns the versions that this client speaks with the others, each once; most pairs speak the same one.
fn versions(learned: &Learned) -> String {
    let mut found: Vec<Version> = (0..learned.clusters.len() as u32)
        .filter(|other| *other != learned.rank)
        .filter_map(|other| learned.version(learned.rank, other))
        .collect();
    found.sort_unstable();
    found.dedup();
    match found.is_empty() {
        true => unsaid(),
        false => found.iter().map(shown).collect::<Vec<_>>().join(", ") + " with the other clients",
    }
}

/// Marks the version of this project's clients, which is a large number.
fn shown(version: &Version) -> String {
    match *version == Version::OWN {
        true => format!("{version} (of gpc)"),
        false => version.to_string(),
    }
}

/// What a client has learned, as JSON.
#[derive(Serialize)]
pub(super) struct LearnedShape {
    rank: u32,
    clients: Vec<ClusterShape>,
    datalen: Option<u32>,
    tag_ub: Option<i32>,
    coll_xsize: i32,
    coll_maxlinear: i32,
    job: Option<String>,
    own_labels: bool,
}

#[derive(Serialize)]
struct ClusterShape {
    versions: Vec<String>,
    /// Version that this client speaks with that one.
    version: Option<String>,
    datalen: Option<u32>,
    tag_ub: Option<i32>,
    coll_xsize: Option<i32>,
    coll_maxlinear: Option<i32>,
    hosts: Vec<HostShape>,
}

#[derive(Serialize)]
struct HostShape {
    address: Option<String>,
    port: Option<u32>,
    ackmark: Option<u32>,
    hiwater: Option<u32>,
    procs: Vec<ProcShape>,
}

#[derive(Serialize)]
struct ProcShape {
    address: Option<String>,
    pid: Option<u64>,
    port: Option<u32>,
    key: Option<String>,
}

impl LearnedShape {
    pub(super) fn of(learned: &Learned) -> LearnedShape {
        let clients = (0..).zip(&learned.clusters).map(|(rank, cluster)| ClusterShape {
            versions: cluster.versions.iter().map(Version::to_string).collect(),
            version: learned.version(learned.rank, rank).map(|version| version.to_string()),
            datalen: cluster.datalen,
            tag_ub: cluster.tag_ub,
            coll_xsize: cluster.coll_xsize,
            coll_maxlinear: cluster.coll_maxlinear,
            hosts: cluster.hosts.iter().map(HostShape::of).collect(),
        });
        LearnedShape {
            rank: learned.rank,
            clients: clients.collect(),
            datalen: learned.datalen,
            tag_ub: learned.tag_ub,
            coll_xsize: learned.coll_xsize,
            coll_maxlinear: learned.coll_maxlinear,
            job: learned.job.map(|job| chained_gpc::Job(job).to_string()),
            own_labels: learned.own_labels,
        }
    }
}

impl HostShape {
    fn of(host: &Host) -> HostShape {
        HostShape {
            address: host.address.map(|address| to_ip(address).to_string()),
            port: host.port,
            ackmark: host.ackmark,
            hiwater: host.hiwater,
            procs: host.procs.iter().map(ProcShape::of).collect(),
        }
    }
}

impl ProcShape {
    fn of(proc: &Proc) -> ProcShape {
        ProcShape {
            address: proc.address.map(|address| to_ip(address).to_string()),
            pid: proc.pid,
            port: proc.port,
            key: proc.key.map(|key| key.to_string()),
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use gpc_impi::client::Cluster;
    use gpc_impi::hosts_file;

    use super::*;

    pub(in crate::impi) fn learned() -> Learned {
        let cluster = |text: &str| Cluster::new(hosts_file::parse(text).unwrap());
        let mut second =
            cluster("[fd00::1]:65000 1\n[fd00::1]:2 2\n[fd00::1]:3 3\n[fd00::1]:4 4\n[fd00::1]:5 5");
        second.hosts[0].port = None;
        let first = cluster("10.0.0.1:4000 17\n10.0.0.1:4001 18\n10.0.0.20:4000");
        let mut learned = Learned::new(1, vec![first, second]);
        (learned.tag_ub, learned.own_labels) = (None, true);
        learned
    }

    #[test]
    fn the_table_lines_up() {
        let mut out = Vec::new();
        write_table(&learned(), &mut out).unwrap();
        let expected = "\
client  host  address    port  procs  pids                   ports of processes
     0     0  10.0.0.1   4000      2  17, 18                 4000, 4001
     0     1  10.0.0.20  4000      1  -                      4000
     1     0  fd00::1       -      5  1, 2, 3, 4 and 1 more  65000, 2, 3, 4 and 1 more

clients      2, this one is 1
hosts        3
processes    8
versions     0.0 with the other clients
packets      65536 bytes at most
tags         -
collectives  long from 1024 bytes on
             linear up to 4 hosts
";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn json_has_everything() {
        let json = serde_json::to_value(LearnedShape::of(&learned())).unwrap();
        assert_eq!(json["clients"][0]["hosts"][0]["procs"][1]["pid"], 18);
        assert_eq!(json["clients"][0]["version"], "0.0");
        assert_eq!(json["clients"][1]["hosts"][0]["address"], "fd00::1");
        assert_eq!(json["clients"][1]["hosts"][0]["port"], serde_json::Value::Null);
        assert_eq!(
            (&json["rank"], &json["coll_xsize"], &json["own_labels"]),
            (&1.into(), &1024.into(), &true.into())
        );
    }
}
