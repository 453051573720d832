//! Arguments of `gpc completions` and `gpc man`.

use std::path::PathBuf;

use clap_complete::Shell;

/// Arguments of `gpc completions`.
#[derive(Clone, PartialEq, Eq, Debug, clap::Args)]
#[command(after_help = COMPLETIONS_EXAMPLES)]
pub struct CompletionsArgs {
    /// Shell
    #[arg(value_name = "SHELL", value_enum)]
    pub shell: Shell,
}

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  gpc completions bash > ~/.local/share/bash-completion/completions/gpc
  gpc completions zsh > ~/.zfunc/_gpc            with ~/.zfunc in fpath
  gpc completions fish > ~/.config/fish/completions/gpc.fish";

/// Arguments of `gpc man`.
#[derive(Clone, PartialEq, Eq, Debug, clap::Args)]
#[command(after_help = MAN_EXAMPLES)]
pub struct ManArgs {
    /// Folder of the pages, such as ~/.local/share/man/man1; it is made if it does not exist
    #[arg(value_name = "FOLDER")]
    pub folder: PathBuf,
}

const MAN_EXAMPLES: &str = "\
Examples:
  gpc man ~/.local/share/man/man1                then: man gpc-call";
