/* Bytes of an HTTP/1.1 connection, through the real protocol and real handlers. */
#include "fuzz_conn.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_connection(&http1_protocol, data, size);
    return 0;
}
