#include "serve/template/image/manifest.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { INDEX_ENTRIES_MAX = 1024, WORDS_MAX = 4096 };

static void json_freep(json_t **json)
{
    json_decref(*json);
}

const char *manifest_architecture(void)
{
#if defined(__x86_64__)
    return "amd64";
#elif defined(__aarch64__)
    return "arm64";
#else
#error "which name images have for this architecture is not known"
#endif
}

static json_t *object_load(struct str text, const char *what, struct err *err)
{
    json_t *json = json_loadb(text.at, text.len, JSON_REJECT_DUPLICATES, NULL);

    if (!json_is_object(json)) {
        json_decref(json);
        (void)err_set(err, EINVAL, "the registry's answer is no %s: it is not JSON", what);
        return NULL;
    }
    return json;
}

static int blob_read(const json_t *json, const char *what, struct manifest_blob *out,
                     struct err *err)
{
    const char *digest = json_string_value(json_object_get(json, "digest"));
    const json_t *size = json_object_get(json, "size");

    if (!digest || !reference_is_digest(str_of(digest))) {
        return err_set(err, EINVAL, "the manifest's %s has no digest of SHA-256", what);
    }
    if (!json_is_integer(size) || json_integer_value(size) < 0 ||
        (uint64_t)json_integer_value(size) > IMAGE_BLOB_BYTES_MAX) {
        return err_set(err, EINVAL, "the manifest's %s has no size, or more than %llu GB", what,
                       (unsigned long long)(IMAGE_BLOB_BYTES_MAX >> 30));
    }
    (void)str_copy(out->digest, sizeof(out->digest), str_of(digest));
    out->size = (uint64_t)json_integer_value(size);
    return 0;
}

/* ---- an index ---- */

static bool text_is(const json_t *object, const char *name, const char *value)
{
    const char *text = json_string_value(json_object_get(object, name));

    return text && strcmp(text, value) == 0;
}

static bool is_for_us(const json_t *entry, struct str tag)
{
    const json_t *platform = json_object_get(entry, "platform");
    const json_t *notes = json_object_get(entry, "annotations");
    const char *name =
        json_string_value(json_object_get(notes, "org.opencontainers.image.ref.name"));

    if (tag.len > 0 && (!name || !str_eq(str_of(name), tag))) {
        return false;
    }
    return !platform || (text_is(platform, "os", "linux") &&
                         text_is(platform, "architecture", manifest_architecture()));
}

static int index_pick(const json_t *entries, struct str tag, struct manifest_blob *pick,
                      struct err *err)
{
    size_t n = json_array_size(entries);

    for (size_t i = 0; i < n && i < INDEX_ENTRIES_MAX; i++) {
        const json_t *entry = json_array_get(entries, i);
        if (is_for_us(entry, tag)) {
            int r = blob_read(entry, "entry", pick, err);
            return r < 0 ? r : 1;
        }
    }
    if (tag.len > 0) {
        return err_set(err, ENOENT, "there is no image named '%.*s' there", (int)tag.len, tag.at);
    }
    return err_set(err, ENOENT, "the image is not made for linux/%s", manifest_architecture());
}

/* ---- a manifest ---- */

static int manifest_read(const json_t *json, struct manifest *out, struct err *err)
{
    const json_t *layers = json_object_get(json, "layers");
    size_t n = json_array_size(layers);
    int r = blob_read(json_object_get(json, "config"), "config", &out->config, err);

    if (r < 0) {
        return r;
    }
    if (out->config.size > IMAGE_MANIFEST_BYTES_MAX) {
        return err_set(err, EINVAL, "the image's configuration is larger than %d bytes",
                       IMAGE_MANIFEST_BYTES_MAX);
    }
    if (!json_is_array(layers) || n > IMAGE_LAYERS_MAX) {
        return err_set(err, EINVAL, "the manifest has no layers, or more than %d",
                       IMAGE_LAYERS_MAX);
    }
    for (size_t i = 0; r == 0 && i < n; i++) {
        r = blob_read(json_array_get(layers, i), "layer", &out->layers[i], err);
    }
    out->layers_n = (uint32_t)n;
    return r;
}

int manifest_parse(struct str text, struct str tag, struct manifest *out,
                   struct manifest_blob *pick, struct err *err)
{
    scoped(json_freep) json_t *json = object_load(text, "manifest", err);

    if (!json) {
        return -EINVAL;
    }
    const json_t *entries = json_object_get(json, "manifests");
    if (json_is_array(entries)) {
        return index_pick(entries, tag, pick, err);
    }
    if (json_integer_value(json_object_get(json, "schemaVersion")) != 2) {
        return err_set(err, EINVAL, "the registry's answer is no manifest of version 2");
    }
    return manifest_read(json, out, err);
}

/* ---- the configuration ---- */

static json_t *env_read(const json_t *list)
{
    json_t *env = json_object();

    for (size_t i = 0; i < json_array_size(list) && i < WORDS_MAX; i++) {
        const char *pair = json_string_value(json_array_get(list, i));
        const char *equals = pair ? strchr(pair, '=') : NULL;
        if (equals && equals != pair) {
            char *name = strndup(pair, (size_t)(equals - pair));
            if (!name || json_object_set_new(env, name, json_string(equals + 1)) < 0) {
                abort();
            }
            free(name);
        }
    }
    return env;
}

static json_t *words_read(const json_t *list)
{
    json_t *words = json_array();

    for (size_t i = 0; i < json_array_size(list) && i < WORDS_MAX; i++) {
        json_t *word = json_array_get(list, i);
        if (json_is_string(word) && json_array_append(words, word) < 0) {
            abort();
        }
    }
    return words;
}

static json_t *word_read(const json_t *config, const char *name)
{
    const char *text = json_string_value(json_object_get(config, name));

    return json_string(text ? text : "");
}

static int diff_ids_read(const json_t *json, uint32_t n,
                         char out[IMAGE_LAYERS_MAX][REFERENCE_DIGEST_BYTES], struct err *err)
{
    const json_t *ids = json_object_get(json_object_get(json, "rootfs"), "diff_ids");

    if (json_array_size(ids) != n) {
        return err_set(err, EINVAL, "the image's configuration names %zu layers, its manifest %u",
                       json_array_size(ids), n);
    }
    for (uint32_t i = 0; i < n; i++) {
        const char *id = json_string_value(json_array_get(ids, i));
        if (!id || !reference_is_digest(str_of(id))) {
            return err_set(err, EINVAL, "the image's configuration has a layer without a digest");
        }
        (void)str_copy(out[i], REFERENCE_DIGEST_BYTES, str_of(id));
    }
    return 0;
}

int manifest_config_parse(struct str text, const struct manifest *manifest, json_t **config,
                          char diff_ids[IMAGE_LAYERS_MAX][REFERENCE_DIGEST_BYTES], struct err *err)
{
    scoped(json_freep) json_t *json = object_load(text, "image configuration", err);

    if (!json) {
        return -EINVAL;
    }
    int r = diff_ids_read(json, manifest->layers_n, diff_ids, err);
    if (r < 0) {
        return r;
    }
    const json_t *from = json_object_get(json, "config");
    *config = json_pack("{soso soso so}", "env", env_read(json_object_get(from, "Env")), "user",
                        word_read(from, "User"), "workdir", word_read(from, "WorkingDir"),
                        "entrypoint", words_read(json_object_get(from, "Entrypoint")), "cmd",
                        words_read(json_object_get(from, "Cmd")));
    if (!*config) {
        abort();
    }
    return 0;
}
