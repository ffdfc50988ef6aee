//! The dashboard in Debian's chromium: first login, a pool, a volume, an initiator, a member that is pulled and replaced; every page looked at
//! by axe, in light and dark, on a desk and on a phone.

use std::path::{Path, PathBuf};
use std::time::Duration;

use beds::tool::{Running, locate};
use beds::{Tool, wait_until};

const CONFIG: &str =
    "shards = 2\n[iscsi]\nlisten = [\"127.0.0.1:0\", \"127.0.0.1:0\"]\n[http]\nlisten = \"127.0.0.1:0\"\n";
/// Looks at some twenty pages, four times each.
const DEADLINE: Duration = Duration::from_secs(400);

fn node(data: &Path) -> (Running, String) {
    let binary = beds::node::binary();
    let node = Tool::new(binary.to_str().expect("a path that is text"))
        .args(["serve", "--data"])
        .arg(data)
        .deadline(2 * DEADLINE)
        .start();
    let address = || {
        let said = node.stdout_so_far();
        said.lines().find_map(|line| line.strip_prefix("administered on ")).map(str::to_owned)
    };
    let is_ready = wait_until(Duration::from_secs(20), || address().is_some());
    assert!(is_ready, "the node is not ready: {}", node.stderr_so_far());
    let address = address().expect("it was there");
    (node, address)
}

/// The interpreter that has what drives a browser, as `make test-deps` installs it.
fn python() -> PathBuf {
    let cache = std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache")));
    let python = cache.expect("a home").join("fels/browser/bin/python");
    assert!(python.is_file(), "{} is missing\nhint: make test-deps", python.display());
    python
}

fn drive(step: &str, base: &str, folder: &Path) -> Tool {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| here.join("../target"), PathBuf::from);
    // With a part of the address that differs, so that its figures are those of one initiator.
    let initiator = [
        locate("iscsi-perf").display().to_string(),
        "-i".into(),
        "iqn.2026-11.org.example:shop".into(),
        "-r".into(),
        "-m".into(),
        "4".into(),
        "-t".into(),
        "60".into(),
    ];
    Tool::new(python().to_str().expect("a path that is text"))
        .arg(here.join("tests/dashboard/drive.py"))
        .arg(step)
        .args(["--base", base, "--chromium"])
        .arg(locate("chromium"))
        .arg("--folder")
        .arg(folder)
        .arg("--screenshots")
        .arg(target.join("screenshots"))
        .arg("--initiator")
        .arg(serde_json::to_string(&initiator).expect("text"))
        .deadline(DEADLINE)
}

#[test]
fn somebody_makes_a_node_his_own_in_a_browser() {
    let folder = tempfile::Builder::new().prefix("fels-dashboard-").tempdir().expect("a temporary directory");
    let data = folder.path().join("data");
    std::fs::create_dir(&data).expect("a directory");
    std::fs::write(data.join("fels.toml"), CONFIG).expect("a configuration");
    let (first, base) = node(&data);
    let begun = drive("begin", &base, folder.path()).run().expect_success();
    println!("{}", begun.stdout);
    first.interrupt();
    let _ = first.finish().expect_success();
    // A pool is opened when the node is started.
    let (second, base) = node(&data);
    let gone_on = drive("go-on", &base, folder.path()).run();
    assert!(gone_on.succeeded(), "{gone_on}\n{}", second.stderr_so_far());
    println!("{}", gone_on.stdout);
    second.interrupt();
    let _ = second.finish().expect_success();
}
