//! `fels volume`, `apply`, `dump`, `portal` and `status` on a node that runs, as people meet them.

use std::io::{BufRead, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};

struct Serving(Child);

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A node in `data` of a directory, which is where all commands run.
fn serve(directory: &Path) -> Serving {
    let mut serving = Serving(
        Command::new(env!("CARGO_BIN_EXE_fels"))
            .args(["serve", "--data", "data", "--log", "warn"])
            .current_dir(directory)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap(),
    );
    let mut line = String::new();
    BufReader::new(serving.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with("listening on "), "{line}");
    serving
}

fn run(directory: &Path, arguments: &[&str]) -> (i32, String, String) {
    said(directory, arguments, "")
}

fn said(directory: &Path, arguments: &[&str], input: &str) -> (i32, String, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_fels"))
        .args(arguments)
        .args(["--data", "data"])
        .current_dir(directory)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Who does not ask does not read.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    let here = directory.display().to_string();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap().replace(&here, "/here");
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

fn directory() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    std::fs::create_dir(directory.path().join("data")).unwrap();
    let text = "# Mine.\nshards = 1\n[iscsi]\nlisten = [\"127.0.0.1:0\"]\n";
    std::fs::write(directory.path().join("data/fels.toml"), text).unwrap();
    directory
}

fn ok(out: &str) -> (i32, String, String) {
    (0, out.to_owned(), String::new())
}

#[test]
fn a_volume_is_made_looked_at_changed_and_deleted() {
    let directory = directory();
    let here = directory.path();
    let _node = serve(here);
    let none = "this node has no volume: fels volume create demo --size 1GiB makes one\n";
    assert_eq!(run(here, &["volume", "list"]), ok(none));
    let (_, status, _) = run(here, &["status"]);
    assert!(status.starts_with("all is well, and no volume is served yet"), "{status}");
    let create = ["volume", "create", "db", "--size", "4MiB", "--alias", "data"];
    let plan = "  serve volume db: 4MiB in data/db.img, made now\n";
    let planned = run(here, &[&create[..], &["--dry-run"]].concat());
    assert_eq!(planned, ok(&format!("this would be done, and was not:\n{plan}")));
    assert!(!here.join("data/db.img").exists());
    assert_eq!(run(here, &create), ok(plan));
    let table = "\
volume  size  state    place              alias
db      4MiB  serving  /here/data/db.img  data
";
    let (_, list, _) = run(here, &["volume", "list"]);
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(words(&list), words(table), "columns are as wide as the path was");
    let resized = run(here, &["volume", "resize", "db", "+1MiB"]);
    assert_eq!(resized, ok("  change volume db in use: 5MiB instead of 4MiB\n"));
    let limited = run(here, &["volume", "limit", "db", "--iops", "500", "--throughput", "1MiB/s"]);
    assert_eq!(limited, ok("  change volume db in use: at most 500 requests a second and 1MiB/s\n"));
    let limited = run(here, &["volume", "limit", "db", "--iops", "none"]);
    assert_eq!(limited, ok("  change volume db in use: at most 1MiB/s\n"));
    let set =
        run(here, &["volume", "set", "db", "allow=[\"iqn.2004-10.com.example:host\"]", "--unset", "alias"]);
    assert_eq!(
        set.1,
        "  change volume db in use: no alias, for 1 initiator, not offered over NBD, not offered over NVMe\n"
    );
    let (_, shown, _) = run(here, &["volume", "show", "db"]);
    assert!(
        shown.starts_with("db: 5MiB in /here/data/db.img, blocks of 512 bytes\n  state      serving\n"),
        "{shown}"
    );
    assert!(shown.ends_with("  limits     1MiB/s\n") && shown.contains("initiators iqn.2004-10"), "{shown}");
    let off = run(here, &["volume", "disable", "db"]);
    assert_eq!(off, ok("  switch volume db off; its bytes stay in data/db.img\n"));
    let on = run(here, &["volume", "enable", "db"]);
    assert_eq!(on, ok("  serve volume db: 5MiB in data/db.img, with what is in it\n"));
    let (code, _, err) = said(here, &["volume", "delete", "db"], "dc\n");
    assert!(
        code == 1 && err.contains("that is not the name of the volume: nothing was done\nhint: "),
        "{err}"
    );
    let (code, gone, _) = said(here, &["volume", "delete", "db"], "db\n");
    assert_eq!(
        (code, &gone[..]),
        (0, "  take volume db out of service, and DESTROY its bytes in data/db.img\n")
    );
    assert!(!here.join("data/db.img").exists());
    assert!(
        std::fs::read_to_string(here.join("data/fels.toml")).unwrap().starts_with("# Mine.\nshards = 1\n")
    );
}

#[test]
fn a_configuration_is_dumped_and_applied() {
    let directory = directory();
    let here = directory.path();
    let _node = serve(here);
    std::fs::write(here.join("secret"), "hush-hush-hush\n").unwrap();
    let create = [
        "volume",
        "create",
        "db",
        "--size",
        "1MiB",
        "--memory",
        "--set",
        "chap=[{\"user\":\"u\",\"secret\":\"hush-hush-hush\"}]",
    ];
    assert_eq!(run(here, &create).0, 0);
    let (_, dumped, _) = run(here, &["dump"]);
    assert!(dumped.contains("secret = \"***\"") && !dumped.contains("hush"), "{dumped}");
    let (_, one, _) = run(here, &["dump", "db", "--secrets"]);
    assert!(one.starts_with("[[volume]]\nname = \"db\"\n") && one.contains("hush-hush-hush"), "{one}");
    let (_, whole, _) = run(here, &["dump", "--secrets"]);
    let file = here.join("next.toml");
    std::fs::write(&file, whole.replace("shards = 1", "shards = 2").replace(one.trim_end(), "")).unwrap();
    let expected = "  take volume db out of service, and give its memory back\n  from the next start of the node on: 2 shards instead of 1\n";
    let planned = run(here, &["apply", "-f", "next.toml", "--dry-run"]);
    assert_eq!(planned, ok(&format!("this would be done, and was not:\n{expected}")));
    assert_eq!(run(here, &["apply", "-f", "next.toml"]), ok(expected));
    let again = "  from the next start of the node on: 2 shards instead of 1\n";
    assert_eq!(run(here, &["apply", "-f", "next.toml"]), ok(again));
    let (code, status, _) = run(here, &["status"]);
    assert!(
        code == 0 && status.contains("warning: this waits from the next start") && status.contains("hint: "),
        "{status}"
    );
    std::fs::write(&file, format!("{whole}\n[[volume]]\nname = \"x\"\nsize = \"1G\"\n")).unwrap();
    let (code, _, err) = run(here, &["apply", "-f", "next.toml"]);
    let wrong = "volume.x.size: `size` takes a size such as \"1GiB\", but its unit is not known\nhint: ";
    assert!(code == 1 && err.contains(wrong), "{err}");
    std::fs::write(
        here.join("data/fels.toml"),
        "# by hand\nshards = 1\n[iscsi]\nlisten = [\"127.0.0.1:0\"]\n",
    )
    .unwrap();
    let (code, _, err) = run(here, &create);
    assert!(code == 1 && err.contains("hint: let the node take it: fels apply -f "), "{err}");
    assert_eq!(run(here, &["apply", "-f", "data/fels.toml"]).0, 0);
    assert_eq!(run(here, &create).0, 0);
    let (_, portals, _) = run(here, &["portal", "list"]);
    assert!(portals.starts_with("protocol  address\niscsi     127.0.0.1:"), "{portals}");
}

/// The document of a node that was started with a data directory does not say where that is: the command that the node itself hinted
/// at asked a node in `fels-data`.
#[test]
fn the_document_of_a_data_directory_leads_to_its_node_from_wherever() {
    let directory = directory();
    let here = directory.path();
    let _node = serve(here);
    let (_, status, _) = {
        std::fs::write(
            here.join("data/fels.toml"),
            "# by hand\nshards = 1\n[iscsi]\nlisten = [\"127.0.0.1:0\"]\n",
        )
        .unwrap();
        run(here, &["status"])
    };
    let hinted = status.lines().find_map(|line| line.strip_prefix("hint: fels ")).unwrap();
    let hinted = hinted.split("   ").next().unwrap().replace("/here", &here.display().to_string());
    let elsewhere = tempfile::tempdir().unwrap();
    let file = here.join("data/fels.toml").display().to_string();
    for arguments in [hinted.as_str(), &format!("status --config {file}"), &format!("check --config {file}")]
    {
        let output = Command::new(env!("CARGO_BIN_EXE_fels"))
            .args(arguments.split(' '))
            .current_dir(elsewhere.path())
            .output()
            .unwrap();
        assert!(output.status.success(), "{arguments}: {output:?}");
    }
}

#[test]
fn a_wish_that_cannot_be_is_a_sentence_with_a_hint() {
    let directory = directory();
    let here = directory.path();
    let _node = serve(here);
    std::fs::write(here.join("data/there.img"), "precious").unwrap();
    for (arguments, code, words) in [
        (&["volume", "create", "a", "--size", "1G"][..], 1, "size: `size` takes a size such as \"1GiB\""),
        (&["volume", "create", "A_b", "--size", "1MiB"], 1, "cannot be part of a target's name"),
        (&["volume", "create", "a", "--size", "1MiB", "--pool", "none"], 1, "there is no pool `none`"),
        (&["volume", "create", "there", "--size", "1MiB"], 1, "there is something in data/there.img already"),
        (&["volume", "create", "a", "--size", "1MiB", "--file", "no/where.img"], 1, "cannot be made"),
        (&["volume", "create", "a", "--size", "1MiB", "--chap", "alice"], 2, "is not USER=FILE"),
        (&["volume", "set", "a", "colour=red"], 2, "these keys are not those of a volume"),
        (&["volume", "show", "none"], 1, "this node has no volume none"),
        (&["volume", "delete", "none", "--yes"], 1, "this node has no volume none"),
        (&["apply", "-f", "none.toml"], 1, "none.toml cannot be read"),
    ] {
        let (ended, _, err) = run(here, arguments);
        assert!(
            ended == code && err.contains(words) && err.contains("hint: "),
            "{arguments:?}: {ended} {err}"
        );
    }
    assert_eq!(std::fs::read_to_string(here.join("data/there.img")).unwrap(), "precious");
}

#[test]
fn a_directory_alone_is_enough_to_begin_with() {
    let directory = tempfile::tempdir().unwrap();
    let child = Command::new(env!("CARGO_BIN_EXE_fels"))
        .args(["serve", "--data", "data", "--config", "fels.toml"])
        .current_dir(directory.path())
        .output()
        .unwrap();
    assert_eq!(child.status.code(), Some(2), "one of both is enough");
    let manual = Command::new(env!("CARGO_BIN_EXE_fels"))
        .args(["man", "--dir", "."])
        .current_dir(directory.path())
        .output()
        .unwrap();
    assert!(manual.status.success() && directory.path().join("fels-volume-create.1").exists(), "{manual:?}");
}
