// SPDX-License-Identifier: MIT
// The C library's allocation functions, each a jump to those of an allocator that a crate brings.
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
