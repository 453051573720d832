//! What the supervisor asks of the operating system about processes. Tests replace it.

use std::time::Duration;

use rustix::event::{Timespec, poll};
use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitOptions, WaitStatus, getpgid, getpid, kill_process,
    kill_process_group, wait, waitid,
};

use super::GROUP;
use super::cgroup::Cgroup;
use super::tree::{self, Tree, Variable};
use crate::exit::Exit;

/// The next ended child.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum EndedChild {
    /// Its exit status is taken, so its process id may be reused.
    Ended(Pid, Exit),
    /// No child has ended.
    NoneYet,
    /// There are no children.
    NoChildren,
}

/// The processes of this machine. A signal that cannot be sent is dropped: the process has ended, or belongs to another
/// user.
pub(super) trait System {
    /// This process.
    fn me(&self) -> Pid;
    /// Takes the exit status of an ended child.
    fn take_ended(&mut self) -> EndedChild;
    /// The current relation of parents and children.
    fn tree(&self) -> Tree;
    /// The process group of a process.
    fn process_group(&self, pid: Pid) -> Option<Pid>;
    /// The value of [`GROUP`] in the environment of a process.
    fn tag(&self, pid: Pid) -> Variable;
    /// Whether a child of this process is in a process group, which keeps the group's id from being reused.
    fn has_child_in(&self, process_group: Pid) -> bool;
    fn signal_process_group(&mut self, process_group: Pid, signal: Signal);
    /// Signals a child, which keeps its process id until its exit status is taken.
    fn signal_child(&mut self, child: Pid, signal: Signal);
    /// Signals a descendant that was found with this parent.
    fn signal_below(&mut self, found_with: Pid, pid: Pid, signal: Signal);
    /// Number of processes that the kernel has killed for lack of memory, if it counts them.
    fn memory_kills(&self) -> Option<u64>;
    /// A control group for processes that SIGKILL does not end.
    fn make_cgroup(&mut self) -> Option<Cgroup>;
    /// Waits for a moment. The end of a child ends it.
    fn pause(&mut self, pause: Duration);
}

/// This machine.
pub(super) struct Machine;

impl System for Machine {
    fn me(&self) -> Pid {
        getpid()
    }

    fn take_ended(&mut self) -> EndedChild {
        // Terminates: signals are finite.
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) => return EndedChild::Ended(pid, exit(status)),
                Err(Errno::INTR) => {}
                Err(Errno::CHILD) => return EndedChild::NoChildren,
                Ok(None) | Err(_) => return EndedChild::NoneYet,
            }
        }
    }

    fn tree(&self) -> Tree {
        Tree::read()
    }

    fn process_group(&self, pid: Pid) -> Option<Pid> {
        getpgid(Some(pid)).ok()
    }

    fn tag(&self, pid: Pid) -> Variable {
        tree::variable(pid, GROUP)
    }

    fn has_child_in(&self, process_group: Pid) -> bool {
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pgid(Some(process_group)), look).is_ok()
    }

    fn signal_process_group(&mut self, process_group: Pid, signal: Signal) {
        let _ = kill_process_group(process_group, signal);
    }

    fn signal_child(&mut self, child: Pid, signal: Signal) {
        let _ = kill_process(child, signal);
    }

    fn signal_below(&mut self, found_with: Pid, pid: Pid, signal: Signal) {
        tree::signal_below(found_with, pid, signal);
    }

    fn memory_kills(&self) -> Option<u64> {
        gpc_launch::memory_kills()
    }

    fn make_cgroup(&mut self) -> Option<Cgroup> {
        Cgroup::make()
    }

    fn pause(&mut self, pause: Duration) {
        let pause = Timespec { tv_sec: pause.as_secs().cast_signed(), tv_nsec: pause.subsec_nanos().into() };
        let _ = poll(&mut [], Some(&pause));
    }
}

fn exit(status: WaitStatus) -> Exit {
    let small = |number: Option<i32>| number.and_then(|number| u8::try_from(number).ok());
    match (small(status.exit_status()), small(status.terminating_signal())) {
        (Some(code), _) => Exit::Code(code),
        (None, Some(signal)) => Exit::Signal(signal),
        // A process ends in no other way.
        (None, None) => Exit::Code(1),
    }
}
