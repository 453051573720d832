//! Reading the fields of what a service is asked and answers: little-endian integers, flags and texts, from the front of some bytes.
//!
//! For packages on top of chained GPC that have a wire of their own inside the header and the data of a call. No length is believed: what a field says it has must be there.

/// Bytes that do not say what they should.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FieldsError {
    /// They are of another version.
    #[error("they are of version {found}, and this is version {known}: run the same version everywhere")]
    Version {
        /// Theirs.
        found: u8,
        /// This one.
        known: u8,
    },
    /// They end too early.
    #[error("they end too early")]
    Short,
    /// More comes behind what they say.
    #[error("more comes behind their end")]
    Long,
    /// One of their fields cannot be as it is.
    #[error("{0}")]
    Field(&'static str),
}

/// Bytes that are read from the front, field by field.
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
    /// All of them.
    pub fn new(bytes: &'a [u8]) -> Fields<'a> {
        Fields(bytes)
    }

    /// So many bytes.
    ///
    /// # Errors
    /// When there are fewer.
    pub fn take(&mut self, len: usize) -> Result<&'a [u8], FieldsError> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(FieldsError::Short)?;
        self.0 = rest;
        Ok(taken)
    }

    /// Bytes whose number the type says.
    ///
    /// # Errors
    /// When there are fewer.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], FieldsError> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(FieldsError::Short)?;
        self.0 = rest;
        Ok(*taken)
    }

    /// A byte.
    ///
    /// # Errors
    /// When there is none.
    pub fn u8(&mut self) -> Result<u8, FieldsError> {
        self.array().map(|[byte]| byte)
    }

    /// An integer of two bytes.
    ///
    /// # Errors
    /// When there are fewer.
    pub fn u16(&mut self) -> Result<u16, FieldsError> {
        self.array().map(u16::from_le_bytes)
    }

    /// An integer of four bytes.
    ///
    /// # Errors
    /// When there are fewer.
    pub fn u32(&mut self) -> Result<u32, FieldsError> {
        self.array().map(u32::from_le_bytes)
    }

    /// An integer of eight bytes.
    ///
    /// # Errors
    /// When there are fewer.
    pub fn u64(&mut self) -> Result<u64, FieldsError> {
        self.array().map(u64::from_le_bytes)
    }

    /// A byte that is 0 or 1.
    ///
    /// # Errors
    /// When there is none, or it is another.
    pub fn flag(&mut self) -> Result<bool, FieldsError> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(FieldsError::Field("a flag is 0 or 1")),
        }
    }

    /// The byte that says the version of what follows.
    ///
    /// # Errors
    /// When there is none, or it is another than the one that is known.
    pub fn version(&mut self, known: u8) -> Result<(), FieldsError> {
        match self.u8()? {
            found if found == known => Ok(()),
            found => Err(FieldsError::Version { found, known }),
        }
    }

    /// A text of so many bytes.
    ///
    /// # Errors
    /// When there are fewer, or they are no UTF-8.
    pub fn text(&mut self, len: usize) -> Result<&'a str, FieldsError> {
        std::str::from_utf8(self.take(len)?).map_err(|_| FieldsError::Field("a text is no UTF-8"))
    }

    /// Nothing may be left.
    ///
    /// # Errors
    /// When something is.
    pub fn end(self) -> Result<(), FieldsError> {
        if self.0.is_empty() { Ok(()) } else { Err(FieldsError::Long) }
    }
}
