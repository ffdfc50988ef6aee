//! Watching a connection: an initiator that says nothing is asked, one that does not answer or does not take what is
//! sent is dead.

use std::rc::Rc;
use std::time::Duration;

use super::connection::Connection;
use super::session::Session;
use crate::limits::SEND_STALL;

/// Watches until the connection ends.
pub async fn watch(session: Rc<Session>, connection: Rc<Connection>) {
    let options = session.node.options;
    let tick =
        (options.nop_interval.min(options.nop_timeout).min(SEND_STALL) / 4).max(Duration::from_millis(50));
    let mut asked = None;
    let mut tag = 0u32;
    while !connection.outgoing.is_closed() {
        connection.ring().sleep(tick).await;
        let now = connection.ring().now();
        if connection.outgoing.sending_since().is_some_and(|since| now.since(since) > SEND_STALL) {
            connection.close(format!("it has not taken what is sent for {} seconds", SEND_STALL.as_secs()));
            return;
        }
        let silent = now.since(connection.last_received.get());
        match asked {
            Some(since) if silent < now.since(since) => asked = None,
            Some(since) if now.since(since) > options.nop_timeout => {
                let seconds = silent.as_secs_f32();
                connection
                    .close(format!("it has said nothing for {seconds:.0} seconds, not even to a NOP-In"));
                return;
            }
            None if silent > options.nop_interval => {
                tag = tag.wrapping_add(1) & 0x7fff_ffff;
                connection.ping.set(Some(tag));
                session.send_ping(&connection, tag);
                asked = Some(now);
            }
            _ => {}
        }
    }
}
