//! The supervisor of a host's processes: this program, which nodes start with the argument `keep`.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::UnixStream;
#[cfg(feature = "pmix")]
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use gpc_bnr::host::{PmixCommand, SupervisorCommand};
use gpc_launch::this_program;

use crate::CommandResult;

/// The argument of a supervisor.
const KEEP: &str = "keep";

/// Whether this process was started as the supervisor of a host's processes.
pub(crate) fn is_supervisor(arguments: impl IntoIterator<Item = OsString>) -> bool {
    arguments.into_iter().skip(1).eq([KEEP])
}

/// Supervises the processes of a host, until the socket at standard input is closed.
pub(crate) fn keep() -> CommandResult {
    let control = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    if !control.metadata()?.file_type().is_socket() {
        return Err(format!("`gpc {KEEP}` is started by nodes: its standard input is not a socket; use `gpc run` to run programs").into());
    }
    gpc_bnr::supervisor::run(UnixStream::from(OwnedFd::from(control)))
        .map_err(|error| format!("the keeper of this host's processes has failed: {error}"))?;
    Ok(ExitCode::SUCCESS)
}

/// The argument of the helper process of a PMIx server; the name of the node follows, and the libpmix of its programs
/// if they bring one.
#[cfg(feature = "pmix")]
const SERVE: &str = "pmix-serve";

/// Whether this process was started as the helper of a PMIx server: the name of its node, and a library.
#[cfg(feature = "pmix")]
pub(crate) fn pmix_node(arguments: impl IntoIterator<Item = OsString>) -> Option<(String, Option<PathBuf>)> {
    let mut arguments = arguments.into_iter().skip(1);
    let (word, host) = (arguments.next()?, arguments.next()?.into_string().ok()?);
    let library = arguments.next().map(PathBuf::from);
    (word == SERVE && arguments.next().is_none()).then_some((host, library))
}

/// Serves PMIx to the processes of a node, until the socket at standard input is closed.
#[cfg(feature = "pmix")]
pub(crate) fn serve_pmix(host: &str, library: Option<&Path>) -> CommandResult {
    let socket = io::stdin().as_fd().try_clone_to_owned()?;
    gpc_pmix::server::run(socket, host, library)
        .map_err(|error| format!("the PMIx server has failed: {error}"))?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the command by which nodes start their PMIx servers.
pub(super) fn pmix_command() -> io::Result<Option<PmixCommand>> {
    #[cfg(feature = "pmix")]
    return Ok(Some(PmixCommand { program: this_program()?, args: vec![SERVE.into()] }));
    #[cfg(not(feature = "pmix"))]
    Ok(None)
}

/// Returns the command by which nodes start their supervisors: this program, whose file may have been replaced since.
pub(super) fn supervisor_command() -> io::Result<SupervisorCommand> {
    Ok(SupervisorCommand { program: this_program()?, args: vec![KEEP.into()] })
}
