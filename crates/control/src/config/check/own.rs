//! Files of the node itself beside those that are refused where a path is read.

use super::super::error::Problems;
use super::super::node::Root;
use super::super::volume::lexical;
use super::{plain, uses};
use crate::alerts::file::{ALERTS_FILE, NEW_ALERTS_FILE};
use crate::observe::HISTORY_DIRECTORY;
use crate::people::file::{NEW_PEOPLE_FILE, PEOPLE_FILE};
use crate::people::setup::SETUP_FILE;
use crate::reports::REPORTS_DIRECTORY;
use crate::tls::{MADE_FILE, NEW_MADE_FILE};
use std::ops::Range;
use std::path::Path;

/// Whether the node keeps something under that name in its data directory.
fn is_own(name: &str) -> bool {
    [PEOPLE_FILE, NEW_PEOPLE_FILE, MADE_FILE, NEW_MADE_FILE, SETUP_FILE, ALERTS_FILE, NEW_ALERTS_FILE]
        .contains(&name)
        || [crate::audit::SHAPE, crate::events::SHAPE].iter().any(|shape| shape.has(name))
}

/// No volume, member or socket takes the place of what the node keeps.
pub(super) fn files(problems: &mut Problems<'_>, root: &Root) {
    let data = plain(&root.data);
    let named: Vec<_> = problems.named.iter().map(|path| plain(path)).collect();
    let own = |path: &Path| {
        let path = plain(path);
        let inside = path.strip_prefix(lexical(&data)).ok()?;
        let directories = [HISTORY_DIRECTORY, REPORTS_DIRECTORY];
        if let Some(own) = directories.into_iter().find(|own| inside.starts_with(own)) {
            return Some(own.to_owned());
        }
        let name = inside.to_str()?;
        is_own(name).then(|| name.to_owned())
    };
    let mut refuse = |name: &str, span: &Range<usize>, other: &str| {
        let message = format!("`{name}` in the data directory belongs to the node itself");
        problems.add_hint(span.clone(), message, format!("take another name, such as \"{other}\""));
    };
    for taken in uses(root) {
        if let Some(name) = own(taken.path) {
            refuse(&name, taken.span, "demo.img");
        }
    }
    if let Some((nbd, path)) = root.nbd.as_ref().and_then(|nbd| Some((nbd, nbd.nbd.socket.as_ref()?)))
        && let Some(name) = own(path)
    {
        refuse(&name, &nbd.socket_span, "nbd.sock");
    }
    // Else whoever may make volumes could read by one what he may not, and delete it with that.
    for taken in uses(root).filter(|taken| named.contains(&plain(taken.path))) {
        let message = format!("{} is named elsewhere, for the node alone to read", taken.path.display());
        problems.add_hint(taken.span.clone(), message, "take another name, such as \"demo.img\"");
    }
}
