//! What a root makes of what clusters say.
