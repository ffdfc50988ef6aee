//! How things are said to people: `error: sentence`, what it is about, `hint: what to do`.

use control::ConfigErrors;
use std::fmt::Write as _;
use std::io::{IsTerminal, Write as _};

/// Something failed.
pub const FAILED: u8 = 1;
/// The command line is wrong; clap ends with the same.
pub const USAGE: u8 = 2;

/// One thing to say.
#[derive(Debug, Default)]
pub struct Message {
    sentence: String,
    /// Lines shown below the sentence as they are, and what of them is a marker.
    quote: Option<(String, String)>,
    hint: Option<String>,
}

impl Message {
    pub fn new(sentence: impl Into<String>) -> Self {
        Self { sentence: sentence.into(), ..Self::default() }
    }

    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The text, with a label such as `error` in front; `colour` is the label's.
    fn render(&self, label: &str, colour: &str, coloured: bool) -> String {
        let paint = |text: &str, colour: &str| {
            if coloured { format!("\x1b[1;{colour}m{text}\x1b[0m") } else { text.to_owned() }
        };
        let mut text = format!("{} {}\n", paint(&format!("{label}:"), colour), self.sentence);
        if let Some((line, marker)) = &self.quote {
            // Writing to a String does not fail.
            let _ = writeln!(text, "{line}\n{}", paint(marker, colour));
        }
        if let Some(hint) = &self.hint {
            let _ = writeln!(text, "{} {hint}", paint("hint:", "36"));
        }
        text
    }

    /// Says it on stderr as a warning.
    pub fn warn(&self) {
        say(&self.render("warning", "33", colours()));
    }
}

/// Why a command ends with something else than success.
#[derive(Debug)]
pub struct Failure {
    messages: Vec<Message>,
    code: u8,
}

impl Failure {
    /// One message; `hint` is what somebody can do about it.
    pub fn new(sentence: impl Into<String>, hint: Option<&str>) -> Self {
        let message = Message::new(sentence);
        let message = if let Some(hint) = hint { message.hint(hint) } else { message };
        Self { messages: vec![message], code: FAILED }
    }

    /// Several messages.
    pub fn of(messages: Vec<Message>) -> Self {
        Self { messages, code: FAILED }
    }

    /// An error and its causes in one sentence.
    pub fn caused(error: &dyn std::error::Error, hint: Option<&str>) -> Self {
        let mut sentence = error.to_string();
        let mut cause = error.source();
        while let Some(error) = cause {
            let text = error.to_string();
            // Some errors have their cause in their own sentence already.
            if !sentence.contains(&text) {
                let _ = write!(sentence, ": {text}");
            }
            cause = error.source();
        }
        Self::new(sentence, hint)
    }

    /// The command line is wrong.
    pub fn usage(sentence: impl Into<String>, hint: &str) -> Self {
        Self { code: USAGE, ..Self::new(sentence, Some(hint)) }
    }

    /// Success, or all that failed, with the code of the first.
    pub fn together(results: impl IntoIterator<Item = Result<(), Failure>>) -> Result<(), Failure> {
        let failures = results.into_iter().filter_map(Result::err);
        let all = failures.reduce(|mut first, other| {
            first.messages.extend(other.messages);
            first
        });
        all.map_or(Ok(()), Err)
    }

    /// What the process ends with.
    pub fn code(&self) -> u8 {
        self.code
    }

    /// Says it on stderr.
    pub fn show(&self) {
        let coloured = colours();
        let texts: Vec<_> =
            self.messages.iter().map(|message| message.render("error", "31", coloured)).collect();
        say(&texts.join("\n"));
    }
}

impl From<ConfigErrors> for Failure {
    fn from(errors: ConfigErrors) -> Self {
        let mut messages: Vec<_> = errors.errors().iter().map(config_message).collect();
        match errors.suppressed() {
            0 => {}
            more => messages.push(Message::new(format!("and {more} more problems"))),
        }
        Self { messages, code: FAILED }
    }
}

fn config_message(error: &control::config::ConfigError) -> Message {
    let mut message = Message { hint: error.hint.clone(), ..Message::new(error.message.clone()) };
    if let Some(location) = &error.location {
        message.sentence =
            format!("{}:{}:{}: {}", location.file, location.line, location.column, error.message);
        message.quote = Some(location.quoted());
    }
    message
}

/// Colours only where somebody sees them and has not asked for none (<https://no-color.org>).
pub fn colours() -> bool {
    let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let able = std::env::var_os("TERM").is_none_or(|term| term != "dumb");
    wanted && able && std::io::stderr().is_terminal()
}

fn say(text: &str) {
    // Where nobody listens any more there is nobody to tell that.
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}

/// Writes `text` on stdout. A reader that went away, as `head` does, is no failure.
pub fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Failure::new(format!("writing to the standard output failed: {error}"), None))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_plain_without_a_terminal_and_coloured_on_one() {
        let message = Message::new("it broke").hint("mend it");
        assert_eq!(message.render("error", "31", false), "error: it broke\nhint: mend it\n");
        assert_eq!(
            message.render("error", "31", true),
            "\x1b[1;31merror:\x1b[0m it broke\n\x1b[1;36mhint:\x1b[0m mend it\n"
        );
    }

    #[test]
    fn a_problem_of_the_configuration_quotes_its_line() {
        let errors = control::Config::parse("blocks = 1", "fels.toml").unwrap_err();
        let failure = Failure::from(errors);
        assert_eq!(
            failure.messages[0].render("error", "31", false),
            "error: fels.toml:1:1: unknown key `blocks` at the top level\n  1 | blocks = 1\n    | ^^^^^^\nhint: the keys here are `data`, `shards`, `busy_poll`, `monitoring`, `iscsi`, `nbd`, `nvme`, `http`, `munin`, `mail`, `alert`, `pool`, `volume`\n"
        );
        assert_eq!(failure.code(), FAILED);
    }

    #[test]
    fn causes_are_told_once() {
        #[derive(Debug, thiserror::Error)]
        #[error("the volume demo cannot be opened")]
        struct Outer(#[source] std::io::Error);
        let error = Outer(std::io::ErrorKind::PermissionDenied.into());
        let failure = Failure::caused(&error, None);
        assert_eq!(failure.messages[0].sentence, "the volume demo cannot be opened: permission denied");
    }
}
