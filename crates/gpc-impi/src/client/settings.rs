//! Settings of a client, and their validation before anything is sent.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv6Addr;

use bytes::Bytes;

use super::{Cluster, Host, Proc};
use crate::server::Rank;
use crate::wire::{CLIENTS_MAX, Label, Methods, Version};

/// Settings of a client.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ClientSettings {
    /// Rank among the clients, 0 to 31.
    pub rank: Rank,
    /// Authentication methods.
    pub methods: Methods,
    /// The cluster that the client speaks for.
    pub cluster: Cluster,
    /// C_JOB, of this project: the job of all nodes. Only client 0 sends it.
    pub job: Option<[u8; 16]>,
    /// Whether the client knows the labels of this project. If so, [`Version::OWN`] is among its versions, and if all
    /// other clients know them, it sends those that its cluster has values for.
    pub own_labels: bool,
    /// Values under an implementer's own labels: neither [known](Label::KNOWN) nor [of this project](Label::OWN), and
    /// not 0. They are sent in the order of all labels, without waiting for their broadcasts, because a server may drop
    /// unknown labels. The values of all clients under such labels are in [`Learned::others`](super::Learned::others).
    pub extra: BTreeMap<Label, Bytes>,
    /// Most bytes that the server may send.
    pub bytes_max: usize,
    /// Most hosts, and most processes, of all clients together. Each costs some 100 bytes of memory at every client,
    /// even if its own client has sent only 4 bytes for all of them.
    pub procs_max: usize,
}

impl ClientSettings {
    /// Settings with the labels of this project and without a job. The server may send 1 GiB, and all clients may have
    /// 1,048,576 hosts and as many processes.
    pub fn new(rank: Rank, methods: Methods, cluster: Cluster) -> ClientSettings {
        let (bytes_max, procs_max) = (1 << 30, 1 << 20);
        ClientSettings {
            rank,
            methods,
            cluster,
            job: None,
            own_labels: true,
            extra: BTreeMap::new(),
            bytes_max,
            procs_max,
        }
    }
}

/// The settings are invalid. Hosts are numbered from 0 within the cluster, processes from 0 within their host.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientSettingsError {
    /// The rank is too high: the mask of clients has 32 bits.
    #[error("client rank {0}: the ranks are 0 to {most}", most = CLIENTS_MAX - 1)]
    Rank(Rank),
    /// No authentication method is enabled, so no server would admit the client.
    #[error(
        "no method of proof is enabled, so that no server would take this client: set IMPI_AUTH_KEY or IMPI_AUTH_NONE"
    )]
    Methods,
    /// The cluster has no hosts.
    #[error("the cluster has no hosts")]
    NoHosts,
    /// A host has no processes.
    #[error("host {0} has no processes")]
    NoProcs(usize),
    /// Some values of a label are missing. Values are concatenated without gaps, so there must be all or none.
    #[error("{label}: {has} has a value, and {lacks} has none; all have one, or the label is left out")]
    Some {
        /// The label.
        label: Label,
        /// A place with a value.
        has: Place,
        /// A place without a value.
        lacks: Place,
    },
    /// The list of versions is invalid.
    #[error("the versions {}: they ascend from 0.0, which every client speaks", VersionList(.0))]
    Versions(Vec<Version>),
    /// The source does not allow this value.
    #[error("{label} of {at} is {value}; allowed are {least} to {most}")]
    Value {
        /// The label.
        label: Label,
        /// The place of the value.
        at: Place,
        /// The value.
        value: i64,
        /// The lowest allowed value.
        least: i64,
        /// The highest allowed value.
        most: i64,
    },
    /// Senders to this host would wait for acknowledgements that never arrive.
    #[error(
        "host {host} acknowledges every {ackmark} packets (H_ACKMARK), and only {hiwater} may be unacknowledged (H_HIWATER)"
    )]
    Flow {
        /// The host.
        host: usize,
        /// Its ackmark.
        ackmark: u32,
        /// Its hiwater.
        hiwater: u32,
    },
    /// Two processes have the same address and number.
    #[error("P_PID {pid} of {at} is that of another process with the same address")]
    Pid {
        /// The process.
        at: Place,
        /// Its number.
        pid: u64,
    },
    /// The label is not available for an implementer's own values.
    #[error("values of one's own under {label}, which is {}", LabelOwner(.label))]
    Extra {
        /// The label.
        label: Label,
    },
    /// Too many labels of the implementer's own.
    #[error("{0} labels of one's own; at most {EXTRA_MAX} are sent")]
    Extras(usize),
    /// The values are longer than a message, or the settings, allow.
    #[error("{label}: {len} bytes of values; at most {most} can be sent")]
    Long {
        /// The label.
        label: Label,
        /// Length of the values, bytes.
        len: usize,
        /// Longest allowed length, bytes.
        most: usize,
    },
}

/// The place of a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// The cluster.
    Cluster,
    /// A host.
    Host(usize),
    /// A process: its host, and its number there.
    Proc(usize, usize),
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Place::Cluster => f.write_str("the cluster"),
            Place::Host(host) => write!(f, "host {host}"),
            Place::Proc(host, proc) => write!(f, "process {proc} of host {host}"),
        }
    }
}

/// Most labels of the implementer's own. Servers hold a label until all clients have sent it or are done, and limit the
/// number of labels.
pub(super) const EXTRA_MAX: usize = 100;

/// Describes the owner of a label.
struct LabelOwner<'a>(&'a Label);

impl std::fmt::Display for LabelOwner<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match *self.0 {
            Label::NONE => "no label",
            label if label.is_known() => "a label of the source",
            _ => "a label of this project",
        })
    }
}

/// Shows the first versions of a list.
struct VersionList<'a>(&'a [Version]);

impl std::fmt::Display for VersionList<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (i, version) in self.0.iter().take(8).enumerate() {
            write!(f, "{}{version}", if i == 0 { "" } else { ", " })?;
        }
        if self.0.len() > 8 { f.write_str(", …") } else { Ok(()) }
    }
}

impl ClientSettings {
    /// Length of the values under this label in bytes, if there are any. The job is excluded.
    pub(super) fn len(&self, label: Label) -> Option<usize> {
        let extra = self.extra.get(&label).map(Bytes::len);
        extra.or_else(|| self.cluster.has_values(label).then(|| self.cluster.len(label)))
    }

    /// Validates the settings, and adds the version of this project if it is needed.
    pub(super) fn checked(mut self) -> Result<ClientSettings, ClientSettingsError> {
        if self.rank >= CLIENTS_MAX {
            return Err(ClientSettingsError::Rank(self.rank));
        }
        if self.methods.mask() == 0 {
            return Err(ClientSettingsError::Methods);
        }
        let versions = &mut self.cluster.versions;
        if versions.first() != Some(&Version::MANDATORY) || !versions.is_sorted_by(|a, b| a < b) {
            return Err(ClientSettingsError::Versions(versions.clone()));
        }
        if let (true, Err(at)) = (self.own_labels, versions.binary_search(&Version::OWN)) {
            versions.insert(at, Version::OWN);
        }
        if self.extra.len() > EXTRA_MAX {
            return Err(ClientSettingsError::Extras(self.extra.len()));
        }
        let taken = |label: &Label| *label == Label::NONE || label.is_known() || Label::OWN.contains(label);
        if let Some(label) = self.extra.keys().copied().find(taken) {
            return Err(ClientSettingsError::Extra { label });
        }
        check(&self.cluster)?;
        Ok(self)
    }
}

/// Validates a cluster.
fn check(cluster: &Cluster) -> Result<(), ClientSettingsError> {
    if cluster.hosts.is_empty() {
        return Err(ClientSettingsError::NoHosts);
    }
    if let Some(host) = cluster.hosts.iter().position(|host| host.procs.is_empty()) {
        return Err(ClientSettingsError::NoProcs(host));
    }
    let within = |label, at, value: Option<i64>, least, most| match value {
        Some(value) if !(least..=most).contains(&value) => {
            Err(ClientSettingsError::Value { label, at, value, least, most })
        }
        _ => Ok(()),
    };
    let int4 = i64::from(i32::MAX);
    let uint4 = i64::from(u32::MAX);
    within(Label::C_DATALEN, Place::Cluster, cluster.datalen.map(i64::from), 1, uint4)?;
    within(Label::C_TAGUB, Place::Cluster, cluster.tag_ub.map(i64::from), 32_767, int4)?;
    within(Label::C_COLL_XSIZE, Place::Cluster, cluster.coll_xsize.map(i64::from), -1, int4)?;
    within(Label::C_COLL_MAXLINEAR, Place::Cluster, cluster.coll_maxlinear.map(i64::from), -1, int4)?;
    for (i, host) in cluster.hosts.iter().enumerate() {
        let at = Place::Host(i);
        within(Label::H_PORT, at, host.port.map(i64::from), 1, 65_535)?;
        within(Label::H_ACKMARK, at, host.ackmark.map(i64::from), 1, uint4)?;
        within(Label::H_HIWATER, at, host.hiwater.map(i64::from), 1, uint4)?;
        match (host.ackmark, host.hiwater) {
            (Some(ackmark), Some(hiwater)) if ackmark > hiwater => {
                return Err(ClientSettingsError::Flow { host: i, ackmark, hiwater });
            }
            _ => {}
        }
        for (j, proc) in host.procs.iter().enumerate() {
            within(Label::P_PORT, Place::Proc(i, j), proc.port.map(i64::from), 0, 65_535)?;
        }
    }
    all_or_none(cluster)?;
    pids(cluster)
}

/// A label, and a function that returns whether it has a value.
type LabelTest<T> = (Label, fn(&T) -> bool);

/// Checks that each label has a value everywhere or nowhere.
fn all_or_none(cluster: &Cluster) -> Result<(), ClientSettingsError> {
    let hosts: [LabelTest<Host>; 4] = [
        (Label::H_IPV6, |host| host.address.is_some()),
        (Label::H_PORT, |host| host.port.is_some()),
        (Label::H_ACKMARK, |host| host.ackmark.is_some()),
        (Label::H_HIWATER, |host| host.hiwater.is_some()),
    ];
    for (label, has) in hosts {
        mixed(label, cluster.hosts.iter().enumerate().map(|(i, host)| (Place::Host(i), has(host))))?;
    }
    let procs: [LabelTest<Proc>; 3] = [
        (Label::P_IPV6, |proc| proc.address.is_some()),
        (Label::P_PID, |proc| proc.pid.is_some()),
        (Label::P_PORT, |proc| proc.port.is_some()),
    ];
    for (label, has) in procs {
        mixed(label, cluster.procs_at().map(|(at, _, proc)| (at, has(proc))))?;
    }
    Ok(())
}

fn mixed(label: Label, mut all: impl Iterator<Item = (Place, bool)>) -> Result<(), ClientSettingsError> {
    let Some((first, has)) = all.next() else { return Ok(()) };
    match all.find(|(_, other)| *other != has) {
        Some((other, true)) => Err(ClientSettingsError::Some { label, has: other, lacks: first }),
        Some((other, false)) => Err(ClientSettingsError::Some { label, has: first, lacks: other }),
        None => Ok(()),
    }
}

/// Checks that processes can be told apart.
fn pids(cluster: &Cluster) -> Result<(), ClientSettingsError> {
    // Without any address, the processes of one host share an unknown one.
    let mut seen: BTreeSet<(Result<Ipv6Addr, usize>, u64)> = BTreeSet::new();
    for (at, host, proc) in cluster.procs_at() {
        let Place::Proc(i, _) = at else { continue };
        let address = proc.address.or(host.address).map(super::canonical).ok_or(i);
        if let Some(pid) = proc.pid.filter(|pid| !seen.insert((address, *pid))) {
            return Err(ClientSettingsError::Pid { at, pid });
        }
    }
    Ok(())
}

impl Cluster {
    /// Its processes, with their places and their hosts.
    fn procs_at(&self) -> impl Iterator<Item = (Place, &Host, &Proc)> {
        self.hosts.iter().enumerate().flat_map(|(i, host)| {
            host.procs.iter().enumerate().map(move |(j, proc)| (Place::Proc(i, j), host, proc))
        })
    }
}
