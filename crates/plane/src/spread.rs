//! Connections that come in on one core are spread over all cores.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use ring::{Detached, Listener, Peer};

use crate::log::trouble;
use crate::session::traffic::{Ledger, Portal};
use crate::shard::Shard;

/// Pause after a connection could not be taken.
const PAUSE: Duration = Duration::from_millis(100);

/// What one core keeps of a session room that takes connections. It is installed on every shard
/// ([`Shard::install`]).
pub trait Welcome: 'static {
    /// Its core.
    fn shard(&self) -> &Rc<Shard>;

    /// Whether no more connections are taken.
    fn is_draining(&self) -> bool;

    /// The core of the next connection, after one that came to core `last`. It is welcomed there.
    fn next_core(&self, last: usize) -> usize {
        (last + 1) % self.shard().count()
    }

    /// A new connection of this core, which came by `portal`.
    fn welcome(self: &Rc<Self>, socket: Detached, peer: Peer, portal: Arc<Portal>);
}

/// Takes connections from `listener`, which is that of `portal`, and spreads them over all cores.
pub async fn accept<S: Welcome>(service: Rc<S>, listener: Rc<Listener>, portal: Arc<Portal>) {
    Ledger::of(service.shard()).know(&portal);
    let mut last = 0;
    while !service.is_draining() {
        let (socket, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(_) if service.is_draining() => return,
            Err(error) => {
                trouble!("no connection can be taken now: {error}; hint: raise the limit of open files");
                service.shard().ring().sleep(PAUSE).await;
                continue;
            }
        };
        let Some(socket) = socket.detach() else { continue };
        last = service.next_core(last);
        let portal = portal.clone();
        service.shard().tell(last, move |shard| {
            if let Some(service) = shard.service::<S>() {
                service.welcome(socket, peer, portal);
            }
        });
    }
}
