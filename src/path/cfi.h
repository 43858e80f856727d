/* SPDX-License-Identifier: MIT */
/*
 * cfi.h - tells how to step from one frame to its caller, from the call frame information in
 * .eh_frame.
 *
 * The rules are those of x86-64, where the stack pointer and rbp are enough for the code that
 * compilers emit. Sources: DWARF 5 section 6.4, the LSB's description of .eh_frame, and
 * _dl_find_object(3) of glibc, which takes no lock and is safe in signal handlers. With a glibc
 * that lacks this function, loaded.h finds objects instead.
 */
#ifndef MEMCTX_CFI_H
#define MEMCTX_CFI_H

#include "base/base.h"

/* The canonical frame address (CFA) is the caller's stack pointer; the return address is at
 * CFA - 8. */
enum cfi_kind {
    CFI_NONE = 1,  /* there is no usable information: the path ends here, with a label */
    CFI_END,       /* the outermost frame */
    CFI_SP,        /* CFA = sp + cfa_offset */
    CFI_RBP,       /* CFA = rbp + cfa_offset */
    CFI_RBP_DEREF, /* CFA = the word at rbp + cfa_offset (a realigned stack) */
    CFI_SIGNAL,    /* the kernel saved sp, rbp and pc in the signal frame at sp */
};
enum cfi_rbp {
    CFI_RBP_SAME = 0, /* the caller's rbp is still in rbp */
    CFI_RBP_AT_CFA,   /* the caller's rbp was saved at CFA + rbp_offset */
    CFI_RBP_AT_RBP,   /* the caller's rbp was saved at rbp + rbp_offset */
    CFI_RBP_LOST,     /* the caller's rbp cannot be found */
};
struct cfi_rule {
    enum cfi_kind kind;
    enum cfi_rbp rbp;
    int32_t cfa_offset, rbp_offset;
    uintptr_t function; /* start of the code that the frame description covers; 0: not known */
};

/* Offsets from a signal frame's stack pointer to the words in which the kernel saved the
 * interrupted registers (struct ucontext). */
#define CFI_SIGNAL_RBP 120
#define CFI_SIGNAL_SP 160
#define CFI_SIGNAL_PC 168

struct cfi_function { /* the code of a function, as a frame description tells it */
    uintptr_t start;  /* 0: not known */
    uint32_t bytes;
};

struct cfi_object { /* the loaded object that holds the code at an address */
    /* bounds of the object, or of its part around the address that is mapped in one piece */
    uintptr_t start, end;
    /* bounds of the mapped part that holds the object's unwind information */
    uintptr_t frames_start, frames_end;
    const void *link_map;
    const void *eh_frame_header;
};
/* Returns false if no loaded object holds the address (JIT code, unloaded code).
 * Async-signal-safe. */
bool cfi_find_object(uintptr_t pc, struct cfi_object *object);
/* Returns the rule that applies at pc; its kind is CFI_NONE if there is no usable information.
 * Reads only the object's mapped .eh_frame. */
struct cfi_rule cfi_find_rule(const struct cfi_object *object, uintptr_t pc);
/* Returns the code that the frame description for pc covers; its start is 0 if there is no
 * description. Costs a small part of cfi_find_rule, because the description's program is not
 * run. */
struct cfi_function cfi_find_function(const struct cfi_object *object, uintptr_t pc);
/* Returns the code around pc in which every call has the rule that holds at pc, within the
 * function; its start is 0 if there is no usable information. Runs the description's whole program.
 */
struct cfi_function cfi_find_alike(const struct cfi_object *object, uintptr_t pc);
/* Forgets what cfi_find_rule keeps of long programs. Called before another object may be loaded
 * where one was unloaded. */
void cfi_forget_programs(void);

#endif
