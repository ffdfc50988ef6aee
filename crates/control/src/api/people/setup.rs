//! The first admin, made from a browser or a program on the machine of the node.

use axum::extract::State;
use axum::{Extension, Json};

use super::super::wish::Sent;
use super::super::{Access, Actor, Peer, Problem};
use super::model::{Done, FirstAdmin, SetupState};
use super::users::done;
use crate::moment::Moment;
use crate::people::password::Password;
use crate::people::{self, Change, Role, check_user_name};

/// Tells whether the first admin can be made here.
#[utoipa::path(get, path = "/v1/setup", tag = "people", responses((status = 200, body = SetupState)))]
pub(in super::super) async fn look(
    State(access): State<Access>,
    Extension(actor): Extension<Actor>,
) -> Json<SetupState> {
    let path = access.setup_path().filter(|_| is_here(&actor));
    Json(SetupState { open: path.is_some(), code_file: path.map(|path| path.display().to_string()) })
}

/// Makes the first admin, for who is on the machine of the node and has the code that is in its data directory.
#[utoipa::path(
    post, path = "/v1/setup", tag = "people", request_body = FirstAdmin,
    responses(
        (status = 200, body = Done),
        (status = 400, body = Problem, description = "The request is not understood, or the name or password cannot be one."),
        (status = 409, body = Problem, description = "There are users already."),
        (status = 413, body = Problem, description = "The request is too large."),
        (status = 429, body = Problem, description = "That was tried too often."),
        (status = 503, body = Problem, description = "It cannot be kept.")
    )
)]
pub(in super::super) async fn first(
    State(access): State<Access>,
    Extension(actor): Extension<Actor>,
    Sent(wish): Sent<FirstAdmin>,
) -> Result<Json<Done>, Problem> {
    if !is_here(&actor) {
        return Err(Problem::forbidden("the first admin is made on the machine of the node")
            .hint("run `fels user add NAME --role admin` there"));
    }
    let now = Moment::now();
    if let Err(wait) = access.attempt(&actor, None, now) {
        return Err(Problem::too_many(format!("that was tried too often: the next time in {wait} seconds"))
            .hint("wait; or run `fels user add NAME --role admin` on the machine of the node"));
    }
    match access.is_setup_code(&wish.code) {
        None => return Err(there_already()),
        Some(false) => {
            return Err(Problem::forbidden("that is not the code of this node")
                .hint("read it from the file that this page names: each start of the node has another one")
                .at("code"));
        }
        Some(true) => {}
    }
    check_user_name(&wish.name)?;
    let password = access.hashing().hash(Password::new(wish.password, &wish.name)?).await?;
    // Somebody may have been quicker: the code is good once.
    if access.is_setup_code(&wish.code) != Some(true) {
        return Err(there_already());
    }
    let user = people::User { name: wish.name.clone(), role: Role::Admin, password, created: now };
    access.change(Change::AddUser(user)).await?;
    Ok(done(format!("made the first admin {}, with the code of the data directory", wish.name)))
}

fn there_already() -> Problem {
    Problem::refused("this node has users already")
        .hint("come in with a password; an admin makes further users")
}

fn is_here(actor: &Actor) -> bool {
    matches!(actor.from, Peer::Remote { is_loopback: true, .. })
}
