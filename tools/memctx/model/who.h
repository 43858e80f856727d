/* SPDX-License-Identifier: MIT */
/*
 * who.h - names who allocates: the functions of a call path that tell a reader something.
 *
 * A path has frames that say little: wrappers of malloc, the inside of the C++ and Rust libraries,
 * the start of a thread, the loop of an interpreter. who_write leaves these out. The tables in
 * who_tables.c decide which functions are left out. An inlined function counts as a function of its
 * own.
 *
 * A step is one function of a path. It is identified by a context and by the index of the function
 * in the names of the context's frame.
 */
#ifndef MEMCTX_WHO_H
#define MEMCTX_WHO_H

#include <stdbool.h>
#include <stdint.h>

#include "model/model.h"

#define WHO_FUNCTIONS 3 /* functions that are shown if the user asks for no other number */

struct who_step {
    uint32_t context;  /* index of a context; WIRE_NONE: there are no functions farther out */
    uint32_t function; /* index in the names of the frame; 0 if it has none */
};

/* The kinds of functions. Functions of a kind after WHO_MAIN are shown only if the path has no
 * function of the kind WHO_MEANS. */
enum who_kind {
    WHO_MEANS, /* a function of the program */
    WHO_MAIN,  /* main: shown, but never taken as a cause */
    /* a frame without a name, if other frames of its module on the path have names */
    WHO_NAMELESS,
    WHO_INTERPRETER, /* the loop of an interpreter */
    WHO_ALLOCATOR,   /* a wrapper of malloc; left out at the inner end of a path */
    WHO_LIBRARY,     /* the inside of the C, C++ or Rust library */
    /* functions that start the program or a thread, and labels such as [truncated] */
    WHO_RUNTIME,
};

/* who_first returns the innermost step of a context; who_next returns the step of the function that
 * called `step`. */
struct who_step who_first(const struct model *model, uint32_t context);
struct who_step who_next(const struct model *model, struct who_step step);
/* Returns the kind of a step. Never returns WHO_NAMELESS, which depends on the rest of the path. */
enum who_kind who_kind_of(const struct model *model, struct who_step step);
/* True if the name of the step's function is known. */
bool who_has_name(const struct model *model, struct who_step step);
/* True if the function has a line in a source file that is the program's own, or is in the
 * program's file and is not known to be a library's. */
bool who_is_programs_own(const struct model *model, struct who_step step);
/* Returns a key that all steps in one function share. Keys of different functions differ, unless
 * their 64-bit hashes collide. A function without a name is identified by its return address. */
uint64_t who_key(const struct model *model, struct who_step step);
/* Returns the key that who_key has for a function of a frame (`function`: index in its names). The
 * frame may be one of model/tails.h, which belongs to no context. */
uint64_t who_function_key(const struct model_frame *frame, uint32_t function);

/* A part of a path: the steps from `from` outwards, up to but not including `end`. */
struct who_part {
    struct who_step from, end; /* end.context is WIRE_NONE: up to the outermost function */
    bool keeps_first;          /* `from` is shown, even if its kind is not */
    bool without_tails; /* functions between `from` and malloc are not shown (model/tails.h) */
};
/* Returns the part of a context's path that has the innermost `frames` frames. */
struct who_part who_frames(const struct model *model, uint32_t context, uint32_t frames);

/* Returns true if a function of this part is of the kind WHO_MEANS. */
bool who_means(const struct model *model, const struct who_part *part);

/* Searches outwards from `from`, and returns the first step in the function of `wanted`. If there
 * is none, the step's context is WIRE_NONE. */
struct who_step who_find(const struct model *model, struct who_step from, struct who_step wanted);

/* Finds the function of the program that called into libraries, and sets *caller to it. Returns
 * true in two cases: (1) The innermost function of the part that tells something is in a library
 * without source lines, or its source is an installed header or crate. The caller is then the next
 * function outwards that is in the program's own file or has a source line of its own. (2) A script
 * called a C module with source lines, which called functions of the interpreter to allocate. The
 * caller is then the function of the module. In all other cases returns false, also if the part
 * leads through the loop of an interpreter: the functions of an interpreter do not show the
 * script. */
bool who_find_caller(const struct model *model, const struct who_part *part,
                     struct who_step *caller);
/* Returns the function that who_find_caller found, in the form of who_write_short. If a function of
 * the program ended in a tail call between the caller and the library, returns that function
 * instead. The caller frees the text. */
char *who_write_caller(const struct model *model, const struct who_part *part,
                       struct who_step caller);

/* Returns the functions of a part that tell something, at most `most` of them, innermost first:
 * "open_session (srv.cc:10) < main (srv.cc:40), via std::string". The word behind "via" stands for
 * the functions that were left out at the inner end. If who_find_caller finds a caller that is not
 * among the functions, it is added: "json_object (libjansson.so.4) < ... < load (srv.c:5)". If no
 * function tells something, the innermost functions are shown. The caller frees the text. */
char *who_write(const struct model *model, const struct who_part *part, int64_t most);
/* Returns how many functions who_write has to show so that the function of the step `wanted` is
 * among them; 0 if who_write never shows it. */
int64_t who_count_to(const struct model *model, const struct who_part *part,
                     struct who_step wanted);
/* Returns the first function that who_write shows, as "open_session, srv.cc:10". The caller frees
 * the text. */
char *who_write_short(const struct model *model, const struct who_part *part);
/* True if the innermost frame that who_write_short may show has a name. (In place of this frame,
 * who_write_short may show a function that ended in a tail call; such a function always has a
 * name.) */
bool who_begins_named(const struct model *model, const struct who_part *part);

#endif
