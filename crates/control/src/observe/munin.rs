//! The node as masters of Munin see it.

use std::net::SocketAddr;
use std::sync::Arc;

use monitor::munin::{Server, Source};

use super::Observer;
use crate::config::Munin;

/// Why masters cannot be answered.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot listen on {address} for masters of Munin: {source}; hint: munin-node may be there, see `ss -ltnp`; stop it, or set another `listen` in [munin]"
)]
pub struct MuninError {
    address: SocketAddr,
    source: std::io::Error,
}

/// Answers masters until what it returns is dropped.
pub fn serve(munin: &Munin, observer: &Observer) -> Result<Vec<Server>, MuninError> {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let open = |address: &SocketAddr| {
        let observer = observer.clone();
        let source: Source = Arc::new(move || observer.view().unwrap_or_default());
        Server::start(*address, &name, source).map_err(|source| MuninError { address: *address, source })
    };
    munin.listen.iter().map(open).collect()
}
