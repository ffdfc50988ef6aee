//! The configuration as one text.

use axum::Router;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::Method;
use axum::response::Response;
use axum::routing::get;
use serde_json::json;

use super::super::House;
use super::super::asker::Asker;
use super::super::form::{Deed, Field, Sent, Sheet, Takes, blank, carry_out};
use super::super::frame::{Frame, Place};
use crate::api::Problem;
use crate::api::model::ConfigurationText;
use crate::config::MAX_FILE_BYTES;

/// Bytes of a form that has a whole configuration: a character becomes three.
const MAX_BYTES: usize = 3 * MAX_FILE_BYTES as usize + (64 << 10);

pub(in super::super) fn routes() -> Router<House> {
    Router::new()
        .route("/settings/configuration", get(ask).post(change))
        .layer(DefaultBodyLimit::max(MAX_BYTES))
}

fn sheet(asker: &Asker) -> Sheet {
    Sheet::new(asker, "/settings", "Make it so").lead(
        "The configuration as a whole. Volumes that are new in it are served, others altered in use; one that is not in it any more is taken out of service, \
         and its bytes stay. Secrets are shown as ***, and a text with them is not taken: change it on the machine of the node then.",
    )
}

fn text() -> Field {
    Field { is_required: true, ..Field::new("text", "Configuration", Takes::Lines) }
}

async fn ask(State(house): State<House>, asker: Asker) -> Result<Response, Problem> {
    let frame = Frame::new(&house, &asker, Place::Settings, "Change the configuration").await?;
    frame.needs_admin()?;
    let now: ConfigurationText = asker.get("/v1/configuration").await?;
    let sheet = sheet(&asker).field(text().value(now.text)).version(&now.version);
    blank(frame, sheet)
}

async fn change(State(house): State<House>, asker: Asker, sent: Sent) -> Result<Response, Problem> {
    let frame = Frame::new(&house, &asker, Place::Settings, "Change the configuration").await?;
    let sheet = sheet(&asker).field(text()).version(sent.get("version"));
    let mut whole = sent.secret("text").to_owned();
    if !whole.ends_with('\n') {
        whole.push('\n');
    }
    let deed = Deed::new(Method::PUT, "/v1/configuration", json!({ "text": whole }), "/settings");
    carry_out(&house, &asker, frame, sheet, &sent, Ok(deed)).await
}
