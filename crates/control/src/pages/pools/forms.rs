//! What can be done to pools and their members.

use axum::Router;
use axum::extract::{Path, State};
use axum::http::Method;
use axum::response::Response;
use axum::routing::get;
use serde_json::{Value, json};

use super::super::House;
use super::super::asker::{Asker, segment};
use super::super::form::{Deed, Field, Sent, Sheet, Takes, Wrong, blank, carry_out};
use super::super::frame::{Frame, Place};
use crate::api::Problem;
use crate::size::parse_bytes;

pub(super) fn routes() -> Router<House> {
    Router::new()
        .route("/new-pool", get(ask_new).post(make))
        .route("/pools/{pool}/{deed}", get(ask).post(act))
        .route("/pools/{pool}/members/{slot}/{deed}", get(ask_member).post(act_member))
        .route("/pools/{pool}/spares/{id}/remove", get(ask_spare).post(act_spare))
}

const LEVELS: [(&str, &str); 6] = [
    ("raid6", "raid6: any two members may fail (4 or more)"),
    ("raid5", "raid5: any one member may fail (3 or more)"),
    ("raid10", "raid10: pairs of copies, fast (4 or more, an even number)"),
    ("raid1", "raid1: copies of everything (2 or more)"),
    ("raid0", "raid0: no member may fail (2 or more)"),
    ("single", "single: one member, which may not fail"),
];

fn options(of: &[(&str, &str)]) -> Vec<(String, String)> {
    of.iter().map(|(value, shown)| ((*value).to_owned(), (*shown).to_owned())).collect()
}

fn places(name: &'static str, label: &str) -> Field {
    Field::new(name, label, Takes::Lines)
        .help("One to a line: a blank file or disk, from the root on, as /dev/sdb. Files that are not there are made.")
}

fn new_sheet(asker: &Asker, version: &str) -> Sheet {
    Sheet::new(asker, "/pools", "Make the pool")
        .lead("A pool puts several files or disks under RAID and keeps a checksum of every block. It is open at once.")
        .field(Field::text("name", "Name").required().help("Lower-case letters, digits, - and ., as tank."))
        .field(Field::one("raid", "Arrangement", options(&LEVELS)).required())
        .field(places("members", "Members").required())
        .field(places("spares", "Spares"))
        .field(Field::text("member_size", "Size of files that are made").help("As 100GiB. Only for members that are files and not there yet."))
        .version(version)
}

fn lines(sent: &Sent, name: &str) -> Option<Vec<String>> {
    Some(sent.lines(name)).filter(|lines| !lines.is_empty())
}

fn new_deed(sent: &Sent) -> Deed {
    let mut wish =
        json!({ "name": sent.get("name"), "raid": sent.get("raid"), "members": sent.lines("members") });
    if let Some(spares) = lines(sent, "spares") {
        wish["spares"] = json!(spares);
    }
    if let Some(size) = sent.some("member_size") {
        wish["member_size"] = json!(size);
    }
    Deed::new(Method::POST, "/v1/pools", json!({ "pool": wish }), "/pools")
}

async fn new_frame(house: &House, asker: &Asker) -> Result<Frame, Problem> {
    Frame::new(house, asker, Place::Pools, "New pool").await
}

async fn ask_new(State(house): State<House>, asker: Asker) -> Result<Response, Problem> {
    let frame = new_frame(&house, &asker).await?;
    frame.needs_operator()?;
    let sheet = new_sheet(&asker, &frame.version());
    blank(frame, sheet)
}

async fn make(State(house): State<House>, asker: Asker, sent: Sent) -> Result<Response, Problem> {
    let frame = new_frame(&house, &asker).await?;
    let sheet = new_sheet(&asker, sent.get("version"));
    carry_out(&house, &asker, frame, sheet, &sent, Ok(new_deed(&sent))).await
}

/// A form of something that is done to a pool or a part of it, and what it comes to.
struct Act {
    title: String,
    sheet: Sheet,
    method: Method,
    path: String,
    wish: fn(&Sent) -> Result<Value, Wrong>,
}

#[expect(clippy::unnecessary_wraps, reason = "one of several of this shape")]
fn nothing(_: &Sent) -> Result<Value, Wrong> {
    Ok(json!({}))
}

#[expect(clippy::unnecessary_wraps, reason = "one of several of this shape")]
fn with_place(sent: &Sent) -> Result<Value, Wrong> {
    Ok(sent.some("place").map_or_else(|| json!({}), |place| json!({ "place": place })))
}

fn further(sent: &Sent) -> Result<Value, Wrong> {
    let mut wish = json!({ "places": sent.lines("places") });
    if let Some(size) = sent.some("member_size") {
        let bytes = parse_bytes(size).map_err(|error| {
            vec![("member_size", format!("this is no size: {error}; write it as 100GiB"))]
        })?;
        wish["member_bytes"] = json!(bytes);
    }
    Ok(wish)
}

fn of_pool(asker: &Asker, pool: &str, deed: &str) -> Option<Act> {
    let back = format!("/pools/{}", segment(pool));
    let base = format!("/v1{back}");
    let sheet = |button: &str| Sheet::new(asker, back.clone(), button);
    let act = |title: String, sheet, method, path, wish| Some(Act { title, sheet, method, path, wish });
    match deed {
        "scrub" => act(
            format!("Scrub pool {pool}"),
            sheet("Begin the scrub").lead("Everything is read, verified, and repaired where it is wrong. The pool stays in use."),
            Method::POST,
            format!("{base}/scrub"),
            nothing,
        ),
        "stop-scrub" => act(
            format!("End the scrub of pool {pool}"),
            sheet("End the scrub"),
            Method::DELETE,
            format!("{base}/scrub"),
            nothing,
        ),
        "extend" => act(
            format!("Further members of pool {pool}"),
            sheet("Add the members")
                .field(places("places", "Members").required())
                .field(Field::text("member_size", "Size of files that are made").help("As large as the others without a wish.")),
            Method::POST,
            format!("{base}/members"),
            further,
        ),
        "add-spare" => act(
            format!("A spare for pool {pool}"),
            sheet("Add the spare")
                .lead("It takes the place of a member that fails, by itself.")
                .field(Field::text("place", "File or disk").required().help("Blank, as large as the members, from the root on: /dev/sdf.")),
            Method::POST,
            format!("{base}/spares"),
            with_place,
        ),
        "grow" => act(
            format!("Let pool {pool} grow"),
            sheet("Let it grow").lead("Once all of its members were replaced by larger ones, a pool can have the room that they have."),
            Method::POST,
            format!("{base}/grow"),
            nothing,
        ),
        _ => None,
    }
}

fn of_member(asker: &Asker, pool: &str, slot: &str, deed: &str) -> Option<Act> {
    let back = format!("/pools/{}", segment(pool));
    let path = format!("/v1{back}/members/{}/{}", segment(slot), segment(deed));
    let sheet = |button: &str| Sheet::new(asker, back.clone(), button);
    let act = |title: String, sheet, wish| {
        Some(Act { title, sheet, method: Method::POST, path: path.clone(), wish })
    };
    match deed {
        "offline" => act(
            format!("Take member {slot} out of pool {pool}"),
            sheet("Take it out").lead("It is neither read nor written until it is brought back. What is written meanwhile is noted.").danger(),
            nothing,
        ),
        "online" => act(
            format!("Bring member {slot} of pool {pool} back"),
            sheet("Bring it back")
                .lead("It gets what it missed.")
                .field(Field::text("place", "File or disk").help("Only if it has moved: where it is now, from the root on.")),
            with_place,
        ),
        "replace" => act(
            format!("Replace member {slot} of pool {pool}"),
            sheet("Replace it")
                .lead("Another file or disk takes its place, and gets everything from the other members.")
                .field(Field::text("place", "New file or disk").required().help("Blank, as large as the members, from the root on: /dev/sdf. A file that is not there is made.")),
            with_place,
        ),
        _ => None,
    }
}

fn of_spare(asker: &Asker, pool: &str, id: &str) -> Act {
    let back = format!("/pools/{}", segment(pool));
    Act {
        title: format!("Take a spare from pool {pool}"),
        sheet: Sheet::new(asker, back.clone(), "Take it away").lead("It is blank again afterwards."),
        method: Method::DELETE,
        path: format!("/v1{back}/spares/{}", segment(id)),
        wish: nothing,
    }
}

/// Shows the form, if there is such a pool and who asks may.
async fn show(house: &House, asker: &Asker, pool: &str, act: Option<Act>) -> Result<Response, Problem> {
    let _: Value = asker.get(&format!("/v1/pools/{}", segment(pool))).await?;
    let act = act.ok_or_else(super::super::nowhere)?;
    let frame = Frame::new(house, asker, Place::Pools, &act.title).await?;
    frame.needs_operator()?;
    blank(frame, act.sheet)
}

async fn run(house: &House, asker: &Asker, sent: &Sent, act: Option<Act>) -> Result<Response, Problem> {
    let act = act.ok_or_else(super::super::nowhere)?;
    let frame = Frame::new(house, asker, Place::Pools, &act.title).await?;
    let after = act.sheet.back.clone();
    let deed = (act.wish)(sent).map(|wish| Deed::new(act.method, act.path, wish, after));
    carry_out(house, asker, frame, act.sheet, sent, deed).await
}

async fn ask(
    State(house): State<House>,
    asker: Asker,
    Path((pool, deed)): Path<(String, String)>,
) -> Result<Response, Problem> {
    let act = of_pool(&asker, &pool, &deed);
    show(&house, &asker, &pool, act).await
}

async fn act(
    State(house): State<House>,
    asker: Asker,
    Path((pool, deed)): Path<(String, String)>,
    sent: Sent,
) -> Result<Response, Problem> {
    let act = of_pool(&asker, &pool, &deed);
    run(&house, &asker, &sent, act).await
}

async fn ask_member(
    State(house): State<House>,
    asker: Asker,
    Path((pool, slot, deed)): Path<(String, String, String)>,
) -> Result<Response, Problem> {
    let act = of_member(&asker, &pool, &slot, &deed);
    show(&house, &asker, &pool, act).await
}

async fn act_member(
    State(house): State<House>,
    asker: Asker,
    Path((pool, slot, deed)): Path<(String, String, String)>,
    sent: Sent,
) -> Result<Response, Problem> {
    let act = of_member(&asker, &pool, &slot, &deed);
    run(&house, &asker, &sent, act).await
}

async fn ask_spare(
    State(house): State<House>,
    asker: Asker,
    Path((pool, id)): Path<(String, String)>,
) -> Result<Response, Problem> {
    let act = of_spare(&asker, &pool, &id);
    show(&house, &asker, &pool, Some(act)).await
}

async fn act_spare(
    State(house): State<House>,
    asker: Asker,
    Path((pool, id)): Path<(String, String)>,
    sent: Sent,
) -> Result<Response, Problem> {
    let act = of_spare(&asker, &pool, &id);
    run(&house, &asker, &sent, Some(act)).await
}
