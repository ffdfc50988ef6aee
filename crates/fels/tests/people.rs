//! Users, tokens, the audit log and a node on another machine, by the commands.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

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

fn fels(directory: &Path, arguments: &[&str], input: &str) -> (i32, String, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_fels"))
        .args(arguments)
        .current_dir(directory)
        .env_remove("FELS_LOG")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Who does not ask does not read.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

/// A running node, killed at the end of the test.
struct Serving {
    child: Child,
    url: String,
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn serve(directory: &Path) -> Serving {
    std::fs::write(directory.join("fels.toml"), CONFIG).unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_fels"))
        .args(["serve", "--config", "fels.toml", "--log", "warn"])
        .current_dir(directory)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let url = loop {
        let line = lines.next().expect("a node that serves").unwrap();
        if let Some(url) = line.strip_prefix("administered on ") {
            break url.to_owned();
        }
    };
    Serving { child, url }
}

#[test]
fn a_newcomer_makes_users_and_tokens_and_comes_in_from_afar() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    let (code, out, err) = fels(here, &["cert", "--name", "san1.example.com"], "");
    assert_eq!(code, 0, "{err}");
    let sha256 = out.lines().find_map(|line| line.strip_prefix("SHA-256      ")).unwrap().to_owned();
    assert!(out.contains("expires      20"), "{out}");
    let (code, _, err) = fels(here, &["cert"], "");
    assert!(code == 1 && err.contains("--replace"), "{err}");
    assert_eq!(fels(here, &["cert", "--show"], "").1, out);
    let node = serve(here);
    assert!(node.url.starts_with("https://127.0.0.1:"), "{}", node.url);
    let password = "correct horse battery\n";
    let (code, _, err) =
        fels(here, &["user", "add", "alice", "--role", "viewer", "--password-stdin"], password);
    assert!(code == 1 && err.contains("the first user has to be an admin") && err.contains("hint:"), "{err}");
    let (code, _, err) =
        fels(here, &["user", "add", "alice", "--role", "admin", "--password-stdin"], "short\n");
    assert!(code == 1 && err.contains("at least 12 characters"), "{err}");
    let (code, out, err) =
        fels(here, &["user", "add", "alice", "--role", "admin", "--password-stdin"], password);
    assert_eq!((code, out.as_str()), (0, "made the user alice, with the role admin\n"), "{err}");
    assert_eq!(fels(here, &["user", "add", "bob", "--role", "operator", "--password-stdin"], password).0, 0);
    assert_eq!(fels(here, &["user", "role", "bob", "viewer"], "").1, "gave bob the role viewer\n");
    let (_, out, _) = fels(here, &["user", "list"], "");
    assert!(out.starts_with("user   role    tokens  since\nalice  admin        0  20"), "{out}");
    let (code, _, err) = fels(here, &["token", "create", "bob", "t", "--role", "admin"], "");
    assert!(code == 1 && err.contains("viewer at most"), "{err}");
    let (code, _, err) =
        fels(here, &["token", "create", "alice", "desk", "--role", "operator", "--out", "token"], "");
    assert!(code == 0 && err.contains("good until"), "{err}");
    let afar = |arguments: &[&str], input: &str| {
        let way = ["--url", &node.url, "--token-file", "token", "--fingerprint", &sha256];
        fels(here, &[arguments, &way].concat(), input)
    };
    let (code, out, err) = afar(&["pool", "status"], "");
    assert!(code == 0 && out.contains("pool tank"), "{err}");
    assert_eq!(afar(&["pool", "scrub", "tank"], "").0, 0);
    let (code, _, err) = afar(&["user", "list"], "");
    assert!(code == 1 && err.contains("this needs the role admin"), "{err}");
    // Her own password needs the one that she has.
    let two = "wrong horse battery\nanother horse battery\n";
    let (code, _, err) = afar(&["user", "password", "alice", "--password-stdin"], two);
    assert!(code == 1 && err.contains("not the password that you have"), "{err}");
    let two = "correct horse battery\nanother horse battery\n";
    assert_eq!(afar(&["user", "password", "alice", "--password-stdin"], two).0, 0);
    let (_, out, _) = fels(here, &["audit"], "");
    for words in ["made the user alice", "alice (token desk)", "gave alice another password", "uid "] {
        assert!(out.contains(words), "{words} is not in\n{out}");
    }
    assert!(!out.contains("horse"), "{out}");
    let (_, out, _) = fels(here, &["token", "list", "alice"], "");
    assert!(out.contains("alice  desk   operator  20"), "{out}");
    assert_eq!(fels(here, &["token", "revoke", "alice", "desk"], "").1, "revoked the token desk of alice\n");
    let (code, _, err) = afar(&["pool", "status"], "");
    assert!(code == 1 && err.contains("this token is not good"), "{err}");
    assert_eq!(fels(here, &["user", "remove", "bob"], "").1, "removed the user bob\n");
}

#[test]
fn who_is_not_trusted_is_not_sent_the_token() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    fels(here, &["cert"], "");
    let node = serve(here);
    let zeroes = "0".repeat(64);
    for (trust, words) in [
        (&["--fingerprint", zeroes.as_str()][..], "its certificate has the SHA-256 "),
        (&[], "is not trusted"),
        (&["--ca", "fels-data/tls.pem"], "there is no user"),
    ] {
        let asked = [&["user", "role", "eve", "admin", "--url", &node.url], trust].concat();
        let (code, _, err) = fels(here, &asked, "");
        let known = err.contains(words) || (words == "there is no user" && err.contains("fels user add"));
        assert!(code == 1 && known && err.contains("hint:"), "{trust:?}: {err}");
    }
    let open = here.join("open");
    std::fs::write(&open, "fels_").unwrap();
    for (arguments, code, words) in [
        (&["pool", "status", "--url", "http://192.0.2.1"][..], 1, "could read the token"),
        (
            &["pool", "status", "--url", "https://127.0.0.1:1", "--fingerprint", &zeroes],
            1,
            "cannot be reached",
        ),
        (
            &["pool", "status", "--url", "https://127.0.0.1:1", "--token-file", "open"],
            1,
            "others than its owner",
        ),
        (
            &["pool", "status", "--url", "https://127.0.0.1:1", "--token-file", "none"],
            1,
            "there is no token in none",
        ),
        (&["pool", "status", "--url", "https://h", "--fingerprint", "12"], 2, "64 hexadecimal digits"),
        (&["pool", "status", "--token-file", "open"], 2, "--url"),
    ] {
        let (ended, _, err) = fels(here, arguments, "");
        assert!(ended == code && err.contains(words), "{arguments:?}: {ended} {err}");
    }
}

/// Makes users one after the other until the node is gone, and gives those that were answered as made.
fn make_until_it_dies(socket: &Path, first: usize) -> Vec<String> {
    let mut made = Vec::new();
    for number in first.. {
        let name = format!("u{number}");
        let wish =
            format!("{{\"name\":\"{name}\",\"role\":\"admin\",\"password\":\"correct horse battery\"}}");
        let request = format!(
            "POST /v1/users HTTP/1.1\r\nHost: fels\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{wish}",
            wish.len()
        );
        let Ok(mut stream) = UnixStream::connect(socket) else { return made };
        let mut answer = String::new();
        let asked = stream.write_all(request.as_bytes()).and_then(|()| stream.read_to_string(&mut answer));
        if asked.is_err() || !answer.starts_with("HTTP/1.1 200") {
            return made;
        }
        made.push(name);
    }
    made
}

#[test]
fn a_node_that_is_killed_between_any_two_steps_has_all_that_it_answered_as_done() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    let mut made = Vec::new();
    for round in 0..6_usize {
        let mut node = serve(here);
        let socket = here.join("fels-data/fels.sock");
        let making = std::thread::spawn(move || make_until_it_dies(&socket, round * 40));
        std::thread::sleep(Duration::from_millis(150 + 37 * round as u64));
        node.child.kill().unwrap();
        node.child.wait().unwrap();
        made.extend(making.join().unwrap());
    }
    let _node = serve(here);
    let (code, out, err) = fels(here, &["user", "list", "--json"], "");
    assert_eq!(code, 0, "{err}");
    let told: serde_json::Value = serde_json::from_str(&out).unwrap();
    let there: Vec<_> =
        told["users"].as_array().unwrap().iter().map(|user| user["name"].as_str().unwrap()).collect();
    let log = fels(here, &["audit", "--limit", "1000"], "").1;
    assert!(made.len() >= 6, "{made:?}");
    for name in &made {
        assert!(there.contains(&name.as_str()), "{name} was answered as made, and is not there");
        assert!(
            log.contains(&format!("made the user {name}, ")),
            "{name} was answered as made, and is not in the log"
        );
    }
    assert!(there.len() <= made.len() + 6, "no more than one a round was made and not answered: {there:?}");
}
