//! Plan of a measurement: checks combinations of arguments before any process starts.
//!
//! Every combination of the lists is a [`Row`]. Rows that need the same processes share a [`SetPlan`]; sets whose
//! processes can run at the same time form a group.

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use gpc_trees::{Hosts, Id, IdList, TreeName};

use super::earlier::Earlier;
use super::key::{CallSettings, Key};
use crate::args::{BenchArgs, RootKind};
use crate::builtin::{FILL, FILL_MAX};
use crate::files::read_peers;
use crate::plan::{func_named, hosts_of, hosts_of_peers};
use crate::refused::Refused;
use crate::started::Started;
use crate::tree_choice::{CallTreeName, Choice};
use crate::trust::Trust;
use crate::wait::WaitName;
use chained_gpc::runtime::{Call, CallTree, Functions, LinkKind, Peers};
use chained_gpc::wire::frame::HEADER_MAX;
use gpc_launch::remote::RemotePlan;

/// Maximum number of rows: with a second for each turn, five repetitions of all rows take most of an hour.
const ROWS_MAX: usize = 500;

/// Maximum number of processes that run at the same time, unless one row alone needs more: each has 5 MiB of memory.
const TOGETHER_MAX: u32 = 1100;

/// Length of a turn without a bound in the arguments.
const TURN: Duration = Duration::from_millis(200);

/// Maximum memory for the requests and replies in flight of a row at the root, in bytes.
const FLYING_MAX: u64 = 4 << 30;

/// Everything to be measured.
#[derive(Debug)]
pub(super) struct BenchPlan {
    pub(super) what: CallSettings,
    pub(super) rows: Vec<Row>,
    pub(super) sets: Vec<SetPlan>,
    /// Sets that run at the same time, as indices into `sets`.
    pub(super) groups: Vec<Vec<usize>>,
    pub(super) repeat: u32,
    pub(super) bound: Bound,
    pub(super) seed: u64,
    /// Results to compare with.
    pub(super) earlier: Option<Earlier>,
}

/// A kind of call to be measured.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) key: Key,
    /// Name of the function.
    pub(super) func: String,
    pub(super) call: Call,
    pub(super) ids: IdList,
    pub(super) in_flight: u32,
    /// Reply of every id, if it is known.
    pub(super) reply: Option<Bytes>,
    /// The processes for the row, as an index into the sets of the plan.
    pub(super) set: usize,
}

/// Processes for calls.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct SetPlan {
    pub(super) nodes: Nodes,
    pub(super) wait: WaitName,
    pub(super) root: RootKind,
}

/// Where the processes come from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Nodes {
    /// Ids 1 to n-1 are started; this process is id 0.
    Start { n: u32, link: LinkKind },
    /// A launcher has started them; this process is id 0.
    Started,
    /// They are started on other hosts; this process is id 0.
    Hosts { plan: Box<RemotePlan>, link: LinkKind },
    /// They are already running.
    Join { peers: Peers, root: Id, patience: Option<Duration>, trust: Trust },
}

/// Maximum calls and time of a turn; at least one is given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Bound {
    pub(super) rounds: Option<u32>,
    pub(super) time: Option<Duration>,
}

impl SetPlan {
    fn processes(&self) -> u32 {
        match &self.nodes {
            Nodes::Start { n, .. } => n - 1,
            // On other hosts, or not started here.
            Nodes::Hosts { .. } | Nodes::Join { .. } | Nodes::Started => 0,
        }
    }
}

impl BenchPlan {
    /// Checks the arguments together, and reads the files that they name. `started` has the processes that a launcher
    /// started with this one.
    ///
    /// # Errors
    /// Every fault that can be found before anything is started, as a message for the user.
    pub(super) fn new(
        args: &BenchArgs,
        functions: &Functions,
        started: Option<&Started>,
    ) -> Result<BenchPlan, Refused> {
        if args.time.is_some_and(|time| time.duration().is_zero()) {
            return Err("--time 0s leaves no time for a turn".into());
        }
        if args.time_limit.is_some_and(|limit| limit.duration().is_zero()) {
            return Err("--time-limit 0s leaves no time for a call".into());
        }
        let time = args.time.map(Duration::from);
        let time = if args.rounds.is_none() { time.or(Some(TURN)) } else { time };
        let bound = Bound { rounds: args.rounds, time };
        let what = what(args)?;
        let source = Source::new(args, started)?;
        let (rows, sets) = rows(args, &what, &source, functions)?;
        for path in [&args.save, &args.svg].into_iter().flatten() {
            check_folder(path).map_err(Refused::File)?;
        }
        if let Some(path) = args.save.as_deref().filter(|path| path.exists()) {
            Earlier::read(path).map_err(|fault| {
                Refused::File(format!("{fault}\n--save would replace it: choose another file, or remove it"))
            })?;
        }
        let earlier = args.compare.as_deref().map(|path| Earlier::matching(path, &what)).transpose();
        let earlier = earlier.map_err(Refused::File)?;
        let groups = groups(&sets);
        Ok(BenchPlan { what, rows, sets, groups, repeat: args.repeat, bound, seed: args.seed, earlier })
    }

    /// Returns the rows whose processes are in a group, as indices into `rows`.
    pub(super) fn rows_of(&self, group: &[usize]) -> Vec<usize> {
        (0..self.rows.len()).filter(|&row| group.contains(&self.rows[row].set)).collect()
    }

    /// Returns the number of processes of a group, without this one.
    pub(super) fn processes_of(&self, group: &[usize]) -> u32 {
        group.iter().map(|&set| self.sets[set].processes()).sum()
    }
}

fn what(args: &BenchArgs) -> Result<CallSettings, Refused> {
    let (func, header) = match args.reply_bytes {
        None => (args.func.clone().unwrap_or_else(|| "echo".into()), args.header.clone()),
        Some(bytes) if bytes.0 > FILL_MAX => {
            return Err(Refused::Usage(format!(
                "--reply-bytes {bytes} is too much: at most {} MiB are possible",
                FILL_MAX >> 20
            )));
        }
        Some(bytes) => ("fill".into(), bytes.0.to_string()),
    };
    if header.len() > HEADER_MAX {
        let len = header.len();
        return Err(format!("--header has {len} bytes, at most {HEADER_MAX} are possible").into());
    }
    Ok(CallSettings { func, header, forward_first: args.forward_first })
}

/// The ids for each size of a call.
struct Source<'a> {
    /// Ids that already run, the root first, and their addresses; `None` if they are to be started.
    joined: Option<(IdList, Peers)>,
    /// Processes to start on other hosts.
    over: Option<RemotePlan>,
    /// What this process proves to running nodes.
    trust: Trust,
    /// Processes that a launcher started.
    started: Option<&'a Started>,
    root: Id,
    /// Time limit for running nodes to come up.
    patience: Option<Duration>,
    sizes: Vec<u32>,
}

impl<'a> Source<'a> {
    fn new(args: &BenchArgs, started: Option<&'a Started>) -> Result<Source<'a>, Refused> {
        if let Some(plan) = args.over.plan()? {
            return Source::of_hosts(args, plan);
        }
        let (path, root) = match (&args.peers, args.id) {
            (Some(path), Some(root)) => (path, root),
            (Some(_), None) => return Err("--peers needs the id of this process: add --id I".into()),
            (None, _) if args.n.is_empty() => {
                let Some(started) = started else {
                    return Err("say how many ids with -n LIST, or join running nodes with --peers FILE --id I, or have a launcher start this program, as in `mpiexec -n 8 gpc bench`".into());
                };
                check_one_root(args, "of those that a launcher has started")?;
                let sizes = vec![started.ids().len()];
                let trust = Trust::default();
                return Ok(Source {
                    joined: None,
                    over: None,
                    trust,
                    started: Some(started),
                    root: 0,
                    patience: None,
                    sizes,
                });
            }
            (None, _) if args.wait_for_peers.is_some() => {
                return Err(
                    "--wait-for-peers goes with --peers: those that -n starts are there at once".into()
                );
            }
            (None, _) => {
                let (sizes, trust) = (distinct(&args.n), Trust::default());
                return Ok(Source {
                    joined: None,
                    over: None,
                    trust,
                    started: None,
                    root: 0,
                    patience: None,
                    sizes,
                });
            }
        };
        check_one_root(args, "with --peers")?;
        let peers = read_peers(path).map_err(Refused::File)?;
        let trust = Trust::read(&args.trust, root, &peers)?;
        let others = peers.ids().filter(|&id| id != root);
        let all =
            IdList::from_ids(std::iter::once(root).chain(others)).expect("a peers file has each id once");
        let sizes = if args.n.is_empty() { vec![all.len()] } else { distinct(&args.n) };
        match sizes.iter().find(|&&n| n > all.len()) {
            Some(n) => Err(Refused::Usage(format!(
                "-n {n} is more than the {} ids of {} and this process",
                all.len(),
                path.display()
            ))),
            None => Ok(Source {
                joined: Some((all, peers)),
                over: None,
                trust,
                started: None,
                root,
                patience: args.wait_for_peers.map(Duration::from),
                sizes,
            }),
        }
    }

    fn of_hosts(args: &BenchArgs, plan: RemotePlan) -> Result<Source<'a>, Refused> {
        let all = 1 + plan.processes();
        let sizes = if args.n.is_empty() { vec![all] } else { distinct(&args.n) };
        match sizes.iter().find(|&&n| n > all) {
            Some(n) => Err(format!("-n {n} is more than the {all} ids of the hosts and this process").into()),
            None => {
                let trust = Trust::default();
                Ok(Source {
                    joined: None,
                    over: Some(plan),
                    trust,
                    started: None,
                    root: 0,
                    patience: None,
                    sizes,
                })
            }
        }
    }

    fn ids(&self, n: u32) -> IdList {
        match &self.joined {
            None => IdList::range(0..n),
            Some((all, _)) => all.slice(gpc_trees::Group { start: 0, len: n }),
        }
    }

    /// The hosts of the ids, where they are known.
    fn hosts(&self) -> Option<Hosts> {
        match (&self.over, &self.joined) {
            (Some(plan), _) => Some(hosts_of(plan)),
            (None, Some((all, peers))) => Some(hosts_of_peers(peers, all)),
            (None, None) => self.started.map(|started| started.hosts.clone()),
        }
    }

    fn nodes(&self, n: u32, link: LinkKind) -> Nodes {
        match &self.joined {
            None if self.started.is_some() => Nodes::Started,
            None => match &self.over {
                Some(plan) => Nodes::Hosts { plan: Box::new(plan.clone()), link },
                None => Nodes::Start { n, link },
            },
            Some((_, peers)) => {
                let (peers, trust) = (peers.clone(), self.trust.clone());
                Nodes::Join { peers, root: self.root, patience: self.patience, trust }
            }
        }
    }
}

/// Rejects several values for the root: running processes have one root, with its own settings.
fn check_one_root(args: &BenchArgs, who: &str) -> Result<(), Refused> {
    let waits = distinct(&args.wait.iter().map(|wait| wait.0).collect::<Vec<_>>());
    match waits.len() > 1 || distinct(&args.root).len() > 1 || distinct(&args.link).len() > 1 {
        true => {
            Err(format!("{who} there is one root, which has one --wait, one --link and one --root").into())
        }
        false => Ok(()),
    }
}

/// Returns all combinations, in the order of the lists, and the processes for them.
fn rows(
    args: &BenchArgs,
    what: &CallSettings,
    source: &Source<'_>,
    functions: &Functions,
) -> Result<(Vec<Row>, Vec<SetPlan>), Refused> {
    // Each axis multiplies the number of combinations; a list is at most as long as a command line.
    let trees = match distinct(&args.tree) {
        trees if trees.is_empty() => {
            vec![Started::tree_of(source.started, CallTreeName::Named(TreeName::Binomial))]
        }
        trees => trees,
    };
    let (bytes, in_flight) = (distinct(&args.bytes), distinct(&args.in_flight));
    let (links, waits) = (distinct(&args.link), distinct(&args.wait));
    let roots = match source.started {
        // The node of a member has its own thread.
        Some(_) => vec![RootKind::Thread],
        None => distinct(&args.root),
    };
    let lengths = [
        source.sizes.len(),
        trees.len(),
        bytes.len(),
        in_flight.len(),
        links.len(),
        waits.len(),
        roots.len(),
    ];
    let count = lengths.iter().fold(1usize, |product, &length| product.saturating_mul(length));
    if count > ROWS_MAX {
        return Err(Refused::Usage(format!(
            "the lists have {count} combinations, at most {ROWS_MAX} are measured: shorten one"
        )));
    }
    let hosts = source.hosts();
    let mut sets: Vec<SetPlan> = Vec::new();
    let mut made = Vec::with_capacity(count);
    for place in 0..count {
        let mut rest = place;
        // The last axis varies fastest.
        let mut pick = [0; 7];
        for axis in (0..7).rev() {
            pick[axis] = rest % lengths[axis];
            rest /= lengths[axis];
        }
        let [n, tree, bytes_at, flying, link, wait, root] = pick;
        let (n, link, wait, root) = (source.sizes[n], links[link], waits[wait], roots[root]);
        let set = SetPlan { nodes: source.nodes(n, link), wait, root };
        let set_place = sets.iter().position(|other| *other == set).unwrap_or(sets.len());
        if set_place == sets.len() {
            sets.push(set);
        }
        let ids = source.ids(n);
        let tree_name = trees[tree].resolve(&choice(&ids, &hosts, bytes[bytes_at].0, what));
        let key = Key {
            n,
            tree: shown(&trees[tree], &tree_name),
            bytes: bytes[bytes_at].0,
            reply_bytes: reply_bytes(args, what, bytes[bytes_at].0),
            in_flight: in_flight[flying],
            link: if source.joined.is_some() { "joined".into() } else { link.to_string() },
            wait: wait.to_string(),
            root: name_of(&root),
        };
        let (tree, _, _) = crate::plan::tree(&tree_name, &ids, hosts.as_ref(), None)?;
        made.push(row(args, what, key, tree, ids, set_place, functions)?);
    }
    Ok((made, sets))
}

/// What the tree of a row is chosen for.
fn choice<'a>(ids: &'a IdList, hosts: &'a Option<Hosts>, bytes: u32, what: &CallSettings) -> Choice<'a> {
    Choice { ids, hosts: hosts.as_ref(), bytes: bytes.into(), forward_first: what.forward_first }
}

/// Returns the name of a row's tree: if it was chosen, with the tree that it is.
fn shown(asked: &CallTreeName, tree: &TreeName) -> String {
    match asked {
        CallTreeName::Auto => format!("auto:{tree}"),
        CallTreeName::Named(_) => tree.to_string(),
    }
}

/// Returns the length of the reply of each id, if it is known in advance.
fn reply_bytes(args: &BenchArgs, what: &CallSettings, bytes: u32) -> Option<u32> {
    match args.reply_bytes {
        Some(reply) => Some(reply.0),
        None => (what.func == "echo").then_some(bytes),
    }
}

fn row(
    args: &BenchArgs,
    what: &CallSettings,
    key: Key,
    tree: CallTree,
    ids: IdList,
    set: usize,
    functions: &Functions,
) -> Result<Row, Refused> {
    let func = func_named(&what.func, functions)?;
    let reply = u64::from(key.reply_bytes.unwrap_or(0));
    let flying = u64::from(key.in_flight) * (u64::from(key.bytes) + u64::from(key.n) * reply);
    if flying > FLYING_MAX {
        return Err(Refused::Usage(format!(
            "{} calls in flight over {} ids with {} bytes each way need {} MiB at the root, at most {} are taken: make one of them less",
            key.in_flight,
            key.n,
            key.bytes.max(key.reply_bytes.unwrap_or(0)),
            flying >> 20,
            FLYING_MAX >> 20
        )));
    }
    let filled = |bytes: u32| Bytes::from(vec![FILL; bytes as usize]);
    let data = filled(key.bytes);
    let reply = key.reply_bytes.map(|reply| if reply == key.bytes { data.clone() } else { filled(reply) });
    let call = Call::new(func).ids(ids.clone()).tree(tree).header(what.header.clone()).data(data);
    let call = args.time_limit.map(Duration::from).into_iter().fold(call, Call::limit);
    let call = if what.forward_first { call.forward_first() } else { call };
    Ok(Row { in_flight: key.in_flight, key, func: what.func.clone(), call, ids, reply, set })
}

/// Groups the sets in their order, as many together as their processes allow.
fn groups(sets: &[SetPlan]) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    let mut together = 0;
    for (place, set) in sets.iter().enumerate() {
        match groups.last_mut() {
            Some(group) if together + set.processes() <= TOGETHER_MAX => {
                group.push(place);
                together += set.processes();
            }
            _ => {
                groups.push(vec![place]);
                together = set.processes();
            }
        }
    }
    groups
}

/// Returns the distinct values of a list, in the order of their first occurrence.
fn distinct<T: Clone + PartialEq>(list: &[T]) -> Vec<T> {
    let mut distinct: Vec<T> = Vec::new();
    for value in list {
        if !distinct.contains(value) {
            distinct.push(value.clone());
        }
    }
    distinct
}

/// Returns the name of an argument's value on the command line.
fn name_of(value: &impl clap::ValueEnum) -> String {
    value.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

/// Rejects a file that cannot be written, before anything is measured.
fn check_folder(path: &Path) -> Result<(), String> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    match folder.is_some_and(|folder| !folder.is_dir()) {
        true => Err(format!("cannot write {}: its folder is not there", path.display())),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests;
