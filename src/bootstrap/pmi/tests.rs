//! Conversations with a server that is not there, dies, or says nonsense.
