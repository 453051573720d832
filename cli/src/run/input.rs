//! Standard input, which is that of rank 0.

use std::io::{self, ErrorKind, IsTerminal as _, Read};
use std::thread;

use gpc_bnr::host::Feeder;
use rustix::process::getpgrp;
use rustix::termios::tcgetpgrp;

/// How much is read at a time, bytes: what a pipe holds.
const CHUNK: usize = 64 << 10;

/// Reads standard input on a thread of its own, as fast as rank 0 takes it. It ends with this process, whatever it waits for.
pub(super) fn read(feeder: Feeder) {
    let reading = thread::Builder::new().name("gpc-input".into());
    let unread = feeder.clone();
    if reading.spawn(move || feed(&feeder)).is_err() {
        // The system has no thread: what rank 0 reads is at its end.
        let _ = unread.feed(Vec::new());
    }
}

fn feed(feeder: &Feeder) {
    let stdin = io::stdin();
    // A terminal stops a process that reads it in the background, and the whole command with it.
    let background = stdin.is_terminal() && tcgetpgrp(&stdin).is_ok_and(|foreground| foreground != getpgrp());
    if background || copy(&mut stdin.lock(), feeder) {
        // The end. Nobody is left to be told that it came too late.
        let _ = feeder.feed(Vec::new());
    }
}

/// Hands on what can be read, to its end; whether somebody reads it that far.
fn copy(stdin: &mut impl Read, feeder: &Feeder) -> bool {
    let mut chunk = vec![0; CHUNK];
    loop {
        match stdin.read(&mut chunk) {
            Ok(0) => return true,
            // Rank 0 has closed its input, or has ended.
            Ok(count) if feeder.feed(chunk[..count].to_vec()).is_err() => return false,
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => {
                tracing::warn!(%error, "standard input cannot be read");
                return true;
            }
        }
    }
}
