//! The numbers that arrays consist of: how they are read, written and combined.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;

use super::error::ReductionError;
use super::number_type::NumberType;

/// A number of one of the [types](NumberType) that reductions know: `u32`, `u64`, `i64`, `f32`, `f64`.
pub trait Number: Copy + fmt::Debug + PartialEq + Send + Sync + bytemuck::Pod + sealed::Sealed {
    /// Its type.
    const TYPE: NumberType;
}

/// Only this crate implements [`Number`].
pub(super) mod sealed {
    use std::cmp::Ordering;

    /// How numbers are read and combined.
    pub trait Sealed: Sized + Copy {
        /// The little-endian bytes of a number.
        type Bytes: AsRef<[u8]>;

        /// Reads a number from as many bytes as it has.
        fn read(bytes: &[u8]) -> Self;
        /// The bytes of the number.
        fn bytes(self) -> Self::Bytes;
        /// Combines the numbers of two arrays, element by element, in place of those of `own`. Each type has its own
        /// loop over arrays of its size: one over slices is vectorised only if the optimiser sees all of it, which it
        /// does not in a build without link-time optimisation. It took 40 times as long there.
        fn each(own: &mut [u8], more: &[u8], combine: impl Fn(Self, Self) -> Self);
        /// The sum: integers wrap around.
        fn plus(self, other: Self) -> Self;
        /// A total order; that of IEEE 754 for floating-point numbers.
        fn order(&self, other: &Self) -> Ordering;
    }
}

macro_rules! number {
    ($type:ty, $name:ident, $plus:expr, $order:expr) => {
        impl Number for $type {
            const TYPE: NumberType = NumberType::$name;
        }

        impl sealed::Sealed for $type {
            type Bytes = [u8; size_of::<$type>()];

            #[inline(always)]
            fn read(bytes: &[u8]) -> $type {
                let mut own = [0; size_of::<$type>()];
                own.copy_from_slice(bytes);
                <$type>::from_le_bytes(own)
            }

            #[inline(always)]
            fn bytes(self) -> Self::Bytes {
                self.to_le_bytes()
            }

            #[inline(always)]
            fn each(own: &mut [u8], more: &[u8], combine: impl Fn($type, $type) -> $type) {
                let ((own, _), (more, _)) = (own.as_chunks_mut(), more.as_chunks());
                for (own, more) in own.iter_mut().zip(more) {
                    *own = combine(<$type>::from_le_bytes(*own), <$type>::from_le_bytes(*more)).to_le_bytes();
                }
            }

            #[inline(always)]
            fn plus(self, other: $type) -> $type {
                $plus(self, other)
            }

            #[inline(always)]
            fn order(&self, other: &$type) -> Ordering {
                $order(self, other)
            }
        }
    };
}

number!(u32, U32, u32::wrapping_add, Ord::cmp);
number!(u64, U64, u64::wrapping_add, Ord::cmp);
number!(i64, I64, i64::wrapping_add, Ord::cmp);
number!(f32, F32, |a: f32, b: f32| a + b, f32::total_cmp);
number!(f64, F64, |a: f64, b: f64| a + b, f64::total_cmp);

/// The numbers in little-endian bytes, such as the data of a request or of a reply. They are borrowed where the bytes
/// lie as the numbers would in memory, and copied otherwise.
///
/// ```
/// use chained_gpc::reduce::{bytes_of, numbers};
///
/// let bytes = bytes_of(&[1.5, -2.0]);
/// assert_eq!(numbers::<f64>(&bytes)?.iter().sum::<f64>(), -0.5);
/// // At an odd address.
/// let shifted = [&[0], &bytes[..]].concat();
/// assert_eq!(*numbers::<f64>(&shifted[1..])?, [1.5, -2.0]);
/// assert_eq!(numbers::<f64>(&bytes[..9]).unwrap_err().to_string(), "9 bytes are no whole numbers of 8 bytes (f64)");
/// # Ok::<(), chained_gpc::reduce::ReductionError>(())
/// ```
///
/// # Errors
/// The bytes are not whole numbers.
pub fn numbers<T: Number>(bytes: &[u8]) -> Result<Cow<'_, [T]>, ReductionError> {
    if !bytes.len().is_multiple_of(T::TYPE.size()) {
        return Err(ReductionError::Partial { bytes: bytes.len(), of: T::TYPE });
    }
    match bytemuck::try_cast_slice(bytes) {
        Ok(numbers) if cfg!(target_endian = "little") => Ok(Cow::Borrowed(numbers)),
        _ => Ok(Cow::Owned(bytes.chunks_exact(T::TYPE.size()).map(T::read).collect())),
    }
}

/// The little-endian bytes of numbers: the data of a request or of a reply.
pub fn bytes_of<T: Number>(numbers: &[T]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(size_of_val(numbers));
    for number in numbers {
        bytes.extend_from_slice(number.bytes().as_ref());
    }
    bytes
}

/// Runs a generic function for the type that a value names.
macro_rules! with_type {
    ($of:expr, $run:ident($($argument:expr),*)) => {
        match $of {
            $crate::reduce::number_type::NumberType::U32 => $run::<u32>($($argument),*),
            $crate::reduce::number_type::NumberType::U64 => $run::<u64>($($argument),*),
            $crate::reduce::number_type::NumberType::I64 => $run::<i64>($($argument),*),
            $crate::reduce::number_type::NumberType::F32 => $run::<f32>($($argument),*),
            $crate::reduce::number_type::NumberType::F64 => $run::<f64>($($argument),*),
        }
    };
}
pub(super) use with_type;
