//! Rendezvous over chained GPC: a service on a node, its clients, and the wire format between them.
//!
//! [`Host`] is the service: functions of a node, which reply when the answer is available. [`Client`] asks it from
//! another node; each request is a call over one id, that of the service. [`Tasks`](crate::meeting::Tasks) belongs to
//! every task of a job. With it the controlling task announces the completion of the top, or its failure, to the whole
//! job, by one chained call along a tree.
//!
//! Source: WS Rendezvous, "Rendezvous port type" and "Flow of control".
//!
//! # Handles
//!
//! The URL of a service on a node is `gpc://JOB/ID`: the job of the nodes, 32 hexadecimal digits, and the id of the
//! service's node.
//!
//! # Access
//!
//! The functions are restricted to links that are [proved](chained_gpc::Access::Proved), and to calls that come
//! directly from their root. So a caller is identified by its link, never by the content of its request. A registrant
//! or controlling task may ask to live as long as that link ([`Life::Member`](crate::Life::Member)).
//!
//! # Bytes
//!
//! Each operation is a function, `gpc.rendezvous.NAME`. The header of a request and of a reply begins with the version,
//! 2; the data are a registrant's data, or level-n data. Integers are little-endian and of fixed width.
//!
//! - A *text* is its length as u16, then UTF-8.
//! - `x?` is a byte, 0 or 1, and after a 1 the value x.
//! - A *rank* is a `u64?`; if absent, the rank is to be assigned.
//! - A *unit* is a `u32?`; if absent, the unit is the resource's own.
//! - A *life* is a byte: 0 unseen; 1 with a lease, then u64 milliseconds; 2 as long as the link.
//! - A *fault* is its number as u16, its message as text, the rank that it concerns as `u64?`, the task as `text?`.
//!
//! The header of a request, after the version:
//!
//! - `create`: capacity u64, level `u64?`, lifetime `u64?` (milliseconds), job `16 bytes?`, joint u8, parent (handle as
//!   text, rank)`?`
//! - `register`: resource 16 bytes, rank, token text, life; the data are the registrant's
//! - `withdraw`: resource 16 bytes, rank u64, token text
//! - `wait`: resource 16 bytes, 0 for its own completion or 1 for that of the top, limit u64 (milliseconds), token
//!   `text?`
//! - `properties`, `destroy`: resource 16 bytes
//! - `registrant`: resource 16 bytes, rank u64
//! - `control`: resource 16 bytes, unit, name text, token text, life
//! - `release`: resource 16 bytes, unit, token text, why it is lost `text?`
//! - `end-job`: job 16 bytes
//!
//! The header of a reply, after the version, is a byte for the kind of answer and its fields:
//!
//! - 0, a fault: fault
//! - 1, created: resource 16 bytes
//! - 2, registered: rank u32, tally u32, capacity u32
//! - 3, completed: level u16, (job 16 bytes, length of the secret u16, secret)`?`; the data are the level-n data
//! - 4, not yet
//! - 5, properties: resource 16 bytes, level u16, capacity u32, tally u32, count of missing ranks u8, each u32, bytes
//!   u64, completed u8, failed `fault?`, waiting u64, created u64, expires u64 (milliseconds since 1970), job
//!   `16 bytes?`, above `text?`
//! - 6, data: the data are the registrant's
//! - 7, done
//! - 8, ended: count u64

mod bytes;
mod client;
mod codec;
mod host;
mod link_events;
mod linked_nodes;
mod url;

pub(crate) use client::LIMIT_MAX;
pub use client::{Client, ClientError};
pub use codec::{CodecError, Operation, VERSION, WireRequest, decode_answer, encode_answer};
pub use host::{Host, HostError};
pub use url::{NotNative, service_of, service_url};
