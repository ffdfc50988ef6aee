//! One session, only to see whether the target is there and what it is like.

use ring::Reactor;

use super::measure::run_id;
use crate::error::LabError;
use crate::initiator::{Geometry, OpenOptions, Session};
use crate::target::Target;

/// Opens a session, asks, and closes it.
pub(crate) fn probe(target: &Target, open: &OpenOptions) -> Result<Geometry, LabError> {
    let reactor = Reactor::new(&ring::Options::default())?;
    let (ring, target, open) = (reactor.ring().clone(), target.clone(), open.clone());
    reactor.block_on(async move {
        let failed = |source| LabError::Open { target: target.to_string(), source };
        let open = OpenOptions { session_id: run_id(), ..open };
        let session = Session::open(&ring, &target, &open).await.map_err(failed)?;
        let geometry = session.geometry();
        session.close().await;
        Ok(geometry)
    })
}
