//! Large pages for large worlds. A million ids lie on hundreds of thousands of pages of 4 KiB, and to find where those are takes a tenth of the time of a run. glibc asks the system for larger ones only if its environment says so when the process begins.

use std::os::unix::process::CommandExt;
use std::process::Command;

/// The variable that glibc reads; another allocator does not.
const TUNABLES: &str = "GLIBC_TUNABLES";

/// Has glibc ask for large pages where the system leaves that to programs.
const LARGE_PAGES: &str = "glibc.malloc.hugetlb=1";

/// Worlds of fewer ids fit on the pages that a processor knows by heart, and are over before it matters.
const LARGE: u32 = 50_000;

/// Executes this command anew with large pages, once, where it is to make a large world and the user has not tuned the allocator. Where that fails it goes on with the pages that it has.
pub(super) fn execute_with(n: u32) {
    if n < LARGE || std::env::var_os(TUNABLES).is_some() {
        return;
    }
    let mut arguments = std::env::args_os();
    let (Ok(program), Some(name)) = (std::env::current_exe(), arguments.next()) else { return };
    let why = Command::new(program).arg0(name).args(arguments).env(TUNABLES, LARGE_PAGES).exec();
    tracing::debug!(%why, "no large pages");
}
