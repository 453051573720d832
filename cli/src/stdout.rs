//! Standard output, where the reader may leave at any time.

use std::io::{self, BufWriter, ErrorKind, Write};

/// Writes to standard output, buffered. A reader who has closed it (`| head`) wants no more, which is no error.
pub(super) fn write(text: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    let written = text(&mut out).and_then(|()| out.flush());
    // Not flushed a second time when dropped.
    drop(out.into_parts());
    match written {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(io::Error::new(error.kind(), format!("cannot write to standard output: {error}"))),
        Ok(()) => Ok(()),
    }
}
