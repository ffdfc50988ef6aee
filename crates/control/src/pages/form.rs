//! Forms: what is asked for, what was typed, what is wrong with it, and the plan that is shown before anything is done.

use askama::Template;
use axum::extract::FromRequest;
use axum::extract::rejection::FormRejection;
use axum::extract::{Form, Request};
use axum::http::{Method, StatusCode};
use axum::response::{Html, IntoResponse as _, Redirect, Response};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::asker::Asker;
use super::frame::Frame;
use super::{House, page};
use crate::api::Problem;

/// What was typed into a form, in its order.
#[derive(Clone, Default)]
pub(super) struct Sent(Vec<(String, String)>);

impl FromRequest<House> for Sent {
    type Rejection = Problem;

    async fn from_request(request: Request, house: &House) -> Result<Sent, Problem> {
        let fields = Form::<Vec<(String, String)>>::from_request(request, house).await;
        let Form(fields) = fields.map_err(|rejection: FormRejection| Problem {
            kind: "urn:fels:bad-request".to_owned(),
            title: "This form is not understood".to_owned(),
            status: rejection.status().as_u16(),
            detail: "what was sent is no form of this page, or is too large".to_owned(),
            hint: Some("go back, and send it from the page".to_owned()),
            fields: Box::default(),
        })?;
        // As text areas send it.
        let plain = |(name, value): (String, String)| (name, value.replace("\r\n", "\n"));
        Ok(Sent(fields.into_iter().map(plain).collect()))
    }
}

impl Sent {
    /// What a field says, without what is around it.
    pub fn get(&self, name: &str) -> &str {
        self.0.iter().find(|(other, _)| other == name).map_or("", |(_, value)| value.trim())
    }

    /// As it was typed: spaces may belong to a password.
    pub fn secret(&self, name: &str) -> &str {
        self.0.iter().find(|(other, _)| other == name).map_or("", |(_, value)| value)
    }

    /// What a field says, if it says something.
    pub fn some(&self, name: &str) -> Option<&str> {
        Some(self.get(name)).filter(|value| !value.is_empty())
    }

    /// Whether something is ticked.
    pub fn is_on(&self, name: &str) -> bool {
        !self.get(name).is_empty()
    }

    /// The lines of a field.
    pub fn lines(&self, name: &str) -> Vec<String> {
        let lines = self.get(name).lines().map(str::trim).filter(|line| !line.is_empty());
        lines.map(str::to_owned).collect()
    }
}

/// What a field takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Takes {
    Text,
    Number,
    Password,
    Lines,
    Tick,
    /// One of these: what is sent, and how it is shown.
    One(Vec<(String, String)>),
    /// Not shown.
    Hidden,
}

/// A field of a form.
#[derive(Clone, Debug)]
pub(super) struct Field {
    pub name: &'static str,
    pub label: String,
    pub help: String,
    pub takes: Takes,
    pub value: String,
    pub wrong: Option<String>,
    pub is_required: bool,
    /// What browsers fill in by themselves.
    pub autocomplete: &'static str,
}

impl Field {
    pub fn new(name: &'static str, label: &str, takes: Takes) -> Field {
        Field {
            name,
            label: label.to_owned(),
            help: String::new(),
            takes,
            value: String::new(),
            wrong: None,
            is_required: false,
            autocomplete: "off",
        }
    }

    pub fn text(name: &'static str, label: &str) -> Field {
        Field::new(name, label, Takes::Text)
    }

    pub fn tick(name: &'static str, label: &str) -> Field {
        Field::new(name, label, Takes::Tick)
    }

    pub fn one(name: &'static str, label: &str, of: Vec<(String, String)>) -> Field {
        Field::new(name, label, Takes::One(of))
    }

    pub fn password(name: &'static str, label: &str, autocomplete: &'static str) -> Field {
        Field { autocomplete, is_required: true, ..Field::new(name, label, Takes::Password) }
    }

    pub fn help(mut self, help: impl Into<String>) -> Field {
        self.help = help.into();
        self
    }

    pub fn required(mut self) -> Field {
        self.is_required = true;
        self
    }

    pub fn value(mut self, value: impl Into<String>) -> Field {
        self.value = value.into();
        self
    }

    pub fn autocomplete(mut self, what: &'static str) -> Field {
        self.autocomplete = what;
        self
    }

    fn is_secret(&self) -> bool {
        self.takes == Takes::Password
    }

    pub fn is_on(&self) -> bool {
        !self.value.is_empty()
    }

    fn is_hidden(&self) -> bool {
        self.takes == Takes::Hidden
    }

    /// What describes it, for who cannot see it.
    pub fn described_by(&self) -> String {
        let mut ids = Vec::new();
        if self.wrong.is_some() {
            ids.push(format!("{}-wrong", self.name));
        }
        if !self.help.is_empty() {
            ids.push(format!("{}-help", self.name));
        }
        ids.join(" ")
    }
}

/// What is wrong with a form, before anybody is asked: a field and a sentence each.
pub(super) type Wrong = Vec<(&'static str, String)>;

/// A form as it is shown.
pub(super) struct Sheet {
    /// What it is about, above the fields.
    pub lead: String,
    /// Where it is sent to.
    pub action: String,
    /// Where one goes who does not want it.
    pub back: String,
    pub fields: Vec<Field>,
    /// What is said on its button.
    pub button: String,
    /// Whether it destroys something.
    pub is_danger: bool,
    /// Whether the API can say what it would do.
    pub is_planned: bool,
    pub problem: Option<Problem>,
    /// What it would do.
    pub plan: Vec<String>,
}

impl Sheet {
    pub fn new(asker: &Asker, back: impl Into<String>, button: &str) -> Sheet {
        Sheet {
            lead: String::new(),
            action: asker.path.clone(),
            back: back.into(),
            fields: Vec::new(),
            button: button.to_owned(),
            is_danger: false,
            is_planned: true,
            problem: None,
            plan: Vec::new(),
        }
    }

    pub fn lead(mut self, lead: impl Into<String>) -> Sheet {
        self.lead = lead.into();
        self
    }

    pub fn field(mut self, field: Field) -> Sheet {
        self.fields.push(field);
        self
    }

    /// The version that the form is meant for: a change of something that is another one by now is refused.
    pub fn version(self, version: &str) -> Sheet {
        self.field(Field::new("version", "", Takes::Hidden).value(version))
    }

    pub fn danger(mut self) -> Sheet {
        self.is_danger = true;
        self
    }

    /// Done at once: there is nothing to plan.
    pub fn at_once(mut self) -> Sheet {
        self.is_planned = false;
        self
    }

    /// With what was typed.
    pub fn fill(&mut self, sent: &Sent) {
        for field in self.fields.iter_mut().filter(|field| !field.is_secret()) {
            sent.get(field.name).clone_into(&mut field.value);
        }
    }

    pub fn mark(&mut self, wrong: Wrong) {
        for (name, sentence) in wrong {
            if let Some(field) = self.fields.iter_mut().find(|field| field.name == name) {
                field.wrong = Some(sentence);
            }
        }
    }

    /// With what the API says is wrong: at the fields, as far as it says which.
    pub fn refuse(&mut self, mut problem: Problem) {
        let mut rest = Vec::new();
        for wrong in problem.fields {
            let sentence = match &wrong.hint {
                Some(hint) => format!("{}: {hint}", wrong.detail),
                None => wrong.detail.clone(),
            };
            let name = wrong.field.clone().unwrap_or_default();
            // As `limits.iops`, or a part of it.
            let fits = |field: &&mut Field| {
                field.name == name
                    || name.starts_with(&format!("{}.", field.name))
                    || name.starts_with(&format!("{}[", field.name))
            };
            match self.fields.iter_mut().filter(|field| !field.is_hidden()).find(fits) {
                Some(field) => field.wrong = Some(sentence),
                None => rest.push(wrong),
            }
        }
        problem.fields = rest.into();
        self.problem = Some(problem);
    }

    /// Whether it is meant for a version of the configuration.
    fn is_versioned(&self) -> bool {
        self.fields.iter().any(|field| field.name == "version")
    }

    /// Those that are shown.
    pub fn shown(&self) -> impl Iterator<Item = &Field> {
        self.fields.iter().filter(|field| !field.is_hidden())
    }

    pub fn hidden(&self) -> impl Iterator<Item = &Field> {
        self.fields.iter().filter(|field| field.is_hidden())
    }

    pub fn wrong(&self) -> Vec<&Field> {
        self.fields.iter().filter(|field| field.wrong.is_some()).collect()
    }
}

#[derive(Template)]
#[template(path = "form.html")]
struct FormPage {
    frame: Frame,
    sheet: Sheet,
}

#[derive(Template)]
#[template(path = "plan.html")]
struct PlanPage {
    frame: Frame,
    sheet: Sheet,
}

/// A form that nobody has filled in yet.
pub(super) fn blank(frame: Frame, sheet: Sheet) -> Result<Response, Problem> {
    page(&FormPage { frame, sheet })
}

/// A change, as the API is asked for it.
pub(super) struct Deed {
    pub method: Method,
    pub path: String,
    pub wish: Map<String, Value>,
    /// Where one goes when it is done.
    pub after: String,
}

impl Deed {
    pub fn new(method: Method, path: impl Into<String>, wish: Value, after: impl Into<String>) -> Deed {
        let wish = if let Value::Object(wish) = wish { wish } else { Map::new() };
        Deed { method, path: path.into(), wish, after: after.into() }
    }
}

/// What the API says of a change.
#[derive(Deserialize)]
struct Made {
    #[serde(default)]
    steps: Vec<String>,
}

/// Shows what a change would do, or does it, or says at the fields why not.
pub(super) async fn carry_out(
    house: &House,
    asker: &Asker,
    mut frame: Frame,
    mut sheet: Sheet,
    sent: &Sent,
    deed: Result<Deed, Wrong>,
) -> Result<Response, Problem> {
    sheet.fill(sent);
    if sent.get("step") == "edit" {
        return blank(frame, sheet);
    }
    let mut deed = match deed {
        Ok(deed) => deed,
        Err(wrong) => {
            sheet.mark(wrong);
            frame.title.insert_str(0, "Not yet: ");
            return Ok((StatusCode::UNPROCESSABLE_ENTITY, blank(frame, sheet)?).into_response());
        }
    };
    let plans = sheet.is_planned && sent.get("step") != "apply";
    if sheet.is_planned {
        deed.wish.insert("dry_run".to_owned(), plans.into());
    }
    if let Some(version) = sent.some("version").filter(|_| sheet.is_versioned()) {
        deed.wish.insert("version".to_owned(), version.into());
    }
    let asker = asker.clone().with_csrf(sent.get("csrf"));
    match asker.send::<Made>(deed.method, &deed.path, &deed.wish).await {
        Ok(made) if plans => {
            sheet.plan = made.steps;
            page(&PlanPage { frame, sheet })
        }
        Ok(made) => Ok(Redirect::to(&house.notes.after(&deed.after, made.steps)).into_response()),
        Err(problem) if problem.status == StatusCode::UNAUTHORIZED.as_u16() => Err(problem),
        Err(problem) => {
            let status = StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            // Who has read the sentence may send it again, for what is there now.
            if status == StatusCode::PRECONDITION_FAILED
                && let (Some(field), Some(now)) =
                    (sheet.fields.iter_mut().find(|field| field.name == "version"), &frame.status)
            {
                field.value.clone_from(&now.version);
            }
            sheet.refuse(problem);
            frame.title.insert_str(0, "Not yet: ");
            Ok((status, blank(frame, sheet)?).into_response())
        }
    }
}

/// As HTML.
pub(super) fn html(text: String) -> Response {
    Html(text).into_response()
}
