# SPDX-License-Identifier: MIT
"""Faults in named contexts, and in rules that the command resolves."""

MUTANTS = {
    # --- named contexts ---
    "full-pages-stay-listed": (
        "src/region/bins.c",
        "        if (listed)\n            region_unlist(&region_of(bins)->pages, page);",
        "        (void)listed;", ["named:model"]),
    "deleted-contexts-are-alive": (
        "src/named/named.c",
        "    store_release(&named->generation, named->generation + 1);\n    give_place(place);",
        "    give_place(place);", ["named:misuse-used-after-delete"]),
    "switched-paths-open-again": (
        "src/context/lookup.c", " || UNLIKELY(is_switched(paths));", ";", ["named:scopes"]),
    "realloc-leaves-the-context": (
        "src/named/named.c", "    struct view *view = view_of(heap, chunk);",
        "    struct view *view = NULL;",
        ["named:model"]),
    "large-chunks-outlive-a-reset": (
        "src/region/reset.c", "        region_give_large(heap, page);\n", "", ["named:model"]),
    "resets-leave-what-is-secret": (
        "src/region/reset.c", "        kind->each_used(page, zero_chunk, NULL);", "        ;",
        ["named:zeroed-by-each-policy"]),
    "guarded-chunks-outlive-a-reset": (
        "src/region/alloc.c", "    if (region_is_named(view))\n"
                              "        region_named_large(view, page);\n    if (zero",
        "    if (zero",
        ["named:guarded-chunks-go-with-a-reset"]),
    "options-outlive-their-context": (
        "src/region/terms.c", "        return !terms_number(context) || terms_set(context, 0);",
        "        return true;", ["named:options"]),
    "options-are-not-shown": (
        "src/control/dump.c", "    unsigned asked = terms_asked(id);", "    unsigned asked = 0;",
        ["named:options-are-shown"]),
    "freed-large-chunks-stay-listed": (
        "src/region/large.c",
        "    if (UNLIKELY(page->view != NULL))\n        region_named_large_gone(page);", "",
        ["named:other-threads"]),
    "others-contexts-may-be-used": (
        "src/named/named.h", "    if (UNLIKELY(named->heap != heap))", "    if (0)",
        ["named:misuse-allocated-by-another", "named:misuse-reset-by-another"]),
    "callbacks-are-called-again": (
        "src/api/contexts.c", "        named->callbacks = callback->next; /* before the call, "
                              "which may add another callback */\n"
                              "        callback->function(callback->argument);",
        "        callback->function(callback->argument);\n        named->callbacks = NULL;",
        ["named:callbacks"]),
    "resets-spare-the-children": (
        "src/api/contexts.c", "    do {\n        delete_below(context, what);\n"
                              "        call_back(context, what);\n"
                              "    } while (first_child(context, what));",
        "    if (0)\n        delete_below(context, what);\n    call_back(context, what);",
        ["named:callbacks"]),
    "much-stays-after-a-reset": (
        "src/control/server.c", "        if (segment_usage().freelist_bytes) /* some freed slices "
                                "wait, perhaps freed during poll */\n"
                                "            segment_purge(false);",
        "", ["named:reset-of-much-goes-back"]),
    "simple-chunks-stay-linked": (
        "src/region/kind_blocks.c",
        "    if (simple_is(page))\n        simple_unlink(page, block);\n    if (UNLIKELY(load",
        "    if (UNLIKELY(load", ["named:model"]),
    "accounts-stay-behind": (
        "src/region/reset.c", "    heap_fold(from, view, to, to_view);\n", "",
        ["named:accounts-move"]),
    "heaps-keep-what-was-left": (
        "src/named/hand_over.c", "            (void)move_to(named, heap, shared);\n    }",
        "            ;\n    }", ["named:left-behind"]),
    "tiny-ones-stay-listed": (
        "src/region/kind_blocks.c", "        tiny_freed(member ? payer : paid->context, chunk);\n",
        "        ;\n",
        ["named:model-tiny", "named:tiny-ones"]),
    "crowds-are-none": (
        "src/named/crowd.c", "    bool many = kind && kind->alive >= NAMED_MANY;",
        "    bool many = false;", ["named:very-many-cost-little"]),
    "members-keep-what-was-freed": (
        "src/region/kind_blocks.c", "        had = (uint64_t)member_bytes(chunk) << "
                                    "MEMBER_BYTES_SHIFT | MEMBER_HAD;", "        had = chunk;",
        ["named:model-crowd"]),
    "members-grow-without-their-chunk": (
        "src/named/crowd.c",
        "    if (address)\n        tiny_adopt(grown->context, address, bytes);\n", "",
        ["named:model-crowd"]),
    "members-are-accounted-twice": (
        "src/named/crowd.c", "        view_account_free(crowd->view, bytes);\n", "",
        ["named:model-crowd"]),
    "members-outlive-their-parent": (
        "src/named/crowd.c",
        "        named_link_child(NAMED_MEMBER | number, crowd->made_below);\n", "",
        ["named:model-crowd"]),
    "members-have-two-handles": (
        "src/named/crowd.c", "        named->member = number & (MEMBER_VIEW - 1);\n", "",
        ["named:crowds"]),
    "members-chunks-move-in-the-crowd": (
        "src/named/named.c", "        grown = crowd_grow(handle, crowd);\n",
        "        grown = crowd;\n",
        ["named:crowds"]),
    "large-chunks-stay-with-their-context": (
        "src/region/large.c", "    if (page->view && page->view != view)\n        return NULL;\n",
        "", ["named:tiny-ones-grow"]),
    "regions-of-deleted-contexts-are-lost": (
        "src/region/reset.c", "    view->region = empty;\n", "    view->region = NULL;\n",
        ["named:messages"]),
    "adopted-heaps-stay-switched": (
        "src/api/thread.c", "        context_switch(heap, NULL);\n"
                            "        context_thread_changes(heap);",
        "        context_thread_changes(heap);",
        ["named:switched-at-a-fork"]),
    "crowds-stay-with-a-thread-that-ended": (
        "src/named/hand_over.c", "            (void)move_crowd(named, shared);", "            ;",
        ["named:crowd-left-behind"]),
    "crowds-forget-who-answered": (
        "src/named/crowd.c", "    store_release(&crowd->done, crowd->done + 1);\n", "",
        ["named:crowd-is-reset-when-asked"]),
    "later-members-are-asked": (
        "src/named/crowd.c", "crowd->heap == heap && !load_relaxed(&crowd->asking) ? crowd",
        "crowd->heap == heap ? crowd",
        ["named:crowd-is-reset-when-asked"]),
    "tiny-ones-keep-their-size": (
        "src/region/kind_blocks.c",
        "    if (apart)\n        tiny_resized(view->context, chunk, size);\n", "",
        ["named:tiny-ones-grow"]),
    "tiny-ones-change-hands": (
        "src/region/kind_blocks.c", "    return from == to || (!region_is_named(from) && "
                                    "!region_is_named(to));", "    return true;",
        ["named:tiny-ones-grow"]),
    "tiny-ones-stay-their-makers": (
        "src/region/reset.c", "    tiny_move(view->context, to);\n", "", ["named:tiny-ones"]),
    "tiny-ones-outlive-a-reset": (
        "src/region/reset.c", "        tiny_reset(heap, view->context);", "        ;",
        ["named:model-tiny"]),
    "tiny-ones-are-none": (
        "src/region/tiny.c", "    if (size > TINY_MAX ||", "    if (1 || size > TINY_MAX ||",
        ["named:very-many-cost-little"]),
    "tiny-ones-have-no-more": (
        "src/region/tiny.c", "    if (!room && many && !tiny->more) {", "    if (0) {",
        ["named:very-many-cost-little"]),
    "tiny-ones-are-not-counted": (
        "src/region/reset.c", "    large.chunks += tiny.chunks;\n    large.bytes += tiny.bytes;\n",
        "", ["named:model-tiny"]),
    "runs-lose-what-follows-their-first": (
        "src/region/serial.c", "closing = last.count < 2 ? last.count : 2;",
        "closing = last.count < 2 ? last.count : 1;",
        ["named:model"]),
    "pages-keep-what-was-gone": (
        "src/region/serial_pages.c",
        "        __builtin_memset(page->gone, 0, serial_gone_bytes(page));",
        "        {}", ["named:model"]),
    "rules-wait-for-the-thread": (
        "src/context/tree.c", "        tree_watch(id);", "        ;",
        ["rules:guard-finds-overflow"]),
    "guards-leave-what-is-freed": (
        "src/region/guard.c",
        "    if (!guards.ring || !os_forbid(start, span_bytes(page), true)) {",
        "    if (1) {", ["rules:guard-finds-use-after-free"]),
    "guards-forget-who-freed": (
        "src/region/guard.c", "waiting->page == page ? waiting : NULL;", "0 ? waiting : NULL;",
        ["rules:guard-finds-use-after-free", "rules:guard-finds-double-free"]),
    "guards-take-sent-signals": (
        "src/region/guard.c", "    if (sent)\n        raise(SIGSEGV);", "",
        ["rules:guard-leaves-sent-signals-as-they-are"]),
    "limits-grant-twice": (
        "src/region/terms.c", "    while (!cas_release(&terms->allowance, &left, left - bytes));",
        "    while (!cas_release(&terms->allowance, &left, left));",
        ["rules:limit-fails-with-enomem"]),
    "limits-forget-what-was-freed": (
        "src/region/terms.c", "    int64_t left = terms->limit - terms_live(number);",
        "    int64_t left = terms->passed ? 0 : terms->limit - terms_live(number);",
        ["rules:limit-fails-with-enomem"]),
    "zero-spares-others-frees": (
        "src/region/kind_blocks.c",
        "    if (UNLIKELY(load_relaxed(&page->meta_shift) & META_WIPES))\n"
        "        wipe_freed(page, freed->paid, block, chunk, freed->requested);\n",
        "", ["rules:zero-zeroes"]),
    "own-pages-wait-for-bytes": (
        "src/region/alloc.c", "    if (!at_once &&\n        (live < options.promote_bytes",
        "    if ((live < options.promote_bytes",
        ["rules:pages-are-its-own-from-the-first-chunk-on"]),
    "trials-are-not-judged": (
        "src/control/automatic.c", "        return judge(choice, candidate);",
        "        return false;", ["rules:automatic-choices"]),
    # --- rules that the command resolves ---
    "ranges-of-another-build-id-are-taken": (
        "src/rules/resolved.c", "    if (request->build_id_bytes != module->build_id_bytes ||",
        "    if (!module->build_id_bytes &&",
        ["rules:hostile-ranges-are-refused"]),
    "ranges-may-leave-the-object": (
        "src/rules/objects.c", "range.end > mapped->end - mapped->bias)", "false)",
        ["rules:hostile-ranges-are-refused"]),
    "ranges-of-the-environment-are-not-read": (
        "src/rules/rules.c", "    resolved_read(ranges);\n", "    (void)ranges;\n",
        ["rules:libraries-are-resolved-before-the-first-chunk",
         "rules:inlined-functions-have-names",
         "rules:debug-information-is-read-as-it-comes"]),
    "nobody-says-what-waits-for-the-command": (
        "src/rules/rules.c", "    if (rule_list.command_alone && !are_resolved)",
        "    if (false && are_resolved)",
        ["rules:rules-alone-say-what-waits"]),
    "later-objects-count-as-resolved": (
        "src/rules/objects.c", "objects[module].resolved_rules >= rule_list.needs_command;",
        "rule_list.count;",
        ["rules:objects-that-are-loaded-later", "rules:programs-that-the-first-one-starts"]),
}
