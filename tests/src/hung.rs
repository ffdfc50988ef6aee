//! What a program and a node were doing when one of them did not come to its end: by the time somebody looks, both are gone.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// What each thread of a process waits for, and the TCP connections of this machine in which bytes lie that nobody has taken.
pub fn describe(pid: u32) -> String {
    let mut text = String::new();
    for entry in fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
        let word = |name: &str| fs::read_to_string(entry.path().join(name)).unwrap_or_default();
        let (name, waits, call) = (word("comm"), word("wchan"), word("syscall"));
        let _ = writeln!(text, "thread {} in {waits}, system call {}", name.trim(), call.trim());
    }
    for table in ["/proc/net/tcp", "/proc/net/tcp6"] {
        let lines = fs::read_to_string(table).unwrap_or_default();
        lines.lines().skip(1).filter(|line| has_bytes(line)).for_each(|line| {
            let fields: Vec<&str> = line.split_whitespace().skip(1).take(4).collect();
            let _ =
                writeln!(text, "connection from, to, state, bytes to send:to be read: {}", fields.join(" "));
        });
    }
    text
}

/// Whether something waits in one of the two queues of a line of `/proc/net/tcp`.
fn has_bytes(line: &str) -> bool {
    let queues = line.split_whitespace().nth(4).unwrap_or_default();
    !queues.is_empty() && queues != "00000000:00000000"
}

/// What a node has in flight, if it still answers.
pub fn in_flight(data: &Path) -> String {
    let asked = crate::api::try_ask(data, "GET", "/metrics", "");
    match asked {
        Ok((_, text)) => {
            let lines: Vec<&str> = text.lines().filter(|line| line.contains("_in_flight{")).collect();
            lines.join("\n")
        }
        Err(error) => format!("the node does not answer: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_this_process_does_is_described() {
        let text = describe(std::process::id());
        assert!(text.contains("thread ") && text.contains("system call"), "{text}");
        assert!(has_bytes(" 0: 0100007F:1F90 00000000:0000 0A 00000000:00000001 00:00000000"));
        assert!(!has_bytes(" 0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000"));
    }
}
