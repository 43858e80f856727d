/* SPDX-License-Identifier: MIT */
/* A library for C programs: tells whether operator new throws std::bad_alloc in it. */
#include <cstddef>
#include <new>

extern "C" int new_throws(size_t bytes);

extern "C" int new_throws(size_t bytes) {
    try {
        ::operator delete(::operator new(bytes));
        return 0;
    } catch (const std::bad_alloc &) {
        return 1;
    }
}
