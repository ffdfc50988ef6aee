//! A frame as tables: what is printed once, and what the screen is made of.

use super::super::table::{Align, row, table};
use super::frame::{Frame, Rates, Volume};
use control::api::model::Times;

/// Heads and rows of a table, with how its columns stand.
pub struct Rows {
    pub columns: Vec<Align>,
    /// The first one is the head.
    pub rows: Vec<Vec<String>>,
}

/// All of a frame.
pub fn of(frame: &Frame) -> String {
    let mut text = format!("in {:.1} s:\n\n", frame.interval_s);
    let mut add = |rows: Rows, nothing: &str| {
        if rows.rows.len() > 1 {
            text.push_str(&table(0, &rows.columns, &rows.rows));
        } else {
            text.push_str(nothing);
        }
        text.push('\n');
    };
    add(volumes(frame), "no volume is served\n");
    for volume in frame.volumes.iter().filter(|volume| volume.time.followed > 0) {
        add(layers(volume), "");
    }
    add(sessions(frame), "nobody is connected\n");
    if !frame.members.is_empty() {
        add(members(frame), "");
    }
    text.trim_end().to_owned() + "\n"
}

/// Volumes.
pub fn volumes(frame: &Frame) -> Rows {
    let mut rows = vec![row([
        "volume",
        "reads/s",
        "writes/s",
        "read/s",
        "written/s",
        "mean",
        "slowest",
        "queue",
        "sessions",
        "errors",
    ])];
    rows.extend(frame.volumes.iter().map(|volume| {
        vec![
            volume.name.clone(),
            count(volume.reads_per_s),
            count(volume.writes_per_s),
            bytes(volume.read_bytes_per_s),
            bytes(volume.written_bytes_per_s),
            volume.mean_us.map_or_else(|| "-".to_owned(), time),
            if volume.time.followed > 0 { time(volume.time.slowest_us) } else { "-".to_owned() },
            volume.in_flight.to_string(),
            volume.sessions.to_string(),
            volume.errors.to_string(),
        ]
    }));
    let mut columns = vec![Align::Right; 10];
    columns[0] = Align::Left;
    Rows { columns, rows }
}

/// Where the time of a volume goes.
pub fn layers(volume: &Volume) -> Rows {
    times(&format!("time of {}", volume.name), &volume.time)
}

/// Where time goes, below a head.
pub fn times(head: &str, times: &Times) -> Rows {
    let mut rows = vec![row([head, "mean", "share", "slowest", "share"])];
    rows.extend(times.layers.iter().map(|layer| {
        vec![
            layer.layer.clone(),
            time(layer.mean_us),
            percent(layer.mean_share),
            time(layer.slowest_us),
            percent(layer.slowest_share),
        ]
    }));
    let mut columns = vec![Align::Right; 5];
    columns[0] = Align::Left;
    Rows { columns, rows }
}

/// Who is connected.
pub fn sessions(frame: &Frame) -> Rows {
    let mut rows = vec![row([
        "protocol",
        "initiator",
        "session",
        "volumes",
        "reads/s",
        "writes/s",
        "read/s",
        "written/s",
        "mean",
        "queue",
        "errors",
        "connections",
        "shard",
    ])];
    rows.extend(frame.sessions.iter().map(|session| {
        let mut cells = vec![
            session.protocol.clone(),
            session.initiator.clone(),
            session.id.clone(),
            if session.volumes.is_empty() { "(discovery)".to_owned() } else { session.volumes.join(", ") },
        ];
        cells.extend(rates(&session.rates));
        cells.extend([session.connections.to_string(), session.shard.to_string()]);
        cells
    }));
    let mut columns = vec![Align::Right; 13];
    columns[..4].fill(Align::Left);
    Rows { columns, rows }
}

/// Cells of what was asked for: operations, bytes, their time, what waits and what failed.
fn rates(rates: &Rates) -> [String; 7] {
    [
        count(rates.reads_per_s),
        count(rates.writes_per_s),
        bytes(rates.read_bytes_per_s),
        bytes(rates.written_bytes_per_s),
        rates.mean_us.map_or_else(|| "-".to_owned(), time),
        rates.in_flight.to_string(),
        rates.errors.to_string(),
    ]
}

/// Members of pools.
#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
pub fn members(frame: &Frame) -> Rows {
    let mut rows = vec![row([
        "pool",
        "slot",
        "state",
        "reads/s",
        "writes/s",
        "read/s",
        "written/s",
        "mean",
        "queue",
        "errors",
        "read",
        "write",
        "place",
    ])];
    let taken = |time_us: Option<u64>| time_us.map_or_else(|| "-".to_owned(), |us| self::time(us as f64));
    rows.extend(frame.members.iter().map(|member| {
        let mut cells = vec![
            member.pool.clone(),
            member.slot.to_string(),
            if member.slow { format!("{}, slow", member.state) } else { member.state.to_owned() },
        ];
        cells.extend(rates(&member.rates));
        cells.extend([taken(member.read_us), taken(member.write_us)]);
        cells.push(member.place.clone().unwrap_or_default());
        cells
    }));
    let mut columns = vec![Align::Right; 13];
    (columns[0], columns[2], columns[12]) = (Align::Left, Align::Left, Align::Left);
    Rows { columns, rows }
}

fn count(number: f64) -> String {
    format!("{number:.0}")
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// Bytes in a second: decimal, as links are.
fn bytes(number: f64) -> String {
    match number {
        number if number >= 1e9 => format!("{:.2} GB", number / 1e9),
        number if number >= 1e6 => format!("{:.1} MB", number / 1e6),
        number if number >= 1e3 => format!("{:.1} kB", number / 1e3),
        number => format!("{number:.0} B"),
    }
}

fn time(us: f64) -> String {
    match us {
        us if us >= 1e6 => format!("{:.2} s", us / 1e6),
        us if us >= 1e3 => format!("{:.2} ms", us / 1e3),
        us => format!("{us:.1} us"),
    }
}
