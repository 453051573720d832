//! User-defined trees, in the two ways that need no file: a split that every id evaluates, and a children function that
//! the root lays out once.
//!
//! `cargo run --example custom_tree`
#![allow(clippy::print_stdout, clippy::print_stderr)]

use chained_gpc::{Call, Functions, Group, Groups, Layout, Limits, LinkKind, LocalNodes, Registered};

const NODES: u32 = 16;

/// A split of a slice of `n` positions: the first third of the rest goes to one child, and what remains to another.
fn lopsided(n: u32, groups: &mut Groups) {
    let rest = n - 1;
    let third = rest.div_ceil(3);
    groups.push(Group { start: 1, len: third });
    if rest > third {
        groups.push(Group { start: 1 + third, len: rest - third });
    }
}

fn main() {
    if let Err(error) = run() {
        eprintln!("{error}");
        std::process::exit(1);
    }
}

fn run() -> Result<(), Box<dyn std::error::Error>> {
    let functions = Functions::new();
    let parent = functions.func("parent", |request, reply| {
        let parent = request.parent().map_or("nobody".to_owned(), |id| format!("id {id}"));
        reply.data =
            format!("called by {parent}, passes it on to {} more", request.ids().len() - 1).into_bytes();
        Ok(())
    })?;
    functions.tree(Registered::new("lopsided", lopsided)?)?;
    let split = functions.named_tree(&"lopsided".parse()?)?;

    // Positions of the list, as in a heap; the nodes need not know this function.
    let heap = |place: u32, children: &mut Vec<u32>| {
        children.extend([2 * place + 1, 2 * place + 2].into_iter().filter(|child| *child < NODES));
    };
    let layout = Layout::from_children(NODES, heap, &Limits::default())?;

    let nodes = LocalNodes::start(NODES, LinkKind::Unix, &functions)?;
    for (name, call) in [
        ("lopsided", Call::new(parent).ids(0..NODES).tree(split)),
        ("heap", Call::new(parent).ids(0..NODES).tree(layout)),
    ] {
        let outcome = nodes.root().call(call)?.wait()?;
        println!("{name}: {} levels", outcome.level());
        for reply in outcome.replies()? {
            println!("  {:2} {}", reply.id, String::from_utf8_lossy(&reply.data));
        }
    }

    // A bad tree is refused before any message is sent, with a counter-example.
    let ring = Layout::from_parents(&[None, Some(2), Some(1)], &Limits::default());
    println!("a ring: {}", ring.err().map_or("accepted".to_owned(), |error| error.to_string()));
    Ok(())
}
