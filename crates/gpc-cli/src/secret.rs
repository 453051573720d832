//! `gpc secret`: generates the secret of a job, or the key of a node, in a new file.

use std::path::Path;
use std::process::ExitCode;

use super::args::SecretArgs;
use super::{CommandResult, Failure, files, say, stdout};
use chained_gpc::bootstrap::{read_key, write_key, write_secret};
use chained_gpc::{PrivateKey, PublicKey, Secret};

/// Runs the sub-command.
pub(super) fn run(args: &SecretArgs) -> CommandResult {
    files::outlive_size_limit()?;
    match (&args.file, &args.key) {
        (_, Some(path)) => print_key(key(path, args.show)?),
        (Some(path), None) => {
            write_secret(path, &Secret::random()?)
                .map_err(|error| format!("cannot write the secret: {error}"))?;
            say(&format!(
                "{} has a new secret; whoever can read it can take part in the job",
                path.display()
            ));
            Ok(ExitCode::SUCCESS)
        }
        // Not reached: the arguments have one of the two.
        (None, None) => Err("name the file to write".into()),
    }
}

/// Returns the public half of the key in a file. Unless it is only shown, the key is generated first.
fn key(path: &Path, show: bool) -> Result<PublicKey, Failure> {
    if show {
        return Ok(read_key(path)?.public());
    }
    let key = PrivateKey::random()?;
    write_key(path, &key).map_err(|error| format!("cannot write the key: {error}"))?;
    Ok(key.public())
}

fn print_key(key: PublicKey) -> CommandResult {
    stdout::write(|out| writeln!(out, "{key}"))?;
    Ok(ExitCode::SUCCESS)
}
