//! Finds `Content-Length` in the head of a request as it arrives. The HTTP library removes that header if the request
//! has `Transfer-Encoding` as well, so that nothing else shows that there were both.
//!
//! Source: RFC 9112, section 6.3, item 3.

/// The name, and its end.
const NAME: &[u8] = b"content-length:";

/// State of the search in the head of a request.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Head {
    /// Whether the head is complete. It is not if bytes of it arrived before the response to the previous request.
    pub(super) is_whole: bool,
    /// Whether it has `Content-Length`.
    pub(super) has_length: bool,
    /// Whether the request line has begun; empty lines before it do not count.
    begun: bool,
    /// Number of bytes of the present line, without carriage returns.
    column: usize,
    /// Whether these are the first bytes of the name.
    matches: bool,
}

impl Head {
    /// Takes bytes that have arrived. What follows the head is ignored.
    pub(super) fn take(&mut self, bytes: &[u8]) {
        for byte in bytes {
            if self.is_whole {
                return;
            }
            match byte {
                b'\r' => {}
                b'\n' => {
                    self.is_whole = self.begun && self.column == 0;
                    self.column = 0;
                }
                byte => {
                    let fits =
                        NAME.get(self.column).is_some_and(|expected| byte.eq_ignore_ascii_case(expected));
                    self.matches = fits && (self.column == 0 || self.matches);
                    self.column += 1;
                    self.has_length |= self.matches && self.column == NAME.len();
                    self.begun = true;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(parts: &[&str]) -> (bool, bool) {
        let mut head = Head::default();
        parts.iter().for_each(|part| head.take(part.as_bytes()));
        (head.is_whole, head.has_length)
    }

    #[test]
    fn a_length_is_found_in_the_head_alone() {
        assert_eq!(head(&["\r\nPOST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n"]), (true, true));
        assert_eq!(head(&["POST / HTTP/1.1\nconTENT-", "lengTH:5\n", "\n"]), (true, true));
        assert_eq!(
            head(&["POST / HTTP/1.1\r\nX: Content-Length: 5\r\nContent-Lengths: 5\r\n\r\n"]),
            (true, false)
        );
        assert_eq!(head(&["POST / HTTP/1.1\r\n\r\nContent-Length: 5\r\n\r\n"]), (true, false));
        assert_eq!(head(&["POST / HTTP/1.1\r\nXContent-Length: 5\r\n"]), (false, false));
        // Headers whose names are as long, or begin or end alike.
        for other in [
            "Accept-Charset: a",
            "Xontent-Length: 5",
            "Content-Lengti: 5",
            "Content-Length5",
            "A:Content-Length:",
        ] {
            assert_eq!(head(&["POST / HTTP/1.1\r\n", other, "\r\n\r\n"]), (true, false), "{other}");
        }
        assert_eq!(head(&[]), (false, false));
    }
}
