/* Names of images from arbitrary bytes, and the map with them. What is taken must be safe to put
 * into a URL or to open below a directory. */
#include <ctype.h>
#include <stdint.h>
#include <stdlib.h>

#include "serve/template/image/reference.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool ok)
{
    if (!ok) {
        abort();
    }
}

static void check_url_part(const char *text, const char *extra)
{
    for (; *text; text++) {
        check(isalnum((unsigned char)*text) || strchr(extra, *text));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str text = {(const char *)data, size}, value;
    struct reference ref;
    struct err err;

    (void)reference_map(STR(IMAGE_MAP_DEFAULT), text, &value);
    (void)reference_map(text, STR("python:3.12"), &value);
    if (reference_parse(text, &ref, &err) == 0 && ref.kind == REFERENCE_REGISTRY) {
        check(ref.host[0] && ref.repository[0] && (ref.tag[0] || ref.digest[0]));
        check_url_part(ref.host, "-.:[]");
        check_url_part(ref.repository, "-._/");
        check_url_part(ref.tag, "-._");
        check(!strstr(ref.repository, "..") || !strstr(ref.repository, "/../"));
        check(!ref.digest[0] || reference_is_digest(str_of(ref.digest)));
    }
    return 0;
}
