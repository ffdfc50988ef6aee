//! What a change would do, and whether it can be done.

use std::path::Path;

use super::{Administration, ChangeError, Edit, Outcome, Request, State};
use crate::config::{Config, Member, Volume, hidden_comment};
use crate::diff::{self, Fate, Step, diff};
use crate::numbers::{number, to_write};
use crate::store::document::{Document as Editor, Settings};
use crate::store::pending::{self, Bytes, Grown, Pending, Place};
use crate::store::{Document, Version};

/// A change that can be made.
pub(super) struct Planned {
    /// What is wished from then on.
    pub document: Document,
    /// The same with all numbers of namespaces.
    pub wished: Config,
    /// What is to be done.
    pub steps: Vec<Step>,
    /// The volumes of `steps` whose bytes are made.
    pub made: Vec<String>,
    /// A volume that is not served, and whose bytes are destroyed.
    pub destroyed: Option<Volume>,
    /// What the next start has to know if this node dies meanwhile.
    pub pending: Pending,
}

impl Planned {
    /// Nothing changes, not even the text.
    pub fn is_nothing(&self, state: &State) -> bool {
        self.document.version == state.document.version && self.steps.iter().all(Step::is_later)
    }

    /// What is told of it.
    pub fn outcome(&self, done: bool) -> Outcome {
        let mut steps: Vec<_> = self.steps.iter().map(|step| self.sentence(step)).collect();
        if let Some(volume) = &self.destroyed {
            steps.push(format!(
                "DESTROY the bytes of volume {} {}",
                volume.name,
                diff::place(&volume.backing)
            ));
        }
        if steps.is_empty() {
            steps.push("nothing to do: all is as wished".to_owned());
        }
        Outcome { done, steps, version: self.document.version }
    }

    fn opens_pool_of(&self, volume: &Volume) -> bool {
        let Some(Place::Pool(name)) = Place::of(volume) else { return false };
        self.steps.iter().any(|step| matches!(step, Step::OpenPool(pool) if pool.name == name))
    }

    fn sentence(&self, step: &Step) -> String {
        let sentence = step.sentence();
        match step {
            Step::Add { volume, .. } if self.made.contains(&volume.name) => format!("{sentence}, made now"),
            Step::Add { volume, .. } if self.opens_pool_of(volume) => {
                format!("{sentence}, made now if the pool does not have it")
            }
            Step::Add { volume, .. } if Place::of(volume).is_some() => {
                format!("{sentence}, with what is in it")
            }
            _ => sentence,
        }
    }
}

impl Administration {
    /// What a change comes to.
    pub(super) fn plan(&self, state: &State, request: &Request) -> Result<Planned, ChangeError> {
        if request.version.is_some_and(|version| version != state.document.version) {
            return Err(ChangeError::Stale { now: state.document.version });
        }
        let text = edited(&state.document.text, &request.edit)?;
        self.check_file(state, &text, &request.edit)?;
        let (document, wished) = self.numbered(state, &text, &request.edit)?;
        check_comments(&state.document.text, &text)?;
        let mut steps = diff(&state.running, &document.config).map_err(ChangeError::Impossible)?;
        let mut destroyed = None;
        if let Edit::Delete { name, keep_data: false } = &request.edit {
            destroyed = destroy(&mut steps, name, &state.document.config);
        }
        destroy_pending(&mut steps, &state.pending);
        self.check_destroyed(&steps)?;
        let made = self.made(&steps);
        if let Edit::Create { settings, existing } = &request.edit {
            let name = settings.get("name").and_then(|name| name.as_str()).unwrap_or_default();
            self.check_bytes(&document.config, name, *existing)?;
        }
        let pending = pending_of(&steps, &made, destroyed.as_ref());
        Ok(Planned { document, wished, steps, made, destroyed, pending })
    }

    /// The document that a text is, and the same with all numbers of namespaces. What only the numbers of what runs say is written
    /// down, but not into a text that somebody else has written.
    fn numbered(&self, state: &State, text: &str, edit: &Edit) -> Result<(Document, Config), ChangeError> {
        let mut document = self.parse(text)?;
        let mut wished = document.config.clone();
        number(Some(&state.running), &mut wished);
        let numbers = to_write(&document.config, &wished);
        if !numbers.is_empty() && document.config.nvme.is_some() && !matches!(edit, Edit::Whole(_)) {
            let mut editor = Editor::parse(text)?;
            for (name, nsid) in numbers {
                let key = Settings::from_iter([("nsid".to_owned(), nsid.into())]);
                editor.change_volume(&name, &key, &[])?;
            }
            document = self.parse(&editor.text())?;
        }
        Ok((document, wished))
    }

    /// What a text says, read as the document of this node.
    pub(super) fn parse(&self, text: &str) -> Result<Document, ChangeError> {
        self.store.parse(text).map_err(|errors| ChangeError::wrong(errors, text))
    }

    /// Somebody else's text is not overwritten. The same text may come back as a whole: that is how the node is told of it.
    fn check_file(&self, state: &State, text: &str, edit: &Edit) -> Result<(), ChangeError> {
        let path = self.store.path().to_owned();
        let there = match self.store.text() {
            Ok(there) => Version::of(&there),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            Err(source) => return Err(ChangeError::Unwritable { path, source }),
        };
        let is_told = matches!(edit, Edit::Whole(_)) && there == Version::of(text);
        if there == state.document.version || is_told { Ok(()) } else { Err(ChangeError::Elsewhere { path }) }
    }

    /// The volumes that are added and have no bytes yet.
    fn made(&self, steps: &[Step]) -> Vec<String> {
        let added = steps.iter().filter_map(|step| match step {
            Step::Add { volume, .. } => Some(volume.as_ref()),
            _ => None,
        });
        // What a pool has that is not open yet nobody knows: that is taken as it is, and never destroyed.
        let is_open = |place: &Place| match place {
            Place::Pool(name) => {
                !steps.iter().any(|step| matches!(step, Step::OpenPool(pool) if pool.name == *name))
            }
            Place::File(_) => true,
        };
        let is_made = |volume: &&Volume| {
            Place::of(volume).is_some_and(|place| is_open(&place) && !self.is_there(&volume.name, &place))
        };
        added.filter(is_made).map(|volume| volume.name.clone()).collect()
    }

    fn is_there(&self, volume: &str, place: &Place) -> bool {
        match place {
            Place::File(path) => holds_bytes(path),
            Place::Pool(pool) => self.live.bytes_on_pool(pool, volume).is_some(),
        }
    }

    /// Where bytes are being destroyed no volume of that name is served, and the pool stays open.
    fn check_destroyed(&self, steps: &[Step]) -> Result<(), ChangeError> {
        for step in steps {
            let (pool, volume) = match step {
                Step::Add { volume, .. } => match Place::of(volume) {
                    Some(Place::Pool(pool)) => (pool, Some(&volume.name)),
                    _ => continue,
                },
                Step::ClosePool(pool) => (pool.clone(), None),
                _ => continue,
            };
            let mut destroyed = self.live.destroyed_on(&pool).into_iter();
            if let Some(name) = destroyed.find(|name| volume.is_none_or(|volume| volume == name)) {
                return Err(ChangeError::Refused {
                    message: format!(
                        "the bytes of the volume {name} on the pool {pool} are still being destroyed"
                    ),
                    hint: "wait for that; `fels job list` says how far it is".to_owned(),
                });
            }
        }
        Ok(())
    }

    /// A volume that is created takes nobody's bytes by chance.
    fn check_bytes(&self, config: &Config, name: &str, existing: bool) -> Result<(), ChangeError> {
        let Some(volume) = config.volumes.iter().find(|volume| volume.name == name) else { return Ok(()) };
        let Some(place) = Place::of(volume) else { return Ok(()) };
        let shown = diff::place(&volume.backing);
        match (self.is_there(name, &place), existing) {
            (true, false) => Err(ChangeError::Refused {
                message: format!(
                    "there is something {shown} already, which volume {name} would take as its own"
                ),
                hint: "give it another place; or wish for what is there with `existing` (--existing)"
                    .to_owned(),
            }),
            (false, true) => Err(ChangeError::Refused {
                message: format!("there is nothing {shown} that volume {name} could take"),
                hint: "leave `existing` (--existing) out, and it is made".to_owned(),
            }),
            _ => Ok(()),
        }
    }
}

/// Whether something is at a path; an empty file is nothing.
fn holds_bytes(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|there| !there.is_file() || there.len() > 0)
}

/// What comments have of secrets was hidden when the configuration was printed: taken as it is, it would be lost.
fn check_comments(before: &str, text: &str) -> Result<(), ChangeError> {
    let Some(line) = hidden_comment(text, before) else { return Ok(()) };
    let message =
        format!("line {line}: a secret in this comment was hidden when the configuration was printed");
    let hint = "put it in again (`fels dump --secrets` shows it), or leave the comment out";
    Err(ChangeError::Refused { message, hint: hint.to_owned() })
}

fn edited(text: &str, edit: &Edit) -> Result<String, ChangeError> {
    if let Edit::Whole(text) = edit {
        return Ok(text.clone());
    }
    let mut editor = Editor::parse(text)?;
    match edit {
        Edit::Create { settings, .. } => editor.add_volume(settings)?,
        Edit::Change { name, set, unset } => editor.change_volume(name, set, unset)?,
        Edit::Delete { name, .. } => editor.remove_volume(name)?,
        Edit::AddPool { settings } => editor.add_pool(settings)?,
        Edit::RemovePool { name } => editor.remove_pool(name)?,
        Edit::Whole(_) => {}
    }
    Ok(editor.text())
}

/// Lets the bytes of the volume that goes be destroyed. Gives it if it is not served.
fn destroy(steps: &mut [Step], name: &str, before: &Config) -> Option<Volume> {
    for step in steps.iter_mut() {
        if let Step::Remove { volume, fate } = step
            && volume.name == name
        {
            *fate = Fate::Destroyed;
            return None;
        }
    }
    let volume = before.volumes.iter().find(|volume| volume.name == name)?;
    Place::of(volume).map(|_| volume.clone())
}

/// A volume whose destruction has failed before is not kept now.
fn destroy_pending(steps: &mut [Step], pending: &Pending) {
    for step in steps {
        let Step::Remove { volume, fate } = step else { continue };
        let Some(place) = Place::of(volume) else { continue };
        if *fate == Fate::Kept && pending.bytes.contains(&Bytes { volume: volume.name.clone(), place }) {
            *fate = Fate::Destroyed;
        }
    }
}

/// What the next start has to know.
fn pending_of(steps: &[Step], made: &[String], destroyed: Option<&Volume>) -> Pending {
    let mut pending = Pending::default();
    let mut bytes = |volume: &Volume| {
        let place = Place::of(volume);
        pending.bytes.extend(place.map(|place| Bytes { volume: volume.name.clone(), place }));
    };
    destroyed.into_iter().for_each(&mut bytes);
    for step in steps {
        match step {
            Step::Add { volume, .. } if made.contains(&volume.name) => bytes(volume),
            Step::Remove { volume, fate: Fate::Destroyed } => bytes(volume),
            _ => {}
        }
    }
    let opened = steps.iter().filter_map(|step| match step {
        Step::OpenPool(pool) => {
            let members = pool.members.iter().chain(&pool.spares).filter_map(Member::path);
            Some(pending::Opened {
                pool: pool.name.clone(),
                members: members.map(pending::absolute).collect(),
            })
        }
        _ => None,
    });
    pending.opened = opened.collect();
    let grown = steps.iter().filter_map(|step| match step {
        Step::Alter { from, to } if from.size_bytes < to.size_bytes && pending::Place::of(to).is_some() => {
            Some(Grown { volume: to.name.clone(), to_bytes: to.size_bytes })
        }
        _ => None,
    });
    pending.grown = grown.collect();
    pending
}
