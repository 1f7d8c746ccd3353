//! The thread everything asynchronous runs on: one per process, started at first use, apart from Node's own threads, so
//! that worker threads may come and go and a blocked event loop blocks nothing here.

use std::future::Future;
use std::sync::OnceLock;

use tokio::runtime::{Builder, Handle};

/// Runs `task` on the runtime thread. If the thread can't be started, the task never runs; its callers time out.
pub fn spawn(task: impl Future<Output = ()> + Send + 'static) {
    if let Some(handle) = handle() {
        handle.spawn(task);
    }
}

fn handle() -> Option<&'static Handle> {
    static HANDLE: OnceLock<Option<Handle>> = OnceLock::new();
    HANDLE
        .get_or_init(|| {
            let runtime = Builder::new_current_thread().enable_all().build().ok()?;
            let handle = runtime.handle().clone();
            // Never ends: a process that exits takes it along.
            let thread = std::thread::Builder::new().name("holdfast".into());
            thread
                .spawn(move || runtime.block_on(std::future::pending::<()>()))
                .ok()?;
            Some(handle)
        })
        .as_ref()
}
