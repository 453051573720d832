//! Plan of a run: checks combinations of arguments before anything is started.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf, absolute};
use std::time::Duration;

use chained_gpc::bootstrap::SlotList;
use chained_gpc::runtime::{Address, Peers};
use chained_gpc::wire::Shown;
use gpc_bnr::{Limits, OnDeath, Readers, Spec};
use gpc_launch::remote::RemotePlan;
use gpc_trees::Id;

use super::input::{ReaderPlace, StdinSource};
use super::output::OutputPlan;
use super::placing::places;
use super::programs;
use crate::allocated::takes_allocation;
use crate::args::run::{EnvForKind, OnDeathKind, PmixKind, ProgramArgs, RunArgs, StdinKind};
use crate::args::{HostChoice, OverArgs};
use crate::duration::Span;
use crate::files::read_peers;
use crate::refused::Refused;
use crate::trust::Trust;

/// Time limit for the links with running nodes: one that is absent costs it each time.
const LINK_LIMIT: Duration = Duration::from_secs(5);

/// Where the processes run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum NodePlacement {
    /// In this node only.
    OwnNode,
    /// In this number of nodes on this machine, including this one.
    Launched(u32),
    /// In running nodes that this node joins.
    Joined(Box<RunningNodes>),
    /// In nodes that this node starts on other hosts, one on each.
    Hosts(Box<HostNodes>),
}

impl NodePlacement {
    /// Returns the nodes with the names of their hosts.
    fn hosts(&self) -> Result<Vec<(Id, String)>, Refused> {
        match self {
            NodePlacement::Hosts(hosts) => {
                Ok(hosts.plan.ids().map(|(id, name)| (id, name.to_owned())).collect())
            }
            NodePlacement::OwnNode => {
                let own = rustix::system::uname().nodename().to_string_lossy().into_owned();
                Ok(vec![(0, own), (0, "localhost".into())])
            }
            NodePlacement::Launched(_) | NodePlacement::Joined(_) => {
                Err("--rank-file goes with --hosts or --hostfile: these nodes have no names of hosts".into())
            }
        }
    }
}

/// Nodes on other hosts, ids from 1 on in the order of the list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct HostNodes {
    /// What is started there.
    pub(super) plan: RemotePlan,
    /// The hosts with their slots.
    pub(super) hosts: SlotList,
}

/// Running nodes, and this one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct RunningNodes {
    /// Id of this node.
    pub(super) me: Id,
    /// Address of this node, if the others know it. Otherwise this node opens its links to them.
    pub(super) listen: Option<Address>,
    /// All nodes.
    pub(super) peers: Peers,
    /// What this node proves to the others, and requires of them.
    pub(super) trust: Trust,
}

/// A run, with checked arguments.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct RunPlan {
    /// The programs.
    pub(super) specs: Vec<Spec>,
    pub(super) on_death: OnDeath,
    pub(super) nodes: NodePlacement,
    pub(super) output: OutputPlan,
    /// Whether the end of each process is printed.
    pub(super) print_exits: bool,
    pub(super) time_limit: Option<Span>,
    /// Signal at the time limit, before the kill.
    pub(super) timeout_signal: Option<u8>,
    /// Command at the time limit, before signal and kill.
    pub(super) on_timeout: Option<OsString>,
    pub(super) pmi_port: bool,
    /// Programs that go to the nodes, each with its number.
    pub(super) programs: Vec<(PathBuf, u64)>,
    /// How standard input reaches the processes that read it.
    pub(super) input: StdinSource,
    /// The processes that read it.
    pub(super) readers: Readers,
    pub(super) limits: Limits,
}

impl RunPlan {
    /// Checks the arguments together, and reads the files that they name.
    ///
    /// # Errors
    /// Every fault that can be found before anything is started, as a message for the user.
    pub(super) fn new(args: &RunArgs) -> Result<RunPlan, Refused> {
        let programs = args.programs().map_err(|error| Refused::Usage(error.to_string()))?;
        RunPlan::of(&programs, args)
    }

    /// Time limit for the links that this node opens to all others, if they cannot reach it by themselves.
    pub(super) fn link_limit(&self) -> Option<Duration> {
        match &self.nodes {
            NodePlacement::Hosts(hosts) => Some(hosts.plan.start_limit),
            NodePlacement::Joined(joined) if joined.listen.is_none() => Some(LINK_LIMIT),
            NodePlacement::OwnNode | NodePlacement::Launched(_) | NodePlacement::Joined(_) => None,
        }
    }

    /// Whether nodes that cannot be reached leave the others running.
    pub(super) fn goes_on_without_nodes(&self) -> bool {
        self.starts_partly() || matches!(self.nodes, NodePlacement::Joined(_))
    }

    /// Whether processes that cannot be started leave the others running.
    pub(super) fn starts_partly(&self) -> bool {
        let is_partial = |(key, value): &(String, Vec<u8>)| key == "start" && value == b"partial";
        self.specs.iter().all(|spec| spec.info.iter().any(is_partial))
    }

    /// As [`new`](Self::new), with these programs in place of those of the arguments.
    ///
    /// # Errors
    /// The same.
    pub(super) fn of(programs: &[ProgramArgs], args: &RunArgs) -> Result<RunPlan, Refused> {
        let limits = Limits::default();
        #[cfg(feature = "rendezvous")]
        args.meeting.parent_rank()?;
        let nodes = nodes(args)?;
        let ranks =
            args.placement.rank_file.as_ref().map(|path| places(path, &nodes.hosts()?)).transpose()?;
        let default = default_count(&nodes, ranks.as_ref().map(Vec::len), programs.len());
        let count: u64 = programs.iter().map(|program| u64::from(program.n.unwrap_or(default))).sum();
        if count > u64::from(limits.group) {
            return Err(format!("{count} processes: a group has at most {}", limits.group).into());
        }
        if let Some(ranks) = ranks.as_ref().filter(|ranks| ranks.len() as u64 != count) {
            return Err(format!("{count} processes: --rank-file places {} ranks", ranks.len()).into());
        }
        if args.limit.time_limit.is_some_and(|limit| limit.duration().is_zero()) {
            return Err("--time-limit 0s leaves no time for the processes".into());
        }
        let input = match args.stdin {
            StdinKind::None => StdinSource::None,
            StdinKind::All => StdinSource::fed()?,
            StdinKind::Rank(rank) if u64::from(rank) >= count => {
                return Err(format!("--stdin {rank}: the ranks are 0 to {}", count.saturating_sub(1)).into());
            }
            StdinKind::Rank(rank) => StdinSource::new(reader_place(&nodes, rank))?,
        };
        let readers = match args.stdin {
            StdinKind::None => Readers::None,
            StdinKind::All => Readers::All,
            StdinKind::Rank(0) => Readers::First,
            StdinKind::Rank(rank) => Readers::Rank(rank),
        };
        let output = OutputPlan::new(&args.output)?;
        let far = matches!(nodes, NodePlacement::Joined(_) | NodePlacement::Hosts(_));
        let mut ranks = ranks.as_deref();
        let specs = programs.iter().map(|program| {
            let mut spec = spec(program, far)?;
            spec.count = program.n.unwrap_or(default);
            spec.info.extend(args.placement.hints());
            spec.info.extend(args.env_for.map(env_for_hint));
            spec.info.extend(args.pmix.map(PmixKind::hint));
            if let Some((own, rest)) = ranks.and_then(|ranks| ranks.split_at_checked(spec.count as usize)) {
                spec.info.push(("places".into(), own.join(" ").into_bytes()));
                ranks = Some(rest);
            }
            Ok(spec)
        });
        let mut specs = specs.collect::<Result<Vec<_>, Refused>>()?;
        let programs = if args.bcast && far { programs::numbered(&mut specs)? } else { Vec::new() };
        Ok(RunPlan {
            specs,
            on_death: match args.on_death() {
                OnDeathKind::Kill => OnDeath::Kill,
                OnDeathKind::Notify => OnDeath::Notify,
            },
            nodes,
            output,
            print_exits: args.output.print_exits,
            time_limit: args.limit.time_limit,
            timeout_signal: args.limit.timeout_signal,
            on_timeout: args.limit.on_timeout.clone(),
            pmi_port: args.pmi_port,
            programs,
            input,
            readers,
            limits,
        })
    }

    /// Number of processes.
    pub(super) fn count(&self) -> u32 {
        self.specs.iter().map(|spec| spec.count).sum()
    }

    /// Whether the processes run on other nodes, which may be on other hosts.
    pub(super) fn is_far(&self) -> bool {
        matches!(self.nodes, NodePlacement::Joined(_) | NodePlacement::Hosts(_))
    }

    /// The name of the host of a node in the list of hosts; `None` if the nodes have no such list.
    pub(super) fn listed_host(&self, id: Id) -> Option<&str> {
        let NodePlacement::Hosts(hosts) = &self.nodes else { return None };
        let host = id.checked_sub(1).and_then(|place| hosts.plan.hosts.get(place as usize))?;
        Some(&host.name)
    }

    /// Number of nodes.
    pub(super) fn node_count(&self) -> usize {
        match &self.nodes {
            NodePlacement::OwnNode => 1,
            NodePlacement::Launched(count) => *count as usize,
            NodePlacement::Joined(joined) => joined.peers.len(),
            NodePlacement::Hosts(hosts) => 1 + hosts.plan.hosts.len(),
        }
    }
}

/// Returns the number of processes of a program without `-n`. Only a single program has all ranks of a file, or all
/// slots.
fn default_count(nodes: &NodePlacement, ranks: Option<usize>, programs: usize) -> u32 {
    let count = match (nodes, ranks) {
        _ if programs != 1 => 1,
        (_, Some(ranks)) => ranks as u64,
        (NodePlacement::Hosts(hosts), None) => hosts.hosts.slots(),
        _ => 1,
    };
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// The hint for programs that find each other by variables.
fn env_for_hint(kind: EnvForKind) -> (String, Vec<u8>) {
    match kind {
        EnvForKind::Torch => ("env-for".into(), b"torch".to_vec()),
    }
}

/// Returns one process of a program in the form for nodes. `far`: other nodes are not in the folder of this process.
fn spec(program: &ProgramArgs, far: bool) -> Result<Spec, Refused> {
    let (name, args) = program.words.split_first().ok_or("no program is named")?;
    if name.is_empty() {
        return Err("the name of a program is empty".into());
    }
    if let Some(word) = program.env.iter().find(|word| word.is_empty() || word.as_bytes().starts_with(b"=")) {
        return Err(format!("--env {}: no variable is named", Shown(&word.to_string_lossy())).into());
    }
    let here = |path: &Path| {
        absolute(path).map_err(|error| Refused::File(format!("--wdir {}: {error}", path.display())))
    };
    let folder = match &program.wdir {
        Some(folder) => Some(here(folder)?),
        None if far => Some(here(Path::new("."))?),
        None => None,
    };
    let folder = folder.map(|folder| ("wdir".to_owned(), folder.into_os_string().into_vec()));
    Ok(Spec {
        count: 1,
        program: name.as_bytes().to_vec(),
        args: args.iter().map(|word| word.as_bytes().to_vec()).collect(),
        env: program.variables(|name| std::env::var_os(name)),
        info: folder.into_iter().collect(),
    })
}

/// Returns the node of the rank that reads. Rank 0 is on the first node that runs processes.
fn reader_place(nodes: &NodePlacement, rank: u32) -> ReaderPlace {
    match nodes {
        NodePlacement::OwnNode => ReaderPlace::Only,
        NodePlacement::Launched(_) if rank == 0 => ReaderPlace::Here,
        NodePlacement::Launched(_) | NodePlacement::Joined(_) | NodePlacement::Hosts(_) => {
            ReaderPlace::Elsewhere
        }
    }
}

/// Returns the hosts that the arguments name, or else those of the allocation that includes this process.
fn over(args: &RunArgs) -> Result<OverArgs, Refused> {
    let mut over = args.over.clone();
    let is_placed = args.here || args.nodes.is_some() || args.peers.is_some() || over.is_given();
    if !is_placed && takes_allocation()? {
        over.hosts = Some(HostChoice::Allocation);
    }
    Ok(over)
}

fn nodes(args: &RunArgs) -> Result<NodePlacement, Refused> {
    if args.peers.is_none() && args.trust.secret_file.is_some() && !args.meets() {
        return Err(
            "--secret-file goes with --peers FILE or --rendezvous URL: for nodes that this command starts, a secret is drawn"
                .into(),
        );
    }
    if let Some((plan, hosts)) = over(args)?.plan_of_hosts()? {
        return Ok(NodePlacement::Hosts(Box::new(HostNodes { plan, hosts })));
    }
    let (Some(path), Some(me)) = (&args.peers, args.id) else {
        return Ok(match args.nodes {
            None | Some(1) => NodePlacement::OwnNode,
            Some(count) => NodePlacement::Launched(count),
        });
    };
    let peers = read_peers(path).map_err(Refused::File)?;
    let trust = Trust::read(&args.trust, me, &peers)?;
    let listen = peers.address(me);
    if let Some(listen) = &listen {
        trust.check_listen(listen)?;
    }
    Ok(NodePlacement::Joined(Box::new(RunningNodes { me, listen, peers, trust })))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Args, Command};

    fn plan(line: &str) -> Result<RunPlan, Refused> {
        match Args::read(line.split(' ')) {
            Ok(Args { command: Command::Run(args) }) => RunPlan::new(&args),
            other => panic!("{line}: {other:?}"),
        }
    }

    /// Each of several programs got all slots.
    #[test]
    fn only_a_single_program_has_all_slots_by_default() {
        let counts =
            |line: &str| -> Vec<u32> { plan(line).unwrap().specs.iter().map(|spec| spec.count).collect() };
        assert_eq!(counts("gpc run --hosts a:2,b:2 p"), [4]);
        assert_eq!(counts("gpc run --hosts a:2,b:2 p : q"), [1, 1]);
        assert_eq!(counts("gpc run --hosts a:2,b:2 -n 3 p : q"), [3, 1]);
    }

    /// With hosts it was ignored.
    #[test]
    fn a_secret_goes_with_nodes_that_run_already() {
        for line in ["gpc run --secret-file f p", "gpc run --secret-file f --hosts a p"] {
            let why = plan(line).unwrap_err().to_string();
            assert!(
                why.starts_with("--secret-file goes with --peers FILE or --rendezvous URL"),
                "{line}: {why}"
            );
        }
    }
}
