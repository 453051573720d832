//! The rules for the sources: floors, circles of imports, style and length.

mod circles;
mod files;
mod floors;
mod tidy;
