//! A world with a node, client machines and the history of what they do: what scenarios are played on.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use ring::Buffer;
use ring::sim::World;

use crate::client::Client;
use crate::history::{Fate, History, Place, Value};
use crate::node::{Server, VolumePlan};
use crate::transport::Transport;
use crate::worker::{Control, Tolerance, Worker};
use crate::{Failure, SECTOR};

/// Bytes of one read when a volume is read back.
const READ_BACK: u64 = 256 << 10;

/// How the node's process ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// The power goes.
    PowerCut,
    /// `kill -9`.
    Kill,
    /// In good order.
    Stop,
}

/// Mostly all of them, so that they meet on one volume; at times one alone, which then is everywhere.
fn draw_transports(random: &mut fastrand::Rng) -> Vec<Transport> {
    match random.usize(0..9) {
        alone @ 0..3 => vec![Transport::ALL[alone]],
        _ => Transport::ALL.to_vec(),
    }
}

/// A world with everything in it.
pub struct Stage {
    /// The world.
    pub world: World,
    /// The node.
    pub server: Server,
    /// The machines that use it.
    pub clients: Vec<Client>,
    /// What workers and scenario share.
    pub control: Rc<Control>,
    /// Where the scenario's choices come from.
    pub random: fastrand::Rng,
    /// The member of the pool that was lost and has not come back.
    pub lost: Option<usize>,
    /// Reads everything back after a restart.
    reader: Client,
    /// The ways that workers may take.
    transports: Vec<Transport>,
    /// The workers now.
    crew: Vec<Post>,
}

/// A worker's place.
#[derive(Clone, Copy)]
struct Post {
    client: usize,
    session: u64,
    transport: Transport,
    volume: usize,
    portal: usize,
    depth: usize,
}

impl Stage {
    /// A node with these volumes that is off, and `clients` machines.
    pub fn new(seed: u64, shards: usize, volumes: Vec<VolumePlan>, clients: u64) -> Stage {
        let world = World::new(seed);
        let bytes: Vec<u64> = volumes.iter().map(|volume| volume.bytes).collect();
        let server = Server::new(&world, shards, volumes);
        let control = Control {
            stop: Cell::new(false),
            pause: Cell::new(false),
            stopping: Cell::new(false),
            failure: RefCell::new(None),
            history: RefCell::new(History::new(seed, &bytes)),
            working: Cell::new(0),
            tolerated: Cell::new(0),
            tolerance: RefCell::new(Rc::new(|_, _, _| false)),
            resets_one_of: Cell::new(3),
        };
        let mut random = world.random("scenario");
        Stage {
            server,
            transports: draw_transports(&mut random),
            clients: (1..=clients).map(|number| Client::new(&world, number)).collect(),
            control: Rc::new(control),
            random,
            lost: None,
            reader: Client::new(&world, 0),
            crew: Vec::new(),
            world,
        }
    }

    /// Says which errors are right from now on.
    pub fn tolerate(&self, tolerance: Tolerance) {
        self.control.tolerance.replace(tolerance);
    }

    /// Puts `count` sessions to work, on volumes, portals and machines in turn.
    pub fn work(&mut self, count: usize, depth: usize) {
        let (volumes, clients) = (self.server.volumes().len(), self.clients.len());
        let start = self.random.usize(0..volumes * clients);
        self.crew = (start..start + count)
            .map(|turn| Post {
                client: turn % clients,
                session: turn as u64,
                transport: *self.random.choice(&self.transports).expect("there is one"),
                volume: turn % volumes,
                portal: self.random.usize(0..2),
                depth,
            })
            .collect();
        self.control.stop.set(false);
        for index in 0..self.crew.len() {
            self.employ(index);
        }
    }

    fn employ(&mut self, index: usize) {
        let Post { client, session, transport, volume, portal, depth } = self.crew[index];
        let mut random = self.random.fork();
        let connector = self.clients[client].connector(&self.server, transport, volume, portal, session);
        let plan = &self.server.volumes()[volume];
        let worker = Worker {
            control: self.control.clone(),
            connector: connector.varied(&mut random),
            transport,
            session: (client as u64) << 32 | session,
            volume,
            block: u64::from(plan.block_size) / SECTOR as u64,
            sectors: plan.bytes / SECTOR as u64,
            is_durable: plan.pool.is_some(),
            depth,
            random,
        };
        self.control.working.set(self.control.working.get() + 1);
        self.clients[client].reactor().ring().spawn_later(worker.run());
    }

    /// A client machine is started anew, with the same workers.
    pub fn reboot_client(&mut self, client: usize) {
        let power = self.random.bool();
        self.clients[client].reboot(power);
        // Its workers went without a word.
        let gone: Vec<usize> =
            (0..self.crew.len()).filter(|index| self.crew[*index].client == client).collect();
        self.control.working.set(self.control.working.get() - gone.len());
        for index in gone {
            self.employ(index);
        }
    }

    /// Lets the world go on for a time and then for a few more steps, so that it stops in the middle of anything.
    pub fn go_on(&mut self, span: Duration) -> Result<(), Failure> {
        let (end, mut steps) = (self.world.now() + span, self.random.u32(0..200));
        let control = self.control.clone();
        let world = self.world.clone();
        self.world.run_until(|| {
            if world.now() >= end {
                steps = steps.saturating_sub(1);
            }
            steps == 0 || control.failure.borrow().is_some()
        })?;
        self.verdict()
    }

    /// The first failure, if there was one.
    pub fn verdict(&self) -> Result<(), Failure> {
        self.control.failure.borrow().clone().map_or(Ok(()), Err)
    }

    /// Tells the workers to stop and waits until they have.
    pub fn rest(&mut self) -> Result<(), Failure> {
        self.control.stop.set(true);
        let control = self.control.clone();
        self.world.run_until(|| control.working.get() == 0)?;
        self.crew.clear();
        self.verdict()
    }

    /// Ends the node's process, starts it again, reads everything back and judges all that was done.
    pub fn end(&mut self, end: End) -> Result<(), Failure> {
        match end {
            End::PowerCut => self.server.power_cut(),
            End::Kill => self.server.kill(),
            End::Stop => {
                // Stopped while the others still work; the flush at its end counts as one.
                let begin = self.control.history.borrow_mut().begin_flush();
                self.control.stopping.set(true);
                self.server.stop()?;
                for volume in 0..self.server.volumes().len() {
                    self.control.history.borrow_mut().flushed(volume, begin)?;
                }
            }
        }
        // A node that is back at once still meets what was meant for the one before.
        let at_once = self.random.bool();
        if at_once {
            self.server.start()?;
        }
        self.rest()?;
        if !at_once {
            self.server.start()?;
        }
        self.control.stopping.set(false);
        for volume in 0..self.server.volumes().len() {
            let left = self.read_back(volume)?;
            let fate = match end {
                _ if self.server.volumes()[volume].in_memory => Fate::Emptied,
                End::PowerCut => Fate::PowerCut,
                End::Kill | End::Stop => Fate::Restart,
            };
            self.control.history.borrow_mut().settle(volume, &left, fate)?;
        }
        Ok(())
    }

    /// Lets everybody come to rest, reads every volume and judges all that was done, while the node goes on.
    pub fn look(&mut self) -> Result<(), Failure> {
        self.rest()?;
        for volume in 0..self.server.volumes().len() {
            let left = self.read_back(volume)?;
            self.control.history.borrow_mut().settle(volume, &left, Fate::None)?;
        }
        Ok(())
    }

    /// What every sector of a volume holds.
    pub fn read_back(&mut self, volume: usize) -> Result<Vec<Value>, Failure> {
        let portal = self.random.usize(0..2);
        let transport = *self.random.choice(&Transport::ALL).expect("there is one");
        let connector = self.reader.connector(&self.server, transport, volume, portal, volume as u64);
        let (control, bytes) = (self.control.clone(), self.server.volumes()[volume].bytes);
        self.world.block_on(self.reader.reactor(), async move {
            let session = connector.connect().await.map_err(|error| Failure::of(&error))?;
            let mut values = Vec::new();
            let mut offset = 0;
            while offset < bytes {
                let length = READ_BACK.min(bytes - offset);
                let (result, buffer) = session.read(offset, Buffer::new(length as usize)).await;
                result.map_err(|error| Failure(format!("reading volume {volume} back: {error}")))?;
                let (first, count) = (offset / SECTOR as u64, length / SECTOR as u64);
                let place = Place { volume, first, count };
                values.extend(control.history.borrow().recognise_all(&buffer, place)?);
                offset += length;
            }
            session.close().await;
            Ok::<_, Failure>(values)
        })?
    }

    /// Stops the node, lets everything go, and sees that nothing of it is left. Gives the world's trace and the
    /// operations that were acknowledged.
    pub fn leave(mut self) -> Result<(u64, u64), Failure> {
        self.server.stop()?;
        let (world, completed) = (self.world.clone(), self.control.history.borrow().completed());
        drop(self);
        let trace = world.trace();
        if !world.is_empty() {
            return Err(Failure("descriptors are open after the end".into()));
        }
        match ring::in_use() {
            0 => Ok((trace, completed)),
            bytes => Err(Failure(format!("{bytes} bytes of buffers are in use after the end"))),
        }
    }
}
