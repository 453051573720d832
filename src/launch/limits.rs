//! How many processes one machine is asked for, and what to do where it does not give them.

use std::io::{self, ErrorKind};

use rustix::process::{Resource, getrlimit};

use crate::runtime::control_group::full_of_processes;

/// Most processes of one launch: what one machine can be expected to hold, and a typing error does not take it down.
pub const PROCESSES_MAX: u32 = 4096;

/// What a user can do about an error of the system when processes or threads are started, such as raising `ulimit -u`, or the `pids.max` of its control group where that is what is full: words to append to the error's own, empty where nothing is known.
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
