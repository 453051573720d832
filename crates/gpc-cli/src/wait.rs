//! Text forms of how a node waits: `block`, `adaptive` or `spin:50us`.

use std::fmt;
use std::str::FromStr;

use super::duration::Span;
use chained_gpc::runtime::Wait;

/// A [`Wait`] with its text form.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WaitName(pub Wait);

impl FromStr for WaitName {
    type Err = String;

    fn from_str(text: &str) -> Result<WaitName, String> {
        match text.split_once(':') {
            None if text == "block" => Ok(WaitName(Wait::Block)),
            None if text == "adaptive" => Ok(WaitName(Wait::Adaptive)),
            Some(("spin", limit)) => {
                let limit: Span = limit.parse().map_err(|error| format!("{error}"))?;
                Ok(WaitName(Wait::Spin(limit.duration())))
            }
            None if text.parse::<Span>().is_ok() => Err(format!(
                "it says how to wait for messages: write block, adaptive or spin:TIME; to wait until running nodes are up write --wait-for-peers {text}"
            )),
            _ => Err("write block, adaptive or spin:TIME, such as spin:50us".into()),
        }
    }
}

impl fmt::Display for WaitName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Wait::Block => write!(f, "block"),
            Wait::Spin(limit) => match format!("{}ns", limit.as_nanos()).parse::<Span>() {
                Ok(limit) => write!(f, "spin:{limit}"),
                // Longer than a `Span` can be.
                Err(_) => write!(f, "spin:{}ns", limit.as_nanos()),
            },
            Wait::Adaptive => write!(f, "adaptive"),
            // A mode that this command cannot parse.
            other => write!(f, "{other:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_is_printed_is_what_was_meant() {
        for (text, wait) in [
            ("block", Wait::Block),
            ("adaptive", Wait::Adaptive),
            ("spin:50us", Wait::Spin(Duration::from_micros(50))),
            ("spin:1.5ms", Wait::Spin(Duration::from_micros(1500))),
        ] {
            let name: WaitName = text.parse().unwrap();
            assert_eq!(name.0, wait);
            assert_eq!(name.to_string().parse(), Ok(name));
            assert!(text == "spin:1.5ms" || name.to_string() == text, "{name}");
        }
    }

    #[test]
    fn anything_else_is_refused_with_what_to_write() {
        for text in ["", "spin", "spin:", "spin:fast", "block:1s", "Block"] {
            let error = text.parse::<WaitName>().unwrap_err();
            assert!(error.contains("spin:") || error.contains("250ms"), "{text}: {error}");
        }
        let error = "10s".parse::<WaitName>().unwrap_err();
        assert!(error.ends_with("write --wait-for-peers 10s"), "{error}");
    }
}
