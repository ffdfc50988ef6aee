//! What a handler does, in sentences, for the log: handlers say it while they work, whoever keeps it.

use std::cell::RefCell;

tokio::task_local! {
    static NOTES: RefCell<Vec<String>>;
}

/// Runs something, and gives what was noted meanwhile in the same task.
pub async fn noting<T>(work: impl Future<Output = T>) -> (T, Vec<String>) {
    NOTES
        .scope(RefCell::default(), async {
            let done = work.await;
            (done, NOTES.with(RefCell::take))
        })
        .await
}

/// Notes a sentence for the log. Secrets are none of its words.
pub fn note(sentence: impl Into<String>) {
    // What nobody keeps is not to be kept.
    let _ = NOTES.try_with(|notes| notes.borrow_mut().push(sentence.into()));
}
