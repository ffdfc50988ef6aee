//! The protocol without I/O: a line in, lines out.

use super::plugin;
use crate::metric::View;

/// Every line ends with it.
pub const GREETING_END: &str = "\n";

/// The answer to one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Whole lines; may be none.
    pub text: String,
    /// The connection ends after it.
    pub closes: bool,
}

impl Reply {
    fn of(text: impl Into<String>) -> Self {
        Self { text: text.into(), closes: false }
    }
}

/// A connection of a master.
#[derive(Clone, Debug)]
pub struct Session {
    node: String,
    has_multigraph: bool,
    has_dirty_config: bool,
}

impl Session {
    /// `node` is the name of this machine; what no host has in its name becomes `-`.
    pub fn new(node: &str) -> Self {
        let is_fine = |character: char| character.is_ascii_alphanumeric() || "-._".contains(character);
        let name = |character: char| if is_fine(character) { character.to_ascii_lowercase() } else { '-' };
        Self { node: node.chars().map(name).collect(), has_multigraph: false, has_dirty_config: false }
    }

    /// What is said first.
    pub fn greeting(&self) -> String {
        format!("# munin node at {}{GREETING_END}", self.node)
    }

    /// Answers a line; its end may be there or not.
    pub fn line(&mut self, line: &str, view: &View) -> Reply {
        let mut words = line.split_whitespace();
        let Some(command) = words.next() else { return Reply::of("") };
        let argument = words.next();
        match command.to_ascii_lowercase().as_str() {
            "cap" => self.capabilities(line),
            "list" => {
                let is_ours = argument.is_none_or(|host| host.eq_ignore_ascii_case(&self.node));
                let names = if is_ours { plugin::names(view, self.has_multigraph) } else { Vec::new() };
                Reply::of(format!("{}\n", names.join(" ")))
            }
            "nodes" => Reply::of(format!("{}\n.\n", self.node)),
            "config" => {
                Self::service(argument.and_then(|name| plugin::config(name, view, self.has_dirty_config)))
            }
            "fetch" => Self::service(argument.and_then(|name| plugin::fetch(name, view))),
            "version" => {
                Reply::of(format!("munins node on {} version: {}\n", self.node, env!("CARGO_PKG_VERSION")))
            }
            "quit" | "." => Reply { text: String::new(), closes: true },
            // Among them STARTTLS: there is no TLS here, and a master that does not insist goes on without.
            _ => Reply::of("# Unknown command. Try cap, list, nodes, config, fetch, version or quit\n"),
        }
    }

    fn capabilities(&mut self, line: &str) -> Reply {
        for word in line.split_whitespace().skip(1) {
            self.has_multigraph |= word.eq_ignore_ascii_case("multigraph");
            self.has_dirty_config |= word.eq_ignore_ascii_case("dirtyconfig");
        }
        Reply::of("cap multigraph dirtyconfig\n")
    }

    fn service(text: Option<String>) -> Reply {
        let mut text = text.unwrap_or_else(|| "# Unknown service\n".to_owned());
        text.push_str(".\n");
        Reply::of(text)
    }
}
