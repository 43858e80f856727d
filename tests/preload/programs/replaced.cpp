/* SPDX-License-Identifier: MIT */
/* Defines some functions of the malloc family and some operators new and delete, and prints how
 * often each was called. An operator new stores the size in front of the block. The functions and
 * operators that the program does not define must call those that it defines.
 * Also defines clock_gettime, close and socket, which the library must not call. */
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <new>
#include <string>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <vector>

extern "C" void *__libc_realloc(void *old, size_t size);
extern "C" void __libc_free(void *block);

namespace {

constexpr size_t HEAD = 16;
int news, deletes, aligned_news, aligned_deletes, reallocs, frees, clock_reads, closes, sockets;

struct alignas(64) Wide {
    char bytes[64];
};

void *with_head(void *block, size_t size) {
    if (!block)
        throw std::bad_alloc();
    *static_cast<size_t *>(block) = size;
    return block;
}

template <class T> T *opaque(T *pointer) { // keeps the compiler from dropping new and delete
    __asm__ volatile("" : "+r"(pointer));
    return pointer;
}

void tell(const char *what) {
    printf("%s: %d new, %d delete; aligned: %d new, %d delete\n", what, news, deletes, aligned_news,
           aligned_deletes);
}

} // namespace

void *operator new(size_t size) {
    news++;
    return static_cast<char *>(with_head(malloc(size + HEAD), size)) + HEAD;
}

void operator delete(void *block) noexcept {
    if (!block)
        return;
    deletes++;
    free(static_cast<char *>(block) - HEAD);
}

void *operator new(size_t size, std::align_val_t alignment) {
    aligned_news++;
    size_t head = static_cast<size_t>(alignment);
    return static_cast<char *>(with_head(aligned_alloc(head, size + head), size)) + head;
}

void operator delete(void *block, std::align_val_t alignment) noexcept {
    if (!block)
        return;
    aligned_deletes++;
    free(static_cast<char *>(block) - static_cast<size_t>(alignment));
}

extern "C" void *realloc(void *old, size_t size) {
    reallocs++;
    return __libc_realloc(old, size);
}

extern "C" void free(void *block) {
    frees++;
    __libc_free(block);
}

/* As in libfaketime and proxychains, whose functions may wait, allocate, or close a descriptor
 * later. */
extern "C" int clock_gettime(clockid_t clock, timespec *now) {
    clock_reads++;
    return static_cast<int>(syscall(SYS_clock_gettime, clock, now));
}

extern "C" int close(int descriptor) {
    closes++;
    return static_cast<int>(syscall(SYS_close, descriptor));
}

extern "C" int socket(int family, int type, int protocol) noexcept {
    sockets++;
    return static_cast<int>(syscall(SYS_socket, family, type, protocol));
}

int main() {
    setvbuf(stdout, nullptr, _IONBF, 0); // printf takes no memory
    const size_t size = sizeof(long), alignment = alignof(Wide);
    auto align = static_cast<std::align_val_t>(alignment);
    for (int i = 0; i < 100; i++) {
        ::operator delete(opaque(::operator new(size)), size);
        ::operator delete[](opaque(::operator new[](size)));
        ::operator delete[](opaque(::operator new[](size)), size);
        ::operator delete(opaque(::operator new(size, std::nothrow)), std::nothrow);
        ::operator delete[](opaque(::operator new[](size, std::nothrow)), std::nothrow);
    }
    tell("plain");
    for (int i = 0; i < 100; i++) {
        ::operator delete(opaque(::operator new(size, align)), size, align);
        ::operator delete[](opaque(::operator new[](size, align)), align);
        ::operator delete[](opaque(::operator new[](size, align)), size, align);
        ::operator delete(opaque(::operator new(size, align, std::nothrow)), align, std::nothrow);
        ::operator delete[](opaque(::operator new[](size, align, std::nothrow)), align,
                            std::nothrow);
    }
    tell("aligned");
    {
        std::vector<std::string> strings(1000, std::string(100, 'x'));
        auto wide = std::make_shared<Wide>();
        std::unique_ptr<Wide[]> many(new Wide[10]);
        strings.resize(500);
        strings.shrink_to_fit();
    }
    tell("library");
    if (::operator new(size_t(-1) / 4, std::nothrow))
        return 1;
    tell("too large");
    reallocs = frees = 0;
    void *array = reallocarray(nullptr, 10, 100);
    array = reallocarray(array, 1000, 100);
    printf("reallocarray: %d realloc, %d free\n", reallocs, frees);
    array = realloc(array, 0);
    printf("realloc to nothing: %s, %d realloc, %d free\n", array ? "a block" : "none", reallocs,
           frees);
    free(opaque(reallocarray(nullptr, 10, 10)));
    printf("freed: %d realloc, %d free\n", reallocs, frees);
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    usleep(100000); // the library's thread has closed its descriptors and has its socket
    printf("%d calls of clock_gettime, %d of close, %d of socket\n", clock_reads, closes, sockets);
    return 0;
}
