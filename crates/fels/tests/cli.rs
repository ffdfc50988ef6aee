//! The binary as people meet it: help, checks, what it says when something is wrong, and what it ends with.

use std::path::Path;
use std::process::{Command, Output, Stdio};

const GOOD: &str = r#"
shards = 2
[[volume]]
name = "demo"
size = "1GiB"
backing = { file = "demo.img" }
"#;

fn fels(directory: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fels"));
    command.args(arguments).current_dir(directory).env_remove("FELS_LOG").stdin(Stdio::null());
    command
}

fn run(directory: &Path, arguments: &[&str]) -> (i32, String, String) {
    said(&fels(directory, arguments).output().unwrap())
}

fn said(output: &Output) -> (i32, String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

fn with_config(text: &str) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("fels.toml"), text).unwrap();
    directory
}

#[test]
fn help_names_every_command_and_what_to_begin_with() {
    let directory = tempfile::tempdir().unwrap();
    let (code, out, err) = run(directory.path(), &["--help"]);
    assert_eq!((code, err.as_str()), (0, ""));
    for word in ["serve", "check", "lab", "completions", "fels serve --config fels.toml", "Exit codes: 0"] {
        assert!(out.contains(word), "{word} is not in:\n{out}");
    }
    let (code, out, _) = run(directory.path(), &["serve", "--help"]);
    assert_eq!(code, 0);
    for word in ["--config <FILE>", "--log <LEVEL>", "FELS_LOG", "[default: info]", "SIGTERM"] {
        assert!(out.contains(word), "{word} is not in:\n{out}");
    }
}

#[test]
fn the_version_is_the_packages() {
    let directory = tempfile::tempdir().unwrap();
    let version = format!("fels {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(run(directory.path(), &["--version"]), (0, version, String::new()));
}

#[test]
fn a_wrong_command_line_ends_with_2() {
    let directory = with_config(GOOD);
    for arguments in [
        &[][..],
        &["serf"],
        &["serve"],
        &["check"],
        &["check", "--config"],
        &["serve", "--config", "fels.toml", "--log", "verbose"],
    ] {
        let (code, out, err) = run(directory.path(), arguments);
        assert_eq!((code, out.as_str()), (2, ""), "{arguments:?}");
        assert!(!err.is_empty(), "{arguments:?}");
    }
    let (_, _, err) = run(directory.path(), &["serve", "--config", "fels.toml", "--log", "verbose"]);
    assert_eq!(
        err,
        "error: `verbose` is not a level to log at\nhint: write error, warn, info, debug or trace, or per module, such as info,plane=debug\n"
    );
}

#[test]
fn a_wrong_level_in_the_environment_is_refused_too() {
    let directory = with_config(GOOD);
    let output =
        fels(directory.path(), &["serve", "--config", "fels.toml"]).env("FELS_LOG", "loud").output().unwrap();
    let (code, _, err) = said(&output);
    assert_eq!(code, 2);
    assert!(err.starts_with("error: `loud` is not a level to log at\n"), "{err}");
}

#[test]
fn a_good_configuration_is_said_to_be_good_and_nothing_is_made() {
    let directory = with_config(GOOD);
    let result = run(directory.path(), &["check", "--config", "fels.toml"]);
    let sentence = "fels.toml is good: 1 volume, 1 iSCSI portal, 2 shards\n";
    assert_eq!(result, (0, sentence.to_owned(), String::new()));
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1, "only fels.toml is there");
}

#[test]
fn all_that_is_wrong_is_said_at_once_with_lines_and_hints() {
    let directory =
        with_config("[[volume]]\nname = \"demo\"\nblocksize = 512\nsize = \"1G\"\nbacking = {}\n");
    let expected = r#"error: fels.toml:3:1: unknown key `blocksize` in [[volume]] `demo`
  3 | blocksize = 512
    | ^^^^^^^^^
hint: did you mean `block_size`?

error: fels.toml:4:8: `size` takes a size such as "1GiB", but its unit is not known
  4 | size = "1G"
    |        ^^^^
hint: write a whole number and B, KiB, MiB, GiB, TiB, PiB or KB, MB, GB, TB, PB

error: fels.toml:5:11: `backing` takes one of { file = "demo.img" }, { memory = true }, { null = true }, { device = "/dev/sdb" }; there is none
  5 | backing = {}
    |           ^^
"#;
    for command in ["check", "serve"] {
        let result = run(directory.path(), &[command, "--config", "fels.toml"]);
        assert_eq!(result, (1, String::new(), expected.to_owned()), "{command}");
    }
    assert!(!directory.path().join("fels-data").exists(), "a node that does not start makes nothing");
}

#[test]
fn a_missing_configuration_is_one_sentence() {
    let directory = tempfile::tempdir().unwrap();
    let expected = "error: the configuration none.toml cannot be read: there is no such file\nhint: name a file with --config FILE\n";
    for command in ["check", "serve"] {
        let result = run(directory.path(), &[command, "--config", "none.toml"]);
        assert_eq!(result, (1, String::new(), expected.to_owned()), "{command}");
    }
}

#[test]
fn a_secret_in_a_wrong_configuration_is_not_shown() {
    let directory =
        with_config("[iscsi]\ndiscovery_chap = [{ user = \"alice\", secert = \"hush-hush-hush\" }]\n");
    let (code, _, err) = run(directory.path(), &["check", "--config", "fels.toml"]);
    assert_eq!(code, 1);
    assert!(err.contains("did you mean `secret`?") && !err.contains("hush"), "{err}");
}

#[test]
fn completions_are_printed_for_each_shell() {
    let directory = tempfile::tempdir().unwrap();
    for shell in ["bash", "zsh", "fish"] {
        let (code, out, err) = run(directory.path(), &["completions", shell]);
        assert_eq!((code, err.as_str()), (0, ""), "{shell}");
        assert!(out.contains("serve") && out.contains("config"), "{shell}");
    }
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let directory = tempfile::tempdir().unwrap();
    let mut child = fels(directory.path(), &["completions", "zsh"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let (code, _, err) = said(&child.wait_with_output().unwrap());
    assert_eq!((code, err.as_str()), (0, ""));
}
