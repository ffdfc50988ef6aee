//! What the lab measures is kept beside a node, as the node reads it.

use std::path::Path;
use std::process::{Command, Stdio};

use control::reports;

fn lab(arguments: &[&str], keep: &Path) -> (i32, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_fels"))
        .arg("lab")
        .args(arguments)
        .args(["--rw", "randread", "--time", "1s", "--warmup", "0s", "--no-ceiling", "--keep"])
        .arg(keep)
        .env_remove("FELS_LOG")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn a_run_and_a_comparison_are_kept_as_the_node_reads_them() {
    let data = tempfile::tempdir().unwrap();
    let (code, out, err) = lab(&["run", "--target", "null:"], data.path());
    assert!(code == 0 && out.contains("target null:") && err.contains("kept as "), "{out}{err}");
    let (code, _, err) = lab(&["compare", "null:", "again=null:", "--rounds", "1"], data.path());
    assert_eq!(code, 0, "{err}");
    let (kept, left_out) = reports::list(data.path()).unwrap();
    assert_eq!((kept.len(), left_out), (2, 0));
    let find = |what: &str| {
        let found = kept.iter().find(|kept| kept.name.ends_with(&format!("-{what}.json"))).unwrap();
        found.report.as_ref().unwrap()
    };
    let run = find("run");
    assert_eq!((run.target.as_deref(), run.is_comparison()), (Some("null:"), false));
    assert!(run.tests[0].total.iops > 0.0 && !run.tests[0].seconds.is_empty(), "{run:?}");
    let comparison = find("compare");
    let names: Vec<_> = comparison.targets.iter().map(|column| column.name.as_str()).collect();
    assert!(comparison.is_comparison() && names == ["null", "again"], "{names:?}");
    assert!(comparison.rows[0].cells[1].iops.unwrap().median > 0.0, "{comparison:?}");
    assert!(comparison.faults().is_empty());
}

#[test]
fn what_cannot_be_kept_is_printed_all_the_same() {
    let (code, out, err) = lab(&["run", "--target", "null:"], Path::new("/nowhere/fels"));
    assert!(code == 1 && out.contains("target null:"), "{out}");
    assert!(err.contains("cannot be kept in /nowhere/fels") && err.contains("hint:"), "{err}");
}
