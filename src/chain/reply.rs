//! A node's own reply to a call, as its functions produce it.

use bytes::Bytes;

use crate::wire::short::SHORT_MAX;

/// A node's own reply: header and data, as its functions produce them.
///
/// ```
/// use bytes::Bytes;
/// use chained_gpc::Reply;
///
/// let reply = Reply { data: b"few bytes".to_vec(), ..Reply::default() };
/// // Many bytes that are there already go up without being copied.
/// let page = Bytes::from(vec![7; 1 << 20]);
/// let shared = Reply { shared: page.clone(), ..Reply::default() };
/// assert_eq!((reply.len(), shared.len()), (9, 1 << 20));
/// ```
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Reply {
    /// Reply header.
    pub header: Vec<u8>,
    /// Reply data.
    pub data: Vec<u8>,
    /// More reply data, which follow those of `data`. If `data` is empty and these exceed 16 KiB, they are not copied.
    pub shared: Bytes,
}

impl Reply {
    /// Returns a reply without a header, whose data are shared and not copied.
    pub fn shared(data: impl Into<Bytes>) -> Reply {
        Reply { shared: data.into(), ..Reply::default() }
    }

    /// Length of header and data together, in bytes.
    pub fn len(&self) -> usize {
        self.header.len() + self.data_len()
    }

    /// Whether header and data are both empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Length of the data, in bytes.
    pub(super) fn data_len(&self) -> usize {
        self.data.len() + self.shared.len()
    }

    /// Joins the data into one part. Shared data are copied if they are short, or if other data precede them.
    pub fn settle(&mut self) {
        if !self.shared.is_empty() && (!self.data.is_empty() || self.shared.len() <= SHORT_MAX) {
            self.own_data();
        }
    }

    /// Returns all data as one mutable buffer.
    pub fn own_data(&mut self) -> &mut Vec<u8> {
        if !self.shared.is_empty() {
            self.own_shared();
        }
        &mut self.data
    }

    #[inline(never)]
    fn own_shared(&mut self) {
        let shared = std::mem::take(&mut self.shared);
        match self.data.is_empty() {
            // Without a copy, unless the data have other holders.
            true => self.data = shared.into(),
            false => self.data.extend_from_slice(&shared),
        }
    }

    /// Returns header and data.
    pub(super) fn into_parts(mut self) -> (Bytes, Bytes) {
        if self.shared.is_empty() || !self.data.is_empty() {
            self.own_data();
            return (self.header.into(), self.data.into());
        }
        (self.header.into(), self.shared)
    }
}
