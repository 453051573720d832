//! Variables that Open MPI needs in addition to those of PMIx.

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use super::orders::Variables;

/// Open MPI 4 uses a PMIx server that is not its own only under launchers that it knows; otherwise each process is a
/// singleton. This variable is that of IBM's launcher JSM, which Open MPI knows as a plain PMIx server. Its value is
/// not read.
const KNOWN_LAUNCHER: (&str, &str) = ("JSM_JSRUN_PORT", "0");

/// The folder of shared memory, of messages and of windows, in Open MPI 4 and 5. The names of segments consist of host,
/// job and local rank, and so are not unique if a host has several nodes. Segments of killed processes go with the
/// folder.
const SEGMENT_FOLDER: [&str; 4] = [
    "OMPI_MCA_btl_vader_backing_directory",
    "OMPI_MCA_btl_sm_backing_directory",
    "OMPI_MCA_osc_sm_backing_directory",
    "OMPI_MCA_osc_rdma_backing_directory",
];

/// The variables of each process of a job. Those that begin with `OMPI_MCA_` are defaults.
pub(super) fn variables(segments: &Path) -> Variables {
    let known = (KNOWN_LAUNCHER.0.into(), KNOWN_LAUNCHER.1.into());
    let segments = SEGMENT_FOLDER.map(|name| (name.into(), segments.as_os_str().as_bytes().to_vec()));
    std::iter::once(known).chain(segments).collect()
}

/// Whether a variable is of [`variables`], so that a job that the process spawns must not have it.
pub(super) fn is_of_job(name: &[u8]) -> bool {
    name == KNOWN_LAUNCHER.0.as_bytes() || SEGMENT_FOLDER.iter().any(|folder| folder.as_bytes() == name)
}
