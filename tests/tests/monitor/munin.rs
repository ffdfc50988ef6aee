//! A real master polls a node, keeps what it is told in its round-robin files, and draws it.
//!
//! A master asks every five minutes: its clock is set on between the polls, the node's is not.

use super::node;
use beds::{Tool, wait_until};
use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Seconds between two polls of a master.
const STEP_S: u64 = 300;

struct Master {
    folder: tempfile::TempDir,
    /// Its clock at the first poll: a little after the end of a step of its files.
    begin_s: u64,
}

fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock of this century").as_secs()
}

impl Master {
    fn new(node: SocketAddr) -> Master {
        let folder = tempfile::Builder::new().prefix("fels-munin-").tempdir().expect("a directory");
        // Its programs refuse to be run by root, and are another user's then.
        let open = |path: &Path| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).expect("permissions");
        };
        open(folder.path());
        let mut text = String::new();
        for directory in ["dbdir", "htmldir", "logdir", "rundir", "cgitmpdir"] {
            let path = folder.path().join(directory);
            std::fs::create_dir(&path).expect("a directory");
            open(&path);
            let _ = writeln!(text, "{directory} {}", path.display());
        }
        let port = node.port();
        text += "tmpldir /etc/munin/templates\nstaticdir /etc/munin/static\n";
        text += "graph_strategy cron\nhtml_strategy cron\n";
        let _ = writeln!(text, "[bed;stone]\n  address 127.0.0.1\n  port {port}\n  use_node_name yes");
        std::fs::write(folder.path().join("munin.conf"), text).expect("a configuration");
        Master { folder, begin_s: (now_s() / STEP_S + 1) * STEP_S + 5 }
    }

    /// One of its programs, when its clock has gone on by so many steps.
    fn run(&self, program: &str, arguments: &[&str], steps: u64) {
        beds::tool::locate("munin-cron");
        let ahead = format!("+{}s", self.begin_s + steps * STEP_S - now_s());
        let tool = if rustix::process::geteuid().is_root() {
            Tool::new("setpriv").args(["--reuid=munin", "--regid=munin", "--clear-groups", "faketime"])
        } else {
            Tool::new("faketime")
        };
        let _ = tool
            .args(["-f", &ahead, "perl", &format!("/usr/share/munin/{program}")])
            .args(arguments)
            .folder(self.folder.path())
            .deadline(Duration::from_secs(100))
            .run()
            .expect_success();
    }

    /// Asks the node for everything.
    fn poll(&self, steps: u64) {
        self.run("munin-update", &["--nofork", &format!("--config_file={}", self.config())], steps);
    }

    /// What it makes of that for people: states, pages and graphs.
    fn show(&self, steps: u64) {
        let config = self.config();
        self.run("munin-limits", &["--config", &config], steps);
        self.run("munin-html", &["--config", &config], steps);
        self.run("munin-graph", &["--cron", "--nofork", "--config", &config], steps);
    }

    fn config(&self) -> String {
        self.file("munin.conf").display().to_string()
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.file(name)).unwrap_or_default()
    }

    /// What a round-robin file knows, the oldest first.
    fn values(&self, name: &str) -> Vec<f64> {
        let path = self.file(&format!("dbdir/bed/stone-{name}.rrd"));
        assert!(path.exists(), "{} is there:\n{}", path.display(), self.text("logdir/munin-update.log"));
        let (start, end) = (self.begin_s - STEP_S, self.begin_s + 9 * STEP_S);
        let (file, start, end) = (path.display().to_string(), start.to_string(), end.to_string());
        let arguments = ["fetch", &file, "AVERAGE", "--start", &start, "--end", &end];
        let outcome = Tool::new("rrdtool").args(arguments).run().expect_success();
        let lines = outcome.stdout.lines().filter_map(|line| line.split_once(": ")?.1.trim().parse().ok());
        lines.filter(|value: &f64| value.is_finite()).collect()
    }
}

/// What a node answers to a line.
fn ask(node: SocketAddr, line: &str) -> String {
    let mut stream = TcpStream::connect(node).expect("a connection");
    stream.write_all(format!("cap multigraph dirtyconfig\n{line}\nquit\n").as_bytes()).expect("a line");
    let lines = BufReader::new(stream).lines().map(|line| line.expect("text") + "\n");
    lines.collect()
}

#[test]
fn a_real_master_polls_a_node_and_draws_what_its_volume_does() {
    let node = node::start();
    let (http, munin) = (node::http(&node), node::munin(&node));
    let master = Master::new(munin);
    let writes = "fels_volume_operations_total{volume=\"watched\",verb=\"write\"}";
    let seen = |count: f64| {
        let fetched = ask(munin, "fetch diskstats");
        fetched.lines().any(|line| line == format!("watched_wrio.value {count}"))
    };
    // The figures of now are those that the master is told at most an interval later.
    let settle = || {
        let count = node::counter(&node::get(http, "/metrics").1, writes);
        assert!(wait_until(Duration::from_secs(15), || seen(count)), "{}", ask(munin, "fetch diskstats"));
        count
    };
    let before = settle();
    master.poll(0);
    let writes = node::work(&node, Duration::from_secs(2));
    let after = settle();
    assert!((after - before - writes).abs() < 1e-9, "{before} to {after} by {writes} writes");
    master.poll(1);
    master.poll(2);
    master.show(2);

    // It means to change what it has not made yet, and says so at the first poll of every node.
    let log = master.text("logdir/munin-update.log");
    let trouble = |line: &&str| line.contains("ERROR") && !line.contains("Tuning") || line.contains("WARN");
    assert_eq!(log.lines().find(trouble), None);
    let rates = master.values("diskstats_iops-watched-wrio-d");
    let most = rates.iter().copied().fold(0.0, f64::max);
    let true_rate = (after - before) / Duration::from_secs(STEP_S).as_secs_f64();
    assert!((most / true_rate - 1.0).abs() < 0.03, "{rates:?} with {true_rate} writes a second");
    // What came by the portal, and what the mirror made of it: at least twice as much on each member.
    let portal = format!("portal_iops-iscsi_127_0_0_1_{}_wrio-d", node.port(0));
    let by_portal = master.values(&portal).into_iter().fold(0.0, f64::max);
    assert!((by_portal / true_rate - 1.0).abs() < 0.03, "{by_portal} with {true_rate} writes a second");
    for slot in 0..2 {
        let member = master.values(&format!("member_iops-tank_{slot}_wrio-d"));
        let of_member = member.into_iter().fold(0.0, f64::max);
        assert!(
            (1.9..2.5).contains(&(of_member / true_rate)),
            "{of_member} with {true_rate} writes a second"
        );
    }
    let busy = master.values("diskstats_utilization-watched-d").into_iter().fold(0.0, f64::max);
    // In the files it is in millionths; the master makes percents of it when it draws.
    assert!(busy > 0.0 && busy <= 1e6, "{busy} us/s");
    for (file, value) in
        [("raid_units-tank-g", 0.0), ("raid_members-tank_1-g", 0.0), ("write_cache_safe-tank-g", 1.0)]
    {
        let values = master.values(file);
        assert!(
            !values.is_empty() && values.iter().all(|one| (*one - value).abs() < 1e-9),
            "{file}: {values:?}"
        );
    }
    let states = master.text("dbdir/limits");
    for name in ["raid_units;tank", "raid_members;tank_1", "write_cache_safe;tank", "scrub_errors;tank"] {
        assert!(states.contains(&format!("bed;stone;{name};state ok")), "{name} in\n{states}");
    }
    for name in [
        "diskstats_iops/watched",
        "diskstats_latency",
        "raid_members",
        "df",
        "write_cache_safe",
        "member_latency",
        "portal_throughput",
    ] {
        for time in ["day", "week", "month", "year"] {
            let path = master.file(&format!("htmldir/bed/stone/{name}-{time}.png"));
            let picture = std::fs::read(&path).unwrap_or_default();
            assert!(picture.starts_with(b"\x89PNG") && picture.len() > 2000, "{}", path.display());
        }
    }

    // And somebody is called when a member goes out.
    let data = node.data().display().to_string();
    let _ = beds::tool::pool("offline").args(["tank", "1", "--data", &data]).run().expect_success();
    let is_out = || ask(munin, "fetch raid_members").contains("tank_1.value 2");
    assert!(wait_until(Duration::from_secs(15), is_out), "{}", ask(munin, "fetch raid_members"));
    master.poll(3);
    master.run("munin-limits", &["--config", &master.config()], 3);
    let states = master.text("dbdir/limits");
    for state in [
        "raid_units;tank;state warning",
        "raid_members;tank_1;state critical",
        "raid_members;tank_0;state ok",
    ] {
        assert!(states.contains(&format!("bed;stone;{state}")), "{state} in\n{states}");
    }
}
