//! URL of a service on a node.

use chained_gpc::{Id, Job};

/// Prefix of the URL.
const SCHEME: &str = "gpc://";

/// The service of a handle is not on a node.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the service of this handle is not on a node: its URL is gpc://JOB/ID there")]
pub struct NotNative;

/// The URL of the service on this node.
pub fn service_url(job: Job, id: Id) -> String {
    format!("{SCHEME}{job}/{id}")
}

/// The node that a URL names.
///
/// # Errors
/// Returns an error if the URL is not that of a service on a node.
pub fn service_of(url: &str) -> Result<(Job, Id), NotNative> {
    let (job, id) = url.strip_prefix(SCHEME).and_then(|rest| rest.split_once('/')).ok_or(NotNative)?;
    let (job, id) = (job.parse().map_err(|_| NotNative)?, id.parse().map_err(|_| NotNative)?);
    // Only the canonical form is accepted.
    if service_url(job, id) == url { Ok((job, id)) } else { Err(NotNative) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn other_text_is_refused() {
        let job = "00112233445566778899aabbccddeeff";
        assert_eq!(service_of(&format!("gpc://{job}/7")), Ok((job.parse().unwrap(), 7)));
        for url in
            ["http://host/rendezvous", "gpc://7", &format!("gpc://{job}/07"), &format!("gpc://{job}/-1"), ""]
        {
            assert_eq!(service_of(url), Err(NotNative), "{url}");
        }
    }

    proptest! {
        #[test]
        fn every_url_is_read_back(job: [u8; 16], id: Id) {
            prop_assert_eq!(service_of(&service_url(Job(job), id)), Ok((Job(job), id)));
        }

        #[test]
        fn any_text_is_a_url_or_refused(text in "(gpc://)?[0-9a-f]{0,40}/?[0-9+-]{0,12}") {
            if let Ok((job, id)) = service_of(&text) {
                prop_assert_eq!(service_url(job, id), text);
            }
        }
    }
}
