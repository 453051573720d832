//! Values of `-bind-to` and `-map-by` of hydra, and what they are in `gpc run`.

/// Returns the value of `--bind` for one of `-bind-to`.
///
/// # Errors
/// If there is no equal; the message says what to write.
pub(super) fn bind_to(value: &str) -> Result<&'static str, String> {
    match value {
        "none" => Ok("none"),
        // All processors of the host.
        "machine" | "board" => Ok("none"),
        "core" | "core:1" => Ok("core"),
        "socket" | "socket:1" => Ok("socket"),
        "numa" | "numa:1" => Ok("numa"),
        "hwthread" | "hwthread:1" | "rr" => Err(format!(
            "{value}: a process has whole cores here: write core, or place each rank with `gpc run --rank-file`"
        )),
        _ if is_several(value) => Err(format!(
            "{value}: only one core for each process: write socket or numa, or place each rank with `gpc run --rank-file`"
        )),
        _ if is_cache(value) => Err(format!("{value}: caches are unknown here: write core, numa or socket")),
        _ if value.starts_with("user:") => {
            Err(format!("{value}: place each rank with `gpc run --rank-file`"))
        }
        _ => Err(format!("{value}: write none, core, socket or numa")),
    }
}

/// Returns the value of `--map-by` for one of `-map-by`.
///
/// # Errors
/// If there is no equal; the message says what to write.
pub(super) fn map_by(value: &str) -> Result<&'static str, String> {
    match value {
        "slot" => Ok("slot"),
        // A host has one of them, so processes fill it.
        "machine" | "board" => Ok("slot"),
        "node" => Ok("node"),
        "core" | "core:1" => Ok("core"),
        "socket" | "socket:1" => Ok("socket"),
        "hwthread" | "hwthread:1" => Err(format!("{value}: a process has whole cores here: write core")),
        "numa" | "numa:1" => Err(format!(
            "{value}: write socket, or place each rank with `gpc run --rank-file`; -bind-to numa is known"
        )),
        _ if is_several(value) => Err(format!(
            "{value}: only one of these for each process: write core or socket, or place each rank with `gpc run --rank-file`"
        )),
        _ if is_cache(value) => Err(format!("{value}: caches are unknown here: write core or socket")),
        _ => Err(format!("{value}: write slot, node, core or socket")),
    }
}

/// Whether this is a number of objects, such as `core:4`.
fn is_several(value: &str) -> bool {
    let objects = ["hwthread", "core", "socket", "numa"];
    value
        .split_once(':')
        .is_some_and(|(object, count)| objects.contains(&object) && count.parse::<u32>().is_ok())
}

/// Whether this is a level of caches, such as `l2cache`.
fn is_cache(value: &str) -> bool {
    value.split(':').next().is_some_and(|name| name.ends_with("cache"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names of hydra's help were passed on, and refused as values of `--bind`, which the line does not have.
    #[test]
    fn what_has_an_equal_is_that_and_the_rest_says_what_to_write() {
        for (theirs, ours) in [
            ("none", "none"),
            ("machine", "none"),
            ("board", "none"),
            ("core", "core"),
            ("core:1", "core"),
            ("socket:1", "socket"),
            ("numa", "numa"),
        ] {
            assert_eq!(bind_to(theirs), Ok(ours), "{theirs}");
        }
        for (theirs, ours) in [
            ("slot", "slot"),
            ("machine", "slot"),
            ("node", "node"),
            ("core:1", "core"),
            ("socket", "socket"),
        ] {
            assert_eq!(map_by(theirs), Ok(ours), "{theirs}");
        }
        for (value, advice) in [
            ("hwthread", "write core, or place each rank"),
            ("rr", "write core, or place each rank"),
            ("core:2", "write socket or numa"),
            ("core:0", "write socket or numa"),
            ("hwthread:4", "write socket or numa"),
            ("l2cache", "write core, numa or socket"),
            ("l3cache:2", "write core, numa or socket"),
            ("user:0+2,1", "place each rank with"),
            ("core:", "write none, core, socket or numa"),
            ("cor", "write none, core, socket or numa"),
            ("", "write none, core, socket or numa"),
        ] {
            let error = bind_to(value).unwrap_err();
            assert!(error.starts_with(&format!("{value}: ")) && error.contains(advice), "{error}");
        }
        for (value, advice) in [
            ("hwthread", "write core"),
            ("numa", "write socket"),
            ("socket:2", "write core or socket, or place"),
            ("l1cache", "write core or socket"),
            ("ppr:2:node", "write slot, node, core or socket"),
        ] {
            let error = map_by(value).unwrap_err();
            assert!(error.starts_with(&format!("{value}: ")) && error.contains(advice), "{error}");
        }
    }
}
