use super::*;
use crate::metric::{Histogram, Recent, Snapshot, View, table};
use proptest::prelude::*;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

fn view() -> View {
    let mut snapshot = Snapshot::new(1_800_000_000, Duration::ZERO);
    for (volume, operations) in [("demo", 7u64), ("a-b", 8), ("a_b", 9), ("root", 1)] {
        for verb in ["read", "write", "flush"] {
            snapshot.push(&table::VOLUME_OPERATIONS, &[volume, verb], operations);
        }
    }
    let mut histogram = Histogram::default();
    histogram.record(2_000_000);
    snapshot.push(&table::VOLUME_LATENCY, &["demo", "read"], histogram);
    snapshot.push(&table::VOLUME_LATENCY, &["demo", "write"], Histogram::default());
    snapshot.push(&table::VOLUME_IN_FLIGHT, &["demo"], 3u64);
    snapshot.push(&table::POOL_USAGE, &["tank"], 0.9);
    snapshot.push(&table::MEMBER_STATE, &["tank", "0"], 2u64);
    snapshot.push(&table::POOL_WRITE_CACHE_SAFE, &["tank"], f64::NAN);
    snapshot.push(&table::PROCESS_CPU, &[], 1.25);
    Recent::new().push(snapshot)
}

fn ask(session: &mut Session, line: &str) -> String {
    session.line(line, &view()).text
}

fn capable() -> Session {
    let mut session = Session::new("Stone.example.org");
    assert_eq!(ask(&mut session, "CAP multigraph dirtyconfig\r\n"), "cap multigraph dirtyconfig\n");
    session
}

#[test]
fn commands_are_answered_as_a_master_expects() {
    let mut session = Session::new("Stone.example.org");
    assert_eq!(session.greeting(), "# munin node at stone.example.org\n");
    assert_eq!(
        ask(&mut session, "list\n"),
        "volume_queue df write_cache_safe raid_members fels_cpu\n",
        "plugins of several graphs are for those who know them"
    );
    assert_eq!(
        ask(&mut capable(), "List stone.example.org "),
        "diskstats volume_queue df write_cache_safe raid_members fels_cpu\n"
    );
    assert_eq!(ask(&mut session, "list another.host"), "\n");
    assert_eq!(ask(&mut session, "nodes"), "stone.example.org\n.\n");
    assert!(ask(&mut session, "version").starts_with("munins node on stone.example.org version: "));
    assert_eq!(ask(&mut session, "fetch df"), "tank.value 90\n.\n");
    assert_eq!(ask(&mut session, "fetch nothing"), "# Unknown service\n.\n");
    assert_eq!(ask(&mut session, "config"), "# Unknown service\n.\n");
    assert_eq!(
        ask(&mut session, "STARTTLS"),
        "# Unknown command. Try cap, list, nodes, config, fetch, version or quit\n"
    );
    assert_eq!(ask(&mut session, "  \r\n"), "");
    for line in ["quit ", ".", "QUIT\r\n"] {
        assert_eq!(session.line(line, &view()), Reply { text: String::new(), closes: true });
    }
}

#[test]
fn limits_are_those_that_munin_reads() {
    let config = ask(&mut capable(), "config df");
    for line in [
        "tank.warning 92",
        "tank.critical 98",
        "tank.unknown_limit 3",
        "tank.value 90",
        "graph_category disk",
    ] {
        assert!(config.lines().any(|one| one == line), "{line} in\n{config}");
    }
    let members = ask(&mut capable(), "config raid_members");
    for line in ["tank_0.warning :0", "tank_0.critical :1", "tank_0.label tank 0", "tank_0.value 2"] {
        assert!(members.lines().any(|one| one == line), "{line} in\n{members}");
    }
    assert_eq!(ask(&mut capable(), "fetch write_cache_safe"), "tank.value U\n.\n");
}

#[test]
fn counters_of_seconds_are_integers_and_divided_again() {
    let config = ask(&mut capable(), "config fels_cpu");
    for line in
        ["fels_cpu.type DERIVE", "fels_cpu.min 0", "fels_cpu.cdef fels_cpu,10000,/", "fels_cpu.value 1250000"]
    {
        assert!(config.lines().any(|one| one == line), "{line} in\n{config}");
    }
}

#[test]
fn volumes_are_in_the_place_of_disks() {
    let config = ask(&mut capable(), "config diskstats");
    for line in [
        "multigraph diskstats_iops",
        "demo_rdio.graph no",
        "demo_wrio.negative demo_rdio",
        "demo_wrio.value 7",
        "multigraph diskstats_iops.demo",
        "wrio.negative rdio",
        "multigraph diskstats_iops._root",
        "root_rdio.value 1",
        "multigraph diskstats_latency.demo",
        "avgrdwait.value 0.002",
        "p99rdwait.value 0.002097152",
        "avgwrwait.value U",
    ] {
        assert!(config.lines().any(|one| one == line), "{line} in\n{config}");
    }
    assert!(!config.contains("flush"), "{config}");
    // What has the same name when Munin has taken its letters is told apart.
    let fields = |volume: &str| {
        let label = format!(".label {volume} read");
        config.lines().find_map(|line| line.strip_suffix(&label)).map(str::to_owned).expect("a field")
    };
    let (one, other) = (fields("a-b"), fields("a_b"));
    assert!(one != other && one.starts_with("a_b_rdio_"), "{one} {other}");
}

/// Volumes whose names differ in a letter that Munin does not take had one graph, with the figures of the one and then of the other.
#[test]
fn each_thing_has_a_graph_of_its_own_whatever_it_is_called() {
    let config = ask(&mut capable(), "config diskstats");
    let graphs: Vec<_> = config.lines().filter(|line| line.starts_with("multigraph ")).collect();
    let different: std::collections::BTreeSet<_> = graphs.iter().collect();
    assert_eq!(different.len(), graphs.len(), "{graphs:?}");
    assert_eq!(graphs.iter().filter(|graph| graph.starts_with("multigraph diskstats_iops.a_b_")).count(), 2);
}

#[test]
fn without_dirtyconfig_config_has_no_values_and_fetch_has_all() {
    let mut session = Session::new("a");
    ask(&mut session, "cap multigraph");
    let (config, fetch) = (ask(&mut session, "config diskstats"), ask(&mut session, "fetch diskstats"));
    assert!(!config.contains(".value"));
    let labels = config.lines().filter(|line| line.contains(".label ")).count();
    assert_eq!(fetch.lines().filter(|line| line.contains(".value ")).count(), labels);
}

proptest! {
    #[test]
    fn whatever_things_are_called_every_line_is_one_that_munin_reads(volumes in prop::collection::vec(".{0,150}", 1..5)) {
        let mut snapshot = Snapshot::default();
        for volume in &volumes {
            snapshot.push(&table::VOLUME_BYTES, &[volume, "read"], 1u64);
            snapshot.push(&table::VOLUME_BYTES, &[volume, "write"], 1u64);
            snapshot.push(&table::VOLUME_IN_FLIGHT, &[volume], 1u64);
        }
        let view = Recent::new().push(snapshot);
        let mut session = Session::new("a");
        session.line("cap multigraph dirtyconfig", &view);
        for plugin in ["diskstats", "volume_queue"] {
            let text = session.line(&format!("config {plugin}"), &view).text;
            for line in text.lines() {
                let (name, rest) = line.split_once(' ').unwrap_or((line, ""));
                let (field, _) = name.split_once('.').unwrap_or((name, ""));
                let is_name = field.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
                    && !field.starts_with(|first: char| first.is_ascii_digit()) && !field.is_empty();
                prop_assert!(line == "." || (is_name && field != "root" && !rest.is_empty() && name.len() < 128),
                    "{:?}", line);
            }
        }
    }

    #[test]
    fn any_line_is_answered(line in ".{0,80}") {
        let reply = Session::new("a").line(&line, &view());
        prop_assert!(reply.text.is_empty() || reply.text.ends_with('\n'));
    }
}

fn server() -> Server {
    let shown = Arc::new(view());
    Server::start(([127, 0, 0, 1], 0).into(), "stone", Arc::new(move || Arc::clone(&shown))).unwrap()
}

#[test]
fn a_master_is_served_over_tcp_and_an_endless_line_is_not() {
    let server = server();
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "# munin node at stone");
    stream.write_all(b"fetch df\nfetch volume_queue\nquit \n").unwrap();
    let rest: Vec<String> = lines.map(Result::unwrap).collect();
    assert_eq!(rest, ["tank.value 90", ".", "demo.value 3", "."]);

    let mut endless = TcpStream::connect(server.address()).unwrap();
    endless.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    endless.write_all(&vec![b'x'; MAX_LINE_BYTES + 1]).unwrap();
    let mut answer = Vec::new();
    // A reset is as good an end as any.
    let _ = endless.read_to_end(&mut answer);
    assert!(answer.is_empty() || answer == b"# munin node at stone\n");
}

#[test]
fn there_are_never_many_masters_and_a_server_that_ends_ends_them() {
    let server = server();
    let connect = || {
        let stream = TcpStream::connect(server.address()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let mut line = String::new();
        let greeted =
            BufReader::new(stream.try_clone().unwrap()).read_line(&mut line).is_ok_and(|bytes| bytes > 0);
        (stream, greeted)
    };
    let first: Vec<_> = (0..MAX_CONNECTIONS).map(|_| connect()).collect();
    assert!(first.iter().all(|(_, greeted)| *greeted));
    assert!(!connect().1, "one too many");
    let address = server.address();
    drop(server);
    for (mut stream, _) in first {
        assert!(matches!(stream.read(&mut [0; 8]), Ok(0) | Err(_)));
    }
    assert!(TcpStream::connect(address).is_err());
}

#[test]
fn who_says_a_byte_now_and_then_does_not_stay_for_ever() {
    let shown = Arc::new(view());
    let source: Source = Arc::new(move || Arc::clone(&shown));
    let lifetime = Duration::from_millis(200);
    let server = Server::lasting(([127, 0, 0, 1], 0).into(), "stone", source, lifetime).unwrap();
    let mut stream = TcpStream::connect(server.address()).unwrap();
    let begun = std::time::Instant::now();
    // Well below the bytes of a line.
    for _ in 0..MAX_LINE_BYTES / 2 {
        if stream.write_all(b"l").is_err() {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let lasted = begun.elapsed();
    assert!(lasted >= lifetime && lasted < Duration::from_secs(8), "it lasted {lasted:?}");
}
