//! `digest`: computes SHA-256 and length of the data received, while they arrive.

use std::fmt::Write as _;

use ring::digest::{Context, SHA256};

use chained_gpc::runtime::{FunctionResult, Functions, FunctionsError, Streaming};
use chained_gpc::{Reply, Request};

pub(super) fn register(functions: &Functions) -> Result<(), FunctionsError> {
    // Long data take time, so this does not run on the event loop.
    functions.streaming("digest", |_| Ok(Digest::default())).map(drop)
}

/// Digest of the data received so far.
struct Digest {
    sha: Context,
    length: u64,
}

impl Default for Digest {
    fn default() -> Digest {
        Digest { sha: Context::new(&SHA256), length: 0 }
    }
}

impl Streaming for Digest {
    fn segment(&mut self, bytes: &[u8]) -> FunctionResult {
        self.add(bytes);
        Ok(())
    }

    fn finish(&mut self, _request: &Request<'_>, reply: &mut Reply) -> FunctionResult {
        reply.data = std::mem::take(self).text().into_bytes();
        Ok(())
    }
}

impl Digest {
    fn add(&mut self, bytes: &[u8]) {
        self.sha.update(bytes);
        self.length += bytes.len() as u64;
    }

    fn text(self) -> String {
        let mut text = String::with_capacity(64 + 1 + 20);
        for byte in self.sha.finish().as_ref() {
            write!(text, "{byte:02x}").expect("a string takes every text");
        }
        write!(text, " {}", self.length).expect("a string takes every text");
        text
    }
}

/// Returns SHA-256 in 64 lower-case hexadecimal digits as `sha256sum` prints it, a space, and the length in bytes.
pub fn digest(data: &[u8]) -> String {
    let mut digest = Digest::default();
    digest.add(data);
    digest.text()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_those_of_the_standard() {
        // FIPS 180-2, appendix B, and the well-known digest of no data.
        let nothing = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855 0";
        assert_eq!(digest(b""), nothing);
        assert_eq!(digest(b"abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad 3");
        let million = digest(&vec![b'a'; 1_000_000]);
        assert_eq!(million, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0 1000000");
    }
}
