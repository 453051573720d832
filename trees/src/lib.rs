//! Trees as splits.
