// SPDX-License-Identifier: MIT

// go_program - Go and C in one process: C.malloc and C.CString from goroutines on many threads, C
// code that calls back into Go, memory passed between threads, Go's own collector and signals.
package main

/*
#include <stdlib.h>
#include <string.h>

typedef struct item {
	struct item *next;
	size_t bytes;
	unsigned char payload[];
} item;

static item *item_push(item *list, size_t bytes) {
	item *made = malloc(sizeof *made + bytes);
	memset(made->payload, (int)(bytes % 251), bytes);
	made->bytes = bytes;
	made->next = list;
	return made;
}

static unsigned long item_drain(item *list) {
	unsigned long sum = 0;
	while (list) {
		item *next = list->next;
		for (size_t i = 0; i < list->bytes; i++) {
			sum += list->payload[i];
		}
		free(list);
		list = next;
	}
	return sum;
}

extern void goCallback(char *text, int depth);

static void c_recurse(int depth) {
	char *text = malloc(64);
	memset(text, 'a' + depth % 26, 63);
	text[63] = 0;
	if (depth > 0) {
		c_recurse(depth - 1);
	} else {
		goCallback(text, depth);
	}
	free(text);
}
*/
import "C"

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"
)

var callbacks atomic.Int64

//export goCallback
func goCallback(text *C.char, depth C.int) {
	garbage := make([][]byte, 0, 10)
	for i := 0; i < 10; i++ {
		garbage = append(garbage, make([]byte, 1000))
	}
	callbacks.Add(int64(len(garbage)) + int64(len(C.GoString(text))) + int64(depth))
}

func main() {
	const workers = 16
	var wait sync.WaitGroup
	lists := make(chan *C.item, 4)
	var total atomic.Uint64
	for worker := 0; worker < workers; worker++ {
		wait.Add(1)
		go func(worker int) {
			defer wait.Done()
			if worker%2 == 0 {
				runtime.LockOSThread() // and never unlocked: the thread dies with its goroutine
			}
			for round := 0; round < 100; round++ {
				var list *C.item
				for i := 0; i < 50; i++ {
					list = C.item_push(list, C.size_t((worker*37+round*11+i*101)%3000))
				}
				lists <- list
				text := C.CString(fmt.Sprintf("worker %d round %d", worker, round))
				total.Add(uint64(C.strlen(text)))
				C.free(unsafe.Pointer(text))
				if round%20 == 0 {
					C.c_recurse(C.int(round % 30))
					runtime.GC()
				}
			}
		}(worker)
	}
	done := make(chan uint64)
	go func() {
		sum := uint64(0)
		for list := range lists {
			sum += uint64(C.item_drain(list))
		}
		done <- sum
	}()
	wait.Wait()
	close(lists)
	fmt.Println("drained", <-done, "text", total.Load(), "callbacks", callbacks.Load())
}
