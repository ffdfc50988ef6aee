//! `fels lab` against nodes: several targets in turns, and the real fio.

mod compare;
mod fio;

use std::time::Duration;

use beds::{Tool, node};

fn lab(subcommand: &str) -> Tool {
    let binary = node::binary();
    let tool = Tool::new(binary.to_str().expect("a path that is text"));
    tool.args(["lab", subcommand]).deadline(Duration::from_secs(120))
}

fn json(path: &std::path::Path) -> serde_json::Value {
    let text = std::fs::read_to_string(path).expect("what --json wrote");
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error} in {text}"))
}
