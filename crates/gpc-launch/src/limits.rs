//! The maximum number of processes on one machine, and advice for when the system refuses to start more.

use std::io::{self, ErrorKind};

use rustix::process::{Resource, getrlimit};

use chained_gpc::runtime::control_group::full_of_processes;

/// Maximum number of processes of one launch: a machine can hold them, and a typing error does not overload it.
pub const PROCESSES_MAX: u32 = 4096;

/// Returns advice on a system error at the start of processes or threads, such as to raise `ulimit -u`, or the
/// `pids.max` of a full control group. The caller appends the text to the error's own; it is empty if there is no
/// advice.
pub fn advice(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::WouldBlock => {
            if let Some((file, most)) = full_of_processes() {
                let file = file.display();
                return format!(
                    "; this control group has at most {most} processes and threads ({file}): raise that, or start fewer"
                );
            }
            let limit = getrlimit(Resource::Nproc).current;
            let limit =
                limit.map_or("what the machine allows".into(), |limit| format!("{limit} by `ulimit -u`"));
            format!("; processes and threads of one user are limited to {limit}: raise that, or start fewer")
        }
        ErrorKind::OutOfMemory => "; there is too little memory for so many, start fewer".into(),
        _ => String::new(),
    }
}
