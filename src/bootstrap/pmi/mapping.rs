//! The processes that share a host, as a PMI server lists them.

/// The key of the server's list of the processes that share a host.
pub(super) const MAPPING: &str = "PMI_process_mapping";

/// Whether all processes are on one host, from `PMI_process_mapping`:
/// `(vector,(FIRST_HOST,HOSTS,PROCESSES_ON_EACH),...)`. `None` for any other text.
pub(super) fn is_one_host(mapping: &str) -> Option<bool> {
    let blocks = mapping.trim().strip_prefix("(vector,(")?.strip_suffix("))")?;
    let mut first = None;
    let mut one = true;
    for block in blocks.split("),(") {
        let mut numbers = block.split(',').map(|number| number.trim().parse::<u32>().ok());
        let (Some(Some(host)), Some(Some(hosts)), Some(Some(_)), None) =
            (numbers.next(), numbers.next(), numbers.next(), numbers.next())
        else {
            return None;
        };
        one &= hosts == 1 && *first.get_or_insert(host) == host;
    }
    Some(one)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapping_says_whether_there_is_one_host() {
        for (mapping, one) in [
            ("(vector,(0,1,8))", Some(true)),
            ("(vector,(0,1,4),(0,1,4))", Some(true)),
            ("(vector,(0,2,4))", Some(false)),
            ("(vector,(0,1,4),(1,1,4))", Some(false)),
            ("(vector,(0,1))", None),
            ("(vector,(0,1,x))", None),
            ("(vector,(0,1,4),)", None),
            ("(matrix,(0,1,4))", None),
            ("", None),
        ] {
            assert_eq!(is_one_host(mapping), one, "{mapping}");
        }
    }
}
