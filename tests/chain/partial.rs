//! Partial calls.
