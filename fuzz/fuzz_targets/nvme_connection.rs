//! Any bytes as what a host does with a node: PDUs on an admin queue and two I/O queues, resets, ends, time that passes.
//! Whatever it does, the node goes on, and keeps nothing of it.
#![no_main]

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use plane::core::{Core, Offer, Plan, Portals, prepare};
use plane::session::iscsi::IscsiOptions;
use plane::session::iscsi::login::Authentication;
use plane::shard::Peers;
use plane::volume::{Backing, Limits, VolumeOptions};
use ring::sim::World;
use ring::{Ring, SendList, Socket};
use wire::iscsi::IscsiName;
use wire::nvme::fabrics::{
    CONNECT_DATA_LENGTH, Connect, ConnectData, ConnectResult, ControllerConfiguration, Property, PropertySet,
    PropertySize,
};
use wire::nvme::tcp::{
    CapsuleCmd, CapsuleResp, CommonHeader, DigestFlags, Framing, H2CData, ICReq, PduType, R2T,
};
use wire::nvme::{CNTLID_DYNAMIC, Command, NqnField};

const SUBSYSTEM: &str = "nqn.2026-11.internal.fels:demo";

fn encoded<const N: usize>(encode: impl FnOnce(&mut [u8; N])) -> Vec<u8> {
    let mut bytes = [0; N];
    encode(&mut bytes);
    bytes.to_vec()
}

/// What the controller has said on a connection.
#[derive(Default)]
struct Heard {
    asked: Vec<R2T>,
    first: Option<CapsuleResp>,
    ended: bool,
}

struct Host {
    ring: Ring,
    socket: Socket,
    heard: Rc<RefCell<Heard>>,
}

impl Host {
    async fn open(ring: &Ring, portal: SocketAddr) -> Host {
        let socket = Socket::connect(ring, portal).await.expect("the node listens");
        let heard = Rc::<RefCell<Heard>>::default();
        let host = Host { ring: ring.clone(), socket: socket.clone(), heard: heard.clone() };
        ring.spawn(async move {
            let mut bytes = Vec::new();
            while let Ok(chunk) = socket.receive().await {
                if chunk.is_empty() {
                    break;
                }
                bytes.extend_from_slice(&chunk);
                while let Some(first) = bytes.first_chunk() {
                    let header = CommonHeader::decode(first);
                    assert!(header.plen >= 8, "no PDU is shorter than its header");
                    if bytes.len() < header.plen as usize {
                        break;
                    }
                    let pdu: Vec<u8> = bytes.drain(..header.plen as usize).collect();
                    let mut heard = heard.borrow_mut();
                    match header.pdu_type {
                        PduType::R2T => {
                            heard.asked.push(R2T::decode(pdu.first_chunk().expect("a whole R2T")))
                        }
                        PduType::CAPSULE_RESP if heard.first.is_none() => {
                            heard.first = pdu.first_chunk().map(CapsuleResp::decode);
                        }
                        _ => {}
                    }
                }
            }
            heard.borrow_mut().ended = true;
        });
        host
    }

    async fn send(&self, bytes: &[u8]) {
        let mut list = SendList::new();
        list.push_bytes(bytes);
        self.socket.send(list).await.0.ok();
    }

    async fn capsule(&self, command: Command, data: &[u8]) {
        let pdu = CapsuleCmd::new(Framing::default(), command, data.len() as u32);
        let mut bytes = encoded(|bytes| pdu.encode(bytes));
        bytes.extend_from_slice(data);
        self.send(&bytes).await;
    }

    /// Becomes a queue, or not; gives the controller's identifier.
    async fn join(&self, qid: u16, cntlid: u16) -> u16 {
        self.send(&encoded(|bytes| ICReq::new(0, DigestFlags::empty(), 0).encode(bytes))).await;
        let data = ConnectData {
            hostid: [7; 16],
            cntlid,
            subnqn: NqnField::new(SUBSYSTEM),
            hostnqn: NqnField::new("nqn.2014-08.com.example:host"),
        };
        let connect = Connect { qid, sqsize: 31, ..Connect::default() };
        self.capsule(connect.command(0xffff), &encoded::<CONNECT_DATA_LENGTH>(|bytes| data.encode(bytes)))
            .await;
        while !self.heard.borrow().ended {
            if let Some(first) = self.heard.borrow().first {
                return ConnectResult::from_result(first.completion.result).cntlid;
            }
            self.ring.sleep(Duration::from_millis(1)).await;
        }
        0
    }

    async fn configure(&self, value: u32) {
        let set = PropertySet { size: PropertySize::FOUR, offset: Property::CC, value: value.into() };
        self.capsule(set.command(0xfffe), &[]).await;
    }
}

/// A script read byte by byte; it ends with zeroes.
struct Script<'a>(&'a [u8]);

impl<'a> Script<'a> {
    fn byte(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        *first
    }

    fn bytes(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        taken
    }
}

async fn play(ring: Ring, portal: SocketAddr, bytes: Vec<u8>) {
    let mut script = Script(&bytes);
    let admin = Host::open(&ring, portal).await;
    let cntlid = admin.join(0, CNTLID_DYNAMIC).await;
    admin.configure(ControllerConfiguration::ENABLED.0).await;
    let mut hosts = vec![admin];
    for qid in 1..=2 {
        hosts.push(Host::open(&ring, portal).await);
        hosts[usize::from(qid)].join(qid, cntlid).await;
    }
    let mut steps = 0;
    while !script.0.is_empty() && steps < 64 {
        steps += 1;
        let what = script.byte();
        let place = usize::from(what >> 6) % hosts.len();
        let host = &hosts[place];
        match what & 7 {
            0 => {
                let count = script.byte();
                host.send(script.bytes(count.into())).await;
            }
            1..=3 => {
                let mut bytes = [0; 64];
                let given = script.bytes(64);
                bytes[..given.len()].copy_from_slice(given);
                // Mostly what is not refused at once.
                bytes[1] = bytes[1] & 3 | 0x40;
                let blocks = usize::from(script.byte() % 4);
                host.capsule(Command::decode(&bytes), &vec![what; blocks * 512]).await;
            }
            4 => {
                let asked = host.heard.borrow_mut().asked.pop();
                if let Some(r2t) = asked {
                    let length = r2t.r2tl.min(1 << 20).saturating_sub(u32::from(script.byte() % 2) * 4);
                    let last = length == r2t.r2tl;
                    let pdu = H2CData::new(Framing::default(), r2t.cccid, r2t.ttag, 0, length, last);
                    let mut bytes = encoded(|bytes| pdu.encode(bytes));
                    bytes.resize(bytes.len() + length as usize, what);
                    host.send(&bytes).await;
                }
            }
            5 => hosts[0].configure(ControllerConfiguration::ENABLED.0 ^ u32::from(script.byte() & 1)).await,
            6 => {
                let qid = place as u16;
                hosts[place] = Host::open(&ring, portal).await;
                hosts[place].join(qid, if qid == 0 { CNTLID_DYNAMIC } else { cntlid }).await;
            }
            _ => ring.sleep(Duration::from_millis(u64::from(script.byte()) * 20)).await,
        }
    }
}

fn plan() -> Plan {
    let never = Duration::from_secs(3600);
    Plan {
        shards: 1,
        pools: Vec::new(),
        offers: vec![Offer {
            volume: VolumeOptions {
                name: "demo".into(),
                id: [1; 16],
                bytes: 1 << 20,
                block_size: 512,
                backing: Backing::Memory,
                limits: Limits::default(),
                may_grow: false,
                faults: None,
            },
            target_name: IscsiName::parse("iqn.2026-11.internal.fels:demo").expect("a good name"),
            alias: None,
            authentication: Authentication::None,
            initiators: Vec::new(),
            nbd: false,
            nsid: None,
            subsystem: Some(SUBSYSTEM.into()),
            hosts: Vec::new(),
        }],
        discovery: Authentication::None,
        iscsi: IscsiOptions { nop_interval: never, nop_timeout: never },
    }
}

fuzz_target!(|bytes: &[u8]| {
    let world = World::new(1);
    let (node, hosts) = (world.node("target"), world.node("hosts"));
    let reactors = [node.reactor(), node.reactor()];
    let ring = reactors[0].ring().clone();
    let prepared = world.block_on(&reactors[0], async move { prepare(&ring, plan()).await });
    let (prepared, locks) = prepared.expect("it comes to an end").expect("the plan is good");
    let (peers, mails) = Peers::new(reactors.len());
    let cores: Vec<Core> = mails
        .into_iter()
        .zip(&reactors)
        .enumerate()
        .map(|(index, (mail, reactor))| {
            Core::new(index, reactor.ring(), peers.clone(), mail, &prepared).expect("the volume is there")
        })
        .collect();
    let portals = Portals { nvme: vec![node.at(4420)], ..Portals::default() };
    let portal = cores[0].listen(&portals).expect("the port is free").nvme[0];
    let host = hosts.reactor();
    world.block_on(&host, play(host.ring().clone(), portal, bytes.to_vec())).expect("the host is not stuck");
    drop(host);
    world.run_for(Duration::from_secs(300)).expect("the world goes on");
    assert_eq!(cores[0].nvme.node().controllers(), 0, "controllers are left");
    assert_eq!(ring::in_use(), 0, "bytes of buffers are left");
    cores.iter().for_each(|core| core.shard.dismantle());
    drop((cores, reactors, locks));
    assert!(world.is_empty(), "descriptors are left");
});
