/* SPDX-License-Identifier: MIT */
/* who_tables.c - the functions, source files and modules that tell a reader nothing about who
 * allocates. */
#include "model/who_tables.h"

#include <fnmatch.h>
#include <stdlib.h>

#include "model/shorten.h"

/* Functions of Rust's library. Functions of containers have the name of the container as `via`.
 * Only names without a parameter list are searched here, as names of Rust are: core::run() is a
 * function of a C++ program that has a namespace `core`. */
static const struct who_row rust_functions[] = {
    {"alloc::vec::*", WHO_LIBRARY, "Vec"},
    {"alloc::raw_vec::*", WHO_LIBRARY, "Vec"},
    {"alloc::slice::*", WHO_LIBRARY, "Vec"},
    {"<alloc::vec::*", WHO_LIBRARY, "Vec"},
    {"alloc::string::*", WHO_LIBRARY, "String"},
    {"alloc::str::*", WHO_LIBRARY, "String"},
    {"alloc::fmt::*", WHO_LIBRARY, "String"},
    {"<alloc::string::*", WHO_LIBRARY, "String"},
    {"<str as *", WHO_LIBRARY, "String"},
    {"<&str as *", WHO_LIBRARY, "String"},
    /* Only Rust's core library implements traits of core for built-in types (u64, i32, usize, f64)
     * and for a reference to any type (&mut W). */
    {"<[iuf][0-9]* as core::*", WHO_LIBRARY, "core"},
    {"<[iu]size as core::*", WHO_LIBRARY, "core"},
    {"<&mut W as core::*", WHO_LIBRARY, "core"},
    {"<bool as core::*", WHO_LIBRARY, "core"},
    {"<char as core::*", WHO_LIBRARY, "core"},
    {"alloc::boxed::*", WHO_LIBRARY, "Box"},
    {"<alloc::boxed::*", WHO_LIBRARY, "Box"},
    {"alloc::rc::*", WHO_LIBRARY, "Rc"},
    {"alloc::sync::*", WHO_LIBRARY, "Arc"},
    {"alloc::collections::btree*", WHO_LIBRARY, "BTreeMap"},
    {"alloc::collections::vec_deque*", WHO_LIBRARY, "VecDeque"},
    {"std::collections::hash*", WHO_LIBRARY, "HashMap"},
    {"hashbrown::*", WHO_LIBRARY, "HashMap"},
    {"alloc::alloc::*", WHO_LIBRARY, "Box"},
    {"alloc::*", WHO_LIBRARY, "alloc"},
    {"core::*", WHO_LIBRARY, "core"},
    {"<alloc::*", WHO_LIBRARY, "alloc"},
    {"<core::*", WHO_LIBRARY, "core"},
    {"<std::*", WHO_LIBRARY, "std"},
    {"<str>::*", WHO_LIBRARY, "String"},
    {"<\\[*", WHO_LIBRARY, "Vec"},
    {"<T as *", WHO_LIBRARY, "Vec"},
    {"<* as alloc::vec::*", WHO_LIBRARY, "Vec"},
    {"<&mut alloc::*", WHO_LIBRARY, "String"},
    {"<&mut core::*", WHO_LIBRARY, "core"},
    {"<&mut std::*", WHO_LIBRARY, "std"},
    {"<&dyn *", WHO_LIBRARY, "core"},
    {"<dyn *", WHO_LIBRARY, "core"},
    {"__rust_*", WHO_ALLOCATOR, "Box"},
    {"__rdl_*", WHO_ALLOCATOR, "Box"},
    {"__rg_*", WHO_ALLOCATOR, "Box"},
    {"__rustc::*", WHO_ALLOCATOR, "Box"}, /* the functions above since Rust 1.87 */
};

static const struct who_row functions[] = {
    {"main", WHO_MAIN, NULL},
    {"*::main", WHO_MAIN, NULL},
    /* functions that start a program or a thread */
    {"_start", WHO_RUNTIME, NULL},
    {"__libc_*", WHO_RUNTIME, NULL},
    {"start_thread", WHO_RUNTIME, NULL},
    {"thread_start", WHO_RUNTIME, NULL},
    {"clone", WHO_RUNTIME, NULL},
    {"clone3", WHO_RUNTIME, NULL},
    {"__clone*", WHO_RUNTIME, NULL},
    {"__GI___clone*", WHO_RUNTIME, NULL},
    {"execute_native_thread_routine*", WHO_RUNTIME, NULL},
    {"call_init*", WHO_RUNTIME, NULL},
    {"_dl_*", WHO_RUNTIME, NULL},
    {"_GLOBAL__sub_I_*", WHO_RUNTIME, NULL},
    /* Go: a call from Go to C changes the stack here, so the functions of Go are not on the path */
    {"runtime.asmcgocall*", WHO_RUNTIME, NULL},
    {"__restore_rt", WHO_RUNTIME, NULL},
    /* C++: internal classes, each with the name of its container as `via`; then all other functions
     * of the library. */
    {"std::basic_string*", WHO_LIBRARY, "std::string"},
    {"std::to_string*", WHO_LIBRARY, "std::string"},
    {"std::operator+*", WHO_LIBRARY, "std::string"},
    {"std::_Vector_base*", WHO_LIBRARY, "std::vector"},
    {"std::_Bvector_base*", WHO_LIBRARY, "std::vector"},
    {"std::_Deque_base*", WHO_LIBRARY, "std::deque"},
    {"std::_List_*", WHO_LIBRARY, "std::list"},
    {"std::_Fwd_list*", WHO_LIBRARY, "std::forward_list"},
    {"std::_Rb_tree*", WHO_LIBRARY, "std::map"},
    {"std::_Hashtable*", WHO_LIBRARY, "std::unordered_map"},
    {"std::__detail::*", WHO_LIBRARY, "std::unordered_map"},
    {"std::__shared_*", WHO_LIBRARY, "std::shared_ptr"},
    {"std::make_shared*", WHO_LIBRARY, "std::shared_ptr"},
    {"std::allocate_shared*", WHO_LIBRARY, "std::shared_ptr"},
    {"std::_Sp_*", WHO_LIBRARY, "std::shared_ptr"},
    {"std::_Function_*", WHO_LIBRARY, "std::function"},
    {"std::allocator*", WHO_LIBRARY, "operator new"},
    {"std::__new_allocator*", WHO_LIBRARY, "operator new"},
    {"std::__allocate_*", WHO_LIBRARY, "operator new"},
    {"__gnu_cxx::*", WHO_LIBRARY, "operator new"},
    {"std::*", WHO_LIBRARY, NULL},
    {"operator new*", WHO_ALLOCATOR, "operator new"},
    /* Wrappers of malloc in C. */
    {"*malloc", WHO_ALLOCATOR, NULL},
    {"*calloc", WHO_ALLOCATOR, NULL},
    {"*realloc", WHO_ALLOCATOR, NULL},
    {"*_malloc[0-9_]*", WHO_ALLOCATOR, NULL},
    {"*reallocarray", WHO_ALLOCATOR, NULL},
    {"*memalign", WHO_ALLOCATOR, NULL},
    {"aligned_alloc", WHO_ALLOCATOR, NULL},
    {"strdup", WHO_ALLOCATOR, NULL},
    {"strndup", WHO_ALLOCATOR, NULL},
    {"__strdup", WHO_ALLOCATOR, "strdup"},
    {"__strndup", WHO_ALLOCATOR, "strndup"},
    {"wcsdup", WHO_ALLOCATOR, NULL},
    {"x*alloc", WHO_ALLOCATOR, NULL},
    {"x*alloc[0-9_]*", WHO_ALLOCATOR, NULL},
    {"x*strdup", WHO_ALLOCATOR, NULL},
    {"x*strndup", WHO_ALLOCATOR, NULL},
    {"xmemdup*", WHO_ALLOCATOR, NULL},
    {"z*alloc_usable*", WHO_ALLOCATOR, NULL},
    {"Tcl*[aA]lloc", WHO_ALLOCATOR, NULL},
    {"g_*alloc*", WHO_ALLOCATOR, NULL},
    {"g_strdup*", WHO_ALLOCATOR, NULL},
    {"g_strndup", WHO_ALLOCATOR, NULL},
    {"CRYPTO_*alloc", WHO_ALLOCATOR, NULL},
    {"CRYPTO_*dup", WHO_ALLOCATOR, NULL},
    {"sqlite3*[mM]alloc*", WHO_ALLOCATOR, NULL},
    {"sqlite3*Realloc*", WHO_ALLOCATOR, NULL},
    {"Perl_safesys*", WHO_ALLOCATOR, NULL},
    {"palloc*", WHO_ALLOCATOR, NULL},
    {"repalloc*", WHO_ALLOCATOR, NULL},
    {"MemoryContext*Alloc*", WHO_ALLOCATOR, NULL},
    {"AllocSetAlloc*", WHO_ALLOCATOR, NULL},
    {"AllocSetRealloc*", WHO_ALLOCATOR, NULL},
    {"ngx_alloc", WHO_ALLOCATOR, NULL},
    {"ngx_p*alloc*", WHO_ALLOCATOR, NULL},
    /* Wrappers of malloc in servers (BIND, OpenLDAP, Samba, Apache, PostgreSQL, MariaDB, HAProxy,
     * Unbound, Dovecot, Mosquitto, Postfix, Erlang) and in Ruby, PHP and Python. */
    {"isc__mem_*", WHO_ALLOCATOR, NULL},
    {"isc_*mempool_get", WHO_ALLOCATOR, NULL},
    {"ber_mem*alloc*", WHO_ALLOCATOR, NULL},
    {"ber_*dup*", WHO_ALLOCATOR, NULL},
    {"ch_strdup", WHO_ALLOCATOR, NULL},
    {"talloc_*", WHO_ALLOCATOR, NULL},
    {"_talloc_*", WHO_ALLOCATOR, NULL},
    {"apr_p*alloc*", WHO_ALLOCATOR, NULL},
    {"apr_pstr*", WHO_ALLOCATOR, NULL},
    {"apr_pmemdup", WHO_ALLOCATOR, NULL},
    {"apr_p*sprintf", WHO_ALLOCATOR, NULL},
    {"pstrdup", WHO_ALLOCATOR, NULL},
    {"pnstrdup", WHO_ALLOCATOR, NULL},
    {"psprintf", WHO_ALLOCATOR, NULL},
    {"MemoryContextStrdup", WHO_ALLOCATOR, NULL},
    {"GenerationAlloc*", WHO_ALLOCATOR, NULL},
    {"SlabAlloc*", WHO_ALLOCATOR, NULL},
    {"*alloc_root", WHO_ALLOCATOR, NULL},
    {"*dup_root", WHO_ALLOCATOR, NULL},
    {"reset_root_defaults", WHO_ALLOCATOR, NULL},
    {"init_sql_alloc", WHO_ALLOCATOR, NULL},
    {"my_once_*", WHO_ALLOCATOR, NULL},
    {"Binary_string::*alloc*", WHO_ALLOCATOR, NULL},
    {"pool_alloc_*", WHO_ALLOCATOR, NULL},
    {"__pool_alloc", WHO_ALLOCATOR, NULL},
    {"pool_get_from_os*", WHO_ALLOCATOR, NULL},
    {"regional_alloc*", WHO_ALLOCATOR, NULL},
    {"pool_alloconly_*", WHO_ALLOCATOR, NULL},
    {"[ipt]_str*dup*", WHO_ALLOCATOR, NULL},
    {"mosquitto__str*dup", WHO_ALLOCATOR, NULL},
    {"mystr*dup", WHO_ALLOCATOR, NULL},
    {"mymemdup", WHO_ALLOCATOR, NULL},
    {"erts_*alloc*", WHO_ALLOCATOR, NULL},
    {"objspace_x*alloc*", WHO_ALLOCATOR, NULL},
    {"ruby_x*alloc*", WHO_ALLOCATOR, NULL},
    {"_*emalloc*", WHO_ALLOCATOR, NULL},
    {"_erealloc*", WHO_ALLOCATOR, NULL},
    {"_estr*dup", WHO_ALLOCATOR, NULL},
    {"*zend_mm_*", WHO_ALLOCATOR, NULL},
    {"_PyMem_*", WHO_ALLOCATOR, NULL},
    {"PyMem_*", WHO_ALLOCATOR, NULL},
    {"pymalloc_alloc", WHO_ALLOCATOR, NULL},
    {"_PyObject_GC_*", WHO_ALLOCATOR, NULL},
    {"gc_alloc", WHO_ALLOCATOR, NULL},
    {"_PyType_AllocNoTrack", WHO_ALLOCATOR, NULL},
    {"PyType_GenericAlloc", WHO_ALLOCATOR, NULL},
    /* Interpreters: python, perl, node, tcl, lua, ruby, php. */
    {"_PyEval_*", WHO_INTERPRETER, NULL},
    {"PyEval_*", WHO_INTERPRETER, NULL},
    {"_PyFunction_Vectorcall*", WHO_INTERPRETER, NULL},
    {"*PyObject_Vectorcall*", WHO_INTERPRETER, NULL},
    {"*PyObject_Call*", WHO_INTERPRETER, NULL},
    {"_PyObject_MakeTpCall*", WHO_INTERPRETER, NULL},
    {"_PyVectorcall_Call*", WHO_INTERPRETER, NULL},
    {"method_vectorcall*", WHO_INTERPRETER, NULL},
    {"cfunction_*", WHO_INTERPRETER, NULL},
    {"run_mod", WHO_INTERPRETER, NULL},
    {"run_eval_code_obj", WHO_INTERPRETER, NULL},
    {"pyrun_*", WHO_INTERPRETER, NULL},
    {"_PyRun_*", WHO_INTERPRETER, NULL},
    {"PyRun_*", WHO_INTERPRETER, NULL},
    {"pymain_*", WHO_INTERPRETER, NULL},
    {"Py_RunMain", WHO_INTERPRETER, NULL},
    {"Py_BytesMain", WHO_INTERPRETER, NULL},
    {"Perl_runops*", WHO_INTERPRETER, NULL},
    {"perl_run", WHO_INTERPRETER, NULL},
    {"Builtins_*", WHO_INTERPRETER, NULL},
    {"v8::internal::Execution::*", WHO_INTERPRETER, NULL},
    {"v8::internal::Builtin_*", WHO_INTERPRETER, NULL},
    {"v8::internal::FunctionCallbackArguments::*", WHO_INTERPRETER, NULL},
    {"TclNRRunCallbacks*", WHO_INTERPRETER, NULL},
    {"Tcl*Eval*", WHO_INTERPRETER, NULL},
    {"Tcl_MainEx*", WHO_INTERPRETER, NULL},
    {"luaV_execute", WHO_INTERPRETER, NULL},
    {"luaD_*", WHO_INTERPRETER, NULL},
    {"vm_exec*", WHO_INTERPRETER, NULL},
    {"rb_vm_exec", WHO_INTERPRETER, NULL},
    {"execute_ex", WHO_INTERPRETER, NULL},
};

static bool matches_any(const char *const *patterns, size_t count, const char *module) {
    for (size_t i = 0; i < count; i++)
        if (fnmatch(patterns[i], module, 0) == 0)
            return true;
    return false;
}

static const char *const c_library[] = {"libc.so*", "libc-[0-9]*.so*", "ld-linux*",
                                        "libpthread.so*"};
/* Other libraries whose functions tell nothing about who allocates. If the tables above have no row
 * for a function of these libraries or of the C library, it is WHO_LIBRARY; without a name, it is
 * WHO_RUNTIME. */
static const char *const runtimes[] = {"libgcc_s.so*", "libstdc++.so*", "libmemctx.so*"};

bool who_is_c_library(const char *module) {
    return matches_any(c_library, sizeof c_library / sizeof c_library[0], module);
}

bool who_is_runtime(const char *module) {
    return who_is_c_library(module) ||
           matches_any(runtimes, sizeof runtimes / sizeof runtimes[0], module);
}

/* Source files of the C, C++ and Rust libraries. An inlined function of a library may have a name
 * without a namespace, but the debug information names its file. Only inlined functions are
 * compared with this list: without debug information about inlining, the line of any function of
 * the program may be in such a file. */
static const char *const library_files[] = {"*/include/c++/*", "/rustc/*/library/*",
                                            "*/rustlib/src/rust/library/*", "/usr/include/bits/*",
                                            "/usr/include/*-linux-gnu/bits/*"};

bool who_is_library_file(const char *file) {
    for (size_t i = 0; file && i < sizeof library_files / sizeof library_files[0]; i++)
        if (fnmatch(library_files[i], file, 0) == 0)
            return true;
    return false;
}

static const struct who_row *find_row(const struct who_row *rows, size_t count, const char *name) {
    for (size_t i = 0; i < count; i++)
        if (fnmatch(rows[i].pattern, name, 0) == 0)
            return &rows[i];
    return NULL;
}

const struct who_row *who_row_of(const char *name) {
    const size_t rust_count = sizeof rust_functions / sizeof rust_functions[0];
    const size_t count = sizeof functions / sizeof functions[0];
    char *plain = shorten_to_name(name, true);
    const struct who_row *row =
        shorten_has_parameters(name) ? NULL : find_row(rust_functions, rust_count, plain);
    row = row ? row : find_row(functions, count, plain);
    free(plain);
    return row;
}
