//! Why a change was not made.

use std::io;
use std::path::PathBuf;

use crate::config::{ConfigError, ConfigErrors, field_at};
use crate::diff::Impossible;
use crate::live::LiveError;
use crate::store::Version;
use crate::store::document::EditError;

/// Why a change was not made, or not to its end.
#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    /// It was meant for another document.
    #[error("the configuration is another one by now: its version is {now}")]
    Stale {
        /// The version of now.
        now: Version,
    },
    /// The file is not what the node knows.
    #[error("{path} was changed by somebody else, and the node does not know that yet")]
    Elsewhere {
        /// The file.
        path: PathBuf,
    },
    /// There is nothing to edit, or something already.
    #[error(transparent)]
    Edit(#[from] EditError),
    /// The new document is wrong.
    #[error("{errors}")]
    Wrong {
        /// What is wrong.
        errors: ConfigErrors,
        /// With which field each: the text itself has secrets, and is not carried about.
        fields: Vec<Option<String>>,
    },
    /// What is wished cannot be.
    #[error("{}", .0.message())]
    Impossible(Impossible),
    /// Something in the way.
    #[error("{message}")]
    Refused {
        /// What.
        message: String,
        /// What can be done about it.
        hint: String,
    },
    /// The document cannot be saved.
    #[error("{path} cannot be written: {source}; nothing was done")]
    Unwritable {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A volume cannot be what it is to be; nothing was changed.
    #[error("{0}")]
    Live(LiveError),
    /// The document says what is wished, and not all of it was done.
    #[error("saved, but not all of it could be done: {}", .0.join("; "))]
    Incomplete(Vec<String>),
}

impl ChangeError {
    /// A text that is no good configuration.
    pub(super) fn wrong(errors: ConfigErrors, text: &str) -> ChangeError {
        let field = |error: &ConfigError| error.location.as_ref().and_then(|place| field_at(text, place));
        let fields = errors.errors().iter().map(field).collect();
        ChangeError::Wrong { errors, fields }
    }

    /// What can be done about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Stale { .. } => Some("look at it again, and change what is there now".to_owned()),
            Self::Elsewhere { path } => Some(format!(
                "let the node take it: fels apply -f {}   (--dry-run says what that does)",
                path.display()
            )),
            Self::Edit(EditError::Missing { .. }) => {
                Some("`fels volume list` shows those that there are".to_owned())
            }
            Self::Edit(EditError::Taken(name)) => {
                Some(format!("take another name, or change it: fels volume set {name} KEY=VALUE"))
            }
            Self::Edit(EditError::PoolTaken(_)) => Some("take another name".to_owned()),
            Self::Edit(EditError::Syntax(_)) => {
                Some("change the file in an editor, then `fels apply -f`".to_owned())
            }
            Self::Wrong { errors, .. } => errors.errors().first().and_then(|error| error.hint.clone()),
            Self::Impossible(impossible) => Some(impossible.hint().to_owned()),
            Self::Refused { hint, .. } => Some(hint.clone()),
            Self::Unwritable { source, .. } => Some(match source.kind() {
                io::ErrorKind::PermissionDenied => {
                    "the user that runs fels has to be able to write the file and its directory".to_owned()
                }
                io::ErrorKind::StorageFull => "make room on that file system".to_owned(),
                io::ErrorKind::ReadOnlyFilesystem => {
                    "put the configuration on a file system that can be written".to_owned()
                }
                _ => "see that its directory can be written".to_owned(),
            }),
            Self::Live(error) => error.hint.clone(),
            Self::Incomplete(_) => Some(
                "`fels status` says what is left; the same `fels apply` or the next start does it".to_owned(),
            ),
        }
    }
}
