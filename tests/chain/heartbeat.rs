//! Signs of life.
