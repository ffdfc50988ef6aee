//! Passwords from people and programs: from the terminal without showing them, or from the standard input; never from arguments,
//! which others can read.

use crate::message::Failure;
use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr};
use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, Read as _, Write as _};

/// More than any password has.
const MAX_BYTES: usize = 4096;
/// Ctrl-C, Ctrl-D, backspace and delete, and Ctrl-U, as a terminal sends them.
const INTERRUPT: u8 = 3;
const END: u8 = 4;
const BACKSPACE: [u8; 2] = [8, 127];
const KILL: u8 = 21;

/// The terminal, which shows what is typed again when this is dropped.
struct Quiet {
    terminal: File,
    before: Termios,
}

impl Quiet {
    fn begin() -> std::io::Result<Quiet> {
        let terminal = OpenOptions::new().read(true).write(true).open("/dev/tty")?;
        let before = tcgetattr(&terminal)?;
        let mut quiet = before.clone();
        // Signals come as characters, so that none ends the process while nothing is shown.
        quiet.local_modes &= !(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG);
        quiet.special_codes[SpecialCodeIndex::VMIN] = 1;
        quiet.special_codes[SpecialCodeIndex::VTIME] = 0;
        tcsetattr(&terminal, OptionalActions::Flush, &quiet)?;
        Ok(Quiet { terminal, before })
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        // There is nobody left to tell.
        let _ = tcsetattr(&self.terminal, OptionalActions::Flush, &self.before);
    }
}

/// Asks for a password on the terminal.
fn ask(question: &str) -> Result<String, Failure> {
    let failed = |error: std::io::Error| {
        Failure::new(
            format!("there is no terminal to ask for a password: {error}"),
            Some("send it by --password-stdin"),
        )
    };
    let mut quiet = Quiet::begin().map_err(failed)?;
    write!(quiet.terminal, "{question}: ").map_err(failed)?;
    let mut typed = Vec::new();
    loop {
        let mut byte = [0];
        let count = quiet.terminal.read(&mut byte).map_err(failed)?;
        match byte[0] {
            _ if count == 0 => break,
            b'\r' | b'\n' => break,
            INTERRUPT | END => {
                let _ = writeln!(quiet.terminal);
                return Err(Failure::new("no password was given: nothing was done", None));
            }
            KILL => typed.clear(),
            byte if BACKSPACE.contains(&byte) => drop_character(&mut typed),
            byte if typed.len() < MAX_BYTES => typed.push(byte),
            _ => {}
        }
    }
    writeln!(quiet.terminal).map_err(failed)?;
    text(typed)
}

/// A character may be several bytes.
fn drop_character(typed: &mut Vec<u8>) {
    while typed.pop().is_some_and(|byte| byte & 0xC0 == 0x80) {}
}

fn text(bytes: Vec<u8>) -> Result<String, Failure> {
    String::from_utf8(bytes).map_err(|_| Failure::new("a password is UTF-8 text", None))
}

/// Where passwords come from.
pub struct Source {
    pub from_stdin: bool,
}

impl Source {
    /// The password that somebody has.
    pub fn current(&self, user: &str) -> Result<String, Failure> {
        if self.from_stdin { line() } else { ask(&format!("the password that {user} has")) }
    }

    /// A new one; on the terminal it is asked for twice.
    pub fn new_one(&self, user: &str) -> Result<String, Failure> {
        if self.from_stdin {
            return line();
        }
        let password = ask(&format!("new password of {user}"))?;
        if ask("the same again")? != password {
            return Err(Failure::new("the two are not the same: nothing was done", None));
        }
        Ok(password)
    }
}

/// A line of the standard input, without its end.
fn line() -> Result<String, Failure> {
    let mut bytes = Vec::new();
    let stdin = std::io::stdin().lock();
    let read = stdin.take(MAX_BYTES as u64).read_until(b'\n', &mut bytes);
    read.map_err(|error| Failure::new(format!("the standard input cannot be read: {error}"), None))?;
    while bytes.last().is_some_and(|byte| b"\r\n".contains(byte)) {
        bytes.pop();
    }
    if bytes.is_empty() {
        return Err(Failure::new("no password came on the standard input", Some("send it as a line")));
    }
    text(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_character_is_taken_back_as_a_whole() {
        let mut typed = "a\u{e4}\u{1F600}".as_bytes().to_vec();
        for left in ["a\u{e4}", "a", "", ""] {
            drop_character(&mut typed);
            assert_eq!(typed, left.as_bytes());
        }
    }
}
