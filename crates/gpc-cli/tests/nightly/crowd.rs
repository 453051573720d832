//! A call over a thousand processes.

use crate::processes::{coverage, json_of};

#[test]
fn a_thousand_processes_answer() {
    for link in ["unix", "tcp"] {
        let value = json_of(&format!("call sum -n 1024 --tree kary:8 --link {link} --time-limit 2m"));
        // 1024 * 1025 * 2049 / 6
        assert_eq!(value["replies"][0]["data"], "358438400");
        assert_eq!(coverage(&value), [1024, 0, 0, 0]);
    }
}
