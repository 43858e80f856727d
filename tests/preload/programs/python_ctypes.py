# SPDX-License-Identifier: MIT
"""The malloc family called from python through ctypes and libffi closures, unloading libraries."""
import _ctypes
import ctypes
import errno

libc = ctypes.CDLL(None, use_errno=True)
for name in ("malloc", "calloc", "realloc", "aligned_alloc", "memalign", "valloc", "pvalloc"):
    getattr(libc, name).restype = ctypes.c_void_p
libc.malloc_usable_size.restype = ctypes.c_size_t
size_t, pointer = ctypes.c_size_t, ctypes.c_void_p
libc.free.argtypes = libc.malloc_usable_size.argtypes = [pointer]

blocks = []
for size in list(range(0, 3000, 7)) + [1 << shift for shift in range(8, 24)]:
    block = libc.malloc(size_t(size))
    assert block % 16 == 0 and libc.malloc_usable_size(block) >= size, size
    ctypes.memset(block, size % 251, size)
    blocks.append((block, size))
wrong = 0
for block, size in blocks:
    data = ctypes.string_at(block, size)
    wrong += data != bytes([size % 251]) * size
    block = libc.realloc(pointer(block), size_t(size * 2 + 1))
    wrong += ctypes.string_at(block, size) != data
    libc.free(block)
zeroed = libc.calloc(size_t(1000), size_t(37))
wrong += ctypes.string_at(zeroed, 37000) != bytes(37000)
libc.free(zeroed)
for alignment in (16, 64, 256, 4096, 65536):
    block = libc.aligned_alloc(size_t(alignment), size_t(alignment * 3))
    wrong += block % alignment
    libc.free(block)
wrong += libc.valloc(size_t(10)) % 4096 + libc.pvalloc(size_t(10)) % 4096
ctypes.set_errno(0)
print(libc.malloc(size_t(2**63)), errno.errorcode[ctypes.get_errno()], wrong)

compare_type = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int),
                                ctypes.POINTER(ctypes.c_int))


def by_value(left, right):
    garbage = [str(i) for i in range(20)]
    return left[0] - right[0] + 0 * len(garbage)


numbers = (ctypes.c_int * 5000)(*[(i * 7919) % 5003 for i in range(5000)])
libc.qsort(numbers, size_t(5000), size_t(4), compare_type(by_value))
print(list(numbers) == sorted(numbers), numbers[0], numbers[4999])
for _ in range(50):
    library = ctypes.CDLL("libz.so.1")
    version = library.zlibVersion
    version.restype = ctypes.c_char_p
    text = version()
    _ctypes.dlclose(library._handle)
print(text.decode()[:2])
