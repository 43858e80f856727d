// SPDX-License-Identifier: MIT
// exceptions - C++ exceptions through many frames, from constructors, across threads and nested;
// bad_alloc for impossible sizes; containers that grow meanwhile. Prints the caught exceptions.
#include <cstdint>
#include <cstdio>
#include <exception>
#include <map>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

struct custom_error {
    std::string text;
    std::vector<int> payload;
};

struct counted {
    static thread_local int alive;
    std::unique_ptr<std::string> text;
    explicit counted(int depth) : text(new std::string(100, char('a' + depth % 26))) {
        alive++;
    }
    counted(const counted &) = delete;
    counted &operator=(const counted &) = delete;
    ~counted() {
        alive--;
    }
};
thread_local int counted::alive = 0;

__attribute__((noinline)) static int descend(int depth, int kind) {
    counted guard(depth);
    if (depth == 0) {
        switch (kind % 4) {
        case 0: throw std::runtime_error("deep " + std::to_string(kind));
        case 1: throw custom_error{"custom " + std::to_string(kind), std::vector<int>(kind, kind)};
        case 2: throw kind;
        default: return std::stoi("not a number");
        }
    }
    return descend(depth - 1, kind) + guard.text->length();
}

static std::string attempt(int kind) {
    try {
        descend(5 + kind % 60, kind);
    } catch (const std::invalid_argument &error) {
        return std::string("invalid ") + error.what();
    } catch (const std::exception &error) {
        return error.what();
    } catch (const custom_error &error) {
        return error.text + " " + std::to_string(error.payload.size());
    } catch (int number) {
        return "int " + std::to_string(number);
    }
    return "nothing";
}

static void nest(int depth) {
    try {
        if (depth == 0) {
            throw std::logic_error("innermost");
        }
        nest(depth - 1);
    } catch (...) {
        std::throw_with_nested(std::runtime_error("level " + std::to_string(depth)));
    }
}

static int nested_levels(const std::exception &error) {
    try {
        std::rethrow_if_nested(error);
    } catch (const std::exception &inner) {
        return 1 + nested_levels(inner);
    }
    return 0;
}

template <typename function> static const char *bad_alloc_of(function &&allocate) {
    try {
        allocate();
    } catch (const std::bad_array_new_length &) {
        return "bad_array_new_length";
    } catch (const std::bad_alloc &) {
        return "bad_alloc";
    }
    return "none";
}

int main() {
    std::map<std::string, int> seen;
    for (int kind = 0; kind < 4000; kind++) {
        seen[attempt(kind % 97)]++;
    }
    for (const auto &[text, count] : seen) {
        std::printf("%s: %d\n", text.c_str(), count);
    }
    std::vector<std::thread> threads;
    std::vector<std::exception_ptr> carried(8);
    std::vector<int> alive(8, -1);
    for (int i = 0; i < 8; i++) {
        threads.emplace_back([i, &carried, &alive] {
            for (int kind = 0; kind < 1000; kind++) {
                attempt(kind);
            }
            try {
                descend(20, 4 * i + i % 3);
            } catch (...) {
                carried[i] = std::current_exception();
            }
            alive[i] = counted::alive;
        });
    }
    for (auto &thread : threads) {
        thread.join();
    }
    for (int i = 0; i < 8; i++) {
        try {
            std::rethrow_exception(carried[i]);
        } catch (const std::exception &error) {
            std::printf("thread %d: %s, %d alive\n", i, error.what(), alive[i]);
        } catch (const custom_error &error) {
            std::printf("thread %d: %s, %d alive\n", i, error.text.c_str(), alive[i]);
        } catch (int number) {
            std::printf("thread %d: int %d, %d alive\n", i, number, alive[i]);
        }
    }
    try {
        nest(30);
    } catch (const std::exception &error) {
        std::printf("%s, %d nested\n", error.what(), nested_levels(error));
    }
    volatile std::size_t huge = PTRDIFF_MAX, too_many = SIZE_MAX / 4;
    void *volatile sink = nullptr;
    std::printf("%s\n", bad_alloc_of([&] { sink = ::operator new(huge); }));
    std::printf("%s\n", bad_alloc_of([&] { sink = new long[too_many]; }));
    std::printf("%s\n", bad_alloc_of([&] { sink = ::operator new(huge, std::align_val_t(64)); }));
    std::printf("%d\n", ::operator new(huge, std::nothrow) == nullptr);
    std::printf("%d alive\n", counted::alive);
    std::set_terminate([] {
        std::string text("terminated, with a string of its own that is long");
        std::puts(text.c_str());
        std::fflush(stdout);
        std::_Exit(9);
    });
    throw custom_error{"nobody catches this", {}};
}
