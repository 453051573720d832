//! A rendezvous by curl, as an independent client.

use std::process::{Command, Output};

use crate::http::raw::{server, started, token};

fn curl(arguments: &[&str]) -> Option<Output> {
    match Command::new("curl").args(["--silent", "--show-error", "--max-time", "20"]).args(arguments).output()
    {
        Ok(output) => Some(output),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            println!("skipped: needs curl");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn text(output: &Output) -> &str {
    assert!(output.status.success(), "{output:?}");
    std::str::from_utf8(&output.stdout).unwrap()
}

#[test]
fn two_tasks_meet_by_curl() {
    let (token, line) = token();
    let server = started(|options| options.token = Some(token));
    let (url, line) = (server.url(), line.trim());
    let Some(created) = curl(&["-H", line, "-d", r#"{"capacity":2}"#, url]) else { return };
    let created: serde_json::Value = serde_json::from_str(text(&created)).unwrap();
    let (handle, id) = (created["handle"].as_str().unwrap(), created["id"].as_str().unwrap());
    // curl follows a handle, as a URL.
    let properties = curl(&["-H", line, "-L", handle]).unwrap();
    assert!(text(&properties).contains(r#""capacity":2"#), "{properties:?}");
    for data in ["one", "two"] {
        let registered =
            curl(&["-H", line, "--data-binary", data, &format!("{url}/{id}/registrants")]).unwrap();
        assert!(text(&registered).contains(r#""capacity":2"#), "{registered:?}");
    }
    let completion = format!("{url}/{id}/completion");
    assert_eq!(text(&curl(&["-H", line, &completion]).unwrap()), "2 3 one3 two");
    let events = curl(&["-H", line, "-N", &format!("{url}/{id}/events")]).unwrap();
    assert!(
        text(&events).contains("event: completed\ndata: {\"level\":1,\"data\":\"MiAzIG9uZTMgdHdv\""),
        "{events:?}"
    );
    assert_eq!(text(&curl(&["-H", line, "-X", "DELETE", &format!("{url}/{id}")]).unwrap()), "");
    let gone = curl(&["-H", line, "-w", " %{http_code} %{content_type}", &completion]).unwrap();
    assert!(text(&gone).ends_with(" 410 application/problem+json"), "{gone:?}");
    let refused = curl(&["-w", " %{http_code}", &completion]).unwrap();
    assert!(text(&refused).ends_with(" 401"), "{refused:?}");
}

/// curl asks before it sends much data: nothing is sent if the data are too long.
#[test]
fn curl_is_told_before_it_sends_too_much() {
    let server = server();
    let path = crate::http::raw::create(&server, r#"{"capacity":1}"#);
    let url = format!("http://{}{path}/registrants", server.address());
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(65 << 20).unwrap();
    let data = format!("@{}", file.path().display());
    let Some(refused) = curl(&["--data-binary", &data, "-w", " %{http_code} %{size_upload}", &url]) else {
        return;
    };
    assert!(text(&refused).ends_with(" 413 0"), "{refused:?}");
}
