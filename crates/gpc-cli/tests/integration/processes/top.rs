//! `gpc top` in a real terminal, that of tmux, and the metrics of a node over HTTP.
#![allow(clippy::disallowed_methods, reason = "a wait has a limit")]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Output};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::processes::joined::Set;
use crate::processes::support::{Gpc, run};

/// Time for a view to appear: far more than any machine needs.
const LIMIT: Duration = Duration::from_secs(60);

/// A terminal of 100 columns and 20 rows, of a server of its own.
struct Terminal<'a>(&'a Path);

impl Terminal<'_> {
    /// `None` without tmux.
    fn run<'a>(socket: &'a Path, command: &str) -> Option<Terminal<'a>> {
        let terminal = Terminal(socket);
        let size = ["new-session", "-d", "-x", "100", "-y", "20", command];
        let output = terminal.tmux(&size)?;
        assert!(output.status.success(), "{output:?}");
        Some(terminal)
    }

    fn tmux(&self, arguments: &[&str]) -> Option<Output> {
        let mut tmux = Command::new("tmux");
        tmux.env_remove("TMUX").arg("-S").arg(self.0).args(["-f", "/dev/null"]);
        tmux.args(arguments).output().ok()
    }

    /// Waits until the screen has a text; returns the screen.
    fn until_shown(&self, text: &str) -> String {
        let until = Instant::now() + LIMIT;
        loop {
            let output = self.tmux(&["capture-pane", "-p"]).expect("tmux");
            let screen = String::from_utf8_lossy(&output.stdout).into_owned();
            if screen.contains(text) {
                return screen;
            }
            assert!(Instant::now() < until, "{text} is not on the screen:\n{screen}");
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Waits until the command has ended.
    fn until_ended(&self) {
        let until = Instant::now() + LIMIT;
        while self.tmux(&["has-session"]).expect("tmux").status.success() {
            assert!(Instant::now() < until, "the command does not end");
            thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Terminal<'_> {
    fn drop(&mut self) {
        let _ = self.tmux(&["kill-server"]);
    }
}

#[test]
fn a_terminal_shows_running_nodes() {
    let set = Set::over_unix();
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("tmux");
    let command = format!("{} top --peers {} --interval 200ms", env!("CARGO_BIN_EXE_gpc"), set.peers());
    let Some(terminal) = Terminal::run(&socket, &command) else { return set.end() };
    // No process has id 0.
    let screen = terminal.until_shown("3 of 4 nodes answer");
    assert!(screen.contains("id 0 does not answer: ") && screen.contains("calls/s"), "{screen}");
    set.call(0, "--repeat 20 --ids 1-3");
    terminal.until_shown("digest");
    set.nodes[1].process().kill(Signal::STOP);
    terminal.until_shown("id 2 does not answer: ");
    set.nodes[1].process().kill(Signal::CONT);
    terminal.until_shown("3 of 4 nodes answer");
    terminal.tmux(&["send-keys", "C-c"]);
    terminal.until_ended();
    set.end();
}

#[test]
fn without_a_terminal_each_view_is_plain_text() {
    let set = Set::over_unix();
    set.call(0, "--ids 1-3");
    let ended = run(&format!("top --peers {} --interval 200ms --count 2", set.peers()));
    assert_eq!(ended.code(), Some(0), "{}", ended.stderr);
    let text = String::from_utf8(ended.stdout.clone()).unwrap();
    assert_eq!(text.matches("3 of 4 nodes answer").count(), 2, "{text}");
    assert!(text.contains("digest") && !text.contains('\x1b') && !text.contains("gpc:metrics"), "{text}");
    set.end();
}

#[test]
fn metrics_of_a_node_are_served_for_prometheus() {
    let folder = tempfile::tempdir().unwrap();
    let peers = folder.path().join("peers");
    std::fs::write(&peers, format!("1 unix:{}\n", folder.path().join("1.sock").display())).unwrap();
    // A loopback address of this process alone.
    let pid = std::process::id().to_be_bytes();
    let address = format!("127.{}.{}.250:9100", pid[2] | 0x80, pid[3]);
    let node = Gpc::start(&format!("node --id 1 --peers {} --metrics {address}", peers.display()));
    node.until_said(&format!("gpc: the metrics of id 1 are at http://{address}/metrics"));
    node.until_said("gpc: id 1 listens at");
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.contains("gpc_links{id=\"1\"} 0\n"), "{answer}");
    node.process().kill(Signal::INT);
    assert_eq!(node.end().code(), Some(0));
    let wrong = run(&format!("node --id 1 --peers {} --metrics here", peers.display()));
    assert_eq!(wrong.code(), Some(2));
    assert!(wrong.stderr.contains("`here` is no PORT"), "{}", wrong.stderr);
}
