//! The slow work of passwords: on threads of its own, and not on too many at once.

use std::sync::Arc;

use tokio::sync::Semaphore;

use super::password::{HashError, Password, PasswordHash, verify};

/// Passwords that are hashed at once: each takes 19 MiB and a core, which the shards need too.
pub const MAX_AT_ONCE: usize = 2;

/// Hashes and compares passwords, so many at once.
#[derive(Clone)]
pub struct Hashing {
    room: Arc<Semaphore>,
}

impl Default for Hashing {
    fn default() -> Hashing {
        Hashing { room: Arc::new(Semaphore::new(MAX_AT_ONCE)) }
    }
}

impl Hashing {
    /// Hashes a password.
    pub async fn hash(&self, password: Password) -> Result<PasswordHash, HashError> {
        self.work(move || PasswordHash::of(&password)).await?
    }

    /// Whether it is the password; of nobody none is.
    pub async fn verify(&self, password: Password, kept: Option<PasswordHash>) -> Result<bool, HashError> {
        self.work(move || verify(&password, kept.as_ref())).await
    }

    async fn work<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, HashError> {
        let permit = self.room.clone().acquire_owned().await.map_err(|_| HashError::Gone)?;
        let working = tokio::task::spawn_blocking(move || {
            // Given back when the work is done, not when nobody waits for it any more.
            let _permit = permit;
            work()
        });
        working.await.map_err(|_| HashError::Gone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    #[test]
    fn not_more_than_so_many_are_hashed_at_once_even_if_nobody_waits() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let hashing = Hashing::default();
            let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
            let begin = || {
                let (now, most, hashing) = (now.clone(), most.clone(), hashing.clone());
                tokio::spawn(async move {
                    let work = move || {
                        most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                        std::thread::sleep(Duration::from_millis(20));
                        now.fetch_sub(1, Ordering::SeqCst);
                    };
                    hashing.work(work).await.unwrap();
                })
            };
            let given_up: Vec<_> = (0..4).map(|_| begin()).collect();
            tokio::time::sleep(Duration::from_millis(5)).await;
            given_up.iter().for_each(tokio::task::JoinHandle::abort);
            let waited_for: Vec<_> = (0..8).map(|_| begin()).collect();
            for one in waited_for {
                one.await.unwrap();
            }
            assert_eq!(most.load(Ordering::SeqCst), MAX_AT_ONCE);
        });
    }
}
