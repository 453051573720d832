//! Suggests a known word for an unknown one.

/// Similarity from which one word suggests another, the same as clap's for arguments.
const ALIKE: f64 = 0.7;

/// Returns the known word that was probably meant.
pub(crate) fn meant<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // In short words, one letter lowers the similarity more than it should.
    let alike = |known: &str| match strsim::osa_distance(word, known) {
        1 if word.len() > 1 => 1.0,
        _ => strsim::jaro(word, known),
    };
    let scored = known.into_iter().map(|known| (alike(known), known));
    let best = scored.filter(|(alike, _)| *alike > ALIKE).max_by(|(one, _), (other, _)| one.total_cmp(other));
    best.map(|(_, known)| known)
}

/// Returns the question after an unknown word; empty if no known word is close.
pub(crate) fn did_you_mean(word: Option<impl AsRef<str>>) -> String {
    word.map_or_else(String::new, |word| format!(" (did you mean `{}`?)", word.as_ref()))
}
