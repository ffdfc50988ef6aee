//! Coming in and going, and the first admin.

use askama::Template;
use axum::http::{Method, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use serde_json::{Value, json};

use super::asker::{Asker, read};
use super::form::{Field, Sent, Sheet, Takes};
use super::frame::Frame;
use super::page;
use crate::api::Problem;
use crate::api::people::model::SetupState;

#[derive(Template)]
#[template(path = "login.html")]
struct LoginPage {
    frame: Frame,
    sheet: Sheet,
    command: String,
    also: String,
}

/// Where somebody comes in who wanted this page.
pub(super) fn address(asker: &Asker) -> String {
    let query = asker.query.as_ref().map(|query| format!("?{query}")).unwrap_or_default();
    let wanted = format!("{}{query}", asker.path);
    if wanted == "/" { "/login".to_owned() } else { format!("/login?next={}", super::segment(&wanted)) }
}

/// Where somebody goes who came in: only to a page of this node.
fn next(wanted: &str) -> &str {
    let is_own = wanted.starts_with('/')
        && !wanted.starts_with("//")
        && wanted.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\')
        && !["/login", "/logout", "/setup", "/live"].iter().any(|door| wanted.starts_with(door));
    if is_own { wanted } else { "/" }
}

fn sheet(asker: &Asker) -> Sheet {
    Sheet::new(asker, "/", "Sign in")
        .at_once()
        .field(Field::text("name", "Name").required().autocomplete("username"))
        .field(Field::password("password", "Password", "current-password"))
        .field(Field::new("next", "", Takes::Hidden))
}

/// Asks who somebody is.
pub(super) async fn ask(asker: Asker) -> Result<Response, Problem> {
    let me = asker.me().await?;
    let wanted = asker.query.as_deref().and_then(|query| query.strip_prefix("next=")).unwrap_or_default();
    let wanted = decoded(wanted);
    if me.is_some_and(|me| me.user.is_some()) {
        return Ok(Redirect::to(next(&wanted)).into_response());
    }
    if asker.get::<SetupState>("/v1/setup").await?.open {
        return Ok(Redirect::to("/setup").into_response());
    }
    let mut sheet = sheet(&asker);
    next(&wanted).clone_into(&mut sheet.fields[2].value);
    login_page(sheet)
}

fn login_page(sheet: Sheet) -> Result<Response, Problem> {
    let also = "Who forgot his password gets another one on the machine of the node: fels user password NAME"
        .to_owned();
    page(&LoginPage { frame: Frame::bare("Sign in"), sheet, command: String::new(), also })
}

/// Lets somebody in who knows his password.
pub(super) async fn enter(asker: Asker, sent: Sent) -> Result<Response, Problem> {
    let wish = json!({ "name": sent.get("name"), "password": sent.secret("password") });
    come_in(&asker, &wish, next(sent.get("next")), |problem| {
        let mut sheet = sheet(&asker);
        sheet.fill(&sent);
        sheet.problem = Some(problem);
        login_page(sheet)
    })
    .await
}

/// Begins a session. The cookie goes on to the browser as it is.
async fn come_in(
    asker: &Asker,
    wish: &Value,
    after: &str,
    again: impl FnOnce(Problem) -> Result<Response, Problem>,
) -> Result<Response, Problem> {
    let answer = asker.sent(Method::POST, "/v1/login", wish).await?;
    let cookie = answer.headers().get(header::SET_COOKIE).cloned();
    let wait = answer.headers().get(header::RETRY_AFTER).cloned();
    match read::<Value>(answer).await {
        Ok(_) => {
            let mut response = Redirect::to(after).into_response();
            if let Some(cookie) = cookie {
                response.headers_mut().insert(header::SET_COOKIE, cookie);
            }
            Ok(response)
        }
        Err(problem) => {
            let status = StatusCode::from_u16(problem.status).unwrap_or(StatusCode::UNAUTHORIZED);
            let mut response = (status, again(problem)?).into_response();
            if let Some(wait) = wait {
                response.headers_mut().insert(header::RETRY_AFTER, wait);
            }
            Ok(response)
        }
    }
}

/// Ends a session.
pub(super) async fn leave(asker: Asker, sent: Sent) -> Result<Response, Problem> {
    let asker = asker.with_csrf(sent.get("csrf"));
    let answer = asker.sent(Method::POST, "/v1/logout", &json!({})).await?;
    let cookie = answer.headers().get(header::SET_COOKIE).cloned();
    let gone: Result<Value, Problem> = read(answer).await;
    match gone {
        // Who has no session any more is out already.
        Err(problem) if problem.status != StatusCode::UNAUTHORIZED.as_u16() => Err(problem),
        _ => {
            let mut response = Redirect::to("/login").into_response();
            if let Some(cookie) = cookie {
                response.headers_mut().insert(header::SET_COOKIE, cookie);
            }
            Ok(response)
        }
    }
}

fn first_sheet(asker: &Asker) -> Sheet {
    Sheet::new(asker, "/", "Make the first admin")
        .at_once()
        .lead("This node has no users yet. The first one is an admin, who can make others.")
        .field(Field::text("code", "Code").required().help("It shows that you may administer this machine."))
        .field(Field::text("name", "Name").required().autocomplete("username").help("Lower-case letters, digits, - _ and ., a letter first."))
        .field(Field::password("password", "Password", "new-password").help("At least 12 characters. Four words that have nothing to do with one another are easy to remember."))
        .field(Field::password("again", "Password again", "new-password"))
}

fn first_page(sheet: Sheet, setup: &SetupState) -> Result<Response, Problem> {
    let command = setup.code_file.as_ref().map(|file| format!("cat {file}")).unwrap_or_default();
    let also = "Or make the admin there by command: fels user add NAME --role admin".to_owned();
    page(&LoginPage { frame: Frame::bare("Make the first admin"), sheet, command, also })
}

/// Leads somebody to the first admin, who is not there yet.
pub(super) async fn ask_first(asker: Asker) -> Result<Response, Problem> {
    let setup: SetupState = asker.get("/v1/setup").await?;
    if !setup.open {
        return Ok(Redirect::to("/login").into_response());
    }
    first_page(first_sheet(&asker), &setup)
}

/// Makes the first admin, and lets him in.
pub(super) async fn enter_first(asker: Asker, sent: Sent) -> Result<Response, Problem> {
    let setup: SetupState = asker.get("/v1/setup").await?;
    if !setup.open {
        return Ok(Redirect::to("/login").into_response());
    }
    let mut sheet = first_sheet(&asker);
    sheet.fill(&sent);
    let password = sent.secret("password");
    if password != sent.secret("again") {
        sheet.mark(vec![("again", "this is not the same password".to_owned())]);
        return Ok((StatusCode::UNPROCESSABLE_ENTITY, first_page(sheet, &setup)?).into_response());
    }
    let wish = json!({ "name": sent.get("name"), "password": password, "code": sent.get("code") });
    if let Err(problem) = asker.send::<Value>(Method::POST, "/v1/setup", &wish).await {
        let status = StatusCode::from_u16(problem.status).unwrap_or(StatusCode::FORBIDDEN);
        sheet.refuse(problem);
        return Ok((status, first_page(sheet, &setup)?).into_response());
    }
    let wish = json!({ "name": sent.get("name"), "password": password });
    come_in(&asker, &wish, "/", |_| Ok(Redirect::to("/login").into_response())).await
}

/// What a part of an address says.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, behind)) = rest.split_first() {
        let digits = behind.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        let hex = digits.filter(|_| byte == b'%').and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(hex.unwrap_or(byte));
        rest = if hex.is_some() { &behind[2..] } else { behind };
    }
    String::from_utf8(bytes).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_came_in_goes_to_a_page_of_this_node_and_nowhere_else() {
        assert_eq!(next("/pools/tank?said=1"), "/pools/tank?said=1");
        for bad in [
            "",
            "https://evil.example",
            "//evil.example",
            "/\\evil.example",
            "/\t/evil",
            "javascript:1",
            "/login?next=/",
        ] {
            assert_eq!(next(bad), "/", "{bad}");
        }
    }

    #[test]
    fn what_an_address_says_is_read_as_it_was_meant() {
        assert_eq!(decoded("%2Fpools%2Ftank%3Fa"), "/pools/tank?a");
        assert_eq!(decoded("%zz%2"), "%zz%2");
        assert_eq!(decoded("%FF"), "");
    }
}
