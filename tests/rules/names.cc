// SPDX-License-Identifier: MIT
// names.cc - C++ functions whose names stand in rules.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#define APART __attribute__((noinline, noclone))

static inline char *chunk_of(std::size_t bytes) {
    char *chunk = static_cast<char *>(std::malloc(bytes));
    __asm__ volatile("" ::: "memory");
    return chunk;
}

namespace shop {
template <class T> struct shelf {
    APART static char *put(T bytes) {
        return chunk_of(bytes);
    }
};
template <class Key, class Value, int Size> struct cache {
    APART static char *fill() {
        return chunk_of(3000);
    }
};
enum class kind { big = 3 };
template <kind Kind> struct crate {
    APART static char *pack() {
        return chunk_of(3000);
    }
};
namespace inner {
struct till {
    char *chunk = nullptr;
    APART till(int bytes) : chunk(chunk_of(static_cast<std::size_t>(bytes))) {}
    APART till() {}
    APART char *open(int bytes) const {
        return chunk_of(static_cast<std::size_t>(bytes));
    }
    APART char *operator+(int bytes) const {
        return chunk_of(static_cast<std::size_t>(bytes));
    }
    APART char *sell(int bytes) const {
        auto wrap = [bytes](int more)
                        APART { return chunk_of(static_cast<std::size_t>(bytes + more)); };
        return wrap(0);
    }
};
} // namespace inner
APART std::string label(char **chunk) {
    *chunk = chunk_of(3000);
    return "";
}
} // namespace shop

/* A name with dots, as Go's and OCaml's compilers make them. */
extern "C" {
char *dotted(std::size_t bytes) __asm__("market.open.till");
APART char *dotted(std::size_t bytes) {
    return chunk_of(bytes);
}
}

int main() {
    char *labelled;
    shop::label(&labelled);
    char *chunks[] = {shop::shelf<std::size_t>::put(3000),
                      shop::inner::till().open(3000),
                      shop::cache<std::string, std::string, 7>::fill(),
                      shop::crate<shop::kind::big>::pack(),
                      shop::inner::till(3000).chunk,
                      shop::inner::till() + 3000,
                      shop::inner::till().sell(3000),
                      dotted(3000),
                      labelled};
    std::puts("begun");
    std::fflush(stdout);
    std::getchar();
    for (char *chunk : chunks)
        std::free(chunk);
    return 0;
}
