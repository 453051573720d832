//! Sources of the command that read files of `gpc run`.

#[path = "../../crates/gpc-cli/src/run/rank_file.rs"]
pub(crate) mod rank_file;
