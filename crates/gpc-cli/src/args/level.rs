//! The arguments of `gpc level`.

use std::path::PathBuf;

use clap::Subcommand;

/// Highest level read from or written as JSON: JSON readers do not accept deeper nesting.
pub const LEVEL_MAX: u16 = 100;

/// Arguments of `gpc level`.
#[derive(Clone, PartialEq, Eq, Debug, clap::Args)]
#[command(after_help = LEVEL_EXAMPLES)]
pub struct LevelArgs {
    /// Direction.
    #[command(subcommand)]
    pub command: LevelCommand,
}

/// Directions of the conversion.
#[derive(Clone, PartialEq, Eq, Debug, Subcommand)]
pub enum LevelCommand {
    /// Read JSON, write level-n data
    Encode(LevelInput),
    /// Read level-n data, write JSON
    Decode(LevelInput),
}

/// Input, and its level.
#[derive(Clone, PartialEq, Eq, Debug, clap::Args)]
pub struct LevelInput {
    /// File to read; - is standard input
    #[arg(value_name = "FILE", default_value = "-")]
    pub file: PathBuf,

    /// Level of the data, which they do not contain. For decode, 1 by default; for encode, that of the JSON, and
    /// another level is refused
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=i64::from(LEVEL_MAX)))]
    pub depth: Option<u16>,
}

pub(super) const LEVEL_EXAMPLES: &str = "\
Level-n data are what a complete rendezvous, or a call, gives: level 1 is a
list of byte strings, one for each process; level 2 is a list of those, one
for each subjob; and so on. In JSON they are nested arrays, whose leaves are
strings, or {\"base64\": \"AQID\"} for bytes that are no plain text.

Examples:
  gpc level decode --depth 2 all.level           [[\"a:4000\",\"a:4001\"],[\"b:4000\"]]
  gpc level encode --depth 2 all.json > all.level
  gpc rendezvous wait | gpc level decode";
