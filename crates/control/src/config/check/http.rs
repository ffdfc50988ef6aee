//! The control API beyond this machine.

use super::super::error::Problems;
use super::super::http::ReadHttp;
use crate::api::exposure;
use crate::tls;
use std::path::Path;

/// The files of TLS have to be good, and nobody is to be reached from other machines whom everybody could change.
pub(super) fn is_guarded(problems: &mut Problems<'_>, read: &ReadHttp, data: &Path) {
    if let Some(files) = &read.http.files
        && let Err(error) = tls::server(files)
    {
        let said = error.to_string();
        let (message, hint) = said.split_once("; hint: ").unwrap_or((&said, "make one with `fels cert`"));
        problems.add_hint(read.files_span.clone(), message, hint);
    }
    for (portal, span) in read.portals() {
        if let Some((message, hint)) = exposure(portal, &read.http, data) {
            problems.add_hint(span.clone(), message, hint);
        }
    }
}
