//! A command line that is wrong: said as clap says it, but without secrets.

use clap::Error;
use clap::error::{ContextKind, ContextValue};
use lab::target::without_secret;

/// The same without the secrets of addresses, which the words that are wrong may hold: what is said ends up in logs.
pub fn without_secrets(mut error: Error) -> Error {
    let told: Vec<(ContextKind, ContextValue)> =
        error.context().filter_map(|(kind, value)| Some((kind, hidden(value)?))).collect();
    for (kind, value) in told {
        error.insert(kind, value);
    }
    error
}

fn hidden(value: &ContextValue) -> Option<ContextValue> {
    match value {
        ContextValue::String(text) => Some(ContextValue::String(without_secret(text))),
        ContextValue::Strings(texts) => {
            Some(ContextValue::Strings(texts.iter().map(|text| without_secret(text)).collect()))
        }
        _ => None,
    }
}
