/* SPDX-License-Identifier: MIT */
/* All operators new and delete, their behaviour when memory is short, and C blocks beside C++
 * ones. */
#include "check.h"

#include <malloc.h>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr size_t SIZES[] = {0, 1, 8, 16, 24, 100, 1000, 5000, 40000, 300000, 5 << 20};

void expect_block(void *block, size_t size, size_t alignment) {
    CHECK(block, "no block of %zu", size);
    CHECK(reinterpret_cast<uintptr_t>(block) % alignment == 0, "%p: alignment %zu", block,
          alignment);
    CHECK(malloc_usable_size(block) >= size, "usable %zu of %zu", malloc_usable_size(block), size);
    memset(block, 0x77, size);
}

void plain() {
    for (size_t size : SIZES)
        for (int i = 0; i < 50; i++) {
            void *one = ::operator new(size), *many = ::operator new[](size);
            void *quiet = ::operator new(size, std::nothrow);
            void *quiet_many = ::operator new[](size, std::nothrow);
            for (void *block : {one, many, quiet, quiet_many})
                expect_block(block, size, size >= 16 ? 16 : 8);
            CHECK(one != many && many != quiet && quiet != quiet_many, "one block twice");
            ::operator delete(one);
            ::operator delete[](many);
            ::operator delete(quiet, std::nothrow);
            ::operator delete[](quiet_many, std::nothrow);
        }
    ::operator delete(opaque_pointer(nullptr));
    ::operator delete[](opaque_pointer(nullptr));
    ::operator delete(opaque_pointer(nullptr), size_t(10));
}

void sized() {
    for (size_t size : SIZES)
        for (int i = 0; i < 50; i++) {
            void *one = ::operator new(size), *many = ::operator new[](size);
            expect_block(one, size, 8);
            expect_block(many, size, 8);
            ::operator delete(one, size);
            ::operator delete[](many, size);
        }
}

void aligned() {
    for (size_t power = 1; power <= 1 << 20; power *= 2)
        for (size_t size : SIZES) {
            auto alignment = static_cast<std::align_val_t>(power);
            void *one = ::operator new(size, alignment);
            void *many = ::operator new[](size, alignment);
            void *quiet = ::operator new(size, alignment, std::nothrow);
            void *quiet_many = ::operator new[](size, alignment, std::nothrow);
            void *for_sized = ::operator new(size, alignment);
            void *for_sized_many = ::operator new[](size, alignment);
            for (void *block : {one, many, quiet, quiet_many, for_sized, for_sized_many})
                expect_block(block, size, power);
            ::operator delete(one, alignment);
            ::operator delete[](many, alignment);
            ::operator delete(quiet, alignment, std::nothrow);
            ::operator delete[](quiet_many, alignment, std::nothrow);
            ::operator delete(for_sized, size, alignment);
            ::operator delete[](for_sized_many, size, alignment);
        }
}

template <typename Allocate> void expect_bad_alloc(const char *what, Allocate allocate) {
    try {
        void *block = allocate();
        CHECK(false, "%s gave %p", what, block);
    } catch (const std::bad_alloc &error) {
        CHECK(typeid(error) == typeid(std::bad_alloc), "%s threw another type", what);
        CHECK(error.what()[0], "%s threw an empty bad_alloc", what);
    }
}

const size_t HUGE_SIZES[] = {SIZE_MAX, SIZE_MAX - 4096, size_t(PTRDIFF_MAX) + 1, size_t(1) << 60};

void bad_alloc() {
    for (size_t huge : HUGE_SIZES) {
        size_t size = opaque(huge);
        expect_bad_alloc("new", [&] { return ::operator new(size); });
        expect_bad_alloc("new[]", [&] { return ::operator new[](size); });
        CHECK(!::operator new(size, std::nothrow), "nothrow new");
        CHECK(!::operator new[](size, std::nothrow), "nothrow new[]");
    }
}

/* libstdc++ 12 rounds the size up without a check for overflow, so its new(SIZE_MAX, 64) asks for 0
 * bytes and returns a block. */
void bad_alloc_aligned() {
    auto alignment = static_cast<std::align_val_t>(64);
    for (size_t huge : HUGE_SIZES) {
        size_t size = opaque(huge);
        expect_bad_alloc("aligned new", [&] { return ::operator new(size, alignment); });
        expect_bad_alloc("aligned new[]", [&] { return ::operator new[](size, alignment); });
        CHECK(!::operator new(size, alignment, std::nothrow), "nothrow aligned new");
        CHECK(!::operator new[](size, alignment, std::nothrow), "nothrow aligned new[]");
    }
}

int handler_calls;

void handler_gives_up() {
    if (++handler_calls == 3)
        std::set_new_handler(nullptr);
}

void handler_throws() {
    handler_calls++;
    throw std::bad_alloc();
}

struct other_error {};

void handler_throws_other() {
    handler_calls++;
    throw other_error();
}

/* operator new calls the new-handler until there is none. Then it throws bad_alloc; the nothrow
 * operators return nullptr. */
void new_handler() {
    auto alignment = static_cast<std::align_val_t>(256);
    size_t size = opaque(SIZE_MAX - 1000);
    auto count = [&](const char *what, auto allocate) {
        handler_calls = 0;
        std::set_new_handler(handler_gives_up);
        allocate();
        CHECK(handler_calls == 3, "%s called the handler %d times", what, handler_calls);
        CHECK(std::get_new_handler() == nullptr, "the handler is still set");
    };
    count("new", [&] { expect_bad_alloc("new", [&] { return ::operator new(size); }); });
    count("new[]", [&] { expect_bad_alloc("new[]", [&] { return ::operator new[](size); }); });
    count("aligned new",
          [&] { expect_bad_alloc("aligned", [&] { return ::operator new(size, alignment); }); });
    count("nothrow new", [&] { CHECK(!::operator new(size, std::nothrow), "nothrow"); });
    count("nothrow aligned new",
          [&] { CHECK(!::operator new(size, alignment, std::nothrow), "nothrow"); });

    handler_calls = 0;
    std::set_new_handler(handler_throws);
    CHECK(!::operator new(size, std::nothrow), "nothrow new with a handler that throws");
    CHECK(handler_calls == 1, "called %d times", handler_calls);
    expect_bad_alloc("new with a handler that throws", [&] { return ::operator new(size); });
    std::set_new_handler(handler_throws_other);
    try {
        void *block = ::operator new(size);
        CHECK(false, "%p", block);
    } catch (const other_error &) {
    }
    std::set_new_handler(nullptr);
}

/* A malloc that fails does not call the handler. */
void new_handler_not_malloc() {
    handler_calls = 0;
    std::set_new_handler(handler_throws);
    CHECK(!malloc(opaque(SIZE_MAX - 1000)), "malloc");
    CHECK(!calloc(opaque(SIZE_MAX), 2), "calloc");
    CHECK(handler_calls == 0, "malloc called the new handler");
    std::set_new_handler(nullptr);
}

/* libstdc++ refuses an alignment that is no power of two with bad_alloc. */
void odd_alignment() {
    for (size_t wrong : {3, 5, 24, 100}) {
        auto alignment = static_cast<std::align_val_t>(opaque(wrong));
        expect_bad_alloc("odd alignment", [&] { return ::operator new(16, alignment); });
        CHECK(!::operator new(16, alignment, std::nothrow), "nothrow new, odd alignment");
    }
}

/* bad_alloc passes frames with destructors that call delete and free. */
void exception_unwinds() {
    static int destroyed;
    struct counted {
        std::string text = std::string(100, 'x');
        ~counted() {
            destroyed++;
        }
    };
    for (int i = 0; i < 2000; i++) {
        try {
            counted first;
            std::vector<counted> more(3);
            std::vector<char> impossible;
            impossible.reserve(opaque(size_t(PTRDIFF_MAX) - 5));
            CHECK(false, "reserve gave memory");
        } catch (const std::bad_alloc &) {
        }
    }
    CHECK(destroyed == 2000 * 4, "%d destructors ran", destroyed);
}

void mixed_with_c() {
    /* free of a block of operator new is wrong by the standard, but works with every common
     * allocator. */
    for (size_t size : SIZES) {
        free(::operator new(size));
        free(::operator new[](size));
        ::operator delete(malloc(size));
        ::operator delete[](calloc(1, size));
        ::operator delete(opaque_pointer(memalign(64, size)));
        free(::operator new(size, static_cast<std::align_val_t>(128)));
        void *grown = realloc(::operator new(size), size + 1000);
        expect_block(grown, size + 1000, 16);
        ::operator delete(grown);
    }
}

void containers() {
    std::map<int, std::string> table;
    for (int i = 0; i < 20000; i++)
        table[i * 7919 % 20011] = std::to_string(i) + std::string(size_t(i) % 200, 'y');
    for (int i = 0; i < 20000; i++)
        CHECK(table[i * 7919 % 20011].compare(0, std::to_string(i).size(), std::to_string(i)) == 0,
              "entry %d is damaged", i);
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; t++)
        threads.emplace_back([t] {
            std::vector<std::unique_ptr<std::string>> strings;
            for (int i = 0; i < 5000; i++) {
                strings.push_back(std::make_unique<std::string>(size_t(i) % 300, char('a' + t)));
                if (i % 3 == 0)
                    strings.erase(strings.begin() + i / 7 % int(strings.size()));
            }
            for (auto &string : strings)
                for (char c : *string)
                    CHECK(c == 'a' + t, "a string of thread %d is damaged", t);
        });
    for (auto &thread : threads)
        thread.join();
}

} // namespace

CHECK_MAIN({"plain", plain}, {"sized", sized}, {"aligned", aligned}, {"bad-alloc", bad_alloc},
           {"!bad-alloc-aligned", bad_alloc_aligned}, {"new-handler", new_handler},
           {"new-handler-not-malloc", new_handler_not_malloc}, {"odd-alignment", odd_alignment},
           {"exception-unwinds", exception_unwinds}, {"mixed-with-c", mixed_with_c},
           {"containers", containers})
