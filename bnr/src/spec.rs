//! What is to be started, and where.

use chained_gpc::trees::Id;

use crate::names::{GroupId, Rank};

/// Processes that are to be started with the same words.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Spec {
    /// How many.
    pub count: u32,
    /// The program: a path, or a name that is looked up in `PATH`.
    pub program: Vec<u8>,
    /// Its arguments, without its name.
    pub args: Vec<Vec<u8>>,
    /// Variables beside those of the node: name and value.
    pub env: Vec<(Vec<u8>, Vec<u8>)>,
    /// Advice: `wdir` (where it runs), `path` (directories, in front of `PATH`), `host` (which node, by its id or the name of its host), `bind` (`none` or `core`), `soft` (which numbers of processes will do, such as `2,4:8:2`: the largest one up to the count is started). Others are ignored, as MPI has it.
    pub info: Vec<(String, Vec<u8>)>,
}

/// The error of a process that was left out of a spawn, since its `soft` allows fewer: it is no failure.
pub const LEFT_OUT: i32 = -1;

/// What happens to a group when one of its processes dies abnormally.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum OnDeath {
    /// The others are killed.
    #[default]
    Kill,
    /// The others are told, if they have asked for it.
    Notify,
}

/// Processes of consecutive ranks on one node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Block {
    /// The node.
    pub node: Id,
    /// By which of the group's specs they are started.
    pub spec: u32,
    /// The rank of the first.
    pub first: Rank,
    /// How many.
    pub count: u32,
}

/// A group as its nodes know it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Layout {
    /// Its number.
    pub group: GroupId,
    /// The group of the process that has spawned it; none of those that the domain began with.
    pub parent: Option<GroupId>,
    /// The name of its own database.
    pub database: String,
    /// What its processes are.
    pub specs: Vec<Spec>,
    /// Where they are, in the order of their ranks without a gap.
    pub blocks: Vec<Block>,
    /// What one death means for the others.
    pub on_death: OnDeath,
    /// What is in its database from the beginning.
    pub preputs: Vec<(Vec<u8>, Vec<u8>)>,
    /// Whether rank 0 reads what the head is given as standard input; the others, and those of other groups, read nothing.
    pub input: bool,
}

impl Layout {
    /// How many processes it has.
    pub fn size(&self) -> u32 {
        self.blocks.iter().map(|block| block.count).sum()
    }

    /// The node of a rank.
    pub fn node_of(&self, rank: Rank) -> Option<Id> {
        self.block_of(rank).map(|block| block.node)
    }

    /// What a rank is started with.
    pub fn spec_of(&self, rank: Rank) -> Option<&Spec> {
        self.specs.get(self.block_of(rank)?.spec as usize)
    }

    fn block_of(&self, rank: Rank) -> Option<&Block> {
        let after = self.blocks.partition_point(|block| block.first <= rank);
        let block = self.blocks.get(after.checked_sub(1)?)?;
        (rank - block.first < block.count).then_some(block)
    }

    /// The nodes that it has processes on, each once, in order.
    pub fn nodes(&self) -> Vec<Id> {
        let mut nodes: Vec<Id> = self.blocks.iter().map(|block| block.node).collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes
    }

    /// The ranks on a node, in order.
    pub fn ranks_on(&self, node: Id) -> impl Iterator<Item = Rank> + '_ {
        let blocks = self.blocks.iter().filter(move |block| block.node == node);
        blocks.flat_map(|block| block.first..block.first + block.count)
    }
}
