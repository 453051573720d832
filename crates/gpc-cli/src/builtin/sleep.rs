//! `sleep`: replies after the time in the request's header.

use crate::duration::Span;
use chained_gpc::runtime::{FunctionError, Functions, FunctionsError};

pub(super) fn register(functions: &Functions) -> Result<(), FunctionsError> {
    functions
        .func("sleep", |request, reply| {
            let span = length(request.header())?;
            std::thread::sleep(span.duration());
            reply.data = format!("slept {span}").into_bytes();
            Ok(())
        })
        .map(drop)
}

/// Returns the duration in a header.
fn length(header: &[u8]) -> Result<Span, FunctionError> {
    if header.is_empty() {
        return Err("sleep needs a length of time in the header, such as --header 250ms".into());
    }
    Ok(String::from_utf8_lossy(header).parse::<Span>()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn the_header_says_how_long() {
        assert_eq!(length(b"1m30s").unwrap().duration(), Duration::from_secs(90));
        assert!(length(b"").unwrap_err().to_string().contains("--header 250ms"));
        assert!(length(b"\xff").unwrap_err().to_string().contains("is no length of time"));
    }
}
