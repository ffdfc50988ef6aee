//! What a request is refused for, by the rules of the protocol; and who keeps whom waiting on a real core.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use ring::{Options, Reactor, mailbox};
use wire::iscsi::IscsiName;
use wire::nbd::{
    ClientFlags, Command, CommandFlags, Errno, ExportNameReply, Greeting, OptionCode, Request, encode_option,
};

use super::receive::judge;
use crate::core::{Core, Offer, Plan, Portals, prepare};
use crate::limits::NBD_PAYLOAD_BYTES;
use crate::request::Geometry;
use crate::session::iscsi::IscsiOptions;
use crate::session::iscsi::login::Authentication;
use crate::shard::Peers;
use crate::volume::{Backing, Limits, VolumeOptions};

const SIZE: u64 = 1 << 30;

fn geometry() -> Geometry {
    Geometry {
        block_size: 512,
        physical_block_size: 4096,
        blocks: SIZE / 512,
        write_cache: true,
        read_only: false,
        discard: true,
        discard_zeroes: true,
        discard_granularity: 4096,
    }
}

fn request(command: Command, offset: u64, length: u32) -> Request {
    Request { flags: CommandFlags::empty(), command, cookie: 1, offset, length }
}

fn error(request: &Request) -> Errno {
    judge(request, &geometry(), true, true).err().map_or(Errno::OK, |refused| refused.error)
}

#[test]
fn beyond_the_end_writes_find_no_space_and_the_rest_is_invalid() {
    for (command, expected) in [
        (Command::READ, Errno::EINVAL),
        (Command::WRITE, Errno::ENOSPC),
        (Command::WRITE_ZEROES, Errno::ENOSPC),
        (Command::TRIM, Errno::EINVAL),
        (Command::CACHE, Errno::EINVAL),
        (Command::BLOCK_STATUS, Errno::EINVAL),
    ] {
        assert_eq!(error(&request(command, SIZE - 512, 512)), Errno::OK, "{command:?}");
        for (offset, length) in [(SIZE, 512), (SIZE - 512, 1024), (u64::MAX - 511, 512), (u64::MAX, u32::MAX)]
        {
            let length =
                if command == Command::WRITE || command == Command::READ { length.min(1024) } else { length };
            assert_eq!(error(&request(command, offset, length)), expected, "{command:?} {offset} {length}");
        }
    }
}

#[test]
fn a_flag_is_for_its_command_alone() {
    let all = [
        (CommandFlags::NO_HOLE, Command::WRITE_ZEROES),
        (CommandFlags::FAST_ZERO, Command::WRITE_ZEROES),
        (CommandFlags::DF, Command::READ),
        (CommandFlags::REQ_ONE, Command::BLOCK_STATUS),
    ];
    let commands = [
        Command::READ,
        Command::WRITE,
        Command::TRIM,
        Command::CACHE,
        Command::WRITE_ZEROES,
        Command::BLOCK_STATUS,
    ];
    for command in commands {
        let with = |flags| error(&Request { flags, ..request(command, 0, 512) });
        assert_eq!(with(CommandFlags::FUA), Errno::OK);
        assert_eq!(with(CommandFlags::from_bits_retain(0x8000)), Errno::EINVAL);
        for (flag, home) in all {
            assert_eq!(
                with(flag),
                if command == home { Errno::OK } else { Errno::EINVAL },
                "{command:?} {flag:?}"
            );
        }
    }
    let df = Request { flags: CommandFlags::DF, ..request(Command::READ, 0, 512) };
    assert_eq!(
        judge(&df, &geometry(), false, false).unwrap_err().error,
        Errno::EINVAL,
        "without structured replies"
    );
}

#[test]
fn a_long_read_is_too_large_in_one_piece_and_invalid_otherwise() {
    let length = NBD_PAYLOAD_BYTES as u32;
    assert_eq!(error(&request(Command::READ, 0, length)), Errno::OK);
    assert_eq!(error(&request(Command::READ, 0, length + 512)), Errno::EINVAL);
    let whole = Request { flags: CommandFlags::DF, ..request(Command::READ, 0, length + 512) };
    assert_eq!(error(&whole), Errno::EOVERFLOW);
    assert_eq!(
        error(&request(Command::TRIM, 0, SIZE as u32)),
        Errno::OK,
        "what has no payload has no such bound"
    );
}

#[test]
fn a_read_only_export_permits_no_change() {
    let fixed = Geometry { read_only: true, ..geometry() };
    for (command, expected) in [
        (Command::READ, None),
        (Command::FLUSH, None),
        (Command::WRITE, Some(Errno::EPERM)),
        (Command::TRIM, Some(Errno::EPERM)),
        (Command::WRITE_ZEROES, Some(Errno::EPERM)),
    ] {
        let length = if command == Command::FLUSH { 0 } else { 512 };
        let judged = judge(&request(command, 0, length), &fixed, true, true);
        assert_eq!(judged.err().map(|refused| refused.error), expected, "{command:?}");
    }
}

#[test]
fn the_rest_of_the_rules() {
    assert_eq!(error(&request(Command::READ, 100, 512)), Errno::EINVAL, "a crooked offset");
    assert_eq!(error(&request(Command::WRITE, 0, 100)), Errno::EINVAL, "a crooked length");
    assert_eq!(error(&request(Command::FLUSH, 0, 512)), Errno::EINVAL, "a flush of a part");
    assert_eq!(error(&request(Command::BLOCK_STATUS, 0, 0)), Errno::EINVAL, "status of nothing");
    assert_eq!(error(&request(Command::READ, 0, 0)), Errno::OK, "a read of nothing");
    assert_eq!(error(&request(Command(8), 0, 512)), Errno::EINVAL, "a command that is not known");
    let status = request(Command::BLOCK_STATUS, 0, 512);
    assert_eq!(
        judge(&status, &geometry(), true, false).unwrap_err().error,
        Errno::EINVAL,
        "without a context"
    );
    let rigid = Geometry { discard: false, ..geometry() };
    assert_eq!(judge(&request(Command::TRIM, 0, 512), &rigid, true, true).unwrap_err().error, Errno::EINVAL);
}

/// A volume in memory.
fn plan(limits: Limits) -> Plan {
    let hour = Duration::from_secs(3600);
    let volume = VolumeOptions {
        name: "demo".into(),
        id: [1; 16],
        bytes: 16 << 20,
        block_size: 512,
        backing: Backing::Memory,
        limits,
        may_grow: false,
        faults: None,
    };
    let offer = Offer {
        volume,
        target_name: IscsiName::parse("iqn.2026-11.internal.fels:demo").unwrap(),
        alias: None,
        authentication: Authentication::None,
        initiators: Vec::new(),
        nbd: true,
        subsystem: None,
        nsid: None,
        hosts: Vec::new(),
    };
    let iscsi = IscsiOptions { nop_interval: hour, nop_timeout: hour };
    let discovery = Authentication::None;
    Plan { shards: 1, pools: Vec::new(), offers: vec![offer], discovery, iscsi }
}

/// Chooses the export; fails where nothing is answered for long.
fn connect(portal: SocketAddr) -> std::io::Result<TcpStream> {
    let mut stream = TcpStream::connect(portal)?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    stream.read_exact(&mut [0; Greeting::LENGTH])?;
    let mut hello = ClientFlags::all().bits().to_be_bytes().to_vec();
    encode_option(OptionCode::EXPORT_NAME, b"demo", &mut hello);
    stream.write_all(&hello)?;
    stream.read_exact(&mut [0; ExportNameReply::LENGTH])?;
    Ok(stream)
}

#[test]
fn who_does_not_read_holds_no_receive_buffer_that_others_need() {
    const BUFFERS: u16 = 8;
    let options = Options { receive_buffers: BUFFERS, receive_buffer_bytes: 4096, ..Options::default() };
    let reactor = Reactor::new(&options).unwrap();
    let ring = reactor.ring().clone();
    reactor.block_on(async move {
        let (peers, mut mails) = Peers::new(1);
        let (prepared, _locks) = prepare(&ring, plan(Limits::default())).await.unwrap();
        let core = Core::new(0, &ring, peers, mails.remove(0), &prepared).unwrap();
        let nbd = vec!["127.0.0.1:0".parse().unwrap()];
        let portal = core.listen(&Portals { nbd, ..Portals::default() }).unwrap().nbd[0];
        let (tell, mut told) = mailbox();
        let clients = std::thread::spawn(move || {
            // Each asks for more than is queued for him, in less than a buffer, and takes nothing of it.
            let asks: Vec<u8> = (0..100)
                .flat_map(|cookie| Request { cookie, ..request(Command::READ, 0, 1 << 20) }.encode())
                .collect();
            let mut waiting = Vec::new();
            for _ in 0..BUFFERS {
                let mut client = connect(portal).unwrap();
                client.write_all(&asks).unwrap();
                waiting.push(client);
                std::thread::sleep(Duration::from_millis(50));
            }
            tell.send(connect(portal).map(drop)).unwrap();
        });
        let another = told.receive().await.unwrap();
        clients.join().unwrap();
        core.shard.dismantle();
        another.expect("another client is answered");
    });
}

#[test]
fn requests_that_wait_within_a_limit_end_with_their_connection() {
    let reactor = Reactor::new(&Options::default()).unwrap();
    let ring = reactor.ring().clone();
    reactor.block_on(async move {
        let (peers, mut mails) = Peers::new(1);
        let limits = Limits { iops: Some(1), ..Limits::default() };
        let (prepared, _locks) = prepare(&ring, plan(limits)).await.unwrap();
        let core = Core::new(0, &ring, peers, mails.remove(0), &prepared).unwrap();
        let nbd = vec!["127.0.0.1:0".parse().unwrap()];
        let portal = core.listen(&Portals { nbd, ..Portals::default() }).unwrap().nbd[0];
        let (tell, mut told) = mailbox();
        let client = std::thread::spawn(move || {
            let asks: Vec<u8> = (0..60)
                .flat_map(|cookie| Request { cookie, ..request(Command::READ, 0, 512) }.encode())
                .collect();
            let mut client = connect(portal).unwrap();
            client.write_all(&asks).unwrap();
            // The first one is let in at once: the others are there.
            client.read_exact(&mut [0; 16 + 512]).unwrap();
            tell.send(client).unwrap();
        });
        let connected = told.receive().await.unwrap();
        client.join().unwrap();
        assert_eq!(core.nbd.connection_count(), 1);
        drop(connected);
        let gone = async {
            while core.nbd.connection_count() > 0 {
                ring.sleep(Duration::from_millis(50)).await;
            }
        };
        let in_time = ring.timeout(Duration::from_secs(10), gone).await;
        core.shard.dismantle();
        assert!(in_time.is_some(), "they wait for their turn, which comes in a minute");
    });
}
