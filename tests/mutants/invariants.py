# SPDX-License-Identifier: MIT
"""Faults in the invariants of docs/architecture.md, and between threads (suite model)."""

MALLOC = "src/api/malloc.c"
MAPPINGS = "tools/memctx/target/mappings.c"
RESIDENCY = "tools/memctx/target/residency.c"

MUTANTS = {
    # --- invariants ---
    "waste-is-not-bounded": (
        "src/region/heap.c", "    return waste < cap;", "    return waste < cap * 1000;",
        ["invariant-5-waste-cap"]),
    "tiny-chunks-are-misaligned": (
        MALLOC, "    return allocate(size, ALLOCATE_PLAIN, FRAME);\n}\n\nEXPORT void *calloc",
        "    char *chunk = allocate(size + 8, ALLOCATE_PLAIN, FRAME);\n"
        "    return chunk + (size < 9 ? 8 : 0);\n}\n\n"
        "EXPORT void *calloc", ["aligned-every-block"]),
    "realloc-shrinks-nothing": (
        "src/region/large.c", "    if (page->kind == PAGE_HUGE)\n        return resize_mapping",
        "    if (page->kind == PAGE_HUGE && size < page->requested_bytes)\n        return page;\n"
        "    if (page->kind == PAGE_HUGE)\n        return resize_mapping",
        ["content-realloc-shrink-returns"]),
    "a-child-keeps-its-locks": (
        "src/api/init.c", "    fork_done(true);", "", ["threads-fork-child-allocates"]),
    "usable-size-of-foreign": (
        "src/region/inspect.c", "    return page ? page_kind_of(page)->usable(page, chunk) : 0;",
        "    return page ? page_kind_of(page)->usable(page, chunk) : 8;",
        ["misuse-usable-foreign"]),
    "cfree-is-missing": (
        "src/api/exports.map", "free_aligned_sized; cfree;", "free_aligned_sized;",
        ["names-whole-family", "report-cfree-of-old-binaries"]),
    "cfree-is-hidden": (
        "src/api/free.c", "EXPORT void cfree(void *chunk) {", "void cfree(void *chunk) {",
        ["names-exports"]),
    "frees-count-twice": (
        "src/region/heap.h", "    add_owner(&view->frees, 1);", "    add_owner(&view->frees, 2);",
        ["invariant-1-sums-when-quiescent"]),
    "rules-are-mistaken": (
        "src/path/cfi_program.c", "machine->saved[machine->depth++] = *state;",
        "machine->saved[machine->depth++] = *machine->initial;",
        ["invariant-2-oracle-agrees-on-programs"]),
    "waypoints-outlive-their-rules": (
        "src/path/cfi_program.c", "    if (waypoints.generation != generation) {",
        "    if (!waypoints.generation) {",
        ["unit:cfi/a_program_that_took_the_place_of_another_one_is_read_anew"]),
    "waypoints-forget-remembered-states": (
        "src/path/cfi_program.c", "        if (right && !machine->depth)", "        if (right)",
        ["unit:cfi/rules_of_a_large_function_in_any_order"]),
    "tables-are-large": (
        "src/os/meta.h", "#define META_FIRST_BYTES (", "#define META_FIRST_BYTES ((2UL << 20) + ",
        ["names-small-footprint"]),
    "descriptors-are-the-programs": (
        "src/control/descriptors.c", "descriptors_are_own = leave_table",
        "descriptors_are_own = false && leave_table",
        ["invariant-8-descriptors-unseen"]),
    "the-first-descriptor-stays-open": (
        "src/control/descriptors.c", "for (int fd = first; fd < size", "for (int fd = first + 1; "
        "fd < size", ["control:close-range-that-is-not-known"]),
    "the-last-descriptor-stays-open": (
        "src/control/descriptors.c", "for (int fd = first; fd < size", "for (int fd = first; "
        "fd < size - 1", ["control:close-range-that-is-not-known"]),
    "verbose-keeps-standard-input": (
        "src/control/descriptors.c",
        "    if (descriptors_are_own && errors) {\n        os_close(0);",
        "    if (!errors) {\n        os_close(0);",
        ["control:unshare-is-refused-in-a-container"]),
    "a-full-disk-is-for-ever": (
        "src/control/socket.c", "errno == ENOSPC || errno == EDQUOT", "errno == EDQUOT",
        ["control:full-disk-has-no-room-for-a-socket"]),
    "a-start-without-descriptors-is-the-last": (
        "src/control/thread.c", "        permit_postpone();\n        control_resume();\n",
        "        permit_postpone();\n", ["control:the-start-is-only-postponed"]),
    "the-socket-is-for-all": (
        "src/control/socket.c", "path.temporary.sun_path, 0600", "path.temporary.sun_path, 0666",
        ["invariant-7-modes"]),
    "it-can-be-unloaded": (
        "Makefile", "-Wl,-z,nodelete -Wl,-z,now", "-Wl,-z,now", ["names-needed"]),
    "its-tables-can-be-written": (
        "Makefile", "-Wl,-z,now -Wl,-z,relro", "-Wl,-z,lazy -Wl,-z,norelro", ["names-hardened"]),
    "holes-are-not-counted": (
        "src/region/blocks.h", "    add_owner(&heap->own_free, page->waste_unit);", "",
        ["invariant-5-holes-end-segregation"]),
    "new-handler-is-malloc-s": (
        MALLOC, "    return allocate(size, ALLOCATE_PLAIN, FRAME);\n}\n\nEXPORT void *calloc",
        "    return allocate(size, ALLOCATE_NEW, FRAME);\n}\n\nEXPORT void *calloc",
        ["cxx-new-handler-not-malloc"]),
    "tails-are-not-looked-at": (
        "src/region/check.c", "    if (first_changed(chunk + size, end, TAIL_BYTE) != end)",
        "    if (first_changed(chunk + size, end, TAIL_BYTE) > end)",
        ["misuse-overflow-" + name for name in
         ("small", "nothing", "whole-block", "medium", "large", "huge", "far", "realloc",
          "threads")]),
    "free-blocks-are-not-looked-at": (
        "src/region/check.c", "    if (!block)\n        return;",
        "    if (!block || page->used < 60000)\n        return;",
        ["misuse-write-after-free-" + name for name in ("small", "medium", "begin")]),
    # --- invariants ---
    "a-dump-adds-frees": (
        "src/figures/sums.c", "    sum->frees += (int64_t)load_acquire(&view->frees);\n",
        "    sum->frees += (int64_t)load_acquire(&view->frees)"
        " + (view->frees > 1000 ? 1000 : 0);\n",
        ["invariant-1-sums-when-busy"]),
    "reserved-is-what-is-requested": (
        "src/figures/pages.c", "        .bytes = bytes,\n        .touched_bytes = touched,\n"
                               "        .untouched_bytes = bytes > touched ? bytes - touched : 0,",
        "        .bytes = bytes * 2,\n        .touched_bytes = touched,\n"
        "        .untouched_bytes = bytes > touched ? bytes - touched : 0,",
        ["invariant-1-ledger-explains-rss"]),
    "paths-are-joined-unproven": (
        "src/path/stack_walk.h",
        "    stack->frames[frame].address = address;\n    stack->frames[frame].rule = rule;",
        "    (void)address;\n    stack->frames[frame].rule = rule;", ["invariant-2-oracle-agrees"]),
    "code-without-rules-is-the-end": (
        "src/context/prefix.c", "roots[stack->end] : TREE_TRUNCATED};",
        "TREE_ROOT : TREE_TRUNCATED};", ["invariant-3-no-unwind-info"]),
    "frame-pointers-are-followed": (
        "src/path/stack_rules.c",
        "    if (!walker->rbp_at || !readable(walker->stack, walker->rbp_at))\n"
        "        return false;",
        "    if (!walker->rbp_at)\n        return false;\n"
        "    if (!word_at(word_at(walker->rbp_at)))\n        return false;",
        ["invariant-3-garbage-frame-pointer"]),
    "mapped-is-readable": (
        "src/os/memory.c",
        "    case PROBE_POPULATE: return is_advisable(start, bytes, MADV_POPULATE_READ);",
        "    case PROBE_POPULATE: return is_advisable(start, bytes, MADV_NORMAL);",
        ["invariant-3-stack-before-a-guard"]),
    "late-views-are-not-counted": (
        "src/region/heap.h", "    add_owner(&view->allocs, 1);",
        "    add_owner(&view->allocs, view->index < 500);", ["invariant-3-many-paths"]),
    "a-depth-of-one-is-none": (
        "src/context/lookup.c", "    if (UNLIKELY(!depth)) {\n        view",
        "    if (UNLIKELY(depth <= 1)) {\n        view", ["invariant-3-depths"]),
    "nodes-need-memory": (
        "src/context/tree.c", "        if (!fresh) {\n"
                              "            tables_add(share == TABLES_UNCOUNTED ? 0 : "
                              "-(int64_t)TREE_IDS_BYTES);\n            return 0;\n        }\n"
                              "        store_release(block, fresh);",
        "        store_release(block, fresh);",
        ["invariant-3-tracking-without-memory"]),
    "the-freelist-has-no-bound": (
        "src/segment/purge.c", "    return dirty - bound + (", "    return dirty - bound * 100 + (",
        ["invariant-5-freelist-bound"]),
    "a-reset-frees": (
        "src/control/resets.c", "    base->frees = load_relaxed(&view->frees);\n",
        "    base->frees = load_relaxed(&view->frees);\n"
        "    store_owner(&view->freed_cum_bytes, view->requested_cum_bytes);\n",
        ["invariant-6-reset-never-frees"]),
    "any-uid-may-ask": (
        "src/control/server.c", "(peer.uid == os_user() || peer.uid == 0)",
        "(peer.uid == os_user() || peer.uid != 0 || length)", ["invariant-7-other-uid"]),
    "our-thread-takes-signals": (
        "src/os/thread.c", "    uint64_t all = UINT64_MAX, before = 0;",
        "    uint64_t all = 0, before = 0;",
        ["invariant-8-signals-blocked"]),
    "all-threads-are-masked": (
        "src/os/thread.c", "    os_syscall(SYS_rt_sigprocmask, SIG_SETMASK, (long)&before, 0, "
                           "sizeof before, 0, 0);\n", "",
        ["invariant-8-signals-arrive"]),
    "the-end-of-our-thread-is-not-told": (
        "src/os/thread.c", "     CLONE_SETTLS | CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID)",
        "     CLONE_SETTLS | CLONE_PARENT_SETTID)", ["control:no-thread-stays-root-unseen"]),
    "variables-leave-no-stack": (
        "src/os/thread.c", "    if (needed + STACK_LEAST > bytes) {", "    if (!bytes) {",
        ["control:thread-local-storage-leaves-stack"]),
    "our-thread-keeps-its-user": (
        "src/api/users.c",
        "        control_follow_begin(&follow, number, (long)(first), (long)(second), "
        "(long)(third));       \\\n", "        follow.locked = false;\\\n",
        ["control:no-thread-keeps-what-libc-gives-up"]),
    "our-thread-changes-the-real-user": (
        "src/api/users.c", "SYS_setresuid, AS_IT_IS, user, AS_IT_IS)",
        "SYS_setresuid, user, user, AS_IT_IS)", ["control:no-thread-keeps-what-libc-gives-up"]),
    "our-thread-keeps-its-groups-in-initgroups": (
        "src/api/users.c", "    if (count >= 0) {", "    if (count > NGROUPS_MAX) {",
        ["control:no-thread-keeps-what-libc-gives-up"]),
    "our-thread-takes-no-groups": (
        "src/control/thread.c", "    if (first <= 0 || first > FOLLOW_GROUPS ||",
        "    if (first <= 0 || first > 0 ||", ["control:no-thread-keeps-what-libc-gives-up"]),
    "our-thread-stays-root": (
        "src/control/thread.c", "    if (sandbox_keeps_root()) {", "    if (!sandbox_keeps_root) {",
        ["control:no-thread-stays-root-unseen"]),
    "our-thread-keeps-capabilities": (
        "src/control/thread.c", "    sandbox_drop_capabilities();\n", "",
        ["control:no-thread-keeps-capabilities-unseen"]),
    "capset-leaves-our-thread": (
        "src/api/namespaces.c", "    bool paused = control_pause();\n    int result = next ? "
                                "next(header", "    bool paused = false;\n    int result = next ? "
                                               "next(header",
        ["control:capset-leaves-no-thread-with-more"]),
    "capset-by-number-leaves-our-thread": (
        "src/api/namespaces.c", "    return number == SYS_capset || (", "    return (",
        ["control:capset-leaves-no-thread-with-more"]),
    "signals-interrupt-the-start": (
        "src/control/thread.c", "    uint64_t all = UINT64_MAX, before = 0;",
        "    uint64_t all = 0, before = 0;", ["control:a-jump-out-of-the-start"]),
    "a-copy-counts-its-parents-start": (
        "src/control/thread.c", "    if (start_ns == control.start_ns)\n", "",
        ["control:a-fork-in-the-start"]),
    "the-stack-overflows-with-signals-blocked": (
        "src/control/thread.c", "    lock_reach_for_control();\n", "",
        ["control:an-overflow-in-the-start"]),
    "a-directory-of-the-user-goes": (
        "src/control/socket_path.c", " && status.st_mode & S_ISVTX)", ")",
        ["control:a-directory-of-the-user-stays"]),
    "a-child-loses-what-a-purge-took": (
        "src/segment/segment.c", "        segment_purges_fork_child(whole);", "        (void)0;",
        ["unit:segment/a_forked_child_frees_what_a_purge_had_taken"]),
    "a-purge-forgets-its-thread": (
        "src/segment/purge.c", ".thread = lock_self()};", ".thread = 0};",
        ["unit:segment/a_purge_interrupted_by_a_fork_goes_on_in_the_child"]),
    "a-child-takes-purged-slices-for-zero": (
        "src/segment/purge.c", "segment_return_slices(purge->segment, k, end - k, true);",
        "segment_return_slices(purge->segment, k, end - k, false);",
        ["unit:segment/a_forked_child_takes_no_slice_with_content_for_zero"]),
    "pagemap-tells-what-is-swapped": (
        "src/os/pagemap.c", "#define ENTRY_PRESENT (1UL << 63)",
        "#define ENTRY_PRESENT (1UL << 62)", ["unit:memory/both_ways_tell_the_resident_pages"]),
    "what-pagemap-lacks-is-not-resident": (
        "src/os/pagemap.c", "    return got == wanted;", "    return true;",
        ["unit:memory/both_ways_tell_the_resident_pages"]),
    "each-part-of-pagemap-is-the-first": (
        "src/os/pagemap.c", "        start += count * OS_PAGE_BYTES;\n", "",
        ["unit:memory/both_ways_tell_the_resident_pages",
         "unit:memory/pages_of_files_are_dropped_and_changed_ones_stay"]),
    "a-long-line-hides-the-next": (
        "src/os/memory.c", "            take(context, line);\n            length = 0;",
        "            take(context, line);\n            length -= length < sizeof line - 1 ? "
        "length : 0;", ["unit:memory/lines_of_a_file_are_cut_off"]),
    "freed-spans-are-not-noted": (
        "src/segment/span_cache.c", "    if (bytes > load_relaxed(&segment_freed_most))\n",
        "    if (!bytes)\n", ["unit:region/only_the_largest_chunks_are_examined"]),
    "freed-mappings-are-not-noted": (
        "src/segment/huge_cache.c", "if (is_small && offset == OS_PAGE_BYTES &&",
        "if (!mapped &&", ["unit:region/only_the_largest_chunks_are_examined"]),
    "padding-before-a-mapping-stays": (
        "src/os/memory.c", "    if (aligned > start)\n"
                           "        os_unmap(start, (size_t)(aligned - start));\n", "",
        ["unit:memory/aligned_mappings_leave_no_padding"]),
    "padding-behind-a-mapping-stays": (
        "src/os/memory.c", "    if (behind)\n        os_unmap(aligned + bytes, behind);",
        "    (void)behind;", ["unit:memory/aligned_mappings_leave_no_padding"]),
    "a-child-frees-under-its-own-lock": (
        "src/segment/segment.c", "    if (child && !lock_is_mine(&global.lock))\n",
        "    if (child)\n", ["unit:segment/a_child_forked_under_the_lock_changes_no_list"]),
    "each-mapping-pauses": (
        RESIDENCY, "    if (thread_time_ns() - paused_ns < PAUSE_AFTER_NS)",
        "    if (thread_time_ns() < PAUSE_AFTER_NS)",
        ["unit:residency/many_small_mappings_need_few_pauses"]),
    "guard-pages-are-swapped": (
        RESIDENCY, "(word & (WORD_SWAPPED | WORD_GUARD)) == WORD_SWAPPED",
        "word & WORD_SWAPPED", ["unit:residency/guard_pages_are_not_swapped"]),
    "a-pool-in-a-memfd-is-resident": (
        MAPPINGS, "    return on_device || ", "    return ",
        ["unit:mappings/memory_of_a_pool_is_not_resident"]),
    "a-look-never-pauses": (
        RESIDENCY, "    if (thread_time_ns() - paused_ns < PAUSE_AFTER_NS)", "    if (true)",
        ["unit:residency/many_small_mappings_need_few_pauses"]),
    "one-call-looks-at-all-pages": (
        RESIDENCY, ".max_pages = SCAN_PAGES};", "};",
        ["unit:residency/one_call_looks_at_few_pages"]),
    "an-interrupted-look-ends": (
        RESIDENCY, "        if (found < 0 && errno == EINTR)\n            continue;\n", "",
        ["unit:residency/one_call_looks_at_few_pages"]),
    "scans-need-guard-pages": (
        RESIDENCY, "    if (!residency->scans)\n        residency->scans = ",
        "    if (false)\n        residency->scans = ",
        ["unit:residency/kernels_that_do_not_tell_guard_pages_are_scanned"]),
    "zeros-are-resident": (
        RESIDENCY, "    else if (!(region->categories & SCAN_ZERO))", "    else",
        ["unit:residency/pages_of_zeros_are_not_resident"]),
    "a-bss-begins-anywhere": (
        MAPPINGS, "case BSS_KNOWN: return first != mapping->start ? 0 : end <",
        "case BSS_KNOWN: return end <",
        ["unit:mappings/only_the_end_of_the_data_has_a_bss_behind_it"]),
    "any-guard-marks-a-stack": (
        MAPPINGS, "        before->end - before->start == GUARD_BYTES &&\n", "",
        ["unit:mappings/memory_behind_another_guard_is_no_stack"]),
    "the-peak-is-of-address-space": (
        MAPPINGS, "VmHWM: %lld kB", "VmPeak: %lld kB",
        ["unit:mappings/the_kernels_own_figures_are_read"]),
    "an-elf-file-has-any-number-of-headers": (
        "tools/memctx/target/bss.c", " || file.e_phnum > HEADERS_MAX)", ")",
        ["unit:mappings/odd_elf_files_have_no_known_bss"]),
    "our-thread-hurries": (
        "src/os/thread.c", "    if (slack_ns >= 0 && slack_ns < ORDINARY_SLACK_NS)",
        "    if (slack_ns < 0)", ["control:a-real-time-thread-starts-an-ordinary-one"]),
    "our-thread-reads-before-others": (
        "src/os/thread.c", ">> IO_CLASS_SHIFT == IO_REAL_TIME)", ">> IO_CLASS_SHIFT > 9)",
        ["control:a-real-time-thread-starts-an-ordinary-one"]),
    "a-dump-stops-the-process": (
        "src/control/dump.c", "    sums_begin();\n    for (; id < count; id++, group = 0) {\n",
        "    extern int kill(int, int) __attribute__((weak));\n"
        "    kill((int)os_process_id(), 19);\n"
        "    sums_begin();\n    for (; id < count; id++, group = 0) {\n",
        ["invariant-8-never-stopped"]),
    # --- recordings ---
    "a-moment-has-room-for-its-last-entry-alone": (
        "src/control/record_moment.c", "- (size_t)2 * ENTRY_MAX;", "- (size_t)ENTRY_MAX;",
        ["unit:record_moment/has_room_for_forgotten_paths_behind_the_longest_entries"]),
    "what-forgotten-paths-hold-is-lost": (
        "src/control/record_moment.c",
        "                recorder_add_held(&forgotten_held, held);\n", "                ;\n",
        ["unit:record_moment/adds_up_what_forgotten_paths_hold"]),
    "a-path-since-the-last-directory-is-forgotten": (
        "src/control/record_moment.c", "watched->since > recorder->listed",
        "watched->since >= recorder->listed",
        ["unit:record_moment/lists_each_path_that_the_directory_has"]),
    # --- threads: faults that the model finds ---
    "announced-twice": (
        "src/region/remote.c", "    if (!head) {\n", "    {\n",
        ["model:remote-frees-meet-the-owner", "model:full-page-gets-free-blocks"]),
    "announced-anew-too-early": (
        "src/region/remote.c",
        "        struct page *next = load_relaxed(&page->remote_next);\n"
        "        char *last = segment_span_start(page) + load_relaxed(&page->remote_last);\n"
        "        if (LIKELY(load_acquire(&page->heap) == heap)) {\n"
        "            uint64_t head = exchange_acq_rel(&page->remote, 0);",
        "        uint64_t head = exchange_acq_rel(&page->remote, 0);\n"
        "        struct page *next = load_relaxed(&page->remote_next);\n"
        "        char *last = segment_span_start(page) + load_relaxed(&page->remote_last);\n"
        "        if (LIKELY(load_acquire(&page->heap) == heap)) {",
        ["model:full-page-gets-free-blocks"]),
    "cached-span-is-taken-twice": (
        "src/segment/span_cache.c",
        "        if (load_relaxed(&spans[end]))\n"
        "            page = exchange_acquire(&spans[end], NULL);",
        "        if ((page = load_relaxed(&spans[end])) != NULL)\n"
        "            store_release(&spans[end], NULL);",
        ["model:span-caches-and-purge"]),
    "closed-cache-keeps-its-spans": (
        "src/segment/span_cache.c", "        if (page)\n            segment_return_span(page);\n",
        "        if (page && slices != 2)\n            segment_return_span(page);\n",
        ["model:span-caches-and-purge"]),
    "last-block-is-read-too-late": (
        "src/region/remote.c",
        "        char *last = segment_span_start(page) + load_relaxed(&page->remote_last);\n"
        "        if (LIKELY(load_acquire(&page->heap) == heap)) {\n"
        "            uint64_t head = exchange_acq_rel(&page->remote, 0);",
        "        if (LIKELY(load_acquire(&page->heap) == heap)) {\n"
        "            uint64_t head = exchange_acq_rel(&page->remote, 0);\n"
        "            char *last = segment_span_start(page) + load_relaxed(&page->remote_last);",
        ["model:free-blocks-are-appended"]),
    "remote-frees-are-not-counted": (
        "src/region/remote.c",
        "        new_head = ((head >> POINTER_BITS) + 1) << POINTER_BITS | (uintptr_t)block;",
        "        new_head = 1UL << POINTER_BITS | (uintptr_t)block;",
        ["model:remote-frees-meet-the-owner"]),
    "parked-before-it-was-adopted": (
        "src/region/remote.c", "    bool free_here = load_acquire(&owner->state) == state && "
                               "load_acquire(&page->heap) == owner;\n    if (free_here) {\n",
        "    bool free_here = true;\n    if (free_here) {\n",
        ["model:frees-into-a-parked-heap", "model:heap-parked-and-adopted-under-frees"]),
    "adopted-under-a-free": (
        "src/region/heap.c", "load_acquire(&heap->state) != HEAP_PARKED || !lock_try(&heap->lock))",
        "load_acquire(&heap->state) != HEAP_PARKED || (lock_take(&heap->lock), "
        "lock_release(&heap->lock), "
        "lock_take(&heap->lock), !(heap->state = HEAP_OWNED)))", ["model:two-threads-adopt"]),
    "who-paid-is-read-once": (
        "src/region/kind_blocks.c",
        "record->view_index ? record->view_index : record_read(page, at).view_index",
        "record->view_index", ["model:own-page-becomes-mixed-under-frees"]),
    "shared-heap-without-its-lock": (
        "src/region/heap.c",
        "    lock_take(&heap->lock);\n    if (UNLIKELY(heap != the_shared())) {",
        "    if (!lock_try(&heap->lock))\n        heap->busy = 0;\n"
        "    if (UNLIKELY(heap != the_shared())) {", ["model:shared-heap"]),
    "purged-slices-come-back-without-the-lock": (
        "src/segment/purge.c",
        "        lock_take(&global.lock);\n"
        "        purge_return(purge, segment, i, end - i);\n"
        "        lock_release(&global.lock);",
        "        purge_return(purge, segment, i, end - i);",
        ["model:slices-and-purge"]),
    "unmapped-under-a-dump": (
        "src/segment/segment.c", "        bool may_unmap = lock_try(&global.unmap_lock);",
        "        bool may_unmap = lock_try(&global.unmap_lock) || global.segments;",
        ["model:segments-get-empty-under-a-dump"]),
    "huge-unmapped-under-a-dump": (
        "src/segment/huge_moves.c", "static void unmap_or_defer(struct page *header) {\n",
        "static void unmap_or_defer(struct page *header) {\n    if (header->mapped_bytes) {\n"
        "        os_unmap(header, header->mapped_bytes);\n        return;\n    }\n",
        ["model:huge-chunks-and-a-dump"]),
    "near-leaf-before-the-first-segment": (
        "src/segment/table.c", "    if (near && !far &&", "    if (!far &&",
        ["model:huge-chunks-and-a-dump"]),
    "waiters-sleep-on": (
        "src/os/lock.c", "    while (!take_free(lock, self)) {\n        uint64_t word",
        "    while (!take_free(lock, self_word())) {\n        uint64_t word", ["model:lock"]),
    "taken-from-a-fork-and-freed-by-it": (
        "src/os/lock.c", "        while ((word & ~NOTES) == lock_self() && "
                         "!cas_release(&lock->word, &word, 0)) {\n        }",
        "        if ((word & ~NOTES) == lock_self())\n            store_release(&lock->word, 0);",
        ["model:lock-taken-from-a-fork-by-one"]),
    "taken-from-a-fork-by-two": (
        "src/os/lock.c", "            if (replace(lock, word, self))\n                return;",
        "            store_release(&lock->word, self);\n            return;",
        ["model:lock-taken-from-a-fork"]),
    "the-depth-is-read-twice": (
        "src/context/lookup.c", "view = walk_to_keep(heap, frame, depth, size, hash);",
        "view = walk_to_keep(heap, frame, (unsigned)load_relaxed(&options.depth), size, hash);",
        ["model:depth-is-set-meanwhile"]),
    "settled-by-two": (
        "src/region/large.c", "    if (LIKELY(!(load_acquire(&page->flags) & PAGE_EMERGENCY)))\n"
                              "        return true;\n    region_settle(heap);",
        "    (void)heap;\n    if (!(load_acquire(&page->flags) & PAGE_EMERGENCY))\n"
        "        return true;",
        ["model:emergency-is-settled-and-freed"]),
    "frees-are-read-last": (
        "src/figures/sums.c", "        frees_after += add_allocs(part, walk.heap, view);\n",
        "        frees_after += add_allocs(part, walk.heap, view);\n"
        "        sum->frees = frees_after;\n",
        ["model:dump-of-one-moment"]),
    "slots-are-freed-under-a-reader": (
        "src/region/views.c", "    if (!load_full(&heap_global.reading)) {\n", "    if (1) {\n",
        ["model:table-of-views-grows-under-a-dump"]),
    "a-node-for-each-thread": (
        "src/context/tree.c", "        child = tree_find(parent, frame); /* another thread may "
                              "have made it */\n    if (!child)\n"
                              "        child = find_newest(parent, frame);",
        "        child = 0;", ["model:tree-grows-in-three-threads"]),
}
