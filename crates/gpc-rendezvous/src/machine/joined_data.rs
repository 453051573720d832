//! Joins the data of a complete resource's registrants into level-n data: their count, then the data by rank.
//!
//! Source: WS Rendezvous, "Data format".

use bytes::{BufMut as _, Bytes, BytesMut};
use chained_gpc::wire::level::count;

/// Longest count in bytes: its digits and the space after them.
const COUNT_MAX: usize = 21;

/// Joins data of the level below into data of `level`, which is at least 1. Returns the joined data and the offset of
/// each member's data. At level 1 the members are arbitrary bytes, each preceded by its length.
pub fn join_data<'a>(
    level: u16,
    members: impl ExactSizeIterator<Item = &'a Bytes> + Clone,
) -> (Bytes, Vec<usize>) {
    let members_count = members.len();
    let bytes: usize = members.clone().map(|data| data.len() + if level == 1 { COUNT_MAX } else { 0 }).sum();
    let mut out = BytesMut::with_capacity(bytes + COUNT_MAX);
    let mut begins = Vec::with_capacity(members_count);
    count(&mut out, members_count);
    for data in members {
        if level == 1 {
            count(&mut out, data.len());
        }
        begins.push(out.len());
        out.put_slice(data);
    }
    (out.freeze(), begins)
}

#[cfg(test)]
mod tests {
    use super::*;
    use chained_gpc::wire::level::{Limits, validate};

    /// The golden vector of the source: two subjobs of two processes, each with the bytes 1 2 3.
    #[test]
    fn two_subjobs_of_two_processes() {
        let process = Bytes::from_static(&[1, 2, 3]);
        let (subjob, begins) = join_data(1, [&process, &process].into_iter());
        assert_eq!(begins, [4, 9]);
        let (multijob, begins) = join_data(2, [&subjob, &subjob].into_iter());
        assert_eq!(begins, [2, 14]);
        assert_eq!(&multijob[..], b"2 2 3 \x01\x02\x033 \x01\x02\x032 3 \x01\x02\x033 \x01\x02\x03");
    }

    #[test]
    fn counts_of_all_lengths_are_read_back() {
        for count in [0, 1, 9, 10, 100, 12_345] {
            let members = vec![Bytes::from(vec![b' '; count]); count.clamp(1, 200)];
            let (data, _) = join_data(1, members.iter());
            assert_eq!(validate(1, &data, Limits::default()), Ok(members.len() as u64));
        }
    }
}
