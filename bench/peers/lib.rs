// SPDX-License-Identifier: MIT
// Defines malloc and its family. Each function calls the function of an allocator from a crate.
use std::ffi::{c_int, c_void};

#[cfg(feature = "mimalloc")]
use libmimalloc_sys::{
    mi_calloc as c_calloc, mi_free as c_free, mi_malloc as c_malloc,
    mi_malloc_aligned, mi_realloc as c_realloc, mi_usable_size as c_usable_size,
};
#[cfg(feature = "mimalloc")]
unsafe fn c_aligned(alignment: usize, size: usize) -> *mut c_void {
    mi_malloc_aligned(size, alignment)
}
#[cfg(feature = "snmalloc")]
use snmalloc_sys::{
    sn_calloc as c_calloc, sn_free as c_free, sn_malloc as c_malloc, sn_realloc as c_realloc,
    sn_rust_alloc as c_aligned, sn_rust_usable_size as c_usable_size,
};
#[cfg(feature = "rpmalloc")]
mod rpmalloc {
    // rpmalloc must be told of each thread before the thread allocates, and of the thread's end.
    use rpmalloc_sys::{rpaligned_alloc, rpcalloc, rpmalloc, rprealloc};
    use std::ffi::{c_int, c_uint, c_void};
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

    extern "C" {
        fn rpmalloc_thread_finalize(release_caches: c_int);
        fn pthread_key_create(key: *mut c_uint, at_end: unsafe extern "C" fn(*mut c_void)) -> c_int;
        fn pthread_setspecific(key: c_uint, value: *const c_void) -> c_int;
    }
    static KEY: AtomicU32 = AtomicU32::new(u32::MAX);

    unsafe extern "C" fn thread_ends(_: *mut c_void) {
        rpmalloc_thread_finalize(1);
    }
    #[cold]
    unsafe fn thread_begins() {
        rpmalloc_sys::rpmalloc_initialize(); // of the process, the first time
        if KEY.load(Relaxed) == u32::MAX {
            let mut key = 0;
            pthread_key_create(&mut key, thread_ends);
            KEY.store(key, Relaxed);
        }
        pthread_setspecific(KEY.load(Relaxed), 1 as *const c_void);
    }
    unsafe fn enter() {
        if rpmalloc_sys::rpmalloc_is_thread_initialized() == 0 {
            thread_begins();
        }
    }
    pub unsafe fn c_malloc(size: usize) -> *mut c_void {
        enter();
        rpmalloc(size)
    }
    pub unsafe fn c_calloc(count: usize, size: usize) -> *mut c_void {
        enter();
        rpcalloc(count, size)
    }
    pub unsafe fn c_realloc(chunk: *mut c_void, size: usize) -> *mut c_void {
        enter();
        rprealloc(chunk, size)
    }
    // rpfree needs no heap: a thread may still free chunks after rpmalloc was told of its end.
    pub use rpmalloc_sys::rpfree as c_free;
    pub unsafe fn c_aligned(alignment: usize, size: usize) -> *mut c_void {
        enter();
        rpaligned_alloc(alignment, size)
    }
    pub use rpmalloc_sys::rpmalloc_usable_size as c_usable_size;
}
#[cfg(feature = "rpmalloc")]
use rpmalloc::*;

const ENOMEM: c_int = 12;
const EINVAL: c_int = 22;

#[no_mangle]
pub unsafe extern "C" fn malloc(size: usize) -> *mut c_void {
    c_malloc(size)
}
#[no_mangle]
pub unsafe extern "C" fn calloc(count: usize, size: usize) -> *mut c_void {
    c_calloc(count, size)
}
#[no_mangle]
pub unsafe extern "C" fn realloc(chunk: *mut c_void, size: usize) -> *mut c_void {
    c_realloc(chunk, size)
}
#[no_mangle]
pub unsafe extern "C" fn free(chunk: *mut c_void) {
    c_free(chunk)
}
#[no_mangle]
pub unsafe extern "C" fn memalign(alignment: usize, size: usize) -> *mut c_void {
    c_aligned(alignment, size)
}
#[no_mangle]
pub unsafe extern "C" fn aligned_alloc(alignment: usize, size: usize) -> *mut c_void {
    c_aligned(alignment, size)
}
#[no_mangle]
pub unsafe extern "C" fn posix_memalign(result: *mut *mut c_void, alignment: usize, size: usize) -> c_int {
    if !alignment.is_power_of_two() || alignment < 8 {
        return EINVAL;
    }
    let chunk = c_aligned(alignment, size);
    if chunk.is_null() {
        return ENOMEM;
    }
    *result = chunk;
    0
}
#[no_mangle]
pub unsafe extern "C" fn valloc(size: usize) -> *mut c_void {
    c_aligned(4096, size)
}
#[no_mangle]
pub unsafe extern "C" fn pvalloc(size: usize) -> *mut c_void {
    c_aligned(4096, (size + 4095) & !4095)
}
#[no_mangle]
pub unsafe extern "C" fn malloc_usable_size(chunk: *mut c_void) -> usize {
    c_usable_size(chunk)
}
