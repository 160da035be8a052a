//! A table of u64 -> u64 over the C ABI of libgpuhash, which is in gpuhash.h.
use std::ffi::{c_void, CStr, CString};
use std::os::raw::c_char; // which std::ffi has from Rust 1.64 on only
use std::{fmt, mem, ptr};

#[repr(C)]
struct Device {
    kind: i32,
    ordinal: i32,
}

/// gpuhash_config. gpuhash_config_init writes its defaults, so that none is repeated here.
#[repr(C)]
struct Config {
    struct_size: usize,
    backend: *const c_char,
    device: Device,
    key_bytes: u32,
    value_bytes: u32,
    capacity: u64,
    max_load_factor: f64,
    seed: u64,
    grow: u32,
    threads: u32,
    memory: *const c_void,
    options: *const c_void,
    n_options: usize,
    stream: *mut c_void,
}

/// gpuhash_error.
#[repr(C)]
struct RawError {
    struct_size: usize,
    code: i32,
    message: [c_char; 512],
}

#[repr(C)]
struct RawTable {
    _opaque: [u8; 0],
}

const ADD: u32 = 0; // GPUHASH_ADD
const UINT: u32 = 0; // GPUHASH_UINT
pub const NOT_FOUND: i32 = 5; // GPUHASH_NOT_FOUND

extern "C" {
    fn gpuhash_config_init(config: *mut Config, struct_size: usize);
    fn gpuhash_table_create(config: *const Config, out: *mut *mut RawTable, err: *mut RawError) -> i32;
    fn gpuhash_table_destroy(table: *mut RawTable);
    fn gpuhash_accumulate(t: *mut RawTable, n: usize, keys: *const u64, values: *const u64, combine: u32,
                          value_type: u32, status: *mut u8, stream: *mut c_void, err: *mut RawError) -> i32;
    fn gpuhash_find(t: *mut RawTable, n: usize, keys: *const u64, out: *mut u64, found: *mut u8,
                    stream: *mut c_void, err: *mut RawError) -> i32;
    fn gpuhash_size(t: *mut RawTable, size: *mut u64, err: *mut RawError) -> i32;
}

/// The code of a call that failed, and its sentence.
#[derive(Debug)]
pub struct Error {
    pub code: i32,
    pub sentence: String,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.sentence)
    }
}

impl std::error::Error for Error {}

/// Make a call with a place for its error.
fn call(function: impl FnOnce(*mut RawError) -> i32) -> Result<(), Error> {
    let mut raw = RawError { struct_size: mem::size_of::<RawError>(), code: 0, message: [0; 512] };
    match function(&mut raw) {
        0 => Ok(()),
        code => {
            // SAFETY: the library ends each message with 0.
            let sentence = unsafe { CStr::from_ptr(raw.message.as_ptr()) };
            Err(Error { code, sentence: sentence.to_string_lossy().into_owned() })
        }
    }
}

/// A table on the CPU. Calls of several threads may run at the same time.
pub struct Table(*mut RawTable);

unsafe impl Send for Table {}
unsafe impl Sync for Table {}

impl Table {
    /// A table of this structure in which `capacity` keys fit before it grows.
    pub fn new(backend: &str, capacity: u64) -> Result<Table, Error> {
        let name = CString::new(backend).expect("the name of a backend has no NUL");
        let mut table = ptr::null_mut();
        // SAFETY: a config of zeros is valid, and initialised by the library; `name` lives until the call has returned.
        call(|err| unsafe {
            let mut config: Config = mem::zeroed();
            gpuhash_config_init(&mut config, mem::size_of::<Config>());
            config.backend = name.as_ptr();
            config.capacity = capacity;
            gpuhash_table_create(&config, &mut table, err)
        })?;
        Ok(Table(table))
    }

    /// Add one to the value of each of these keys; a key that is not there begins with one.
    pub fn count(&self, keys: &[u64]) -> Result<(), Error> {
        let ones = vec![1; keys.len()];
        call(|err| unsafe {
            let (keys, ones, n) = (keys.as_ptr(), ones.as_ptr(), keys.len());
            gpuhash_accumulate(self.0, n, keys, ones, ADD, UINT, ptr::null_mut(), ptr::null_mut(), err)
        })
    }

    /// The value of each key.
    pub fn find(&self, keys: &[u64]) -> Result<Vec<Option<u64>>, Error> {
        let (mut values, mut found) = (vec![0; keys.len()], vec![0; keys.len()]);
        call(|err| unsafe {
            gpuhash_find(self.0, keys.len(), keys.as_ptr(), values.as_mut_ptr(), found.as_mut_ptr(), ptr::null_mut(), err)
        })?;
        Ok(values.into_iter().zip(found).map(|(value, found)| (found == 1).then_some(value)).collect())
    }

    /// Keys in the table.
    pub fn len(&self) -> Result<u64, Error> {
        let mut size = 0;
        call(|err| unsafe { gpuhash_size(self.0, &mut size, err) })?;
        Ok(size)
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        unsafe { gpuhash_table_destroy(self.0) }
    }
}
