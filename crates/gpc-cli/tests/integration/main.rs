//! Tests of the command as its users run it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod clusters;
mod clusters_mpiexec;
mod command;
mod hydra;
mod impi;
mod launch;
mod partial_processes;
mod plugins;
mod processes;
mod rendezvous;
mod rendezvous_clients;
mod rendezvous_set;
mod run;
mod run_client;
mod secret;
