//! Writes the seeds into the corpus, beside the files that are there.

use std::path::Path;
use std::{fs, io};

use chained_gpc_fuzz::seeds::seeds;

fn main() -> io::Result<()> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    for seed in seeds() {
        let folder = corpus.join(seed.target);
        fs::create_dir_all(&folder)?;
        fs::write(folder.join(seed.name), seed.bytes)?;
    }
    Ok(())
}
