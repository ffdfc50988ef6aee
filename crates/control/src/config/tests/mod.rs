//! What is read, and what is refused with which words.

use super::*;
use plane::layers::{Order, SpinningDisk};
use plane::pool::Level;
use proptest::prelude::*;
use ring::CongestionControl;
use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

const MACHINE: Machine = Machine { cores: 2, memory_bytes: 8 << 30 };
/// Cases of `refusals.txt`: a name, the text of a configuration, and all that is said about it.
const REFUSALS: &str = include_str!("refusals.txt");
const EVERY_KEY: &str = r#"
data = "/srv/fels"
shards = 4
busy_poll = "250us"
monitoring = false
[iscsi]
listen = ["192.0.2.1:3260", "[2001:db8::1]:3260", "127.0.0.1:0", "127.0.0.1:0"]
nop_interval = 30
nop_timeout = "2500ms"
discovery_chap = [{ user = "finder", secret = "finder-finder-1" }]
congestion_control = "reno"
[nbd]
listen = ["127.0.0.1:10809", "[::1]:0"]
socket = "run/nbd.sock"
congestion_control = "cubic"
[nvme]
listen = ["127.0.0.1:4420", "[::1]:0"]
discovery = []
referrals = ["192.0.2.7:8009", "[2001:db8::7]:8009"]
congestion_control = "dctcp"
[http]
listen = "127.0.0.1:8420"
[munin]
listen = "127.0.0.1:4949"
[mail]
server = "mail.example.org"
port = 2525
tls = "tls"
from = "san1@example.org"
ca = "roots.pem"
digest = "06:30"
[[alert]]
name = "default"
mail = ["ops@example.org"]
webhook = "https://chat.example.org/hooks/s3cret-in-the-path"
remind = "12h"
[[alert]]
name = "slow-reads"
metric = "fels_volume_latency_seconds:p99"
labels = { volume = "db", verb = "read" }
when = "above"
warning = 0.02
critical = 1
hysteresis = 0.005
for = "5m"
mail = []
enabled = true
[[alert]]
name = "pool-full"
warning = 0.8
remind = "never"
[[pool]]
name = "tank"
raid = "raid6"
members = ["pool/m0.img", "m1.img", "/var/fels/m2.img", "/dev/sdc"]
member_size = "1GiB"
spares = ["spare.img", "/dev/sdd"]
unit = "128KiB"
integrity = false
[[pool]]
name = "quick"
raid = "raid0"
members = [{ memory = "64MiB" }, { memory = 67108864 }]
spinning = { rpm = 10000, track_to_track_seek_us = 500, average_seek_us = 5000, full_stroke_seek_us = 10000, transfer_per_s = "150MB", read_ahead = 0, write_cache = "64MiB", order = "elevator" }
[[volume]]
name = "db.one:a-1"
size = "9999998976"
backing = { file = "images/db.img" }
block_size = 4096
chap = [{ user = "alice", secret = "alice-alice-1" }, { user = "bob", secret = "bob-bob-bob-1" }]
chap_mutual = { user = "target", secret = "target-target-1" }
allow = ["iqn.2004-10.com.example:host", "eui.02004567A425678D", "naa.52004567BA64678D"]
alias = "Müller's database"
nbd = true
nvme = true
subsystem = "pair"
hosts = ["nqn.2014-08.com.example:host"]
nsid = 7
enabled = false
limits = { iops = 5000, throughput = "200MB/s" }
[[volume]]
name = "scratch"
size = 1048576
backing = { memory = true }
chap = [{ user = "alice", secret = "alice-alice-1" }]
[[volume]]
name = "nothing"
size = "1PiB"
backing = { null = true }
chap = [{ user = "alice", secret = "alice-alice-1" }]
[[volume]]
name = "disk"
size = "512MiB"
backing = { device = "/dev/sdb" }
chap = [{ user = "alice", secret = "alice-alice-1" }]
[[volume]]
name = "pooled"
size = "512MiB"
pool = "tank"
chap = [{ user = "alice", secret = "alice-alice-1" }]
"#;

fn read(text: &str) -> Config {
    Config::parse_for(text, "fels.toml", MACHINE).unwrap_or_else(|errors| panic!("{errors}"))
}

fn refused(text: &str) -> ConfigErrors {
    match Config::parse_for(text, "fels.toml", MACHINE) {
        Ok(config) => panic!("{text}\nis taken: {config:?}"),
        Err(errors) => errors,
    }
}

fn users(users: &[ChapUser]) -> Vec<(&str, &[u8])> {
    users.iter().map(|user| (user.user.as_str(), user.secret.expose())).collect()
}

#[test]
fn nothing_is_a_node_on_loopback_with_the_defaults() {
    let config = read("");
    assert_eq!(config.data, Path::new("fels-data"));
    assert_eq!(config.shards, 2, "one per core");
    assert_eq!(config.iscsi.listen, ["127.0.0.1:3260".parse().unwrap()]);
    assert_eq!(config.iscsi.nop_interval, Some(Duration::from_secs(15)));
    assert_eq!(config.iscsi.nop_timeout, Duration::from_secs(15));
    assert!(config.iscsi.discovery_chap.is_empty());
    assert!(config.volumes.is_empty());
    assert!(config.nbd.is_none(), "NBD is not served unless it is asked for");
}

#[test]
fn masters_of_munin_are_answered_where_that_is_asked_for() {
    let listen = |text: &str| read(text).munin.unwrap().listen;
    let usual: std::net::SocketAddr = "127.0.0.1:4949".parse().unwrap();
    assert!(read("").munin.is_none());
    assert_eq!(listen("[munin]"), [usual]);
    assert_eq!(
        listen("[munin]\nlisten = [\"127.0.0.1:4949\", \"[::1]:0\"]"),
        [usual, "[::1]:0".parse().unwrap()]
    );
}

#[test]
fn the_control_api_listens_on_loopback_and_beyond_it_with_a_certificate_and_a_user() {
    let listen = |text: &str| read(text).http.unwrap().listen;
    let usual: std::net::SocketAddr = "127.0.0.1:8420".parse().unwrap();
    assert!(read("").http.is_none(), "who does not ask for it has the unix socket");
    assert_eq!(listen("[http]"), [usual]);
    assert_eq!(listen("[http]\nlisten = \"127.0.0.1:8420\""), [usual]);
    assert_eq!(
        listen("[http]\nlisten = [\"127.0.0.1:8420\", \"[::1]:0\"]"),
        [usual, "[::1]:0".parse().unwrap()]
    );
    let temporary = tempfile::tempdir().unwrap();
    let data = temporary.path();
    let text = format!("data = \"{}\"\n[http]\nlisten = \"0.0.0.0:8420\"", data.display());
    assert!(refused(&text).to_string().contains("there is no TLS"));
    crate::tls::make(data, &[], crate::moment::Moment::now()).unwrap();
    let said = refused(&text).to_string();
    assert!(said.contains("there is no user with a password") && said.contains("fels user add"), "{said}");
    std::fs::write(data.join("people.json"), "{}").unwrap();
    assert!(refused(&text).to_string().contains("may be read or written by others"));
    std::fs::set_permissions(data.join("people.json"), std::fs::Permissions::from_mode(0o600)).unwrap();
    assert!(refused(&text).to_string().contains("is damaged"));
    std::fs::remove_file(data.join("people.json")).unwrap();
    let password = crate::people::password::Password::new("correct horse battery", "").unwrap();
    let alice = crate::people::User {
        name: "alice".to_owned(),
        role: crate::people::Role::Admin,
        password: crate::people::password::PasswordHash::of(&password).unwrap(),
        created: crate::moment::Moment::now(),
    };
    let store = crate::people::store::Store::open(data).unwrap();
    store.change(crate::people::Change::AddUser(alice)).unwrap();
    assert_eq!(listen(&text), ["0.0.0.0:8420".parse().unwrap()]);
    std::fs::remove_file(data.join("tls.pem")).unwrap();
    assert!(refused(&text).to_string().contains("there is no TLS"));
}

#[test]
fn nbd_listens_on_loopback_unless_only_its_socket_is_wanted() {
    let listen = |text: &str| {
        let nbd = read(text).nbd.unwrap();
        (nbd.listen.iter().map(ToString::to_string).collect::<Vec<_>>(), nbd.socket)
    };
    assert_eq!(listen("[nbd]"), (vec!["127.0.0.1:10809".to_owned()], None));
    let socket = Some(PathBuf::from("fels-data/nbd.sock"));
    assert_eq!(listen("[nbd]\nlisten = []\nsocket = \"nbd.sock\""), (vec![], socket));
    let (portals, socket) = listen(EVERY_KEY);
    assert_eq!(portals, ["127.0.0.1:10809", "[::1]:0"]);
    assert_eq!(socket, Some(PathBuf::from("/srv/fels/run/nbd.sock")));
}

#[test]
fn volumes_that_ask_who_comes_are_no_nbd_exports_unless_they_say_so() {
    let nbd = |more: &str| {
        let text = format!("[[volume]]\nname = \"a\"\nsize = 512\nbacking = {{ null = true }}\n{more}");
        read(&text).volumes[0].nbd
    };
    assert!(nbd("") && !nbd("nbd = false"));
    let chap = "chap = [{ user = \"alice\", secret = \"alice-alice-1\" }]\n";
    let allow = "allow = [\"iqn.2004-10.com.example:host\"]\n";
    assert!(!nbd(chap) && !nbd(allow) && nbd(&format!("{chap}{allow}nbd = true")));
}

#[test]
fn a_machine_with_more_cores_than_shards_can_be_gets_64() {
    let machine = Machine { cores: 256, ..MACHINE };
    assert_eq!(Config::parse_for("", "fels.toml", machine).unwrap().shards, 64);
}

#[test]
fn every_key_of_the_node_and_of_iscsi_is_read() {
    let config = read(EVERY_KEY);
    assert_eq!(config.data, Path::new("/srv/fels"));
    assert_eq!(config.shards, 4);
    assert!(!config.monitoring && read("").monitoring);
    assert_eq!(config.busy_poll, BusyPoll::Most(Duration::from_micros(250)));
    assert_eq!(read("busy_poll = 0").busy_poll, BusyPoll::Most(Duration::ZERO));
    assert_eq!(
        (read("").busy_poll, read("busy_poll = \"auto\"").busy_poll),
        (BusyPoll::Auto, BusyPoll::Auto)
    );
    let listen: Vec<_> = config.iscsi.listen.iter().map(ToString::to_string).collect();
    assert_eq!(listen, ["192.0.2.1:3260", "[2001:db8::1]:3260", "127.0.0.1:0", "127.0.0.1:0"]);
    assert_eq!(config.iscsi.nop_interval, Some(Duration::from_secs(30)));
    assert_eq!(config.iscsi.nop_timeout, Duration::from_millis(2500));
    assert_eq!(users(&config.iscsi.discovery_chap), [("finder", &b"finder-finder-1"[..])]);
    assert_eq!(read("[iscsi]\nnop_interval = 0").iscsi.nop_interval, None, "0 never asks");
}

#[test]
fn every_key_of_a_volume_is_read() {
    let config = read(EVERY_KEY);
    let [db, scratch, nothing, disk, pooled] = &config.volumes[..] else { panic!("five volumes") };
    assert_eq!(db.name, "db.one:a-1");
    assert_eq!(db.target_name(), "iqn.2026-11.internal.fels:db.one:a-1");
    assert_eq!(db.size_bytes, 10_000_000_000 / 4096 * 4096);
    assert_eq!(db.backing, Backing::File(PathBuf::from("/srv/fels/images/db.img")));
    assert_eq!(db.block_size, 4096);
    assert_eq!(users(&db.chap), [("alice", &b"alice-alice-1"[..]), ("bob", b"bob-bob-bob-1")]);
    let mutual = db.chap_mutual.as_ref().unwrap();
    assert_eq!((mutual.user.as_str(), mutual.secret.expose()), ("target", &b"target-target-1"[..]));
    assert_eq!(db.allow.len(), 3);
    assert_eq!(db.alias.as_deref(), Some("Müller's database"));
    assert_eq!((db.limits.iops, db.limits.bytes_per_second), (Some(5000), Some(200_000_000)));
    assert!(scratch.limits.is_unlimited());
    assert!(!db.enabled && scratch.enabled, "volumes are served unless they say no");
    assert_eq!((scratch.size_bytes, scratch.block_size), (1 << 20, 512));
    assert_eq!(scratch.backing, Backing::Memory);
    assert!(scratch.chap_mutual.is_none() && scratch.allow.is_empty() && scratch.alias.is_none());
    assert_eq!((nothing.size_bytes, &nothing.backing), (1 << 50, &Backing::Null));
    assert_eq!(disk.backing, Backing::Device(PathBuf::from("/dev/sdb")));
    assert_eq!(pooled.backing, Backing::Pool("tank".to_owned()));
}

#[test]
fn every_key_of_a_pool_is_read() {
    let config = read(EVERY_KEY);
    let [tank, quick] = &config.pools[..] else { panic!("two pools") };
    assert_eq!((tank.name.as_str(), tank.level), ("tank", Level::Raid6));
    let file = |path: &str| Member::File(PathBuf::from(path));
    let device = Member::Device(PathBuf::from("/dev/sdc"));
    let members = [file("/srv/fels/pool/m0.img"), file("/srv/fels/m1.img"), file("/var/fels/m2.img"), device];
    assert_eq!(tank.members, members);
    assert_eq!(tank.spares, [file("/srv/fels/spare.img"), Member::Device("/dev/sdd".into())]);
    assert_eq!((tank.member_bytes, tank.unit_bytes, tank.integrity), (Some(1 << 30), 128 << 10, false));
    assert_eq!(quick.members, [Member::Memory(64 << 20), Member::Memory(64 << 20)]);
    assert_eq!((quick.member_bytes, quick.unit_bytes, quick.integrity), (None, 64 << 10, true));
    let spinning = SpinningDisk {
        rpm: 10_000,
        track_to_track_seek: Duration::from_micros(500),
        average_seek: Duration::from_millis(5),
        full_stroke_seek: Duration::from_millis(10),
        transfer_bytes_per_s: 150_000_000,
        read_ahead_bytes: 0,
        write_cache_bytes: 64 << 20,
        order: Order::Elevator,
        seed: 0,
    };
    assert_eq!((&tank.spinning, &quick.spinning), (&None, &Some(spinning)));
}

#[test]
fn nvme_is_off_without_its_section_and_off_for_guarded_volumes_without_hosts() {
    assert!(read("").nvme.is_none());
    let nvme = read("[nvme]").nvme.unwrap();
    assert_eq!(nvme.listen, ["127.0.0.1:4420".parse().unwrap()]);
    assert_eq!(nvme.discovery, ["127.0.0.1:8009".parse().unwrap()]);
    assert!(nvme.referrals.is_empty());
    assert_eq!(nvme.congestion_control, CongestionControl::Auto);
    let config = read(EVERY_KEY);
    let nvme = config.nvme.unwrap();
    assert_eq!(nvme.listen, ["127.0.0.1:4420".parse().unwrap(), "[::1]:0".parse().unwrap()]);
    assert!(nvme.discovery.is_empty());
    let named = |name: &str| CongestionControl::Named(name.to_owned());
    assert_eq!(nvme.congestion_control, named("dctcp"));
    assert_eq!(config.iscsi.congestion_control, named("reno"));
    assert_eq!(config.nbd.as_ref().unwrap().congestion_control, named("cubic"));
    assert_eq!(nvme.referrals, ["192.0.2.7:8009".parse().unwrap(), "[2001:db8::7]:8009".parse().unwrap()]);
    let [db, scratch, ..] = &config.volumes[..] else { panic!("four volumes") };
    assert!(db.nvme.is_offered);
    assert_eq!(db.nvme.subsystem_nqn(), "nqn.2026-11.internal.fels:pair");
    assert_eq!(db.nvme.hosts, ["nqn.2014-08.com.example:host"]);
    assert!(!scratch.nvme.is_offered, "it has CHAP, which NVMe does not know");
    assert_eq!(scratch.nvme.subsystem, "scratch");
    let open = read("[[volume]]\nname = \"open\"\nsize = 512\nbacking = { null = true }");
    assert!(open.volumes[0].nvme.is_offered);
}

#[test]
fn every_declared_key_is_in_the_example_of_every_key() {
    for (section, keys) in sections() {
        for key in keys
            .iter()
            .filter(|key| !["secret_file", "password_file", "certificate", "key"].contains(&key.name))
        {
            let name = key.name;
            let there =
                [format!("{name} ="), format!("[{name}]")].iter().any(|text| EVERY_KEY.contains(text));
            assert!(there, "{name} of {section}");
        }
    }
}

#[test]
fn a_secret_is_read_from_a_file_that_is_its_owners_alone() {
    let temporary = tempfile::tempdir().unwrap();
    let path = temporary.path().join("alice");
    let text =
        format!("[iscsi]\ndiscovery_chap = [{{ user = \"alice\", secret_file = \"{}\" }}]", path.display());
    let store = |content: &str, mode| {
        std::fs::write(&path, content).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    store("a-secret-in-a-file\n", 0o600);
    assert_eq!(users(&read(&text).iscsi.discovery_chap), [("alice", &b"a-secret-in-a-file"[..])]);

    let problem = |errors: ConfigErrors| {
        let [error] = errors.errors() else { panic!("{errors}") };
        (error.message.clone(), error.hint.clone().unwrap_or_default())
    };
    let shown = path.display();
    store("a-secret-in-a-file\n", 0o640);
    assert_eq!(
        problem(refused(&text)),
        (format!("the secret file {shown} can be read by others"), format!("chmod 600 {shown}"))
    );
    store("a-secret-in-a-file\nand more\n", 0o600);
    assert_eq!(problem(refused(&text)).0, format!("the secret file {shown} has more than one line"));
    store("short\n", 0o600);
    assert_eq!(problem(refused(&text)).0, "this CHAP secret is shorter than 12 bytes (96 bits)");
}

#[test]
fn a_configuration_that_was_printed_without_its_secrets_is_not_taken_for_the_whole() {
    let shown = without_secrets(EVERY_KEY);
    for secret in ["s3cret-in-the-path", "finder-finder", "alice-alice", "bob-bob", "target-target"] {
        assert!(EVERY_KEY.contains(secret) && !shown.contains(secret), "{secret}");
    }
    assert!(shown.contains("user = \"alice\", secret = \"***\""), "{shown}");
    let said = refused(&shown);
    let hidden =
        |error: &ConfigError| error.message.ends_with("was hidden when the configuration was printed");
    let count = EVERY_KEY.matches("secret = ").count() + EVERY_KEY.matches("webhook = ").count();
    assert!(said.errors().len() == count && said.errors().iter().all(hidden), "{said}");
    assert_eq!(without_secrets("data = \"x\" # a\n"), "data = \"x\" # a\n");
}

#[test]
fn what_is_wrong_is_found_by_its_field() {
    let field = |text: &str| {
        let errors = refused(text);
        let places: Vec<_> = errors.errors().iter().map(|error| error.location.clone().unwrap()).collect();
        places.iter().map(|place| field_at(text, place).unwrap_or_default()).collect::<Vec<_>>()
    };
    let volume =
        "[[volume]]\nname = \"ä\"\nsize = \"1G\"\n\n[[volume]]\nname = \"b\"\nbacking = { file = 1 }\n";
    assert_eq!(
        field(volume),
        ["volume.ä", "volume.ä.name", "volume.ä.size", "volume.b", "volume.b.backing.file"]
    );
    assert_eq!(field("shards = 0\n"), ["shards"]);
    assert_eq!(field("[iscsi]\nlisten = [\"127.0.0.1:1\", \"x\"]\n"), ["iscsi.listen.1"]);
    assert_eq!(field("volume = [{ name = \"a\", size = 0, backing = { null = true } }]"), ["volume.a.size"]);
}

#[test]
fn every_refusal_has_its_words() {
    let mut differences = String::new();
    let cases: Vec<_> = REFUSALS.split("\n## ").collect();
    assert!(cases.len() > 80, "{} cases", cases.len());
    for case in cases {
        let (name, rest) = case.split_once('\n').unwrap();
        let (text, expected) = rest.split_once("--->\n").unwrap_or_else(|| panic!("{name}"));
        let said = refused(text).to_string();
        if said.trim_end() != expected.trim_end() {
            write!(differences, "\n## {name}\n{text}--->\n{said}\n").unwrap();
        }
    }
    assert!(differences.is_empty(), "these refusals say something else now:{differences}");
}

#[test]
fn no_secret_is_in_any_refusal() {
    for case in REFUSALS.split("\n## ") {
        let (_, said) = case.split_once("--->\n").unwrap();
        for secret in ["a-long-enough", "another-long", "12345678901", "ssss", "short\""] {
            assert!(!said.contains(secret), "{case}");
        }
    }
}

#[test]
fn a_secret_torn_from_its_key_by_a_line_break_is_not_shown() {
    let text = EVERY_KEY.replace("secret = \"target", "sec\nret = \"target");
    let said = refused(&text).to_string();
    assert!(said.contains("this is not TOML") && !said.contains("target-target"), "{said}");
}

#[test]
fn secrets_are_not_shown_by_a_configuration() {
    let shown = format!("{:?}", read(EVERY_KEY));
    for secret in ["s3cret-in-the-path", "finder-finder", "alice-alice", "bob-bob", "target-target"] {
        assert!(!shown.contains(secret), "{secret}");
    }
    assert_eq!(Secret::new("abc").to_string(), "***");
}

#[test]
fn thousands_of_problems_are_cut_short() {
    let errors = refused(&"[[volume]]\n".repeat(1000));
    assert_eq!((errors.errors().len(), errors.suppressed()), (50, 2950));
    assert!(errors.to_string().ends_with("\nand 2950 more"));
}

#[test]
fn columns_are_characters_and_lines_may_end_as_on_windows() {
    let errors = refused("data = \"ä\"\r\niscsi = {  \"ünknown\" = 1 }\r\n");
    let location = errors.errors()[0].location.clone().unwrap();
    assert_eq!((location.line, location.column), (2, 12));
    assert_eq!(location.quote, "iscsi = {  \"ünknown\" = 1 }");
    assert_eq!(location.mark, 11..20);
}

#[test]
fn escape_sequences_do_not_reach_the_terminal() {
    let said = refused("data = 1 # \u{1b}[31m\n").to_string() + &refused("\"\\u001b[31m\" = 1\n").to_string();
    assert!(!said.contains('\u{1b}'), "{said:?}");
}

#[test]
fn a_file_that_cannot_be_read_is_a_clear_error() {
    let temporary = tempfile::tempdir().unwrap();
    let missing = temporary.path().join("fels.toml");
    let errors = Config::load(&missing).unwrap_err();
    let shown = missing.display();
    assert_eq!(
        errors.to_string(),
        format!(
            "the configuration {shown} cannot be read: there is no such file\nhint: name a file with --config FILE"
        )
    );
    let directory = Config::load(temporary.path()).unwrap_err().to_string();
    assert!(directory.contains("it is a directory\nhint: name the file in it"), "{directory}");
    std::fs::write(&missing, b"data = \"\xff\"").unwrap();
    assert!(Config::load(&missing).unwrap_err().to_string().ends_with("it is not UTF-8 text"));
    let large = std::fs::File::create(&missing).unwrap();
    large.set_len(MAX_FILE_BYTES + 1).unwrap();
    assert!(Config::load(&missing).unwrap_err().to_string().ends_with("it is larger than 16 MiB"));
    std::fs::write(&missing, "shards = 3").unwrap();
    assert_eq!(Config::load(&missing).unwrap().shards, 3);
}

#[test]
fn ten_thousand_volumes_are_read() {
    let mut text = String::new();
    for index in 0..10_000 {
        write!(
            text,
            "[[volume]]\nname = \"v{index}\"\nsize = \"1GiB\"\nbacking = {{ file = \"v{index}.img\" }}\n"
        )
        .unwrap();
    }
    assert_eq!(read(&text).volumes.len(), 10_000);
}

#[test]
fn the_memory_of_the_machine_is_found() {
    assert_eq!(memory_of("MemFree: 1 kB\nMemTotal:       16384 kB\n"), Some(16 << 20));
    assert_eq!(memory_of("MemTotal: lots\n"), None);
    let here = Machine::here();
    assert!(here.cores >= 1 && (1 << 20..u64::MAX).contains(&here.memory_bytes));
}

proptest! {
    #[test]
    fn no_text_makes_the_reader_panic(text in "(\\PC|\n|\")*") {
        let _ = Config::parse_for(&text, "fels.toml", MACHINE);
    }

    #[test]
    fn no_damage_to_a_good_file_makes_the_reader_panic(
        at in 0..EVERY_KEY.len(),
        cut in 0usize..40,
        with in "[\\]\\[{}=\",\n.0a]{0,3}",
    ) {
        let _ = Config::parse_for(&damaged(at, cut, &with), "fels.toml", MACHINE);
    }

    #[test]
    fn a_slip_of_the_finger_shows_no_secret(
        at in 0..EVERY_KEY.len(),
        cut in 0usize..2,
        with in "[\\]\\[{}=\",\n.0a]{0,2}",
    ) {
        let shown = shown_of_damaged(at, cut, &with);
        prop_assert!(shown.is_none(), "{}", shown.unwrap_or_default());
    }
}

/// The example of every key, with `cut` bytes at `at` replaced.
fn damaged(at: usize, cut: usize, with: &str) -> String {
    let mut bytes = EVERY_KEY.as_bytes().to_vec();
    let end = (at + cut).min(bytes.len());
    bytes.splice(at..end, with.bytes());
    String::from_utf8_lossy(&bytes).into_owned()
}

/// What is said about it, if that has a secret in it.
fn shown_of_damaged(at: usize, cut: usize, with: &str) -> Option<String> {
    let shown = Config::parse_for(&damaged(at, cut, with), "fels.toml", MACHINE).err()?.to_string();
    let secrets = ["s3cret-in-the-path", "finder-finder", "alice-alice", "bob-bob", "target-target"];
    secrets.iter().any(|secret| shown.contains(secret)).then_some(shown)
}

#[test]
fn a_dot_within_a_key_shows_no_secret() {
    let place = EVERY_KEY.find("webhook").unwrap();
    for (at, cut) in (place..place + 8).flat_map(|at| [(at, 0), (at, 1)]) {
        for with in [".", ".a", "a.", ".0"] {
            assert_eq!(shown_of_damaged(at, cut, with), None);
        }
    }
}

#[test]
fn no_slip_of_the_finger_at_all_shows_a_secret() {
    for at in 0..EVERY_KEY.len() {
        for (cut, with) in [
            (0, "."),
            (1, "."),
            (0, "="),
            (1, "="),
            (0, "\""),
            (1, ""),
            (1, "\n"),
            (0, "]"),
            (0, ".="),
            (1, "a."),
        ] {
            assert_eq!(shown_of_damaged(at, cut, with), None);
        }
    }
}

#[test]
fn alerts_and_mail_are_read() {
    let config = read(EVERY_KEY);
    let mail = config.mail.unwrap();
    assert_eq!((mail.server.as_str(), mail.port, mail.tls), ("mail.example.org", 2525, MailTls::Tls));
    assert_eq!((mail.user, mail.digest_minute), (None, Some(390)));
    let [default, own, changed] = &config.alerts[..] else { panic!("{:?}", config.alerts) };
    assert!(default.rule.is_none() && default.webhook.is_some());
    assert!(!format!("{default:?}").contains("s3cret"), "{default:?}");
    assert_eq!(default.remind, Some(Remind::Every(std::time::Duration::from_secs(43_200))));
    let rule = own.rule.as_ref().unwrap();
    assert_eq!(
        (rule.limit.warning, rule.limit.critical, rule.limit.hysteresis),
        (Some(0.02), Some(1.0), 0.005)
    );
    assert_eq!((rule.limit.raise_after.as_secs(), rule.only.len()), (300, 2));
    assert_eq!((own.mail.as_deref(), own.remind), (Some(&[][..]), None));
    let rule = changed.rule.as_ref().unwrap();
    assert_eq!((rule.limit.warning, rule.limit.critical), (Some(0.8), Some(0.98)), "the rest is as it was");
    assert_eq!((changed.remind, &changed.mail), (Some(Remind::Never), &None));
}

#[test]
fn what_is_wrong_with_alerts_and_mail_is_said() {
    let own = "[[alert]]\nname = \"own\"\nmetric = \"fels_pool_usage_ratio\"\n";
    for (text, words) in [
        ("[mail]\nfrom = \"a@example.org\"", "[mail] has no `server`"),
        ("[mail]\nserver = \"m\"\nfrom = \"nobody\"", "`nobody` is no mail address"),
        ("[mail]\nserver = \"m/x\"\nfrom = \"a@b.c\"", "takes a host name or an address"),
        ("[mail]\nserver = \"m\"\nfrom = \"a@b.c\"\ntls = \"ssl\"", "`tls` takes"),
        ("[mail]\nserver = \"m\"\nfrom = \"a@b.c\"\nuser = \"u\"", "`user` needs `password_file`"),
        ("[mail]\nserver = \"m\"\nfrom = \"a@b.c\"\ndigest = \"7:00\"", "`digest` takes a time"),
        ("[[alert]]\nmetric = \"x\"", "[[alert]] has no `name`"),
        ("[[alert]]\nname = \"own\"", "the alert `own` has no `metric`"),
        ("[[alert]]\nname = \"own\"\nmetric = \"nothing\"", "`nothing` is no metric of a node"),
        (own, "the alert `own` has no bound"),
        (&format!("{own}warning = 2\ncritical = 1"), "critical before it is a warning"),
        (&format!("{own}warning = 1\nlabels = {{ volume = \"a\" }}"), "`labels` takes labels of its metric"),
        (&format!("{own}warning = \"much\""), "takes a number"),
        (&format!("{own}warning = 1\n{own}warning = 1"), "there are two alerts `own`"),
        (&format!("{own}warning = 1\nmail = [\"a@b.c\"]"), "there is no [mail]"),
        (&format!("{own}warning = 1\nwebhook = \"http://example.org/x\""), "is without TLS"),
        (&format!("{own}warning = 1\nremind = \"1s\""), "`remind` takes"),
        ("[[alert]]\nname = \"pool-full\"\nmetric = \"fels_pool_usage_ratio\"", "every node has"),
        ("[[alert]]\nname = \"default\"\nwarning = 1", "no meaning in the alert `default`"),
    ] {
        let said = refused(text);
        assert!(said.errors().len() == 1 && said.to_string().contains(words), "{text}\n{said}");
    }
}

/// Who may make volumes, but not read files of secrets, named one in the data directory as the file of a volume, and read it by that.
#[test]
fn what_the_node_alone_is_to_read_is_no_volume_and_no_member() {
    use std::os::unix::fs::PermissionsExt as _;
    let directory = tempfile::tempdir().unwrap();
    let secret = directory.path().join("secret");
    std::fs::write(&secret, "a-secret-in-a-file\n").unwrap();
    std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(0o600)).unwrap();
    let (data, shown) = (directory.path().display(), secret.display());
    let names = [
        format!("[iscsi]\ndiscovery_chap = [{{ user = \"u\", secret_file = \"{shown}\" }}]\n"),
        format!("[mail]\nserver = \"m\"\nfrom = \"a@b.c\"\nuser = \"u\"\npassword_file = \"{shown}\"\n"),
        format!("[http]\ncertificate = \"{shown}\"\nkey = \"/elsewhere\"\n"),
        format!("[http]\ncertificate = \"/elsewhere\"\nkey = \"{shown}\"\n"),
    ];
    for named in names {
        for taken in [
            "[[volume]]\nname = \"v\"\nsize = 512\nbacking = { file = \"x/../secret\" }\n",
            "[[pool]]\nname = \"p\"\nraid = \"single\"\nmembers = [\"secret\"]\n",
        ] {
            let said = refused(&format!("data = \"{data}\"\n{named}{taken}")).to_string();
            assert!(said.contains("/secret is named elsewhere, for the node alone to read"), "{named}{said}");
        }
    }
}

/// A line that somebody had switched off, and what he noted behind the new secret, were told to everybody who may look.
#[test]
fn what_comments_have_of_secrets_is_hidden_too() {
    let text = "\
# webhook = \"https://example.org/old-one\"
#   { user = \"bob\", secret = \"old-one\" },
# secret_file = \"/etc/fels/bob\"
alias = \"a # b\" # not a secret: size = 5
chap = [{ user = \"u\", secret = \"new-one-new\" }] # was old-one
secret = \"\"\"
# secret = \"
old-one\"\"\"
";
    let shown = without_secrets(text);
    assert!(!shown.contains("old-one") && !shown.contains("new-one"), "{shown}");
    for kept in [
        "# webhook =\"***\"\n#   { user = \"bob\", secret =\"***\"\n# secret_file = \"/etc/fels/bob\"\n",
        "alias = \"a # b\" # not a secret: size = 5\n",
        "secret = \"***\" }] #\"***\"\n",
    ] {
        assert!(shown.contains(kept), "{kept}\n{shown}");
    }
}
