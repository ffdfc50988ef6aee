//! `fels lab` against nodes: several targets in turns, and the real fio.

mod compare;
mod fio;

use beds::tool::lab;

fn json(path: &std::path::Path) -> serde_json::Value {
    let text = std::fs::read_to_string(path).expect("what --json wrote");
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error} in {text}"))
}
