//! A command line that is wrong: said as clap says it, but without secrets, and with the flag that was left out.

use crate::cli::Cli;
use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, CommandFactory, Error};
use lab::target::without_secret;
use std::ffi::{OsStr, OsString};

/// What is said of these words (the first is the program), of which clap says this.
pub fn explained(mut error: Error, words: &[OsString]) -> Error {
    if let Some(tip) = flag_left_out(&error, words) {
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![StyledStr::from(tip)]));
    }
    without_secrets(error)
}

/// A value without its flag, as in `fels volume create db 1TiB`: the flag without which the command cannot do, if with it in front
/// of one of the words all is right.
fn flag_left_out(error: &Error, words: &[OsString]) -> Option<String> {
    let stray = match (error.kind(), error.get(ContextKind::InvalidArg)) {
        (ErrorKind::UnknownArgument, Some(ContextValue::String(stray))) => Some(OsStr::new(stray)),
        (ErrorKind::MissingRequiredArgument, _) => None,
        _ => return None,
    };
    let (command, first) = command_of(words);
    let is_candidate = |word: &OsStr| {
        let is_flag = word.to_str().is_none_or(|word| word.starts_with('-'));
        !is_flag && stray.is_none_or(|stray| stray == word)
    };
    let mut candidates = (first..words.len()).filter(|&place| is_candidate(&words[place]));
    candidates.find_map(|place| {
        let mut others = words.to_vec();
        let word = others.remove(place);
        // Where it is right without the word, nothing was left out.
        if is_right(&others) {
            return None;
        }
        let flags = command.get_arguments().filter(|flag| flag.get_action().takes_values());
        let flag = flags.filter_map(|flag| flag.get_long()).find(|flag| {
            let with: Vec<OsString> =
                others.iter().cloned().chain([format!("--{flag}").into(), word.clone()]).collect();
            is_right(&with)
        })?;
        let word = without_secret(word.to_str()?);
        Some(format!("write --{flag} {word} instead of {word}"))
    })
}

fn is_right(words: &[OsString]) -> bool {
    Cli::command().try_get_matches_from(words).is_ok()
}

/// The command that the words name, and the place of the first word behind its name.
fn command_of(words: &[OsString]) -> (Command, usize) {
    let (mut command, mut place) = (Cli::command(), 1);
    while let Some(inner) = words.get(place).and_then(|word| command.find_subcommand(word)).cloned() {
        (command, place) = (inner, place + 1);
    }
    (command, place)
}

/// The same without the secrets of addresses, which the words that are wrong may hold: what is said ends up in logs.
fn without_secrets(mut error: Error) -> Error {
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
