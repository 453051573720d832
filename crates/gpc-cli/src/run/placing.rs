//! The nodes and processors of the ranks of `--rank-file`.

use std::path::Path;

use gpc_trees::Id;

use super::rank_file;
use crate::files::{read_text, shown};
use crate::refused::Refused;

/// Most hosts that an error lists.
const NAMED_MAX: usize = 8;

/// Returns the place of each rank as nodes take it: the id of the node, and its processors, such as `1=0-3`. `known`
/// has the nodes with the names of their hosts.
///
/// # Errors
/// If the file cannot be read or is not a rank file, or names a host on which no node runs.
pub(super) fn places(path: &Path, known: &[(Id, String)]) -> Result<Vec<String>, Refused> {
    let refused = |why: String| Refused::File(format!("rank file {}: {why}", shown(path)));
    let text = read_text(path, "rank file").map_err(Refused::File)?;
    let ranks = rank_file::parse(&text).map_err(|error| refused(error.to_string()))?;
    let place = |(rank, place): (usize, rank_file::RankPlace)| {
        let id = known.iter().find(|(_, name)| *name == place.host).map(|(id, _)| id);
        let Some(id) = id else {
            let names: Vec<&str> = known.iter().take(NAMED_MAX).map(|(_, name)| name.as_str()).collect();
            let more = if known.len() > NAMED_MAX { " and others" } else { "" };
            let names = names.join(", ");
            return Err(refused(format!(
                "rank {rank} is to run on {}, and the hosts are {names}{more}: add it to --hosts",
                place.host
            )));
        };
        Ok(match place.cpus {
            Some(cpus) => format!("{id}={cpus}"),
            None => id.to_string(),
        })
    };
    ranks.into_iter().enumerate().map(place).collect()
}
