//! Sources of the command that read lines of `mpiexec`.

#[path = "../../crates/gpc-cli/src/mpiexec/binding.rs"]
pub(crate) mod binding;
#[path = "../../crates/gpc-cli/src/mpiexec/config_file.rs"]
pub(crate) mod config_file;
#[path = "../../crates/gpc-cli/src/mpiexec/options.rs"]
pub(crate) mod options;
#[path = "../../crates/gpc-cli/src/mpiexec/translation.rs"]
pub(crate) mod translation;
