//! The control API as anybody could ask it: what is documented is there, and nothing that is sent makes it fail.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use control::api::client::Client;
use control::api::model::{Jobs, PoolState, Pools};
use control::{Node, Store, api, start};
use proptest::prelude::*;
use proptest::test_runner::{Config as Cases, TestRunner};
use serde_json::Value;

const CONFIG: &str = r#"
shards = 1
[iscsi]
listen = ["127.0.0.1:0"]
[[pool]]
name = "tank"
raid = "raid5"
members = [{ memory = "8MiB" }, { memory = "8MiB" }, { memory = "8MiB" }]
[[volume]]
name = "demo"
size = "1MiB"
pool = "tank"
"#;

fn node(directory: &Path) -> Node {
    begun(directory, CONFIG)
}

fn begun(directory: &Path, text: &str) -> Node {
    std::fs::write(directory.join("fels.toml"), text).unwrap();
    let store = Store::of_directory(directory).unwrap();
    let document = store.read().unwrap();
    start(store, document).unwrap()
}

/// Sends bytes, and gives all that comes back until the node closes the connection.
fn exchange(socket: &Path, bytes: &[u8]) -> Vec<u8> {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(50))).unwrap();
    // It may answer and close before it has read everything.
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(std::net::Shutdown::Write);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    answer
}

/// The status of an answer, its head in lower case, and its body.
fn parts(answer: &[u8]) -> (u16, String, Vec<u8>) {
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n").expect("an answer of HTTP");
    let head = String::from_utf8(answer[..end].to_vec()).unwrap().to_lowercase();
    let status = head
        .split(' ')
        .nth(1)
        .and_then(|word| word.parse().ok())
        .unwrap_or_else(|| panic!("no status in {head}"));
    (status, head, answer[end + 4..].to_vec())
}

fn ask(socket: &Path, method: &str, path: &str, body: &[u8]) -> (u16, String, Vec<u8>) {
    let mut bytes = format!(
        "{method} {path} HTTP/1.1\r\nHost: fels\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    )
    .into_bytes();
    bytes.extend(body);
    parts(&exchange(socket, &bytes))
}

/// The statuses that the document has for a method of a path.
fn documented(document: &Value, method: &str, path: &str) -> Option<Vec<u16>> {
    let segments: Vec<_> = path.split('?').next()?.split('/').collect();
    let paths = document["paths"].as_object()?;
    let (_, methods) = paths.iter().find(|(template, _)| {
        let template: Vec<_> = template.split('/').collect();
        let same = |(one, other): (&&str, &&str)| (one.starts_with('{') && !other.is_empty()) || one == other;
        template.len() == segments.len() && template.iter().zip(&segments).all(same)
    })?;
    let responses = methods.get(method.to_lowercase())?["responses"].as_object()?;
    Some(responses.keys().map(|status| status.parse().unwrap()).collect())
}

#[test]
fn the_document_is_of_openapi_3_1_and_every_path_in_it_answers() {
    let directory = tempfile::tempdir().unwrap();
    let node = node(directory.path());
    let socket = node.control_socket().to_owned();
    let (status, _, body) = ask(&socket, "GET", "/v1/openapi.json", b"");
    let document: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!((status, document["openapi"].as_str().unwrap().starts_with("3.1")), (200, true));
    let mut count = 0;
    for (template, methods) in document["paths"].as_object().unwrap() {
        for method in methods.as_object().unwrap().keys() {
            let path = template.replace("{pool}", "none").replace("{slot}", "0").replace("{id}", "0");
            // It does not end by itself.
            let path = path.replace("/events/stream", "/events/stream?event=none");
            let path = path.replace("{user}", "none").replace("{token}", "none").replace("{volume}", "none");
            let path = path.replace("{alert}", "none").replace("{job}", "none");
            let path = path.replace("{name}", "none").replace("{span}", "day").replace("{file}", "day.svg");
            let path = path.replace("{report}", "none");
            let (status, head, body) = ask(&socket, &method.to_uppercase(), &path, b"");
            // A path that is not routed has another sentence.
            let says = String::from_utf8(body).unwrap();
            let heard = [
                "this node has no pool none",
                "this node has no volume none",
                "the volume has no name",
                "there is no configuration in it",
                "there is no user none",
                "none has no token",
                "nothing was sent",
                "the pool has no name",
                "there is no event `none`",
                "there is no alert none",
                "there is no job none",
                "there is no graph none",
                "nobody is told of alerts",
                "there is no report none",
            ];
            assert!(
                status == 200 || heard.iter().any(|words| says.contains(words)),
                "{method} {path}: {head}\n{says}"
            );
            assert_ne!(status, 405, "{method} {path}");
            count += 1;
        }
    }
    assert_eq!(count, 60, "the count of all ways to ask");
    node.shutdown().unwrap();
}

#[test]
fn a_pool_is_told_and_its_members_go_and_come_back() {
    let directory = tempfile::tempdir().unwrap();
    let node = node(directory.path());
    let client = Client::new(directory.path()).unwrap();
    let pools: Pools = client.get("/v1/pools").unwrap();
    let [pool] = &pools.pools[..] else { panic!("{pools:?}") };
    assert_eq!((pool.name.as_str(), pool.raid.as_str(), pool.state), ("tank", "raid5", PoolState::Ok));
    assert_eq!(pool.sentence, "all 3 members are in sync; any one member may fail");
    assert!(pool.size_bytes > pool.free_bytes && pool.free_bytes > 0 && pool.members.len() == 3);
    assert_eq!(pool.volumes[0].name, "demo");
    let jobs: Jobs = client.get("/v1/jobs").unwrap();
    assert_eq!(jobs, Jobs::default());
    let change = |path: &str, wish: Value| client.post::<api::model::Change>(path, &wish);
    let planned = change("/v1/pools/tank/members/1/offline", serde_json::json!({ "dry_run": true })).unwrap();
    assert!(!planned.done && planned.pool.state == PoolState::Ok, "{planned:?}");
    let done = change("/v1/pools/tank/members/1/offline", serde_json::json!({})).unwrap();
    assert!(done.done && done.pool.state == PoolState::Degraded, "{done:?}");
    let again = change("/v1/pools/tank/members/1/offline", serde_json::json!({})).unwrap();
    assert!(again.done && again.steps[0].contains("already"), "{again:?}");
    let refused = change("/v1/pools/tank/members/0/offline", serde_json::json!({})).unwrap_err();
    assert!(refused.to_string().contains("would lose data") && refused.hint().is_some(), "{refused}");
    node.shutdown().unwrap();
    let gone = client.get::<Pools>("/v1/pools").unwrap_err().to_string();
    assert!(gone.contains("no node runs in"), "{gone}");
}

/// Waits until all members of the pool have everything.
fn in_sync(client: &Client) -> api::model::Pool {
    for _ in 0..600 {
        let pool: api::model::Pool = client.get("/v1/pools/tank").unwrap();
        if pool.state == PoolState::Ok {
            return pool;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("not in sync in time");
}

/// A node with a pool of this level, whose members are files in its directory.
fn extended(raid: &str, further: &[&str]) -> (tempfile::TempDir, Node, Client, api::model::Change) {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().display().to_string();
    let config = format!(
        "shards = 1\n[iscsi]\nlisten = [\"127.0.0.1:0\"]\n[[pool]]\nname = \"tank\"\nraid = \"{raid}\"\n\
         members = [\"m0\", \"m1\", \"m2\", \"m3\"]\nmember_size = \"8MiB\"\n"
    );
    let config = if raid == "raid10" { config } else { config.replace(", \"m2\", \"m3\"", "") };
    let node = begun(directory.path(), &config);
    let client = Client::new(directory.path()).unwrap();
    let places: Vec<_> = further.iter().map(|name| format!("{data}/{name}")).collect();
    let wish = serde_json::json!({ "places": places, "dry_run": true });
    let planned: api::model::Change = client.post("/v1/pools/tank/members", &wish).unwrap();
    assert!(!planned.done && planned.steps[0].starts_with("make "), "{planned:?}");
    assert!(places.iter().all(|place| !Path::new(place).exists()));
    let wish = serde_json::json!({ "places": places });
    let change: api::model::Change = client.post("/v1/pools/tank/members", &wish).unwrap();
    assert!(change.done, "{change:?}");
    assert_eq!(change.configuration, planned.configuration, "the plan has what it becomes");
    (directory, node, client, change)
}

/// Starts the node anew with the table that was printed.
fn again(directory: &Path, change: &api::model::Change) -> Node {
    let table = change.configuration.as_ref().unwrap();
    begun(directory, &format!("shards = 1\n[iscsi]\nlisten = [\"127.0.0.1:0\"]\n{table}"))
}

#[test]
fn a_mirror_is_extended_and_found_again_with_the_table_that_was_printed() {
    let (directory, node, client, change) = extended("raid1", &["m2"]);
    assert_eq!(change.pool.members.len(), 3);
    let pool = in_sync(&client);
    assert_eq!(pool.sentence, "all 3 members are in sync; any 2 members may fail");
    let data = directory.path().display().to_string();
    let refused = |wish: Value, words: &str| {
        let error = client.post::<api::model::Change>("/v1/pools/tank/members", &wish).unwrap_err();
        assert!(error.to_string().contains(words) && error.hint().is_some(), "{error}: {:?}", error.hint());
    };
    refused(serde_json::json!({}), "nobody said which");
    refused(serde_json::json!({ "places": ["m9"] }), "not an absolute path");
    refused(serde_json::json!({ "places": [format!("{data}/m2")] }), "is in use");
    let (one, other) = (format!("{data}/m3"), format!("{data}/m4"));
    refused(serde_json::json!({ "places": [one, one] }), "named twice");
    refused(serde_json::json!({ "places": [one, other] }), "at most 4 members");
    refused(serde_json::json!({ "places": [one], "member_bytes": 1 << 20 }), "have 8388608 bytes");
    std::fs::write(&one, "dear friend").unwrap();
    refused(serde_json::json!({ "places": [one] }), "something else on it");
    std::fs::write(&other, vec![0; 4 << 20]).unwrap();
    refused(serde_json::json!({ "places": [other] }), "members of this pool have");
    node.shutdown().unwrap();
    let node = again(directory.path(), &change);
    assert_eq!(client.get::<api::model::Pool>("/v1/pools/tank").unwrap().members.len(), 3);
    node.shutdown().unwrap();
}

#[test]
fn a_pool_of_pairs_gets_room_and_is_found_again_with_the_table_that_was_printed() {
    let (directory, node, client, change) = extended("raid10", &["m4", "m5"]);
    let before = client.get::<api::model::Pool>("/v1/pools/tank").unwrap();
    assert_eq!((before.members.len(), before.state), (6, PoolState::Ok));
    assert_eq!(before.sentence, "all 6 members are in sync; any one member may fail");
    let odd = serde_json::json!({ "places": [directory.path().join("m6")] });
    let error = client.post::<api::model::Change>("/v1/pools/tank/members", &odd).unwrap_err();
    assert!(error.to_string().contains("in pairs") && error.hint().is_some(), "{error}");
    node.shutdown().unwrap();
    let node = again(directory.path(), &change);
    let after: api::model::Pool = client.get("/v1/pools/tank").unwrap();
    assert_eq!((after.size_bytes, after.free_bytes), (before.size_bytes, before.size_bytes));
    node.shutdown().unwrap();
}

fn word() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("v1".to_owned()),
        Just("pools".to_owned()),
        Just("tank".to_owned()),
        Just("members".to_owned()),
        Just("scrub".to_owned()),
        Just("jobs".to_owned()),
        Just("users".to_owned()),
        Just("tokens".to_owned()),
        Just("password".to_owned()),
        Just("audit?limit=0".to_owned()),
        Just("volumes".to_owned()),
        Just("demo".to_owned()),
        Just("configuration".to_owned()),
        Just("status".to_owned()),
        Just("events?limit=0".to_owned()),
        Just("alerts".to_owned()),
        Just("mute".to_owned()),
        (0..99_u64).prop_map(|number| number.to_string()),
        Just(u64::MAX.to_string()),
        "[a-z0-9._~%-]{0,12}",
        Just("%00%ff".to_owned()),
        Just("x".repeat(3000)),
    ]
}

fn path() -> impl Strategy<Value = String> {
    let verb = prop_oneof![Just("offline"), Just("online"), Just("replace")];
    let slot = prop_oneof![Just("0".to_owned()), Just("2".to_owned()), word()];
    prop_oneof![
        prop::collection::vec(word(), 0..7).prop_map(|words| format!("/{}", words.join("/"))),
        (slot, verb).prop_map(|(slot, verb)| format!("/v1/pools/tank/members/{slot}/{verb}")),
        Just("/v1/pools/tank/scrub".to_owned()),
        Just("/v1/pools/tank/members".to_owned()),
        Just("/v1/volumes".to_owned()),
        Just("/v1/volumes/demo".to_owned()),
        Just("/v1/configuration".to_owned()),
        "/v1/configuration\\?[a-z=&%]{0,12}",
    ]
}

/// Wishes of volumes and configurations, most of them wrong.
fn volume_wish() -> impl Strategy<Value = Value> {
    let size = prop_oneof![
        Just(serde_json::json!("1MiB")),
        Just(serde_json::json!(0)),
        any::<u64>().prop_map(Value::from),
        "\\PC{0,6}".prop_map(Value::from)
    ];
    let text =
        prop_oneof!["\\PC{0,9}".prop_map(Value::from), Just(Value::Null), Just(serde_json::json!(["a"]))];
    let key = prop_oneof![
        Just("alias"),
        Just("name"),
        Just("pool"),
        Just("backing"),
        Just("limits"),
        Just("enabled"),
        Just("chap")
    ];
    (size, text, key, any::<bool>()).prop_map(|(size, text, key, dry_run)| {
        let mut keys = serde_json::json!({ "name": "fuzz", "size": size, "backing": { "null": true } });
        keys[key] = text.clone();
        // An empty configuration is a right one, and takes the pool away that the test looks at in the end.
        let wrong = text.as_str().map_or_else(|| text.clone(), |text| Value::from(format!("{text}\n=")));
        serde_json::json!({ "volume": keys, "set": { "size": size, key: text }, "text": wrong, "dry_run": dry_run })
    }).prop_flat_map(|whole| {
        let parts = ["volume", "set", "text"].map(|part| serde_json::json!({ part: whole[part], "dry_run": whole["dry_run"] }));
        prop::sample::select(parts.to_vec())
    })
}

fn body() -> impl Strategy<Value = Vec<u8>> {
    // No place where something could be made.
    let place = prop_oneof![
        Just("/nonexistent/member"),
        Just("/dev/null"),
        Just("/proc/self/mem"),
        Just("/"),
        Just("member"),
        Just("/\u{0}"),
    ];
    let wish = (place, any::<Option<bool>>()).prop_map(|(place, dry_run)| match dry_run {
        Some(dry_run) => serde_json::json!({ "place": place, "dry_run": dry_run }),
        None => serde_json::json!({ "place": place }),
    });
    prop_oneof![
        Just(Vec::new()),
        any::<u64>().prop_map(|bytes| {
            serde_json::json!({ "places": ["/nonexistent/member", "/dev/null"], "member_bytes": bytes })
                .to_string()
                .into_bytes()
        }),
        any::<bool>().prop_map(|dry_run| serde_json::json!({ "dry_run": dry_run }).to_string().into_bytes()),
        wish.prop_map(|wish| wish.to_string().into_bytes()),
        volume_wish().prop_map(|wish| wish.to_string().into_bytes()),
        prop::collection::vec(any::<u8>(), 0..200),
        Just(b"{\"dry_run\":1}".to_vec()),
        Just("[".repeat(5000).into_bytes()),
        Just(vec![b' '; 100_000]),
    ]
}

#[test]
fn nothing_that_is_asked_makes_it_fail_and_every_answer_is_documented() {
    let directory = tempfile::tempdir().unwrap();
    let node = node(directory.path());
    let socket = node.control_socket().to_owned();
    let document = serde_json::to_value(api::document()).unwrap();
    let method =
        prop_oneof![Just("GET"), Just("POST"), Just("DELETE"), Just("PUT"), Just("PATCH"), Just("BREW")];
    let mut runner = TestRunner::new(Cases { cases: 400, failure_persistence: None, ..Cases::default() });
    let asked = runner.run(&(method, path(), body()), |(method, path, body)| {
        let (status, head, answer) = ask(&socket, method, &path, &body);
        prop_assert!(status < 500, "{} {}: {}", method, path, head);
        if status >= 400 {
            prop_assert!(
                head.contains("content-type: application/problem+json"),
                "{} {}: {}",
                method,
                path,
                head
            );
            let problem: api::Problem = serde_json::from_slice(&answer).unwrap();
            prop_assert_eq!(problem.status, status);
            prop_assert!(!problem.detail.is_empty());
        }
        if let Some(statuses) = documented(&document, method, &path) {
            prop_assert!(statuses.contains(&status), "{} {}: {} is not documented", method, path, status);
        }
        Ok(())
    });
    asked.unwrap();
    // One that is in use is never taken for another.
    let client = Client::new(directory.path()).unwrap();
    let pools: Pools = client.get("/v1/pools").unwrap();
    assert_ne!(pools.pools[0].state, PoolState::Failed);
    node.shutdown().unwrap();
}

#[test]
fn bytes_that_are_no_request_are_answered_or_dropped_and_the_next_one_is_served() {
    let directory = tempfile::tempdir().unwrap();
    let node = node(directory.path());
    let socket = node.control_socket().to_owned();
    let mut runner = TestRunner::new(Cases { cases: 200, failure_persistence: None, ..Cases::default() });
    let bytes = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..2000),
        "(GET|POST) /v1/[a-z/]{0,20} HTTP/1\\.[01]\r\n([A-Za-z-]{1,10}: [ -~]{0,20}\r\n){0,5}\r\n.{0,50}".prop_map(String::into_bytes),
        Just(b"POST /v1/pools/tank/scrub HTTP/1.1\r\nHost: a\r\nContent-Length: 18446744073709551615\r\n\r\n{".to_vec()),
        Just(b"POST /v1/pools/tank/scrub HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n{".to_vec()),
        (1..100_000_usize).prop_map(|count| format!("GET / HTTP/1.1\r\nx: {}", "y".repeat(count)).into_bytes()),
    ];
    let asked = runner.run(&bytes, |bytes| {
        let answer = exchange(&socket, &bytes);
        if !answer.is_empty() {
            let (status, head, _) = parts(&answer);
            prop_assert!(status < 500, "{}", head);
        }
        Ok(())
    });
    asked.unwrap();
    assert_eq!(ask(&socket, "GET", "/v1/jobs", b"").0, 200);
    node.shutdown().unwrap();
}

#[test]
fn names_that_are_no_text_are_refused_as_everything_else() {
    let directory = tempfile::tempdir().unwrap();
    let node = node(directory.path());
    let socket = node.control_socket().to_owned();
    for (method, path) in [("GET", "/v1/pools/%ff"), ("POST", "/v1/pools/tank/members/%ff/offline")] {
        let (status, head, body) = ask(&socket, method, path, b"");
        let said: api::Problem =
            serde_json::from_slice(&body).unwrap_or_else(|error| panic!("{error}: {head}"));
        assert_eq!((status, said.status), (400, 400), "{path}");
    }
    node.shutdown().unwrap();
}

#[test]
fn who_asks_and_goes_away_is_heard_and_all_who_ask_at_once_are_answered() {
    let directory = tempfile::tempdir().unwrap();
    let node = node(directory.path());
    let socket = node.control_socket().to_owned();
    let client = Client::new(directory.path()).unwrap();
    let request = "POST /v1/pools/tank/members/1/offline HTTP/1.1\r\nHost: fels\r\nContent-Length: 0\r\n\r\n";
    let mut gone = UnixStream::connect(&socket).unwrap();
    gone.write_all(request.as_bytes()).unwrap();
    drop(gone);
    let cause = || client.get::<Pools>("/v1/pools").unwrap().pools[0].members[1].cause.clone();
    let deadline = std::time::Instant::now() + Duration::from_secs(10);
    while cause().as_deref() != Some("taken out by an administrator") {
        assert!(std::time::Instant::now() < deadline, "nobody heard it");
    }
    let asking = (0..8).map(|_| {
        let socket = socket.clone();
        std::thread::spawn(move || ask(&socket, "POST", "/v1/pools/tank/members/1/online", b"{}").0)
    });
    let asking: Vec<_> = asking.collect();
    assert!(asking.into_iter().all(|one| one.join().unwrap() == 200));
    node.shutdown().unwrap();
}

#[test]
fn connections_that_say_nothing_keep_nobody_out() {
    let directory = tempfile::tempdir().unwrap();
    let node = node(directory.path());
    let socket = node.control_socket().to_owned();
    // More than are served at once: the silent ones have to be let go for the next one to be heard.
    let silent: Vec<_> = (0..70).map(|_| UnixStream::connect(&socket).unwrap()).collect();
    assert_eq!(ask(&socket, "GET", "/v1/jobs", b"").0, 200);
    drop(silent);
    node.shutdown().unwrap();
}

/// Sends a request for a stream, and reads until `enough` of it has come.
fn listen(socket: &Path, path: &str, headers: &str, enough: impl Fn(&str) -> bool) -> String {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: fels\r\n{headers}\r\n").unwrap();
    let mut said = String::new();
    let mut bytes = [0; 4096];
    while !enough(&said) {
        let count = stream.read(&mut bytes).unwrap_or_else(|error| panic!("{error} after {said}"));
        assert_ne!(count, 0, "it ended after {said}");
        said.push_str(std::str::from_utf8(&bytes[..count]).unwrap());
    }
    said
}

#[test]
fn what_happens_is_listed_and_streamed_and_a_stream_that_broke_goes_on_where_it_was() {
    let directory = tempfile::tempdir().unwrap();
    let node = node(directory.path());
    let socket = node.control_socket().to_owned();
    let client = Client::new(directory.path()).unwrap();
    let follower = {
        let socket = socket.clone();
        std::thread::spawn(move || {
            listen(&socket, "/v1/events/stream?after=0", "", |said| said.contains("member-faulted"))
        })
    };
    let offline = serde_json::json!({});
    client.post::<api::model::Change>("/v1/pools/tank/members/1/offline", &offline).unwrap();
    let said = follower.join().unwrap();
    assert!(said.to_lowercase().contains("content-type: text/event-stream"), "{said}");
    assert!(said.contains("data: {") && said.contains("node-started"), "{said}");
    let told: api::Happened =
        client.get("/v1/events?event=member-faulted&pool=tank&severity=warning").unwrap();
    let [faulted] = &told.events[..] else { panic!("{told:?}") };
    assert!(faulted.sentence.starts_with("member 1 of pool tank is out"), "{faulted:?}");
    let again = format!("Last-Event-ID: {}\r\n", faulted.id - 1);
    let said = listen(&socket, "/v1/events/stream", &again, |said| said.contains("member-faulted"));
    assert!(!said.contains("node-started"), "{said}");
    assert_eq!(client.get::<api::Happened>("/v1/events?event=member-faulted&pool=none").unwrap().events, []);
    let pages: Vec<u64> = std::iter::successors(Some(u64::MAX), |before| {
        let path = format!("/v1/events?limit=1&before={before}");
        client.get::<api::Happened>(&path).unwrap().events.first().map(|record| record.id)
    })
    .skip(1)
    .collect();
    let expected: Vec<u64> = (1..=pages.len() as u64).rev().collect();
    assert_eq!(pages, expected, "page by page, nothing twice and nothing left out");
    for wrong in ["?limit=0", "?limit=1001", "?severity=bad", "?event=none", "?x=1"] {
        let error = client.get::<api::Happened>(&format!("/v1/events{wrong}")).unwrap_err();
        assert!(error.hint().is_some(), "{wrong}: {error}");
    }
    // Listeners do not hold up the end of the node, nor keep others out.
    let listeners: Vec<_> = (0..30)
        .map(|_| {
            let mut stream = UnixStream::connect(&socket).unwrap();
            stream.write_all(b"GET /v1/events/stream HTTP/1.1\r\nHost: fels\r\n\r\n").unwrap();
            stream
        })
        .collect();
    assert_eq!(ask(&socket, "GET", "/v1/jobs", b"").0, 200);
    let begun = std::time::Instant::now();
    node.shutdown().unwrap();
    assert!(begun.elapsed() < Duration::from_millis(1900), "{:?}", begun.elapsed());
    drop(listeners);
}
