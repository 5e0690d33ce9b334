/* Bytes of an HTTP/2 connection, through the real protocol and real handlers. The client's preface
 * is sent for the input, which is frames only. */
#include "fuzz_conn.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    enum { PREFACE_BYTES = sizeof(preface) - 1, SIZE_MAX_BYTES = 64 * 1024 };
    static uint8_t all[1 + PREFACE_BYTES + SIZE_MAX_BYTES];

    if (size == 0 || size > SIZE_MAX_BYTES) {
        return 0;
    }
    all[0] = data[0];
    memcpy(all + 1, preface, PREFACE_BYTES);
    memcpy(all + 1 + PREFACE_BYTES, data + 1, size - 1);
    fuzz_connection(&http2_protocol, all, PREFACE_BYTES + size);
    return 0;
}
