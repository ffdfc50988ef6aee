//! `fels pool` without a node, as people meet it: plans, tables, refusals, and what it ends with.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

fn run(directory: &Path, arguments: &[&str]) -> (i32, String, String) {
    said(directory, arguments, "")
}

fn said(directory: &Path, arguments: &[&str], input: &str) -> (i32, String, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_fels"))
        .arg("pool")
        .args(arguments)
        .current_dir(directory)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Who does not ask does not read.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    // Its path is another one in each run.
    let here = directory.display().to_string();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap().replace(&here, "/here");
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

const CREATE: [&str; 9] =
    ["create", "tank", "--raid", "raid5", "--member-size", "16MiB", "--members", "a", "b"];

const PLAN: &str = "\
pool tank: raid5 of 3 members, 29MiB for volumes, units of 64KiB, with checksums; any one member may fail

  slot   size  member
  0     16MiB  /here/a (is made)
  1     16MiB  /here/b (is made)
  2     16MiB  /here/c (is made)

  slot   0  1  2
  row 0  0  1  P
  row 1  3  P  2
  row 2  P  4  5
  row 3  6  7  P

";

const TABLE: &str = "\
[[pool]]
name = \"tank\"
raid = \"raid5\"
members = [
    \"/here/a\",
    \"/here/b\",
    \"/here/c\",
]
";

fn create(more: &[&'static str]) -> Vec<&'static str> {
    CREATE.iter().copied().chain(["c"]).chain(more.iter().copied()).collect()
}

#[test]
fn a_plan_is_shown_and_then_made() {
    let directory = tempfile::tempdir().unwrap();
    let planned = run(directory.path(), &create(&["--dry-run"]));
    let end = "nothing was made: this is what would be, without --dry-run\n";
    assert_eq!(planned, (0, format!("{PLAN}{end}"), String::new()));
    assert!(!directory.path().join("a").exists());
    let made = run(directory.path(), &create(&[]));
    let end = format!("made; the configuration of a node needs this:\n\n{TABLE}member_size = \"16MiB\"\n");
    assert_eq!(made, (0, format!("{PLAN}{end}"), String::new()));
    let again = run(directory.path(), &create(&[]));
    let refused = "error: /here/a is a member of the pool tank, without volumes\n\
                   hint: a pool is made of blank members only: name another one, or wipe it if nobody needs what is on it\n";
    assert_eq!(again, (1, String::new(), refused.to_owned()));
}

#[test]
fn a_pool_is_found_and_told() {
    let directory = tempfile::tempdir().unwrap();
    run(directory.path(), &create(&[]));
    std::fs::remove_file(directory.path().join("b")).unwrap();
    std::fs::write(directory.path().join("letter"), "dear friend").unwrap();
    let expected = "\
pool tank: raid5 of 3 members, 29MiB; 1 of 3 members does not have everything; all data is there; no further member may fail
  journal  closed in good order
  volumes  none

  slot  state    place
  0     in sync  /here/a
  1     missing  -
  2     in sync  /here/c

the configuration of a node needs this:

[[pool]]
name = \"tank\"
raid = \"raid5\"
members = [
    \"/here/a\",
    \"missing-member-1\",
    \"/here/c\",
]

no member: /here/letter has no label of a pool, but something else on it
";
    let (code, out, err) = run(directory.path(), &["import", "--dir", "."]);
    assert_eq!((code, out.as_str(), err.as_str()), (0, expected, ""));
    let (code, _, err) = run(directory.path(), &["import", "a"]);
    let too_few =
        "error: too many members are missing or incomplete\nhint: bring the other members, and look again\n";
    assert_eq!((code, err.as_str()), (1, too_few));
    let (code, out, _) = run(directory.path(), &["status", "--members", "c", "a", "--json"]);
    let told: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &told["pools"][0]["members"][1]["condition"]), (0, &"missing".into()), "{told}");
}

#[test]
fn a_pool_is_given_up_only_by_its_name() {
    let directory = tempfile::tempdir().unwrap();
    run(directory.path(), &create(&[]));
    let destroy = ["destroy", "tank", "--members", "a", "b", "c"];
    let (code, _, err) = said(directory.path(), &destroy, "tonk\n");
    let asked = "what is on it will be lost; type the name of the pool to go on: ";
    let refused =
        "error: that is not the name of the pool: nothing was done\nhint: --yes goes on without asking\n";
    assert_eq!((code, err), (1, format!("{asked}{refused}")));
    let (code, _, err) = run(directory.path(), &["destroy", "tonk", "--members", "a"]);
    assert!(
        code == 1 && err.starts_with("error: /here/a is a member of the pool tank, not of tonk\n"),
        "{err}"
    );
    let (code, out, _) = said(directory.path(), &destroy, "tank\n");
    assert_eq!(code, 0);
    assert!(out.ends_with("\npool tank is no more: 3 members are blank again\n"), "{out}");
    let (code, ..) = run(directory.path(), &create(&[]));
    assert_eq!(code, 0, "they can be members again");
}

#[test]
fn what_cannot_be_is_refused_with_a_hint_and_nothing_is_made() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("letter"), "dear friend").unwrap();
    for (arguments, code, words) in [
        (
            &["create", "tank", "--raid=raid5", "--member-size=16MiB", "--members", "a", "b"][..],
            1,
            "raid5 cannot have 2 members",
        ),
        (&["create", "tank", "--raid=raid1", "--members", "a", "b"], 1, "/here/a is not there, or empty"),
        (
            &["create", "tank", "--raid=raid1", "--member-size=16MiB", "--members", "a", "letter"],
            1,
            "something else on it",
        ),
        (&["create", "tank", "--raid=raid1", "--member-size=1KiB", "--members", "a", "b"], 1, "is too small"),
        (
            &["create", "Tank!", "--raid=raid1", "--member-size=16MiB", "--members", "a", "b"],
            1,
            "cannot be the name of a pool",
        ),
        (
            &["create", "tank", "--raid=raid1", "--member-size=16MiB", "--unit=5KiB", "--members", "a", "b"],
            1,
            "unit",
        ),
        (&["create", "tank", "--raid=raid7", "--members", "a"], 2, "is no RAID level"),
        (
            &["create", "tank", "--raid=raid1", "--member-size=16MiB", "--members", "a", "./a"],
            2,
            "/here/a is named twice",
        ),
        (&["export", "tank", "--members", "letter"], 1, "/here/letter has no label of a pool"),
        (&["import", "--dir", "."], 1, "no member of a pool was found"),
        (&["status"], 1, "no node runs in fels-data"),
        (&["scrub", "tank", "--data", "."], 1, "no node runs in ."),
        (&["add", "tank", "a", "--data", "."], 1, "no node runs in ."),
    ] {
        let (ended, _, err) = run(directory.path(), arguments);
        assert_eq!(ended, code, "{arguments:?}: {err}");
        assert!(err.contains(words), "{arguments:?}: {err}");
        assert!(err.contains("hint:"), "{arguments:?}: {err}");
        assert!(!directory.path().join("a").exists(), "{arguments:?}");
    }
}

/// What the tails of members could not be written to was said to be closed in good order.
#[test]
fn a_pool_that_fails_while_it_is_exported_is_not_closed_in_good_order() {
    let directory = tempfile::tempdir().unwrap();
    let solo = ["create", "solo", "--raid", "single", "--member-size", "16MiB", "--members", "a"];
    assert_eq!(run(directory.path(), &solo).0, 0);
    // Nothing can be written behind the last but one block, and nobody is killed for trying: half kibibytes, as POSIX has them.
    let limited = "trap '' XFSZ; ulimit -f 32760; exec \"$@\"";
    let output = Command::new("sh")
        .args(["-c", limited, "sh", env!("CARGO_BIN_EXE_fels"), "pool", "export", "solo", "--members", "a"])
        .current_dir(directory.path())
        .output()
        .unwrap();
    let (out, err) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert_eq!((output.status.code(), out.as_str()), (Some(1), ""), "{err}");
    assert!(err.contains("pool solo is not closed in good order") && err.contains("hint: "), "{err}");
    let (code, out, _) = run(directory.path(), &["export", "solo", "--members", "a"]);
    assert!(code == 0 && out.contains("is closed in good order"), "{out}");
}

/// A node had gone on without a member. Beside that in a directory the member was exported as if the node's were missing: then each
/// had been used without the other, and neither node nor anybody else opened them any more.
#[test]
fn what_a_node_goes_on_without_is_not_opened_beside_it() {
    let directory = tempfile::tempdir().unwrap();
    let mirror = ["create", "tank", "--raid", "raid1", "--member-size", "16MiB", "--members", "a", "b"];
    assert_eq!(run(directory.path(), &mirror).0, 0);
    let held = std::fs::OpenOptions::new().read(true).write(true).open(directory.path().join("a")).unwrap();
    held.lock().unwrap();
    for command in ["export", "destroy"] {
        let (code, _, err) = said(directory.path(), &[command, "tank", "--dir", "."], "tank\n");
        assert_eq!(code, 1, "{command}: {err}");
        assert!(err.contains("/here/a is in use by another process") && err.contains("hint: "), "{err}");
    }
    drop(held);
    // The node was started without it, and stopped.
    std::fs::rename(directory.path().join("b"), directory.path().join("away")).unwrap();
    assert_eq!(run(directory.path(), &["export", "tank", "--members", "a"]).0, 0);
    std::fs::rename(directory.path().join("away"), directory.path().join("b")).unwrap();
    let (code, _, err) = run(directory.path(), &["export", "tank", "--dir", "."]);
    assert_eq!(code, 0, "{err}");
}

/// A plan was shown that could not be carried out, and carrying it out left files.
#[test]
fn a_spare_that_is_too_small_is_refused_before_anything_is_made() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("small"), vec![0; 8 << 20]).unwrap();
    for more in [&["--dry-run"][..], &[]] {
        let arguments = [&create(&["--spare", "small"])[..], more].concat();
        let (code, _, err) = run(directory.path(), &arguments);
        let refused = "error: the spare /here/small has 8MiB, the smallest member 16MiB\nhint: give one that is as large\n";
        assert_eq!((code, err.as_str()), (1, refused));
        assert!(!directory.path().join("a").exists());
    }
}
