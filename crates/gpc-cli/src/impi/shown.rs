//! Prints what a client has learned, writes the files, and reports processes that they omit.

use gpc_impi::book::Book;
use gpc_impi::client::Learned;
use gpc_impi::wire::Version;

use super::learned::{LearnedShape, write_table};
use crate::args::impi::{ClientArgs, ClientOutput};
use crate::output::write_json;
use crate::refused::Refused;
use crate::{Failure, files, say, stdout};

/// Writes the files, then prints.
pub(super) fn show(learned: &Learned, args: &ClientArgs) -> Result<(), Failure> {
    let of_all = matches!(args.output, ClientOutput::Peers | ClientOutput::Hosts);
    if of_all || args.peers_out.is_some() || args.hosts_out.is_some() {
        let book = Book::of(learned, args.ports.into())?;
        book.distinct()?;
        left_out(learned, &book).iter().for_each(|text| say(text));
        if let Some(path) = &args.peers_out {
            files::write_text(path, &book.peers_text()).map_err(Refused::File)?;
        }
        if let Some(path) = &args.hosts_out {
            files::write_text(path, &book.hosts_text()).map_err(Refused::File)?;
        }
        match args.output {
            ClientOutput::Peers => stdout::write(|out| out.write_all(book.peers_text().as_bytes()))?,
            ClientOutput::Hosts => stdout::write(|out| out.write_all(book.hosts_text().as_bytes()))?,
            ClientOutput::Table | ClientOutput::Json => {}
        }
    }
    match args.output {
        ClientOutput::Table => stdout::write(|out| write_table(learned, out))?,
        ClientOutput::Json => stdout::write(|out| write_json(&LearnedShape::of(learned), out))?,
        ClientOutput::Peers | ClientOutput::Hosts => {}
    }
    Ok(())
}

/// Returns warnings if peers and hosts files omit processes, or list some that are not nodes of this project.
fn left_out(learned: &Learned, book: &Book) -> Vec<String> {
    let listed = |client: u32| book.entries.iter().filter(|entry| entry.who.client == client).count();
    let mut missing = Vec::new();
    let mut foreign = Vec::new();
    for (client, cluster) in (0..).zip(&learned.clusters) {
        let (listed, all) = (listed(client), cluster.procs());
        if listed < all {
            missing.push(format!("{} of {all} of client {client}", all - listed));
        }
        // A client that knows the labels of this project has sent its version.
        if listed > 0 && client != learned.rank && !cluster.versions.contains(&Version::OWN) {
            foreign.push(client.to_string());
        }
    }
    let mut said = Vec::new();
    if !missing.is_empty() {
        said.push(format!(
            "processes whose ports nobody has said are left out of files of peers and hosts: {}. The first of each host is there, at the port of its host; --ports plus-rank counts on from that, where all have agreed on it",
            missing.join(", ")
        ));
    }
    if !foreign.is_empty() {
        said.push(format!(
            "files of peers and hosts have processes of clients that have not named gpc's version: {}. Those of another MPI are no nodes, and no call reaches them",
            foreign.join(", ")
        ));
    }
    if let Some(first) = book.elsewhere.first() {
        said.push(format!(
            "processes that have named another address (P_IPV6) than that of their host (H_IPV6): {}, the first is {first}. In files of peers and hosts they have that of their host",
            book.elsewhere.len()
        ));
    }
    said
}

#[cfg(test)]
mod tests {
    use gpc_impi::book::Ports;

    use super::super::learned::tests::learned;
    use super::*;

    fn said(learned: &Learned) -> Vec<String> {
        left_out(learned, &Book::of(learned, Ports::OwnOrFirst).unwrap())
    }

    /// A peers file omitted processes, or listed those of another MPI, without a warning.
    #[test]
    fn who_is_not_in_the_files_is_said() {
        let mut learned = learned();
        // This client is 1; the other one has not sent the version of gpc.
        let words = said(&learned);
        assert!(words.len() == 1 && words[0].contains("have not named gpc's version: 0."), "{words:?}");
        learned.clusters[0].versions.push(Version::OWN);
        assert_eq!(said(&learned), Vec::<String>::new());
        let other = learned.clusters[0].hosts[1].address;
        learned.clusters[0].hosts[0].procs[1].address = other;
        let words = said(&learned);
        assert!(
            words.len() == 1
                && words[0].contains("named another address (P_IPV6) than that of their host (H_IPV6): 1,"),
            "{words:?}"
        );
        assert!(words[0].contains("process 1 of host 0 of client 0"), "{words:?}");
        for process in &mut learned.clusters[0].hosts[0].procs {
            process.port = None;
        }
        let words = said(&learned);
        assert!(
            words.len() == 1 && words[0].contains("of peers and hosts: 1 of 3 of client 0."),
            "{words:?}"
        );
    }
}
