//! `gpc completions` and `gpc man`: documents that are made of the definitions of the arguments.

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use clap::CommandFactory as _;

use crate::args::Args;
use crate::args::documents::{CompletionsArgs, ManArgs};
use crate::{CommandResult, stdout};

/// Runs `gpc completions`.
pub(super) fn completions(args: &CompletionsArgs) -> CommandResult {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Args::command(), "gpc", &mut script);
    stdout::write(|out| out.write_all(&script))?;
    Ok(ExitCode::SUCCESS)
}

/// Runs `gpc man`.
pub(super) fn man(args: &ManArgs) -> CommandResult {
    write_pages(&args.folder)
        .map_err(|error| format!("cannot write man pages to {}: {error}", args.folder.display()))?;
    Ok(ExitCode::SUCCESS)
}

fn write_pages(folder: &Path) -> std::io::Result<()> {
    fs::create_dir_all(folder)?;
    clap_mangen::generate_to(Args::command(), folder)
}

#[cfg(test)]
mod tests {
    use clap_complete::Shell;

    use super::*;

    #[test]
    fn each_sub_command_has_a_page_and_is_completed() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("man1");
        write_pages(&folder).unwrap();
        let page = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
        assert!(page("gpc.1").contains("gpc") && page("gpc-call.1").contains("execute"));
        let mut script = Vec::new();
        clap_complete::generate(Shell::Bash, &mut Args::command(), "gpc", &mut script);
        let script = String::from_utf8(script).unwrap();
        for command in Args::command().get_subcommands().filter(|command| !command.is_hide_set()) {
            assert!(folder.join(format!("gpc-{}.1", command.get_name())).exists(), "{}", command.get_name());
            assert!(script.contains(command.get_name()), "{}", command.get_name());
        }
        // A file in the place of the folder.
        assert!(write_pages(&folder.join("gpc.1")).is_err());
    }
}
