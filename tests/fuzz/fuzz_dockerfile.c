/* Dockerfiles from arbitrary bytes. What is taken has an image, and steps of texts alone. */
#include <stdint.h>
#include <stdlib.h>

#include "cli/dockerfile.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_step(const json_t *step)
{
    const json_t *arg;
    size_t i;

    json_array_foreach (json_object_get(step, "args"), i, arg) {
        if (!json_is_string(arg)) {
            abort();
        }
    }
    if (i == 0 || !json_is_string(json_object_get(step, "type"))) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct dockerfile file;
    const json_t *step, *stage;
    struct err err;
    size_t i;

    if (dockerfile_parse((struct str){(const char *)data, size}, NULL, &file, &err) == 0) {
        json_array_foreach (file.steps, i, step) {
            check_step(step);
        }
        json_array_foreach (file.stages, i, stage) {
            size_t j;
            json_array_foreach (json_object_get(stage, "steps"), j, step) {
                check_step(step);
            }
        }
        if (!file.from || !file.from[0]) {
            abort();
        }
        dockerfile_fini(&file);
    }
    return 0;
}
