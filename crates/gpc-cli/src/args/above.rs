//! Arguments for the resource above another one.

use std::str::FromStr;

use gpc_rendezvous::{Handle, RankChoice};

/// The resource above.
#[derive(Clone, PartialEq, Eq, Default, Debug, clap::Args)]
pub struct AboveArgs {
    /// Handle of the resource above; the service registers the data there when they are complete
    #[arg(long, value_name = "HANDLE", requires = "parent_rank")]
    pub parent: Option<Handle>,

    /// With --parent: rank to register with there, or `assign`. With a number, clients that wait above are notified if
    /// this unit is lost. With `assign` it has no rank there before it is complete, and its loss is not reported
    #[arg(long = "rank", id = "parent_rank", value_name = "R", requires = "parent")]
    pub rank: Option<RankWanted>,
}

/// A rank, or a request to assign one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RankWanted(pub RankChoice);

impl FromStr for RankWanted {
    type Err = String;

    fn from_str(text: &str) -> Result<RankWanted, String> {
        if ["assign", "-1"].contains(&text) {
            return Ok(RankWanted(RankChoice::Assign));
        }
        let rank = text.parse().map_err(|_| "write a number from 0 on, or `assign`".to_owned())?;
        Ok(RankWanted(RankChoice::Rank(rank)))
    }
}
