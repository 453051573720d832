//! Reader for the fields of a service's requests and answers: little-endian integers, flags and texts, from the front
//! of a byte slice.
//!
//! For packages on top of chained GPC that define a format of their own inside the header and data of a call. Every
//! length is checked against the bytes that are present.

/// Bytes that do not follow the format.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FieldsError {
    /// The bytes are of another version.
    #[error("they are of version {found}, and this is version {known}: run the same version everywhere")]
    Version {
        /// Version of the bytes.
        found: u8,
        /// Version of this program.
        known: u8,
    },
    /// The bytes end too early.
    #[error("they end too early")]
    Short,
    /// Bytes are left behind the last field.
    #[error("more comes behind their end")]
    Long,
    /// A field has an invalid value.
    #[error("{0}")]
    Field(&'static str),
}

/// A byte slice that is read from the front, field by field.
///
/// ```
/// use chained_gpc::wire::fields::{Fields, FieldsError};
///
/// let mut fields = Fields::new(&[1, 7, 0, 2, 0, b'h', b'i']);
/// assert!(fields.flag()?);
/// assert_eq!(fields.u16()?, 7);
/// let length = fields.u16()?;
/// assert_eq!(fields.text(length.into())?, "hi");
/// assert_eq!(fields.u8(), Err(FieldsError::Short));
/// fields.end()?;
/// # Ok::<(), FieldsError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    /// Returns a reader of all these bytes.
    pub fn new(bytes: &'a [u8]) -> Fields<'a> {
        Fields(bytes)
    }

    /// Reads `len` bytes.
    ///
    /// # Errors
    /// If fewer are left.
    pub fn take(&mut self, len: usize) -> Result<&'a [u8], FieldsError> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(FieldsError::Short)?;
        self.0 = rest;
        Ok(taken)
    }

    /// Reads as many bytes as the array type holds.
    ///
    /// # Errors
    /// If fewer are left.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], FieldsError> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(FieldsError::Short)?;
        self.0 = rest;
        Ok(*taken)
    }

    /// Reads a byte.
    ///
    /// # Errors
    /// If none is left.
    pub fn u8(&mut self) -> Result<u8, FieldsError> {
        self.array().map(|[byte]| byte)
    }

    /// Reads an integer of two bytes.
    ///
    /// # Errors
    /// If fewer are left.
    pub fn u16(&mut self) -> Result<u16, FieldsError> {
        self.array().map(u16::from_le_bytes)
    }

    /// Reads an integer of four bytes.
    ///
    /// # Errors
    /// If fewer are left.
    pub fn u32(&mut self) -> Result<u32, FieldsError> {
        self.array().map(u32::from_le_bytes)
    }

    /// Reads an integer of eight bytes.
    ///
    /// # Errors
    /// If fewer are left.
    pub fn u64(&mut self) -> Result<u64, FieldsError> {
        self.array().map(u64::from_le_bytes)
    }

    /// Reads a byte that must be 0 or 1.
    ///
    /// # Errors
    /// If none is left, or it has another value.
    pub fn flag(&mut self) -> Result<bool, FieldsError> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(FieldsError::Field("a flag is 0 or 1")),
        }
    }

    /// Reads the version byte of what follows.
    ///
    /// # Errors
    /// If none is left, or the version is not `known`.
    pub fn version(&mut self, known: u8) -> Result<(), FieldsError> {
        match self.u8()? {
            found if found == known => Ok(()),
            found => Err(FieldsError::Version { found, known }),
        }
    }

    /// Reads a text of `len` bytes.
    ///
    /// # Errors
    /// If fewer are left, or they are not UTF-8.
    pub fn text(&mut self, len: usize) -> Result<&'a str, FieldsError> {
        std::str::from_utf8(self.take(len)?).map_err(|_| FieldsError::Field("a text is no UTF-8"))
    }

    /// Checks that all bytes were read.
    ///
    /// # Errors
    /// If bytes are left.
    pub fn end(self) -> Result<(), FieldsError> {
        if self.0.is_empty() { Ok(()) } else { Err(FieldsError::Long) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_in_order_and_up_to_the_end() {
        let bytes = [
            &[9, 1, 0, 7][..],
            &2u16.to_le_bytes(),
            &3u32.to_le_bytes(),
            &(4u64 << 40).to_le_bytes(),
            b"text",
        ]
        .concat();
        let mut fields = Fields::new(&bytes);
        assert_eq!(fields.version(9), Ok(()));
        assert_eq!((fields.flag(), fields.flag(), fields.u8()), (Ok(true), Ok(false), Ok(7)));
        assert_eq!((fields.u16(), fields.u32(), fields.u64()), (Ok(2), Ok(3), Ok(4 << 40)));
        assert_eq!(fields.clone().end(), Err(FieldsError::Long));
        // What is too long takes nothing.
        assert_eq!((fields.take(5), fields.array::<5>()), (Err(FieldsError::Short), Err(FieldsError::Short)));
        assert_eq!(
            (fields.text(4), fields.u8(), fields.end()),
            (Ok("text"), Err(FieldsError::Short), Ok(()))
        );
    }

    #[test]
    fn wrong_values_are_named() {
        let field = |error: FieldsError| matches!(error, FieldsError::Field(_));
        assert!(Fields::new(&[2]).flag().is_err_and(field) && Fields::new(&[0xff]).text(1).is_err_and(field));
        assert_eq!(Fields::new(&[8]).version(9), Err(FieldsError::Version { found: 8, known: 9 }));
        let short: [fn(&mut Fields<'_>) -> bool; 3] =
            [|fields| fields.u16().is_err(), |fields| fields.u32().is_err(), |fields| fields.u64().is_err()];
        for (read, len) in short.into_iter().zip([1, 3, 7]) {
            assert!(read(&mut Fields::new(&vec![0; len])));
        }
    }
}
