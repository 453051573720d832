//! Folds the outputs of many hosts: those that are equal are shown once, under the names of their hosts.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::time::Duration;

use gpc_bnr::Exit;
use gpc_bnr::streams::Stream;
use serde::Serialize;
use similar::TextDiff;

use super::failures::how;
use super::spool::{Digest, Spool};
use crate::by_host;
use crate::output::{Content, write_json};

/// Longest output that is compared line by line, bytes.
const COMPARED_MAX: u64 = 1 << 20;

/// Time for a comparison, which may take as long as the square of the lines; after it, what differs is shown coarser.
const COMPARED_FOR: Duration = Duration::from_secs(2);

/// Exit status of a host that cannot be reached: that of ssh.
pub(super) const UNREACHED: u8 = 255;

/// The outputs, by the place of the host in the list.
pub(super) struct Folded {
    names: Vec<String>,
    hosts: Vec<HostOutput>,
    /// In the order of their first hosts.
    groups: Vec<Group>,
}

/// What a host has written so far; nothing is kept once it has ended, and another host has written the same.
#[derive(Default)]
struct HostOutput {
    out: Spool,
    err: Spool,
}

/// A host that did not run the command, or was lost.
pub(super) struct NotRun {
    pub(super) host: String,
    pub(super) status: u8,
    pub(super) why: String,
}

/// Hosts that have written the same, and ended in the same way.
struct Group {
    key: (Digest, Digest, Exit),
    hosts: Vec<usize>,
    output: HostOutput,
}

impl Folded {
    /// No output of these hosts yet.
    pub(super) fn new(names: Vec<String>) -> Folded {
        let hosts = names.iter().map(|_| HostOutput::default()).collect();
        Folded { names, hosts, groups: Vec::new() }
    }

    /// Adds output of a host.
    ///
    /// # Errors
    /// If it cannot be kept.
    pub(super) fn add(&mut self, host: usize, stream: Stream, bytes: &[u8]) -> io::Result<()> {
        match (self.hosts.get_mut(host), stream) {
            (Some(output), Stream::Out) => output.out.add(bytes),
            (Some(output), Stream::Err) => output.err.add(bytes),
            (None, _) => Ok(()),
        }
    }

    /// A host has ended; all of its output has been added.
    pub(super) fn end(&mut self, host: usize, exit: Exit) {
        let Some(output) = self.hosts.get_mut(host).map(std::mem::take) else { return };
        let key = (output.out.digest(), output.err.digest(), exit);
        match self.groups.iter_mut().find(|group| group.key == key) {
            Some(group) => group.hosts.push(host),
            None => self.groups.push(Group { key, hosts: vec![host], output }),
        }
    }

    /// Writes each output once, under its hosts; the outputs of most hosts first.
    ///
    /// # Errors
    /// If an output cannot be read or written.
    pub(super) fn write(&mut self, out: &mut dyn Write, err: &mut dyn Write) -> io::Result<()> {
        self.sort();
        for group in &mut self.groups {
            let names = folded(&self.names, &group.hosts);
            write_under(&names, &mut group.output.out, out)?;
            write_under(&names, &mut group.output.err, err)?;
        }
        Ok(())
    }

    /// Writes the commonest output, and how each other one differs from it.
    ///
    /// # Errors
    /// As for [`write`](Self::write).
    pub(super) fn write_diff(&mut self, out: &mut dyn Write, err: &mut dyn Write) -> io::Result<()> {
        self.sort();
        let Some((common, others)) = self.groups.split_first_mut() else { return Ok(()) };
        let common_names = folded(&self.names, &common.hosts);
        write_under(&common_names, &mut common.output.out, out)?;
        write_under(&common_names, &mut common.output.err, err)?;
        let text = text(&mut common.output.out)?;
        for group in others {
            let names = folded(&self.names, &group.hosts);
            let other = self::text(&mut group.output.out)?;
            match (&text, other) {
                _ if group.key.0 == common.key.0 => {}
                (Some(text), Some(other)) => {
                    let diff = TextDiff::configure().timeout(COMPARED_FOR).diff_lines(text.as_str(), &other);
                    write!(out, "{}", diff.unified_diff().header(&common_names, &names))?;
                }
                _ => writeln!(
                    out,
                    "{names}: differs from {common_names}, and is too long to be compared by lines, or no text ({} and {} bytes)",
                    group.output.out.length(),
                    common.output.out.length()
                )?,
            }
            write_under(&names, &mut group.output.err, err)?;
        }
        Ok(())
    }

    /// Writes the outputs as JSON, by host; `failed` are hosts without any, and hosts that were lost.
    ///
    /// # Errors
    /// If an output cannot be read or written.
    pub(super) fn write_json(&mut self, failed: &[NotRun], out: &mut dyn Write) -> io::Result<()> {
        // Each output is in memory once, however many hosts have written it.
        let mut outputs = Vec::new();
        for group in &mut self.groups {
            let bytes = |spool: &mut Spool| spool.start(u64::MAX).map(Content);
            outputs.push((bytes(&mut group.output.out)?, bytes(&mut group.output.err)?));
        }
        let reasons: BTreeMap<&str, &NotRun> =
            failed.iter().map(|failed| (failed.host.as_str(), failed)).collect();
        let mut hosts = Vec::new();
        for (group, (stdout, stderr)) in self.groups.iter().zip(&outputs) {
            let exit = group.key.2;
            for host in &group.hosts {
                let name = self.names.get(*host).map_or("", String::as_str);
                // What was lost after its command had ended has run it.
                let failed = reasons.get(name).filter(|_| matches!(exit, Exit::Node(_) | Exit::Never));
                let (status, ended) = match failed {
                    Some(failed) => (failed.status, failed.why.clone()),
                    None if matches!(exit, Exit::Node(_)) => (UNREACHED, how(exit)),
                    None => (exit.status(), how(exit)),
                };
                hosts.push((*host, HostResult { host: name, status, ended, stdout, stderr }));
            }
        }
        hosts.sort_by_key(|(host, _)| *host);
        let nothing = Content::default();
        let names: BTreeSet<&str> = self.names.iter().map(String::as_str).collect();
        let never = failed.iter().filter(|failed| !names.contains(failed.host.as_str()));
        let never = never.map(|failed| HostResult {
            host: &failed.host,
            status: failed.status,
            ended: failed.why.clone(),
            stdout: &nothing,
            stderr: &nothing,
        });
        let hosts = hosts.into_iter().map(|(_, result)| result);
        write_json(&Results { hosts: hosts.chain(never).collect() }, out)
    }

    fn sort(&mut self) {
        self.groups.iter_mut().for_each(|group| group.hosts.sort_unstable());
        self.groups.sort_by_key(|group| (std::cmp::Reverse(group.hosts.len()), group.hosts.first().copied()));
    }
}

/// All hosts, as JSON.
#[derive(Serialize)]
struct Results<'a> {
    hosts: Vec<HostResult<'a>>,
}

/// A host, as JSON.
#[derive(Serialize)]
struct HostResult<'a> {
    host: &'a str,
    status: u8,
    ended: String,
    stdout: &'a Content,
    stderr: &'a Content,
}

/// The names of some hosts in a compressed list.
fn folded(names: &[String], hosts: &[usize]) -> String {
    by_host::folded(hosts.iter().filter_map(|host| names.get(*host).map(String::as_str)))
}

/// Writes an output under names: one line behind them, several lines below.
fn write_under(names: &str, spool: &mut Spool, out: &mut dyn Write) -> io::Result<()> {
    if spool.length() == 0 {
        return Ok(());
    }
    let start = spool.start(SHORT_LINE)?;
    let whole = start.len() as u64 == spool.length();
    let line = start.strip_suffix(b"\n").unwrap_or(&start);
    if whole && !line.contains(&b'\n') {
        write!(out, "{names}: ")?;
        out.write_all(line)?;
        return writeln!(out);
    }
    writeln!(out, "{names}:")?;
    let mut ends = EndOfLine { out, ended: true };
    spool.write_to(&mut ends)?;
    if !ends.ended {
        writeln!(ends.out)?;
    }
    Ok(())
}

/// Longest output that is written behind the names.
const SHORT_LINE: u64 = 4096;

/// A writer that remembers whether the last line has its end.
struct EndOfLine<'a> {
    out: &'a mut dyn Write,
    ended: bool,
}

impl Write for EndOfLine<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.out.write(bytes)?;
        if count > 0 {
            self.ended = bytes[count - 1] == b'\n';
        }
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// An output as text, unless it is too long to be compared, or no text.
fn text(spool: &mut Spool) -> io::Result<Option<String>> {
    if spool.length() > COMPARED_MAX {
        return Ok(None);
    }
    Ok(String::from_utf8(spool.start(COMPARED_MAX)?).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folds(outputs: &[(&str, &str, &str, i32)]) -> Folded {
        let names = outputs.iter().map(|(name, ..)| (*name).to_owned()).collect();
        let mut folded = Folded::new(names);
        for (host, (_, out, err, _)) in outputs.iter().enumerate() {
            // In two parts, between those of others.
            let (first, _) = out.split_at(out.len() / 2);
            folded.add(host, Stream::Out, first.as_bytes()).unwrap();
            folded.add(host, Stream::Err, err.as_bytes()).unwrap();
        }
        for (host, (_, out, _, status)) in outputs.iter().enumerate().rev() {
            folded.add(host, Stream::Out, out.split_at(out.len() / 2).1.as_bytes()).unwrap();
            folded.end(host, Exit::Code(*status as u8));
        }
        folded
    }

    fn written(write: impl FnOnce(&mut dyn Write, &mut dyn Write) -> io::Result<()>) -> (String, String) {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        write(&mut out, &mut err).unwrap();
        (String::from_utf8(out).unwrap(), String::from_utf8(err).unwrap())
    }

    #[test]
    fn equal_outputs_are_shown_once_the_commonest_first() {
        let mut folded = folds(&[
            ("b12", "5.10.0\n", "", 0),
            ("b1", "6.1.0\n", "", 0),
            ("b2", "6.1.0\n", "", 0),
            ("b3", "one\ntwo", "no\n", 0),
            ("b4", "", "", 0),
        ]);
        let (out, err) = written(|out, err| folded.write(out, err));
        assert_eq!(out, "b[1-2]: 6.1.0\nb12: 5.10.0\nb3:\none\ntwo\n");
        assert_eq!(err, "b3: no\n");
    }

    #[test]
    fn hosts_that_ended_differently_or_wrote_other_errors_are_apart() {
        let mut folded = folds(&[("a", "x\n", "", 0), ("b", "x\n", "", 1), ("c", "x\n", "e\n", 0)]);
        assert_eq!(written(|out, err| folded.write(out, err)).0, "a: x\nb: x\nc: x\n");
    }

    #[test]
    fn others_are_compared_with_the_commonest() {
        let mut folded =
            folds(&[("b1", "a\nb\nc\n", "", 0), ("b2", "a\nb\nc\n", "", 0), ("b3", "a\nB\nc\n", "", 0)]);
        let (out, _) = written(|out, err| folded.write_diff(out, err));
        assert_eq!(out, "b[1-2]:\na\nb\nc\n--- b[1-2]\n+++ b3\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n");
        // Only the status differs.
        let mut folded = folds(&[("b1", "a\n", "", 0), ("b2", "a\n", "", 0), ("b3", "a\n", "", 1)]);
        assert_eq!(written(|out, err| folded.write_diff(out, err)).0, "b[1-2]: a\n");
    }

    #[test]
    fn what_is_long_or_no_text_is_not_compared_by_lines() {
        let long = "x".repeat(COMPARED_MAX as usize + 1);
        let mut folded = folds(&[("b1", "a\n", "", 0), ("b2", "a\n", "", 0), ("b3", &long, "", 0)]);
        let (out, _) = written(|out, err| folded.write_diff(out, err));
        assert!(out.contains("b3: differs from b[1-2]") && out.len() < 300, "{out}");
    }
}
