//! Tests of rendezvous.

#![cfg(test)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod bootstrap;
mod both_ways;
mod client;
mod http;
mod killed;
mod machine;
mod meeting;
mod native;
mod service_thread;
mod store;
mod subscriptions;
#[path = "../support/mod.rs"]
mod support;
mod worlds;
