//! The dashboard in Debian's chromium: first login, a pool, a volume, an initiator, a member that is pulled and replaced; every page looked at
//! by axe, in light and dark, on a desk, on a phone and on a wall.

use std::path::{Path, PathBuf};
use std::time::Duration;

use beds::tool::{Running, locate};
use beds::{Tool, wait_until};

const CONFIG: &str =
    "shards = 2\n[iscsi]\nlisten = [\"127.0.0.1:0\", \"127.0.0.1:0\"]\n[http]\nlisten = \"127.0.0.1:0\"\n";
/// Looks at some forty pages, four times each.
const DEADLINE: Duration = Duration::from_secs(900);

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
    let binary = beds::node::binary();
    let lab = [
        binary.to_str().expect("a path that is text"),
        "lab",
        "run",
        "--rw",
        "randread",
        "--time",
        "4",
        "--keep",
        folder.join("data").to_str().expect("a path that is text"),
    ]
    .map(str::to_owned);
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
        .arg("--lab")
        .arg(serde_json::to_string(&lab).expect("text"))
        .arg("--initiator")
        .arg(serde_json::to_string(&initiator).expect("text"))
        .deadline(DEADLINE)
}

/// Drives the browser through a step, and ends the node.
fn step(step: &str, node: Running, base: &str, folder: &Path) {
    let driven = drive(step, base, folder).run();
    assert!(driven.succeeded(), "{driven}\n{}", node.stderr_so_far());
    println!("{}", driven.stdout);
    node.interrupt();
    let _ = node.finish().expect_success();
}

#[test]
fn somebody_makes_a_node_his_own_in_a_browser() {
    let folder = tempfile::Builder::new().prefix("fels-dashboard-").tempdir().expect("a temporary directory");
    let data = folder.path().join("data");
    std::fs::create_dir(&data).expect("a directory");
    std::fs::write(data.join("fels.toml"), CONFIG).expect("a configuration");
    let (first, base) = node(&data);
    step("begin", first, &base, folder.path());
    // All of it is there after a start.
    let (second, base) = node(&data);
    step("go-on", second, &base, folder.path());
    // A disk that is pulled while the node stands still.
    std::fs::remove_file(folder.path().join("m1.img")).expect("a member");
    let (third, base) = node(&data);
    step("mend", third, &base, folder.path());
}
