//! Arguments of `gpc copy`.

use std::ffi::OsString;
use std::path::PathBuf;

use chained_gpc::bootstrap::SlotList;

use super::target::TargetArgs;
use crate::duration::Span;
use crate::tree_choice::CallTreeName;

/// Arguments of `gpc copy`.
#[derive(Clone, PartialEq, Debug, clap::Args)]
#[command(after_help = COPY_EXAMPLES)]
pub struct CopyArgs {
    /// Files to copy; with --from, files of the hosts
    #[arg(value_name = "FILE", required = true, num_args = 1..)]
    pub files: Vec<PathBuf>,

    /// Where the files go on the hosts: a folder that exists there, or the new file. It may also follow the hosts:
    /// b[1-64]:/tmp. A relative path starts where the remote shell starts. With --from: a folder of this machine, in
    /// which each host gets a folder
    #[arg(long, value_name = "PATH")]
    pub to: PathBuf,

    /// Collect the files from the hosts, into a folder for each host
    #[arg(long)]
    pub from: bool,

    /// Tree through which the files go; auto is a chain to up to 64 hosts
    #[arg(long, value_name = "TREE", default_value = "auto")]
    pub tree: CallTreeName,

    /// Give up after this time
    #[arg(long, value_name = "TIME")]
    pub time_limit: Option<Span>,

    /// Hosts or nodes.
    #[command(flatten)]
    pub target: TargetArgs,
}

pub(super) const COPY_EXAMPLES: &str = "\
The files go through a tree of hosts: each host passes on what it receives while it writes. The
SHA-256 of each piece is compared, and a file replaces the old one when it is complete. A host
that fails is named, and the others go on; the exit status is then 1.

Examples:
  gpc copy model.bin --hosts b[1-64]:/tmp
  gpc copy a.conf b.conf --hosts b[1-64] --to /etc/app/
  gpc copy --from /etc/app.conf --hosts b[1-64] --to all         all/b1/app.conf, ...";

/// Returns the arguments of the program with a destination behind the hosts, `--hosts LIST:PATH`, as `--to PATH`.
pub(super) fn with_destination(mut arguments: Vec<OsString>) -> Vec<OsString> {
    if arguments.get(1).is_none_or(|word| word != "copy") {
        return arguments;
    }
    // Behind `--` there are files.
    let end = arguments.iter().position(|word| word == "--").unwrap_or(arguments.len());
    let option =
        |word: &OsString| word.to_str().is_some_and(|word| word == "--hosts" || word.starts_with("--hosts="));
    let Some(at) = arguments[..end].iter().position(option) else { return arguments };
    let at = at + usize::from(arguments[at] == "--hosts");
    let Some(text) = arguments.get(at).and_then(|word| word.to_str()) else { return arguments };
    if let Some((hosts, to)) = split(text) {
        let words = [hosts, "--to", to].map(OsString::from);
        arguments.splice(at..=at, words);
    }
    arguments
}

/// Splits a list of hosts from the path behind it. Slots are digits behind a colon, so a path that begins with one is
/// written with `./` before it.
fn split(text: &str) -> Option<(&str, &str)> {
    let list = text.strip_prefix("--hosts=").unwrap_or(text);
    if list.parse::<SlotList>().is_ok() {
        return None;
    }
    let mut inside = false;
    let colon = text.bytes().enumerate().find(|&(at, byte)| {
        inside = byte == b'[' || inside && byte != b']';
        let next = text.as_bytes().get(at + 1);
        byte == b':' && !inside && next.is_some_and(|next| !next.is_ascii_digit())
    });
    let (at, _) = colon?;
    let (hosts, to) = (&text[..at], &text[at + 1..]);
    // A comma would begin another host, whose place is not said.
    (!to.contains(',')).then_some((hosts, to))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_may_follow_the_hosts() {
        for (text, parts) in [
            ("a:/tmp", Some(("a", "/tmp"))),
            ("a:2,b[1-3,7]:2:in/x", Some(("a:2,b[1-3,7]:2", "in/x"))),
            ("a:./1:2", Some(("a", "./1:2"))),
            ("--hosts=a,b:x", Some(("--hosts=a,b", "x"))),
            ("a:2,b", None),
            ("2001:db8::1", None),
            ("a:x,b:x", None),
            ("a", None),
            ("a:", None),
            ("", None),
        ] {
            assert_eq!(split(text), parts, "{text}");
        }
    }

    #[test]
    fn only_the_hosts_of_a_copy_are_split() {
        let of = |line: &str| {
            let words = with_destination(line.split(' ').map(OsString::from).collect());
            words.join(" ".as_ref()).into_string().unwrap()
        };
        assert_eq!(of("gpc copy f --hosts a:/x --from"), "gpc copy f --hosts a --to /x --from");
        assert_eq!(of("gpc copy --hosts=a:/x f"), "gpc copy --hosts=a --to /x f");
        for line in ["gpc call echo --hosts a:/x", "gpc copy -- --hosts a:/x", "gpc copy f --hosts", "gpc"] {
            assert_eq!(of(line), line);
        }
    }
}
