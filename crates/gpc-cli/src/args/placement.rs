//! Arguments of `gpc run` for the placement of processes: on which node each runs, and on which processors.

use std::path::PathBuf;

use clap::ValueEnum;

/// Placement of processes.
#[derive(Clone, PartialEq, Eq, Default, Debug, clap::Args)]
pub struct PlacementArgs {
    /// Order in which processes get slots of nodes and cores; by default slot
    #[arg(long, value_name = "ORDER", value_enum, conflicts_with = "rank_file")]
    pub map_by: Option<MapKind>,

    /// What each process may use alone, among the processors that its node may use; by default none
    #[arg(long, value_name = "TO", value_enum, conflicts_with = "rank_file")]
    pub bind: Option<BindKind>,

    /// Print the processors of each process, to standard error
    #[arg(long)]
    pub report_bindings: bool,

    /// Place each rank by a line `rank N=HOST slot=CPUS` of this file; CPUS, such as 0-3,8, are processors as the
    /// system numbers them, or absent
    #[arg(long, value_name = "FILE")]
    pub rank_file: Option<PathBuf>,
}

/// Order in which processes get their places.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum MapKind {
    /// Fill the slots of one node after the other
    Slot,
    /// Give each node a process in turn
    Node,
    /// As slot; on a node, bind to one core after the other
    Core,
    /// As slot; on a node, bind to cores of different sockets in turn
    Socket,
}

/// What a process is bound to. After the last one, the first follows again.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum BindKind {
    /// Any processor, as the system decides
    None,
    /// A core
    Core,
    /// A socket
    Socket,
    /// A NUMA node
    Numa,
}

impl PlacementArgs {
    /// Returns the hints that nodes take: names and values.
    pub fn hints(&self) -> Vec<(String, Vec<u8>)> {
        let map = (self.map_by == Some(MapKind::Node)).then_some(("map", "node"));
        let bind = match self.bind {
            None | Some(BindKind::None) => None,
            Some(BindKind::Core) => Some(("bind", "core")),
            Some(BindKind::Socket) => Some(("bind", "socket")),
            Some(BindKind::Numa) => Some(("bind", "numa")),
        };
        let order = match self.map_by {
            Some(MapKind::Core) => Some(("bind-order", "core")),
            Some(MapKind::Socket) => Some(("bind-order", "socket")),
            None | Some(MapKind::Slot | MapKind::Node) => None,
        };
        let report = self.report_bindings.then_some(("report-bindings", "1"));
        let hints = [map, bind, order, report].into_iter().flatten();
        hints.map(|(name, value)| (name.to_owned(), value.as_bytes().to_vec())).collect()
    }
}
