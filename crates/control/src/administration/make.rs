//! Making a change: its steps in their order. Between any two of them the node may die.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use monitor::event::Event;
use plane::portals::Portals;
use tokio::task::JoinSet;

use super::plan::Planned;
use super::point::point;
use super::{Administration, ChangeError, Outcome, State};
use crate::config::Volume;
use crate::diff::{Fate, Step, changes, listening, settled};
use crate::live::{Answer, Live, LiveError, remove_file};
use crate::store::files::{System, Written};
use crate::store::pending::{Bytes, Grown, Pending, Place, is_named};

/// How long the data plane may take for one volume: longer than initiators are given to go.
const LIVE_TIME: Duration = Duration::from_secs(40);

/// What is served that was not, in the middle of a change.
#[derive(Default)]
struct Added {
    volumes: Vec<Volume>,
    pools: Vec<String>,
    /// Where is listened now, if that is elsewhere.
    portals: Option<Portals>,
}

impl Administration {
    pub(super) async fn make(&self, state: &State, planned: Planned) -> Result<Outcome, ChangeError> {
        point("begun");
        let written = self.write(&planned.document.text).await?;
        point("written");
        let open = merged(&state.pending, &planned.pending);
        if let Err(error) = self.note(&open).await {
            written.discard(&System);
            return Err(error);
        }
        point("noted");
        let mut added = Added::default();
        let prepared = self.add_all(state, &planned, &mut added).await;
        if let Err(error) = prepared {
            written.discard(&System);
            return Err(self.give_up(state, &planned, &added, &open, error).await);
        }
        point("added");
        if let Err(error) = self.commit(written).await {
            // The name may be the new one's already.
            self.restore(state).await;
            let is_gone = self.undo(state, &planned, &added).await;
            self.stay(state, if is_gone { &state.pending } else { &open }).await;
            return Err(error);
        }
        point("saved");
        let mut undone = BTreeMap::new();
        if let Err(error) = self.alter_all(state, &planned, &mut undone).await {
            self.restore(state).await;
            return Err(self.give_up(state, &planned, &added, &open, error).await);
        }
        point("altered");
        let going = self.remove_all(&planned, &mut undone).await;
        point("removed");
        let left = left(open, &planned, |volume| undone.contains_key(volume) || going.contains(volume));
        self.settle(&left).await;
        point("settled");
        let portals = added.portals.unwrap_or_else(|| state.portals.clone());
        let mut outcome = self.enter(state, planned, undone, left, portals)?;
        outcome.steps.extend(going.iter().map(|volume| {
            format!(
                "the bytes of volume {volume} are being destroyed yet: `fels job list` says how far that is"
            )
        }));
        Ok(outcome)
    }

    /// What holds from now on.
    fn enter(
        &self,
        state: &State,
        planned: Planned,
        undone: BTreeMap<String, String>,
        pending: Pending,
        portals: Portals,
    ) -> Result<Outcome, ChangeError> {
        let outcome = planned.outcome(true);
        for step in &outcome.steps {
            tracing::info!("asked for: {step}");
        }
        self.tell_of(&planned, &undone);
        let running =
            settled(&state.running, &planned.wished, &planned.steps, |name| undone.contains_key(name));
        if running.busy_poll != state.running.busy_poll {
            self.live.busy_poll(running.busy_poll);
        }
        let is_pool = |name: &str| {
            planned.steps.iter().any(|step| matches!(step, Step::ClosePool(pool) if pool == name))
        };
        let what = |name: &str| if is_pool(name) { "pool" } else { "volume" };
        let reasons: Vec<_> =
            undone.iter().map(|(name, why)| format!("{} {name}: {why}", what(name))).collect();
        self.set_state(State { document: planned.document, running, portals, undone, pending });
        if reasons.is_empty() { Ok(outcome) } else { Err(ChangeError::Incomplete(reasons)) }
    }

    /// Tells what became different.
    fn tell_of(&self, planned: &Planned, undone: &BTreeMap<String, String>) {
        let destroyed = planned.destroyed.iter().map(|volume| {
            let volume = volume.name.clone();
            (volume.clone(), Event::VolumeDeleted { volume })
        });
        for (name, event) in planned.steps.iter().filter_map(told_as).chain(destroyed) {
            if !undone.contains_key(&name) {
                self.tell(event);
            }
        }
        let (version, steps) = (planned.document.version.to_string(), planned.steps.len() as u64);
        self.tell(Event::ConfigurationChanged { version, steps });
    }

    pub(super) async fn write(&self, text: &str) -> Result<Written, ChangeError> {
        let (store, text) = (self.store.clone(), text.to_owned());
        let path = store.path().to_owned();
        let written = blocking(move || store.write(&text)).await;
        written.map_err(|source| ChangeError::Unwritable { path, source })
    }

    pub(super) async fn commit(&self, written: Written) -> Result<(), ChangeError> {
        let path = self.store.path().to_owned();
        let done = blocking(move || written.commit(&System)).await;
        done.map_err(|source| ChangeError::Unwritable { path, source })
    }

    /// Says what is pending, before anything is.
    pub(super) async fn note(&self, pending: &Pending) -> Result<(), ChangeError> {
        if pending.is_empty() {
            return Ok(());
        }
        let (data, pending) = (self.data.clone(), pending.clone());
        let path = data.join(crate::store::PENDING_FILE);
        let noted = blocking(move || pending.write(&data)).await;
        noted.map_err(|source| ChangeError::Unwritable { path, source })
    }

    /// Says what is still pending. Too much of it does no harm while the node runs: the next start asks the document.
    pub(super) async fn settle(&self, left: &Pending) {
        let (data, pending) = (self.data.clone(), left.clone());
        let settled =
            blocking(move || if pending.is_empty() { Pending::clear(&data) } else { pending.write(&data) });
        if let Err(error) = settled.await {
            tracing::warn!(
                "{} of {} cannot be updated: {error}",
                crate::store::PENDING_FILE,
                self.data.display()
            );
        }
    }

    /// Writes the old document again.
    async fn restore(&self, state: &State) {
        let restored = match self.write(&state.document.text).await {
            Ok(written) => self.commit(written).await,
            Err(error) => Err(error),
        };
        if let Err(error) = restored {
            tracing::error!("the configuration as it was before a change that failed: {error}");
        }
    }

    /// Serves what is new; `added` has what is served when this fails.
    async fn add_all(&self, state: &State, planned: &Planned, added: &mut Added) -> Result<(), LiveError> {
        for step in &planned.steps {
            match step {
                Step::OpenPool(pool) => {
                    added.pools.push(pool.name.clone());
                    in_time(self.live.open_pool(pool)).await?;
                    point("opened");
                }
                Step::Listen(_) => {
                    added.portals =
                        Some(in_time(self.live.listen(&listening(&state.running, &planned.wished))).await?);
                    point("listening");
                }
                _ => {}
            }
        }
        for step in &planned.steps {
            let Step::Add { volume, .. } = step else { continue };
            let is_made = planned.made.contains(&volume.name);
            if let (true, Some(Place::File(path))) = (is_made, Place::of(volume)) {
                let failed = |source| no_file(&path, &source);
                let made = path.clone();
                blocking(move || make_file(&made)).await.map_err(failed)?;
                point("made");
            }
            if let Err(error) = in_time(self.live.add(&state.running, volume)).await {
                // It may be there in part.
                added.volumes.push(Volume::clone(volume));
                return Err(error);
            }
            added.volumes.push(Volume::clone(volume));
        }
        Ok(())
    }

    /// Nothing has been changed but what is undone here. What nobody knows the end of stays pending: the next start settles it.
    async fn give_up(
        &self,
        state: &State,
        planned: &Planned,
        added: &Added,
        open: &Pending,
        error: LiveError,
    ) -> ChangeError {
        let is_gone = self.undo(state, planned, added).await;
        self.stay(state, if is_gone && !error.is_late { &state.pending } else { open }).await;
        ChangeError::Live(error)
    }

    /// All is as before, but for what is pending.
    async fn stay(&self, state: &State, pending: &Pending) {
        self.settle(pending).await;
        self.set_state(State { pending: pending.clone(), ..State::clone(state) });
    }

    /// Takes what was added away again, the last one first. False: bytes of it are being destroyed yet.
    async fn undo(&self, state: &State, planned: &Planned, added: &Added) -> bool {
        let mut is_gone = true;
        for volume in added.volumes.iter().rev() {
            let destroy = planned.made.contains(&volume.name);
            match in_time(self.live.remove(volume, destroy)).await {
                Ok(all) => is_gone &= all,
                Err(error) => tracing::warn!(
                    volume = volume.name,
                    "it was added in vain, and cannot be taken away: {error}"
                ),
            }
        }
        for pool in added.pools.iter().rev() {
            if let Err(error) = in_time(self.live.close_pool(pool, true)).await {
                tracing::warn!(pool, "it was opened in vain, and cannot be closed: {error}");
            }
        }
        if added.portals.is_some()
            && let Err(error) = in_time(self.live.listen(&state.running)).await
        {
            tracing::error!("portals were opened in vain, and are not as they were: {error}");
        }
        is_gone
    }

    /// Alters what is in use. An error if the first one fails, with which nothing has happened; what fails later is entered.
    async fn alter_all(
        &self,
        state: &State,
        planned: &Planned,
        undone: &mut BTreeMap<String, String>,
    ) -> Result<(), LiveError> {
        let mut is_first = true;
        for step in &planned.steps {
            let Step::Alter { from, to } = step else { continue };
            match in_time(self.live.alter(&state.running, to)).await {
                Err(error) if is_first && !error.is_late && !self.has_grown(from, to) => return Err(error),
                Err(error) => drop(undone.insert(to.name.clone(), told(&error))),
                Ok(()) => {}
            }
            is_first = false;
        }
        Ok(())
    }

    /// Whether a pool has the bytes already that a volume is to have: the old document would not fit it any more.
    fn has_grown(&self, from: &Volume, to: &Volume) -> bool {
        let Some(Place::Pool(pool)) = Place::of(to) else { return false };
        from.size_bytes != to.size_bytes && self.live.bytes_on_pool(&pool, &to.name) == Some(to.size_bytes)
    }

    /// Takes out what goes; what was not done is entered in `undone`. Gives the volumes whose bytes are being destroyed yet.
    async fn remove_all(&self, planned: &Planned, undone: &mut BTreeMap<String, String>) -> BTreeSet<String> {
        let mut going = BTreeSet::new();
        let mut enter = |name: &str, done: Result<bool, LiveError>| match done {
            Ok(true) => {}
            Ok(false) => drop(going.insert(name.to_owned())),
            Err(error) => drop(undone.insert(name.to_owned(), told(&error))),
        };
        for step in &planned.steps {
            let Step::Remove { volume, fate } = step else { continue };
            enter(&volume.name, in_time(self.live.remove(volume, *fate == Fate::Destroyed)).await);
        }
        for step in &planned.steps {
            let Step::ClosePool(pool) = step else { continue };
            enter(pool, in_time(self.live.close_pool(pool, false)).await.map(|()| true));
        }
        if let Some(volume) = &planned.destroyed
            && let Some(place) = Place::of(volume)
        {
            enter(&volume.name, destroy(&*self.live, &volume.name, &place).await);
        }
        going
    }

    /// Forgets what was pending and has come to its end in the background.
    pub(super) async fn forget_destroyed(&self) {
        let state = self.state();
        let is_left = |entry: &&Bytes| match &entry.place {
            Place::Pool(pool) => self.live.bytes_on_pool(pool, &entry.volume).is_some(),
            Place::File(_) => true,
        };
        let bytes: Vec<Bytes> = state.pending.bytes.iter().filter(is_left).cloned().collect();
        if bytes.len() < state.pending.bytes.len() {
            self.stay(&state, &Pending { bytes, ..state.pending.clone() }).await;
        }
    }

    /// Destroys what a node that died was making or destroying on pools, as soon as they are open. What fails is tried again at the
    /// next start.
    pub async fn settle_pools(&self) {
        let state = self.state();
        let mut left = Pending { joining: state.pending.joining.clone(), ..Pending::default() };
        // All at once: each may take a moment, and who starts the node does not wait for many of them.
        let mut settling = JoinSet::new();
        for entry in state.pending.bytes.clone() {
            let live = self.live.clone();
            settling.spawn(async move {
                let done = destroy(&*live, &entry.volume, &entry.place).await;
                (entry, done)
            });
        }
        for (entry, done) in settling.join_all().await {
            match done {
                Ok(true) => tracing::warn!(
                    volume = entry.volume,
                    "destroyed: the volume was being made or deleted when the node ended"
                ),
                Ok(false) => {
                    tracing::warn!(
                        volume = entry.volume,
                        "is being destroyed: the volume was being made or deleted when the node ended"
                    );
                    left.bytes.push(entry);
                }
                Err(error) => {
                    tracing::error!(volume = entry.volume, "was to be destroyed, and is not: {error}");
                    left.bytes.push(entry);
                }
            }
        }
        self.settle(&left).await;
        self.set_state(State { pending: left, ..State::clone(&state) });
    }
}

/// Destroys bytes of a volume that is not served. False: that goes on.
async fn destroy(live: &dyn Live, name: &str, place: &Place) -> Result<bool, LiveError> {
    match place {
        Place::File(path) => remove_file(path.clone()).await.map(|()| true),
        Place::Pool(pool) => in_time(live.destroy(pool, name)).await,
    }
}

/// What a step is told as, with the name of its volume or pool.
fn told_as(step: &Step) -> Option<(String, Event)> {
    let of = |volume: &Volume| volume.name.clone();
    Some(match step {
        Step::Add { volume, .. } => {
            (of(volume), Event::VolumeCreated { volume: of(volume), bytes: volume.size_bytes })
        }
        Step::Alter { from, to } => {
            (of(to), Event::VolumeChanged { volume: of(to), what: changes(from, to).join(", ") })
        }
        Step::Remove { volume, fate: Fate::Destroyed } => {
            (of(volume), Event::VolumeDeleted { volume: of(volume) })
        }
        Step::Remove { volume, .. } => (of(volume), Event::VolumeWithdrawn { volume: of(volume) }),
        Step::OpenPool(pool) => (pool.name.clone(), Event::PoolOpened { pool: pool.name.clone() }),
        Step::ClosePool(pool) => (pool.clone(), Event::PoolClosed { pool: pool.clone() }),
        Step::Listen(what) => (String::new(), Event::PortalsChanged { what: what.clone() }),
        Step::Note(_) | Step::Later { .. } => return None,
    })
}

/// An empty file that nobody had before: what is pending is the node's own.
fn make_file(path: &Path) -> io::Result<()> {
    // One that is empty holds nothing that could be lost.
    if std::fs::symlink_metadata(path).is_ok_and(|there| there.is_file() && there.len() == 0) {
        return Ok(());
    }
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map(drop)
}

fn no_file(path: &Path, source: &io::Error) -> LiveError {
    let hint = match source.kind() {
        io::ErrorKind::NotFound => "make the directory first, or correct the path",
        io::ErrorKind::PermissionDenied => "the user who runs the node needs to write that directory",
        io::ErrorKind::AlreadyExists => "somebody else has made it just now: look whose it is",
        io::ErrorKind::StorageFull => "the file system is full: free some space",
        _ => "check the path and the permissions",
    };
    LiveError::new(format!("{} cannot be made: {source}", path.display()), hint)
}

fn told(error: &LiveError) -> String {
    match &error.hint {
        Some(hint) => format!("{} ({hint})", error.message),
        None => error.message.clone(),
    }
}

fn merged(one: &Pending, other: &Pending) -> Pending {
    let mut merged = other.clone();
    merged.bytes.extend(one.bytes.iter().filter(|entry| !other.bytes.contains(entry)).cloned());
    merged.opened.extend(one.opened.iter().filter(|entry| !other.opened.contains(entry)).cloned());
    merged.joining.extend(one.joining.iter().filter(|entry| !other.joining.contains(entry)).cloned());
    merged.grown.extend(one.grown.iter().filter(|entry| !other.grown.contains(entry)).cloned());
    merged
}

/// What is still pending: what was not done now, and what an earlier change has left and this one had no part in. Bytes that the
/// document names again are its volume's.
fn left(open: Pending, planned: &Planned, is_undone: impl Fn(&str) -> bool) -> Pending {
    let (now, config) = (&planned.pending, &planned.document.config);
    let is_open = |one: &Bytes| is_undone(&one.volume) || !now.bytes.contains(one);
    let is_short = |one: &Grown| is_undone(&one.volume) || !now.grown.contains(one);
    Pending {
        // What was opened is named by now.
        opened: Vec::new(),
        bytes: open.bytes.into_iter().filter(|one| is_open(one) && !is_named(config, one)).collect(),
        grown: open.grown.into_iter().filter(is_short).collect(),
        joining: open.joining,
    }
}

/// What waits for a disk has a thread of its own.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other)?
}

async fn in_time<T>(answer: Answer<'_, T>) -> Result<T, LiveError> {
    tokio::time::timeout(LIVE_TIME, answer).await.unwrap_or_else(|_| {
        let message = format!("the data plane did not answer within {} seconds", LIVE_TIME.as_secs());
        Err(LiveError { is_late: true, ..LiveError::new(message, "see the log of the node") })
    })
}
