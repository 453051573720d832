//! Writes the output of processes to standard output and standard error, in whole lines, with a prefix that names the
//! process if requested.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd as _;
use std::path::Path;
use std::sync::Arc;

use gpc_bnr::names::Member;
use gpc_bnr::streams::{Piece, Stream};

use super::failures::FIRST;
use super::files::OutputFiles;
use super::pattern::{Pattern, PatternError};
use super::places::Places;
use crate::args::run_output::{RunOutputArgs, TagKind};
use crate::inherited::Output;
use crate::refused::Refused;

/// Prefixes of lines, and files.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct OutputPlan {
    pub(super) tags: Option<TagKind>,
    /// Files for standard output.
    pub(super) out: Option<Pattern>,
    /// Files for standard error.
    pub(super) err: Option<Pattern>,
}

impl OutputPlan {
    /// Checks the arguments.
    ///
    /// # Errors
    /// If a pattern is wrong, or its folder is missing.
    pub(super) fn new(args: &RunOutputArgs) -> Result<OutputPlan, Refused> {
        Ok(OutputPlan {
            tags: args.tag_output,
            out: args.out_file.as_deref().map(|path| pattern("--out-file", path)).transpose()?,
            err: args.err_file.as_deref().map(|path| pattern("--err-file", path)).transpose()?,
        })
    }

    fn patterns(&self) -> impl Iterator<Item = &Pattern> {
        self.out.iter().chain(&self.err)
    }

    /// Whether names of files have process ids or host names.
    pub(super) fn has_place(&self) -> bool {
        self.patterns().any(Pattern::has_place)
    }
}

fn pattern(name: &str, path: &Path) -> Result<Pattern, Refused> {
    let told = |error: PatternError| format!("{name} {}: {error}", path.display());
    let pattern = Pattern::parse(path.as_os_str()).map_err(told)?;
    pattern.check_folder().map_err(|error| Refused::File(told(error)))?;
    Ok(pattern)
}

/// The two outputs.
#[derive(Debug)]
pub(super) struct Sink {
    out: OutputStream<Output>,
    err: OutputStream<File>,
    /// Files in place of standard output.
    out_files: Option<OutputFiles>,
    /// Files in place of standard error, if they are others.
    err_files: Option<OutputFiles>,
    /// Whether both outputs go to the same files.
    is_shared: bool,
    places: Arc<Places>,
    /// Standard error for the command at the time limit.
    command: Option<OutputStream<File>>,
}

impl Sink {
    /// Opens the outputs of this process. `places` has the process ids and hosts that names of files need.
    ///
    /// # Errors
    /// If this process has no descriptor left. If standard output is closed, only writing to it fails.
    pub(super) fn new(plan: &OutputPlan, places: &Arc<Places>) -> io::Result<Sink> {
        // Not through the buffers of this process, so that a write is complete when it returns.
        let out = Output::new()?;
        let err = File::from(io::stderr().as_fd().try_clone_to_owned()?);
        let files = |pattern: &Pattern| OutputFiles::new(pattern.clone(), Arc::clone(places));
        let is_shared = plan.out.is_some() && plan.out == plan.err;
        Ok(Sink {
            out: OutputStream::new(out, plan.tags.map(Tags::Process)),
            err: OutputStream::new(err, plan.tags.map(Tags::Process)),
            out_files: plan.out.as_ref().map(files),
            err_files: plan.err.as_ref().filter(|_| !is_shared).map(files),
            is_shared,
            places: Arc::clone(places),
            command: None,
        })
    }

    /// Opens the outputs of this process; each line begins with the name of its host, by rank.
    ///
    /// # Errors
    /// As for [`new`](Self::new).
    pub(super) fn of_hosts(names: Vec<String>) -> io::Result<Sink> {
        let mut sink = Sink::new(&OutputPlan::default(), &Arc::default())?;
        let tags = Tags::Hosts(names.into());
        (sink.out.tags, sink.err.tags) = (Some(tags.clone()), Some(tags));
        Ok(sink)
    }

    /// Writes a piece; blocks while the reader does not read.
    ///
    /// # Errors
    /// If the output fails; the message names a file.
    pub(super) fn write(&mut self, piece: &Piece) -> io::Result<()> {
        if let Some(names) = self.places.command_of(piece.member) {
            return self.write_of_command(&names, piece);
        }
        match piece.stream {
            Stream::Out => self.out.write(&mut self.out_files, piece),
            Stream::Err if self.is_shared => self.err.write(&mut self.out_files, piece),
            Stream::Err => self.err.write(&mut self.err_files, piece),
        }
    }
}

impl Sink {
    /// Writes output of the command to standard error, with the names of its hosts if there are some.
    fn write_of_command(&mut self, names: &Arc<[String]>, piece: &Piece) -> io::Result<()> {
        let stream = match &mut self.command {
            Some(stream) => stream,
            None => {
                let tags = (!names.is_empty()).then(|| Tags::Hosts(Arc::clone(names)));
                self.command.insert(OutputStream::new(self.err.to.try_clone()?, tags))
            }
        };
        stream.write(&mut None, piece)
    }
}

/// What stands in front of each line.
#[derive(Clone, Debug)]
enum Tags {
    /// The process that wrote it.
    Process(TagKind),
    /// The host, by rank.
    Hosts(Arc<[String]>),
}

/// One output.
#[derive(Debug)]
struct OutputStream<W> {
    to: W,
    tags: Option<Tags>,
    /// The process whose last line has no end yet.
    open: Option<Member>,
    /// Lines with their tags; the memory is reused.
    tagged: Vec<u8>,
}

impl<W: Write> OutputStream<W> {
    fn new(to: W, tags: Option<Tags>) -> OutputStream<W> {
        OutputStream { to, tags, open: None, tagged: Vec::new() }
    }

    /// Writes a piece to the file of its process, or without files to the output.
    fn write(&mut self, files: &mut Option<OutputFiles>, piece: &Piece) -> io::Result<()> {
        let Piece { member, bytes, .. } = piece;
        let bytes = match &self.tags {
            Some(tags) => {
                let alone = files.is_some();
                tags.add(*member, bytes, alone, &mut self.open, &mut self.tagged)?;
                &self.tagged
            }
            None => &**bytes,
        };
        match files {
            Some(files) => files.write(*member, bytes),
            None => self.to.write_all(bytes),
        }
    }
}

impl Tags {
    /// Puts a tag in front of each line that begins in the piece. `alone`: the lines of others are in other files.
    fn add(
        &self,
        member: Member,
        bytes: &[u8],
        alone: bool,
        open: &mut Option<Member>,
        tagged: &mut Vec<u8>,
    ) -> io::Result<()> {
        tagged.clear();
        let mut goes_on = *open == Some(member);
        if open.is_some() && !goes_on && !alone {
            // Otherwise a tag would be in the middle of a line.
            tagged.push(b'\n');
        }
        for line in bytes.split_inclusive(|&byte| byte == b'\n') {
            if !goes_on {
                match self {
                    Tags::Process(TagKind::Rank) if member.group == FIRST => {
                        write!(tagged, "[{}] ", member.rank)?
                    }
                    Tags::Process(TagKind::Rank | TagKind::Group) => write!(tagged, "[{member}] ")?,
                    Tags::Hosts(names) => {
                        let name = names.get(member.rank as usize).map_or("", String::as_str);
                        write!(tagged, "{name}: ")?;
                    }
                }
            }
            tagged.extend_from_slice(line);
            goes_on = !line.ends_with(b"\n");
        }
        *open = goes_on.then_some(member);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use gpc_bnr::names::GroupId;

    use super::*;

    fn piece(group: u32, rank: u32, text: &str) -> Piece {
        let member = Member { group: GroupId(group), rank };
        Piece { member, stream: Stream::Out, bytes: text.as_bytes().to_vec().into() }
    }

    fn written(tags: bool, pieces: &[(u32, &str)]) -> String {
        written_with(tags.then_some(TagKind::Group), pieces)
    }

    fn written_with(tags: Option<TagKind>, pieces: &[(u32, &str)]) -> String {
        let mut way = OutputStream::new(Vec::new(), tags.map(Tags::Process));
        for (rank, text) in pieces {
            way.write(&mut None, &piece(1, *rank, text)).unwrap();
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

    #[test]
    fn a_tag_may_be_the_rank_alone() {
        let written = written_with(Some(TagKind::Rank), &[(0, "a\n"), (3, "b\n")]);
        assert_eq!(written, "[0] a\n[3] b\n");
        let mut way = OutputStream::new(Vec::new(), Some(Tags::Process(TagKind::Rank)));
        way.write(&mut None, &piece(2, 1, "c\n")).unwrap();
        assert_eq!(way.to, b"[g2.1] c\n");
    }

    #[test]
    fn a_tag_may_be_the_host() {
        let names = ["b1", "b2"].map(str::to_owned);
        let mut way = OutputStream::new(Vec::new(), Some(Tags::Hosts(names.into())));
        for (rank, text) in [(1, "a\nb"), (0, "c\n"), (1, "d\n")] {
            way.write(&mut None, &piece(1, rank, text)).unwrap();
        }
        assert_eq!(String::from_utf8(way.to).unwrap(), "b2: a\nb2: b\nb1: c\nb2: d\n");
    }
}
