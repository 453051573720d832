//! Servers and clients of the tests.

use std::io::{BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

pub(crate) use gpc_test_support::process::{ended as told, finished};

use gpc_test_support::process::{descriptors, status_number};
use rustix::process::{Pid, Signal, kill_process};

pub(crate) const EXE: &str = env!("CARGO_BIN_EXE_gpc");

/// Enough for any machine: this time passes only if something is broken.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) const C_VERSION: u32 = 0x1000;
pub(crate) const C_NHOSTS: u32 = 0x1100;
pub(crate) const C_NPROCS: u32 = 0x1200;
pub(crate) const H_PORT: u32 = 0x2100;

/// The labels of the source document, in the order in which a client sends them.
pub(crate) const KNOWN: [u32; 14] = [
    0x1000, 0x1100, 0x1200, 0x1300, 0x1400, 0x1500, 0x1600, 0x2000, 0x2100, 0x2200, 0x2300, 0x2400, 0x3000,
    0x3100,
];

/// Returns the command, in an environment without IMPI variables.
pub(crate) fn gpc(line: &str) -> Command {
    clean(Command::new(EXE), line)
}

/// Returns another program that becomes the command.
pub(crate) fn clean(mut command: Command, line: &str) -> Command {
    command.args(line.split_whitespace()).stdin(Stdio::null());
    for name in ["IMPI_AUTH_NONE", "IMPI_AUTH_KEY", "GPC_LOG"] {
        command.env_remove(name);
    }
    command
}

/// A listening server.
pub(crate) struct Server {
    child: Child,
    pub(crate) address: SocketAddr,
    /// Rest of standard output.
    out: Option<JoinHandle<String>>,
    /// Lines of standard error as they arrive.
    lines: Receiver<String>,
    said: String,
}

impl Server {
    pub(crate) fn start(words: &str) -> Server {
        Server::of(gpc(&format!("impi {words}")))
    }

    pub(crate) fn of(mut command: Command) -> Server {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (told, lines) = channel();
        let error = BufReader::new(child.stderr.take().unwrap());
        thread::spawn(move || error.lines().map_while(Result::ok).try_for_each(|line| told.send(line)));
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut first = String::new();
        out.read_line(&mut first).unwrap();
        let said = || lines.iter().collect::<Vec<String>>().join("\n");
        let address = first.strip_suffix('\n').and_then(|address| address.parse().ok());
        let address = address.unwrap_or_else(|| panic!("`{first}` is no address: {}", said()));
        let out = thread::spawn(move || {
            let mut rest = String::new();
            out.read_to_string(&mut rest).unwrap();
            rest
        });
        Server { child, address, out: Some(out), lines, said: String::new() }
    }

    /// Waits for a line of standard error with this text.
    #[track_caller]
    pub(crate) fn until(&mut self, text: &str) -> String {
        loop {
            let line = self.lines.recv_timeout(PATIENCE);
            let line = line.unwrap_or_else(|_| panic!("`{text}` is not said:\n{}", self.said));
            self.said += &line;
            self.said += "\n";
            if line.contains(text) {
                return line;
            }
        }
    }

    pub(crate) fn client(&self) -> Client {
        Client::to(self.address)
    }

    /// Connects clients of all ranks, which have joined.
    pub(crate) fn clients(&self, count: u32) -> Vec<Client> {
        let mut clients: Vec<Client> = (0..count).map(|rank| self.joining(rank)).collect();
        clients.iter_mut().for_each(|client| assert_eq!(client.frame(), frame("IMPI", &[count])));
        clients
    }

    /// Connects a client that has sent its rank.
    pub(crate) fn joining(&self, rank: u32) -> Client {
        let mut client = self.client();
        client.auth(1, 0);
        client.send(&frame("IMPI", &[rank]));
        client
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.child.id().cast_signed()).unwrap(), signal).unwrap();
    }

    /// Returns a number from its `/proc/PID/status`, in KiB.
    pub(crate) fn kib(&self, name: &str) -> u64 {
        status_number(&self.pid().to_string(), name)
    }

    pub(crate) fn descriptors(&self) -> usize {
        descriptors(&self.pid().to_string())
    }

    /// Returns exit status and error output; the rest of standard output must be empty.
    pub(crate) fn ended(mut self) -> (Option<i32>, String) {
        let status = self.child.wait().unwrap().code();
        assert_eq!(self.out.take().unwrap().join().unwrap(), "");
        let rest: Vec<String> = self.lines.iter().collect();
        rest.iter().for_each(|line| self.said += &format!("{line}\n"));
        (status, std::mem::take(&mut self.said))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns a command of four letters with 4-byte integers.
pub(crate) fn frame(name: &str, words: &[u32]) -> Vec<u8> {
    let payload: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
    bytes_frame(name, &payload)
}

fn bytes_frame(name: &str, payload: &[u8]) -> Vec<u8> {
    [name.as_bytes(), &(payload.len() as u32).to_be_bytes(), payload].concat()
}

/// Returns a COLL command of a client.
pub(crate) fn coll(label: u32, values: &[u8]) -> Vec<u8> {
    bytes_frame("COLL", &[&label.to_be_bytes()[..], values].concat())
}

/// Returns a COLL command of the server.
pub(crate) fn answer(label: u32, mask: u32, values: &[u8]) -> Vec<u8> {
    bytes_frame("COLL", &[&label.to_be_bytes()[..], &mask.to_be_bytes(), values].concat())
}

/// A client in plain sockets.
pub(crate) struct Client(pub(crate) TcpStream);

impl Client {
    pub(crate) fn to(address: SocketAddr) -> Client {
        let stream = TcpStream::connect_timeout(&address, PATIENCE).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Client(stream)
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).unwrap();
    }

    pub(crate) fn bytes(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        self.0.read_exact(&mut bytes).unwrap();
        bytes
    }

    /// Reads a complete command, with its head.
    pub(crate) fn frame(&mut self) -> Vec<u8> {
        let mut head = self.bytes(8);
        let len = u32::from_be_bytes(*head.last_chunk().unwrap());
        head.extend(self.bytes(len as usize));
        head
    }

    /// Sends AUTH with this mask, and checks the method that the server selects.
    pub(crate) fn auth(&mut self, mask: u32, which: u32) {
        self.send(&frame("AUTH", &[mask]));
        assert_eq!(self.bytes(8), [which.to_be_bytes(), [0; 4]].concat());
    }

    /// Reads all broadcasts until DONE, and sorts them by label, since their order follows that of the senders.
    pub(crate) fn until_done(&mut self) -> Vec<Vec<u8>> {
        let frames = std::iter::repeat_with(|| self.frame());
        let mut frames: Vec<Vec<u8>> = frames.take_while(|found| *found != frame("DONE", &[])).collect();
        frames.sort_by_key(|frame| frame[8..12].to_vec());
        frames
    }

    pub(crate) fn done(&mut self) {
        self.send(&frame("DONE", &[]));
    }

    pub(crate) fn fini(&mut self) {
        self.send(&frame("FINI", &[]));
    }

    /// Waits until the server closes the connection without further bytes.
    pub(crate) fn closed(&mut self) {
        assert_eq!(String::from_utf8_lossy(&self.rest()), "");
    }

    /// Waits until the server closes the connection, possibly by a reset; returns the bytes before.
    pub(crate) fn rest(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        match self.0.read_to_end(&mut rest) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
            Err(error) => panic!("the server does not close the connection: {error}"),
        }
        rest
    }
}

/// Returns the broadcasts of a session in which these labels were sent, by label. Other known labels are broadcast as
/// sent by no client.
pub(crate) fn all(sent: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let has = |label: &u32| sent.iter().any(|frame| frame[8..12] == label.to_be_bytes());
    let nobodys = KNOWN.into_iter().filter(|label| !has(label)).map(|label| answer(label, 0, &[]));
    let mut frames: Vec<Vec<u8>> = sent.iter().cloned().chain(nobodys).collect();
    frames.sort_by_key(|frame| frame[8..12].to_vec());
    frames
}

/// Performs the rest of a session for clients without values.
pub(crate) fn leave(clients: &mut [Client]) {
    clients.iter_mut().for_each(Client::done);
    for client in clients {
        while client.frame() != frame("DONE", &[]) {}
        client.fini();
    }
}
