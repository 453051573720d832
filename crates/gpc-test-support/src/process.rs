//! Commands of tests: their ends, their output as it is written, and their numbers in `/proc`.

use std::fs;
use std::io::{BufRead as _, BufReader, Read};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use crate::waiting::until;

/// Exit status, standard output and standard error.
pub type Ended = (Option<i32>, String, String);

/// Runs a command to its end.
///
/// # Panics
/// If it cannot be started, or its output is not UTF-8.
#[track_caller]
pub fn finished(mut command: Command) -> Ended {
    ended(command.output().expect("the command starts"))
}

/// The parts of an output.
///
/// # Panics
/// If they are not UTF-8.
#[track_caller]
#[must_use]
pub fn ended(output: Output) -> Ended {
    let text = |bytes| String::from_utf8(bytes).expect("the output is UTF-8");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// Bytes as text; others than UTF-8 are replaced.
#[must_use]
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Starts a process whose outputs are read by the test.
///
/// # Panics
/// If it cannot be started.
#[track_caller]
pub fn spawn_piped(command: &mut Command) -> Child {
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the command starts")
}

/// The first line of standard output, without its end, as a service prints its address. The rest is discarded.
///
/// # Panics
/// If standard output is not piped, or cannot be read.
#[track_caller]
pub fn first_line(child: &mut Child) -> String {
    let stdout = child.stdout.take().expect("standard output is piped");
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line).expect("it can be read");
    line.trim_end().to_owned()
}

/// A process that ends with its owner at the latest, so that a test that fails leaves none.
pub struct Owned(pub Child);

impl Owned {
    /// The output of the process, after its end.
    ///
    /// # Panics
    /// If its output is not UTF-8, or its pipes break.
    #[track_caller]
    pub fn ended(mut self) -> Ended {
        let (stdout, stderr) =
            (self.0.stdout.take().map(Capture::read), self.0.stderr.take().map(Capture::read));
        // Closed, as a process that reads its input to the end expects.
        drop(self.0.stdin.take());
        let mut status = None;
        until("the process ends", || {
            status = self.0.try_wait().expect("it is a child of this process");
            status.is_some()
        });
        let whole = |capture: Option<Capture>| capture.map(|capture| capture.whole()).unwrap_or_default();
        let text = |bytes| String::from_utf8(bytes).expect("the output is UTF-8");
        (status.and_then(|status| status.code()), text(whole(stdout)), text(whole(stderr)))
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        // The process may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Output of a process, read as it is written.
pub struct Capture {
    bytes: Arc<Mutex<Vec<u8>>>,
    reader: JoinHandle<()>,
}

impl Capture {
    /// Reads on a thread of its own.
    pub fn read(mut from: impl Read + Send + 'static) -> Capture {
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let into = Arc::clone(&bytes);
        let reader = thread::spawn(move || {
            let mut chunk = [0; 8192];
            while let Ok(count @ 1..) = from.read(&mut chunk) {
                into.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(&chunk[..count]);
            }
        });
        Capture { bytes, reader }
    }

    /// The output so far.
    #[must_use]
    pub fn so_far(&self) -> String {
        text(&self.bytes.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The whole output, after every writer has ended.
    ///
    /// # Panics
    /// If they do not end.
    #[track_caller]
    #[must_use]
    pub fn whole(&self) -> Vec<u8> {
        until("the output ends", || self.reader.is_finished());
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A number from `/proc/PID/status`, such as `VmRSS` in KiB. The process may be `self`.
///
/// # Panics
/// If the process has ended, or there is no such number.
#[track_caller]
#[must_use]
pub fn status_number(process: &str, name: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).expect("the process exists");
    let value = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let number = value.and_then(|value| value.split_whitespace().next()?.parse().ok());
    number.unwrap_or_else(|| panic!("no number {name} in {status}"))
}

/// Number of open descriptors of a process, which may be `self`.
///
/// # Panics
/// If the process has ended.
#[track_caller]
#[must_use]
pub fn descriptors(process: &str) -> usize {
    fs::read_dir(format!("/proc/{process}/fd")).expect("the process exists").count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn ends_and_outputs_are_read() {
        let expected = (Some(3), "out\n".to_owned(), "error\n".to_owned());
        let script = "echo out; echo error >&2; exit 3";
        assert_eq!(finished(shell(script)), expected);
        assert_eq!(Owned(spawn_piped(&mut shell(script))).ended(), expected);
        assert_eq!(first_line(&mut spawn_piped(&mut shell(script))), "out");
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn numbers_of_the_system_are_found() {
        assert!(status_number("self", "VmRSS") > 100 && status_number("self", "Threads") > 0);
        let before = descriptors("self");
        let _file = fs::File::open("/dev/null").expect("it exists");
        assert!(descriptors("self") > 2 && before > 2);
    }
}
