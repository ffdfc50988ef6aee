//! Connections that come in on one core are handed to all cores in turn.

use std::rc::Rc;
use std::time::Duration;

use ring::{Detached, Listener, Peer};

use crate::log::trouble;
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

    /// A new connection of this core.
    fn welcome(self: &Rc<Self>, socket: Detached, peer: Peer);
}

/// Takes connections from `listener` and spreads them over all cores in turn.
pub async fn accept<S: Welcome>(service: Rc<S>, listener: Rc<Listener>) {
    let mut turn = 0;
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
        turn = (turn + 1) % service.shard().count();
        service.shard().tell(turn, move |shard| {
            if let Some(service) = shard.service::<S>() {
                service.welcome(socket, peer);
            }
        });
    }
}
