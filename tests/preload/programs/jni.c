// SPDX-License-Identifier: MIT
// The native half of JniProgram.java. Java keeps the addresses of chunks; C frees them later on the
// thread that Java calls from.

#include <jni.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

JNIEXPORT jlong JNICALL Java_JniProgram_take(JNIEnv *env, jclass class, jint bytes, jbyte fill) {
    char *chunk = malloc((size_t)bytes);

    (void)env;
    (void)class;
    if (chunk)
        memset(chunk, fill, (size_t)bytes);
    return (jlong)(intptr_t)chunk;
}

JNIEXPORT jlong JNICALL Java_JniProgram_give(JNIEnv *env, jclass class, jlong address, jint bytes) {
    char *chunk = (char *)(intptr_t)address;
    jlong sum = 0;

    (void)env;
    (void)class;
    chunk = realloc(chunk, (size_t)bytes * 2);
    for (jint i = 0; i < bytes; i++)
        sum += chunk[i];
    free(chunk);
    return sum;
}

// A chunk that Java reads through a direct buffer.
JNIEXPORT jobject JNICALL Java_JniProgram_buffer(JNIEnv *env, jclass class, jlong address,
                                                 jint bytes) {
    (void)class;
    return (*env)->NewDirectByteBuffer(env, (void *)(intptr_t)address, bytes);
}
