//! A node with pages, and a browser without scripts.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use control::moment::Moment;
use control::people::password::{Password, PasswordHash};
use control::people::store::Store;
use control::people::{Change, Role, User};
use control::{Node, start};

const CONFIG: &str = r#"
shards = 1
[iscsi]
listen = ["127.0.0.1:0"]
[nbd]
listen = ["127.0.0.1:0"]
[http]
listen = "127.0.0.1:0"
[[pool]]
name = "tank"
raid = "raid1"
members = ["m0.img", "m1.img"]
member_size = "64MiB"
[[volume]]
name = "db"
size = "8MiB"
pool = "tank"
"#;

pub fn node(directory: &Path) -> (Node, SocketAddr) {
    std::fs::write(directory.join("fels.toml"), CONFIG).unwrap();
    let store = control::Store::of_directory(directory).unwrap();
    let document = store.read().unwrap();
    let node = start(store, document).unwrap();
    let address = node.api().http()[0];
    (node, address)
}

/// Somebody with a password, made before the node runs.
pub fn user(directory: &Path, name: &str, role: Role) {
    let store = Store::open(directory).unwrap();
    let password = PasswordHash::of(&Password::new("correct horse battery", "").unwrap()).unwrap();
    let name = name.to_owned();
    store.change(Change::AddUser(User { name, role, password, created: Moment::now() })).unwrap();
}

/// An answer of the node.
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub page: String,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix(&format!("{name}: ")))
    }

    /// What goes with every change, as the page has it.
    pub fn field(&self, name: &str) -> String {
        let (_, rest) = self
            .page
            .split_once(&format!("name=\"{name}\" value=\""))
            .unwrap_or_else(|| panic!("no field {name} in {}", self.page));
        rest.split('"').next().unwrap().to_owned()
    }
}

/// A browser without scripts: it keeps its cookie, and sends forms.
pub struct Browser {
    pub address: SocketAddr,
    pub cookie: String,
}

impl Browser {
    pub fn new(address: SocketAddr) -> Browser {
        Browser { address, cookie: String::new() }
    }

    pub fn came_in(address: SocketAddr, name: &str) -> Browser {
        let mut browser = Browser::new(address);
        let answer = browser.send("/login", &[("name", name), ("password", "correct horse battery")]);
        assert_eq!((answer.status, answer.header("location")), (303, Some("/")), "{}", answer.page);
        browser
    }

    pub fn exchange(&mut self, request: &str) -> Answer {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(50))).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        let (head, page) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {answer}"));
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let answer = Answer { status, head: head.replace('\r', ""), page: page.to_owned() };
        if let Some(cookie) = answer.header("set-cookie") {
            cookie.split(';').next().unwrap().clone_into(&mut self.cookie);
        }
        answer
    }

    pub fn get(&mut self, path: &str) -> Answer {
        let cookie = self.cookie.clone();
        self.exchange(&format!(
            "GET {path} HTTP/1.1\r\nHost: localhost\r\nAccept: text/html\r\nCookie: {cookie}\r\nConnection: close\r\n\r\n"
        ))
    }

    pub fn send(&mut self, path: &str, fields: &[(&str, &str)]) -> Answer {
        self.send_from("http://localhost", path, fields)
    }

    pub fn send_from(&mut self, origin: &str, path: &str, fields: &[(&str, &str)]) -> Answer {
        let escaped = |text: &str| {
            text.bytes().fold(String::new(), |all, byte| {
                if byte.is_ascii_alphanumeric() {
                    all + &char::from(byte).to_string()
                } else {
                    all + &format!("%{byte:02X}")
                }
            })
        };
        let fields: Vec<_> =
            fields.iter().map(|(name, value)| format!("{}={}", escaped(name), escaped(value))).collect();
        let (body, cookie) = (fields.join("&"), self.cookie.clone());
        self.exchange(&format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nOrigin: {origin}\r\nAccept: text/html\r\nCookie: {cookie}\r\nConnection: close\r\n\
             Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        ))
    }
}
