//! Metrics as plugins: which graphs there are, and their fields.

use crate::metric::{Family, Histogram, Kind, Munin, Sample, Unit, Value, View, table};
use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;

/// Field names become names of files; longer ones are cut.
const MAX_FIELD_BYTES: usize = 96;
/// Counters of seconds are told in these: a DERIVE takes integers alone.
const PARTS_OF_A_SECOND: f64 = 1e6;

/// What it is called, and the one thing that is drawn.
struct Field {
    /// Of which of the first label's values.
    of: String,
    /// Without what it belongs to.
    short: String,
    name: String,
    label: String,
    value: Option<String>,
    /// It is drawn downwards, below this one.
    above: Option<String>,
}

/// The families of a plugin that have something to show.
fn families(view: &View) -> impl Iterator<Item = (&'static Family, &'static Munin)> + '_ {
    let shown: BTreeSet<&str> = view.snapshot.samples().iter().map(|sample| sample.family.name).collect();
    table::ALL
        .iter()
        .filter_map(move |family| Some((*family, family.munin?)).filter(|_| shown.contains(family.name)))
}

fn is_multigraph(munin: &Munin) -> bool {
    munin.graph != munin.plugin || munin.each
}

/// The names of all plugins, each once.
pub fn names(view: &View, with_multigraph: bool) -> Vec<&'static str> {
    let mut names: Vec<&str> = Vec::new();
    for (_, munin) in families(view) {
        if (with_multigraph || !is_multigraph(munin)) && !names.contains(&munin.plugin) {
            names.push(munin.plugin);
        }
    }
    names
}

/// The answer to `config`; `None` if there is no such plugin.
pub fn config(plugin: &str, view: &View, with_values: bool) -> Option<String> {
    render(plugin, view, |out, family, munin, fields, of| {
        write_config(out, family, munin, fields, of);
        if with_values {
            write_values(out, fields, of);
        }
    })
}

/// The answer to `fetch`.
pub fn fetch(plugin: &str, view: &View) -> Option<String> {
    render(plugin, view, |out, _, _, fields, of| write_values(out, fields, of))
}

/// Calls `write` for every graph: with all fields, and with those of one thing (`of`) in graphs below it.
fn render(
    plugin: &str,
    view: &View,
    write: impl Fn(&mut String, &Family, &Munin, &[Field], Option<&str>),
) -> Option<String> {
    let mut out = String::new();
    // Writing to a String does not fail, here and below.
    for (family, munin) in families(view).filter(|(_, munin)| munin.plugin == plugin) {
        let fields = fields(family, munin, view);
        if is_multigraph(munin) {
            let _ = writeln!(out, "multigraph {}", munin.graph);
        }
        write(&mut out, family, munin, &fields, None);
        if munin.each {
            let things: BTreeSet<&str> = fields.iter().map(|field| field.of.as_str()).collect();
            let uses = uses(things.iter().copied());
            for of in things {
                let _ = writeln!(out, "multigraph {}.{}", munin.graph, unique(of, &uses));
                write(&mut out, family, munin, &fields, Some(of));
            }
        }
    }
    (!out.is_empty()).then_some(out)
}

/// Letters, digits and underscores, as Munin wants them, and not `root`.
fn sanitize(text: &str) -> String {
    let fine = |character: char| if character.is_ascii_alphanumeric() { character } else { '_' };
    let mut name: String = text.chars().map(fine).take(MAX_FIELD_BYTES).collect();
    if name.is_empty() || name.starts_with(|first: char| first.is_ascii_digit()) || name == "root" {
        name.insert(0, '_');
    }
    name
}

/// FNV-1a: four hexadecimal digits of it tell names apart that are the same otherwise.
fn hash(text: &str) -> u16 {
    let hash =
        text.bytes().fold(0x811C_9DC5u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    (hash ^ (hash >> 16)) as u16
}

/// Everything that is drawn of a family.
fn fields(family: &'static Family, munin: &Munin, view: &View) -> Vec<Field> {
    let mut fields = Vec::new();
    for sample in view.snapshot.of(family) {
        let verb = sample.label("verb");
        let verb_name = munin.fields.iter().find(|field| Some(field.verb) == verb).map(|field| field.name);
        if verb.is_some() && verb_name.is_none() {
            continue;
        }
        let own: Vec<&str> = family
            .labels
            .iter()
            .zip(&sample.labels)
            .filter(|(label, _)| **label != "verb")
            .map(|(_, value)| value.as_ref())
            .collect();
        match &sample.value {
            Value::Histogram(histogram) => {
                let lately = view.lately(sample).unwrap_or(histogram);
                let seconds = |value: Option<f64>| value.map(|value| gauge(value * munin.scale));
                let mean = seconds(Histogram::mean_s(lately));
                let slowest = seconds(lately.quantile_s(0.99));
                let name = verb_name.unwrap_or("");
                fields.push(field(munin, &own, &format!("avg{name}"), &[verb.unwrap_or(""), "mean"], mean));
                fields.push(field(munin, &own, &format!("p99{name}"), &[verb.unwrap_or(""), "p99"], slowest));
            }
            value => {
                let value = number(sample, value, munin.scale);
                fields.push(field(munin, &own, verb_name.unwrap_or(""), &[verb.unwrap_or("")], value));
            }
        }
    }
    tell_apart(&mut fields);
    draw_reads_below_writes(family, munin, &mut fields);
    fields
}

fn field(munin: &Munin, own: &[&str], end: &str, what: &[&str], value: Option<String>) -> Field {
    let words = own.iter().chain(what).filter(|word| !word.is_empty()).copied().collect::<Vec<_>>();
    let parts = own.iter().copied().chain([end]).filter(|part| !part.is_empty()).collect::<Vec<_>>();
    let name = if parts.is_empty() { munin.graph.to_owned() } else { parts.join("_") };
    Field {
        of: own.first().copied().unwrap_or_default().to_owned(),
        short: if end.is_empty() { "value".to_owned() } else { end.to_owned() },
        name,
        // A line of its own, and no comment.
        label: words.join(" ").replace(['#', '\\'], "_").replace(char::is_control, " "),
        value,
        above: None,
    }
}

/// Names that would be the same, or are cut, have a hash behind them.
fn tell_apart(fields: &mut [Field]) {
    let uses = uses(fields.iter().map(|field| field.name.as_str()));
    for field in fields.iter_mut() {
        field.name = unique(&field.name, &uses);
        if field.label.is_empty() {
            field.label.clone_from(&field.name);
        }
    }
}

/// How many are called the same when Munin has taken their letters.
fn uses<'n>(names: impl Iterator<Item = &'n str>) -> HashMap<String, usize> {
    let mut uses: HashMap<String, usize> = HashMap::new();
    for name in names {
        *uses.entry(sanitize(name)).or_default() += 1;
    }
    uses
}

/// The name that Munin takes, of this alone.
fn unique(name: &str, uses: &HashMap<String, usize>) -> String {
    let taken = sanitize(name);
    let is_unique = uses.get(&taken) == Some(&1) && name.len() <= MAX_FIELD_BYTES;
    let end = if is_unique { String::new() } else { format!("_{:04x}", hash(name)) };
    taken + &end
}

/// As the stock plugins do with what is read and written.
fn draw_reads_below_writes(family: &Family, munin: &Munin, fields: &mut [Field]) {
    let [read, write] = munin.fields else { return };
    if family.kind != Kind::Counter {
        return;
    }
    for index in 1..fields.len() {
        let (before, rest) = fields.split_at_mut(index);
        let (below, above) = (&mut before[index - 1], &mut rest[0]);
        if below.short == read.name && above.short == write.name && below.of == above.of {
            below.above = Some(above.name.clone());
        }
    }
}

fn gauge(value: f64) -> String {
    // No exponents: Rust writes none.
    let value = format!("{value:.9}");
    value.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A value as the type of its field wants it.
#[expect(clippy::cast_sign_loss, reason = "counters are not negative")]
fn number(sample: &Sample, value: &Value, scale: f64) -> Option<String> {
    match (sample.family.kind, value) {
        (Kind::Counter, Value::Integer(value)) => Some(value.to_string()),
        (Kind::Counter, value) => {
            value.number().map(|value| ((value * PARTS_OF_A_SECOND) as u64).to_string())
        }
        (_, value) => value.number().map(|value| gauge(value * scale)),
    }
}

fn chosen<'a>(fields: &'a [Field], of: Option<&'a str>) -> impl Iterator<Item = (&'a Field, &'a str)> {
    fields.iter().filter_map(move |field| match of {
        None => Some((field, field.name.as_str())),
        Some(of) => (field.of == of).then_some((field, field.short.as_str())),
    })
}

fn write_values(out: &mut String, fields: &[Field], of: Option<&str>) {
    for (field, name) in chosen(fields, of) {
        let _ = writeln!(out, "{name}.value {}", field.value.as_deref().unwrap_or("U"));
    }
}

fn write_config(out: &mut String, family: &Family, munin: &Munin, fields: &[Field], of: Option<&str>) {
    let about = of.map_or_else(String::new, |of| format!(": {}", of.replace(char::is_control, " ")));
    let _ = writeln!(out, "graph_title {}{about}", family.title);
    let base = if family.unit == Unit::Bytes && family.kind == Kind::Gauge { 1024 } else { 1000 };
    let _ = writeln!(out, "graph_args --base {base} -l 0");
    let _ = writeln!(out, "graph_vlabel {}", munin.axis);
    let _ = writeln!(out, "graph_category {}", munin.category);
    let _ = writeln!(out, "graph_info {}", family.help);
    for (field, name) in chosen(fields, of) {
        let _ = writeln!(out, "{name}.label {}", field.label);
        let _ = writeln!(out, "{name}.info {}", family.help);
        if family.kind == Kind::Counter {
            let _ = writeln!(out, "{name}.type DERIVE\n{name}.min 0");
            if family.unit == Unit::Seconds {
                let _ = writeln!(out, "{name}.cdef {name},{},/", gauge(PARTS_OF_A_SECOND / munin.scale));
            }
        } else {
            let _ = writeln!(out, "{name}.type GAUGE");
        }
        if let Some(above) = &field.above {
            let above = if of.is_some() { munin.fields[1].name } else { above };
            let _ = writeln!(out, "{name}.graph no\n{above}.negative {name}");
        }
        for (limit, value) in [("warning", munin.warning), ("critical", munin.critical)] {
            if let Some(value) = value {
                let _ = writeln!(out, "{name}.{limit} {value}");
            }
        }
        if munin.warning.is_some() || munin.critical.is_some() {
            let _ = writeln!(out, "{name}.unknown_limit 3");
        }
    }
}
