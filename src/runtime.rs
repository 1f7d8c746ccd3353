//! The thread everything asynchronous runs on: one per process, started at first use, apart from Node's own threads, so
//! that worker threads may come and go and a blocked event loop blocks nothing here.

use std::future::Future;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use cpu_time::ThreadTime;
use tokio::runtime::{Builder, Handle};
use tokio::time::sleep;

/// How long a task that panicked rests before it is made anew.
const REST: Duration = Duration::from_millis(100);

/// Runs what `make` makes on the runtime thread, and makes it anew if it panics: a defect that one command meets must
/// not end the service of all others. If the thread can't be started, nothing runs, and callers time out.
pub fn spawn<T: Future<Output = ()> + Send + 'static>(mut make: impl FnMut() -> T + Send + 'static) {
    let Some(handle) = handle() else { return };
    handle.spawn(async move {
        while tokio::spawn(make()).await.is_err_and(|error| error.is_panic()) {
            sleep(REST).await;
        }
    });
}

/// The CPU time that thread has used so far. If it is too busy to say so at once: up to the last time it was asked.
pub fn cpu_time() -> Duration {
    const PATIENCE: Duration = Duration::from_millis(2);
    static LAST: AtomicU64 = AtomicU64::new(0);
    if let Some(handle) = handle() {
        let (tell, told) = std::sync::mpsc::sync_channel(1);
        handle.spawn(async move {
            LAST.store(ThreadTime::now().as_duration().as_micros() as u64, Ordering::Relaxed);
            let _ = tell.send(());
        });
        let _ = told.recv_timeout(PATIENCE);
    }
    Duration::from_micros(LAST.load(Ordering::Relaxed))
}

fn handle() -> Option<&'static Handle> {
    static HANDLE: OnceLock<Option<Handle>> = OnceLock::new();
    HANDLE
        .get_or_init(|| {
            let runtime = Builder::new_current_thread().enable_all().build().ok()?;
            let handle = runtime.handle().clone();
            // Never ends: a process that exits takes it along.
            let thread = std::thread::Builder::new().name("holdfast".into());
            thread.spawn(move || runtime.block_on(std::future::pending::<()>())).ok()?;
            Some(handle)
        })
        .as_ref()
}
