//! Long work speaks: after a second a line on standard error says what is being done, on a terminal
//! also how far it is.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{JoinHandle, spawn};
use std::time::{Duration, Instant};

use crate::output::status;

/// Work is quick that ends within this.
const QUICK: Duration = Duration::from_secs(1);
/// How often a terminal is told.
const OFTEN: Duration = Duration::from_millis(250);

/// Something that may take long; its line goes when this is dropped.
pub(crate) struct Working {
    work: Arc<Work>,
    teller: Option<JoinHandle<()>>,
}

struct Work {
    what: String,
    /// Parts of it that are done, and all; 0 if that isn't known.
    done: AtomicU64,
    total: u64,
    is_over: Mutex<bool>,
    over: Condvar,
}

impl Working {
    /// Work in so many parts, or 0.
    pub(crate) fn on(what: impl Into<String>, total: u64) -> Self {
        let work = Arc::new(Work {
            what: what.into(),
            done: AtomicU64::new(0),
            total,
            is_over: Mutex::new(false),
            over: Condvar::new(),
        });
        let told = Arc::clone(&work);
        Self {
            work,
            teller: Some(spawn(move || told.tell())),
        }
    }

    /// So many parts are done.
    pub(crate) fn has_done(&self, parts: u64) {
        self.work.done.store(parts, Ordering::Relaxed);
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        let is_over = self.work.is_over.lock();
        *is_over.unwrap_or_else(PoisonError::into_inner) = true;
        self.work.over.notify_all();
        // It has nothing left to do but to clear its line.
        let _ = self.teller.take().map(JoinHandle::join);
    }
}

impl Work {
    fn tell(&self) {
        let began = Instant::now();
        let is_over = self.is_over.lock();
        let mut is_over = is_over.unwrap_or_else(PoisonError::into_inner);
        let (mut wait, mut shown) = (QUICK, false);
        loop {
            let waited = self.over.wait_timeout_while(is_over, wait, |over| !*over);
            is_over = waited.unwrap_or_else(PoisonError::into_inner).0;
            if *is_over {
                return status(None, &mut shown);
            }
            status(Some(&self.line(began.elapsed().as_secs())), &mut shown);
            wait = OFTEN;
        }
    }

    fn line(&self, seconds: u64) -> String {
        let done = self.done.load(Ordering::Relaxed);
        match (done * 100).checked_div(self.total) {
            Some(percent) => format!("{}: {percent}%, {seconds} s", self.what),
            None => format!("{}: {seconds} s", self.what),
        }
    }
}
