//! The control API of a running node: HTTP/1.1 and JSON, on a unix socket in the data directory, on a thread of its own.
//!
//! `model` is what goes over the wire, in both directions; `server` lets people in and keeps them within bounds; each room
//! beside them has the paths of one noun, which `router` puts together. Errors are `problem`s. `client` is the other side.
//! Who asks and whether he may is found out in one place, `guard`, by the routing table in `router`, which says for each way who may come it
//! (`ways`); `access` is what the node knows about people. `listener` serves the same router on the socket and over TCP (`http`).

mod access;
mod activity;
mod actor;
pub mod alerts;
mod audit;
pub mod client;
mod configuration;
mod events;
mod graphs;
mod guard;
mod http;
mod initiators;
mod jobs;
pub mod lab;
pub mod limits;
mod listener;
mod metrics;
pub mod model;
mod patient;
pub mod people;
mod pools;
mod portals;
mod problem;
pub mod remote;
mod router;
mod server;
mod session;
mod status;
mod volumes;
mod ways;
mod wish;

pub use access::{Access, AccessError};
pub use actor::{Actor, Peer, Who};
pub use audit::Entries;
pub use events::Happened;
pub(crate) use http::harden;
pub use http::{HttpError, exposure};
pub(crate) use pools::joining;
pub use problem::Problem;
pub use router::{ApiDocument, document, router};
pub use server::{ApiError, SOCKET_FILE, Server, start};

use std::path::PathBuf;
use std::sync::Arc;

use plane::pool::{Assembled, Handle, Place, Pools};
use plane::shard::Peers;

use axum::Json;
use axum::extract::FromRef;

use crate::administration::Administration;
use crate::alerts::Alerts;
use crate::audit::note;
use crate::collect::Collector;
use crate::events::Events;
use crate::observe::Observer;

/// What the rooms of the API work with: the running node.
#[derive(Clone)]
pub struct Context(Arc<Inner>);

struct Inner {
    pools: Pools,
    peers: Peers,
    observer: Observer,
    jobs: jobs::Registry,
    administration: Arc<Administration>,
    telling: Telling,
    /// Changes are made one after the other.
    turn: Arc<tokio::sync::Mutex<()>>,
    /// What relative paths of the configuration are relative to.
    directory: PathBuf,
}

/// What tells people about the node.
#[derive(Clone)]
pub struct Telling {
    /// What happened.
    pub events: Events,
    /// What is the matter.
    pub alerts: Alerts,
}

/// What a change was, for the audit log.
trait Made {
    /// Whether it was done, and not only planned.
    fn is_done(&self) -> bool;
    /// A sentence for each step.
    fn steps(&self) -> &[String];
}

impl Made for model::Change {
    fn is_done(&self) -> bool {
        self.done
    }

    fn steps(&self) -> &[String] {
        &self.steps
    }
}

impl Made for model::Changed {
    fn is_done(&self) -> bool {
        self.done
    }

    fn steps(&self) -> &[String] {
        &self.steps
    }
}

/// What all handlers can ask for: the node, and who may come in.
#[derive(Clone)]
struct House {
    context: Context,
    access: Access,
}

impl FromRef<House> for Context {
    fn from_ref(house: &House) -> Context {
        house.context.clone()
    }
}

impl FromRef<House> for Events {
    fn from_ref(house: &House) -> Events {
        house.context.0.telling.events.clone()
    }
}

impl FromRef<House> for Alerts {
    fn from_ref(house: &House) -> Alerts {
        house.context.0.telling.alerts.clone()
    }
}

impl FromRef<House> for Access {
    fn from_ref(house: &House) -> Access {
        house.access.clone()
    }
}

impl Context {
    /// Of a node with these pools, whose first shard opens members, and which sees this of itself.
    pub fn new(
        pools: Pools,
        peers: Peers,
        administration: Arc<Administration>,
        observer: Observer,
        telling: Telling,
    ) -> Context {
        // Without one, places are told as the configuration has them.
        let directory = std::env::current_dir().unwrap_or_default();
        let (turn, jobs) = (Arc::default(), jobs::Registry::default());
        Context(Arc::new(Inner { pools, peers, observer, jobs, administration, telling, turn, directory }))
    }

    fn administration(&self) -> &Administration {
        &self.0.administration
    }

    fn pools(&self) -> Vec<Arc<Assembled>> {
        self.0.pools.list()
    }

    fn pool(&self, name: &str) -> Result<Arc<Assembled>, Problem> {
        self.0.pools.find(name).ok_or_else(|| problem::no_pool(name, &self.pools()))
    }

    /// Makes a change to its end, whether or not who asked for it still waits: half of one would be worse than none.
    async fn change<T: Made + Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, Problem>> + Send + 'static,
    ) -> Result<Json<T>, Problem> {
        let turn = self.0.turn.clone();
        let made = tokio::spawn(async move {
            let _turn = turn.lock().await;
            work.await
        });
        let change =
            made.await.unwrap_or_else(|_| Err(Problem::late("the change was not made to its end")))?;
        for step in change.steps() {
            note(if change.is_done() { step.clone() } else { format!("would be done: {step}") });
        }
        Ok(Json(change))
    }

    fn jobs(&self) -> &jobs::Registry {
        &self.0.jobs
    }

    fn observer(&self) -> &Observer {
        &self.0.observer
    }

    fn alerts(&self) -> &Alerts {
        &self.0.telling.alerts
    }

    fn collector(&self) -> &Collector {
        self.0.observer.collector()
    }

    fn peers(&self) -> &Peers {
        &self.0.peers
    }

    /// A place as somebody in another directory finds it.
    fn told(&self, place: &Place) -> String {
        match place {
            Place::Path(path) => self.told_path(path),
            Place::Memory(_) => place.to_string(),
        }
    }

    fn told_path(&self, path: &std::path::Path) -> String {
        self.0.directory.join(path).display().to_string()
    }
}

/// The control handle of a pool.
fn handle(pool: &Assembled) -> Handle {
    Handle::new(pool.pool().shared().clone())
}
