//! What is wrong with a node reaches people: by a real mail server and by a webhook, once, whatever happens in between.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use beds::post::{Hook, MAIL_USER, MailServer, free_port, letters};
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

/// A certificate for servers on this machine, and its key.
fn certificate(folder: &Path) -> PathBuf {
    let data = folder.join("certificate");
    let binary = node::binary();
    let tool = Tool::new(binary.to_str().expect("a path that is text"));
    let made = tool.args(["cert", "--json", "--data"]).arg(&data).deadline(SOON).run().expect_success();
    let made: Value = serde_json::from_str(&made.stdout).expect("JSON");
    PathBuf::from(made["path"].as_str().expect("where the certificate is"))
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
    // What is told is kept; what only does not wait any more may not be yet, and a node killed then would send it again.
    assert!(wait_until(SOON, || fels(&data, &["events"]).contains("ops@example.org was told")));
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

#[test]
fn mail_by_tls_and_with_a_password_goes_to_the_right_server_and_with_the_right_password_alone() {
    let folder = tempfile::tempdir().expect("a directory");
    let (pem, password) = (certificate(folder.path()), folder.path().join("password"));
    let write = |text: &str| {
        std::fs::write(&password, text).expect("the password is written");
        std::fs::set_permissions(&password, std::fs::Permissions::from_mode(0o600)).expect("its mode");
    };
    for way in ["starttls", "tls"] {
        write(MAIL_USER.1);
        let (port, mailbox) = (free_port(), folder.path().join(format!("mail-{way}")));
        let _server = MailServer::start_guarded(port, &mailbox, way, &pem);
        let start = |ca: &str, data: &str| {
            let told = format!(
                "[mail]\nserver = \"127.0.0.1\"\nport = {port}\ntls = \"{way}\"\nfrom = \"san1@example.org\"\n\
                 user = \"{}\"\npassword_file = \"{}\"\n{ca}[[alert]]\nname = \"default\"\nmail = [\"ops@example.org\"]\n",
                MAIL_USER.0,
                password.display()
            );
            let data = folder.path().join(format!("{data}-{way}"));
            (Bed::with([Volume::memory("demo", "8MiB").extra(&told)]).data(&data).start(), data)
        };
        let test = |data: &Path| {
            let binary = node::binary();
            let tool = Tool::new(binary.to_str().expect("a path that is text"));
            tool.args(["alert", "test", "--data"]).arg(data).deadline(SOON).run()
        };

        let (mut node, data) = start(&format!("ca = \"{}\"\n", pem.display()), "trusted");
        let _ = test(&data).expect_success();
        assert_eq!(count(&mailbox, "this is a test"), 1, "{:?}", letters(&mailbox));
        // It is read for every message.
        write("wrong-horse");
        let refused = test(&data).expect_failure();
        assert!(refused.stdout.contains("could not be told"), "{}", refused.stdout);
        write(MAIL_USER.1);
        let _ = test(&data).expect_success();
        assert!(!node.log().contains("-horse"), "a password is in the log");
        node.terminate();

        let (mut node, data) = start("", "strange");
        let refused = test(&data).expect_failure();
        assert!(refused.stdout.contains("ertificate"), "{}", refused.stdout);
        node.terminate();
        assert_eq!(count(&mailbox, "this is a test"), 2, "a server whom nobody vouches for has no letter");
    }
}
