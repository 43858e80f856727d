/* SPDX-License-Identifier: MIT */
/* Requests as they come from the control socket. In the input each has its type (1 byte), the
 * length of its body (2 bytes) and its body. The process has chunks of six contexts, of up to half
 * a megabyte; marks and rules are made only by the requests. */
#include "control/commands.h"
#include "os/os.h"
#include "region/region.h"
#include "rules/rules.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void grow_heap(void) {
    static struct heap *heap;
    if (heap)
        return;
    heap = heap_acquire(1, true);
    for (uint32_t i = 0; i < 200; i++)
        region_alloc(heap, heap_view(heap, 1 + i % 6), (size_t)i * i * 13, false);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static char room[WIRE_ANSWER_MAX] __attribute__((aligned(8)));
    char body[WIRE_REQUEST_MAX + 1];
    grow_heap();
    for (int requests = 0; size >= 3 && requests < 20; requests++) {
        size_t length = (data[1] | (size_t)data[2] << 8) % (WIRE_REQUEST_MAX + 1);
        uint16_t type = data[0] % (WIRE_RULE_RANGES + 1);
        data += 3;
        size -= 3;
        length = length < size ? length : size;
        memcpy(body, data, length);
        body[length] = 0; /* as the server does */
        data += length;
        size -= length;
        struct answer answer = {.bytes = room, .capacity = sizeof room};
        if (command_is_known(type, length))
            command_run(type, body, length, &answer);
    }
    return 0;
}
