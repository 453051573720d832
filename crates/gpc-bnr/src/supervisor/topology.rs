//! The cores, sockets and NUMA nodes of this host, as far as a process may use them: from the texts of sysfs, without
//! I/O.

use std::collections::BTreeMap;

use rustix::thread::CpuSet;

use super::orders::{BindOrder, BindTo, Binding};

/// Most NUMA nodes that are read: those of the largest hosts.
const NUMA_MAX: usize = 1024;

/// The cores that this process may use, by socket and first processor.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Topology {
    allowed: CpuSet,
    cores: Vec<Core>,
}

/// A core, with those of its hardware threads that may be used.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Core {
    cpus: CpuSet,
    socket: usize,
    numa: usize,
}

/// What a process may use.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct BoundCpus {
    pub(super) cpus: CpuSet,
    /// The object that it is bound to, for people.
    pub(super) object: String,
}

impl Topology {
    /// The topology of the allowed processors. `read` returns the text of a file below `/sys/devices/system`. A
    /// processor without information is a core of its own, on socket and NUMA node 0.
    pub(super) fn parse(allowed: CpuSet, read: impl Fn(&str) -> Option<String>) -> Topology {
        let numa = numa_nodes(&read);
        let mut left = allowed;
        let mut cores = Vec::new();
        for cpu in cpus_of(&allowed) {
            if !left.is_set(cpu) {
                continue;
            }
            let file = |name: &str| read(&format!("cpu/cpu{cpu}/topology/{name}"));
            let siblings = file("core_cpus_list").or_else(|| file("thread_siblings_list"));
            let mut core = CpuSet::new();
            let siblings = siblings.as_deref().map(list).unwrap_or_default();
            [cpu].into_iter().chain(siblings).filter(|cpu| left.is_set(*cpu)).for_each(|cpu| core.set(cpu));
            cpus_of(&core).for_each(|cpu| left.unset(cpu));
            // Some systems have -1 for an unknown socket.
            let socket = file("physical_package_id").and_then(|text| text.trim().parse().ok()).unwrap_or(0);
            cores.push(Core { cpus: core, socket, numa: numa.get(&cpu).copied().unwrap_or(0) });
        }
        // A stable sort: within a socket, the order of the first processors stays.
        cores.sort_by_key(|core| core.socket);
        Topology { allowed, cores }
    }

    /// The processors for a process.
    ///
    /// # Errors
    /// The binding names processors that may not be used, or is no list; the message says which may be used.
    pub(super) fn bound(&self, binding: &Binding) -> Result<BoundCpus, String> {
        let key: fn(usize, &Core) -> usize = match &binding.to {
            BindTo::Nothing => return Ok(BoundCpus { cpus: self.allowed, object: "not bound".into() }),
            BindTo::Cpus(text) => return self.listed(text),
            BindTo::Core => |place, _| place,
            BindTo::Socket => |_, core| core.socket,
            BindTo::Numa => |_, core| core.numa,
        };
        let mut objects = BTreeMap::<usize, CpuSet>::new();
        for (place, core) in self.cores.iter().enumerate() {
            let object = objects.entry(key(place, core)).or_default();
            cpus_of(&core.cpus).for_each(|cpu| object.set(cpu));
        }
        let number = match binding.order {
            BindOrder::Object => objects.keys().nth(binding.index % objects.len().max(1)).copied(),
            BindOrder::Core | BindOrder::Socket => {
                let sequence = self.sequence(binding.order);
                let place = sequence.get(binding.index % sequence.len().max(1));
                place.and_then(|place| Some(key(*place, self.cores.get(*place)?)))
            }
        };
        let number = number.ok_or("this node may use no processor")?;
        let name = match binding.to {
            BindTo::Socket => "socket",
            BindTo::Numa => "NUMA node",
            _ => "core",
        };
        let cpus = objects.get(&number).copied().unwrap_or(self.allowed);
        Ok(BoundCpus { cpus, object: format!("{name} {number}") })
    }

    /// The places of the cores in an order.
    fn sequence(&self, order: BindOrder) -> Vec<usize> {
        if order != BindOrder::Socket {
            return (0..self.cores.len()).collect();
        }
        let mut turns = BTreeMap::<usize, usize>::new();
        let turn = |core: &Core| {
            let turn = turns.entry(core.socket).or_default();
            *turn += 1;
            *turn
        };
        let turns: Vec<usize> = self.cores.iter().map(turn).collect();
        let mut places: Vec<usize> = (0..self.cores.len()).collect();
        places.sort_by_key(|place| (turns[*place], self.cores[*place].socket));
        places
    }

    fn listed(&self, text: &str) -> Result<BoundCpus, String> {
        let cpus = list(text);
        let mut set = CpuSet::new();
        cpus.iter().for_each(|cpu| set.set(*cpu));
        let known = cpus.iter().all(|cpu| self.allowed.is_set(*cpu));
        match known && !cpus.is_empty() && is_list(text) {
            true => Ok(BoundCpus { cpus: set, object: "listed".into() }),
            false => Err(format!(
                "processors {text} are not all among those that this node may use, {}",
                shown(&self.allowed)
            )),
        }
    }
}

/// The NUMA node of each processor.
fn numa_nodes(read: impl Fn(&str) -> Option<String>) -> BTreeMap<usize, usize> {
    let nodes = read("node/online").as_deref().map(list).unwrap_or_default();
    let cpus = |node: usize| {
        let text = read(&format!("node/node{node}/cpulist")).unwrap_or_default();
        list(&text).into_iter().map(move |cpu| (cpu, node))
    };
    nodes.into_iter().take(NUMA_MAX).flat_map(cpus).collect()
}

fn cpus_of(set: &CpuSet) -> impl Iterator<Item = usize> + use<> {
    let set = *set;
    (0..CpuSet::MAX_CPU).filter(move |cpu| set.is_set(*cpu))
}

/// Parses a list of processors as the system writes it, such as `0-1,8`. What is not a range is left out.
fn list(text: &str) -> Vec<usize> {
    text.trim().split(',').filter_map(range).flatten().collect()
}

fn is_list(text: &str) -> bool {
    text.split(',').all(|part| range(part).is_some_and(|range| !range.is_empty()))
}

fn range(part: &str) -> Option<std::ops::Range<usize>> {
    let (first, last) = part.split_once('-').unwrap_or((part, part));
    let (first, last) = (first.parse::<usize>().ok()?, last.parse::<usize>().ok()?);
    Some(first..last.saturating_add(1).min(CpuSet::MAX_CPU))
}

/// A set of processors as the system writes it.
pub(super) fn shown(set: &CpuSet) -> String {
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for cpu in cpus_of(set) {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == cpu => *last = cpu,
            _ => ranges.push((cpu, cpu)),
        }
    }
    let range = |(first, last): &(usize, usize)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    ranges.iter().map(range).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(cpus: &[usize]) -> CpuSet {
        let mut set = CpuSet::new();
        cpus.iter().for_each(|cpu| set.set(*cpu));
        set
    }

    /// A host of two sockets with two cores of two threads each, numbered as Intel's are: threads last, sockets in
    /// turn. Each socket is a NUMA node, the second one with the number 2.
    fn two_sockets(path: &str) -> Option<String> {
        if let Some(node) = path.strip_prefix("node/") {
            let text = match node {
                "online" => "0,2\n",
                "node0/cpulist" => "0,2,4,6\n",
                "node2/cpulist" => "1,3,5,7\n",
                _ => return None,
            };
            return Some(text.into());
        }
        let (cpu, file) = path.strip_prefix("cpu/cpu")?.split_once("/topology/")?;
        let cpu: usize = cpu.parse().ok()?;
        match file {
            "core_cpus_list" => Some(format!("{},{}\n", cpu % 4, cpu % 4 + 4)),
            "physical_package_id" => Some(format!("{}\n", cpu % 2)),
            _ => None,
        }
    }

    fn bound(topology: &Topology, to: BindTo, order: BindOrder) -> Vec<String> {
        let of = |index| {
            let binding = Binding { to: to.clone(), order, index, report: false };
            let bound = topology.bound(&binding).unwrap();
            format!("{} {}", bound.object, shown(&bound.cpus))
        };
        (0..5).map(of).collect()
    }

    #[test]
    fn threads_sockets_and_numa_nodes_of_two_sockets() {
        let topology = Topology::parse(set(&[0, 1, 2, 3, 4, 5, 6, 7]), two_sockets);
        let cores = |order| bound(&topology, BindTo::Core, order);
        assert_eq!(
            cores(BindOrder::Object),
            ["core 0 0,4", "core 1 2,6", "core 2 1,5", "core 3 3,7", "core 0 0,4"]
        );
        assert_eq!(cores(BindOrder::Core), cores(BindOrder::Object));
        assert_eq!(
            cores(BindOrder::Socket),
            ["core 0 0,4", "core 2 1,5", "core 1 2,6", "core 3 3,7", "core 0 0,4"]
        );
        let (first, second) = ("socket 0 0,2,4,6", "socket 1 1,3,5,7");
        assert_eq!(
            bound(&topology, BindTo::Socket, BindOrder::Object),
            [first, second, first, second, first]
        );
        assert_eq!(bound(&topology, BindTo::Socket, BindOrder::Core), [first, first, second, second, first]);
        assert_eq!(
            bound(&topology, BindTo::Socket, BindOrder::Socket),
            [first, second, first, second, first]
        );
        let numa = bound(&topology, BindTo::Numa, BindOrder::Object);
        assert_eq!(numa[..2], ["NUMA node 0 0,2,4,6", "NUMA node 2 1,3,5,7"]);
    }

    #[test]
    fn only_processors_that_may_be_used_are() {
        // Processor 1 is offline, and the control group has no 6 and 7: core 3 has one thread left.
        let topology = Topology::parse(set(&[0, 2, 3, 4, 5]), two_sockets);
        let cores = bound(&topology, BindTo::Core, BindOrder::Object);
        assert_eq!(cores, ["core 0 0,4", "core 1 2", "core 2 3", "core 3 5", "core 0 0,4"]);
        assert_eq!(bound(&topology, BindTo::Socket, BindOrder::Object)[1], "socket 1 3,5");
        assert_eq!(bound(&topology, BindTo::Nothing, BindOrder::Object)[3], "not bound 0,2-5");
    }

    #[test]
    fn a_host_that_says_nothing_has_cores_of_one_thread() {
        for read in [|_: &str| None, |_: &str| Some("nonsense, 7-".to_owned())] {
            let topology = Topology::parse(set(&[2, 3]), read);
            assert_eq!(bound(&topology, BindTo::Core, BindOrder::Object)[..2], ["core 0 2", "core 1 3"]);
            assert_eq!(bound(&topology, BindTo::Socket, BindOrder::Socket)[0], "socket 0 2-3");
            assert_eq!(bound(&topology, BindTo::Numa, BindOrder::Object)[0], "NUMA node 0 2-3");
        }
        // Older kernels have only the former name of the file.
        let old = |path: &str| path.ends_with("thread_siblings_list").then(|| "0-3".to_owned());
        let topology = Topology::parse(set(&[0, 1, 2, 3]), old);
        assert_eq!(bound(&topology, BindTo::Core, BindOrder::Object)[0], "core 0 0-3");
    }

    #[test]
    fn a_list_is_used_as_it_is_or_refused() {
        let topology = Topology::parse(set(&[0, 1, 2, 5]), |_| None);
        let bound = |text: &str| {
            let to = BindTo::Cpus(text.into());
            topology.bound(&Binding { to, order: BindOrder::Object, index: 3, report: true })
        };
        assert_eq!(shown(&bound("5,0-1").unwrap().cpus), "0-1,5");
        for text in ["3", "0-3", "", "1,x", "2-1", "4000"] {
            let error = bound(text).unwrap_err();
            assert!(error.ends_with("that this node may use, 0-2,5"), "{text}: {error}");
        }
    }

    #[test]
    fn lists_of_processors() {
        assert_eq!(list("0-2,5\n"), [0, 1, 2, 5]);
        assert_eq!(list(""), Vec::<usize>::new());
        assert_eq!(list("0-18446744073709551615").len(), CpuSet::MAX_CPU);
        assert_eq!((shown(&set(&[0, 1, 2, 5])), shown(&set(&[]))), ("0-2,5".into(), String::new()));
    }
}
