//! Arguments of `gpc run` for the output of its processes.

use std::path::PathBuf;

use clap::ValueEnum;

/// Files and prefixes of output.
#[derive(Clone, PartialEq, Eq, Default, Debug, clap::Args)]
pub struct RunOutputArgs {
    /// Prefix each line of output with the group and rank that wrote it, such as `[g1.3] `; with =rank `[3] `
    #[arg(long, value_enum, value_name = "HOW", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "group", hide_possible_values = true)]
    pub tag_output: Option<TagKind>,

    /// Files for standard output, such as out.%r: %r is the rank, %g the group, %h the host, %p the process id, %% a
    /// percent sign. This command writes the files, and replaces old ones
    #[arg(long, value_name = "PATTERN")]
    pub out_file: Option<PathBuf>,

    /// Files for standard error, in the same way
    #[arg(long, value_name = "PATTERN")]
    pub err_file: Option<PathBuf>,

    /// Print how each process ended, to standard error
    #[arg(long)]
    pub print_exits: bool,
}

/// Prefix of a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum TagKind {
    /// Group and rank: `[g1.3] `
    Group,
    /// Rank: `[3] `, or `[g2.3] ` for a process that another one spawned
    Rank,
}
