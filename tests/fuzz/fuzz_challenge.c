/* WWW-Authenticate from arbitrary bytes. */
#include <stdint.h>
#include <stdlib.h>

#include "serve/template/image/challenge.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct challenge challenge;
    struct err err;

    if (challenge_parse((struct str){(const char *)data, size}, &challenge, &err) == 0 &&
        (challenge.kind == CHALLENGE_BEARER) > (challenge.realm[0] != '\0')) {
        abort();
    }
    return 0;
}
