//! Volumes come, change and go while others are in use, over every transport.

use std::cell::{Cell, RefCell};
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use lab::initiator::Session;
use plane::core::{Offer, Portals};
use plane::limits::NBD_BYTES_IN_FLIGHT;
use plane::live::{Bytes, Live, LiveError};
use plane::pool::{Level, PoolPlan};
use plane::volume::Limits;
use ring::sim::{Settings, World};
use ring::{Buffer, SendList, Socket};
use sim::{Client, Connector, PoolShape, Server, Transport, VolumePlan, member_path};
use wire::nbd::{
    CommandFlags, Greeting, InfoType, OPTION_REPLY_LENGTH, OptionCode, OptionReplyHeader, OptionReplyType,
    encode_info_request, encode_option,
};

const MIB: u64 = 1 << 20;
const TRANSPORTS: [Transport; 3] = [Transport::Iscsi, Transport::Nvme, Transport::Nbd];
const GRACE: Duration = Duration::from_secs(1);

/// A node with two shards, the volumes `one` (file) and `two` (RAM), and a client.
struct Bed {
    world: World,
    server: Server,
    client: Client,
}

impl Bed {
    fn new(seed: u64) -> Bed {
        Bed::in_world(World::new(seed))
    }

    fn in_world(world: World) -> Bed {
        let volumes = vec![VolumePlan::new("one", MIB, 512), VolumePlan::new("two", MIB, 512).in_memory()];
        let mut server = Server::new(&world, 2, volumes);
        server.start().unwrap();
        let client = Client::new(&world, 1);
        Bed { world, server, client }
    }

    fn connector(&self, transport: Transport, volume: usize, session: u64) -> Connector {
        self.client.connector(&self.server, transport, volume, 0, session)
    }

    fn open(&self, transport: Transport, volume: usize, session: u64) -> Result<Session, String> {
        let connector = self.connector(transport, volume, session);
        let opened = async move { connector.connect().await.map_err(|error| error.to_string()) };
        self.world.block_on(self.client.reactor(), opened).unwrap()
    }

    fn write(&self, session: &Rc<Session>, offset: u64, byte: u8) -> Result<(), String> {
        let session = session.clone();
        let write = async move {
            let data = Buffer::copy_of(&vec![byte; session.geometry().block_size as usize]).share();
            session.write(offset, data, false).await.map_err(|error| error.to_string())
        };
        self.world.block_on(self.client.reactor(), write).unwrap()
    }

    fn read(&self, session: &Rc<Session>, offset: u64) -> Result<u8, String> {
        let session = session.clone();
        let read = async move {
            let (result, buffer) =
                session.read(offset, Buffer::new(session.geometry().block_size as usize)).await;
            result.map(|()| buffer[0]).map_err(|error| error.to_string())
        };
        self.world.block_on(self.client.reactor(), read).unwrap()
    }

    fn add(&self, offer: Offer) -> Result<(), LiveError> {
        self.server.change(|live, shard| async move { live.add(&shard, offer).await }).unwrap()
    }

    fn alter(&self, offer: Offer) -> Result<(), LiveError> {
        self.server.change(|live, shard| async move { live.alter(&shard, offer, GRACE).await }).unwrap()
    }

    fn remove(&self, name: &'static str, bytes: Bytes) -> Result<bool, LiveError> {
        let removed = |live: Rc<Live>, shard| async move { live.remove(&shard, name, GRACE, bytes).await };
        self.server.change(removed).unwrap()
    }

    fn destroy(&self, pool: &'static str, name: &'static str) -> Result<bool, LiveError> {
        let destroyed = |live: Rc<Live>, shard| async move { live.destroy(&shard, pool, name).await };
        self.server.change(destroyed).unwrap()
    }

    fn open_pool(&self, plan: PoolPlan) -> Result<(), LiveError> {
        self.server.change(|live, shard| async move { live.open_pool(&shard, &plan).await }).unwrap()
    }

    fn close_pool(&self, name: &'static str, bytes: Bytes) -> Result<(), LiveError> {
        self.server.change(|live, shard| async move { live.close_pool(&shard, name, bytes).await }).unwrap()
    }

    fn listen(&self, portals: &Portals) -> Result<Portals, LiveError> {
        let portals = portals.clone();
        self.server.change(|live, shard| async move { live.listen(&shard, &portals).await }).unwrap()
    }

    /// A connection to the NBD portal that knows nothing of the protocol.
    fn bare(&self) -> Rc<Socket> {
        let (ring, portal) = (self.client.reactor().ring().clone(), self.server.portals().nbd[0]);
        let connect = async move { Socket::connect(&ring, portal).await.unwrap() };
        Rc::new(self.world.block_on(self.client.reactor(), connect).unwrap())
    }

    fn send(&self, socket: &Rc<Socket>, bytes: &[u8]) {
        let (socket, mut list) = (socket.clone(), SendList::new());
        list.push_bytes(bytes);
        let send = async move { socket.send(list).await.0.unwrap() };
        self.world.block_on(self.client.reactor(), send).unwrap();
    }

    fn receive(&self, socket: &Rc<Socket>, bytes: usize) -> Vec<u8> {
        let socket = socket.clone();
        let receive = async move {
            let mut received = Vec::new();
            while received.len() < bytes {
                let chunk = socket.receive().await.unwrap();
                assert!(!chunk.is_empty(), "the connection has ended");
                received.extend_from_slice(&chunk);
            }
            received
        };
        self.world.block_on(self.client.reactor(), receive).unwrap()
    }

    /// A lane that writes and reads a block of its own until it is stopped; tells how often it did, and what went wrong.
    fn load(&self, transport: Transport, volume: usize, number: u64) -> Load {
        let connector = self.connector(transport, volume, number);
        let load = Load::default();
        let (rounds, end, stop) = (load.rounds.clone(), load.end.clone(), load.stop.clone());
        let offset = 4096 * (1 + 3 * number + place_of(transport));
        self.client.reactor().ring().spawn_later(async move {
            let result = async {
                let session = connector.connect().await.map_err(|error| error.to_string())?;
                let block = session.geometry().block_size as usize;
                while !stop.get() {
                    let round = rounds.get();
                    let data = Buffer::copy_of(&vec![round as u8; block]).share();
                    session.write(offset, data, false).await.map_err(|error| error.to_string())?;
                    let (result, buffer) = session.read(offset, Buffer::new(block)).await;
                    result.map_err(|error| error.to_string())?;
                    if buffer.iter().any(|byte| *byte != round as u8) {
                        return Err(format!("round {round}: something else was read"));
                    }
                    rounds.set(round + 1);
                }
                session.close().await;
                Ok::<_, String>(())
            };
            *end.borrow_mut() = Some(result.await);
        });
        load
    }
}

fn place_of(transport: Transport) -> u64 {
    TRANSPORTS.iter().position(|other| *other == transport).unwrap() as u64
}

/// All of them went on, and nothing went wrong.
fn all_go_on(loads: &[Load], world: &World, what: &str) {
    for load in loads {
        load.goes_on(world, what);
    }
}

#[derive(Default)]
struct Load {
    rounds: Rc<Cell<u64>>,
    /// How it ended, once it has.
    end: Rc<RefCell<Option<Result<(), String>>>>,
    stop: Rc<Cell<bool>>,
}

impl Load {
    /// It went on since `before`, and nothing went wrong.
    fn goes_on(&self, world: &World, what: &str) {
        let before = self.rounds.get();
        world.run_until(|| self.rounds.get() > before + 2 || self.end.borrow().is_some()).unwrap();
        assert_eq!(*self.end.borrow(), None, "{what}");
    }

    fn end(self, world: &World) -> Option<String> {
        self.stop.set(true);
        world.run_until(|| self.end.borrow().is_some()).unwrap();
        self.end.take().unwrap().err()
    }
}

fn three() -> VolumePlan {
    VolumePlan::new("three", 2 * MIB, 4096)
}

/// Others go on without an error while a volume is made, used over every transport, and removed.
#[test]
fn a_volume_comes_and_goes_while_others_are_in_use() {
    for seed in 0..20 {
        let mut bed = Bed::new(seed);
        let loads: Vec<Load> =
            (0..2).flat_map(|volume| TRANSPORTS.map(|transport| bed.load(transport, volume, 7))).collect();
        let go_on = |world: &World, what: &str| all_go_on(&loads, world, what);
        go_on(&bed.world, "at the start");
        for life in 0..2 {
            bed.server.know(three());
            bed.add(three().offer(2)).unwrap();
            go_on(&bed.world, "after another volume came");
            for transport in TRANSPORTS {
                let session =
                    Rc::new(bed.open(transport, 2, 1).unwrap_or_else(|why| panic!("{transport:?}: {why}")));
                assert_eq!(session.geometry().block_size, 4096);
                let load = bed.load(transport, 2, 2);
                load.goes_on(&bed.world, "on the new volume");
                assert_eq!(load.end(&bed.world), None);
                if transport == Transport::Iscsi {
                    assert_eq!(
                        bed.read(&session, 0),
                        Ok(0),
                        "life {life}: what was removed is not there again"
                    );
                }
                assert_eq!(bed.write(&session, 0, 0x77), Ok(()));
            }
            let held = TRANSPORTS.map(|transport| bed.load(transport, 2, 3));
            all_go_on(&held, &bed.world, "until it is removed");
            bed.remove("three", Bytes::Keep).unwrap();
            assert!(matches!(bed.remove("three", Bytes::Keep), Err(LiveError::Missing { .. })));
            for load in held {
                assert!(load.end(&bed.world).is_some(), "nobody uses a volume that is gone");
            }
            for transport in TRANSPORTS {
                assert!(bed.open(transport, 2, 4).is_err(), "{transport:?}: it is offered to nobody");
            }
            go_on(&bed.world, "after it was removed");
            bed.server.forget_last();
            bed.server.machine().remove_file(Path::new("/volumes/three.img")).unwrap();
        }
        for load in loads {
            assert_eq!(load.end(&bed.world), None);
        }
        bed.server.stop().unwrap();
    }
}

/// Half an option has come when the volume goes; the other half finds what is offered by then.
#[test]
fn an_option_that_came_in_halves_does_not_find_a_volume_that_went_meanwhile() {
    for seed in 0..10 {
        let mut bed = Bed::new(seed);
        let peer = bed.bare();
        bed.receive(&peer, Greeting::LENGTH);
        let (mut data, mut option) = (Vec::new(), Vec::new());
        encode_info_request("two", &[InfoType::BLOCK_SIZE], &mut data);
        encode_option(OptionCode::GO, &data, &mut option);
        let (half, rest) = option.split_at(option.len() - 3);
        bed.send(&peer, &[&3_u32.to_be_bytes(), half].concat());
        bed.world.run_for(Duration::from_millis(100)).unwrap();
        bed.remove("two", Bytes::Keep).unwrap();
        bed.send(&peer, rest);
        let reply = bed.receive(&peer, OPTION_REPLY_LENGTH);
        let reply = OptionReplyHeader::decode(reply.first_chunk().unwrap()).unwrap();
        assert_eq!(reply.kind, OptionReplyType::ERR_UNKNOWN);
        drop(peer);
        bed.server.stop().unwrap();
    }
}

/// Where there is a page cache to be filled, memory is taken for it as for reads.
#[test]
fn requests_to_cache_are_bounded_as_reads_are() {
    // Of sectors that are larger than its blocks a file is not read directly.
    let settings = Settings { sector_bytes: 4096, ..Settings::default() };
    let mut bed = Bed::in_world(World::with_settings(1, settings));
    let peer = bed.bare();
    bed.receive(&peer, Greeting::LENGTH);
    let (mut data, mut bytes) = (Vec::new(), 3_u32.to_be_bytes().to_vec());
    encode_info_request("one", &[InfoType::BLOCK_SIZE], &mut data);
    encode_option(OptionCode::GO, &data, &mut bytes);
    bed.send(&peer, &bytes);
    bed.world.run_for(Duration::from_millis(100)).unwrap();
    bed.server.machine().stall(&bed.server.volumes()[0].path());
    let before = ring::in_use();
    let cache = |cookie| {
        let (command, flags) = (wire::nbd::Command::CACHE, CommandFlags::empty());
        wire::nbd::Request { flags, command, cookie, offset: 0, length: MIB as u32 }.encode()
    };
    bed.send(&peer, &(0..200).map(cache).collect::<Vec<_>>().concat());
    bed.world.run_for(Duration::from_secs(1)).unwrap();
    let used = ring::in_use() - before;
    bed.server.machine().release(&bed.server.volumes()[0].path());
    assert!(used > 0 && used <= NBD_BYTES_IN_FLIGHT + MIB as usize, "{used} bytes of buffers");
    drop(peer);
    bed.server.stop().unwrap();
}

/// What is larger is there for new sessions and old ones, and whoever was writing noticed nothing.
#[test]
fn a_volume_grows_under_load_and_initiators_are_told() {
    for seed in 0..20 {
        let mut bed = Bed::new(seed);
        for (volume, name) in ["one", "two"].into_iter().enumerate() {
            let mut plan = bed.server.volumes()[volume].clone();
            let loads = TRANSPORTS.map(|transport| bed.load(transport, volume, 7));
            let open = TRANSPORTS.map(|transport| Rc::new(bed.open(transport, volume, 8).unwrap()));
            all_go_on(&loads, &bed.world, "before");
            assert_eq!(bed.write(&open[0], MIB - 512, 0x55), Ok(()));
            plan.bytes = 3 * MIB;
            bed.alter(plan.offer(volume)).unwrap();
            all_go_on(&loads, &bed.world, name);
            for session in &open[..2] {
                assert_eq!(bed.read(session, MIB - 512), Ok(0x55), "{name}: what was there stays");
                assert_eq!(bed.read(session, 3 * MIB - 512), Ok(0), "{name}: what is added is zero");
                assert_eq!(bed.write(session, 3 * MIB - 512, 9), Ok(()));
                assert_eq!(bed.write(session, 3 * MIB - 512, 0), Ok(()));
            }
            for transport in TRANSPORTS {
                assert_eq!(bed.open(transport, volume, 9).unwrap().geometry().size, 3 * MIB);
            }
            let smaller = plan.clone();
            let smaller = VolumePlan { bytes: 2 * MIB, ..smaller }.offer(volume);
            assert!(matches!(bed.alter(smaller), Err(LiveError::Smaller { .. })));
            for load in loads {
                assert_eq!(load.end(&bed.world), None);
            }
        }
        bed.server.stop().unwrap();
    }
}

/// No more than the limit says, over all cores; and as much as before once it is gone.
#[test]
fn a_limit_holds_over_all_cores_and_can_be_taken_away() {
    for seed in 0..10 {
        let mut bed = Bed::new(seed);
        let plan = bed.server.volumes()[1].clone();
        let lanes: Vec<Load> = (0..4)
            .flat_map(|number| TRANSPORTS.map(|transport| bed.load(transport, 1, 10 + number)))
            .collect();
        all_go_on(&lanes, &bed.world, "before");
        let limited = |limits| {
            let mut offer = plan.offer(1);
            offer.volume.limits = limits;
            offer
        };
        let count = || lanes.iter().map(|lane| lane.rounds.get()).sum::<u64>();
        let pass = |bed: &Bed, span: Duration| {
            let (before, end) = (count(), bed.world.now() + span);
            bed.world.run_until(|| bed.world.now() >= end).unwrap();
            count() - before
        };
        bed.alter(limited(Limits { iops: Some(100), bytes_per_second: None })).unwrap();
        // A round is a write and a read.
        let rounds = pass(&bed, Duration::from_secs(4));
        assert!(
            (180..=215).contains(&rounds),
            "seed {seed}: {rounds} rounds in 4 s at 100 requests a second"
        );
        bed.alter(limited(Limits { iops: None, bytes_per_second: Some(51_200) })).unwrap();
        let rounds = pass(&bed, Duration::from_secs(4));
        assert!((180..=215).contains(&rounds), "seed {seed}: {rounds} rounds in 4 s at 50 KiB a second");
        bed.alter(limited(Limits::default())).unwrap();
        assert!(pass(&bed, Duration::from_secs(1)) > 1000, "seed {seed}: no limit any more");
        for lane in lanes {
            assert_eq!(lane.end(&bed.world), None);
        }
        bed.server.stop().unwrap();
    }
}

/// Those who wait for their turn within a limit are no reason to keep it, or the volume.
#[test]
fn a_limit_that_was_too_low_can_be_raised_whatever_waits_within_it() {
    let mut bed = Bed::new(1);
    let plan = bed.server.volumes()[1].clone();
    let lanes = TRANSPORTS.map(|transport| bed.load(transport, 1, 10));
    all_go_on(&lanes, &bed.world, "before");
    let limited = |bytes_per_second| {
        let mut offer = plan.offer(1);
        offer.volume.limits = Limits { iops: None, bytes_per_second };
        offer
    };
    // Each request takes more than four minutes.
    bed.alter(limited(Some(2))).unwrap();
    bed.world.run_for(Duration::from_secs(1)).unwrap();
    bed.alter(limited(Some(3))).unwrap();
    bed.world.run_for(Duration::from_secs(1)).unwrap();
    bed.alter(limited(None)).unwrap();
    all_go_on(&lanes, &bed.world, "without the limit");
    bed.alter(limited(Some(2))).unwrap();
    bed.world.run_for(Duration::from_secs(1)).unwrap();
    bed.remove("two", Bytes::Keep).unwrap();
    for lane in lanes {
        assert!(lane.end(&bed.world).is_some(), "its volume was taken away");
    }
    bed.server.stop().unwrap();
}

/// Who may not use a volume any more is ended; who may goes on.
#[test]
fn only_who_may_not_use_a_volume_any_more_is_ended() {
    let mut bed = Bed::new(1);
    let plan = bed.server.volumes()[0].clone();
    let other = Client::new(&bed.world, 2);
    let loads = TRANSPORTS.map(|transport| bed.load(transport, 0, 1));
    let connector = other.connector(&bed.server, Transport::Iscsi, 0, 0, 1);
    let opened = async move { connector.connect().await.map_err(|error| error.to_string()) };
    let theirs = Rc::new(bed.world.block_on(other.reactor(), opened).unwrap().unwrap());
    all_go_on(&loads, &bed.world, "before");
    let mut offer = plan.offer(0);
    offer.initiators = vec![wire::iscsi::IscsiName::accept("iqn.2026-11.internal.fels:client-2").unwrap()];
    offer.hosts = vec!["nqn.2026-11.internal.fels:client-2".to_owned()];
    offer.nbd = false;
    bed.alter(offer).unwrap();
    for load in loads {
        assert!(load.end(&bed.world).is_some());
    }
    let session = theirs.clone();
    let read = async move { session.read(0, Buffer::new(512)).await.0.map_err(|error| error.to_string()) };
    assert_eq!(bed.world.block_on(other.reactor(), read).unwrap(), Ok(()));
    drop(theirs);
    bed.server.stop().unwrap();
}

/// What cannot be changed says so, and changes nothing.
#[test]
fn what_is_for_ever_is_refused() {
    let mut bed = Bed::new(1);
    let load = bed.load(Transport::Iscsi, 0, 1);
    let plan = bed.server.volumes()[0].clone();
    assert!(matches!(bed.add(plan.offer(0)), Err(LiveError::Exists { .. })));
    let mut offer = plan.offer(0);
    offer.volume.block_size = 4096;
    assert!(matches!(bed.alter(offer), Err(LiveError::Fixed { .. })));
    let missing = VolumePlan::new("missing", MIB, 512).offer(5);
    assert!(matches!(bed.alter(missing), Err(LiveError::Missing { .. })));
    load.goes_on(&bed.world, "after refusals");
    assert_eq!(load.end(&bed.world), None);
    bed.server.stop().unwrap();
}

/// Every request is counted once, on whichever core and in whichever way it was carried out.
#[test]
fn requests_are_counted_once() {
    let mut bed = Bed::new(3);
    for volume in 0..2 {
        let rounds: u64 = TRANSPORTS
            .map(|transport| {
                let load = bed.load(transport, volume, 1);
                load.goes_on(&bed.world, "for a while");
                let rounds = load.rounds.clone();
                assert_eq!(load.end(&bed.world), None);
                rounds.get()
            })
            .iter()
            .sum();
        let figures = bed.server.change(|_, shard| async move { Live::figures(&shard).await }).unwrap();
        let [read, write, ..] = &figures[volume].verbs;
        assert_eq!((write.requests, write.bytes, write.errors), (rounds, rounds * 512, 0), "volume {volume}");
        assert!(read.requests >= rounds, "{} reads in {rounds} rounds", read.requests);
        assert_eq!(figures[volume].in_flight, 0);
    }
    bed.server.stop().unwrap();
}

/// A disk that does not answer keeps nobody from changing another volume, and no change waits for ever.
#[test]
fn a_change_of_a_volume_whose_disk_stalls_comes_to_an_end() {
    let mut bed = Bed::new(5);
    let (one, two) = (bed.server.volumes()[0].clone(), bed.server.volumes()[1].clone());
    let stuck = bed.load(Transport::Iscsi, 0, 1);
    stuck.goes_on(&bed.world, "before");
    bed.server.machine().stall(&one.path());
    bed.world.run_for(Duration::from_millis(100)).unwrap();
    let larger = |plan: &VolumePlan| VolumePlan { bytes: 2 * MIB, ..plan.clone() };
    let begun = bed.world.now();
    let refused = bed.alter(larger(&one).offer(0)).unwrap_err();
    assert!(matches!(refused, LiveError::Held { .. }), "{refused}");
    let refused = bed.remove("one", Bytes::Keep).unwrap_err();
    assert!(matches!(refused, LiveError::Busy { .. }), "{refused}");
    bed.alter(larger(&two).offer(1)).unwrap();
    assert!(bed.world.now().since(begun) < Duration::from_secs(120), "a change waits for a disk for ever");
    bed.server.machine().release(&one.path());
    assert!(stuck.end(&bed.world).is_some(), "its volume was taken away");
    bed.remove("one", Bytes::Keep).unwrap();
    bed.add(one.offer(0)).unwrap();
    let session = Rc::new(bed.open(Transport::Iscsi, 0, 2).unwrap());
    assert_eq!(bed.write(&session, 0, 3), Ok(()), "nobody holds it any more");
    drop(session);
    bed.server.stop().unwrap();
}

/// A pool is made, used, closed and opened again while others are in use; what was written is there.
#[test]
fn a_pool_comes_and_goes_while_others_are_in_use() {
    for seed in 0..10 {
        let mut bed = Bed::new(seed);
        let loads: Vec<Load> = TRANSPORTS.map(|transport| bed.load(transport, 0, 7)).into();
        all_go_on(&loads, &bed.world, "at the start");
        let shape = PoolShape { level: Level::Raid1, members: 2, unit: 16 << 10 };
        let plan = shape.plan();
        let on_pool = || VolumePlan::new("three", MIB, 4096).on_pool(Some(shape));
        assert!(bed.add(on_pool().offer(2)).is_err(), "there is no such pool yet");
        for life in 0..3_u8 {
            bed.open_pool(plan.clone()).unwrap();
            assert!(matches!(bed.open_pool(plan.clone()), Err(LiveError::PoolExists { .. })));
            bed.server.know(on_pool());
            bed.add(on_pool().offer(2)).unwrap();
            let session = Rc::new(bed.open(Transport::Iscsi, 2, u64::from(life)).unwrap());
            assert_eq!(
                bed.read(&session, 0),
                Ok(life),
                "seed {seed}, life {life}: what was written is there"
            );
            assert_eq!(bed.write(&session, 0, life + 1), Ok(()));
            drop(session);
            let held = TRANSPORTS.map(|transport| bed.load(transport, 2, 3));
            all_go_on(&held, &bed.world, "on the pool");
            let refused = bed.close_pool("tank", Bytes::Keep).unwrap_err();
            assert!(matches!(refused, LiveError::PoolInUse { .. }), "{refused}");
            all_go_on(&held, &bed.world, "after it was not closed");
            bed.remove("three", Bytes::Keep).unwrap();
            bed.close_pool("tank", Bytes::Keep).unwrap();
            assert!(matches!(bed.close_pool("tank", Bytes::Keep), Err(LiveError::NoPool { .. })));
            for load in held {
                assert!(load.end(&bed.world).is_some(), "nobody uses a volume that is gone");
            }
            all_go_on(&loads, &bed.world, "after it was closed");
            bed.server.forget_last();
        }
        for load in loads {
            assert_eq!(load.end(&bed.world), None);
        }
        bed.server.stop().unwrap();
    }
}

/// A pool that is slow destroys a volume in the background: until that is over the name is taken and the pool stays open, and
/// afterwards another volume has the rows, of which none has anything of the first.
#[test]
fn bytes_that_take_long_to_destroy_are_destroyed_while_others_are_in_use() {
    for seed in 0..2 {
        let mut bed = Bed::new(seed);
        let loads: Vec<Load> = TRANSPORTS.map(|transport| bed.load(transport, 0, 7)).into();
        let shape = PoolShape { level: Level::Raid1, members: 2, unit: 16 << 10 };
        let on_pool = || VolumePlan::new("three", MIB, 4096).on_pool(Some(shape));
        bed.open_pool(shape.plan()).unwrap();
        bed.server.know(on_pool());
        bed.add(on_pool().offer(2)).unwrap();
        let session = Rc::new(bed.open(Transport::Iscsi, 2, 1).unwrap());
        assert_eq!(bed.write(&session, 0, 7), Ok(()));
        assert_eq!(bed.write(&session, MIB - 4096, 7), Ok(()));
        drop(session);
        assert!(matches!(bed.destroy("tank", "three"), Err(LiveError::Busy { .. })), "it is in use");
        // Until the pool goes on without it, which takes longer than who deletes a volume waits.
        bed.server.machine().stall(&member_path(1));
        assert!(!bed.remove("three", Bytes::Destroy).unwrap(), "seed {seed}: it takes a while");
        assert!(matches!(bed.add(on_pool().offer(2)), Err(LiveError::Destroyed { .. })), "seed {seed}");
        let refused = bed.close_pool("tank", Bytes::Keep).unwrap_err();
        assert!(matches!(refused, LiveError::PoolDestroys { .. }), "seed {seed}: {refused}");
        all_go_on(&loads, &bed.world, "while bytes are destroyed");
        bed.world.run_for(Duration::from_secs(60)).unwrap();
        bed.add(on_pool().offer(2)).unwrap();
        let session = Rc::new(bed.open(Transport::Iscsi, 2, 2).unwrap());
        for offset in [0, MIB - 4096] {
            assert_eq!(bed.read(&session, offset), Ok(0), "seed {seed}: what was there is gone");
        }
        drop(session);
        bed.server.machine().release(&member_path(1));
        assert!(bed.remove("three", Bytes::Destroy).unwrap(), "seed {seed}: it is done at once");
        bed.close_pool("tank", Bytes::Keep).unwrap();
        all_go_on(&loads, &bed.world, "at the end");
    }
}

/// A pool that cannot be opened on one of the cores is on none, and can be opened later.
#[test]
fn a_pool_whose_member_is_missing_is_not_opened_in_part() {
    let mut bed = Bed::new(4);
    let shape = PoolShape { level: Level::Raid1, members: 2, unit: 16 << 10 };
    let mut wrong = shape.plan();
    wrong.members[1].create_bytes = None;
    assert!(matches!(bed.open_pool(wrong), Err(LiveError::Pool(_))));
    assert!(bed.server.machine().remove_file(&member_path(0)).is_err(), "nothing was made");
    bed.open_pool(shape.plan()).unwrap();
    bed.close_pool("tank", Bytes::Keep).unwrap();
    let mut degraded = shape.plan();
    bed.server.machine().remove_file(&member_path(1)).unwrap();
    degraded.members[1].create_bytes = None;
    bed.open_pool(degraded).unwrap();
    bed.close_pool("tank", Bytes::Destroy).unwrap();
    bed.open_pool(PoolShape { level: Level::Raid0, ..shape }.plan()).unwrap();
    bed.close_pool("tank", Bytes::Keep).unwrap();
    bed.server.stop().unwrap();
}

/// Nobody loses his session when portals change, a new one lets people in, and one that is closed nobody.
#[test]
fn portals_come_and_go_while_sessions_stay() {
    for seed in 0..10 {
        let mut bed = Bed::new(seed);
        let loads: Vec<Load> = TRANSPORTS.map(|transport| bed.load(transport, 0, 7)).into();
        all_go_on(&loads, &bed.world, "at the start");
        let before = bed.server.portals();
        let mut after = before.clone();
        // The first port of each protocol goes, but for what is there already.
        for list in [&mut after.iscsi, &mut after.nvme, &mut after.nbd] {
            list.remove(0);
        }
        assert_eq!(bed.listen(&after).unwrap(), after);
        all_go_on(&loads, &bed.world, "after portals were closed");
        for transport in TRANSPORTS {
            assert!(bed.open(transport, 0, 8).is_err(), "{transport:?}: the first portal is closed");
        }
        let taken = Portals { nbd: vec![bed.world.node("another").at(1)], ..before.clone() };
        let refused = bed.listen(&taken).unwrap_err();
        assert!(matches!(refused, LiveError::Listen(_)), "{refused}");
        for transport in TRANSPORTS {
            assert!(bed.open(transport, 0, 9).is_err(), "{transport:?}: what failed has opened nothing");
        }
        // The same ports on every address are in the way of those of one.
        let any = |list: &[std::net::SocketAddr]| {
            list.iter().map(|at| std::net::SocketAddr::from(([0, 0, 0, 0], at.port()))).collect()
        };
        let wide = Portals {
            iscsi: any(&before.iscsi),
            nvme: any(&before.nvme),
            nbd: any(&before.nbd),
            ..Portals::default()
        };
        for wanted in [&wide, &before] {
            bed.listen(wanted).unwrap();
            for transport in TRANSPORTS {
                drop(bed.open(transport, 0, 10).unwrap_or_else(|why| panic!("{transport:?}: {why}")));
            }
        }
        for load in loads {
            assert_eq!(load.end(&bed.world), None);
        }
        bed.server.stop().unwrap();
    }
}
