//! Descriptions of processes to start, and their placement on nodes.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

use chained_gpc::trees::Id;

use crate::names::{GroupId, Rank};

/// Processes to start with the same program, arguments and environment.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Spec {
    /// Number of processes.
    pub count: u32,
    /// The program: a path, or a name to look up in `PATH`.
    pub program: Vec<u8>,
    /// Its arguments, without the program's name.
    pub args: Vec<Vec<u8>>,
    /// Variables added to the node's environment: name and value.
    pub env: Vec<(Vec<u8>, Vec<u8>)>,
    /// Hints. Unknown keys are ignored, as in MPI.
    ///
    /// - `wdir`: the working directory.
    /// - `path`: directories to put in front of `PATH`.
    /// - `host`: the id of a node, or a host name for all nodes of that host.
    /// - `map`: `slot` or `node`: fill one node after the other, or give each node a process in turn.
    /// - `bind`: `none`, `core`, `socket` or `numa`: what a process may use alone.
    /// - `bind-order`: `core` or `socket`: consecutive processes get consecutive cores, or cores of different sockets.
    /// - `report-bindings`: each process begins its standard error with the processors that it may use.
    /// - `places`: for each process the id of its node, and after `=` its processors, such as `1=0-3 1=4 2`.
    /// - `start`: `partial` starts the others if a process cannot be started, which then counts as ended. All programs
    ///   of a group must have it.
    /// - `private-file`: `NAME=DATA` sets a variable to the path of a file on the node, which has the data, and which
    ///   only its owner can read. It may occur several times.
    /// - `env-for`: `torch` adds `RANK`, `WORLD_SIZE`, `LOCAL_RANK` and `LOCAL_WORLD_SIZE`, and `MASTER_ADDR` and
    ///   `MASTER_PORT`: the address of rank 0's node, and a port that is free there.
    /// - `image`: number of a file that each node [was given](crate::host::Serving::give_program): it is executed, and
    ///   `program` is only the name that the process has.
    /// - `pmix`: `auto`, `always` or `never`: whether the nodes serve PMIx to the processes of the group. `auto`, the
    ///   default, serves programs that need it or may need it.
    /// - `pmix-parent`: the rank of the process that spawns it by PMIx.
    /// - `soft`: acceptable numbers of processes, such as `2,4:8:2`; the largest one up to `count` is started.
    pub info: Vec<(String, Vec<u8>)>,
}

/// The node of each process, and its processors.
pub(crate) type Places<'a> = Vec<(Id, Option<&'a str>)>;

impl Spec {
    /// The value of a hint. If it occurs several times, the last one counts.
    pub(crate) fn hint(&self, wanted: &str) -> Option<&[u8]> {
        self.info.iter().rfind(|(key, _)| key == wanted).map(|(_, value)| value.as_slice())
    }

    /// The variables of `private-file`, with the data of their files.
    pub(crate) fn private_files(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let hints = self.info.iter().filter(|(key, _)| key == PRIVATE_FILE);
        hints.filter_map(|(_, value)| {
            let at = value.iter().position(|&byte| byte == b'=').filter(|&at| at > 0)?;
            Some((&value[..at], &value[at + 1..]))
        })
    }

    /// Whether its programs are those of `torch.distributed`.
    pub(crate) fn is_for_torch(&self) -> bool {
        self.hint("env-for") == Some(b"torch")
    }

    /// The node of each process, and its processors, if the spec has `places`; `Some(None)` if they are malformed.
    pub(crate) fn places(&self) -> Option<Option<Places<'_>>> {
        let text = str::from_utf8(self.hint("places")?).unwrap_or("?");
        Some(text.split_ascii_whitespace().map(place).collect())
    }
}

/// Most private files of a group: a program needs a token and a certificate, and each process has three descriptors at
/// its node.
pub(crate) const PRIVATE_FILES_MAX: usize = 16;

/// The hint for data that are not printed.
const PRIVATE_FILE: &str = "private-file";

impl fmt::Debug for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Spec { count, program, args, env, info } = self;
        let shown = |(key, value): &(String, Vec<u8>)| match key == PRIVATE_FILE {
            true => (key.clone(), Vec::new()),
            false => (key.clone(), value.clone()),
        };
        let info: Vec<_> = info.iter().map(shown).collect();
        let mut shape = f.debug_struct("Spec");
        shape.field("count", count).field("program", program).field("args", args).field("env", env);
        shape.field("info", &info).finish()
    }
}

fn place(word: &str) -> Option<(Id, Option<&str>)> {
    match word.split_once('=') {
        Some((_, "")) => None,
        Some((node, cpus)) => Some((node.parse().ok()?, Some(cpus))),
        None => Some((word.parse().ok()?, None)),
    }
}

/// Error number of a process that `soft` left out of a spawn. It is not a failure.
pub const LEFT_OUT: i32 = -1;

/// The effect of an abnormal death on the rest of the group.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum OnDeath {
    /// The other processes are killed.
    #[default]
    Kill,
    /// The other processes receive a notice, if they have subscribed.
    Notify,
}

/// Processes of a group that read the standard input of the head. All others have an empty input.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Readers {
    /// No process.
    #[default]
    None,
    /// Rank 0.
    First,
    /// Every process: each has a copy of the whole. The slowest one sets the pace of all.
    All,
    /// The process of this rank.
    Rank(Rank),
}

impl Readers {
    /// Whether a rank reads.
    pub fn has(self, rank: Rank) -> bool {
        match self {
            Readers::None => false,
            Readers::First => rank == 0,
            Readers::All => true,
            Readers::Rank(reader) => rank == reader,
        }
    }
}

/// Whether processes need a PMIx server.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub enum PmixNeed {
    /// They do not, or must not have one.
    #[default]
    No,
    /// They run programs that may load a library which needs one.
    Maybe,
    /// A program is linked with such a library, or the user has requested the server.
    Sure,
}

/// How the nodes of a group serve PMIx to its processes.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct PmixPlan {
    /// Whether the processes must not be started without the server.
    pub required: bool,
    /// The nodes of the group.
    pub hosts: Vec<PmixHost>,
}

/// A node as PMIx knows it.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct PmixHost {
    /// The node.
    pub node: Id,
    /// The name of its host: no other node has it.
    pub name: String,
    /// One above the largest node rank of the live groups there: the node rank of the first process.
    pub before: u32,
}

/// The MPI that a program is linked with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mpi {
    /// Whether it is Open MPI; otherwise it is MPICH or a relative.
    pub open: bool,
    /// The library that shows it.
    pub library: String,
}

/// Processes of consecutive ranks on one node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Block {
    /// The node.
    pub node: Id,
    /// Index of the group's spec that starts them.
    pub spec: u32,
    /// The rank of the first process.
    pub first: Rank,
    /// Number of processes.
    pub count: u32,
}

/// The description of a group that its nodes share.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Layout {
    /// The group.
    pub group: GroupId,
    /// The group of the process that spawned it; `None` if a tool did.
    pub parent: Option<GroupId>,
    /// The name of the group's own database.
    pub database: String,
    /// Its specs.
    pub specs: Vec<Spec>,
    /// Where the processes are, in rank order without a gap.
    pub blocks: Vec<Block>,
    /// The effect of an abnormal death on the rest of the group.
    pub on_death: OnDeath,
    /// Pairs put into its database before it starts.
    pub preputs: Vec<(Vec<u8>, Vec<u8>)>,
    /// The processes that read the standard input of the head.
    pub input: Readers,
    /// How the nodes serve PMIx, if they do.
    pub pmix: Option<PmixPlan>,
}

impl Layout {
    /// Number of processes.
    pub fn size(&self) -> u32 {
        self.blocks.iter().map(|block| block.count).sum()
    }

    /// Whether the other processes run if one cannot be started.
    pub(crate) fn starts_partly(&self) -> bool {
        self.specs.iter().all(|spec| spec.hint("start") == Some(b"partial"))
    }

    /// The node of a rank.
    pub fn node_of(&self, rank: Rank) -> Option<Id> {
        self.block_of(rank).map(|block| block.node)
    }

    /// The spec that starts a rank.
    pub fn spec_of(&self, rank: Rank) -> Option<&Spec> {
        self.specs.get(self.block_of(rank)?.spec as usize)
    }

    /// The blocks that have some of these ranks.
    pub(crate) fn blocks_of(&self, ranks: Range<Rank>) -> impl Iterator<Item = &Block> {
        let from = self.blocks.partition_point(|block| block.first + block.count <= ranks.start);
        self.blocks[from..].iter().take_while(move |block| block.first < ranks.end)
    }

    fn block_of(&self, rank: Rank) -> Option<&Block> {
        let after = self.blocks.partition_point(|block| block.first <= rank);
        let block = self.blocks.get(after.checked_sub(1)?)?;
        (rank - block.first < block.count).then_some(block)
    }

    /// The processors of the ranks on a node, where the `places` of their spec list them. Reads each list once.
    pub(crate) fn cpus_on(&self, node: Id) -> BTreeMap<Rank, &str> {
        let mut cpus = BTreeMap::new();
        for (number, spec) in (0..).zip(&self.specs) {
            let Some(Some(places)) = spec.places() else { continue };
            let blocks = self.blocks.iter().filter(|block| block.spec == number);
            let ranks = blocks.flat_map(|block| {
                (block.first..block.first + block.count).map(move |rank| (block.node, rank))
            });
            let listed = ranks.zip(places).filter(|((at, _), _)| *at == node);
            cpus.extend(listed.filter_map(|((_, rank), (_, cpus))| Some((rank, cpus?))));
        }
        cpus
    }

    /// The nodes that run its processes, in ascending order.
    pub fn nodes(&self) -> Vec<Id> {
        let mut nodes: Vec<Id> = self.blocks.iter().map(|block| block.node).collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes
    }

    /// Whether a node is that of rank 0, and programs need a port there.
    pub(crate) fn needs_port_at(&self, node: Id) -> bool {
        self.node_of(0) == Some(node) && self.specs.iter().any(Spec::is_for_torch)
    }

    /// Adds the variables by which programs reach rank 0. The user may have chosen others.
    pub(crate) fn add_master(&mut self, address: &str, port: u16) {
        let pairs = [("MASTER_ADDR", address.to_owned()), ("MASTER_PORT", port.to_string())];
        for spec in self.specs.iter_mut().filter(|spec| spec.is_for_torch()) {
            for (name, value) in &pairs {
                if spec.env.iter().all(|(known, _)| known != name.as_bytes()) {
                    spec.env.push((name.as_bytes().to_vec(), value.clone().into_bytes()));
                }
            }
        }
    }

    /// Whether a process on a node reads the standard input of the head.
    pub fn reads_on(&self, node: Id) -> bool {
        self.input != Readers::None && self.ranks_on(node).any(|rank| self.input.has(rank))
    }

    /// The ranks on a node, in order.
    pub fn ranks_on(&self, node: Id) -> impl Iterator<Item = Rank> + '_ {
        let blocks = self.blocks.iter().filter(move |block| block.node == node);
        blocks.flat_map(|block| block.first..block.first + block.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(count: u32, places: &str) -> Spec {
        let info = vec![("places".to_owned(), places.as_bytes().to_vec())];
        Spec { count, info, ..Spec::default() }
    }

    /// Each process of a node read the places of all processes of the group again.
    #[test]
    fn the_processors_of_a_node_are_those_of_its_ranks() {
        let block = |node, spec, first, count| Block { node, spec, first, count };
        let layout = Layout {
            group: GroupId(1),
            parent: None,
            database: String::new(),
            specs: vec![spec(3, "4=0-1 9 4"), Spec { count: 2, ..Spec::default() }, spec(2, "9=7 4=2,3")],
            blocks: vec![
                block(4, 0, 0, 1),
                block(9, 0, 1, 1),
                block(4, 0, 2, 1),
                block(4, 1, 3, 2),
                block(9, 2, 5, 1),
                block(4, 2, 6, 1),
            ],
            on_death: OnDeath::Notify,
            preputs: Vec::new(),
            input: Readers::None,
            pmix: None,
        };
        assert_eq!(layout.cpus_on(4), [(0, "0-1"), (6, "2,3")].into());
        assert_eq!(layout.cpus_on(9), [(5, "7")].into());
        assert_eq!(layout.cpus_on(5), BTreeMap::new());
    }
}
