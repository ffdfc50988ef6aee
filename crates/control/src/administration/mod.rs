//! Changes of what a node is wished to be: checked as a whole, planned, saved, done (`docs/formats/store.md`).
//!
//! `plan` says what is to be done and why it cannot be; `make` does it, step by step, so that whoever dies in between leaves the old state or
//! the new one; `pools` keeps the document in step with members that change.

mod error;
mod make;
mod plan;
mod point;
mod pools;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use monitor::event::Event;
use plane::portals::Portals;

use crate::config::Config;
use crate::events::Events;
use crate::live::Live;
use crate::numbers::number;
use crate::state::{DataDirectory, NodeId, VolumeId};
use crate::store::document::Settings;
use crate::store::pending::{Joining, Pending};
use crate::store::{Document, Store, Version};

pub use error::ChangeError;
pub(crate) use point::point;
pub use pools::PoolEdit;

/// What is wished, and what runs. Changes are made one after the other: whoever calls sees to that.
pub struct Administration {
    store: Store,
    data: PathBuf,
    node: NodeId,
    live: Arc<dyn Live>,
    state: RwLock<Arc<State>>,
    events: Option<Events>,
}

/// How things are between two changes.
#[derive(Clone)]
pub struct State {
    /// What is wished.
    pub document: Document,
    /// What runs.
    pub running: Config,
    /// Where the node listens, with the ports that the kernel has given.
    pub portals: Portals,
    /// What of the last changes could not be done, by volume.
    pub undone: BTreeMap<String, String>,
    /// Bytes whose making or destroying is not over.
    pending: Pending,
}

impl State {
    /// What pools are given, and the configuration does not name yet.
    pub fn joining(&self) -> &[Joining] {
        &self.pending.joining
    }

    /// What is wished, with all numbers of namespaces.
    pub fn wished(&self) -> Config {
        let mut wished = self.document.config.clone();
        number(Some(&self.running), &mut wished);
        wished
    }
}

/// How the next document comes from the one of now. It may have secrets in it.
#[derive(Clone)]
pub enum Edit {
    /// A volume more.
    Create {
        /// Its keys.
        settings: Settings,
        /// Its bytes are there already, and are taken as they are.
        existing: bool,
    },
    /// Other keys of a volume.
    Change {
        /// Which.
        name: String,
        /// What they are to be.
        set: Settings,
        /// Which are to have their defaults.
        unset: Vec<String>,
    },
    /// A volume less.
    Delete {
        /// Which.
        name: String,
        /// Its bytes stay.
        keep_data: bool,
    },
    /// A pool more.
    AddPool {
        /// Its keys.
        settings: Settings,
    },
    /// A pool less; what is on it stays.
    RemovePool {
        /// Which.
        name: String,
    },
    /// Another document.
    Whole(String),
}

/// What somebody wishes.
#[derive(Clone)]
pub struct Request {
    /// The change.
    pub edit: Edit,
    /// The version that it is meant for.
    pub version: Option<Version>,
    /// Only the plan is asked for.
    pub dry_run: bool,
}

/// What was done, or would be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Whether it was done.
    pub done: bool,
    /// A sentence for each step.
    pub steps: Vec<String>,
    /// The version of the document afterwards.
    pub version: Version,
}

impl Administration {
    /// Of the node that works in `data` and runs as `document` says. `pending` is what is not settled yet.
    pub fn new(
        store: Store,
        document: Document,
        data: &DataDirectory,
        live: Arc<dyn Live>,
        pending: Pending,
    ) -> Administration {
        let mut running = document.config.clone();
        number(None, &mut running);
        let state = RwLock::new(Arc::new(State {
            document,
            running,
            portals: Portals::default(),
            undone: BTreeMap::new(),
            pending,
        }));
        let (data, node) = (data.path().to_owned(), data.node_id());
        Administration { store, data, node, live, state, events: None }
    }

    /// Lets it tell what it changes.
    #[must_use]
    pub fn telling(self, events: Events) -> Administration {
        Administration { events: Some(events), ..self }
    }

    /// Lets it know where the node listens.
    #[must_use]
    pub fn listening(self, portals: Portals) -> Administration {
        self.set_state(State { portals, ..State::clone(&self.state()) });
        self
    }

    fn tell(&self, event: Event) {
        if let Some(events) = &self.events {
            events.tell(event);
        }
    }

    /// The identity of a volume of this node.
    pub fn volume_id(&self, name: &str) -> VolumeId {
        self.node.volume_id(name)
    }

    /// How things are now.
    pub fn state(&self) -> Arc<State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set_state(&self, state: State) {
        *self.state.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(state);
    }

    /// The document's file.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The data directory.
    pub fn data(&self) -> &Path {
        &self.data
    }

    /// Whether somebody else has changed the document's file, and the node does not know it.
    pub fn is_changed_elsewhere(&self) -> bool {
        self.store.text().ok().is_none_or(|text| Version::of(&text) != self.state().document.version)
    }

    /// Makes a change, or says what it would do.
    pub async fn change(&self, request: Request) -> Result<Outcome, ChangeError> {
        self.forget_destroyed().await;
        let state = self.state();
        let planned = self.plan(&state, &request)?;
        if request.dry_run {
            return Ok(planned.outcome(false));
        }
        if planned.is_nothing(&state) {
            return Ok(planned.outcome(true));
        }
        self.make(&state, planned).await
    }
}
