//! Tokens: what programs come in with.

use axum::extract::State;
use axum::{Extension, Json};

use super::super::wish::{Names, Sent};
use super::super::{Access, Actor, Problem, Who};
use super::model::{Done, MadeToken, NewToken, Token, Tokens, USUAL_TOKEN_TIME_S};
use super::no_user;
use super::users::done;
use crate::audit::note;
use crate::moment::Moment;
use crate::people::token::TokenSecret;
use crate::people::{self, Change, Refusal, Role, TOKEN_TIME_S, check_token_name};

/// Lists the tokens of all users.
#[utoipa::path(get, path = "/v1/tokens", tag = "people", responses((status = 200, body = Tokens)))]
pub(in super::super) async fn all(State(access): State<Access>) -> Json<Tokens> {
    let (people, now) = (access.people(), Moment::now());
    let tokens = people.users().iter().flat_map(|user| people.tokens_of(&user.name));
    Json(Tokens { tokens: tokens.map(|token| Token::of(token, now)).collect() })
}

/// Lists the tokens of a user.
#[utoipa::path(
    get, path = "/v1/users/{user}/tokens", tag = "people",
    params(("user" = String, Path, description = "The name of the user.")),
    responses(
        (status = 200, body = Tokens),
        (status = 400, body = Problem, description = "The request is not understood."),
        (status = 404, body = Problem, description = "There is no such user.")
    )
)]
pub(in super::super) async fn list(
    State(access): State<Access>,
    Names(user): Names<String>,
) -> Result<Json<Tokens>, Problem> {
    let (people, now) = (access.people(), Moment::now());
    people.user(&user).ok_or_else(|| no_user(&user))?;
    Ok(Json(Tokens { tokens: people.tokens_of(&user).map(|token| Token::of(token, now)).collect() }))
}

/// Makes a token for a user, and tells it this once.
#[utoipa::path(
    post, path = "/v1/users/{user}/tokens", tag = "people",
    params(("user" = String, Path, description = "The name of the user.")),
    request_body = NewToken,
    responses(
        (status = 200, body = MadeToken),
        (status = 400, body = Problem, description = "The request is not understood, or the name or time cannot be one."),
        (status = 404, body = Problem, description = "There is no such user."),
        (status = 409, body = Problem, description = "There is such a token, or it may not be made."),
        (status = 413, body = Problem, description = "The request is too large."),
        (status = 503, body = Problem, description = "It cannot be kept.")
    )
)]
pub(in super::super) async fn create(
    State(access): State<Access>,
    Extension(actor): Extension<Actor>,
    Names(user): Names<String>,
    Sent(wish): Sent<NewToken>,
) -> Result<Json<MadeToken>, Problem> {
    check_token_name(&wish.name)?;
    let now = Moment::now();
    let secret = TokenSecret::random()
        .map_err(|error| Problem::unavailable(format!("no random bytes for a token: {error}")))?;
    let token = bounded(&actor, &user, &wish, &secret, now)?;
    let shown = Token::of(&token, now);
    access.change(Change::AddToken(token)).await?;
    note(format!(
        "made the token {} of {user}, with the role {}, good until {}",
        shown.name, shown.role, shown.expires
    ));
    Ok(Json(MadeToken { secret: secret.expose().to_owned(), token: shown }))
}

/// The token that is wished, if who wishes it may have one that may so much, for so long.
fn bounded(
    actor: &Actor,
    user: &str,
    wish: &NewToken,
    secret: &TokenSecret,
    now: Moment,
) -> Result<people::Token, Problem> {
    let role = wish.role.unwrap_or(Role::Viewer);
    let most = actor.role.unwrap_or(Role::Viewer);
    if role > most {
        return Err(Refusal::TokenRole { user: user.to_owned(), role: most }.into());
    }
    let valid_s = wish.valid_s.unwrap_or(USUAL_TOKEN_TIME_S);
    if !TOKEN_TIME_S.contains(&valid_s) {
        return Err(Refusal::TokenTime.into());
    }
    let expires = match &actor.who {
        // Else whoever found a token had one for ever.
        Who::Token { expires, .. } if wish.valid_s.is_none() => now.after(valid_s).min(*expires),
        Who::Token { expires, .. } if now.after(valid_s) > *expires => {
            return Err(Problem::refused(format!(
                "a token that is made with a token ends with that one at the latest: at {expires}"
            ))
            .hint("make it with the password, or on the machine of the node"));
        }
        _ => now.after(valid_s),
    };
    Ok(people::Token {
        user: user.to_owned(),
        name: wish.name.clone(),
        role,
        sha256: secret.digest(),
        created: now,
        expires,
        used: None,
    })
}

/// Revokes a token: it is good for nothing any more.
#[utoipa::path(
    delete, path = "/v1/users/{user}/tokens/{token}", tag = "people",
    params(
        ("user" = String, Path, description = "The name of the user."),
        ("token" = String, Path, description = "The name of the token.")
    ),
    responses(
        (status = 200, body = Done),
        (status = 400, body = Problem, description = "The request is not understood."),
        (status = 404, body = Problem, description = "There is no such token."),
        (status = 409, body = Problem, description = "It may not be."),
        (status = 503, body = Problem, description = "It cannot be kept.")
    )
)]
pub(in super::super) async fn revoke(
    State(access): State<Access>,
    Names((user, name)): Names<(String, String)>,
) -> Result<Json<Done>, Problem> {
    access.change(Change::RemoveToken { user: user.clone(), name: name.clone() }).await?;
    Ok(done(format!("revoked the token {name} of {user}")))
}
