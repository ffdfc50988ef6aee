//! Settings: oneself, users, tokens, portals, the configuration.

pub(super) mod configuration;
mod people;

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;

use super::asker::{Asker, segment};
use super::frame::{Frame, Place};
use super::parts::{Kind, State as Shape};
use super::{House, page};
use crate::api::Problem;
use crate::api::model::{ConfigurationText, Portal, PortalList};
use crate::api::people::model::{Token, Tokens, User, Users};

pub(super) fn routes() -> Router<House> {
    Router::new().route("/settings", get(show)).merge(people::routes())
}

#[derive(Template)]
#[template(path = "settings.html")]
struct Settings {
    frame: Frame,
    users: Vec<User>,
    tokens: Vec<Shown>,
    portals: Vec<Portal>,
    configuration: ConfigurationText,
}

/// A token as it is shown.
struct Shown {
    token: Token,
    state: Shape,
    used: String,
}

async fn show(State(house): State<House>, asker: Asker) -> Result<Response, Problem> {
    let frame = Frame::new(&house, &asker, Place::Settings, "Settings").await?;
    let users =
        if frame.may_administer() { asker.get::<Users>("/v1/users").await?.users } else { Vec::new() };
    let tokens = match frame.user() {
        _ if frame.may_administer() => asker.get::<Tokens>("/v1/tokens").await?.tokens,
        Some(user) => asker.get::<Tokens>(&format!("/v1/users/{}/tokens", segment(user))).await?.tokens,
        None => Vec::new(),
    };
    let portals: PortalList = asker.get("/v1/portals").await?;
    let configuration: ConfigurationText = asker.get("/v1/configuration").await?;
    let tokens = tokens.into_iter().map(shown).collect();
    page(&Settings { frame, users, tokens, portals: portals.portals, configuration })
}

fn shown(token: Token) -> Shown {
    let state = if token.expired { Shape::new(Kind::Off, "ended") } else { Shape::new(Kind::Ok, "good") };
    let used = token.used.map_or_else(|| "never".to_owned(), |used| used.to_string());
    Shown { token, state, used }
}
