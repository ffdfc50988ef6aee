//! What the description of the API promises, asked of a node by a program that sends anything: no answer is one of a broken server, and
//! none is of a kind that is not described.

use std::path::PathBuf;
use std::time::Duration;

use beds::api::ask;
use beds::{Bed, Tool, Volume, wait_until};
use serde_json::{Value, json};

/// How long it sends.
const SENDS_S: &str = "75";
const CHECKS: &str =
    "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance";

/// Where `make test-deps` puts the program.
fn program() -> PathBuf {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")));
    let program = cache.unwrap_or_default().join("fels/schemathesis/bin/schemathesis");
    assert!(program.is_file(), "{} is missing\nhint: make test-deps", program.display());
    program
}

#[test]
fn no_answer_is_one_that_the_description_lacks() {
    let program = program();
    // Who sends anything may name any file: the node is nobody's, and has nothing but its own.
    let node = Bed::with([Volume::memory("demo", "1MiB")])
        .extra("http = { listen = \"127.0.0.1:0\" }")
        .as_nobody()
        .start();
    let mut address = None;
    let is_told = wait_until(Duration::from_secs(10), || {
        let said = node.announcement();
        address = said.lines().find_map(|line| line.strip_prefix("administered on ")).map(str::to_owned);
        address.is_some()
    });
    assert!(is_told, "it does not say where it is administered: {}", node.announcement());
    let address = address.unwrap_or_default();

    let user = json!({ "name": "alice", "password": "correct horse battery staple", "role": "admin" });
    let (status, said) = ask(node.data(), "POST", "/v1/users", &user);
    assert!(status < 300, "{said}");
    let token = json!({ "name": "anything", "role": "admin", "valid_s": 3600 });
    let (status, said) = ask(node.data(), "POST", "/v1/users/alice/tokens", &token);
    assert!(status < 300, "{said}");
    let token = said["secret"].as_str().expect("the token").to_owned();

    let notes = tempfile::tempdir().expect("a temporary directory");
    let outcome = Tool::new(program.to_str().expect("a path that is text"))
        .args(["run", &format!("{address}/v1/openapi.json")])
        .args(["--header", &format!("Authorization: Bearer {token}")])
        .args(["--checks", CHECKS, "--max-time", SENDS_S, "--phases", "examples,coverage,fuzzing"])
        // One worker: Python 3.11 fails at times when several parse code at once (python/cpython, issue 106905).
        .args(["--max-examples", "40", "--seed", "6", "--request-timeout", "60", "--workers", "1"])
        .args(["--continue-on-failure", "--no-shrink"])
        // It keeps notes where it is called.
        .folder(notes.path())
        .deadline(Duration::from_secs(240))
        .run();
    assert!(outcome.succeeded(), "{}\n{}", outcome.stdout, outcome.stderr);
    assert!(outcome.stdout.contains("generated"), "it has sent nothing: {}", outcome.stdout);
    // Whatever it was made, it is still a node.
    assert_eq!(ask(node.data(), "GET", "/v1/status", &Value::Null).0, 200);
}
