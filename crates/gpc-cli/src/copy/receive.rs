//! The functions of a host: take a piece of a file, read a piece of a file.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use chained_gpc::runtime::{FunctionResult, Functions, FunctionsError, Streaming};
use chained_gpc::{Access, Clock, Id, Reply, Request};
use ring::digest::{Context, SHA256};

use super::extent::Extent;
use super::incoming::{Incoming, target};
use super::piece::{Destination, Digest, Piece, digest};
use super::program::{GiveProgram, Program};
use super::read::{ReadReply, ReadRequest};

/// Name of the function that takes a piece.
pub(super) const TAKE: &str = "copy-take";

/// Name of the function that reads a piece.
pub(super) const READ: &str = "copy-read";

/// Time after which a file of which no piece comes is given up: its sender has ended. A piece itself takes as long as
/// it takes.
const IDLE_MAX: Duration = Duration::from_secs(600);

/// Files that a host knows at once. A command copies one file after the other and has few pieces under way; several
/// commands may copy to a host.
const FILES_MAX: usize = 64;

type Result<T> = std::result::Result<T, String>;

/// Registers the functions. They write and read files as the user of the process may: only for processes that run
/// programs for their callers, too. `give` gives programs to the jobs that this process has a part in.
///
/// # Errors
/// If one of the names is taken.
pub(crate) fn register(functions: &Functions, give: GiveProgram) -> std::result::Result<(), FunctionsError> {
    let functions = functions.access(Access::Proved);
    let files = Arc::new(Files::new(Clock::system(), give));
    functions.streaming(TAKE, move |request| Ok(Taking::begin(&files, request.root(), request.header())?))?;
    functions.func(READ, |request, reply| {
        let asked = ReadRequest::parse(request.header()).ok_or("this is no request to read a file")?;
        let (found, bytes) = read(&asked)?;
        (reply.header, reply.data) = (found.header(), bytes);
        Ok(())
    })?;
    Ok(())
}

/// The files that come in.
struct Files {
    known: Mutex<VecDeque<(u64, State)>>,
    clock: Clock,
    give: GiveProgram,
}

/// State of a file.
enum State {
    /// With the time of its last piece.
    Open(Arc<Mutex<Arriving>>, Duration),
    /// In its place, or given up: later pieces of it are refused.
    Over,
}

/// An incoming file, and which of its bytes have arrived.
struct Arriving {
    incoming: Option<Arrival>,
    extent: Extent,
    total: u64,
}

/// What the bytes go to.
enum Arrival {
    File(Incoming),
    Program(Program),
}

impl Arrival {
    fn write(&self, bytes: &[u8], offset: u64) -> Result<()> {
        match self {
            Arrival::File(file) => file.write(bytes, offset).map_err(cannot("write", file.target())),
            Arrival::Program(program) => program.write(bytes, offset),
        }
    }

    fn put(self) -> Result<()> {
        match self {
            Arrival::File(file) => {
                let target = file.target().to_owned();
                file.put().map_err(cannot("replace", &target))
            }
            Arrival::Program(program) => program.put(),
        }
    }
}

impl Arriving {
    /// Whether it is a program whose job has ended.
    fn is_gone(&self) -> bool {
        matches!(&self.incoming, Some(Arrival::Program(program)) if program.is_gone())
    }
}

impl Files {
    fn new(clock: Clock, give: GiveProgram) -> Files {
        Files { known: Mutex::default(), clock, give }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<(u64, State)>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The file of a piece, which the first piece creates.
    fn of(&self, sender: Id, piece: &Piece<'_>) -> Result<Arc<Mutex<Arriving>>> {
        let (mut files, now) = (self.lock(), self.clock.now());
        // A file that is written has a second user.
        files.retain(|(_, state)| match state {
            State::Open(file, _) if Arc::strong_count(file) > 1 => true,
            State::Open(file, last) => now < *last + IDLE_MAX && !opened(file).is_gone(),
            State::Over => true,
        });
        match files.iter_mut().find(|(token, _)| *token == piece.token) {
            Some((_, State::Open(file, last))) => {
                *last = now;
                return Ok(Arc::clone(file));
            }
            Some((_, State::Over)) => return Err("the file is complete, or was given up before".into()),
            None => {}
        }
        if files.len() >= FILES_MAX {
            let over = files.iter().position(|(_, state)| matches!(state, State::Over));
            files.remove(over.ok_or_else(|| format!("{FILES_MAX} files come in at once: try again later"))?);
        }
        let incoming = self.arrival(sender, piece)?;
        let file = Arriving { incoming: Some(incoming), extent: Extent::default(), total: piece.total };
        let file = Arc::new(Mutex::new(file));
        files.push_back((piece.token, State::Open(Arc::clone(&file), now)));
        Ok(file)
    }

    /// Creates what the bytes of a file go to.
    fn arrival(&self, sender: Id, piece: &Piece<'_>) -> Result<Arrival> {
        let Piece { token, total, mode, name, to, .. } = *piece;
        let into = match piece.destination {
            Destination::Path => false,
            Destination::Folder => true,
            Destination::Job => {
                let job = to.to_str().ok_or("the name of a job is text")?;
                return Program::create((job, sender), token, total, &self.give).map(Arrival::Program);
            }
        };
        let target = target(to, name, into)?;
        Incoming::create(&target, mode, token).map(Arrival::File).map_err(cannot("write", &target))
    }

    fn end(&self, token: u64) {
        if let Some((_, state)) = self.lock().iter_mut().find(|(known, _)| *known == token) {
            *state = State::Over;
        }
    }
}

fn opened(file: &Mutex<Arriving>) -> MutexGuard<'_, Arriving> {
    file.lock().unwrap_or_else(PoisonError::into_inner)
}

fn cannot(what: &str, path: &Path) -> impl FnOnce(io::Error) -> String {
    move |error| format!("cannot {what} {}: {error}", path.display())
}

/// A piece that comes in. Unless it has ended well, its file is given up when it is dropped.
struct Taking {
    files: Arc<Files>,
    file: Arc<Mutex<Arriving>>,
    token: u64,
    offset: u64,
    /// Number of bytes so far.
    length: u64,
    digest: Digest,
    sha: Context,
    is_good: bool,
}

impl Taking {
    fn begin(files: &Arc<Files>, sender: Id, header: &[u8]) -> Result<Taking> {
        let piece = Piece::parse(header).ok_or("this is no piece of a file")?;
        let file = files.of(sender, &piece)?;
        let (files, sha) = (Arc::clone(files), Context::new(&SHA256));
        let Piece { token, offset, digest, .. } = piece;
        Ok(Taking { files, file, token, offset, length: 0, digest, sha, is_good: false })
    }

    fn add(&mut self, bytes: &[u8]) -> Result<()> {
        let at = self.offset.saturating_add(self.length);
        let file = opened(&self.file);
        let incoming = file.incoming.as_ref().ok_or("the file is complete")?;
        if at.saturating_add(bytes.len() as u64) > file.total {
            return Err(format!("a piece exceeds the {} bytes of its file", file.total));
        }
        incoming.write(bytes, at)?;
        drop(file);
        self.sha.update(bytes);
        self.length += bytes.len() as u64;
        Ok(())
    }

    fn end(&mut self) -> Result<()> {
        let came = self.sha.clone().finish();
        if came.as_ref() != self.digest {
            return Err("the bytes that came are not those that were sent: their SHA-256 differs".into());
        }
        let mut file = opened(&self.file);
        if !file.extent.add(self.offset, self.offset.saturating_add(self.length)) {
            return Err("a piece came twice".into());
        }
        let is_whole = file.extent.is_whole(file.total);
        if let Some(incoming) = file.incoming.take_if(|_| is_whole) {
            incoming.put()?;
            drop(file);
            self.files.end(self.token);
        }
        self.is_good = true;
        Ok(())
    }
}

impl Streaming for Taking {
    fn segment(&mut self, bytes: &[u8]) -> FunctionResult {
        Ok(self.add(bytes)?)
    }

    fn finish(&mut self, _request: &Request<'_>, _reply: &mut Reply) -> FunctionResult {
        Ok(self.end()?)
    }
}

impl Drop for Taking {
    fn drop(&mut self) {
        if !self.is_good {
            opened(&self.file).incoming = None;
            self.files.end(self.token);
        }
    }
}

/// The error of a file of the system, such as those in /proc, whose length is 0 whatever they have.
pub(super) fn has_no_length(path: &Path) -> String {
    format!(
        "cannot copy {}: the system does not say how long it is; write what it has to a file first",
        path.display()
    )
}

/// Reads a piece of a file.
fn read(asked: &ReadRequest<'_>) -> Result<(ReadReply, Vec<u8>)> {
    let path = asked.path;
    // A FIFO would wait for a writer.
    let known = path.metadata().map_err(cannot("read", path))?;
    if !known.is_file() {
        let is = if known.is_dir() { "a folder" } else { "not a file" };
        return Err(format!("cannot read {}: it is {is}", path.display()));
    }
    let file = File::open(path).map_err(cannot("read", path))?;
    let known = file.metadata().map_err(cannot("read", path))?;
    if known.len() == 0 && file.read_at(&mut [0], 0).map_err(cannot("read", path))? > 0 {
        return Err(has_no_length(path));
    }
    let left = known.len().saturating_sub(asked.offset).min(asked.most.into());
    let mut bytes = vec![0; left as usize];
    file.read_exact_at(&mut bytes, asked.offset).map_err(cannot("read", path))?;
    let changed = [known.ino(), known.mtime().cast_unsigned(), known.mtime_nsec().cast_unsigned()];
    let digest = digest(&bytes);
    Ok((ReadReply { total: known.len(), mode: known.mode() & 0o777, changed, digest }, bytes))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::fs;

    use super::*;

    fn no_job() -> GiveProgram {
        Arc::new(|_, _, _| Err("no jobs"))
    }

    /// A piece of a file of 10 bytes.
    fn take(
        files: &Arc<Files>,
        folder: &Path,
        token: u64,
        offset: u64,
        bytes: &[u8],
        digest: Digest,
    ) -> Result<()> {
        let name = OsStr::new("f");
        let piece = Piece {
            token,
            offset,
            total: 10,
            mode: 0o600,
            destination: Destination::Folder,
            digest,
            name,
            to: folder,
        };
        let mut taking = Taking::begin(files, 3, &piece.header())?;
        bytes.chunks(3).try_for_each(|part| taking.add(part))?;
        taking.end()
    }

    #[test]
    fn pieces_in_any_order_are_the_file_and_it_is_there_when_it_is_whole() {
        let (files, folder) = (Arc::new(Files::new(Clock::system(), no_job())), tempfile::tempdir().unwrap());
        let piece =
            |token, offset, bytes: &[u8]| take(&files, folder.path(), token, offset, bytes, digest(bytes));
        let path = folder.path().join("f");
        assert_eq!(piece(1, 6, b"6789"), Ok(()));
        // Another file of that name at the same time.
        assert_eq!(piece(2, 0, b"abcde"), Ok(()));
        assert!(!path.exists());
        assert_eq!(piece(1, 0, b"012345"), Ok(()));
        assert_eq!(fs::read(&path).unwrap(), b"0123456789");
        assert!(piece(1, 0, b"012345").unwrap_err().contains("was given up before"));
        assert_eq!(piece(2, 5, b"fghij"), Ok(()));
        assert_eq!(fs::read(&path).unwrap(), b"abcdefghij");
    }

    #[test]
    fn a_piece_that_is_wrong_gives_the_file_up_and_nothing_is_left() {
        let (files, folder) = (Arc::new(Files::new(Clock::system(), no_job())), tempfile::tempdir().unwrap());
        let piece =
            |token, offset, bytes: &[u8], digest| take(&files, folder.path(), token, offset, bytes, digest);
        for (token, offset, bytes, sent, why) in [
            (1, 5, &b"fghij"[..], &b"fghix"[..], "SHA-256"),
            (2, 5, b"fghijk", b"fghijk", "exceeds the 10 bytes"),
            (3, u64::MAX, b"f", b"f", "exceeds the 10 bytes"),
            (4, 4, b"efghij", b"efghij", "came twice"),
        ] {
            assert_eq!(piece(token, 0, b"abcde", digest(b"abcde")), Ok(()));
            let refused = piece(token, offset, bytes, digest(sent)).unwrap_err();
            assert!(refused.contains(why), "{refused}");
            // What would have completed it.
            let refused = piece(token, 5, b"fghij", digest(b"fghij")).unwrap_err();
            assert!(refused.contains("was given up before"), "{refused}");
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_host_knows_so_many_files_at_once_and_forgets_those_that_are_over() {
        let (files, folder) = (Arc::new(Files::new(Clock::system(), no_job())), tempfile::tempdir().unwrap());
        let piece = |token, bytes: &[u8]| take(&files, folder.path(), token, 0, bytes, digest(bytes));
        for token in 0..FILES_MAX as u64 {
            assert_eq!(piece(token, b"abcde"), Ok(()));
        }
        assert!(piece(100, b"abcde").unwrap_err().contains("come in at once"));
        // One of them is given up, so another one may come.
        assert!(take(&files, folder.path(), 7, 5, b"x", digest(b"y")).is_err());
        assert_eq!(piece(100, b"0123456789"), Ok(()));
        assert_eq!(piece(101, b"0123456789"), Ok(()));
    }

    /// A sender that was killed between two pieces left a file open for as long as the node ran, and after 64 of them
    /// every copy was refused.
    #[test]
    fn a_file_whose_sender_has_gone_is_given_up_after_a_while() {
        let time = Arc::new(Mutex::new(Duration::ZERO));
        let read = Arc::clone(&time);
        let files = Arc::new(Files::new(Clock::reading(move || *read.lock().unwrap()), no_job()));
        let folder = tempfile::tempdir().unwrap();
        let piece =
            |token, offset, bytes: &[u8]| take(&files, folder.path(), token, offset, bytes, digest(bytes));
        for token in 0..FILES_MAX as u64 {
            assert_eq!(piece(token, 0, b"abcde"), Ok(()));
        }
        *time.lock().unwrap() = IDLE_MAX - Duration::from_nanos(1);
        assert_eq!(piece(3, 5, b"fgh"), Ok(()));
        assert!(piece(100, 0, b"abcde").unwrap_err().contains("come in at once"));
        *time.lock().unwrap() = IDLE_MAX;
        assert_eq!(piece(100, 0, b"abcde"), Ok(()));
        assert_eq!(files.lock().len(), 2, "one that had a piece lately, and the new one");
        assert_eq!(piece(3, 8, b"ij"), Ok(()));
        assert_eq!(fs::read(folder.path().join("f")).unwrap(), b"abcdefghij");
    }

    /// A program that was half there stayed known after its job had ended.
    #[test]
    fn a_program_goes_to_its_job_and_is_forgotten_with_it() {
        let job = Arc::new(Mutex::new(None));
        let held = Arc::clone(&job);
        let give: GiveProgram = Arc::new(move |job, _, file| {
            if job != ("job", 3) {
                return Err("no such job");
            }
            *held.lock().unwrap() = Some(file);
            Ok(())
        });
        let files = Arc::new(Files::new(Clock::system(), give));
        let take = |token, to: &str, offset, bytes: &[u8]| {
            let (name, destination, digest) = (OsStr::new("p"), Destination::Job, digest(bytes));
            let piece =
                Piece { token, offset, total: 10, mode: 0, destination, digest, name, to: Path::new(to) };
            let mut taking = Taking::begin(&files, 3, &piece.header())?;
            taking.add(bytes)?;
            taking.end()
        };
        let known = || files.lock().iter().filter(|(_, state)| matches!(state, State::Open(..))).count();
        assert!(take(1, "other", 0, b"01234").unwrap_err().contains("no such job"));
        assert_eq!((take(2, "job", 5, b"56789"), known()), (Ok(()), 1));
        assert_eq!((take(2, "job", 0, b"01234"), known()), (Ok(()), 0));
        let mut bytes = [0; 10];
        let file: Arc<File> = job.lock().unwrap().take().unwrap();
        file.read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!(&bytes, b"0123456789");
        assert!(file.write_at(b"x", 0).is_err(), "it is open for reading");
        assert_eq!((take(3, "job", 0, b"01234"), known()), (Ok(()), 1));
        *job.lock().unwrap() = None;
        assert!(take(4, "other", 0, b"01234").is_err());
        assert_eq!(known(), 0);
    }

    #[test]
    fn a_file_is_read_in_pieces_and_nothing_else_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        fs::write(&path, "0123456789").unwrap();
        let read = |path: &Path, offset, most| read(&ReadRequest { offset, most, path });
        let (found, bytes) = read(&path, 4, 3).unwrap();
        assert_eq!((found.total, &bytes[..], found.digest), (10, &b"456"[..], digest(b"456")));
        let (again, bytes) = read(&path, 8, 30).unwrap();
        assert_eq!((again.changed, &bytes[..]), (found.changed, &b"89"[..]));
        assert_eq!(read(&path, 100, 30).unwrap().1, b"");
        assert!(read(folder.path(), 0, 1).unwrap_err().contains("it is a folder"));
        assert!(read(Path::new("/proc/self/stat"), 0, 1).unwrap_err().contains("how long it is"));
        assert!(read(Path::new("/dev/zero"), 0, 1).unwrap_err().contains("it is not a file"));
    }
}
