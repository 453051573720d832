//! The page and its session, and requests from pages of other sites.

use gpc_rendezvous::http::{Options, Server};

use crate::http::raw::{ask, connect, options, server, server_with_page, started, token};

const JSON: &str = r#"{"capacity":1}"#;

#[test]
fn the_page_is_behind_the_token_on_loopback_too() {
    let (server, line) = server_with_page();
    let form = ask(&server, "GET /", "", "");
    assert_eq!((form.status, form.header("content-type")), (401, Some("text/html; charset=utf-8")));
    assert!(form.text().contains("action=\"/login\""));
    assert_eq!(ask(&server, "GET /events", "", "").problem(), (401, "unauthorized".into()));
    for body in ["", "token=", "token=0", "other=1", "token=%", &format!("token={}", "0".repeat(64))] {
        let answer = ask(&server, "POST /login", "", body);
        assert!(
            [400, 401].contains(&answer.status) && answer.header("set-cookie").is_none(),
            "{body}: {answer:?}"
        );
    }
    let wrong = ask(&server, "POST /login", "", format!("token={}", "0".repeat(64)));
    assert!(wrong.text().contains("not the token"), "{wrong:?}");
    let token = line.trim().rsplit(' ').next().unwrap();
    let answer = ask(&server, "POST /login", "", format!("token=+{token}"));
    assert_eq!((answer.status, answer.header("location")), (303, Some("/")));
    let cookie = answer.header("set-cookie").unwrap();
    assert!(!cookie.contains(token));
    for attribute in ["HttpOnly", "SameSite=Strict", "Path=/", "Max-Age=43200"] {
        assert!(cookie.split("; ").any(|part| part == attribute), "{cookie}");
    }
    let cookie = cookie.split(';').next().unwrap();
    let page = ask(&server, "GET /", &format!("Cookie: a=b; {cookie}; c=d\r\n"), "");
    assert_eq!(page.status, 200);
    assert!(page.text().contains("/page.js") && !page.text().contains(token));
    let other = format!("Cookie: {}0\r\n", &cookie[..cookie.len() - 1]);
    let guessed = ask(&server, "GET /", &other, "").status;
    assert!(guessed == 401 || cookie.ends_with('0'));
}

/// A session opens the page only; requests to the service need the token.
#[test]
fn the_cookie_opens_the_page_alone() {
    let (token, line) = token();
    let server = started(|options| options.token = Some(token));
    let text = line.trim().rsplit(' ').next().unwrap();
    let answer = ask(&server, "POST /login", "", format!("token={text}"));
    let cookie = answer.header("set-cookie").unwrap().split(';').next().unwrap();
    let lines = format!("Cookie: {cookie}\r\n");
    assert_eq!(ask(&server, "GET /", &lines, "").status, 200);
    assert_eq!(ask(&server, "POST /rendezvous", &lines, JSON).problem(), (401, "unauthorized".into()));
}

#[test]
fn without_any_token_nobody_sees_the_page() {
    let server = server();
    let answer = ask(&server, "POST /login", "", "token=");
    assert_eq!(answer.status, 401);
    assert!(answer.text().contains("no token"));
}

#[test]
fn answers_are_for_nobody_else() {
    let (server, line) = server_with_page();
    for path in ["/", "/page.js", "/page.css", "/openapi.json", "/other", "/rendezvous"] {
        let answer = ask(&server, &format!("GET {path}"), &line, "");
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{path}");
        assert_eq!(answer.header("cache-control"), Some("no-store"), "{path}");
    }
    let page = ask(&server, "GET /", &line, "");
    let policy = page.header("content-security-policy").unwrap();
    assert!(policy.starts_with("default-src 'none'; script-src 'self';"), "{policy}");
    assert!(policy.contains("frame-ancestors 'none'"));
}

#[test]
fn pages_of_other_sites_are_refused() {
    let server = server();
    let port = server.address().port();
    let create = |lines: &str| ask(&server, "POST /rendezvous", lines, JSON).status;
    for lines in [
        "Origin: http://evil.example\r\n".to_owned(),
        "Origin: null\r\n".to_owned(),
        "Sec-Fetch-Site: cross-site\r\n".to_owned(),
        format!("Origin: http://127.0.0.1:{}\r\n", port ^ 1),
        format!("Origin: http://localhost\r\nOrigin: http://127.0.0.1:{}\r\n", port ^ 1),
    ] {
        assert_eq!(create(&lines), 403, "{lines}");
    }
    assert_eq!(create("Origin: http://localhost\r\n"), 201);
    assert_eq!(create(&format!("Origin: http://127.0.0.1:{port}\r\n")), 201);
    let preflight = "Origin: http://evil.example\r\nAccess-Control-Request-Method: DELETE\r\n";
    assert_eq!(ask(&server, "OPTIONS /rendezvous", preflight, "").status, 403);
}

#[test]
fn a_name_that_was_turned_to_loopback_is_refused() {
    let server = server();
    let status = |head: &str| {
        let mut client = connect(server.address());
        client.send(head);
        client.answer().status
    };
    assert_eq!(status("GET /openapi.json HTTP/1.1\r\nHost: evil.example\r\n\r\n"), 403);
    assert_eq!(status("GET http://evil.example/openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n"), 403);
    assert_eq!(status("GET /openapi.json HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n"), 400);
    assert_eq!(status("GET /openapi.json HTTP/1.1\r\n\r\n"), 400);
    assert_eq!(status("GET /openapi.json HTTP/1.0\r\n\r\n"), 200);
    let url = "http://head.cluster:8080/meet/rendezvous/";
    let server = started(|options| options.url = Some(url.into()));
    assert_eq!(server.url(), "http://head.cluster:8080/meet/rendezvous");
    let mut client = connect(server.address());
    client.send(
        "POST /rendezvous HTTP/1.1\r\nHost: head.cluster\r\nContent-Length: 14\r\n\r\n{\"capacity\":1}",
    );
    let answer = client.answer();
    // The path that clients use, which a proxy may map to another one.
    let location = answer.header("location").unwrap();
    assert!(location.starts_with("/meet/rendezvous/"), "{location}");
    let handle = answer.json()["handle"].clone();
    assert!(handle.as_str().unwrap().starts_with("http://head.cluster:8080/meet/rendezvous?"), "{handle}");
}

#[test]
fn who_would_let_everybody_in_is_told() {
    let everywhere = ([0, 0, 0, 0], 0).into();
    let error = Server::start(Options::new(everywhere)).unwrap_err();
    assert!(error.to_string().contains("without a token"), "{error}");
    let server = started(|options| (options.listen, options.insecure) = (everywhere, true));
    assert_eq!(ask(&server, "POST /rendezvous", "", JSON).status, 201);
    let (token, line) = token();
    let server = started(|options| (options.listen, options.token) = (everywhere, Some(token)));
    assert!(!server.url().contains("0.0.0.0"), "{}", server.url());
    assert_eq!(ask(&server, "POST /rendezvous", &line, JSON).status, 201);
    for url in ["", "host:1", "ftp://host/", "http:///x", "http://a b/", "http://host/?x"] {
        let mut options = options();
        options.url = Some(url.into());
        let error = Server::start(options).unwrap_err();
        assert!(error.to_string().contains("no URL of a service"), "{url}: {error}");
    }
    let mut taken = options();
    taken.listen = server.address();
    taken.token = Some(crate::http::raw::token().0);
    assert!(Server::start(taken).unwrap_err().to_string().contains("cannot listen at"));
}
