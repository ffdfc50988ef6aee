//! Processor time of this process.

use std::time::Duration;

/// Ticks per second of `/proc`: 100 on every Linux of the last twenty years (`USER_HZ`).
const TICKS: u64 = 100;

/// User and system time so far, of all threads.
pub fn used() -> Option<Duration> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The name may hold anything but ends at the last parenthesis.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let user: u64 = fields.get(11)?.parse().ok()?;
    let system: u64 = fields.get(12)?.parse().ok()?;
    Some(Duration::from_millis((user + system) * 1000 / TICKS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_takes_time() {
        let before = used().unwrap();
        let start = std::time::Instant::now();
        let mut sum = 0u64;
        while start.elapsed() < Duration::from_millis(200) {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        assert!(used().unwrap() > before);
    }
}
