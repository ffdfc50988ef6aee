//! What a metric is.

/// A metric with all of its labels: defined once, from which everything else is rendered.
#[derive(Debug)]
pub struct Family {
    /// As Prometheus wants it: `fels_`, base units, `_total` for counters.
    pub name: &'static str,
    /// A sentence.
    pub help: &'static str,
    /// What is counted or measured.
    pub unit: Unit,
    /// How it moves.
    pub kind: Kind,
    /// Names of its labels, in the order in which a sample has their values.
    pub labels: &'static [&'static str],
    /// Above a graph of it.
    pub title: &'static str,
    /// Where people look for it.
    pub group: Group,
    /// As Munin sees it, if it does.
    pub munin: Option<&'static Munin>,
}

/// How a metric moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It only grows, and begins at zero when what it counts begins.
    Counter,
    /// It goes up and down.
    Gauge,
    /// How many operations took how long.
    Histogram,
}

/// What is counted or measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Things.
    Count,
    /// Seconds.
    Seconds,
    /// Bytes.
    Bytes,
    /// A part of 1.
    Ratio,
    /// Degrees Celsius.
    Celsius,
    /// A number that stands for a state; the help says which.
    State,
}

/// Where people look for a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Group {
    /// One volume.
    Volume,
    /// Where the time of a volume goes.
    Layer,
    /// An address on which the node listens.
    Portal,
    /// An initiator.
    Initiator,
    /// A pool.
    Pool,
    /// A member of a pool.
    Member,
    /// The process.
    Process,
}

impl Group {
    /// For people.
    pub fn title(self) -> &'static str {
        match self {
            Self::Volume => "Volumes",
            Self::Layer => "Layers",
            Self::Portal => "Portals",
            Self::Initiator => "Initiators",
            Self::Pool => "Pools",
            Self::Member => "Members of pools",
            Self::Process => "Process",
        }
    }
}

/// A metric as a field of a Munin graph.
#[derive(Clone, Copy, Debug)]
pub struct Munin {
    /// What `list` calls it.
    pub plugin: &'static str,
    /// The graph; several of them under one plugin are reached by `multigraph`.
    pub graph: &'static str,
    /// Under the title.
    pub category: &'static str,
    /// Beside the axis.
    pub axis: &'static str,
    /// Values are multiplied by it.
    pub scale: f64,
    /// Which verbs are shown, and what the fields are called. Empty for what has no label `verb`.
    pub fields: &'static [Field],
    /// There is a graph for each value of the first label below the one for all.
    pub each: bool,
    /// In Munin's words: `max`, `min:`, `min:max`.
    pub warning: Option<&'static str>,
    /// In Munin's words.
    pub critical: Option<&'static str>,
}

/// What a verb is called in Munin.
#[derive(Debug)]
pub struct Field {
    /// The value of the label `verb`.
    pub verb: &'static str,
    /// The end of the field's name.
    pub name: &'static str,
}

/// Families are told apart by their names.
impl PartialEq for Family {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Family {
    /// Where the label stands among the values of a sample.
    pub fn position(&self, label: &str) -> Option<usize> {
        self.labels.iter().position(|name| *name == label)
    }

    /// What a graph of it has beside its axis: counters are shown as rates.
    pub fn axis(&self) -> &'static str {
        match (self.kind, self.unit) {
            (Kind::Counter, Unit::Bytes) => "B/s",
            // Seconds in a second.
            (Kind::Counter, Unit::Seconds) => "s/s",
            (Kind::Counter, _) => "/s",
            (_, Unit::Seconds) => "s",
            (_, Unit::Bytes) => "B",
            (_, Unit::Celsius) => "\u{b0}C",
            (_, Unit::Count | Unit::Ratio | Unit::State) => "",
        }
    }
}
