//! Nothing is allocated for a read or a write once a session is warm, and a session that does nothing holds little: counted on
//! the target's thread, with real sockets and a real disk.

mod idle;
mod nvme;
mod pool;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use plane::core::{Core, Offer, Plan, Portals, prepare};
use plane::session::iscsi::IscsiOptions;
use plane::session::iscsi::login::Authentication;
use plane::shard::Peers;
use plane::volume::{Backing, Limits, VolumeOptions};
use ring::count_allocations::{Counting, by_this_thread};
use ring::{Options, Reactor};
use wire::iscsi::frame::data_segment_length;
use wire::iscsi::{
    Bhs, DataOut, Final, Immediate, IscsiName, Isid, LoginFlags, LoginRequest, LoginStage, LoginTransit,
    Opcode, R2t, ScsiCommand, ScsiCommandFlags, SerialNumber, U24,
};

use wire::nbd::{
    CHUNK_HEADER_LENGTH, ChunkHeader, ClientFlags, Command, CommandFlags, Errno, ExportNameReply, Greeting,
    OPTION_REPLY_LENGTH, OptionCode, Request, SIMPLE_REPLY_LENGTH, SimpleReply, encode_option,
};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const TARGET: &str = "iqn.2026-11.internal.fels:demo";
const SUBSYSTEM: &str = "nqn.2026-11.internal.fels:demo";
const BYTES: usize = 4096;
/// Commands that are sent before the first answer is read.
const DEPTH: u64 = 16;

/// A node of one core on a thread of its own.
struct Node {
    portals: Portals,
    peers: Peers,
    stop: ring::Sender<()>,
    thread: JoinHandle<()>,
}

impl Node {
    fn start(backing: Backing) -> Node {
        let (tell, told) = mpsc::channel();
        let (peers, mut mails) = Peers::new(1);
        let (stop, mut stopped) = ring::mailbox();
        let to_it = peers.clone();
        let thread = thread::spawn(move || {
            let reactor = Reactor::new(&Options::default()).unwrap();
            let ring = reactor.ring().clone();
            reactor.block_on(async move {
                let (prepared, _locks) = prepare(&ring, plan(backing)).await.unwrap();
                let core = Core::new(0, &ring, to_it, mails.remove(0), &prepared).unwrap();
                let any: Vec<SocketAddr> = vec!["127.0.0.1:0".parse().unwrap()];
                let portals =
                    Portals { iscsi: any.clone(), nvme: any.clone(), nbd: any, ..Portals::default() };
                tell.send(core.listen(&portals).unwrap()).unwrap();
                stopped.receive().await;
                core.shard.dismantle();
            });
        });
        Node { portals: told.recv().unwrap(), peers, stop, thread }
    }

    /// What its thread has allocated.
    fn allocations(&self) -> u64 {
        self.count(by_this_thread)
    }

    /// What `counter` says on its thread.
    fn count<T: Send + 'static>(&self, counter: fn() -> T) -> T {
        let (tell, told) = mpsc::sync_channel(1);
        self.peers.tell(0, move |_| tell.send(counter()).unwrap());
        told.recv().unwrap()
    }

    fn stop(self) {
        self.stop.send(()).unwrap();
        self.thread.join().unwrap();
    }
}

fn plan(backing: Backing) -> Plan {
    let hour = Duration::from_secs(3600);
    Plan {
        shards: 1,
        pools: Vec::new(),
        offers: vec![Offer {
            volume: VolumeOptions {
                name: "demo".into(),
                id: [1; 16],
                bytes: 16 << 20,
                block_size: 512,
                backing,
                limits: Limits::default(),
                may_grow: false,
                faults: None,
            },
            target_name: IscsiName::parse(TARGET).unwrap(),
            alias: None,
            authentication: Authentication::None,
            initiators: Vec::new(),
            nbd: true,
            subsystem: Some(SUBSYSTEM.into()),
            nsid: None,
            hosts: Vec::new(),
        }],
        discovery: Authentication::None,
        iscsi: IscsiOptions { nop_interval: hour, nop_timeout: hour },
    }
}

/// An initiator of few words.
struct Initiator {
    stream: TcpStream,
    next: u32,
}

impl Initiator {
    /// Sessions with different numbers are there at the same time.
    fn log_in(portal: SocketAddr, number: u16) -> Initiator {
        let text = format!(
            "InitiatorName=iqn.2026-11.internal.test:host\0SessionType=Normal\0TargetName={TARGET}\0\
             InitialR2T=Yes\0ImmediateData=Yes\0"
        );
        let transit =
            LoginTransit::new(LoginStage::LoginOperationalNegotiation, LoginStage::FullFeaturePhase);
        let request = LoginRequest {
            immediate: Immediate(true),
            flags: LoginFlags::TRANSIT,
            transit,
            data_segment_length: U24::saturating(text.len()),
            isid: Isid::random(1, number),
            ..LoginRequest::default()
        };
        let mut bhs: Bhs = [0; 48];
        request.encode(&mut bhs);
        let mut initiator = Initiator { stream: TcpStream::connect(portal).unwrap(), next: 0 };
        initiator.send(&bhs, text.as_bytes());
        assert_eq!(initiator.receive()[36], 0, "the login");
        // The first command is told that the session is new.
        initiator.command(0, 0, ScsiCommandFlags::empty(), &[]);
        assert_eq!(initiator.receive()[3], 2);
        initiator
    }

    fn send(&mut self, bhs: &Bhs, data: &[u8]) {
        let mut bytes = [bhs, data].concat();
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        self.stream.write_all(&bytes).unwrap();
    }

    /// The header of the next PDU; its data is read over.
    fn receive(&mut self) -> Bhs {
        let mut bhs: Bhs = [0; 48];
        self.stream.read_exact(&mut bhs).unwrap();
        let mut data = vec![0; data_segment_length(&bhs).next_multiple_of(4)];
        self.stream.read_exact(&mut data).unwrap();
        bhs
    }

    fn command(&mut self, opcode: u8, lba: u64, flags: ScsiCommandFlags, data: &[u8]) {
        let mut cdb = [0; 16];
        cdb[0] = opcode;
        cdb[2..10].copy_from_slice(&lba.to_be_bytes());
        cdb[10..14].copy_from_slice(&(BYTES as u32 / 512).to_be_bytes());
        let command = ScsiCommand {
            flags: flags | ScsiCommandFlags::FINAL,
            data_segment_length: U24::saturating(data.len()),
            initiator_task_tag: self.next,
            expected_data_transfer_length: BYTES as u32,
            cmd_sn: SerialNumber(self.next),
            cdb,
            ..ScsiCommand::default()
        };
        self.next += 1;
        let mut bhs: Bhs = [0; 48];
        command.encode(&mut bhs);
        self.send(&bhs, data);
    }

    /// Answers an R2T that asks for all of a command's data.
    fn data_out(&mut self, request: &R2t, data: &[u8]) {
        let pdu = DataOut {
            is_final: Final(true),
            data_segment_length: U24::saturating(data.len()),
            initiator_task_tag: request.initiator_task_tag,
            target_transfer_tag: request.target_transfer_tag,
            ..DataOut::default()
        };
        let mut bhs: Bhs = [0; 48];
        pdu.encode(&mut bhs);
        self.send(&bhs, data);
    }

    /// Reads, and writes with immediate data and with data that is asked for; `rounds` times as many as are under
    /// way at once.
    fn work(&mut self, rounds: u64) {
        let data = [7; BYTES];
        for round in 0..rounds {
            for at in 0..DEPTH {
                let lba = (round * DEPTH + at) % 512 * 8;
                match at % 4 {
                    0 | 2 => self.command(0x88, lba, ScsiCommandFlags::READ, &[]),
                    1 => self.command(0x8a, lba, ScsiCommandFlags::WRITE, &data),
                    _ => self.command(0x8a, lba, ScsiCommandFlags::WRITE, &[]),
                }
            }
            let mut done = 0;
            while done < DEPTH {
                let bhs = self.receive();
                if Opcode::of(&bhs) == Ok(Opcode::R2t) {
                    self.data_out(&R2t::decode(&bhs), &data);
                } else {
                    assert_eq!(bhs[3], 0, "GOOD");
                    done += 1;
                }
            }
        }
    }
}

/// An NBD client of as few words.
struct Client {
    stream: TcpStream,
    structured: bool,
}

impl Client {
    fn connect(portal: SocketAddr, structured: bool) -> Client {
        let mut stream = TcpStream::connect(portal).unwrap();
        stream.read_exact(&mut [0; Greeting::LENGTH]).unwrap();
        let mut bytes = ClientFlags::all().bits().to_be_bytes().to_vec();
        if structured {
            encode_option(OptionCode::STRUCTURED_REPLY, &[], &mut bytes);
        }
        encode_option(OptionCode::EXPORT_NAME, b"demo", &mut bytes);
        stream.write_all(&bytes).unwrap();
        let answer = if structured { OPTION_REPLY_LENGTH } else { 0 };
        stream.read_exact(&mut vec![0; answer + ExportNameReply::LENGTH]).unwrap();
        Client { stream, structured }
    }

    /// Reads, writes and flushes; `rounds` times as many as are under way at once.
    fn work(&mut self, rounds: u64) {
        let mut bytes = Vec::new();
        for round in 0..rounds {
            bytes.clear();
            for at in 0..DEPTH {
                let command = [Command::READ, Command::WRITE, Command::READ, Command::FLUSH][at as usize % 4];
                let flush = command == Command::FLUSH;
                let offset = if flush { 0 } else { (round * DEPTH + at) % 512 * BYTES as u64 };
                let length = if flush { 0 } else { BYTES as u32 };
                let request = Request { flags: CommandFlags::empty(), command, cookie: at, offset, length };
                bytes.extend_from_slice(&request.encode());
                if command == Command::WRITE {
                    bytes.extend_from_slice(&[7; BYTES]);
                }
            }
            self.stream.write_all(&bytes).unwrap();
            for _ in 0..DEPTH {
                self.receive();
            }
        }
    }

    /// A chunk is only what answers a read, and only where that was agreed on.
    fn receive(&mut self) {
        let mut header = [0; CHUNK_HEADER_LENGTH];
        let (simple, rest) = header.split_first_chunk_mut::<SIMPLE_REPLY_LENGTH>().unwrap();
        self.stream.read_exact(simple).unwrap();
        let length = if let Ok(reply) = SimpleReply::decode(simple) {
            assert_eq!(reply.error, Errno::OK);
            let is_read = reply.cookie.is_multiple_of(2);
            assert!(!(is_read && self.structured));
            if is_read { BYTES } else { 0 }
        } else {
            self.stream.read_exact(rest).unwrap();
            let header = ChunkHeader::decode(&header).unwrap();
            assert!(self.structured && header.done && !header.kind.is_error());
            header.length as usize
        };
        self.stream.read_exact(&mut vec![0; length]).unwrap();
    }
}

/// Allocations of the least of some windows of work: what is allocated for each request is allocated in all of them. A free
/// list that grows, because the disk is slower for a moment and more is in flight than ever before, is not.
fn least_of_windows(node: &Node, mut work: impl FnMut()) -> u64 {
    let mut least = u64::MAX;
    for _ in 0..4 {
        let before = node.allocations();
        work();
        least = least.min(node.allocations() - before);
        if least == 0 {
            break;
        }
    }
    least
}

fn nbd_allocations_per_thousand(backing: Backing, structured: bool) -> u64 {
    let node = Node::start(backing);
    let mut client = Client::connect(node.portals.nbd[0], structured);
    client.work(500);
    let least = least_of_windows(&node, || client.work(1000 / DEPTH + 1));
    drop(client);
    node.stop();
    least
}

#[test]
fn nbd_requests_of_a_volume_in_ram_allocate_nothing() {
    assert_eq!(nbd_allocations_per_thousand(Backing::Memory, false), 0);
    assert_eq!(nbd_allocations_per_thousand(Backing::Memory, true), 0);
}

#[test]
fn nbd_requests_of_a_volume_in_a_file_allocate_nothing() {
    let directory = tempfile::tempdir().unwrap();
    assert_eq!(nbd_allocations_per_thousand(Backing::File(directory.path().join("demo.img")), false), 0);
}

fn allocations_per_thousand(backing: Backing) -> u64 {
    let node = Node::start(backing);
    let mut initiator = Initiator::log_in(node.portals.iscsi[0], 1);
    initiator.work(500);
    let least = least_of_windows(&node, || initiator.work(1000 / DEPTH + 1));
    drop(initiator);
    node.stop();
    least
}

#[test]
fn reads_and_writes_of_a_volume_in_ram_allocate_nothing() {
    assert_eq!(allocations_per_thousand(Backing::Memory), 0);
}

#[test]
fn reads_and_writes_of_a_volume_in_a_file_allocate_nothing() {
    let directory = tempfile::tempdir().unwrap();
    assert_eq!(allocations_per_thousand(Backing::File(directory.path().join("demo.img"))), 0);
}

#[test]
fn an_allocation_would_be_counted() {
    let node = Node::start(Backing::Memory);
    let before = node.allocations();
    node.peers.tell(0, |_| drop(std::hint::black_box(Box::new(7))));
    assert_eq!(node.allocations() - before, 1);
    node.stop();
}
