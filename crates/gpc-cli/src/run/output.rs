//! Writes the output of processes to standard output and standard error, in whole lines, with a prefix that names the
//! process if requested.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd as _;

use gpc_bnr::names::Member;
use gpc_bnr::streams::{Piece, Stream};

use crate::inherited::Output;

/// The two outputs.
#[derive(Debug)]
pub(super) struct Sink {
    out: OutputStream<Output>,
    err: OutputStream<File>,
}

impl Sink {
    /// Opens the outputs of this process. With `tags`, each line begins with `[g1.3] `, its group and rank.
    ///
    /// # Errors
    /// If this process has no descriptor left. If standard output is closed, only writing to it fails.
    pub(super) fn new(tags: bool) -> io::Result<Sink> {
        // Not through the buffers of this process, so that a write is complete when it returns.
        let out = Output::new()?;
        let err = File::from(io::stderr().as_fd().try_clone_to_owned()?);
        Ok(Sink { out: OutputStream::new(out, tags), err: OutputStream::new(err, tags) })
    }

    /// Writes a piece; blocks while the reader does not read.
    ///
    /// # Errors
    /// If the output fails.
    pub(super) fn write(&mut self, piece: &Piece) -> io::Result<()> {
        match piece.stream {
            Stream::Out => self.out.write(piece.member, &piece.bytes),
            Stream::Err => self.err.write(piece.member, &piece.bytes),
        }
    }
}

/// One output.
#[derive(Debug)]
struct OutputStream<W> {
    to: W,
    tags: bool,
    /// The process whose last line has no end yet.
    open: Option<Member>,
    /// Lines with their tags; the memory is reused.
    tagged: Vec<u8>,
}

impl<W: Write> OutputStream<W> {
    fn new(to: W, tags: bool) -> OutputStream<W> {
        OutputStream { to, tags, open: None, tagged: Vec::new() }
    }

    fn write(&mut self, member: Member, bytes: &[u8]) -> io::Result<()> {
        if !self.tags {
            return self.to.write_all(bytes);
        }
        self.tagged.clear();
        let mut goes_on = self.open == Some(member);
        if self.open.is_some() && !goes_on {
            // Otherwise a tag would be in the middle of a line.
            self.tagged.push(b'\n');
        }
        for line in bytes.split_inclusive(|&byte| byte == b'\n') {
            if !goes_on {
                write!(self.tagged, "[{member}] ")?;
            }
            self.tagged.extend_from_slice(line);
            goes_on = !line.ends_with(b"\n");
        }
        self.open = goes_on.then_some(member);
        self.to.write_all(&self.tagged)
    }
}

#[cfg(test)]
mod tests {
    use gpc_bnr::names::GroupId;

    use super::*;

    fn written(tags: bool, pieces: &[(u32, &str)]) -> String {
        let mut way = OutputStream::new(Vec::new(), tags);
        for (rank, text) in pieces {
            way.write(Member { group: GroupId(1), rank: *rank }, text.as_bytes()).unwrap();
        }
        String::from_utf8(way.to).unwrap()
    }

    #[test]
    fn each_line_says_who_has_written_it() {
        assert_eq!(written(true, &[(0, "a\n\nb\n"), (3, "c\n")]), "[g1.0] a\n[g1.0] \n[g1.0] b\n[g1.3] c\n");
        assert_eq!(written(false, &[(0, "a\n\nb\n"), (3, "c\n")]), "a\n\nb\nc\n");
    }

    #[test]
    fn a_line_that_comes_in_parts_has_one_tag_and_no_other_in_its_middle() {
        assert_eq!(written(true, &[(0, "a"), (0, "b"), (0, "c\nd\n")]), "[g1.0] abc\n[g1.0] d\n");
        assert_eq!(written(true, &[(0, "a"), (1, "b\n"), (0, "c\n")]), "[g1.0] a\n[g1.1] b\n[g1.0] c\n");
        assert_eq!(written(false, &[(0, "a"), (1, "b\n")]), "ab\n");
    }
}
