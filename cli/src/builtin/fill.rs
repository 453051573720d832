//! `fill`: replies with as many bytes as the request's header says, whatever the data are. For measuring replies of another size than the requests.

use super::room;
use chained_gpc::runtime::{FunctionError, Functions, FunctionsError};

/// What replies are full of.
pub(crate) const FILL: u8 = b'.';

/// Longest reply, bytes: a few bytes of a request must not take a node's memory.
pub(crate) const FILL_MAX: u32 = 64 << 20;

pub(super) fn register(functions: &Functions) -> Result<(), FunctionsError> {
    // 64 MiB take their time: not on the event loop.
    functions
        .func("fill", |request, reply| {
            let length = length(request.header())? as usize;
            room(&mut reply.data, length)?;
            reply.data.resize(length, FILL);
            Ok(())
        })
        .map(drop)
}

/// The number of bytes that a header asks for.
fn length(header: &[u8]) -> Result<u32, FunctionError> {
    let digits = !header.is_empty() && header.iter().all(u8::is_ascii_digit);
    let length = str::from_utf8(header).ok().filter(|_| digits).map(|text| text.parse().unwrap_or(u32::MAX));
    match length {
        Some(length) if length <= FILL_MAX => Ok(length),
        Some(_) => Err(format!("fill replies with at most {FILL_MAX} bytes").into()),
        None => Err("fill needs a number of bytes in the header, such as --header 4096".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_says_how_many_bytes() {
        assert_eq!(length(b"0").unwrap(), 0);
        assert_eq!(length(b"67108864").unwrap(), FILL_MAX);
        for much in [&b"67108865"[..], b"99999999999999999999999"] {
            assert!(length(much).unwrap_err().to_string().contains("at most 67108864"));
        }
        for wrong in [&b""[..], b"-1", b"4k", b"\xff"] {
            assert!(length(wrong).unwrap_err().to_string().contains("--header 4096"), "{wrong:?}");
        }
    }
}
