//! Encodes the values of a client's cluster by label.

use super::{Cluster, Host, Proc};
use crate::wire::{Label, Version};

impl Cluster {
    /// Whether there are values under this label.
    pub(super) fn has_values(&self, label: Label) -> bool {
        let host = |has: fn(&Host) -> bool| self.hosts.first().is_some_and(has);
        let proc = |has: fn(&Proc) -> bool| self.first_proc().is_some_and(has);
        match label {
            Label::C_VERSION => !self.versions.is_empty(),
            Label::C_NHOSTS | Label::C_NPROCS | Label::H_NPROCS => true,
            Label::C_DATALEN => self.datalen.is_some(),
            Label::C_TAGUB => self.tag_ub.is_some(),
            Label::C_COLL_XSIZE => self.coll_xsize.is_some(),
            Label::C_COLL_MAXLINEAR => self.coll_maxlinear.is_some(),
            Label::H_IPV6 => host(|host| host.address.is_some()),
            Label::H_PORT => host(|host| host.port.is_some()),
            Label::H_ACKMARK => host(|host| host.ackmark.is_some()),
            Label::H_HIWATER => host(|host| host.hiwater.is_some()),
            Label::P_IPV6 => proc(|proc| proc.address.is_some()),
            Label::P_PID => proc(|proc| proc.pid.is_some()),
            Label::P_PORT => proc(|proc| proc.port.is_some()),
            // A process without a key has an all-zero value.
            Label::P_KEY => self.procs_all().any(|proc| proc.key.is_some()),
            _ => false,
        }
    }

    /// Length of the values under this label, bytes.
    pub(super) fn len(&self, label: Label) -> usize {
        match (label, label.shape()) {
            (Label::C_VERSION, _) => 8 * self.versions.len(),
            (_, Some((crate::wire::Per::Client, size))) => size,
            (_, Some((crate::wire::Per::Host, size))) => size * self.hosts.len(),
            (_, Some((crate::wire::Per::Proc, size))) => size * self.procs(),
            (_, None) => 0,
        }
    }

    /// The values under this label, if there are any.
    pub(super) fn values(&self, label: Label) -> Option<Vec<u8>> {
        if !self.has_values(label) {
            return None;
        }
        let mut bytes = Vec::with_capacity(self.len(label));
        let number = |number: usize| (number as u32).to_be_bytes();
        match label {
            Label::C_VERSION => bytes = Version::to_bytes(&self.versions),
            Label::C_NHOSTS => bytes.extend(number(self.hosts.len())),
            Label::C_NPROCS => bytes.extend(number(self.procs())),
            Label::C_DATALEN => bytes.extend(self.datalen?.to_be_bytes()),
            Label::C_TAGUB => bytes.extend(self.tag_ub?.to_be_bytes()),
            Label::C_COLL_XSIZE => bytes.extend(self.coll_xsize?.to_be_bytes()),
            Label::C_COLL_MAXLINEAR => bytes.extend(self.coll_maxlinear?.to_be_bytes()),
            Label::H_NPROCS => {
                self.hosts.iter().for_each(|host| bytes.extend(number(host.procs.len())));
            }
            Label::H_IPV6 => {
                self.hosts.iter().filter_map(|host| host.address).for_each(|it| bytes.extend(it.octets()));
            }
            Label::H_PORT => self.each_host(&mut bytes, |host| host.port),
            Label::H_ACKMARK => self.each_host(&mut bytes, |host| host.ackmark),
            Label::H_HIWATER => self.each_host(&mut bytes, |host| host.hiwater),
            Label::P_IPV6 => {
                self.procs_all().filter_map(|proc| proc.address).for_each(|it| bytes.extend(it.octets()));
            }
            Label::P_PID => {
                self.procs_all().filter_map(|proc| proc.pid).for_each(|it| bytes.extend(it.to_be_bytes()));
            }
            Label::P_PORT => {
                self.procs_all().filter_map(|proc| proc.port).for_each(|it| bytes.extend(it.to_be_bytes()));
            }
            Label::P_KEY => {
                self.procs_all().for_each(|proc| bytes.extend(proc.key.map_or([0; 32], |key| key.0)));
            }
            _ => return None,
        }
        Some(bytes)
    }

    fn each_host(&self, bytes: &mut Vec<u8>, value: fn(&Host) -> Option<u32>) {
        self.hosts.iter().filter_map(value).for_each(|value| bytes.extend(value.to_be_bytes()));
    }

    fn procs_all(&self) -> impl Iterator<Item = &Proc> {
        self.hosts.iter().flat_map(|host| &host.procs)
    }

    fn first_proc(&self) -> Option<&Proc> {
        self.procs_all().next()
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    use chained_gpc::PublicKey;

    use super::*;

    /// The keys of all processes were left out if the first one had none.
    #[test]
    fn one_process_with_a_key_is_enough_for_the_label() {
        let proc = |key| Proc { key, ..Proc::new(Ipv6Addr::LOCALHOST, 1) };
        let host = |procs| Host::new(Ipv6Addr::LOCALHOST, 4000, procs);
        let key = PublicKey([7; 32]);
        let cluster = Cluster::new(vec![host(vec![]), host(vec![proc(None), proc(Some(key))])]);
        assert_eq!(cluster.values(Label::P_KEY), Some([[0; 32], [7; 32]].concat()));
        let cluster = Cluster::new(vec![host(vec![proc(None), proc(None)])]);
        assert_eq!(cluster.values(Label::P_KEY), None);
    }
}
