//! Encodes and decodes the plain values in orders and requests: integers, texts, lists, durations.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use chained_gpc::wire::fields::{Fields, FieldsError as CodecError};

/// A buffer that values are appended to.
#[derive(Default)]
pub(super) struct Writer(pub(super) Vec<u8>);

/// A value with an encoding.
pub(super) trait Coded: Sized {
    /// Appends the encoding.
    fn put(&self, out: &mut Writer);

    /// Decodes a value.
    ///
    /// # Errors
    /// The bytes are not a valid encoding.
    fn get(bytes: &mut Fields<'_>) -> Result<Self, CodecError>;

    /// Appends several values, preceded by their number.
    fn put_all(values: &[Self], out: &mut Writer) {
        let values = numbered(values, out);
        values.iter().for_each(|value| value.put(out));
    }

    /// Decodes several values.
    ///
    /// # Errors
    /// The bytes are not a valid encoding.
    fn get_all(bytes: &mut Fields<'_>) -> Result<Vec<Self>, CodecError> {
        let count = u32::get(bytes)?;
        // Reserves no memory in advance. Terminates: each element takes at least one byte.
        let mut values = Vec::new();
        for _ in 0..count {
            values.push(Self::get(bytes)?);
        }
        Ok(values)
    }
}

/// Appends the number of values. Values beyond what 4 bytes count are dropped; the limits of a domain are far below
/// that.
fn numbered<'a, T>(values: &'a [T], out: &mut Writer) -> &'a [T] {
    let count = u32::try_from(values.len()).unwrap_or(u32::MAX);
    count.put(out);
    &values[..count as usize]
}

macro_rules! integers {
    ($($type:ty),+) => {
        $(impl Coded for $type {
            fn put(&self, out: &mut Writer) {
                out.0.extend_from_slice(&self.to_le_bytes());
            }

            fn get(bytes: &mut Fields<'_>) -> Result<Self, CodecError> {
                bytes.array().map(Self::from_le_bytes)
            }
        })+
    };
}

integers!(u16, u32, u64, i32);

/// Encoded as u64 on every machine.
impl Coded for usize {
    fn put(&self, out: &mut Writer) {
        (*self as u64).put(out);
    }

    fn get(bytes: &mut Fields<'_>) -> Result<usize, CodecError> {
        usize::try_from(u64::get(bytes)?)
            .map_err(|_| CodecError::Field("a number is larger than this machine counts"))
    }
}

impl Coded for u8 {
    fn put(&self, out: &mut Writer) {
        out.0.push(*self);
    }

    fn get(bytes: &mut Fields<'_>) -> Result<u8, CodecError> {
        bytes.u8()
    }

    fn put_all(values: &[u8], out: &mut Writer) {
        let values = numbered(values, out);
        out.0.extend_from_slice(values);
    }

    fn get_all(bytes: &mut Fields<'_>) -> Result<Vec<u8>, CodecError> {
        let len = u32::get(bytes)?;
        bytes.take(len as usize).map(<[u8]>::to_vec)
    }
}

impl Coded for bool {
    fn put(&self, out: &mut Writer) {
        u8::from(*self).put(out);
    }

    fn get(bytes: &mut Fields<'_>) -> Result<bool, CodecError> {
        bytes.flag()
    }
}

impl<T: Coded> Coded for Option<T> {
    fn put(&self, out: &mut Writer) {
        self.is_some().put(out);
        if let Some(value) = self {
            value.put(out);
        }
    }

    fn get(bytes: &mut Fields<'_>) -> Result<Option<T>, CodecError> {
        match bool::get(bytes)? {
            true => T::get(bytes).map(Some),
            false => Ok(None),
        }
    }
}

impl<T: Coded, E: Coded> Coded for Result<T, E> {
    fn put(&self, out: &mut Writer) {
        self.is_ok().put(out);
        match self {
            Ok(value) => value.put(out),
            Err(error) => error.put(out),
        }
    }

    fn get(bytes: &mut Fields<'_>) -> Result<Result<T, E>, CodecError> {
        match bool::get(bytes)? {
            true => T::get(bytes).map(Ok),
            false => E::get(bytes).map(Err),
        }
    }
}

impl<T: Coded> Coded for Vec<T> {
    fn put(&self, out: &mut Writer) {
        T::put_all(self, out);
    }

    fn get(bytes: &mut Fields<'_>) -> Result<Vec<T>, CodecError> {
        T::get_all(bytes)
    }
}

impl<T: Coded, U: Coded> Coded for (T, U) {
    fn put(&self, out: &mut Writer) {
        self.0.put(out);
        self.1.put(out);
    }

    fn get(bytes: &mut Fields<'_>) -> Result<(T, U), CodecError> {
        Ok((T::get(bytes)?, U::get(bytes)?))
    }
}

impl<T: Coded> Coded for Arc<T> {
    fn put(&self, out: &mut Writer) {
        T::put(self, out);
    }

    fn get(bytes: &mut Fields<'_>) -> Result<Arc<T>, CodecError> {
        T::get(bytes).map(Arc::new)
    }
}

impl Coded for String {
    fn put(&self, out: &mut Writer) {
        let len = self.floor_char_boundary(u32::MAX as usize);
        u8::put_all(&self.as_bytes()[..len], out);
    }

    fn get(bytes: &mut Fields<'_>) -> Result<String, CodecError> {
        let len = u32::get(bytes)?;
        bytes.text(len as usize).map(str::to_owned)
    }
}

/// Encoded in nanoseconds; a duration of more than 584 years is encoded as the longest one.
impl Coded for Duration {
    fn put(&self, out: &mut Writer) {
        u64::try_from(self.as_nanos()).unwrap_or(u64::MAX).put(out);
    }

    fn get(bytes: &mut Fields<'_>) -> Result<Duration, CodecError> {
        u64::get(bytes).map(Duration::from_nanos)
    }
}

/// Encoded in ascending order without duplicates.
impl<T: Coded + Ord> Coded for BTreeSet<T> {
    fn put(&self, out: &mut Writer) {
        // Elements beyond what 4 bytes count are dropped, as in a list.
        let count = u32::try_from(self.len()).unwrap_or(u32::MAX);
        count.put(out);
        self.iter().take(count as usize).for_each(|value| value.put(out));
    }

    fn get(bytes: &mut Fields<'_>) -> Result<BTreeSet<T>, CodecError> {
        let members: Vec<T> = Coded::get(bytes)?;
        if !members.is_sorted_by(|one, next| one < next) {
            return Err(CodecError::Field("elements of a set are not in ascending order"));
        }
        Ok(members.into_iter().collect())
    }
}
