/* SPDX-License-Identifier: MIT */
/*
 * v8.h - recognises the code that V8, the JavaScript engine of node, makes at run time.
 *
 * This code has no unwind information, but each frame keeps a frame pointer: the caller's rbp is at
 * rbp, the return address at rbp + 8. V8 promises this to profilers (`v8::Unwinder`). For these
 * profilers each isolate, which is one instance of the engine, keeps a list of the memory with its
 * code. V8 replaces the list in one store, so a signal handler may read it, and so may malloc. V8's
 * own machine code in the program's file (its builtins) stands in the list, too.
 *
 * The list lacks WebAssembly's code, which also keeps frame pointers. But only V8's own code calls
 * V8's code without a function of a loaded object between them. So code that calls V8's code
 * directly is V8's, too (v8_calls). All other code that was made at run time may use rbp as it
 * likes, and a path ends there.
 *
 * For: programs that export V8's symbols and were started with V8: node, and programs linked with
 * libnode.so. Cost: a look for two symbols in each large module, and a load when a path comes to
 * code without unwind information. If V8 is loaded, such a look asks V8 and, by madvise, the
 * kernel; for WebAssembly's code each walk does so again.
 *
 * Threads: any.
 */
#ifndef MEMCTX_V8_H
#define MEMCTX_V8_H

#include "path/stack.h"

/* Returns the packed rule of a return address in V8's code. */
INLINE uint64_t v8_rule(uint32_t module) {
    return CFI_RBP | (uint64_t)CFI_RBP_AT_CFA << 3 | (-2UL & 0x7ff) << 5 | 2UL << RULE_CFA_SHIFT |
           (uint64_t)(module < MODULES_MAX ? module : MODULES_MAX) << RULE_MODULE_SHIFT;
}

/* Looks for V8 in a module that was loaded with the program. Under unwind_rules_lock. */
void v8_look(const struct module *module);
/* True if V8 was found. Code without unwind information may then be V8's at the next look. */
bool v8_is_loaded(void);
/* Returns the calling thread's isolate if the return address is in code of the isolate's list; else
 * NULL. The caller holds no lock. */
const void *v8_isolate_of(uintptr_t address);
/* True if the code before the return address `address`, which no loaded object and no list has, is
 * V8's. `called` is the frame that this code called, and `type` is the word below the place where
 * rbp points: V8 keeps the type of WebAssembly's frames there. The caller holds no lock. */
bool v8_calls(const struct stack_frame *called, uintptr_t address, uint64_t type);
/* Makes v8_disposed tell the end of the isolate, after which other code may be at its addresses.
 * False: this is not possible, and no rule of its code may be kept. Under unwind_rules_lock. */
bool v8_watch(const void *isolate);
/* Called when a chunk in a watched page is freed. True if the chunk is an isolate that v8_watch was
 * given; the caller then makes the rules of the isolate's code invalid. */
bool v8_disposed(const void *chunk);

#endif
