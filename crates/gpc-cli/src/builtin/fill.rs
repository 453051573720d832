//! `fill`: replies with the number of bytes in the request's header, whatever the data are. It measures replies of
//! another size than the requests.

use chained_gpc::runtime::{FunctionError, Functions, FunctionsError};

/// The byte that fills replies.
pub(crate) const FILL: u8 = b'.';

/// Longest reply, in bytes: a request of a few bytes must not take all memory of a node.
pub(crate) const FILL_MAX: u32 = 64 << 20;

pub(super) fn register(functions: &Functions) -> Result<(), FunctionsError> {
    // 64 MiB take time, so this does not run on the event loop.
    functions
        .func("fill", |request, reply| {
            let length = length(request.header())? as usize;
            room(&mut reply.data, length)?;
            reply.data.resize(length, FILL);
            Ok(())
        })
        .map(drop)
}

/// Reserves memory for a reply whose length a peer chose. If there is not enough memory, the call fails and the process
/// continues.
fn room(reply: &mut Vec<u8>, length: usize) -> Result<(), FunctionError> {
    reply
        .try_reserve_exact(length)
        .map_err(|_| format!("there is no memory for a reply of {length} bytes").into())
}

/// Returns the number of bytes in a header.
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
