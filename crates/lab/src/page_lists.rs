//! Free memory that the kernel keeps for each core by itself.
//!
//! Who takes pages on one core and gives them back on another, as a sender and a receiver of one machine do, makes these lists
//! grow to hundreds of MiB: a page comes back when all others have, and is in no cache by then.

/// Bytes in the lists of the core that has most; none where the kernel does not say.
pub fn longest() -> Option<u64> {
    let pages = most_pages(&std::fs::read_to_string("/proc/zoneinfo").ok()?)?;
    Some(pages * rustix::param::page_size() as u64)
}

/// Each zone of memory has a list for each core: `cpu: 0`, and below it `count: 9044`.
fn most_pages(zones: &str) -> Option<u64> {
    let mut cores: Vec<u64> = Vec::new();
    let mut core = None;
    for line in zones.lines() {
        let number = |name: &str| line.trim().strip_prefix(name)?.trim().parse::<usize>().ok();
        if let Some(index) = number("cpu:") {
            core = Some(index);
            cores.resize(cores.len().max(index + 1), 0);
        } else if let Some(count) = number("count:")
            && let Some(index) = core.take()
        {
            cores[index] += count as u64;
        }
    }
    cores.into_iter().max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_core_has_a_list_in_each_zone() {
        let list = |core: usize, count: u64| {
            format!("    cpu: {core}\n              count:    {count}\n              high:     10144\n")
        };
        let zone = |name: &str, counts: [u64; 2]| {
            let lists = [list(0, counts[0]), list(1, counts[1])].concat();
            format!(
                "Node 0, zone {name}\n  pages free     3840\n        high     8\n  pagesets\n{lists}  node_unreclaimable:  0\n"
            )
        };
        let text = [zone("DMA32", [100, 7]), zone("Normal", [5000, 5092])].concat();
        assert_eq!(most_pages(&text), Some(5100));
        assert_eq!(most_pages("Node 0, zone Normal\n  pages free 1\n"), None);
        assert!(longest().is_some(), "this kernel says it");
    }
}
