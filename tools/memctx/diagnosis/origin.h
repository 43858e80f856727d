/* SPDX-License-Identifier: MIT */
/*
 * origin.h - tells whether memory was allocated for Java, JavaScript, Go, a script, by libraries,
 * or by the dynamic loader.
 *
 * Doctor's advice depends on it: the call paths of such memory show the functions of a virtual
 * machine, an interpreter or a library, and not the code that the user wrote.
 */
#ifndef MEMCTX_ORIGIN_H
#define MEMCTX_ORIGIN_H

#include "diagnosis/look.h"

/* True if Java code allocated the finding's chunks, through a native method. Such a path leads
 * through code that the virtual machine compiled, which has no names. */
bool origin_is_java(const struct look *look, const struct finding *finding);
/* True if V8, or node for V8, allocated the finding's chunks: objects of JavaScript own them, such
 * as a Buffer. False for the chunks of a module in C that a script calls. */
bool origin_is_javascript(const struct look *look, const struct finding *finding);
/* True if the dynamic loader itself allocated all of the suspect's chunks, for dlopen. It loads no
 * file twice, so these chunks have a bound. */
bool origin_is_loader(const struct look *look, const struct blame_suspect *suspect);
/* True if more than half of the suspect's memory was allocated by libraries, or by modules that do
 * not come with Python. Libraries and such modules may call malloc itself. */
bool origin_is_libraries(const struct look *look, const struct blame_suspect *suspect);
/* True if code of Go allocated all of the suspect's chunks, with C.malloc, C.CString or C.CBytes.
 * The path of such a call shows no function of Go. */
bool origin_is_go(const struct look *look, const struct blame_suspect *suspect);
/* True if functions of an interpreter allocated more than half of the suspect's memory while a
 * script ran. */
bool origin_is_script(const struct look *look, const struct blame_suspect *suspect);

#endif
