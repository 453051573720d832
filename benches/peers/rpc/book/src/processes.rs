//! The other processes of a contestant: the same program, each with an id. They end when their standard input ends.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};

use crate::Outcome;

/// Processes 1 to n-1.
pub struct Processes {
    children: Vec<Child>,
    /// Our end of each standard input: a socket, which a process may poll.
    inputs: Vec<UnixStream>,
    /// Address that each process reported, by id from 1.
    pub addresses: Vec<String>,
}

impl Processes {
    /// Starts them with `--serve ID` and these arguments, and reads a line from each: its address.
    pub fn start(n: u32, arguments: &[&str]) -> Outcome<Processes> {
        let program = std::env::current_exe()?;
        let mut processes = Processes { children: Vec::new(), inputs: Vec::new(), addresses: Vec::new() };
        for id in 1..n {
            let mut command = Command::new(&program);
            command.arg("--serve").arg(id.to_string()).args(arguments);
            let (input, theirs) = UnixStream::pair()?;
            let stdin = Stdio::from(OwnedFd::from(theirs));
            processes.children.push(command.stdin(stdin).stdout(Stdio::piped()).spawn()?);
            processes.inputs.push(input);
        }
        for child in &mut processes.children {
            let mut line = String::new();
            BufReader::new(child.stdout.as_mut().ok_or("no pipe")?).read_line(&mut line)?;
            processes.addresses.push(line.trim().to_owned());
        }
        Ok(processes)
    }

    /// Writes a text to the standard input of each.
    pub fn tell(&mut self, text: &str) -> Outcome<()> {
        for input in &mut self.inputs {
            input.write_all(text.as_bytes())?;
        }
        Ok(())
    }

    /// Process ids of all, this one first.
    pub fn numbers(&self) -> Vec<u32> {
        std::iter::once(std::process::id()).chain(self.children.iter().map(Child::id)).collect()
    }

    /// Ends the standard inputs, and waits for the processes.
    pub fn end(mut self) -> Outcome<()> {
        self.inputs.clear();
        for child in &mut self.children {
            let status = child.wait()?;
            if !status.success() {
                return Err(format!("process {} ended with {status}", child.id()).into());
            }
        }
        Ok(())
    }
}

/// In one of the other processes: prints its address, and waits for the end of standard input.
pub fn serve_until_told(address: &str) -> Outcome<()> {
    println!("{address}");
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

/// CPU time of these processes together: user and system time of all their threads.
pub(crate) fn cpu_ns(processes: &[u32]) -> u64 {
    let of_process = |process: &u32| {
        let threads = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
        threads.filter_map(|thread| of_thread(&thread.path().join("schedstat"))).sum::<u64>()
    };
    processes.iter().map(of_process).sum()
}

fn of_thread(schedstat: &std::path::Path) -> Option<u64> {
    fs::read_to_string(schedstat).ok()?.split_whitespace().next()?.parse().ok()
}
