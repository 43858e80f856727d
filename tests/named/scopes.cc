// SPDX-License-Identifier: MIT
// Tests memctx.hpp: a context as an object, a scope, exceptions that leave a scope.
#include <memctx.hpp>

#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

static void fill(std::vector<std::string> &strings) {
    for (int i = 0; i < 1000; i++)
        strings.push_back(std::string(100, static_cast<char>('a' + i % 26)));
    throw std::runtime_error("through the scope");
}

int main() {
    memctx::context top("top"), request("request", MEMCTX_BUMP, top);
    if (!memctx_is_active() || memctx_parent(request) != static_cast<memctx_t>(top))
        return 1;
    {
        std::vector<std::string> strings;
        try {
            memctx::scope scope(request);
            fill(strings);
        } catch (const std::exception &) {
        }
        if (memctx_current() || memctx_owner(strings[7].data()) != static_cast<memctx_t>(request))
            return 2;
    }
    struct memctx_stats stats;
    memctx_get_stats(request, &stats);
    if (stats.allocs < 1000)
        return 3;
    request.reset();
    if (!memctx_is_empty(request))
        return 4;
    std::puts("done");
    return 0;
}
