//! The merge of histograms: lists of buckets and their counts.
//!
//! An element is the number of a bucket (`i64`) and a count (`u64`), both little-endian. A merged list has each bucket
//! once, in ascending order.

use std::collections::BTreeMap;

use super::error::ReductionError;

/// Length of an element in bytes.
const ELEMENT: usize = 16;

/// The data of a reply: buckets and their counts.
pub fn histogram_bytes(buckets: impl IntoIterator<Item = (i64, u64)>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (bucket, count) in buckets {
        bytes.extend_from_slice(&bucket.to_le_bytes());
        bytes.extend_from_slice(&count.to_le_bytes());
    }
    bytes
}

/// Buckets and their counts, from the data of a reply. Counts of one bucket are added up; they stop at `u64::MAX`.
///
/// # Errors
/// The bytes are not whole elements.
pub fn histogram(bytes: &[u8]) -> Result<BTreeMap<i64, u64>, ReductionError> {
    let mut buckets = BTreeMap::new();
    add(&mut buckets, bytes)?;
    Ok(buckets)
}

/// Adds the counts of `more` to those of `own`.
///
/// # Errors
/// As for [`histogram`].
pub(super) fn merge(own: &mut Vec<u8>, more: &[u8]) -> Result<(), ReductionError> {
    let mut buckets = histogram(own)?;
    add(&mut buckets, more)?;
    *own = histogram_bytes(buckets);
    Ok(())
}

fn add(buckets: &mut BTreeMap<i64, u64>, bytes: &[u8]) -> Result<(), ReductionError> {
    let (elements, rest) = bytes.as_chunks::<ELEMENT>();
    if !rest.is_empty() {
        return Err(ReductionError::PartialBucket(bytes.len()));
    }
    for element in elements {
        let [bucket, count] = [&element[..8], &element[8..]].map(|half| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(half);
            bytes
        });
        let sum = buckets.entry(i64::from_le_bytes(bucket)).or_insert(0);
        *sum = sum.saturating_add(u64::from_le_bytes(count));
    }
    Ok(())
}
