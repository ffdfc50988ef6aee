//! Users: who they are, and changes of them.

use axum::extract::State;
use axum::{Extension, Json};

use super::super::wish::{Names, Sent};
use super::super::{Access, Actor, Problem};
use super::model::{Done, NewPassword, NewRole, NewUser, User, Users};
use super::no_user;
use crate::audit::note;
use crate::moment::Moment;
use crate::people::password::Password;
use crate::people::{self, Change, check_user_name};

/// Lists all users.
#[utoipa::path(get, path = "/v1/users", tag = "people", responses((status = 200, body = Users)))]
pub(in super::super) async fn list(State(access): State<Access>) -> Json<Users> {
    let people = access.people();
    Json(Users { users: people.users().iter().map(|user| User::of(&people, user)).collect() })
}

/// Tells about a user.
#[utoipa::path(
    get, path = "/v1/users/{user}", tag = "people",
    params(("user" = String, Path, description = "The name of the user.")),
    responses(
        (status = 200, body = User),
        (status = 400, body = Problem, description = "The request is not understood."),
        (status = 404, body = Problem, description = "There is no such user.")
    )
)]
pub(in super::super) async fn one(
    State(access): State<Access>,
    Names(name): Names<String>,
) -> Result<Json<User>, Problem> {
    let people = access.people();
    let user = people.user(&name).ok_or_else(|| no_user(&name))?;
    Ok(Json(User::of(&people, user)))
}

/// Makes a user.
#[utoipa::path(
    post, path = "/v1/users", tag = "people", request_body = NewUser,
    responses(
        (status = 200, body = Done),
        (status = 400, body = Problem, description = "The request is not understood, or the name or password cannot be one."),
        (status = 409, body = Problem, description = "There is such a user, or he may not be made."),
        (status = 413, body = Problem, description = "The request is too large."),
        (status = 503, body = Problem, description = "It cannot be kept.")
    )
)]
pub(in super::super) async fn create(
    State(access): State<Access>,
    Sent(wish): Sent<NewUser>,
) -> Result<Json<Done>, Problem> {
    check_user_name(&wish.name)?;
    let password = access.hashing().hash(Password::new(wish.password, &wish.name)?).await?;
    let (name, role) = (wish.name, wish.role);
    let user = people::User { name: name.clone(), role, password, created: Moment::now() };
    access.change(Change::AddUser(user)).await?;
    Ok(done(format!("made the user {name}, with the role {role}")))
}

/// Gives a user another password, and ends his sessions.
#[utoipa::path(
    post, path = "/v1/users/{user}/password", tag = "people",
    params(("user" = String, Path, description = "The name of the user.")),
    request_body = NewPassword,
    responses(
        (status = 200, body = Done),
        (status = 400, body = Problem, description = "The request is not understood, or the password cannot be one."),
        (status = 404, body = Problem, description = "There is no such user."),
        (status = 409, body = Problem, description = "It may not be."),
        (status = 413, body = Problem, description = "The request is too large."),
        (status = 429, body = Problem, description = "That was tried too often."),
        (status = 503, body = Problem, description = "It cannot be kept.")
    )
)]
pub(in super::super) async fn password(
    State(access): State<Access>,
    Extension(actor): Extension<Actor>,
    Names(name): Names<String>,
    Sent(wish): Sent<NewPassword>,
) -> Result<Json<Done>, Problem> {
    let kept = access.people().user(&name).ok_or_else(|| no_user(&name))?.password.clone();
    let password = Password::new(wish.password, &name)?;
    // Whoever found a token, or an open browser, is not to lock its user out.
    if actor.user() == Some(&name) {
        let current = Password::said(wish.current.unwrap_or_default());
        if let Err(wait) = access.attempt(&actor, Some(&name), Moment::now()) {
            return Err(Problem::too_many(format!(
                "that was tried too often: the next time in {wait} seconds"
            ))
            .hint("wait, or ask an admin for another password"));
        }
        if !access.hashing().verify(current, Some(kept)).await? {
            return Err(Problem::forbidden("that is not the password that you have")
                .hint("send it as `current`; an admin can give you another one without it")
                .at("current"));
        }
        access.succeeded(&actor, &name);
    }
    let password = access.hashing().hash(password).await?;
    access.change(Change::SetPassword { user: name.clone(), password }).await?;
    access.end_all_of(&name);
    Ok(done(format!("gave {name} another password")))
}

/// Gives a user another role.
#[utoipa::path(
    post, path = "/v1/users/{user}/role", tag = "people",
    params(("user" = String, Path, description = "The name of the user.")),
    request_body = NewRole,
    responses(
        (status = 200, body = Done),
        (status = 400, body = Problem, description = "The request is not understood."),
        (status = 404, body = Problem, description = "There is no such user."),
        (status = 409, body = Problem, description = "He is the last admin."),
        (status = 413, body = Problem, description = "The request is too large."),
        (status = 503, body = Problem, description = "It cannot be kept.")
    )
)]
pub(in super::super) async fn role(
    State(access): State<Access>,
    Names(name): Names<String>,
    Sent(wish): Sent<NewRole>,
) -> Result<Json<Done>, Problem> {
    let role = wish.role;
    access.change(Change::SetRole { user: name.clone(), role }).await?;
    Ok(done(format!("gave {name} the role {role}")))
}

/// Removes a user, and his tokens.
#[utoipa::path(
    delete, path = "/v1/users/{user}", tag = "people",
    params(("user" = String, Path, description = "The name of the user.")),
    responses(
        (status = 200, body = Done),
        (status = 400, body = Problem, description = "The request is not understood."),
        (status = 404, body = Problem, description = "There is no such user."),
        (status = 409, body = Problem, description = "He is the last admin."),
        (status = 503, body = Problem, description = "It cannot be kept.")
    )
)]
pub(in super::super) async fn remove(
    State(access): State<Access>,
    Names(name): Names<String>,
) -> Result<Json<Done>, Problem> {
    let tokens = access.people().tokens_of(&name).count();
    access.change(Change::RemoveUser { user: name.clone() }).await?;
    access.end_all_of(&name);
    let tokens = match tokens {
        0 => String::new(),
        1 => " and a token".to_owned(),
        count => format!(" and {count} tokens"),
    };
    Ok(done(format!("removed the user {name}{tokens}")))
}

/// Something was done; the audit log says the same.
pub(super) fn done(step: String) -> Json<Done> {
    note(step.clone());
    Json(Done { steps: vec![step] })
}
