//! What is wrong with a configuration: a sentence, its place, the line, and what to do.

use super::source::{Source, secrets_of_broken};
use std::fmt;
use std::ops::Range;
use std::path::PathBuf;

/// Errors shown at once; a file that is no configuration at all should not fill the terminal.
const MAX_SHOWN: usize = 50;

/// A place in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Location {
    /// The name of the file, as it was given.
    pub file: String,
    /// Line, counted from 1.
    pub line: usize,
    /// Column in characters, counted from 1.
    pub column: usize,
    /// The line, with secrets replaced.
    pub quote: String,
    /// The characters of `quote` that are meant.
    pub mark: Range<usize>,
}

impl Location {
    /// The line with its number in front, and the line that marks below it what is meant.
    pub fn quoted(&self) -> (String, String) {
        let number = self.line.to_string();
        let (gutter, indent) = (" ".repeat(number.len()), " ".repeat(self.mark.start));
        (
            format!("  {number} | {}", self.quote),
            format!("  {gutter} | {indent}{}", "^".repeat(self.mark.len())),
        )
    }
}

/// One problem of a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    /// Where, if it is in the text of the file.
    pub location: Option<Location>,
    /// What is wrong: one sentence without a full stop.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(location) = &self.location {
            let Location { file, line, column, .. } = location;
            let (quoted, marker) = location.quoted();
            write!(f, "{file}:{line}:{column}: {}\n{quoted}\n{marker}", self.message)?;
        } else {
            f.write_str(&self.message)?;
        }
        match &self.hint {
            Some(hint) => write!(f, "\nhint: {hint}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for ConfigError {}

/// All problems of a configuration, at least one, in the order of the file.
#[derive(Debug, Clone)]
pub struct ConfigErrors {
    errors: Vec<ConfigError>,
    suppressed: usize,
}

impl ConfigErrors {
    /// The problems, in the order of the file; the first fifty of them.
    pub fn errors(&self) -> &[ConfigError] {
        &self.errors
    }

    /// How many more problems there are than [`ConfigErrors::errors`] has.
    pub fn suppressed(&self) -> usize {
        self.suppressed
    }

    pub(crate) fn unreadable(name: &str, error: &std::io::Error) -> Self {
        use std::io::ErrorKind;
        let (why, hint) = match error.kind() {
            ErrorKind::NotFound => ("there is no such file", Some("name a file with --config FILE")),
            ErrorKind::PermissionDenied => {
                ("this user may not read it", Some("let its group or owner be the user that runs fels"))
            }
            ErrorKind::IsADirectory => ("it is a directory", Some("name the file in it, such as fels.toml")),
            ErrorKind::InvalidData => ("it is not UTF-8 text", None),
            ErrorKind::FileTooLarge => ("it is larger than 16 MiB", None),
            _ => ("", None),
        };
        let why = if why.is_empty() { error.to_string() } else { why.to_owned() };
        let error = ConfigError {
            location: None,
            message: format!("the configuration {name} cannot be read: {why}"),
            hint: hint.map(str::to_owned),
        };
        Self { errors: vec![error], suppressed: 0 }
    }

    /// One problem of the whole.
    pub(crate) fn whole(message: String, hint: &str) -> Self {
        let error = ConfigError { location: None, message, hint: Some(hint.to_owned()) };
        Self { errors: vec![error], suppressed: 0 }
    }

    pub(super) fn syntax(text: &str, name: &str, errors: &[toml::de::Error]) -> Self {
        let mut problems = Problems::new(text, name, secrets_of_broken(text));
        for error in errors {
            let span = error.span().unwrap_or(0..0);
            problems.add(span, format!("this is not TOML: {}", error.message().replace('\n', ", ")));
        }
        problems.into_errors()
    }
}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.errors.iter().enumerate() {
            let blank = if index == 0 { "" } else { "\n" };
            write!(f, "{blank}{error}")?;
        }
        match self.suppressed {
            0 => Ok(()),
            more => write!(f, "\nand {more} more"),
        }
    }
}

impl std::error::Error for ConfigErrors {}

/// The problems found so far.
#[derive(Debug)]
pub(super) struct Problems<'t> {
    source: Source<'t>,
    found: Vec<(usize, ConfigError)>,
    /// Files that are named for the node alone to read, such as those of secrets.
    pub named: Vec<PathBuf>,
}

impl<'t> Problems<'t> {
    pub fn new(text: &'t str, name: &'t str, secrets: Vec<Range<usize>>) -> Self {
        Self { source: Source::new(text, name, secrets), found: Vec::new(), named: Vec::new() }
    }

    pub fn add(&mut self, span: Range<usize>, message: impl Into<String>) {
        self.push(span, message.into(), None);
    }

    pub fn add_hint(&mut self, span: Range<usize>, message: impl Into<String>, hint: impl Into<String>) {
        self.push(span, message.into(), Some(hint.into()));
    }

    fn push(&mut self, span: Range<usize>, message: String, hint: Option<String>) {
        let start = span.start;
        let location = Some(self.source.locate(span));
        self.found.push((start, ConfigError { location, message, hint }));
    }

    pub fn into_result<T>(self, value: T) -> Result<T, ConfigErrors> {
        if self.found.is_empty() { Ok(value) } else { Err(self.into_errors()) }
    }

    fn into_errors(mut self) -> ConfigErrors {
        self.found.sort_by_key(|(start, _)| *start);
        let suppressed = self.found.len().saturating_sub(MAX_SHOWN);
        self.found.truncate(MAX_SHOWN);
        ConfigErrors { errors: self.found.into_iter().map(|(_, error)| error).collect(), suppressed }
    }
}
