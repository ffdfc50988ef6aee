//! How a node is started from its configuration, and stopped: a thread for each shard, each with its reactor.

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use monitor::event::Event;
use monitor::metric::INTERVAL;
use plane::core::{Core, Portals, Prepared, close_pools, drain, prepare};
use plane::limits::DRAIN_TIME;
use plane::pool::Pools;
use plane::shard::{Mail, Peers};
use ring::{Notify, Options, Reactor};

use crate::administration::Administration;
use crate::alerts::Alerts;
use crate::api::{self, joining};
use crate::collect::Collector;
use crate::config::Config;
use crate::events::{Events, of_initiator};
use crate::live::Plane;
use crate::observe::{Observer, Observing, serve_munin};
use crate::plan::{plan, portals, served};
use crate::pulse::Pulse;
use crate::state::DataDirectory;
use crate::store::pending::settle_files;
use crate::store::{Document, Store};
use crate::watch::{Watch, Watched};

/// How long initiators get to log out by themselves when the node stops.
const GRACE: Duration = Duration::from_secs(1);

/// How long a port that is in use is waited for.
const PORT_WAIT: Duration = Duration::from_secs(2);

/// A node that serves.
pub struct Node {
    portals: Portals,
    pools: Pools,
    peers: Peers,
    threads: Vec<JoinHandle<()>>,
    api: api::Server,
    observer: Observer,
    observing: Option<Observing>,
    munin: Vec<monitor::munin::Server>,
    watch: Watch,
    events: Events,
    _data: DataDirectory,
}

/// Why a node did not start.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct StartError {
    message: String,
    hint: Option<String>,
}

impl StartError {
    /// From an error of the layers below, whose text ends with its hint.
    fn from_text(error: &dyn std::error::Error) -> StartError {
        let text = error.to_string();
        match text.split_once("; hint: ") {
            Some((message, hint)) => StartError { message: message.to_owned(), hint: Some(hint.to_owned()) },
            None => StartError { message: text, hint: None },
        }
    }

    /// What somebody can do about it.
    pub fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }
}

/// Why a node did not stop in an orderly way.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct ShutdownError {
    message: String,
    hint: Option<String>,
}

impl ShutdownError {
    /// What somebody can do about it.
    pub fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }
}

/// Ends a shard's thread when it is told to.
#[derive(Default)]
struct Stop {
    now: std::cell::Cell<bool>,
    changed: Notify,
}

type Started<T> = Result<T, StartError>;

/// Starts the node that `document` describes, which was read from `store`.
pub fn start(store: Store, document: Document) -> Result<Node, StartError> {
    let config = &document.config;
    let data = DataDirectory::open(&config.data)
        .map_err(|error| StartError { message: error.to_string(), hint: error.hint() })?;
    let pending = settle_files(data.path(), config).map_err(|error| StartError::from_text(&error))?;
    let may_grow = |name: &str| pending.grown.iter().any(|grown| grown.volume == name);
    let mut plan = plan(config, data.node_id(), may_grow);
    joining::add(&pending, &mut plan.pools);
    let options = Options { busy_poll: config.busy_poll, ..Options::default() };
    let (peers, mails) = Peers::new(config.shards);
    let mut mails = mails.into_iter();
    let (tell_prepared, prepared) = mpsc::channel();
    let (tell_ready, ready) = mpsc::channel();
    let mut threads = Vec::with_capacity(config.shards);
    if let Some(mail) = mails.next() {
        let (peers, tell_ready, portals) = (peers.clone(), tell_ready.clone(), portals(config));
        let options = options.clone();
        threads.push(spawn(0, move || {
            first_shard(&options, plan, &portals, peers, mail, &tell_prepared, &tell_ready);
        })?);
    }
    let prepared: Prepared = prepared.recv().map_err(|_| gone())??;
    for (index, mail) in mails.enumerate().map(|(index, mail)| (index + 1, mail)) {
        let (peers, tell_ready, prepared) = (peers.clone(), tell_ready.clone(), prepared.clone());
        let options = options.clone();
        threads.push(spawn(index, move || shard(&options, index, &prepared, peers, mail, &tell_ready))?);
    }
    drop(tell_ready);
    let mut portals = Portals::default();
    for _ in 0..threads.len() {
        if let Some(open) = ready.recv().map_err(|_| gone())?? {
            portals = open;
        }
    }
    tell_of_volumes(config, &prepared);
    warn_of_pools_for_measuring(config);
    let live = Arc::new(Plane::new(peers.clone(), prepared.pools.clone(), data.node_id()));
    let (is_pending, monitors) = (!pending.is_empty(), config.monitoring);
    let (http, munin) = (config.http.clone(), config.munin.clone());
    let events = Events::open(data.path()).map_err(|error| no_events(&error))?;
    let told = events.clone();
    prepared.notices.listen(move |notice| told.tell(of_initiator(notice)));
    let administration = Administration::new(store, document, &data, live, pending);
    let administration = administration.listening(portals.clone()).telling(events.clone());
    let administration = Arc::new(administration);
    if is_pending {
        settle_pools(&administration, &prepared.pools, &peers)?;
    }
    let alerts = Alerts::open(data.path(), events.clone()).map_err(|error| StartError::from_text(&error))?;
    let observer = Observer::new(Collector::new(peers.clone(), prepared.pools.clone()), data.path());
    let watched = Watched {
        pools: prepared.pools.clone(),
        events: events.clone(),
        alerts: alerts.clone(),
        administration: administration.clone(),
        observer: observer.clone(),
    };
    let watch = Watch::start(watched).map_err(|error| no_thread(&error))?;
    let context = api::Context::new(
        prepared.pools.clone(),
        peers.clone(),
        administration,
        observer.clone(),
        api::Telling { events: events.clone(), alerts },
    );
    let observing = if monitors { Some(observe(&observer)?) } else { None };
    if !monitors {
        tracing::warn!("`monitoring = false`: no limit is watched, and nothing is kept for graphs");
    }
    let munin = munin.map(|munin| serve_munin(&munin, &observer)).transpose();
    let munin = munin.map_err(|error| StartError::from_text(&error))?.unwrap_or_default();
    let api =
        api::start(data.path(), http.as_ref(), context).map_err(|error| StartError::from_text(&error))?;
    tell_of_doors(&api, &munin);
    events.tell(Event::NodeStarted { version: env!("CARGO_PKG_VERSION").to_owned() });
    let pools = prepared.pools;
    Ok(Node { portals, pools, peers, threads, api, observer, observing, munin, watch, events, _data: data })
}

fn observe(observer: &Observer) -> Result<Observing, StartError> {
    Observing::start(observer.clone(), INTERVAL).map_err(|error| StartError {
        message: format!("no thread that observes the node: {error}"),
        hint: Some("raise the limits of processes and open files (ulimit -u, -n)".into()),
    })
}

/// Says what is served, and what not over which protocol.
fn tell_of_volumes(config: &Config, prepared: &Prepared) {
    for volume in &prepared.volumes {
        let way = match volume.is_direct() {
            Some(true) => "direct I/O",
            Some(false) => "through the page cache: its file system or block size allows no direct I/O",
            None => "no file",
        };
        tracing::info!(volume = volume.name(), bytes = volume.options().bytes, "serving, {way}");
    }
    if config.nbd.is_some() {
        for volume in served(config).filter(|volume| !volume.nbd) {
            tracing::info!(
                volume = volume.name,
                "not served over NBD, which asks nobody who he is; `nbd = true` on the volume would"
            );
        }
    }
    if config.nvme.is_some() {
        for volume in served(config).filter(|volume| !volume.nvme.is_offered) {
            tracing::info!(
                volume = volume.name,
                "not served over NVMe, which has no authentication yet; `nvme = true` with `hosts` on the volume would"
            );
        }
    }
}

/// Says where it is administered, and watched.
fn tell_of_doors(api: &api::Server, munin: &[monitor::munin::Server]) {
    tracing::info!("administered on {}", api.path().display());
    for address in api.http() {
        tracing::info!(
            "administered on {address}, {}",
            if api.is_encrypted() { "with TLS" } else { "without TLS" }
        );
    }
    for server in munin {
        tracing::info!("polled by masters of Munin on {}", server.address());
    }
}

/// Completes or undoes on pools what a node that died was doing.
fn settle_pools(administration: &Administration, pools: &Pools, peers: &Peers) -> Result<(), StartError> {
    let failed =
        |error| StartError { message: format!("no reactor for the administration: {error}"), hint: None };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    runtime.block_on(async {
        administration.settle_pools().await;
        joining::settle(administration, pools, peers).await;
    });
    Ok(())
}

/// Nobody is to find out by losing data, or by waiting, that a pool was meant for measuring.
fn warn_of_pools_for_measuring(config: &Config) {
    for pool in &config.pools {
        if pool.members.iter().any(|member| member.path().is_none()) {
            tracing::warn!(
                pool = pool.name,
                "its members are memory: everything on it is gone when the node ends"
            );
        }
        if let Some(disk) = &pool.spinning {
            let rpm = disk.rpm;
            tracing::warn!(
                pool = pool.name,
                "its members are slowed down to disks of {rpm} revolutions a minute, as `spinning` says"
            );
        }
    }
}

fn no_events(error: &std::io::Error) -> StartError {
    StartError {
        message: format!("the event log cannot be opened: {error}"),
        hint: Some(
            "the user who runs the node needs to read and write the events.log files in its data directory"
                .into(),
        ),
    }
}

fn no_thread(error: &std::io::Error) -> StartError {
    StartError {
        message: format!("no thread to watch the node: {error}"),
        hint: Some("raise the limits of processes and open files (ulimit -u, -n)".into()),
    }
}

fn gone() -> StartError {
    StartError {
        message: "a shard ended while the node was starting".into(),
        hint: Some("see the log".into()),
    }
}

fn spawn(index: usize, work: impl FnOnce() + Send + 'static) -> Started<JoinHandle<()>> {
    let builder = std::thread::Builder::new().name(format!("shard-{index}"));
    builder.spawn(work).map_err(|error| StartError {
        message: format!("no thread for shard {index}: {error}"),
        hint: Some("raise the limit of processes (ulimit -u)".into()),
    })
}

/// The first shard prepares the volumes for all and keeps their locks; it opens the portals.
fn first_shard(
    options: &Options,
    plan: plane::core::Plan,
    portals: &Portals,
    peers: Peers,
    mail: Mail,
    tell_prepared: &Sender<Started<Prepared>>,
    tell_ready: &Sender<Started<Option<Portals>>>,
) {
    let reactor = match Reactor::new(options) {
        Ok(reactor) => reactor,
        Err(error) => return drop(tell_prepared.send(Err(StartError::from_text(&error)))),
    };
    let ring = reactor.ring().clone();
    let (prepared, live) = match reactor.block_on(async move { prepare(&ring, plan).await }) {
        Ok(prepared) => prepared,
        Err(error) => return drop(tell_prepared.send(Err(StartError::from_text(&error)))),
    };
    tell_prepared.send(Ok(prepared.clone())).ok();
    run(0, &reactor, &prepared, peers, mail, |core| {
        core.shard.install(live.members().clone());
        core.shard.install(live.clone());
        let listening = listen(core, portals).map(Some).map_err(|error| StartError::from_text(&error));
        let listens = listening.is_ok();
        tell_ready.send(listening).ok();
        listens
    });
}

/// Opens the portals. A port that is taken is asked for again for a moment: the kernel frees the ports of a node that
/// was killed only some milliseconds after its end, when its io_uring is gone.
fn listen(core: &Core, portals: &Portals) -> Result<Portals, plane::core::ListenError> {
    let deadline = Instant::now() + PORT_WAIT;
    loop {
        match core.listen(portals) {
            Err(error) if error.is_in_use() && Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(20));
            }
            result => return result,
        }
    }
}

fn shard(
    options: &Options,
    index: usize,
    prepared: &Prepared,
    peers: Peers,
    mail: Mail,
    tell_ready: &Sender<Started<Option<Portals>>>,
) {
    let reactor = match Reactor::new(options) {
        Ok(reactor) => reactor,
        Err(error) => return drop(tell_ready.send(Err(StartError::from_text(&error)))),
    };
    run(index, &reactor, prepared, peers, mail, |_| tell_ready.send(Ok(None)).is_ok());
}

/// Runs a core until it is told to stop. `ready` is called when it is built; false ends it.
fn run(
    index: usize,
    reactor: &Reactor,
    prepared: &Prepared,
    peers: Peers,
    mail: Mail,
    ready: impl FnOnce(&Core) -> bool,
) {
    let core = match Core::new(index, reactor.ring(), peers, mail, prepared) {
        Ok(core) => core,
        Err(error) => return tracing::error!("shard {index} cannot open the volumes: {error}"),
    };
    let stop = std::rc::Rc::new(Stop::default());
    core.shard.install(stop.clone());
    if ready(&core) {
        reactor.block_on(async move { stop.changed.until(|| stop.now.get().then_some(())).await });
    }
    core.shard.dismantle();
}

impl Node {
    /// Where is listened, in the order of the configuration, with the port that was given by the kernel where the
    /// configuration says 0.
    pub fn portals(&self) -> &Portals {
        &self.portals
    }

    /// The pools that are open.
    pub fn pools(&self) -> &Pools {
        &self.pools
    }

    /// What it sees of itself.
    pub fn observer(&self) -> &Observer {
        &self.observer
    }

    /// Where masters of Munin poll it.
    pub fn munin(&self) -> impl Iterator<Item = std::net::SocketAddr> {
        self.munin.iter().map(monitor::munin::Server::address)
    }

    /// Who asks whether its cores are alive.
    pub fn pulse(&self) -> Pulse {
        Pulse::new(self.peers.clone(), self.threads.len(), self.observer.clone())
    }

    /// The control API, as it is served.
    pub fn api(&self) -> &api::Server {
        &self.api
    }

    /// The socket of the control API.
    pub fn control_socket(&self) -> &std::path::Path {
        self.api.path()
    }

    /// Stops taking connections, drains what is in flight until a deadline, makes everything durable, closes the pools, and
    /// ends.
    pub fn shutdown(mut self) -> Result<(), ShutdownError> {
        self.events.tell(Event::NodeStopping {});
        self.events.dismiss();
        self.api.stop();
        if let Some(observing) = &mut self.observing {
            observing.stop();
        }
        self.munin.clear();
        self.watch.stop();
        let deadline = Instant::now() + DRAIN_TIME;
        let count = self.threads.len();
        let drained = self.on_every(|shard, done| {
            let ring = shard.ring().clone();
            ring.spawn(async move {
                drain(&shard, GRACE).await;
                done.send(Ok(())).ok();
            });
        });
        let mut result = wait(&drained, count, deadline);
        let is_drained = result.is_ok();
        for step in self.settle(is_drained) {
            result = result.and(step);
        }
        for index in 0..count {
            self.peers.tell(index, |shard| {
                if let Some(stop) = shard.service::<Stop>() {
                    stop.now.set(true);
                    stop.changed.notify();
                }
            });
        }
        for thread in self.threads {
            if thread.join().is_err() {
                result = result.and(Err("a shard panicked".to_owned()));
            }
        }
        self.events.close();
        result.map_err(|message| ShutdownError {
            message,
            hint: Some("the log says which session or volume".into()),
        })
    }

    /// Even when something did not end in time, what was acknowledged is made durable. Pools are closed only when nothing is
    /// under way any more: else the next start has to look what was.
    fn settle(&self, is_drained: bool) -> Receiver<Result<(), String>> {
        let (tell, settled) = mpsc::channel();
        self.peers.tell(0, move |shard| {
            let ring = shard.ring().clone();
            ring.spawn(async move {
                for channel in shard.volumes() {
                    let flush = channel.submit(plane::Request::flush()).await.result;
                    let name = channel.volume().name().to_owned();
                    tell.send(flush.map_err(|error| format!("volume {name} was not flushed: {error}"))).ok();
                }
                if is_drained {
                    tell.send(close_pools(&shard).await).ok();
                }
            });
        });
        settled
    }

    fn on_every(
        &self,
        job: impl Fn(std::rc::Rc<plane::shard::Shard>, Sender<Result<(), String>>) + Send + Clone + 'static,
    ) -> Receiver<Result<(), String>> {
        let (tell, answers) = mpsc::channel();
        for index in 0..self.threads.len() {
            let (job, tell) = (job.clone(), tell.clone());
            self.peers.tell(index, move |shard| job(shard, tell));
        }
        answers
    }
}

fn wait(answers: &Receiver<Result<(), String>>, count: usize, deadline: Instant) -> Result<(), String> {
    for _ in 0..count {
        match answers.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(answer) => answer?,
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
            Err(RecvTimeoutError::Timeout) => {
                return Err(format!("requests were still in flight after {} seconds", DRAIN_TIME.as_secs()));
            }
        }
    }
    Ok(())
}
