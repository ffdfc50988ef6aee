//! The control API over TCP, with and without TLS.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use control::moment::Moment;
use control::node::StartError;
use control::people::password::{Password, PasswordHash};
use control::people::store::Store;
use control::people::token::TokenSecret;
use control::people::{Change, Role, Token, User};
use control::{Node, start, tls};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde_json::Value;

const CONFIG: &str = r#"
shards = 1
[iscsi]
listen = ["127.0.0.1:0"]
[http]
listen = "127.0.0.1:0"
[[pool]]
name = "tank"
raid = "raid1"
members = [{ memory = "8MiB" }, { memory = "8MiB" }]
"#;

fn begin(directory: &Path, text: &str) -> Result<Node, StartError> {
    std::fs::write(directory.join("fels.toml"), text).unwrap();
    let store = control::Store::of_directory(directory).unwrap();
    let document = store.read().unwrap();
    start(store, document)
}

fn node(directory: &Path) -> (Node, SocketAddr) {
    let node = begin(directory, CONFIG).unwrap();
    let address = node.api().http()[0];
    (node, address)
}

/// An admin with a password, and a token of his.
fn admin(directory: &Path) -> String {
    let store = Store::open(directory).unwrap();
    let password = PasswordHash::of(&Password::new("correct horse battery", "").unwrap()).unwrap();
    let (name, role, now) = ("alice".to_owned(), Role::Admin, Moment::now());
    store.change(Change::AddUser(User { name: name.clone(), role, password, created: now })).unwrap();
    let secret = TokenSecret::random().unwrap();
    let (sha256, created, expires) = (secret.digest(), now, now.after(3600));
    let token = Token { user: name, name: "t".to_owned(), role, sha256, created, expires, used: None };
    store.change(Change::AddToken(token)).unwrap();
    format!("Authorization: Bearer {}", secret.expose())
}

/// The status of an answer, its head in lower case, and its body.
fn exchange(
    mut stream: impl Read + Write,
    method: &str,
    path: &str,
    headers: &[&str],
    body: &str,
) -> (u16, String, Value) {
    let headers = headers.iter().fold(String::new(), |more, header| more + header + "\r\n");
    let request = format!(
        "{method} {path} HTTP/1.1\r\n{headers}Connection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    // A peer that ends without saying goodbye has said all the same.
    let _ = stream.read_to_string(&mut answer);
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer of HTTP: {answer}"));
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, head.to_lowercase(), serde_json::from_str(body).unwrap_or_default())
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(50))).unwrap();
    stream
}

fn ask(address: SocketAddr, method: &str, path: &str, headers: &[&str]) -> (u16, String, Value) {
    let mut all = vec!["Host: localhost"];
    all.extend(headers);
    exchange(connect(address), method, path, &all, "")
}

#[test]
fn without_users_everybody_on_this_machine_may_look_and_nobody_change() {
    let directory = tempfile::tempdir().unwrap();
    let (node, address) = node(directory.path());
    let (status, head, _) = ask(address, "GET", "/v1/pools", &[]);
    assert_eq!(status, 200);
    for header in [
        "x-content-type-options: nosniff",
        "frame-ancestors 'none'",
        "default-src 'self'",
        "referrer-policy: no-referrer",
        "x-request-id: ",
    ] {
        assert!(head.contains(header), "{header} is not in {head}");
    }
    assert!(!head.contains("strict-transport-security"), "{head}");
    let (status, head, body) = ask(address, "POST", "/v1/pools/tank/scrub", &[]);
    assert_eq!(status, 401, "{body}");
    assert!(head.contains("www-authenticate: bearer"), "{head}");
    assert!(body["hint"].as_str().unwrap().contains("fels user add"), "{body}");
    assert_eq!(ask(address, "GET", "/v1/users", &[]).0, 401, "people are for admins");
    node.shutdown().unwrap();
}

#[test]
fn with_users_only_they_come_in() {
    let directory = tempfile::tempdir().unwrap();
    let token = admin(directory.path());
    let (node, address) = node(directory.path());
    for path in ["/v1/pools", "/v1/me", "/v1/audit", "/v1/openapi.json"] {
        assert_eq!(ask(address, "GET", path, &[]).0, 401, "{path}");
        assert_eq!(ask(address, "GET", path, &[&token]).0, 200, "{path}");
    }
    // But for figures, which are for this machine: who scrapes them is asked nothing.
    for headers in [&[][..], &[token.as_str()]] {
        let (status, head, _) = ask(address, "GET", "/metrics", headers);
        assert!(status == 200 && head.contains("content-type: text/plain; version=0.0.4"), "{head}");
    }
    assert_eq!(ask(address, "GET", "/metrics", &["Authorization: Bearer fels_none"]).0, 401);
    assert_eq!(ask(address, "POST", "/metrics", &[&token]).0, 405);
    assert_eq!(ask(address, "POST", "/v1/pools/tank/scrub", &[&token]).0, 200);
    let log = std::fs::read_to_string(directory.path().join("audit.log")).unwrap();
    assert!(log.contains("\"who\":\"alice\",\"by\":\"token t\",\"from\":\"127.0.0.1:"), "{log}");
    node.shutdown().unwrap();
}

#[test]
fn a_page_of_elsewhere_that_calls_itself_this_machine_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let (node, address) = node(directory.path());
    for (headers, expected) in [
        (&["Host: localhost"][..], 200),
        (&["Host: 127.0.0.1:8420"], 200),
        (&["Host: rebound.example"], 403),
        (&["Host: rebound.example:8420"], 403),
        (&["Host: localhost", "Host: rebound.example"], 403),
        (&[], 403),
    ] {
        let (status, head, _) = exchange(connect(address), "GET", "/v1/pools", headers, "");
        assert_eq!(status, expected, "{headers:?}: {head}");
    }
    node.shutdown().unwrap();
}

#[test]
fn beyond_this_machine_it_does_not_start_without_tls_and_a_user() {
    let directory = tempfile::tempdir().unwrap();
    let text = CONFIG.replace("[http]\nlisten = \"127.0.0.1:0\"", "[http]\nlisten = \"0.0.0.0:0\"");
    let refused = |words: &str| {
        std::fs::write(directory.path().join("fels.toml"), &text).unwrap();
        let store = control::Store::of_directory(directory.path()).unwrap();
        let said = match store.read() {
            Ok(document) => start(store, document).err().unwrap().to_string(),
            Err(errors) => errors.to_string(),
        };
        assert!(said.contains(words), "{said}");
    };
    refused("there is no TLS");
    tls::make(directory.path(), &[], Moment::now()).unwrap();
    refused("there is no user with a password");
}

#[test]
fn with_a_certificate_all_is_encrypted() {
    let directory = tempfile::tempdir().unwrap();
    let token = admin(directory.path());
    let made = tls::make(directory.path(), &[], Moment::now()).unwrap();
    let (node, address) = node(directory.path());
    assert!(node.api().is_encrypted());
    let mut roots = RootCertStore::empty();
    for certificate in tls::certificates(&made.path).unwrap() {
        roots.add(certificate).unwrap();
    }
    let config = ClientConfig::builder_with_provider(tls::provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let config = Arc::new(config);
    let tls = |name: &'static str| {
        let name = ServerName::try_from(name).unwrap();
        StreamOwned::new(ClientConnection::new(config.clone(), name).unwrap(), connect(address))
    };
    for name in ["localhost", "127.0.0.1"] {
        let (status, ..) = exchange(tls(name), "GET", "/v1/pools", &["Host: localhost", &token], "");
        assert_eq!(status, 200, "{name}");
        assert_eq!(exchange(tls(name), "GET", "/v1/pools", &["Host: localhost"], "").0, 401);
    }
    // Who does not speak TLS is told nothing, and the next one is served.
    let mut plain = connect(address);
    plain.write_all(b"GET /v1/pools HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut said = Vec::new();
    let _ = plain.read_to_end(&mut said);
    assert!(!said.starts_with(b"HTTP/"), "{}", String::from_utf8_lossy(&said));
    assert_eq!(exchange(tls("localhost"), "GET", "/v1/me", &["Host: localhost", &token], "").0, 200);
    node.shutdown().unwrap();
}

#[test]
fn whoever_fills_it_from_afar_keeps_nobody_from_the_socket() {
    let directory = tempfile::tempdir().unwrap();
    let (node, address) = node(directory.path());
    let silent: Vec<_> = (0..70).map(|_| connect(address)).collect();
    let socket = UnixStream::connect(node.control_socket()).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    assert_eq!(exchange(socket, "GET", "/v1/jobs", &["Host: fels"], "").0, 200);
    // Those that say nothing are let go, and then others are heard.
    assert_eq!(ask(address, "GET", "/v1/jobs", &[]).0, 200);
    drop(silent);
    node.shutdown().unwrap();
}

#[test]
fn what_is_larger_than_it_may_be_is_refused_and_the_next_one_is_served() {
    let directory = tempfile::tempdir().unwrap();
    let (node, address) = node(directory.path());
    let long = format!("X-Long: {}", "x".repeat(300_000));
    for (method, path, header) in
        [("GET", "/v1/pools", long.as_str()), ("GET", &format!("/{}", "x".repeat(300_000)), "X: y")]
    {
        let mut stream = connect(address);
        let request = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n{header}\r\n\r\n");
        let _ = stream.write_all(request.as_bytes());
        let mut said = Vec::new();
        let _ = stream.read_to_end(&mut said);
        let said = String::from_utf8_lossy(&said).into_owned();
        assert!(said.is_empty() || said.starts_with("HTTP/1.1 4"), "{said}");
    }
    assert_eq!(ask(address, "GET", "/v1/jobs", &[]).0, 200);
    node.shutdown().unwrap();
}

/// A browser: it keeps the cookie that it is given, and sends it with every request.
struct Browser {
    address: SocketAddr,
    cookie: Option<String>,
    csrf: Option<String>,
}

impl Browser {
    fn new(address: SocketAddr) -> Browser {
        Browser { address, cookie: None, csrf: None }
    }

    fn ask(&self, method: &str, path: &str, headers: &[&str], body: &str) -> (u16, String, Value) {
        let cookie = self.cookie.as_ref().map(|cookie| format!("Cookie: theme=dark; {cookie}"));
        let mut all = vec!["Host: localhost"];
        all.extend(cookie.as_deref());
        all.extend(headers);
        exchange(connect(self.address), method, path, &all, body)
    }

    fn login(&mut self, name: &str, password: &str) -> (u16, String) {
        let wish = serde_json::json!({ "name": name, "password": password }).to_string();
        let (status, head, body) = self.ask("POST", "/v1/login", &[], &wish);
        let cookie = head.lines().find_map(|line| line.strip_prefix("set-cookie: "));
        self.cookie = cookie.map(|cookie| cookie.split(';').next().unwrap().to_owned());
        self.csrf = body["csrf"].as_str().map(|csrf| format!("X-CSRF-Token: {csrf}"));
        (status, head)
    }

    fn scrub(&self, headers: &[&str]) -> u16 {
        self.ask("POST", "/v1/pools/tank/scrub", headers, "").0
    }
}

#[test]
fn a_browser_comes_in_by_a_password_and_changes_only_what_its_own_pages_ask_for() {
    let directory = tempfile::tempdir().unwrap();
    admin(directory.path());
    let (node, address) = node(directory.path());
    let mut browser = Browser::new(address);
    assert_eq!(browser.login("alice", "wrong horse battery").0, 401);
    assert_eq!(browser.ask("GET", "/v1/pools", &[], "").0, 401);
    let (status, head) = browser.login("alice", "correct horse battery");
    assert_eq!(status, 200, "{head}");
    for word in ["httponly", "samesite=strict", "path=/"] {
        assert!(head.contains(word), "{word} is not in {head}");
    }
    let csrf = browser.csrf.clone().unwrap();
    assert_eq!(browser.ask("GET", "/v1/pools", &[], "").0, 200);
    let (_, _, me) = browser.ask("GET", "/v1/me", &[], "");
    assert_eq!((&me["user"], &me["by"]), (&"alice".into(), &"session".into()));
    assert_eq!(csrf, format!("X-CSRF-Token: {}", me["csrf"].as_str().unwrap()));
    assert_eq!(browser.scrub(&[]), 403, "a page of elsewhere sends the cookie, and cannot know the rest");
    assert_eq!(browser.scrub(&["X-CSRF-Token: 0000"]), 403);
    assert_eq!(browser.scrub(&[&csrf, "Origin: http://evil.example"]), 403);
    assert_eq!(browser.scrub(&[&csrf]), 200);
    assert_eq!(browser.scrub(&[&csrf, "Origin: http://localhost"]), 200);
    // In a form it is a field; what this path makes of a form is another matter.
    let form = "Content-Type: application/x-www-form-urlencoded";
    let in_form =
        |csrf: &str| browser.ask("POST", "/v1/pools/tank/scrub", &[form], &format!("x=1&csrf={csrf}&y=2")).0;
    assert_eq!((in_form(&csrf[14..]), in_form(&"0".repeat(64)), in_form("")), (400, 403, 403));
    let mut other = Browser::new(address);
    other.login("alice", "correct horse battery");
    assert_eq!(other.scrub(&[&csrf]), 403, "it is bound to its session");
    assert_eq!(
        browser.ask("POST", "/v1/logout", &[], "").0,
        403,
        "nor does a page of elsewhere throw her out"
    );
    assert_eq!(browser.ask("POST", "/v1/logout", &[&csrf], "").0, 200);
    assert_eq!(browser.ask("GET", "/v1/pools", &[], "").0, 401);
    assert_eq!(other.ask("GET", "/v1/pools", &[], "").0, 200, "the other browser stays");
    let log = std::fs::read_to_string(directory.path().join("audit.log")).unwrap();
    for words in ["a wrong password for alice", "alice came in", "alice went", "\"by\":\"session\""] {
        assert!(log.contains(words), "{words} is not in {log}");
    }
    assert!(!log.contains("horse") && !log.contains(&csrf[14..]), "{log}");
    node.shutdown().unwrap();
}

#[test]
fn a_session_ends_with_the_password_and_with_the_user() {
    let directory = tempfile::tempdir().unwrap();
    let token = admin(directory.path());
    let (node, address) = node(directory.path());
    let make = serde_json::json!({ "name": "bob", "role": "operator", "password": "correct horse battery" });
    let as_admin = |method: &str, path: &str, body: &str| {
        exchange(connect(address), method, path, &["Host: localhost", &token], body).0
    };
    assert_eq!(as_admin("POST", "/v1/users", &make.to_string()), 200);
    let mut browser = Browser::new(address);
    browser.login("bob", "correct horse battery");
    let csrf = browser.csrf.clone().unwrap();
    assert_eq!(browser.scrub(&[&csrf]), 200);
    assert_eq!(as_admin("POST", "/v1/users/bob/role", "{\"role\":\"viewer\"}"), 200);
    assert_eq!(browser.scrub(&[&csrf]), 403, "another role holds at once");
    let other = "{\"password\":\"another horse battery\"}";
    assert_eq!(as_admin("POST", "/v1/users/bob/password", other), 200);
    assert_eq!(browser.ask("GET", "/v1/pools", &[], "").0, 401);
    assert_eq!(browser.login("bob", "correct horse battery").0, 401);
    assert_eq!(browser.login("bob", "another horse battery").0, 200);
    assert_eq!(as_admin("DELETE", "/v1/users/bob", ""), 200);
    assert_eq!(browser.ask("GET", "/v1/pools", &[], "").0, 401);
    node.shutdown().unwrap();
}

#[test]
fn passwords_are_not_tried_for_ever_and_what_was_typed_as_a_name_is_not_kept() {
    let directory = tempfile::tempdir().unwrap();
    admin(directory.path());
    let (node, address) = node(directory.path());
    let mut browser = Browser::new(address);
    let (status, _) = browser.login("correct horse battery", "alice");
    assert_eq!(status, 401, "an unknown name is told no other way than a wrong password");
    let statuses: Vec<_> = (0..12).map(|_| browser.login("alice", "wrong horse battery").0).collect();
    assert_eq!(statuses[..9], [401; 9]);
    assert_eq!(statuses[9..], [429; 3]);
    let (status, head) = browser.login("alice", "correct horse battery");
    assert_eq!(status, 429, "not even the right one");
    let wait: u64 =
        head.lines().find_map(|line| line.strip_prefix("retry-after: ")).unwrap().parse().unwrap();
    assert!((1..=30).contains(&wait), "{wait}");
    let log = std::fs::read_to_string(directory.path().join("audit.log")).unwrap();
    assert!(!log.contains("horse"), "{log}");
    assert_eq!(log.lines().count(), 9, "only what was tried for a name that there is: {log}");
    node.shutdown().unwrap();
}
