//! The processes of this node: their descriptors, environment and output.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use chained_gpc::trees::Id;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::input::HostInput;
use super::private::PrivateFiles;
use super::programs::Programs;
use crate::names::{GroupId, Member, Rank};
use crate::spec::{Layout, Spec};
use crate::start_error::StartError;
use crate::streams::{Piece, Splitter, Stream};
use crate::supervisor::{self, BindOrder, BindTo, Binding, ProgramFacts, SupervisorOrder, env_value};

/// Most bytes read from one pipe per iteration.
const READ_MAX: usize = 64 << 10;

/// One output of a process.
pub(super) struct Output {
    pipe: OwnedFd,
    splitter: Splitter,
}

/// The result of reading.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ReadOutcome {
    /// There may be more.
    More,
    /// There is no more at the moment.
    Empty,
    /// The output has ended.
    End,
}

impl Output {
    pub(super) fn pipe(&self) -> &OwnedFd {
        &self.pipe
    }

    /// Reads some output.
    pub(super) fn read(&mut self, buffer: &mut [u8], mut take: impl FnMut(Piece)) -> ReadOutcome {
        let room = buffer.len().min(READ_MAX);
        match rustix::io::read(&self.pipe, &mut buffer[..room]) {
            Ok(0) => {
                self.splitter.end(&mut take);
                ReadOutcome::End
            }
            Ok(count) => {
                self.splitter.bytes(&buffer[..count], &mut take);
                ReadOutcome::More
            }
            Err(Errno::AGAIN) => ReadOutcome::Empty,
            Err(Errno::INTR) => ReadOutcome::More,
            Err(_) => {
                self.splitter.end(&mut take);
                ReadOutcome::End
            }
        }
    }
}

/// A process to start, and this node's ends of its descriptors.
pub(super) struct PreparedProcess {
    pub(super) order: SupervisorOrder,
    /// The process's ends: standard input, output and error, and the socket to this node.
    pub(super) theirs: Vec<OwnedFd>,
    pub(super) link: OwnedFd,
    pub(super) out: Output,
    pub(super) err: Output,
    /// Standard input, if this node passes it.
    pub(super) input: Option<OwnedFd>,
    /// The process group that it joins.
    pub(super) joins: Option<u32>,
}

/// Information about the node for the environment of a process.
pub(super) struct NodeInfo<'a> {
    pub(super) me: Id,
    /// Index of the process among its group's processes on this node, and their number.
    pub(super) position: (usize, usize),
    /// The processors that the places of its spec list for it.
    pub(super) cpus: Option<&'a str>,
    pub(super) domain: &'a str,
    /// The port's address for processes that do not inherit a socket, and the secret that identifies this one.
    pub(super) port: Option<(String, String)>,
    /// Standard input that rank 0 gets itself.
    pub(super) own_input: Option<&'a HostInput>,
    pub(super) private: &'a PrivateFiles,
    /// The file that the process executes instead of its program.
    pub(super) image: Option<&'a Path>,
    /// The variables by which it finds the PMIx server.
    pub(super) pmix: &'a [(Vec<u8>, Vec<u8>)],
}

/// Creates the descriptors and the start order of a process.
///
/// # Errors
/// A system error: no descriptors are left.
pub(super) fn prepare(layout: &Layout, rank: Rank, node: &NodeInfo<'_>) -> io::Result<PreparedProcess> {
    let member = Member { group: layout.group, rank };
    let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    rustix::io::ioctl_fionbio(&ours, true)?;
    let (out, their_out) = output(member, Stream::Out)?;
    let (err, their_err) = output(member, Stream::Err)?;
    let reads = layout.input.has(rank);
    let own_input = node.own_input.filter(|_| reads);
    let (input, their_in) = match own_input {
        Some(own) => (None, own.descriptor.try_clone()?),
        None => input(reads)?,
    };
    Ok(PreparedProcess {
        order: order(layout, rank, node),
        theirs: vec![their_in, their_out, their_err, theirs],
        link: ours,
        out,
        err,
        input,
        joins: own_input.and_then(|own| own.process_group),
    })
}

fn output(member: Member, stream: Stream) -> io::Result<(Output, OwnedFd)> {
    let (pipe, theirs) = pipe_with(PipeFlags::CLOEXEC)?;
    rustix::io::ioctl_fionbio(&pipe, true)?;
    Ok((Output { pipe, splitter: Splitter::new(member, stream) }, theirs))
}

fn input(wanted: bool) -> io::Result<(Option<OwnedFd>, OwnedFd)> {
    if !wanted {
        let nothing: File = OpenOptions::new().read(true).open("/dev/null")?;
        return Ok((None, nothing.into()));
    }
    let (theirs, ours) = pipe_with(PipeFlags::CLOEXEC)?;
    rustix::io::ioctl_fionbio(&ours, true)?;
    Ok((Some(ours), theirs))
}

fn order(layout: &Layout, rank: Rank, node: &NodeInfo<'_>) -> SupervisorOrder {
    let empty = Spec::default();
    let spec = layout.spec_of(rank).unwrap_or(&empty);
    let (local, neighbours) = node.position;
    let mut env = match spec.is_for_torch() {
        true => torch_variables(rank, layout.size(), node.position),
        false => Vec::new(),
    };
    env.extend(node.private.variables(spec));
    // Those of the program replace parameters that the server advises, but not what its client needs.
    let is_advice = |name: &[u8]| !name.starts_with(b"PMIX_") && spec.env.iter().any(|(set, _)| set == name);
    env.extend_from_slice(&spec.env);
    env.extend(node.pmix.iter().filter(|(name, _)| !is_advice(name)).cloned());
    let mut say = |name: &str, value: String| env.push((name.into(), value.into_bytes()));
    match &node.port {
        // The supervisor sets the variable with the descriptor's number.
        None => {
            say("PMI_RANK", rank.to_string());
            say("PMI_SIZE", layout.size().to_string());
        }
        Some((address, secret)) => {
            say("PMI_PORT", address.clone());
            say("PMI_ID", secret.clone());
        }
    }
    if layout.parent.is_some() {
        say("PMI_SPAWNED", "1".into());
    }
    say("MPI_LOCALRANKID", local.to_string());
    say("MPI_LOCALNRANKS", neighbours.to_string());
    say("PMI_LOCAL_RANK", local.to_string());
    say("PMI_LOCAL_SIZE", neighbours.to_string());
    say("GPC_BNR_NODE", node.me.to_string());
    say("GPC_BNR_GROUP", format!("{}/{}", node.domain, layout.group));
    if let Some(path) = own_path(spec) {
        env.push((b"PATH".to_vec(), path));
    }
    SupervisorOrder::Start {
        member: Member { group: layout.group, rank },
        program: spec.program.clone(),
        args: spec.args.clone(),
        env,
        wdir: info(spec, "wdir"),
        bind: binding(spec, node.cpus, local),
        image: node.image.map(|image| image.as_os_str().as_bytes().to_vec()),
    }
}

/// Variables by which `torch.distributed` knows its ranks. Those of the program's own environment replace them.
fn torch_variables(rank: Rank, size: u32, (local, neighbours): (usize, usize)) -> Vec<(Vec<u8>, Vec<u8>)> {
    let values = [
        ("RANK", rank.to_string()),
        ("WORLD_SIZE", size.to_string()),
        ("LOCAL_RANK", local.to_string()),
        ("LOCAL_WORLD_SIZE", neighbours.to_string()),
    ];
    values.into_iter().map(|(name, value)| (name.into(), value.into_bytes())).collect()
}

/// The binding of a process, the `local`-th of its group on this node.
fn binding(spec: &Spec, cpus: Option<&str>, local: usize) -> Option<Binding> {
    let to = match (cpus, spec.hint("bind")) {
        (Some(cpus), _) => BindTo::Cpus(cpus.to_owned()),
        (None, Some(b"core")) => BindTo::Core,
        (None, Some(b"socket")) => BindTo::Socket,
        (None, Some(b"numa")) => BindTo::Numa,
        (None, _) => BindTo::Nothing,
    };
    let order = match spec.hint("bind-order") {
        Some(b"core") => BindOrder::Core,
        Some(b"socket") => BindOrder::Socket,
        _ => BindOrder::Object,
    };
    let report = spec.hint("report-bindings").is_some();
    (report || to != BindTo::Nothing).then_some(Binding { to, order, index: local, report })
}

/// The `PATH` of a program whose info has the key `path`.
fn own_path(spec: &Spec) -> Option<Vec<u8>> {
    let front = info(spec, "path")?;
    let rest = env_value(&spec.env, b"PATH").map(<[u8]>::to_vec);
    let rest = rest.or_else(|| std::env::var_os("PATH").map(std::os::unix::ffi::OsStringExt::into_vec));
    Some([front, rest.unwrap_or_default()].join(&b':'))
}

fn info(spec: &Spec, name: &str) -> Option<Vec<u8>> {
    spec.hint(name).map(<[u8]>::to_vec)
}

/// Checks whether the processes of a spec can be started.
///
/// # Errors
/// The reason why the start would fail.
pub(super) fn check(spec: &Spec, programs: &Programs) -> Result<ProgramFacts, StartError> {
    let image = programs.image(spec)?;
    let path = own_path(spec).or_else(|| env_value(&spec.env, b"PATH").map(<[u8]>::to_vec));
    let program = (&spec.program[..], &spec.args[..]);
    supervisor::check(program, image.as_deref(), path.as_deref(), info(spec, "wdir").as_deref())
}

/// A port that is free at all addresses of this host. A process must take it soon, since another program may.
///
/// # Errors
/// A system error: no port is free.
pub(super) fn free_port() -> io::Result<u16> {
    let bound = TcpListener::bind((Ipv6Addr::UNSPECIFIED, 0));
    let bound = bound.or_else(|_| TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)))?;
    Ok(bound.local_addr()?.port())
}

/// Groups whose processes are being started here, with the results so far.
#[derive(Default)]
pub(super) struct PendingStarts {
    groups: BTreeMap<GroupId, PendingStart>,
}

struct PendingStart {
    ranks: BTreeSet<Rank>,
    results: Vec<(Rank, Result<u32, StartError>)>,
}

/// The results of starting a group's processes.
pub(super) type StartOutcome = (GroupId, Vec<(Rank, Result<u32, StartError>)>);

impl PendingStarts {
    /// Begins with these ranks. Returns the outcome at once if there are none.
    pub(super) fn begin(&mut self, group: GroupId, ranks: BTreeSet<Rank>) -> Option<StartOutcome> {
        if ranks.is_empty() {
            return Some((group, Vec::new()));
        }
        self.groups.insert(group, PendingStart { ranks, results: Vec::new() });
        None
    }

    #[cfg(feature = "snapshot")]
    pub(super) fn len(&self) -> usize {
        self.groups.len()
    }

    /// Records a result. Returns the outcome of the group with its last result.
    pub(super) fn record(&mut self, member: Member, result: Result<u32, StartError>) -> Option<StartOutcome> {
        let awaited = self.groups.get_mut(&member.group)?;
        if !awaited.ranks.remove(&member.rank) {
            return None;
        }
        awaited.results.push((member.rank, result));
        if !awaited.ranks.is_empty() {
            return None;
        }
        let mut results = self.groups.remove(&member.group)?.results;
        results.sort_by_key(|(rank, _)| *rank);
        Some((member.group, results))
    }

    /// Fails all starts that are not yet answered.
    pub(super) fn fail(&mut self, error: &StartError) -> Vec<StartOutcome> {
        let groups = std::mem::take(&mut self.groups);
        let failed = |(group, awaited): (GroupId, PendingStart)| {
            let mut results = awaited.results;
            results.extend(awaited.ranks.into_iter().map(|rank| (rank, Err(error.clone()))));
            results.sort_by_key(|(rank, _)| *rank);
            (group, results)
        };
        groups.into_iter().map(failed).collect()
    }
}

/// Raises the limit of descriptors as far as the system allows: each process takes three here.
pub(super) fn raise_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    // With the old limit, fewer processes can be started.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_a_start_are_in_the_order_of_ranks_and_complete() {
        let group = GroupId(4);
        let of = |rank| Member { group, rank };
        let mut starts = PendingStarts::default();
        assert!(starts.begin(group, BTreeSet::new()).is_some(), "nothing is awaited");
        assert!(starts.begin(group, [0, 1, 2].into()).is_none());
        assert!(starts.record(of(2), Ok(12)).is_none() && starts.record(of(0), Ok(10)).is_none());
        assert!(starts.record(of(0), Ok(11)).is_none(), "a second result of a rank");
        assert!(starts.record(Member { group: GroupId(5), rank: 1 }, Ok(9)).is_none(), "another group");
        let (of_group, results) = starts.record(of(1), Ok(11)).unwrap();
        assert_eq!((of_group, results), (group, vec![(0, Ok(10)), (1, Ok(11)), (2, Ok(12))]));
        assert!(starts.record(of(1), Ok(11)).is_none(), "it is over");
    }
}
