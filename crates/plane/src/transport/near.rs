//! What is sent from memory that nobody has touched for long.

use ring::{Buffer, Shared};

use crate::memory_gate::has_memory;

/// Bytes that are to be sent, of which no digest is made: from a buffer that is in the cache, where that is quicker and there
/// is memory for it.
#[inline]
pub fn near(data: Shared) -> Shared {
    if data.is_better_copied() { copied(data) } else { data }
}

/// A copy, if there is memory for it.
fn copied(data: Shared) -> Shared {
    if has_memory(data.len()) { Buffer::copy_of(&data).share() } else { data }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ring::{Memory, in_use};

    use super::*;
    use crate::limits::BUFFER_BYTES_PER_SHARD;

    const LONG: usize = 64 << 10;

    #[test]
    fn without_memory_for_a_copy_the_bytes_stay_where_they_are() {
        let lender = Arc::new(Memory::new(LONG as u64).unwrap()).lender().unwrap();
        drop(lender.write(0, &[&vec![7; LONG]]));
        let (before, lent) = (in_use(), || lender.lend(0, LONG).unwrap());
        let copy = copied(lent());
        drop(lender.write(0, &[&vec![8; LONG]]));
        assert!(in_use() == before + LONG && copy.iter().all(|&byte| byte == 7));
        drop(copy);
        let most = 16 << 20;
        let all: Vec<_> = (0..BUFFER_BYTES_PER_SHARD / most).map(|_| Buffer::new(most)).collect();
        let full = in_use();
        let same = copied(lent());
        assert!(in_use() == full && same.iter().all(|&byte| byte == 8));
        drop((all, same));
        assert_eq!(in_use(), before);
    }
}
