//! A plug-in: counts words at each id, and keeps the highest count. Build and use it:
//!
//! ```sh
//! cargo build --release -p gpc-plugin --example words
//! gpc call words -n 8 --load target/release/examples/libwords.so --data README.md --callback most --tree thirds
//! ```

use gpc_plugin::{Child, Plugin, Refused, Reply, Request, Token};

gpc_plugin::plugin!(load);

fn load(plugin: &Plugin) -> Result<(), Refused> {
    plugin.func("words", |request: &Request<'_>, reply: &mut Reply<'_>| {
        let words = request.data().split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).count();
        reply.set_data(words.to_string().as_bytes());
        Ok(())
    })?;
    plugin.commutative().callback("most", |_: &Request<'_>, child: &Child<'_>, own: &mut Reply<'_>| {
        if number(child.data) > number(own.data()) {
            own.set_data(child.data);
        }
        Ok(())
    })?;
    // Replies from another thread, so that the node runs other functions meanwhile.
    plugin.deferring("later", |request: &Request<'_>, token: Token| {
        let header = request.header().to_vec();
        std::thread::spawn(move || token.reply(b"", &header));
    })?;
    plugin.tree("thirds", |n| (0..3).map(|part| (n - 1 + part) / 3).filter(|&len| len > 0).collect())
}

/// A reply as a number, if it is one.
fn number(data: &[u8]) -> Option<u64> {
    std::str::from_utf8(data).ok()?.parse().ok()
}
