//! Who comes in to a node that runs, and what he may there.

use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use control::moment::Moment;
use control::node::StartError;
use control::people::password::{Password, PasswordHash};
use control::people::store::Store;
use control::people::token::TokenSecret;
use control::people::{Change, Role, Token, User};
use control::{Node, api, start};
use serde_json::Value;

const CONFIG: &str = r#"
shards = 1
[iscsi]
listen = ["127.0.0.1:0"]
[[pool]]
name = "tank"
raid = "raid1"
members = [{ memory = "8MiB" }, { memory = "8MiB" }]
"#;
/// The user that nobody is, on Debian as elsewhere.
const NOBODY: u32 = 65534;
/// Says to the test that runs as another user where to ask.
const SOCKET: &str = "FELS_TEST_SOCKET";

fn begin(directory: &Path) -> Result<Node, StartError> {
    std::fs::write(directory.join("fels.toml"), CONFIG).unwrap();
    let store = control::Store::of_directory(directory).unwrap();
    let document = store.read().unwrap();
    start(store, document)
}

fn node(directory: &Path) -> Node {
    begin(directory).unwrap()
}

/// Users `viewer`, `operator` and `admin`, with the password `correct horse battery`.
fn users(store: &Store) {
    let password = PasswordHash::of(&Password::new("correct horse battery", "").unwrap()).unwrap();
    for role in [Role::Admin, Role::Operator, Role::Viewer] {
        let (name, password) = (role.name().to_owned(), password.clone());
        store.change(Change::AddUser(User { name, role, password, created: Moment::now() })).unwrap();
    }
}

/// Gives a user a token that is good for so long.
fn token(store: &Store, user: &str, role: Role, created: Moment, seconds: u64) -> String {
    let secret = TokenSecret::random().unwrap();
    let token = Token {
        user: user.to_owned(),
        name: format!("{role}-{}", created.unix()),
        role,
        sha256: secret.digest(),
        created,
        expires: created.after(seconds),
        used: None,
    };
    store.change(Change::AddToken(token)).unwrap();
    secret.expose().to_owned()
}

/// The status of an answer, its head in lower case, and its body.
fn ask(socket: &Path, method: &str, path: &str, headers: &[&str], body: &str) -> (u16, String, Value) {
    let more = headers.iter().fold(String::new(), |more, header| more + header + "\r\n");
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: fels\r\nConnection: close\r\nContent-Type: application/json\r\n{more}Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(50))).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").expect("an answer of HTTP");
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, head.to_lowercase(), serde_json::from_str(body).unwrap_or_default())
}

fn bearer(token: &str) -> String {
    format!("Authorization: Bearer {token}")
}

/// A path with names of things that there are not, so that nothing happens even to who may.
fn example(template: &str) -> String {
    // What it asks for has no end, if it is right.
    let template = template.replace("/events/stream", "/events/stream?event=none");
    let template = template.replace("{user}", "none").replace("{token}", "none");
    template.replace("{pool}", "none").replace("{slot}", "0").replace("{id}", "0")
}

#[test]
fn every_way_is_open_to_those_who_may_and_to_nobody_else() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(directory.path()).unwrap();
    users(&store);
    let tokens: Vec<_> = Role::ALL
        .into_iter()
        .map(|role| (role, bearer(&token(&store, role.name(), role, Moment::now(), 3600))))
        .collect();
    let node = node(directory.path());
    let socket = node.control_socket();
    let document = serde_json::to_value(api::document()).unwrap();
    let mut refused = 0;
    for (template, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            // Nobody of those who ask here is the user that the example names.
            let least = operation["x-least-role"]
                .as_str()
                .unwrap()
                .replace("own", "admin")
                .replace("anybody", "viewer")
                .replace("near", "viewer");
            let least: Role = least.parse().unwrap();
            for (role, token) in &tokens {
                let way = format!("{role} at {method} {template}");
                let (status, head, body) =
                    ask(socket, &method.to_uppercase(), &example(template), &[token], "");
                if *role >= least {
                    assert!(![401, 403].contains(&status), "{way}: {body}");
                } else {
                    assert_eq!(status, 403, "{way}: {body}");
                    assert!(head.contains("application/problem+json") && body["hint"].is_string(), "{way}");
                    refused += 1;
                }
            }
        }
    }
    assert!(refused >= 8, "a viewer may change {refused} things less than there are");
    node.shutdown().unwrap();
}

#[test]
fn a_token_that_is_not_good_is_refused_whatever_is_asked_even_on_the_socket() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(directory.path()).unwrap();
    users(&store);
    let expired = token(&store, "admin", Role::Admin, Moment::from_unix(1_000_000_000), 3600);
    let good = token(&store, "admin", Role::Viewer, Moment::now(), 3600);
    let node = node(directory.path());
    let socket = node.control_socket();
    let another = TokenSecret::random().unwrap();
    for (header, expected) in [
        (bearer(&good), 200),
        (bearer(&good).replace("Bearer", "bearer"), 200),
        (bearer(&expired), 401),
        (bearer(another.expose()), 401),
        (bearer(&good[..good.len() - 1]), 401),
        (bearer(&good.replace("fels_", "")), 401),
        (bearer(""), 401),
        ("Authorization: Basic YWRtaW46Y29ycmVjdCBob3JzZSBiYXR0ZXJ5".to_owned(), 401),
        ("Authorization: \u{e4}".to_owned(), 401),
    ] {
        for path in ["/v1/pools", "/v1/none"] {
            let (status, head, _) = ask(socket, "GET", path, &[&header], "");
            let expected = if path == "/v1/none" && expected == 200 { 404 } else { expected };
            assert_eq!(status, expected, "{header}");
            assert_eq!(head.contains("www-authenticate: bearer"), status == 401, "{header}");
        }
    }
    // Without one it is root who asks.
    let (status, ..) = ask(socket, "POST", "/v1/pools/tank/scrub", &[], "{\"dry_run\":true}");
    assert_eq!(status, 200);
    let (status, ..) = ask(socket, "POST", "/v1/pools/tank/scrub", &[&bearer(&good)], "{\"dry_run\":true}");
    assert_eq!(status, 403, "who comes with a token may no more than that");
    node.shutdown().unwrap();
}

#[test]
fn when_a_token_was_used_is_noted_once_in_a_while() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(directory.path()).unwrap();
    users(&store);
    let token = token(&store, "viewer", Role::Viewer, Moment::now(), 3600);
    let node = node(directory.path());
    let file = || std::fs::read_to_string(directory.path().join("people.json")).unwrap();
    assert!(!file().contains("\"used\""));
    let generation =
        |text: &str| serde_json::from_str::<Value>(text).unwrap()["generation"].as_u64().unwrap();
    let before = generation(&file());
    for _ in 0..20 {
        ask(node.control_socket(), "GET", "/v1/jobs", &[&bearer(&token)], "");
    }
    let deadline = Instant::now() + Duration::from_secs(20);
    while !file().contains("\"used\"") {
        assert!(Instant::now() < deadline, "it was not noted");
        std::thread::sleep(Duration::from_millis(5));
    }
    node.shutdown().unwrap();
    assert_eq!(generation(&file()), before + 1, "twenty requests are noted once");
}

/// Not a test by itself: asks as the user that runs it, where the environment says so.
#[test]
fn somebody_asks() {
    let Some(socket) = std::env::var_os(SOCKET) else { return };
    let (status, _, body) = ask(Path::new(&socket), "GET", "/v1/pools", &[], "");
    println!("answered {status}: {}", body["detail"]);
}

#[test]
fn another_user_is_refused_on_the_socket_even_if_its_file_lets_him() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("only root can ask as somebody else: not shown");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let node = node(directory.path());
    let socket = node.control_socket();
    let asked = |uid: u32| {
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "somebody_asks", "--nocapture"])
            .env(SOCKET, socket)
            .uid(uid)
            .output()
            .unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
    };
    // As it is, he does not even reach it.
    let said = asked(NOBODY);
    assert!(said.contains("PermissionDenied"), "{said}");
    std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::set_permissions(socket, std::fs::Permissions::from_mode(0o666)).unwrap();
    let said = asked(NOBODY);
    assert!(said.contains("answered 403: \"this node belongs to user 0, you are user 65534\""), "{said}");
    let said = asked(0);
    assert!(said.contains("answered 200"), "{said}");
    node.shutdown().unwrap();
}

#[test]
fn a_node_does_not_start_when_it_is_not_known_who_may_come_in() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(directory.path()).unwrap();
    users(&store);
    let path = directory.path().join("people.json");
    let good = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, good.replace("viewer", "admin1")).unwrap();
    let error = begin(directory.path()).err().unwrap();
    assert!(error.to_string().contains("people.json is damaged"), "{error}");
    assert!(error.hint().is_some());
}

#[test]
fn every_change_is_in_the_audit_log_before_it_is_answered_and_nothing_that_was_sent() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(directory.path()).unwrap();
    users(&store);
    let operator = bearer(&token(&store, "operator", Role::Operator, Moment::now(), 3600));
    let viewer = bearer(&token(&store, "viewer", Role::Viewer, Moment::now(), 3600));
    let node = node(directory.path());
    let socket = node.control_socket();
    let log = || std::fs::read_to_string(directory.path().join("audit.log")).unwrap();
    let last = || serde_json::from_str::<Value>(log().lines().last().unwrap()).unwrap();
    let (status, head, _) = ask(socket, "POST", "/v1/pools/tank/scrub", &[&operator], "{}");
    let entry = last();
    assert_eq!((status, &entry["status"], &entry["who"]), (200, &200.into(), &"operator".into()), "{entry}");
    assert!(entry["by"].as_str().unwrap().starts_with("token operator-"), "{entry}");
    assert!(head.contains(&format!("x-request-id: {}", entry["request"].as_str().unwrap())), "{head}");
    assert_eq!(
        entry["steps"],
        serde_json::json!(["read all of pool tank, verify it, and repair what is wrong"])
    );
    ask(socket, "POST", "/v1/pools/tank/scrub", &[&operator], "{\"dry_run\":true}");
    assert!(last()["steps"][0].as_str().unwrap().starts_with("would be done: "), "{}", last());
    ask(socket, "POST", "/v1/pools/tank/scrub?secret=hush", &[&viewer], "{\"secret\":\"hush\"}");
    assert_eq!((&last()["who"], &last()["status"]), (&"viewer".into(), &403.into()));
    ask(socket, "POST", "/v1/pools/tank/scrub", &[], "{\"secret\":\"hush\"}");
    assert_eq!((&last()["who"], &last()["status"]), (&"uid 0".into(), &400.into()));
    let before = log();
    ask(socket, "GET", "/v1/pools", &[&viewer], "");
    ask(socket, "POST", "/v1/pools/tank/scrub", &[&bearer("fels_none")], "{}");
    ask(socket, "POST", "/v1/none", &[], "{}");
    assert_eq!(log(), before, "what only looks, and what nobody was let do, is not kept");
    assert!(!before.contains("hush") && !before.contains("fels_"), "{before}");
    let (status, _, told) = ask(socket, "GET", "/v1/audit?limit=2", &[], "");
    assert_eq!(status, 200);
    let ids: Vec<_> = told["entries"].as_array().unwrap().iter().map(|entry| &entry["id"]).collect();
    assert_eq!(ids, [&4.into(), &3.into()] as [&Value; 2]);
    let (_, _, told) = ask(socket, "GET", "/v1/audit?before=2", &[], "");
    assert_eq!(told["entries"].as_array().unwrap().len(), 1);
    for query in ["limit=0", "limit=1001", "limit=x", "before=-1", "after=1"] {
        let (status, head, body) = ask(socket, "GET", &format!("/v1/audit?{query}"), &[], "");
        assert_eq!(status, 400, "{query}");
        assert!(head.contains("problem+json") && body["hint"].is_string(), "{query}: {body}");
    }
    node.shutdown().unwrap();
}

/// Who may only look pushed everything out of the log that others had done, by asking again and again for what he was refused.
#[test]
fn refusals_of_one_user_do_not_push_out_what_others_did() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(directory.path()).unwrap();
    users(&store);
    let operator = bearer(&token(&store, "operator", Role::Operator, Moment::now(), 3600));
    let viewer = bearer(&token(&store, "viewer", Role::Viewer, Moment::now(), 3600));
    let node = node(directory.path());
    let socket = node.control_socket();
    let of = |user: &str| {
        let log = std::fs::read_to_string(directory.path().join("audit.log")).unwrap();
        let entries = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        entries.filter(|entry| entry["who"] == user).collect::<Vec<_>>()
    };
    for _ in 0..150 {
        assert_eq!(ask(socket, "POST", "/v1/pools/tank/scrub", &[&viewer], "{}").0, 403);
    }
    let refused = of("viewer");
    assert!((60..70).contains(&refused.len()), "{}", refused.len());
    assert!(refused[58]["steps"].is_null());
    let last = refused[59]["steps"][0].as_str().unwrap();
    assert!(last.starts_with("no more refusals of viewer are entered for "), "{last}");
    assert_eq!(ask(socket, "POST", "/v1/pools/none/scrub", &[&operator], "{}").0, 404, "others are others");
    assert_eq!(of("operator").len(), 1);
    node.shutdown().unwrap();
}

#[test]
fn a_node_does_not_start_when_it_cannot_keep_what_people_do() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::create_dir(directory.path().join("audit.log")).unwrap();
    let error = begin(directory.path()).err().unwrap();
    assert!(error.to_string().contains("the audit log cannot be opened"), "{error}");
    assert!(error.hint().is_some());
}

#[test]
fn users_are_made_and_changed_and_removed() {
    let directory = tempfile::tempdir().unwrap();
    let node = node(directory.path());
    let socket = node.control_socket();
    let make = |name: &str, role: &str, password: &str| {
        let wish = serde_json::json!({ "name": name, "role": role, "password": password });
        ask(socket, "POST", "/v1/users", &[], &wish.to_string())
    };
    let refused = |(status, head, body): (u16, String, Value), expected: u16, words: &str| {
        assert_eq!(status, expected, "{body}");
        assert!(head.contains("problem+json") && body["hint"].is_string(), "{body}");
        assert!(body["detail"].as_str().unwrap().contains(words), "{body}");
    };
    refused(make("bob", "viewer", "correct horse battery"), 409, "the first user has to be an admin");
    refused(make("alice", "admin", "short"), 400, "at least 12 characters");
    refused(make("alice", "root", "correct horse battery"), 400, "unknown variant");
    refused(make("Alice", "admin", "correct horse battery"), 400, "cannot be the name of a user");
    assert_eq!(make("alice", "admin", "correct horse battery").0, 200);
    refused(make("alice", "admin", "correct horse battery"), 409, "there is a user alice already");
    assert_eq!(make("bob", "viewer", "correct horse battery").0, 200);
    let role = |name: &str, role: &str| {
        let wish = serde_json::json!({ "role": role }).to_string();
        ask(socket, "POST", &format!("/v1/users/{name}/role"), &[], &wish)
    };
    refused(role("alice", "viewer"), 409, "the last one");
    refused(role("eve", "viewer"), 404, "there is no user eve");
    assert_eq!(role("bob", "operator").0, 200);
    refused(ask(socket, "DELETE", "/v1/users/alice", &[], ""), 409, "admin");
    let (_, _, users) = ask(socket, "GET", "/v1/users", &[], "");
    let told: Vec<_> =
        users["users"].as_array().unwrap().iter().map(|user| (&user["name"], &user["role"])).collect();
    assert_eq!(
        told,
        [(&"alice".into(), &"admin".into()), (&"bob".into(), &"operator".into())] as [(&Value, &Value); 2]
    );
    assert!(!users.to_string().contains("argon2"), "{users}");
    assert_eq!(ask(socket, "DELETE", "/v1/users/bob", &[], "").0, 200);
    refused(ask(socket, "GET", "/v1/users/bob", &[], ""), 404, "there is no user bob");
    let file = std::fs::read_to_string(directory.path().join("people.json")).unwrap();
    let log = std::fs::read_to_string(directory.path().join("audit.log")).unwrap();
    assert!(log.contains("made the user alice, with the role admin"), "{log}");
    assert!(!log.contains("horse") && !log.contains("argon2") && !file.contains("horse"));
    node.shutdown().unwrap();
}

#[test]
fn who_holds_a_token_gets_no_more_by_it_than_it_has() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(directory.path()).unwrap();
    users(&store);
    let lesser = bearer(&token(&store, "admin", Role::Viewer, Moment::now(), 3600));
    let admin = bearer(&token(&store, "admin", Role::Admin, Moment::now(), 3600));
    let viewer = bearer(&token(&store, "viewer", Role::Viewer, Moment::now(), 3600));
    let node = node(directory.path());
    let socket = node.control_socket();
    let make = |by: &str, user: &str, wish: Value| {
        let path = format!("/v1/users/{user}/tokens");
        let (status, _, body) = ask(socket, "POST", &path, &[by], &wish.to_string());
        (status, body)
    };
    let wish = |name: &str, role: &str, valid_s: u64| serde_json::json!({ "name": name, "role": role, "valid_s": valid_s });
    let (status, body) = make(&lesser, "admin", wish("more", "admin", 600));
    assert_eq!(status, 409, "a viewer token of an admin makes no admin token: {body}");
    assert_eq!(make(&lesser, "viewer", wish("more", "viewer", 600)).0, 403, "nor one of somebody else");
    let (status, body) = make(&lesser, "admin", wish("longer", "viewer", 7200));
    assert_eq!(status, 409, "nor one that outlives it: {body}");
    let (status, body) = make(&lesser, "admin", serde_json::json!({ "name": "same" }));
    assert_eq!((status, &body["token"]["role"]), (200, &"viewer".into()));
    let (_, me) = (0, ask(socket, "GET", "/v1/me", &[&lesser], "").2);
    assert_eq!((&me["user"], &me["role"]), (&"admin".into(), &"viewer".into()));
    assert_eq!(me["expires"], body["token"]["expires"], "it ends with the one that made it");
    // What was made works, until it is revoked.
    let made = bearer(body["secret"].as_str().unwrap());
    assert_eq!(ask(socket, "GET", "/v1/pools", &[&made], "").0, 200);
    assert_eq!(make(&admin, "viewer", wish("high", "operator", 600)).0, 409, "no more than its user");
    assert_eq!(make(&admin, "viewer", wish("for-him", "viewer", 600)).0, 200);
    assert_eq!(make(&viewer, "viewer", wish("own", "viewer", 600)).0, 200);
    for (name, valid_s) in [("a", 59), ("b", u64::MAX), ("", 600), ("A", 600)] {
        assert_eq!(make(&admin, "admin", wish(name, "viewer", valid_s)).0, 400, "{name} {valid_s}");
    }
    let listed = ask(socket, "GET", "/v1/users/viewer/tokens", &[&viewer], "").2;
    assert_eq!(listed["tokens"].as_array().unwrap().len(), 3);
    assert_eq!(ask(socket, "GET", "/v1/users/admin/tokens", &[&viewer], "").0, 403);
    assert_eq!(ask(socket, "GET", "/v1/tokens", &[&admin], "").2["tokens"].as_array().unwrap().len(), 6);
    assert_eq!(ask(socket, "DELETE", "/v1/users/admin/tokens/same", &[&viewer], "").0, 403);
    assert_eq!(ask(socket, "DELETE", "/v1/users/admin/tokens/same", &[&admin], "").0, 200);
    assert_eq!(ask(socket, "GET", "/v1/pools", &[&made], "").0, 401, "it is revoked at once");
    assert_eq!(ask(socket, "DELETE", "/v1/users/viewer", &[&admin], "").0, 200);
    assert_eq!(ask(socket, "GET", "/v1/pools", &[&viewer], "").0, 401, "it went with its user");
    node.shutdown().unwrap();
}

#[test]
fn who_holds_a_token_does_not_lock_its_user_out() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(directory.path()).unwrap();
    users(&store);
    let own = bearer(&token(&store, "viewer", Role::Viewer, Moment::now(), 3600));
    let admin = bearer(&token(&store, "admin", Role::Admin, Moment::now(), 3600));
    let node = node(directory.path());
    let change = |by: &[&str], user: &str, password: &str, current: Option<&str>| {
        let wish = serde_json::json!({ "password": password, "current": current });
        ask(node.control_socket(), "POST", &format!("/v1/users/{user}/password"), by, &wish.to_string()).0
    };
    assert_eq!(change(&[&own], "viewer", "another horse battery", None), 403);
    assert_eq!(change(&[&own], "viewer", "another horse battery", Some("wrong horse battery")), 403);
    assert_eq!(change(&[&own], "viewer", "short", Some("correct horse battery")), 400);
    assert_eq!(change(&[&own], "viewer", "another horse battery", Some("correct horse battery")), 200);
    assert_eq!(change(&[&own], "viewer", "a third horse battery", Some("correct horse battery")), 403);
    assert_eq!(change(&[&own], "admin", "another horse battery", Some("correct horse battery")), 403);
    assert_eq!(change(&[&admin], "viewer", "a third horse battery", None), 200, "an admin can");
    assert_eq!(change(&[&admin], "admin", "a third horse battery", None), 403, "but not his own");
    assert_eq!(change(&[], "admin", "a third horse battery", None), 200, "on the machine one can");
    assert_eq!(change(&[], "eve", "a third horse battery", None), 404);
    node.shutdown().unwrap();
}
