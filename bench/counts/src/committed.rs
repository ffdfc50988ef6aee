//! The figures in the repository, and what is held against them.

use std::fmt;
use std::path::Path;

use crate::error::Error;

/// How far a path may be from its figure, in thousandths: what unrelated changes move by other inlining.
const MARGIN: u64 = 30;
/// How far all requests together may be above their figures: a little that is added to every one of them (a copy of a
/// hundred bytes is thirty instructions) hides in the margin of each, but not in the sum.
const MARGIN_OF_THE_SUM: u64 = 7;
/// The two with another compiler, C library, Valgrind or kind of processor: a compiler two releases ahead moved single
/// paths by up to 6.4 % and the sum by 1 %.
const MARGINS_OF_OTHER_TOOLS: (u64, u64) = (100, 30);
/// Instructions that are never too many or too few: a codec has so few that three percent of them are none.
const SLACK: u64 = 4;
/// What the sum is called, and of whose counts it is one.
const SUM: (&str, &str) = ("all-requests", "-4k");

/// What is said before the comparisons.
pub fn rule(same_tools: bool) -> String {
    let (each, sum) = (room(1000, same_tools), sum_margin(same_tools));
    format!(
        "instructions; a path fails {}.{} % from its figure, all requests together {}.{} % above",
        each / 10,
        each % 10,
        sum / 10,
        sum % 10
    )
}

/// Instructions that a path of so many may be from its figure.
fn room(committed: u64, same_tools: bool) -> u64 {
    let margin = if same_tools { MARGIN } else { MARGINS_OF_OTHER_TOOLS.0 };
    (committed * margin / 1000).max(SLACK)
}

/// Thousandths that all requests together may be above theirs.
fn sum_margin(same_tools: bool) -> u64 {
    if same_tools { MARGIN_OF_THE_SUM } else { MARGINS_OF_OTHER_TOOLS.1 }
}

/// Instructions by path, and with what they were counted.
#[derive(Debug, PartialEq, Eq)]
pub struct Figures {
    pub tools: String,
    pub counts: Vec<(String, u64)>,
}

/// What became of a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// As committed, within the margin; with other tools also fewer.
    Holds,
    /// More than the margin allows.
    More,
    /// Fewer than the margin allows: a later loss of what was won would pass unseen.
    Fewer,
    /// Nobody knows how many it should have.
    New,
    /// Committed, but not there.
    Gone,
}

/// One path against its figure.
#[derive(Debug, PartialEq, Eq)]
pub struct Comparison {
    path: String,
    committed: Option<u64>,
    found: Option<u64>,
    pub verdict: Verdict,
}

impl Figures {
    pub fn load(path: &Path) -> Result<Figures, Error> {
        let text =
            std::fs::read_to_string(path).map_err(|source| Error::File { path: path.to_owned(), source })?;
        Figures::parse(&text).map_err(|wrong| Error::Content { path: path.to_owned(), wrong })
    }

    pub fn save(&self, path: &Path) -> Result<(), Error> {
        std::fs::write(path, self.to_string()).map_err(|source| Error::File { path: path.to_owned(), source })
    }

    fn parse(text: &str) -> Result<Figures, String> {
        let mut lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
        let tools = lines.next().and_then(|line| line.strip_prefix("tools: "));
        let tools = tools.ok_or("the first line does not name the tools")?.to_owned();
        let count = |line: &str| {
            let (path, count) = line.split_once(' ')?;
            Some((path.to_owned(), count.trim().parse().ok()?))
        };
        let counts = lines.map(|line| count(line).ok_or(format!("no path and number: {line}")));
        Ok(Figures { tools, counts: counts.collect::<Result<_, _>>()? })
    }

    fn count(&self, path: &str) -> Option<u64> {
        self.counts.iter().find_map(|(name, count)| (name == path).then_some(*count))
    }

    /// Instructions of all requests that `other` has too.
    fn sum(&self, other: &Figures) -> u64 {
        let requests = self.counts.iter().filter(|(path, _)| path.contains(SUM.1));
        requests.filter(|(path, _)| other.count(path).is_some()).map(|(_, count)| count).sum()
    }

    /// Every path that is in one of both, and the sum of the requests.
    pub fn compare(&self, found: &Figures, same_tools: bool) -> Vec<Comparison> {
        let gone = self.counts.iter().filter(|(path, _)| found.count(path).is_none());
        let paths = found.counts.iter().chain(gone).map(|(path, _)| path);
        let mut comparisons: Vec<Comparison> = paths
            .map(|path| {
                let (committed, found) = (self.count(path), found.count(path));
                Comparison {
                    path: path.clone(),
                    committed,
                    found,
                    verdict: judge(committed, found, same_tools),
                }
            })
            .collect();
        let (sum, now) = (self.sum(found), found.sum(self));
        let exceeded = now * 1000 > sum * (1000 + sum_margin(same_tools));
        comparisons.push(Comparison {
            path: SUM.0.to_owned(),
            committed: Some(sum),
            found: Some(now),
            verdict: if exceeded { Verdict::More } else { Verdict::Holds },
        });
        comparisons
    }
}

fn judge(committed: Option<u64>, found: Option<u64>, same_tools: bool) -> Verdict {
    let (committed, found) = match (committed, found) {
        (Some(committed), Some(found)) => (committed, found),
        (None, _) => return Verdict::New,
        (_, None) => return Verdict::Gone,
    };
    let room = room(committed, same_tools);
    if found > committed + room {
        Verdict::More
    } else if found + room < committed && same_tools {
        Verdict::Fewer
    } else {
        Verdict::Holds
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "# Instructions of one operation of each hot path; written by `make counts`.")?;
        writeln!(formatter, "tools: {}", self.tools)?;
        self.counts.iter().try_for_each(|(path, count)| writeln!(formatter, "{path:<22} {count:>6}"))
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = if self.verdict == Verdict::Holds { "ok" } else { "FAILED" };
        write!(formatter, "count {}: {word}, ", self.path)?;
        let (Some(committed), Some(found)) = (self.committed, self.found) else {
            return match self.found {
                Some(found) => write!(formatter, "{found}, of which no figure is committed"),
                None => write!(formatter, "it has a committed figure and is not walked any more"),
            };
        };
        write!(formatter, "{found}, committed {committed}")?;
        if found != committed {
            let (sign, by) =
                if found > committed { ('+', found - committed) } else { ('-', committed - found) };
            let thousandths = by * 1000 / committed.max(1);
            write!(formatter, ", {sign}{by} = {sign}{}.{} %", thousandths / 10, thousandths % 10)?;
        }
        if self.verdict == Verdict::Fewer {
            write!(formatter, ": fewer; keep what was won")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(counts: &[(&str, u64)]) -> Figures {
        let counts = counts.iter().map(|(path, count)| ((*path).to_owned(), *count)).collect();
        Figures { tools: "rustc 1".to_owned(), counts }
    }

    fn verdicts(committed: u64, found: u64) -> [Verdict; 2] {
        [true, false].map(|same| judge(Some(committed), Some(found), same))
    }

    #[test]
    fn figures_come_back_as_they_were_saved() {
        let figures = figures(&[("read", 1234), ("a-path-with-a-name-that-is-long", 1)]);
        assert_eq!(Figures::parse(&figures.to_string()), Ok(figures));
        assert!(Figures::parse("read 1").is_err() && Figures::parse("tools: x\nread one").is_err());
    }

    #[test]
    fn what_is_outside_of_the_margin_fails() {
        assert_eq!(verdicts(1000, 1030), [Verdict::Holds; 2]);
        assert_eq!(verdicts(1000, 1031), [Verdict::More, Verdict::Holds]);
        assert_eq!(verdicts(1000, 1101), [Verdict::More; 2]);
        assert_eq!(verdicts(1000, 970), [Verdict::Holds; 2]);
        assert_eq!(verdicts(1000, 969), [Verdict::Fewer, Verdict::Holds]);
        assert_eq!(verdicts(10, 14), [Verdict::Holds; 2]);
        assert_eq!(verdicts(10, 15), [Verdict::More; 2]);
    }

    #[test]
    fn a_path_without_a_figure_and_a_figure_without_a_path_fail() {
        let mut verdicts: Vec<_> = figures(&[("old", 1), ("same", 1)])
            .compare(&figures(&[("same", 1), ("new", 1)]), true)
            .into_iter()
            .map(|comparison| (comparison.path, comparison.verdict))
            .collect();
        verdicts.pop_if(|(path, _)| path == SUM.0).expect("the sum comes last");
        let expected = [("same", Verdict::Holds), ("new", Verdict::New), ("old", Verdict::Gone)];
        assert_eq!(verdicts, expected.map(|(path, verdict)| (path.to_owned(), verdict)));
    }

    #[test]
    fn a_little_that_is_added_to_every_request_fails() {
        let committed = figures(&[("iscsi-read-4k", 6000), ("nbd-read-4k-batch", 2000), ("codec", 10)]);
        let fails = |found: &[(&str, u64)], same| {
            let comparisons = committed.compare(&figures(found), same);
            comparisons.iter().any(|comparison| comparison.verdict != Verdict::Holds)
        };
        assert!(fails(&[("iscsi-read-4k", 6030), ("nbd-read-4k-batch", 2030), ("codec", 10)], true));
        assert!(!fails(&[("iscsi-read-4k", 6030), ("nbd-read-4k-batch", 2030), ("codec", 10)], false));
        assert!(!fails(&[("iscsi-read-4k", 6030), ("nbd-read-4k-batch", 1990), ("codec", 12)], true));
    }

    #[test]
    fn a_comparison_says_which_path_and_by_how_much() {
        let say =
            |found| figures(&[("read", 1000)]).compare(&figures(&[("read", found)]), true)[0].to_string();
        assert_eq!(say(1000), "count read: ok, 1000, committed 1000");
        assert_eq!(say(1111), "count read: FAILED, 1111, committed 1000, +111 = +11.1 %");
        assert_eq!(say(995), "count read: ok, 995, committed 1000, -5 = -0.5 %");
        assert!(say(500).ends_with("-500 = -50.0 %: fewer; keep what was won"));
    }
}
