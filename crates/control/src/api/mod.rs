//! The control API of a running node: HTTP/1.1 and JSON, on a unix socket in the data directory, on a thread of its own.
//!
//! `model` is what goes over the wire, in both directions; `server` lets people in and keeps them within bounds; each room
//! beside them has the paths of one noun, which `router` puts together. Errors are `problem`s. `client` is the other side.
//! A listener that is not local admits its peers by itself, and then serves the same router.

pub mod client;
mod jobs;
pub mod model;
mod pools;
mod problem;
mod router;
mod server;
mod wish;

pub use problem::Problem;
pub use router::{ApiDocument, document, router};
pub use server::{ApiError, Peer, SOCKET_FILE, Server, start};

use std::path::PathBuf;
use std::sync::Arc;

use plane::pool::{Assembled, Handle, Place};
use plane::shard::Peers;

use axum::Json;

use model::Change;

/// What the rooms of the API work with: the running node.
#[derive(Clone)]
pub struct Context(Arc<Inner>);

struct Inner {
    pools: Arc<[Assembled]>,
    peers: Peers,
    /// Changes are made one after the other.
    turn: Arc<tokio::sync::Mutex<()>>,
    /// What relative paths of the configuration are relative to.
    directory: PathBuf,
}

impl Context {
    /// Of a node with these pools, whose first shard opens members.
    pub fn new(pools: Arc<[Assembled]>, peers: Peers) -> Context {
        // Without one, places are told as the configuration has them.
        let directory = std::env::current_dir().unwrap_or_default();
        Context(Arc::new(Inner { pools, peers, turn: Arc::default(), directory }))
    }

    fn pools(&self) -> &[Assembled] {
        &self.0.pools
    }

    fn pool(&self, name: &str) -> Result<&Assembled, Problem> {
        let pool = self.pools().iter().find(|pool| pool.pool().shared().name == name);
        pool.ok_or_else(|| problem::no_pool(name, self.pools()))
    }

    /// Makes a change to its end, whether or not who asked for it still waits: half of one would be worse than none.
    async fn change(
        &self,
        work: impl Future<Output = Result<Change, Problem>> + Send + 'static,
    ) -> Result<Json<Change>, Problem> {
        let turn = self.0.turn.clone();
        let made = tokio::spawn(async move {
            let _turn = turn.lock().await;
            work.await
        });
        made.await.unwrap_or_else(|_| Err(Problem::late("the change was not made to its end"))).map(Json)
    }

    fn peers(&self) -> &Peers {
        &self.0.peers
    }

    /// A place as somebody in another directory finds it.
    fn told(&self, place: &Place) -> String {
        match place {
            Place::Path(path) => self.0.directory.join(path).display().to_string(),
            Place::Memory(_) => place.to_string(),
        }
    }
}

/// The control handle of a pool.
fn handle(pool: &Assembled) -> Handle {
    Handle::new(pool.pool().shared().clone())
}
