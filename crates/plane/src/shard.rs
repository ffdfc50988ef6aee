//! One core of the data plane: its ring, its channels of every volume, and the way to the other cores.

use std::any::Any;
use std::cell::RefCell;
use std::future::Future;
use std::rc::Rc;

use ring::{Receiver, Ring, Sender, mailbox};

use crate::volume::Channel;
use crate::watch::{Watch, Watched};

type Job = Box<dyn FnOnce(Rc<Shard>) + Send>;

/// Where messages to each shard go in.
#[derive(Clone)]
pub struct Peers(Vec<Sender<Job>>);

impl Peers {
    /// Mailboxes for `count` shards, with what each will receive from.
    pub fn new(count: usize) -> (Peers, Vec<Mail>) {
        let (senders, receivers) = (0..count).map(|_| mailbox()).unzip::<_, _, Vec<_>, Vec<_>>();
        (Peers(senders), receivers.into_iter().map(Mail).collect())
    }

    /// How many shards there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Runs `job` on shard `index`. Nothing happens when that shard is gone.
    pub fn tell(&self, index: usize, job: impl FnOnce(Rc<Shard>) + Send + 'static) {
        if let Some(sender) = self.0.get(index) {
            sender.send(Box::new(job)).ok();
        }
    }
}

/// Where one shard's messages come out.
pub struct Mail(Receiver<Job>);

/// One core of the data plane.
pub struct Shard {
    index: usize,
    ring: Ring,
    peers: Peers,
    /// By place; a place that a volume has left is not given again.
    volumes: RefCell<Vec<Option<Rc<Channel>>>>,
    services: RefCell<Vec<Rc<dyn Any>>>,
    watch: Rc<Watch>,
}

impl Shard {
    /// Starts to take messages at once.
    pub fn new(
        index: usize,
        ring: Ring,
        peers: Peers,
        mut mail: Mail,
        volumes: Vec<Rc<Channel>>,
    ) -> Rc<Shard> {
        let shard = Rc::new(Shard {
            index,
            watch: Watch::new(ring.clone()),
            ring,
            peers,
            volumes: RefCell::new(volumes.into_iter().map(Some).collect()),
            services: RefCell::default(),
        });
        let taker = shard.clone();
        shard.ring.spawn(async move {
            while let Some(job) = mail.0.receive().await {
                job(taker.clone());
            }
        });
        shard
    }

    /// Its number.
    pub fn index(&self) -> usize {
        self.index
    }

    /// How many shards the node has.
    pub fn count(&self) -> usize {
        self.peers.0.len()
    }

    /// Its reactor.
    pub fn ring(&self) -> &Ring {
        &self.ring
    }

    /// The ways to all shards.
    pub fn peers(&self) -> &Peers {
        &self.peers
    }

    /// This core's handle of a volume that is offered.
    pub fn volume(&self, index: usize) -> Rc<Channel> {
        self.find_volume(index).expect("what is offered is there")
    }

    /// This core's handle of a volume; `None` when it was taken away, and once [`Shard::dismantle`] was called.
    pub fn find_volume(&self, index: usize) -> Option<Rc<Channel>> {
        self.volumes.borrow().get(index)?.clone()
    }

    /// This core's handles of all volumes.
    pub fn volumes(&self) -> Vec<Rc<Channel>> {
        self.volumes.borrow().iter().flatten().cloned().collect()
    }

    /// Places of volumes, those that are empty by now included.
    pub fn volume_places(&self) -> usize {
        self.volumes.borrow().len()
    }

    /// Puts a volume, or nothing, in its place. Places come in order.
    pub(crate) fn set_volume(&self, index: usize, channel: Option<Rc<Channel>>) {
        let mut volumes = self.volumes.borrow_mut();
        if index == volumes.len() {
            volumes.push(channel);
        } else if let Some(place) = volumes.get_mut(index) {
            *place = channel;
        }
    }

    /// Looks at `watched` now and then, as long as it is there.
    pub fn watch<T: Watched + 'static>(&self, watched: &Rc<T>) {
        self.watch.add(watched);
    }

    /// Puts what one session room keeps on this core where messages from other cores find it.
    pub fn install<T: 'static>(&self, service: Rc<T>) {
        self.services.borrow_mut().push(service);
    }

    /// What a session room keeps on this core.
    pub fn service<T: 'static>(&self) -> Option<Rc<T>> {
        self.services.borrow().iter().find_map(|service| service.clone().downcast().ok())
    }

    /// Lets go of everything that refers back to this shard: the end of its life.
    pub fn dismantle(&self) {
        self.services.take();
        self.volumes.take();
    }

    /// Runs `job` on shard `index`: at once when that is this one.
    pub fn tell(self: &Rc<Self>, index: usize, job: impl FnOnce(Rc<Shard>) + Send + 'static) {
        if index == self.index { job(self.clone()) } else { self.peers.tell(index, job) }
    }

    /// Runs `work` on shard `index` and brings its value back. Pends for ever when that shard is gone: shards of a
    /// node end together.
    pub async fn call<T, F, W>(self: &Rc<Self>, index: usize, work: W) -> T
    where
        T: Send + 'static,
        F: Future<Output = T> + 'static,
        W: FnOnce(Rc<Shard>) -> F + Send + 'static,
    {
        if index == self.index {
            return work(self.clone()).await;
        }
        let (answer, mut answers) = mailbox::<T>();
        self.peers.tell(index, move |shard| {
            let ring = shard.ring.clone();
            ring.spawn(async move {
                answer.send(work(shard).await).ok();
            });
        });
        match answers.receive().await {
            Some(value) => value,
            None => std::future::pending().await,
        }
    }
}
