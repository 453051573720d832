//! Wire.
pub mod level;
pub mod payload;
