//! What is wrong with a node reaches people: by a real mail server and by a webhook, once, whatever happens in between.

use std::path::Path;
use std::time::Duration;

use beds::post::{Hook, MailServer, free_port, letters};
use beds::{Bed, Node, Pool, Tool, Volume, node, wait_until};
use serde_json::Value;

/// A node looks every ten seconds.
const SOON: Duration = Duration::from_secs(60);

fn start(data: &Path, mail_port: u16, hook: &Hook) -> Node {
    let told = format!(
        "[mail]\nserver = \"127.0.0.1\"\nport = {mail_port}\ntls = \"none\"\nfrom = \"san1@example.org\"\n\
         [[alert]]\nname = \"default\"\nmail = [\"ops@example.org\"]\nwebhook = \"{}\"\n",
        hook.url()
    );
    let pool = Pool::files("tank", "raid5", 3).extra(&told);
    Bed::with([Volume::on_pool("demo", "8MiB", "tank")]).pool(pool).data(data).start()
}

/// What `fels` says about the node that works in `data`.
fn fels(data: &Path, arguments: &[&str]) -> String {
    let binary = node::binary();
    let tool = Tool::new(binary.to_str().expect("a path that is text"));
    let outcome = tool.args(arguments).arg("--data").arg(data).deadline(SOON).run().expect_success();
    outcome.stdout
}

fn json(data: &Path, arguments: &[&str]) -> Value {
    serde_json::from_str(&fels(data, &[arguments, &["--json"]].concat())).expect("JSON")
}

/// How many letters have this in their subject.
fn count(folder: &Path, words: &str) -> usize {
    let has =
        |letter: &String| letter.lines().any(|line| line.starts_with("Subject: ") && line.contains(words));
    letters(folder).iter().filter(|letter| has(letter)).count()
}

#[test]
fn a_member_that_is_pulled_is_told_with_what_to_do_and_so_is_its_end() {
    let folder = tempfile::tempdir().expect("a directory");
    let (data, mailbox) = (folder.path().join("data"), folder.path().join("mail"));
    let (port, hook) = (free_port(), Hook::start());
    let _server = MailServer::start(port, &mailbox);
    let mut node = start(&data, port, &hook);

    let tested = json(&data, &["alert", "test"]);
    assert_eq!(tested["receivers"].as_array().map(Vec::len), Some(2), "{tested}");
    assert_eq!((count(&mailbox, "this is a test"), hook.taken().len()), (1, 1));

    let _ = fels(&data, &["pool", "offline", "tank", "1"]);
    assert!(
        wait_until(SOON, || count(&mailbox, "critical: pool tank is degraded") == 1),
        "{:?}",
        letters(&mailbox)
    );
    let letter = letters(&mailbox).pop().expect("a letter");
    for words in [
        "To: ops@example.org",
        "From: san1@example.org",
        "What to do:",
        "fels pool replace tank",
        "fels alert ack pool-degraded:tank",
    ] {
        assert!(letter.contains(words), "{words} is missing:\n{letter}");
    }
    // Pools are looked at once a second: the mail may be there before.
    let events = || json(&data, &["events"])["events"].to_string();
    for name in ["node-started", "member-faulted", "alert-changed", "alert-delivered"] {
        let is_told = || events().contains(&format!("\"event\":\"{name}\""));
        assert!(wait_until(SOON, is_told), "{name} is missing in {}", events());
    }
    let alerts = json(&data, &["alert", "list"]);
    assert_eq!(alerts["alerts"][0]["id"], "pool-degraded:tank", "{alerts}");
    let said = fels(&data, &["alert", "ack", "pool-degraded:tank"]);
    assert!(said.contains("sees to pool-degraded:tank"), "{said}");
    assert!(fels(&data, &["alert", "list"]).contains("sees to it"));

    let other = folder.path().join("other.img");
    std::fs::File::create(&other).and_then(|file| file.set_len(64 << 20)).expect("a file");
    let _ = fels(&data, &["pool", "replace", "tank", "1", other.to_str().unwrap(), "--wait"]);
    assert!(wait_until(SOON, || count(&mailbox, "ok: pool tank is whole") == 1), "{:?}", letters(&mailbox));
    assert!(wait_until(SOON, || hook.taken().len() == 3), "{:?}", hook.taken());
    let levels: Vec<_> = hook.taken().iter().skip(1).map(|body| body["level"].clone()).collect();
    assert_eq!(levels, ["critical", "ok"]);
    assert_eq!(letters(&mailbox).len(), 3, "a test, one for the fault and one for its end");
    assert!(!node.log().contains("s3cret"), "the address of a webhook is in the log");
    assert!(!fels(&data, &["dump"]).contains("s3cret"), "and it is printed");
    node.terminate();
}

#[test]
fn what_could_not_be_sent_before_the_node_was_killed_arrives_once() {
    let folder = tempfile::tempdir().expect("a directory");
    let (data, mailbox) = (folder.path().join("data"), folder.path().join("mail"));
    let (port, hook) = (free_port(), Hook::start());
    let mut node = start(&data, port, &hook);
    let _ = fels(&data, &["pool", "offline", "tank", "1"]);
    assert!(wait_until(SOON, || hook.taken().len() == 1), "the webhook is told, and mail waits");
    assert!(wait_until(SOON, || json(&data, &["alert", "list"])["waiting"] == 1));
    assert!(wait_until(SOON, || fels(&data, &["events"]).contains("could not be told")));
    // Killed: what waits is on the disk, and that the webhook was told, too.
    node.restart();
    assert_eq!(json(&data, &["alert", "list"])["waiting"], 1);
    let _server = MailServer::start(port, &mailbox);
    assert!(wait_until(SOON, || count(&mailbox, "critical: pool tank is degraded") == 1), "{}", node.log());
    assert!(wait_until(SOON, || json(&data, &["alert", "list"])["waiting"] == 0));
    // After two more starts and looks nobody is told again.
    for _ in 0..2 {
        node.restart();
        let look = || json(&data, &["alert", "list"])["alerts"][0]["level"] == "critical";
        assert!(wait_until(SOON, look));
        std::thread::sleep(Duration::from_secs(12));
    }
    assert_eq!((letters(&mailbox).len(), hook.taken().len()), (1, 1));
    node.terminate();
}
