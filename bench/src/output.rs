//! What the clients print, as figures.

use crate::error::Error;

/// The figures of one process of `iscsi-perf`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PerfOutput {
    /// Average I/Os per second over the whole run, rounded down by the client.
    pub iops: u64,
    /// Bytes of each request as the client computed them from the target's block size.
    pub request_bytes: u64,
}

fn perf_error(reason: impl Into<String>) -> Error {
    Error::Output { program: "iscsi-perf", reason: reason.into() }
}

/// Reads what `iscsi-perf` wrote.
///
/// Progress lines are overwritten by carriage returns and contain an average as well; the final figure is
/// the segment that *begins* with `iops average`, and counts only when the run says `finished.`.
pub fn iscsi_perf(text: &str) -> Result<PerfOutput, Error> {
    if text.contains("ABORTED!") || !text.contains("finished.") {
        return Err(perf_error("the run did not finish"));
    }
    let mut iops = None;
    let mut request_bytes = None;
    for segment in text.split(['\r', '\n']) {
        if let Some(rest) = segment.strip_prefix("iops average ") {
            iops = leading_number(rest);
        } else if let Some(rest) = segment.strip_prefix("FIXED transfer size of ") {
            request_bytes = rest.split_once('(').and_then(|(_, bytes)| leading_number(bytes));
        }
    }
    match (iops, request_bytes) {
        (Some(0), _) => Err(perf_error("not a single request was completed")),
        (Some(iops), Some(request_bytes)) => Ok(PerfOutput { iops, request_bytes }),
        (None, _) => Err(perf_error("no final 'iops average'")),
        (_, None) => Err(perf_error("no 'FIXED transfer size'")),
    }
}

/// Reads what `qemu-img bench` wrote: the seconds that the run took.
pub fn qemu_bench(text: &str) -> Result<f64, Error> {
    let error = |reason: &str| Error::Output { program: "qemu-img", reason: reason.to_owned() };
    let seconds = text
        .lines()
        .find_map(|line| line.strip_prefix("Run completed in ")?.strip_suffix(" seconds."))
        .ok_or_else(|| error("no 'Run completed'"))?;
    let seconds: f64 = seconds.parse().map_err(|_| error("the run time is not a number"))?;
    if seconds.is_finite() && seconds > 0.0 { Ok(seconds) } else { Err(error("the run took no time")) }
}

fn leading_number(text: &str) -> Option<u64> {
    let digits = text.split(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Recorded from libiscsi-bin 1.19.0-3, three seconds, depth 32, shortened by trailing blanks only.
    const RANDOM: &str = "iscsi-perf version 0.1 - (c) 2014-2015 by Peter Lieven <pl@\u{138}amp.de>\n\n\
        connected to iscsi://127.0.0.1:14001/iqn.x:t/1\n\
        capacity is 524288 blocks or 268435456 byte (256 MB)\n\
        performing RANDOM READ with 32 parallel requests\n\
        FIXED transfer size of 8 blocks (4096 byte)\n\
        will run for 3 seconds.\n\n\
        \r00:00:02 - lba 299186, iops current 46170 (180 MB/s), iops average 46170 (180 MB/s), in_flight 32, busy 0        \
        \r00:00:01 - lba 421945, iops current 46779 (182 MB/s), iops average 46474 (181 MB/s), in_flight 32, busy 0        \
        \riops average 46835 (182 MB/s)                                                        \n\nfinished.\n";

    #[test]
    fn the_final_average_is_taken_not_a_progress_line() {
        let output = iscsi_perf(RANDOM).unwrap();
        assert_eq!(output, PerfOutput { iops: 46835, request_bytes: 4096 });
    }

    #[test]
    fn a_run_that_only_made_progress_is_an_error() {
        let cut = RANDOM.split("\riops average").next().unwrap();
        assert!(iscsi_perf(cut).is_err());
        assert!(iscsi_perf(&format!("{cut}\n\nfinished.\n")).is_err());
    }

    #[test]
    fn an_aborted_run_is_an_error() {
        assert!(iscsi_perf(&RANDOM.replace("finished.", "ABORTED!")).is_err());
        assert!(iscsi_perf("").is_err());
    }

    #[test]
    fn the_target_s_block_size_shows_in_the_request_size() {
        let text = RANDOM.replace("(4096 byte)", "(32768 byte)");
        assert_eq!(iscsi_perf(&text).unwrap().request_bytes, 32768);
        assert!(iscsi_perf(&RANDOM.replace("FIXED", "RANDOM")).is_err());
    }

    #[test]
    fn zero_requests_are_an_error() {
        assert!(iscsi_perf(&RANDOM.replace("average 46835", "average 0")).is_err());
    }

    #[test]
    fn qemu_img_tells_its_time() {
        let text = "Sending 50000 write requests, 4096 bytes each, 32 in parallel (starting at offset 0, step size 4096)\n\
                    Run completed in 1.090 seconds.\n";
        assert!((qemu_bench(text).unwrap() - 1.09).abs() < 1e-9);
    }

    #[test]
    fn qemu_img_that_failed_is_an_error() {
        assert!(qemu_bench("Failed request: Input/output error\n").is_err());
        assert!(qemu_bench("Run completed in 0.000 seconds.\n").is_err());
        assert!(qemu_bench("Run completed in nan seconds.\n").is_err());
    }
}
