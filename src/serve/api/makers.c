/* makers.c - which API key made a template, a build, a volume or another key: what createdBy shows
 * and what quotas of keys are charged by. A sandbox has its maker among its options. */
#include <stdlib.h>

#include "lib/base/alloc.h"
#include "serve/api/internal.h"

struct maker {
    char id[ID_UUID_LEN + 1];
    char key_id[ID_UUID_LEN + 1];
    UT_hash_handle hh;
};

static void put(struct api *api, const char *id, const char *key_id)
{
    struct maker *maker = NULL;

    HASH_FIND_STR(api->makers, id, maker);
    if (!maker) {
        maker = xnew(struct maker);
        (void)str_copy(maker->id, sizeof(maker->id), str_of(id));
        HASH_ADD_STR(api->makers, id, maker);
    }
    (void)str_copy(maker->key_id, sizeof(maker->key_id), str_of(key_id));
}

void maker_note(const struct call *call, const char *id)
{
    if (call->key_id[0]) {
        struct maker_row row = {.id = id, .key_id = call->key_id};

        put(call->api, id, call->key_id);
        store_maker_save(call->api->options.store, &row);
    }
}

void maker_forget(struct api *api, const char *id)
{
    struct maker *maker = NULL;

    HASH_FIND_STR(api->makers, id, maker);
    if (maker) {
        store_maker_delete(api->options.store, id);
        HASH_DEL(api->makers, maker);
        free(maker);
    }
}

const char *maker_of(const struct api *api, const char *id)
{
    const struct maker *maker = NULL;

    HASH_FIND_STR(api->makers, id, maker);
    return maker ? maker->key_id : NULL;
}

json_t *maker_json(const struct api *api, const char *id)
{
    const char *key_id = maker_of(api, id);

    return key_id ? json_pack("{sssn}", "id", key_id, "email") : json_null();
}

static void on_row(void *ctx, const struct maker_row *row)
{
    put(ctx, row->id, row->key_id);
}

int makers_load(struct api *api, struct err *err)
{
    return store_load_makers(api->options.store, on_row, api, err);
}

void makers_free(struct api *api)
{
    struct maker *maker = NULL, *next = NULL;

    HASH_ITER (hh, api->makers, maker, next) {
        HASH_DEL(api->makers, maker);
        free(maker);
    }
}
