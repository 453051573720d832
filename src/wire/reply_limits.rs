//! Limits of a call for what one id writes (docs/wire.md, "REQUEST").
//!
//! Source: the ARMCI design of chained GPC (2007), "Send Request to Execute a chained GPC": rhlen and rdlen, the sizes
//! of the buffers that store a reply.

use bytes::BufMut;

/// Maximum lengths of what one id writes in a call: its own reply, and with a callback its combined reply.
///
/// The default aggregate of several ids has no such limits: the caller learns its size.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ReplyLimits {
    /// Maximum length of the reply header, in bytes; [`u64::MAX`] sets no limit.
    pub header_max: u64,
    /// Maximum length of the reply data, in bytes; [`u64::MAX`] sets no limit.
    pub data_max: u64,
}

impl ReplyLimits {
    /// No limits.
    pub const UNLIMITED: ReplyLimits = ReplyLimits { header_max: u64::MAX, data_max: u64::MAX };

    /// Bytes on the wire.
    pub(crate) const LENGTH: usize = 16;

    /// Whether there are none.
    pub const fn is_unlimited(&self) -> bool {
        // Without a branch for each.
        self.header_max & self.data_max == u64::MAX
    }

    /// Which part is over its limit, if one is: its name, its length and the limit.
    pub(crate) fn exceeded(&self, header: u64, data: u64) -> Option<(&'static str, u64, u64)> {
        let parts = [("header", header, self.header_max), ("data", data, self.data_max)];
        parts.into_iter().find(|(_, length, most)| length > most)
    }

    /// Reads the limits.
    pub(crate) fn parse(bytes: &[u8; Self::LENGTH]) -> ReplyLimits {
        let (words, _) = bytes.as_chunks::<8>();
        ReplyLimits { header_max: u64::from_le_bytes(words[0]), data_max: u64::from_le_bytes(words[1]) }
    }

    /// Appends the limits.
    pub(crate) fn emit(&self, out: &mut impl BufMut) {
        out.put_u64_le(self.header_max);
        out.put_u64_le(self.data_max);
    }
}

impl Default for ReplyLimits {
    fn default() -> ReplyLimits {
        ReplyLimits::UNLIMITED
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read_as_they_are_written_and_hold_on_both_sides() {
        let limits = ReplyLimits { header_max: 3, data_max: 5 << 40 };
        let mut bytes = Vec::new();
        limits.emit(&mut bytes);
        assert_eq!(bytes.first_chunk().map(ReplyLimits::parse), Some(limits));
        assert_eq!(limits.exceeded(3, 5 << 40), None);
        assert_eq!(limits.exceeded(4, 0), Some(("header", 4, 3)));
        assert_eq!(limits.exceeded(0, (5 << 40) + 1), Some(("data", (5 << 40) + 1, 5 << 40)));
        assert_eq!(ReplyLimits::default().exceeded(u64::MAX, u64::MAX), None);
        let one = |header_max, data_max| ReplyLimits { header_max, data_max }.is_unlimited();
        assert_eq!([one(u64::MAX, u64::MAX), one(0, u64::MAX), one(u64::MAX, 0)], [true, false, false]);
    }
}
