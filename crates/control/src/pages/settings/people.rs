//! Users and tokens.

use askama::Template;
use axum::Router;
use axum::extract::{Path, State};
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use serde_json::{Value, json};

use super::super::asker::{Asker, segment};
use super::super::form::{Deed, Field, Sent, Sheet, Wrong, blank, carry_out};
use super::super::frame::{Frame, Place};
use super::super::{House, page};
use crate::api::Problem;
use crate::api::people::model::{MadeToken, User};
use crate::people::Role;

pub(super) fn routes() -> Router<House> {
    Router::new()
        .route("/settings/new-user", get(ask_new).post(make))
        .route("/settings/users/{user}/{deed}", get(ask).post(act))
        .route("/settings/users/{user}/new-token", get(ask_token).post(make_token))
        .route("/settings/users/{user}/tokens/{token}/revoke", get(ask_revoke).post(revoke))
}

fn roles(most: Role) -> Vec<(String, String)> {
    let says = |role| match role {
        Role::Viewer => "viewer: looks at everything but people",
        Role::Operator => "operator: changes pools and volumes",
        Role::Admin => "admin: says who else may",
    };
    Role::ALL
        .into_iter()
        .filter(|role| *role <= most)
        .map(|role| (role.name().to_owned(), says(role).to_owned()))
        .collect()
}

fn passwords(sheet: Sheet) -> Sheet {
    sheet
        .field(Field::password("password", "New password", "new-password").help("At least 12 characters. Four words that have nothing to do with one another are easy to remember."))
        .field(Field::password("again", "New password again", "new-password"))
}

fn same(sent: &Sent) -> Result<(), Wrong> {
    if sent.secret("password") == sent.secret("again") {
        return Ok(());
    }
    Err(vec![("again", "this is not the same password".to_owned())])
}

fn new_sheet(asker: &Asker) -> Sheet {
    let sheet = Sheet::new(asker, "/settings", "Make the user")
        .at_once()
        .field(
            Field::text("name", "Name")
                .required()
                .help("Lower-case letters, digits, - _ and ., a letter first."),
        )
        .field(Field::one("role", "Role", roles(Role::Admin)).required());
    passwords(sheet)
}

async fn frame(house: &House, asker: &Asker, title: &str) -> Result<Frame, Problem> {
    Frame::new(house, asker, Place::Settings, title).await
}

async fn ask_new(State(house): State<House>, asker: Asker) -> Result<Response, Problem> {
    let frame = frame(&house, &asker, "New user").await?;
    frame.needs_admin()?;
    blank(frame, new_sheet(&asker))
}

async fn make(State(house): State<House>, asker: Asker, sent: Sent) -> Result<Response, Problem> {
    let frame = frame(&house, &asker, "New user").await?;
    let wish =
        json!({ "name": sent.get("name"), "role": sent.get("role"), "password": sent.secret("password") });
    let deed = same(&sent).map(|()| Deed::new(Method::POST, "/v1/users", wish, "/settings"));
    carry_out(&house, &asker, frame, new_sheet(&asker), &sent, deed).await
}

/// A form of something that is done to a user, and what it comes to.
struct Act {
    title: String,
    sheet: Sheet,
    deed: Result<Deed, Wrong>,
}

fn of(asker: &Asker, frame: &Frame, user: &User, deed: &str, sent: &Sent) -> Option<Act> {
    let name = &user.name;
    let is_own = frame.user() == Some(name);
    let path = format!("/v1/users/{}", segment(name));
    let sheet = |button: &str| Sheet::new(asker, "/settings", button).at_once();
    match deed {
        "password" => {
            let mut wish = json!({ "password": sent.secret("password") });
            let mut form = sheet("Change the password")
                .lead("All of the user's sessions end, this one too if it is yours.");
            if is_own {
                wish["current"] = json!(sent.secret("current"));
                form = form.field(Field::password("current", "Password of now", "current-password"));
            }
            let deed =
                same(sent).map(|()| Deed::new(Method::POST, format!("{path}/password"), wish, "/settings"));
            Some(Act { title: format!("Password of {name}"), sheet: passwords(form), deed })
        }
        "role" => {
            let form = sheet("Change the role")
                .lead("Tokens that may more are lowered with it.")
                .field(Field::one("role", "Role", roles(Role::Admin)).required().value(user.role.name()));
            let wish = json!({ "role": sent.get("role") });
            let deed = Deed::new(Method::POST, format!("{path}/role"), wish, "/settings");
            Some(Act { title: format!("Role of {name}"), sheet: form, deed: Ok(deed) })
        }
        "remove" => {
            let form = sheet("Remove the user")
                .lead("His sessions end, and his tokens are good for nothing any more.")
                .field(
                    Field::text("confirm", "Name of the user")
                        .required()
                        .help(format!("Type {name}, so that it is the one you mean.")),
                )
                .danger();
            let deed = if sent.get("confirm") == name {
                Ok(Deed::new(Method::DELETE, path, json!({}), "/settings"))
            } else {
                Err(vec![("confirm", format!("type the name of the user: {name}"))])
            };
            Some(Act { title: format!("Remove {name}"), sheet: form, deed })
        }
        _ => None,
    }
}

async fn find(asker: &Asker, name: &str) -> Result<User, Problem> {
    asker.get(&format!("/v1/users/{}", segment(name))).await
}

async fn ask(
    State(house): State<House>,
    asker: Asker,
    Path((name, deed)): Path<(String, String)>,
) -> Result<Response, Problem> {
    let user = find(&asker, &name).await?;
    let mut frame = frame(&house, &asker, "").await?;
    if deed != "password" {
        frame.needs_admin()?;
    }
    let act = of(&asker, &frame, &user, &deed, &Sent::default()).ok_or_else(super::super::nowhere)?;
    frame.title = act.title;
    blank(frame, act.sheet)
}

async fn act(
    State(house): State<House>,
    asker: Asker,
    Path((name, deed)): Path<(String, String)>,
    sent: Sent,
) -> Result<Response, Problem> {
    let user = find(&asker, &name).await?;
    let mut frame = frame(&house, &asker, "").await?;
    let act = of(&asker, &frame, &user, &deed, &sent).ok_or_else(super::super::nowhere)?;
    frame.title = act.title;
    carry_out(&house, &asker, frame, act.sheet, &sent, act.deed).await
}

fn token_sheet(asker: &Asker, most: Role) -> Sheet {
    Sheet::new(asker, "/settings", "Make the token")
        .at_once()
        .lead("A program comes in with it. It is shown once, and only its hash is kept.")
        .field(
            Field::text("name", "Name")
                .required()
                .help("What it is for, as backup: lower-case letters, digits, - _ and ."),
        )
        .field(Field::one("role", "Role", roles(most)).required())
        .field(
            Field::new("days", "Days that it is good for", super::super::form::Takes::Number)
                .required()
                .value("90"),
        )
}

#[derive(Template)]
#[template(path = "token.html")]
struct TokenPage {
    frame: Frame,
    made: MadeToken,
}

async fn token_frame(house: &House, asker: &Asker, user: &str) -> Result<(Frame, User, Role), Problem> {
    let user = find(asker, user).await?;
    let frame = frame(house, asker, &format!("New token of {}", user.name)).await?;
    let most = frame.me.as_ref().and_then(|me| me.role).unwrap_or(Role::Viewer).min(user.role);
    Ok((frame, user, most))
}

async fn ask_token(
    State(house): State<House>,
    asker: Asker,
    Path(user): Path<String>,
) -> Result<Response, Problem> {
    let (frame, _, most) = token_frame(&house, &asker, &user).await?;
    blank(frame, token_sheet(&asker, most))
}

/// The answer is the only page that has the token: there is no page to go to afterwards.
async fn make_token(
    State(house): State<House>,
    asker: Asker,
    Path(user): Path<String>,
    sent: Sent,
) -> Result<Response, Problem> {
    let (frame, user, most) = token_frame(&house, &asker, &user).await?;
    let mut sheet = token_sheet(&asker, most);
    sheet.fill(&sent);
    let days = sent.get("days").parse::<u64>().ok().and_then(|days| days.checked_mul(24 * 60 * 60));
    let Some(valid_s) = days else {
        sheet.mark(vec![("days", "this is no whole number".to_owned())]);
        return Ok((StatusCode::UNPROCESSABLE_ENTITY, blank(frame, sheet)?).into_response());
    };
    let wish = json!({ "name": sent.get("name"), "role": sent.get("role"), "valid_s": valid_s });
    let path = format!("/v1/users/{}/tokens", segment(&user.name));
    let sender = asker.clone().with_csrf(sent.get("csrf"));
    match sender.send::<MadeToken>(Method::POST, &path, &wish).await {
        Ok(made) => page(&TokenPage { frame, made }),
        Err(problem) if problem.status == StatusCode::UNAUTHORIZED.as_u16() => Err(problem),
        Err(problem) => {
            let status = StatusCode::from_u16(problem.status).unwrap_or(StatusCode::BAD_REQUEST);
            sheet.refuse(problem);
            Ok((status, blank(frame, sheet)?).into_response())
        }
    }
}

fn revoke_sheet(asker: &Asker) -> Sheet {
    Sheet::new(asker, "/settings", "Revoke it")
        .at_once()
        .lead("It is good for nothing any more, at once.")
        .danger()
}

async fn ask_revoke(
    State(house): State<House>,
    asker: Asker,
    Path((user, token)): Path<(String, String)>,
) -> Result<Response, Problem> {
    let _: Value = asker.get(&format!("/v1/users/{}/tokens", segment(&user))).await?;
    let frame = frame(&house, &asker, &format!("Revoke the token {token} of {user}")).await?;
    blank(frame, revoke_sheet(&asker))
}

async fn revoke(
    State(house): State<House>,
    asker: Asker,
    Path((user, token)): Path<(String, String)>,
    sent: Sent,
) -> Result<Response, Problem> {
    let frame = frame(&house, &asker, &format!("Revoke the token {token} of {user}")).await?;
    let path = format!("/v1/users/{}/tokens/{}", segment(&user), segment(&token));
    let deed = Deed::new(Method::DELETE, path, json!({}), "/settings");
    carry_out(&house, &asker, frame, revoke_sheet(&asker), &sent, Ok(deed)).await
}
