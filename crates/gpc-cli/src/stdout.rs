//! Standard output, whose reader may leave at any time.

use std::io::{self, BufWriter, ErrorKind, IsTerminal as _, Write};

use super::inherited::Output;

/// Writes to standard output, buffered. If the reader has closed it (`| head`), the rest is dropped without an error.
///
/// # Errors
/// If it cannot be written: it was closed (`>&-`), it is not open for writing, or a disk is full.
pub(super) fn write(text: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let written = Output::new().and_then(|output| {
        let mut out = BufWriter::new(output);
        let written = text(&mut out).and_then(|()| out.flush());
        // Avoids a second flush on drop.
        drop(out.into_parts());
        written
    });
    match written {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(io::Error::new(error.kind(), format!("cannot write to standard output: {error}"))),
        Ok(()) => Ok(()),
    }
}

/// Prints help, styled if standard output is a terminal.
///
/// # Errors
/// If it cannot be written.
pub(super) fn print(help: &clap::Error) -> io::Result<()> {
    match io::stdout().is_terminal() {
        true => help.print(),
        false => write(|out| write!(out, "{}", help.render())),
    }
}
