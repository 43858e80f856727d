/* SPDX-License-Identifier: MIT */
/*
 * memctx.hpp - memctx.h for C++11 and later: a context and a scope as objects.
 *
 *     memctx::context request("request", MEMCTX_BUMP);
 *     {
 *         memctx::scope scope(request);
 *         handle(...);            // operator new, malloc: all allocate in the context
 *     }
 *     request.reset();
 *
 * The rules of memctx.h hold, also its rules for threads. Nothing here throws. Without the library,
 * and when memory is short, a context object holds NULL, and its functions do nothing.
 */
#ifndef MEMCTX_HPP
#define MEMCTX_HPP

#include "memctx.h"

namespace memctx {

/* Owns a context: the destructor deletes it, with every object in it. Objects that the context
 * holds must not be used or destroyed afterwards. A reset or delete of `parent` deletes the
 * context, too, so this object must be destroyed first. */
class context {
  public:
    explicit context(const char *name, enum memctx_policy policy = MEMCTX_ASET,
                     memctx_t parent = nullptr, const struct memctx_options *options = nullptr)
        : handle(memctx_create_with(parent, name, policy, options)) {}
    ~context() {
        memctx_delete(handle);
    }
    context(const context &) = delete;
    context &operator=(const context &) = delete;
    operator memctx_t() const {
        return handle;
    }
    void reset() {
        memctx_reset(handle);
    }

  private:
    memctx_t handle;
};

/* Switches its thread to the context; the destructor switches back to the previous context. */
class scope {
  public:
    explicit scope(memctx_t context) : before(memctx_switch(context)) {}
    ~scope() {
        memctx_switch(before);
    }
    scope(const scope &) = delete;
    scope &operator=(const scope &) = delete;

  private:
    memctx_t before;
};

} // namespace memctx

#endif
