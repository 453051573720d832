//! A disk in memory that crashes at a write, or is full for some of them.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use redb::StorageBackend;

/// A disk. Clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct Disk(Arc<Mutex<Content>>);

#[derive(Debug, Default)]
struct Content {
    bytes: Vec<u8>,
    /// What survives if the machine crashes.
    synced: Vec<u8>,
    writes: u64,
    /// The write at which the machine crashes; it is not carried out.
    crash: Option<u64>,
    /// Writes that find the disk full.
    full: Option<std::ops::Range<u64>>,
    crashed: bool,
}

impl Disk {
    fn lock(&self) -> MutexGuard<'_, Content> {
        self.0.lock().unwrap()
    }

    pub(super) fn writes(&self) -> u64 {
        self.lock().writes
    }

    pub(super) fn crash_at(&self, write: u64) {
        self.lock().crash = Some(write);
    }

    pub(super) fn full_at(&self, writes: std::ops::Range<u64>) {
        self.lock().full = Some(writes);
    }

    pub(super) fn has_crashed(&self) -> bool {
        self.lock().crashed
    }

    /// The disk after a crash. `keeps` says whether what was not synced is there.
    pub(super) fn restart(&self, keeps: bool) {
        let mut content = self.lock();
        if !keeps {
            content.bytes = content.synced.clone();
        }
        (content.crashed, content.crash, content.full) = (false, None, None);
    }
}

impl Content {
    fn alive(&self) -> io::Result<()> {
        if self.crashed { Err(io::Error::other("the machine has crashed")) } else { Ok(()) }
    }

    fn write(&mut self) -> io::Result<()> {
        self.alive()?;
        self.crashed = self.crash == Some(self.writes);
        let is_full = self.full.as_ref().is_some_and(|full| full.contains(&self.writes));
        self.writes += 1;
        match is_full {
            true => Err(io::ErrorKind::StorageFull.into()),
            false => self.alive(),
        }
    }
}

impl StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        let content = self.lock();
        content.alive().map(|()| content.bytes.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let content = self.lock();
        content.alive()?;
        out.copy_from_slice(&content.bytes[offset as usize..][..out.len()]);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut content = self.lock();
        content.write()?;
        content.bytes.resize(len as usize, 0);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut content = self.lock();
        content.alive()?;
        content.synced = content.bytes.clone();
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut content = self.lock();
        content.write()?;
        content.bytes[offset as usize..][..data.len()].copy_from_slice(data);
        Ok(())
    }
}
