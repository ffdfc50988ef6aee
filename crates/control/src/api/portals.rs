//! Portals: where the node listens.

use axum::Json;
use axum::extract::State;

use super::Context;
use super::model::{Portal, PortalList};

/// Lists where the node listens.
#[utoipa::path(get, path = "/v1/portals", tag = "node", responses((status = 200, body = PortalList)))]
pub(super) async fn list(State(context): State<Context>) -> Json<PortalList> {
    Json(PortalList { portals: all(&context) })
}

pub(super) fn all(context: &Context) -> Vec<Portal> {
    let state = context.administration().state();
    let portals = &state.portals;
    let of = |protocol: &str, address: String| Portal { protocol: protocol.to_owned(), address };
    let lists = [
        ("iscsi", &portals.iscsi),
        ("nbd", &portals.nbd),
        ("nvme", &portals.nvme),
        ("nvme-discovery", &portals.nvme_discovery),
    ];
    let addresses =
        lists.into_iter().flat_map(|(protocol, list)| list.iter().map(move |one| (protocol, one)));
    let mut all: Vec<_> = addresses.map(|(protocol, address)| of(protocol, address.to_string())).collect();
    all.extend(portals.nbd_socket.as_deref().map(|path| of("nbd", context.told_path(path))));
    all
}
