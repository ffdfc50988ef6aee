//! More connections than anybody needs.

use std::net::TcpStream;
use std::time::Duration;

use beds::initiator::Initiator;
use beds::peer::UNDISTURBED;
use beds::wait_until;

use crate::{LOGIN_ENDS_WITHIN, expect_growth_below, node};

#[test]
fn ten_thousand_connections() {
    let limit = beds::node::raise_open_files();
    let wanted = limit.saturating_sub(500).min(10_000) as usize;
    assert!(wanted >= 1000, "only {limit} open files are allowed\nhint: ulimit -Hn 20000");
    let (mut node, companion) = node();
    let before = node.resident_kib();
    let address = node.address();
    let flood: Vec<TcpStream> = std::thread::scope(|scope| {
        let wave = || {
            let connect = |_| TcpStream::connect_timeout(&address, Duration::from_secs(5)).ok();
            (0..wanted / 4).filter_map(connect).collect::<Vec<_>>()
        };
        let waves: Vec<_> = (0..4).map(|_| scope.spawn(wave)).collect();
        waves.into_iter().flat_map(|wave| wave.join().expect("a wave ends")).collect()
    });
    println!("{} of {wanted} connections were taken", flood.len());
    assert!(flood.len() >= wanted / 2, "only {} connections were taken", flood.len());
    std::thread::sleep(Duration::from_secs(2));
    expect_growth_below(&node, before, 384);
    drop(flood);
    let back = wait_until(LOGIN_ENDS_WITHIN, || Initiator::login(address, "nothing").is_ok());
    assert!(back, "nobody can log in after the flood");
    let log = node.log().len() >> 20;
    assert!(log < 16, "the flood made {log} MiB of log");
    assert!(node.is_serving());
    companion.undisturbed(UNDISTURBED);
}
