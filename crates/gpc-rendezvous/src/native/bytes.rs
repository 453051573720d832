//! Reads and writes the fields of requests and answers: little-endian integers, and texts preceded by their lengths.

use chained_gpc::wire::fields::{Fields, FieldsError as CodecError};
use chained_gpc::{Job, Secret};

use crate::machine::{Handle, Life, RankChoice, ResourceId, Token};

/// Reads the fields of this service that are not plain integers.
pub(super) trait Read<'a>: Sized {
    /// Reads an optional field.
    fn option<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, CodecError>,
    ) -> Result<Option<T>, CodecError>;
    /// Reads a text preceded by its length.
    fn named(&mut self) -> Result<&'a str, CodecError>;
    fn resource(&mut self) -> Result<ResourceId, CodecError>;
    fn job(&mut self) -> Result<Job, CodecError>;
    fn secret(&mut self) -> Result<Secret, CodecError>;
    fn token(&mut self) -> Result<Token, CodecError>;
    fn handle(&mut self) -> Result<Handle, CodecError>;
    fn wanted(&mut self) -> Result<RankChoice, CodecError>;
    fn life(&mut self) -> Result<Life, CodecError>;
}

impl<'a> Read<'a> for Fields<'a> {
    fn option<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, CodecError>,
    ) -> Result<Option<T>, CodecError> {
        match self.flag()? {
            true => read(self).map(Some),
            false => Ok(None),
        }
    }

    fn named(&mut self) -> Result<&'a str, CodecError> {
        let len = self.u16()?;
        self.text(len.into())
    }

    fn resource(&mut self) -> Result<ResourceId, CodecError> {
        self.array().map(ResourceId)
    }

    fn job(&mut self) -> Result<Job, CodecError> {
        self.array().map(Job)
    }

    fn secret(&mut self) -> Result<Secret, CodecError> {
        let len = self.u16()?;
        Secret::new(self.take(len.into())?).map_err(|_| CodecError::Field("the secret has no length of one"))
    }

    fn token(&mut self) -> Result<Token, CodecError> {
        Token::new(self.named()?).ok_or(CodecError::Field("a token is none"))
    }

    fn handle(&mut self) -> Result<Handle, CodecError> {
        self.named()?.parse().map_err(|_| CodecError::Field("a handle is none"))
    }

    fn wanted(&mut self) -> Result<RankChoice, CodecError> {
        Ok(self.option(Self::u64)?.map_or(RankChoice::Assign, RankChoice::Rank))
    }

    fn life(&mut self) -> Result<Life, CodecError> {
        match self.u8()? {
            0 => Ok(Life::Unseen),
            1 => self.u64().map(Life::Lease),
            // The decoder takes the id from the link.
            2 => Ok(Life::Member(0)),
            _ => Err(CodecError::Field("a life is 0, 1 or 2")),
        }
    }
}

/// Bytes under construction.
#[derive(Default)]
pub(super) struct Writer(pub(super) Vec<u8>);

impl Writer {
    pub(super) fn u8(&mut self, value: u8) {
        self.0.push(value);
    }

    pub(super) fn u16(&mut self, value: u16) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub(super) fn u32(&mut self, value: u32) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub(super) fn u64(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub(super) fn option<T>(&mut self, value: Option<T>, write: impl FnOnce(&mut Self, T)) {
        self.u8(value.is_some().into());
        if let Some(value) = value {
            write(self, value);
        }
    }

    /// Writes a text, truncated if its length does not fit a u16.
    pub(super) fn text(&mut self, text: &str) {
        let text = &text[..text.floor_char_boundary(u16::MAX.into())];
        self.u16(text.len() as u16);
        self.0.extend_from_slice(text.as_bytes());
    }

    pub(super) fn resource(&mut self, resource: ResourceId) {
        self.0.extend_from_slice(&resource.0);
    }

    pub(super) fn job(&mut self, job: Job) {
        self.0.extend_from_slice(&job.0);
    }

    pub(super) fn secret(&mut self, secret: &Secret) {
        let bytes = secret.as_bytes();
        // A secret has at most 1,024 bytes.
        self.u16(bytes.len() as u16);
        self.0.extend_from_slice(bytes);
    }

    pub(super) fn token(&mut self, token: &Token) {
        self.text(token.as_str());
    }

    pub(super) fn handle(&mut self, handle: &Handle) {
        self.text(&handle.to_string());
    }

    pub(super) fn wanted(&mut self, wanted: RankChoice) {
        let rank = match wanted {
            RankChoice::Rank(rank) => Some(rank),
            RankChoice::Assign => None,
        };
        self.option(rank, Self::u64);
    }

    pub(super) fn life(&mut self, life: Life) {
        match life {
            Life::Unseen => self.u8(0),
            Life::Lease(length) => {
                self.u8(1);
                self.u64(length);
            }
            Life::Member(_) => self.u8(2),
        }
    }
}
