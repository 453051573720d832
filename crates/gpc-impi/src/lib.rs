//! IMPI start-up: the collecting server, its client, and the bootstrap that makes several clusters one set of nodes.
//!
//! # Map of the sources
//!
//! If a line names several files, their descriptions follow in the same order.
//!
//! | module | contents |
//! |---|---|
//! | [`wire`] | commands, labels, versions, keys, and the reader that decodes them |
//! | [`server`] | the server as a state machine without I/O |
//! | [`serve`] | the server over sockets: `driver` (the loop), `link` (a connection), `stopper`, `error` |
//! | [`client`] | the client as a state machine without I/O: sends its cluster's values, and interprets those of all |
//! | [`session`] | a client over TCP |
//! | `silence` | detects that the host at the other end has died |
//! | [`hosts_file`] | the file with the hosts and processes that a client speaks for |
//! | [`book`] | the addresses of all processes, by id |
//! | [`bootstrap`] | makes the processes of several clusters one set of nodes |
//!
//! ## Files
//!
//! | file | for |
//! |---|---|
//! | `wire/command`, `label`, `reader` | commands; labels; bytes to commands |
//! | `wire/auth`, `version` | authentication; versions |
//! | `server/machine`, `seat`, `settings` | the session; one client in it; settings |
//! | `server/joining`, `collecting` | from a connection to a client; COLL, DONE and FINI |
//! | `server/check` | checks of values |
//! | `server/event`, `failure` | events for observers; the first failure |
//! | `client/exchange`, `incoming` | a session whose owner chooses the labels; commands within limits |
//! | `client/machine`, `settings`, `values` | the session; settings, and their checks; the cluster's values as bytes |
//! | `client/answers`, `learn`, `learned` | broadcasts, divided among the clients; what they mean; the result |
//! | `client/learn_error` | inconsistent values |
//! | `client/cluster`, `address` | a cluster; addresses of hosts and processes |
//! | `client/event`, `fault` | events for observers; failures |
//! | `session/connect`, `joining` | from a name to a socket; reads and writes until all clients are done |
//! | `session/exchange`, `pipe` | a session whose owner chooses the labels; a connection that does not block |
//! | `session/error` | errors |
//! | `bootstrap/cluster`, `root_client` | gathers and announces within a cluster; the root as a client |
//! | `bootstrap/answer`, `pending_call`, `variables` | the announcement; a waiting call; environment variables |
//! | `bootstrap/setup`, `error` | parameters; errors |
//!
//! Source: IMPI, "Startup", of the Interoperable MPI protocol, draft of March 1999.
#![deny(unsafe_code)]

pub mod book;
pub mod bootstrap;
pub mod client;
pub mod hosts_file;
pub mod serve;
pub mod server;
pub mod session;
mod silence;
pub mod wire;
