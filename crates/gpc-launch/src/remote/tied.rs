//! A process that the system ends when its parent dies. Otherwise a command that reaches a host could survive while it
//! tries to do so, since it reads nothing then.
#![allow(unsafe_code)]

use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use rustix::process::{Pid, Signal, getpid, getppid, set_parent_process_death_signal};

/// Ties the process of this command to the thread that starts it.
pub(super) fn tie(command: &mut Command) -> &mut Command {
    let parent = getpid();
    // SAFETY: the closure runs between fork and exec, where only async-signal-safe functions are allowed: it makes two
    // system calls, and allocates nothing.
    unsafe { command.pre_exec(move || be_tied_to(parent)) }
}

fn be_tied_to(parent: Pid) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::TERM))?;
    // The parent may have died before that call.
    match getppid() == Some(parent) {
        true => Ok(()),
        false => Err(io::ErrorKind::BrokenPipe.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader};
    use std::process::Stdio;

    use super::*;

    /// The parent is a thread: it ends, and the process with it.
    #[test]
    fn a_process_ends_with_its_parent() {
        let mut child = std::thread::spawn(|| {
            let mut command = Command::new("sh");
            let command = command.args(["-c", "echo runs; exec sleep 60"]).stdout(Stdio::piped());
            let mut child = tie(command).spawn().unwrap();
            let mut line = String::new();
            BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
            assert_eq!(line, "runs\n");
            child
        })
        .join()
        .unwrap();
        assert!(!child.wait().unwrap().success());
    }
}
