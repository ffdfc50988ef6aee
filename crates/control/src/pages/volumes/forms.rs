//! What can be done to volumes.

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
use crate::api::model::{Pools, Volume, VolumeState};
use crate::size::display_bytes;

pub(super) fn routes() -> Router<House> {
    Router::new()
        .route("/new-volume", get(ask_new).post(make))
        .route("/volumes/{volume}/{deed}", get(ask).post(act))
}

async fn new_sheet(asker: &Asker, version: &str) -> Result<Sheet, Problem> {
    let pools: Pools = asker.get("/v1/pools").await?;
    let mut places: Vec<_> = pools
        .pools
        .iter()
        .map(|pool| {
            let free = super::super::parts::size(pool.free_bytes);
            (format!("pool {}", pool.name), format!("pool {} ({}, {free} free)", pool.name, pool.raid))
        })
        .collect();
    places.push(("file".to_owned(), "a file in the data directory".to_owned()));
    places.push(("device".to_owned(), "a disk or a file elsewhere (admins)".to_owned()));
    places.push(("memory".to_owned(), "main memory, for measuring: gone when the node ends".to_owned()));
    let sizes = [("", "512 bytes, as most expect"), ("4096", "4096 bytes")];
    let sizes = sizes.iter().map(|(value, shown)| ((*value).to_owned(), (*shown).to_owned())).collect();
    Ok(Sheet::new(asker, "/volumes", "Make the volume")
        .lead("A volume is a disk that initiators see. It is served as soon as it is made.")
        .field(Field::text("name", "Name").required().help("Lower-case letters, digits, - . and :, as db."))
        .field(Field::text("size", "Size").required().help("A whole number and its unit, as 20GiB."))
        .field(Field::one("place", "Where its bytes live", places).required())
        .field(Field::text("path", "File or disk").help("In the data directory, or for admins from the root on. Only for files and disks; NAME.img without a wish."))
        .field(Field::tick("existing", "Its bytes are there already: take them as they are"))
        .field(Field::text("alias", "Alias").help("A name for people."))
        .field(Field::new("allow", "Initiators that may use it", Takes::Lines).help("Names (iqn.…), one to a line. All of them without a wish."))
        .field(Field::one("block_size", "Logical blocks", sizes))
        .field(Field::new("limits.iops", "Requests in a second, at most", Takes::Number))
        .field(Field::text("limits.throughput", "Bytes in a second, at most").help("As 200MB/s."))
        .version(version))
}

fn number(sent: &Sent, name: &'static str) -> Result<Option<u64>, Wrong> {
    let Some(text) = sent.some(name) else { return Ok(None) };
    text.parse().map(Some).map_err(|_| vec![(name, "this is no whole number".to_owned())])
}

/// What initiators are to get at most; what is empty has no limit.
fn limits(sent: &Sent) -> Result<Value, Wrong> {
    let mut limits = json!({});
    if let Some(iops) = number(sent, "limits.iops")? {
        limits["iops"] = json!(iops);
    }
    if let Some(rate) = sent.some("limits.throughput") {
        limits["throughput"] = json!(rate);
    }
    Ok(limits)
}

fn new_deed(sent: &Sent) -> Result<Deed, Wrong> {
    let name = sent.get("name");
    let mut volume = json!({ "name": name, "size": sent.get("size") });
    let path = sent.some("path");
    match sent.get("place") {
        "file" => {
            volume["backing"] = json!({ "file": path.map_or_else(|| format!("{name}.img"), str::to_owned) });
        }
        "device" => {
            let Some(path) = path else {
                return Err(vec![("path", "say which: /dev/sdb, or a file from the root on".to_owned())]);
            };
            let key = if path.starts_with("/dev/") { "device" } else { "file" };
            volume["backing"] = json!({ key: path });
        }
        "memory" => volume["backing"] = json!({ "memory": true }),
        place => match place.strip_prefix("pool ") {
            Some(pool) => volume["pool"] = json!(pool),
            None => return Err(vec![("place", "say where its bytes are to live".to_owned())]),
        },
    }
    if let Some(alias) = sent.some("alias") {
        volume["alias"] = json!(alias);
    }
    if sent.some("allow").is_some() {
        volume["allow"] = json!(sent.lines("allow"));
    }
    if let Some(bytes) = number(sent, "block_size")? {
        volume["block_size"] = json!(bytes);
    }
    let limits = limits(sent)?;
    if limits != json!({}) {
        volume["limits"] = limits;
    }
    let wish = json!({ "volume": volume, "existing": sent.is_on("existing") });
    Ok(Deed::new(Method::POST, "/v1/volumes", wish, format!("/volumes/{}", segment(name))))
}

async fn ask_new(State(house): State<House>, asker: Asker) -> Result<Response, Problem> {
    let frame = Frame::new(&house, &asker, Place::Volumes, "New volume").await?;
    frame.needs_operator()?;
    let version = frame.version();
    blank(frame, new_sheet(&asker, &version).await?)
}

async fn make(State(house): State<House>, asker: Asker, sent: Sent) -> Result<Response, Problem> {
    let frame = Frame::new(&house, &asker, Place::Volumes, "New volume").await?;
    let sheet = new_sheet(&asker, sent.get("version")).await?;
    carry_out(&house, &asker, frame, sheet, &sent, new_deed(&sent)).await
}

/// A form of something that is done to a volume, and what it comes to.
struct Act {
    title: String,
    sheet: Sheet,
    method: Method,
    /// Where one is afterwards.
    after: String,
    wish: fn(&Volume, &Sent) -> Result<Value, Wrong>,
}

#[expect(clippy::unnecessary_wraps, reason = "one of several of this shape")]
fn resized(_: &Volume, sent: &Sent) -> Result<Value, Wrong> {
    Ok(json!({ "set": { "size": sent.get("size") } }))
}

fn limited(_: &Volume, sent: &Sent) -> Result<Value, Wrong> {
    let limits = limits(sent)?;
    if limits == json!({}) {
        return Ok(json!({ "unset": ["limits"] }));
    }
    Ok(json!({ "set": { "limits": limits } }))
}

#[expect(clippy::unnecessary_wraps, reason = "one of several of this shape")]
fn switched(volume: &Volume, _: &Sent) -> Result<Value, Wrong> {
    Ok(json!({ "set": { "enabled": volume.state == VolumeState::Disabled } }))
}

#[expect(clippy::unnecessary_wraps, reason = "one of several of this shape")]
fn allowed(_: &Volume, sent: &Sent) -> Result<Value, Wrong> {
    let (mut set, mut unset) = (json!({}), Vec::new());
    for (name, is_text) in [("alias", true), ("allow", false), ("hosts", false)] {
        match (sent.some(name), is_text) {
            (None, _) => unset.push(name),
            (Some(text), true) => set[name] = json!(text),
            (Some(_), false) => set[name] = json!(sent.lines(name)),
        }
    }
    Ok(json!({ "set": set, "unset": unset }))
}

fn chap(_: &Volume, sent: &Sent) -> Result<Value, Wrong> {
    match (sent.some("user"), sent.secret("chap")) {
        (None, "") => Ok(json!({ "unset": ["chap", "chap_mutual"] })),
        (Some(user), secret) if !secret.is_empty() => {
            Ok(json!({ "set": { "chap": [{ "user": user, "secret": secret }] } }))
        }
        (None, _) => Err(vec![("user", "say whose secret it is".to_owned())]),
        (Some(_), _) => Err(vec![("chap", "say the secret: 12 to 255 characters".to_owned())]),
    }
}

fn gone(volume: &Volume, sent: &Sent) -> Result<Value, Wrong> {
    if sent.get("confirm") != volume.name {
        return Err(vec![("confirm", format!("type the name of the volume: {}", volume.name))]);
    }
    Ok(json!({ "keep_data": sent.is_on("keep_data") }))
}

fn of(asker: &Asker, volume: &Volume, deed: &str, version: &str) -> Option<Act> {
    let name = &volume.name;
    let back = format!("/volumes/{}", segment(name));
    let sheet = |button: &str| Sheet::new(asker, back.clone(), button).version(version);
    let act = |title: String, sheet, wish| {
        Some(Act { title, sheet, method: Method::PATCH, after: back.clone(), wish })
    };
    match deed {
        "resize" => act(
            format!("Resize volume {name}"),
            sheet("Resize it")
                .lead("It becomes larger while it is used, and initiators are told. A volume is never made smaller: what is at its end would be lost.")
                .field(Field::text("size", "New size").required().value(display_bytes(volume.size_bytes)).help("As 40GiB.")),
            resized,
        ),
        "limit" => {
            let iops = volume.limits.iops.map(|iops| iops.to_string()).unwrap_or_default();
            let rate = volume.limits.bytes_per_s.map(|rate| format!("{}/s", display_bytes(rate))).unwrap_or_default();
            act(
                format!("Limit volume {name}"),
                sheet("Set the limits")
                    .lead("What all of its initiators get together, at most. Empty is no limit.")
                    .field(Field::new("limits.iops", "Requests in a second", Takes::Number).value(iops))
                    .field(Field::text("limits.throughput", "Bytes in a second").value(rate).help("As 200MB/s.")),
                limited,
            )
        }
        "access" => act(
            format!("Who may use volume {name}"),
            sheet("Change it")
                .field(Field::text("alias", "Alias").value(volume.alias.clone().unwrap_or_default()).help("A name for people."))
                .field(Field::new("allow", "Initiators that may use it", Takes::Lines).value(volume.allow.join("\n")).help("Names (iqn.…), one to a line. Empty is all."))
                .field(Field::new("hosts", "NVMe hosts that may use it", Takes::Lines).value(volume.hosts.join("\n")).help("Names (nqn.…), one to a line. Empty is all.")),
            allowed,
        ),
        "chap" => act(
            format!("CHAP of volume {name}"),
            sheet("Change it")
                .at_once()
                .lead("Initiators prove by a secret who they are. Empty is no CHAP. A secret is never shown again; those that are there are replaced.")
                .field(Field::text("user", "User").value(volume.chap_users.first().cloned().unwrap_or_default()))
                .field(Field { is_required: false, ..Field::password("chap", "Secret", "new-password").help("12 to 255 characters.") }),
            chap,
        ),
        "switch" if volume.state == VolumeState::Disabled => act(
            format!("Switch volume {name} on"),
            sheet("Switch it on").lead("It is served again."),
            switched,
        ),
        "switch" => act(
            format!("Switch volume {name} off"),
            sheet("Switch it off").lead("Initiators are asked to go, it is drained and closed. Its bytes stay.").danger(),
            switched,
        ),
        "delete" => Some(Act {
            title: format!("Delete volume {name}"),
            sheet: sheet("Delete it")
                .lead("It is taken out of service, and its bytes are destroyed. Nothing brings them back.")
                .field(Field::text("confirm", "Name of the volume").required().help(format!("Type {name}, so that it is the one you mean.")))
                .field(Field::tick("keep_data", "Keep its bytes where they are"))
                .danger(),
            method: Method::DELETE,
            after: "/volumes".to_owned(),
            wish: gone,
        }),
        _ => None,
    }
}

async fn find(asker: &Asker, name: &str) -> Result<Volume, Problem> {
    asker.get(&format!("/v1/volumes/{}", segment(name))).await
}

async fn ask(
    State(house): State<House>,
    asker: Asker,
    Path((name, deed)): Path<(String, String)>,
) -> Result<Response, Problem> {
    let volume = find(&asker, &name).await?;
    let mut frame = Frame::new(&house, &asker, Place::Volumes, "").await?;
    frame.needs_operator()?;
    let act = of(&asker, &volume, &deed, &frame.version()).ok_or_else(super::super::nowhere)?;
    frame.title = act.title;
    blank(frame, act.sheet)
}

async fn act(
    State(house): State<House>,
    asker: Asker,
    Path((name, deed)): Path<(String, String)>,
    sent: Sent,
) -> Result<Response, Problem> {
    let volume = find(&asker, &name).await?;
    let mut frame = Frame::new(&house, &asker, Place::Volumes, "").await?;
    let act = of(&asker, &volume, &deed, sent.get("version")).ok_or_else(super::super::nowhere)?;
    frame.title = act.title;
    let path = format!("/v1/volumes/{}", segment(&volume.name));
    let deed = (act.wish)(&volume, &sent).map(|wish| Deed::new(act.method, path, wish, act.after));
    carry_out(&house, &asker, frame, act.sheet, &sent, deed).await
}
