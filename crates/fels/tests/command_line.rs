//! Command lines that are wrong, and what the lab leaves when something around it is.

use std::path::Path;
use std::process::{Command, Stdio};

fn run(directory: &Path, arguments: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fels"));
    command.args(arguments).current_dir(directory).env_remove("FELS_LOG").stdin(Stdio::null());
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

/// What is said of a command line that is wrong.
fn refused(arguments: &[&str]) -> String {
    let directory = tempfile::tempdir().unwrap();
    let (code, out, err) = run(directory.path(), arguments);
    assert_eq!((code, out.as_str()), (2, ""), "{arguments:?}: {err}");
    err
}

#[test]
fn a_secret_in_an_address_is_not_said_again() {
    let address = "iscsi://alice%hush-hush-hush@san1/iqn.2026-11.internal.fels:demo/x";
    for arguments in [
        &["lab", "run", "--target", address][..],
        &["lab", "run", address],
        &["lab", "run", address, "--target", "null:"],
        &["lab", "compare", "null:", address],
        &["lab", "compare", "null:", &format!("disk={address}")],
        &["lab", "fio", "database.fio", address],
        &["lab", "verify", address],
        &["lab", address],
    ] {
        let err = refused(arguments);
        assert!(!err.contains("hush"), "{arguments:?}: {err}");
    }
    assert!(refused(&["lab", "run", "--target", address]).contains("alice%...@san1"));
}

#[test]
fn a_value_without_its_flag_is_answered_with_the_flag() {
    for (arguments, tip) in [
        (&["volume", "create", "db", "1TiB"][..], "write --size 1TiB instead of 1TiB"),
        (&["user", "add", "alice", "admin"], "write --role admin instead of admin"),
        (&["check", "fels.toml"], "write --config fels.toml instead of fels.toml"),
        (&["serve", "fels.toml"], "write --config fels.toml instead of fels.toml"),
        (&["apply", "fels.toml"], "write --file fels.toml instead of fels.toml"),
        (&["lab", "run", "null:"], "write --target null: instead of null:"),
        (&["lab", "run", "vmware", "null:"], "write --target null: instead of null:"),
        (&["lab", "fio", "database.fio", "null:"], "write --target null: instead of null:"),
    ] {
        let err = refused(arguments);
        assert!(err.contains(tip), "{arguments:?}: {err}");
        assert_eq!(err.matches("  tip: ").count(), 1, "{arguments:?}: {err}");
    }
    // What fits nowhere, and what is no value.
    for arguments in [&["volume", "list", "db", "db"][..], &["volume", "create", "--sise", "1TiB"], &["serf"]]
    {
        let err = refused(arguments);
        assert!(!err.contains("instead of"), "{arguments:?}: {err}");
    }
}

#[test]
fn a_profile_or_an_address_in_the_place_of_the_other_is_told() {
    let err = refused(&["lab", "compare", "null:", "vmware"]);
    assert!(err.contains("write --profile vmware"), "{err}");
    let err = refused(&["lab", "run", "nbd://127.0.0.1/demo", "--target", "null:"]);
    assert!(err.contains("is an address") && err.contains("hint: "), "{err}");
}

#[test]
fn a_file_that_cannot_be_written_does_not_take_the_table_away() {
    let directory = tempfile::tempdir().unwrap();
    let short = ["--time", "100ms", "--warmup", "0s", "--no-ceiling"];
    for (arguments, table) in [
        (&["lab", "run", "--target", "null:", "--json", "none/run.json"][..], "target null:"),
        (&["lab", "run", "--target", "null:", "--chart", "none/run.svg"], "target null:"),
        (&["lab", "compare", "null:", "b=null:", "--rounds", "1", "--json", "none/run.json"], "factor (null"),
    ] {
        let arguments: Vec<&str> = arguments.iter().copied().chain(short).collect();
        let (code, out, err) = run(directory.path(), &arguments);
        assert_eq!(code, 1, "{arguments:?}: {err}");
        assert!(out.contains(table), "{arguments:?}: {out}");
        assert!(err.contains("error: none/run."), "{arguments:?}: {err}");
    }
}
