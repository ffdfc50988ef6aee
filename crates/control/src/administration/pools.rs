//! The document follows pools whose members change while they are used.

use std::path::{Path, PathBuf};

use monitor::event::Event;
use plane::pool::{Handle, Place};

use super::{Administration, ChangeError, State};
use crate::config::Member;
use crate::size::display_bytes;
use crate::store::document::Document as Editor;
use crate::store::pending::{Joining, Pending, absolute};

/// What a pool is by now.
#[derive(Clone, Debug, Default)]
pub struct PoolEdit {
    /// Its name.
    pub name: String,
    /// Where its members are, as far as that is known: from the root on.
    pub members: Vec<PathBuf>,
    /// A spare more.
    pub added: Option<PathBuf>,
    /// A spare less.
    pub removed: Option<PathBuf>,
    /// Bytes of a member, if they have become more.
    pub member_bytes: Option<u64>,
}

impl PoolEdit {
    /// Of a pool that runs: its members. What else is to be said is in `more`.
    pub fn of(handle: &Handle, more: PoolEdit) -> PoolEdit {
        let status = handle.status();
        let known = (0..status.members.len()).filter_map(|slot| handle.place(slot));
        let members = known.filter_map(|place| match place {
            Place::Path(path) => Some(absolute(&path)),
            Place::Memory(_) => None,
        });
        PoolEdit { name: status.name, members: members.collect(), ..more }
    }
}

impl Administration {
    /// Notes what a pool is given, before it is: the next start finds it there, or brings back what it was to replace.
    pub async fn begin_joining(&self, joining: Vec<Joining>) -> Result<(), ChangeError> {
        let state = self.state();
        let mut pending = state.pending.clone();
        pending.joining.extend(joining);
        self.note(&pending).await?;
        self.set_state(State { pending, ..State::clone(&state) });
        Ok(())
    }

    /// Nothing is given to a pool any more: its configuration names what it has.
    pub async fn end_joining(&self, pool: &str) {
        let state = self.state();
        let joining: Vec<Joining> =
            state.pending.joining.iter().filter(|joining| joining.pool != pool).cloned().collect();
        if state.pending.joining == joining {
            return;
        }
        let pending = Pending { joining, ..state.pending.clone() };
        self.settle(&pending).await;
        self.set_state(State { pending, ..State::clone(&state) });
    }

    /// Lets the document say what a pool is by now. Nothing is written where it says that already.
    pub async fn follow(&self, edit: &PoolEdit) -> Result<(), ChangeError> {
        let state = self.state();
        if self.is_changed_elsewhere() {
            return Err(ChangeError::Elsewhere { path: self.store.path().to_owned() });
        }
        let text = edited(&state, edit)?;
        if text == state.document.text {
            return Ok(());
        }
        let document = self.parse(&text)?;
        let written = self.write(&document.text).await?;
        self.commit(written).await?;
        let mut running = state.running.clone();
        for pool in running.pools.iter_mut().filter(|pool| pool.name == edit.name) {
            if let Some(now) = document.config.pools.iter().find(|now| now.name == edit.name) {
                pool.clone_from(now);
            }
        }
        self.tell(Event::ConfigurationChanged { version: document.version.to_string(), steps: 1 });
        self.set_state(State { document, running, ..State::clone(&state) });
        Ok(())
    }
}

fn edited(state: &State, edit: &PoolEdit) -> Result<String, ChangeError> {
    let data = &state.document.config.data;
    let mut editor = Editor::parse(&state.document.text)?;
    let in_memory = |member: &Member| matches!(member, Member::Memory(_));
    let pool = state.document.config.pools.iter().find(|pool| pool.name == edit.name);
    if pool.is_none_or(|pool| pool.members.iter().any(in_memory)) {
        return Ok(state.document.text.clone());
    }
    editor.set_members(&edit.name, &edit.members, data)?;
    let gone = |path: &Path| {
        edit.removed.as_deref() == Some(path) || edit.members.iter().any(|member| member == path)
    };
    editor.set_spares(&edit.name, edit.added.as_deref(), gone, data)?;
    if let Some(bytes) = edit.member_bytes {
        editor.update_pool(&edit.name, "member_size", &display_bytes(bytes))?;
    }
    Ok(editor.text())
}
