//! Splits the bytes of a stream into lines of bounded length.

use zeroize::Zeroizing;

/// A splitter of lines. Its buffer is zeroized, since a line may contain a secret.
pub(super) struct Lines {
    bytes: Zeroizing<Vec<u8>>,
    /// Maximum length of a line, bytes.
    max: usize,
}

/// A line exceeds the maximum length.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct TooLong;

impl Lines {
    /// Creates a splitter for lines of at most `max` bytes.
    pub(super) fn new(max: usize) -> Lines {
        Lines { bytes: Zeroizing::new(Vec::new()), max }
    }

    /// Passes each line that these bytes complete to `take`. Invalid UTF-8 is replaced.
    pub(super) fn add(&mut self, mut bytes: &[u8], mut take: impl FnMut(&str)) -> Result<(), TooLong> {
        while let Some(end) = bytes.iter().position(|&byte| byte == b'\n') {
            let (line, rest) = (&bytes[..end], &bytes[end + 1..]);
            if self.bytes.len() + line.len() > self.max {
                return Err(TooLong);
            }
            self.bytes.extend_from_slice(line);
            self.give(&mut take);
            bytes = rest;
        }
        if self.bytes.len() + bytes.len() > self.max {
            return Err(TooLong);
        }
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    /// Passes the bytes after the last line to `take`.
    pub(super) fn rest(&mut self, mut take: impl FnMut(&str)) {
        if !self.bytes.is_empty() {
            self.give(&mut take);
        }
    }

    fn give(&mut self, take: &mut impl FnMut(&str)) {
        match str::from_utf8(&self.bytes) {
            Ok(line) => take(line.trim_end_matches('\r')),
            Err(_) => take(String::from_utf8_lossy(&self.bytes).trim_end_matches('\r')),
        }
        self.bytes.clear();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_line_has_its_bound_wherever_it_is_cut() {
        let mut lines = Lines::new(4);
        let mut seen = Vec::new();
        assert_eq!(lines.add(b"ab", |line| seen.push(line.to_owned())), Ok(()));
        assert_eq!(lines.add(b"cd\n\nx\xff\r\nef", |line| seen.push(line.to_owned())), Ok(()));
        assert_eq!(lines.add(b"ghi", |_| panic!("it is too long")), Err(TooLong));
        lines.rest(|line| seen.push(line.to_owned()));
        assert_eq!(seen, ["abcd", "", "x\u{fffd}", "ef"]);
        assert_eq!(Lines::new(4).add(b"abcde\n", |_| panic!("it is too long")), Err(TooLong));
    }

    proptest! {
        #[test]
        fn lines_do_not_depend_on_how_they_arrive(text in "[a-c\n]{0,40}", cut in 0usize..40) {
            let whole: Vec<&str> = text.split('\n').collect();
            let (mut lines, mut seen) = (Lines::new(100), Vec::new());
            for part in text.as_bytes().chunks(cut + 1) {
                lines.add(part, |line| seen.push(line.to_owned())).unwrap();
            }
            prop_assert_eq!(&seen[..], &whole[..whole.len() - 1]);
        }
    }
}
