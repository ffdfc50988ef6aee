use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command};

use super::*;
use crate::process::Interrupt;

const URL: &str = "nvme://127.0.0.1:22042/nqn.2026-11.internal.x:malloc/1";

fn refusal(given: &str) -> String {
    Beside::parse(given).unwrap_err().line()
}

#[test]
fn a_server_is_given_by_its_name_its_process_and_its_address() {
    let beside = Beside::parse(&format!("spdk-nvme=77,{URL}")).unwrap();
    assert_eq!((beside.name.as_str(), beside.url.as_str()), ("spdk-nvme", URL));
    assert_eq!((beside.process, beside.protocol, beside.port), (77, Protocol::Nvme, 22042));
    let protocol =
        |url: &str| Beside::parse(&format!("x=1,{url}")).map(|beside| (beside.protocol, beside.port));
    let iscsi = protocol("iscsi://127.0.0.1/iqn.2026-11.internal.x:malloc/0").unwrap();
    assert_eq!(iscsi, (Protocol::Iscsi, 3260));
    // A comma belongs to the address from the second one on.
    assert_eq!(protocol("nbd://127.0.0.1:10/a,b").unwrap(), (Protocol::Nbd, 10));
}

#[test]
fn what_is_wrong_is_said_with_a_hint() {
    for (given, reason) in [
        ("spdk".to_owned(), "name, a process and an address"),
        (format!("spdk={URL}"), "name, a process and an address"),
        (format!("spdk=x,{URL}"), "no process id"),
        (format!("spdk=0,{URL}"), "no process id"),
        (format!("spdk=4294967295,{URL}"), "no process id"),
        (format!("a b=1,{URL}"), "no name for a server"),
        (format!("=1,{URL}"), "no name for a server"),
        (format!("tgt-rdwr=1,{URL}"), "another server"),
        (format!("fels-old=1,{URL}"), "another server"),
        ("spdk=1,http://127.0.0.1/".to_owned(), "scheme"),
        ("spdk=1,null:".to_owned(), "no server's address"),
        ("spdk=1,nbd+unix:///x?socket=/s".to_owned(), "unix socket"),
        ("spdk=1,iscsi://u%secret@127.0.0.1/iqn.2026-11.internal.x:y/0".to_owned(), "secret of its address"),
    ] {
        let line = refusal(&given);
        assert!(line.contains(reason) && line.contains("hint: "), "{given}: {line}");
    }
}

#[test]
fn a_secret_in_an_address_is_not_repeated() {
    assert!(!refusal("spdk=1,iscsi://u%hush@127.0.0.1/iqn.2026-11.internal.x:y/0").contains("hush"));
    assert!(!refusal("spdk=1,iscsi://u%hush@127.0.0.1/x").contains("hush"));
    assert!(!refusal("spdk=x,iscsi://u%hush@127.0.0.1/iqn.2026-11.internal.x:y/0").contains("hush"));
}

#[test]
fn only_sockets_that_listen_on_the_port_count() {
    let tcp = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   \
               0: 0100007F:561A 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1 x 100 0 0 10 0\n   \
               1: 0100007F:561A 0100007F:D431 01 00000000:00000000 00:00000000 00000000     0        0 4712 1 x 20 4 30 10 -1\n   \
               2: 0100007F:561B 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4713 1 x 100 0 0 10 0\n";
    assert_eq!(listening(tcp, 22042), [4711]);
    assert_eq!(listening(tcp, 22043), [4713]);
    assert!(listening(tcp, 80).is_empty());
}

#[test]
fn the_process_is_the_one_that_listens() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    assert!(listens(std::process::id(), port).unwrap());
    let other = Dummy::start("sleep 60");
    assert!(!listens(other.0.id(), port).unwrap());
    drop(listener);
    assert!(!listens(std::process::id(), port).unwrap());
}

#[test]
fn the_cores_of_a_process_are_known() {
    assert_eq!(allowed("Name:\tx\nCpus_allowed:\t3\nCpus_allowed_list:\t0-1\n"), Some("0-1"));
    let dummy = Dummy::start("sleep 60");
    let cores = other_cores(dummy.0.id(), "none").unwrap();
    assert!(other_cores(dummy.0.id(), cores.strip_prefix("cores ").unwrap()).is_none());
}

/// A process of a test.
struct Dummy(Child);

impl Dummy {
    fn start(script: &str) -> Self {
        Self(Command::new("sh").args(["-c", &format!("exec {script}")]).spawn().unwrap())
    }

    fn taken(&self, stood: bool) -> Taken {
        let process = self.0.id();
        let id = Pid::from_raw(process.try_into().unwrap()).unwrap();
        let handle = pidfd_open(id, PidfdFlags::empty()).unwrap();
        Taken { name: "dummy".to_owned(), process, handle, stood }
    }

    fn stands(&self) -> bool {
        state(self.0.id()) == Some('T')
    }
}

impl Drop for Dummy {
    fn drop(&mut self) {
        let _ended = self.0.kill().and_then(|()| self.0.wait());
    }
}

#[test]
fn it_stands_still_outside_of_its_turns_and_goes_on_at_the_end() {
    let dummy = Dummy::start("sleep 60");
    let taken = dummy.taken(false);
    drop(taken.turn().unwrap());
    assert!(dummy.stands());
    {
        let _turn = taken.turn().unwrap();
        assert!(!dummy.stands());
    }
    assert!(dummy.stands());
    drop(taken);
    assert!(!dummy.stands());
}

#[test]
fn one_that_stood_before_stands_again() {
    let dummy = Dummy::start("sleep 60");
    let taken = dummy.taken(true);
    drop(taken.turn().unwrap());
    drop(taken);
    assert!(dummy.stands());
}

#[test]
fn one_that_has_ended_is_told_of() {
    let mut dummy = Dummy::start("sleep 60");
    let taken = dummy.taken(false);
    taken.expect_running().unwrap();
    dummy.0.kill().unwrap();
    dummy.0.wait().unwrap();
    for error in [taken.expect_running().unwrap_err(), taken.turn().unwrap_err()] {
        assert!(error.line().contains("has ended (hint: "), "{}", error.line());
    }
}

#[test]
fn one_that_spins_uses_its_core_when_it_is_asked_nothing() {
    let (spins, sleeps) = (Dummy::start("sh -c 'while :; do :; done'"), Dummy::start("sleep 60"));
    assert!(busy_percent(spins.0.id()).unwrap() >= SPINS_PERCENT);
    assert!(busy_percent(sleeps.0.id()).unwrap() < SPINS_PERCENT);
}

#[test]
fn what_is_no_process_or_another_one_is_not_taken() {
    let interrupt = Interrupt::default();
    let place = Place {
        work: &PathBuf::from("/tmp"),
        cores: "none",
        client_cores: "1",
        volume_bytes: 0,
        port_base: 1024,
        interrupt: &interrupt,
    };
    let take = |process: u32, port: u16| {
        let given = format!("x={process},nbd://127.0.0.1:{port}/y");
        Beside::parse(&given).unwrap().take(&place).unwrap_err().line()
    };
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let dummy = Dummy::start("sleep 60");
    assert!(take(i32::MAX as u32, port).contains("there is no process"));
    assert!(take(dummy.0.id(), port).contains(&format!("does not listen on port {port}")));
    // This one listens, on cores that are not those of the servers: it goes on unhurt.
    assert!(take(std::process::id(), port).contains("taskset -a -p -c none"));
}
