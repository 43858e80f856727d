/* SPDX-License-Identifier: MIT */
/* Tests of the table of functions that say nothing about the cause of an allocation
 * (tools/memctx/model/who_tables.c). */
#include <criterion/criterion.h>

#include "model/who_tables.h"

/* Functions of real servers through which the server allocates. */
static const char *const wrappers[] = {
    "isc__mem_get",
    "isc__mem_strdup",
    "isc_mempool_get",
    "ber_memalloc_x",
    "ber_memcalloc_x",
    "ber_dupbv_x",
    "ch_malloc",
    "ch_strdup",
    "_talloc_zero",
    "talloc_strdup",
    "apr_palloc",
    "apr_pcalloc",
    "apr_pstrdup",
    "apr_pstrcat",
    "apr_pvsprintf",
    "pstrdup",
    "MemoryContextStrdup",
    "GenerationAlloc",
    "alloc_root",
    "multi_alloc_root",
    "strdup_root",
    "my_once_alloc",
    "my_malloc",
    "Binary_string::real_alloc(unsigned long)",
    "pool_alloc_nocache",
    "__pool_alloc",
    "pool_get_from_os_noinc",
    "regional_alloc_init",
    "p_strdup",
    "pool_alloconly_malloc",
    "mosquitto__strdup",
    "mystrdup",
    "erts_sys_alloc",
    "objspace_xmalloc0",
    "ruby_xmalloc2_body",
    "_emalloc_56",
    "_safe_emalloc",
    "_estrndup",
    "zend_mm_alloc_huge",
    "erts_alloc_permanent_cache_aligned",
};

/* Functions of servers and of other programs that have similar names. */
static const char *const causes[] = {
    "isc_ht_init",      "ber_get_stringbv",    "ch_main",          "apr_pool_create_ex",
    "apr_table_setn",   "apr_psession_open",   "pstrdup_all_rows", "my_pool_allocate",
    "root_alloc_pages", "region_split",        "store_get",        "session_pool_grow",
    "x_strdup_all",     "erts_create_process", "ngx_create_pool",  "zend_hash_add",
    "estrdup_of_row",   "MemoryContextCreate",
};

Test(wrappers, of_servers) {
    for (size_t i = 0; i < sizeof wrappers / sizeof wrappers[0]; i++) {
        const struct who_row *row = who_row_of(wrappers[i]);
        cr_assert(row && row->kind == WHO_ALLOCATOR, "%s is no wrapper of malloc", wrappers[i]);
    }
}

Test(wrappers, causes_stay) {
    for (size_t i = 0; i < sizeof causes / sizeof causes[0]; i++)
        cr_assert_null(who_row_of(causes[i]), "%s is taken for a wrapper", causes[i]);
}
