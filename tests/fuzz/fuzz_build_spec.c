/* Bodies that start builds, from arbitrary bytes: parsed, and every step checked, shown and
 * chained. What is taken must keep what spec.h promises; what is refused must come with a sentence.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "serve/template/build/spec.h"

enum { TEXT_BYTES_MAX = 64 * 1024 * 1024 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool ok)
{
    if (!ok) {
        abort();
    }
}

static void check_step(const struct step *step, char chain[SHA256_HEX_LEN + 1])
{
    char before[SHA256_HEX_LEN + 1];
    struct err err = {0};
    scoped_buf(text, TEXT_BYTES_MAX);

    check(step->type && json_array_size(step->args) <= SPEC_ARGS_MAX);
    for (size_t i = 0; i < json_array_size(step->args); i++) {
        check(json_is_string(json_array_get(step->args, i)));
        check(strlen(step_arg(step, i)) <= SPEC_TEXT_BYTES_MAX);
    }
    if (step_check(step, &err) < 0) {
        check(err.code != 0 && err.msg[0] != '\0');
    }
    check(step_text(step, &text) == 0 && buf_len(&text) > 0);
    memcpy(before, chain, sizeof(before));
    chain_step(before, step, chain);
    check(strlen(chain) == SHA256_HEX_LEN && strcmp(before, chain) != 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    json_t *body = json_loadb((const char *)data, size, 0, NULL);
    char chain[SHA256_HEX_LEN + 1];
    struct spec *spec = NULL;
    struct err err = {0};

    if (spec_parse(body, &spec, &err) < 0) {
        check(err.code != 0 && err.msg[0] != '\0' && !spec);
    } else {
        check(!spec->from_image != !spec->from_template && spec->steps_n <= SPEC_STEPS_MAX);
        chain_begin("team", "base", chain);
        for (size_t i = 0; i < spec->steps_n; i++) {
            check_step(&spec->steps[i], chain);
        }
    }
    spec_free(spec);
    json_decref(body);
    return 0;
}
