#include <errno.h>
#include <string.h>

#include "serve/template/image/image.h"

enum { REGION_BYTES_MAX = 32, SECRET_BYTES_MAX = 64 * 1024 };

/* Goes into a host name. */
static bool is_region(const char *text)
{
    return text && text[0] && strlen(text) <= REGION_BYTES_MAX &&
           strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789-") == strlen(text);
}

static int text_read(const json_t *json, const char *name, const char **out, struct err *err)
{
    const json_t *value = json_object_get(json, name);

    if (!json_is_string(value) || json_string_length(value) == 0 ||
        json_string_length(value) > SECRET_BYTES_MAX ||
        strlen(json_string_value(value)) != json_string_length(value)) {
        return err_set(err, EINVAL, "fromImageRegistry: %s is missing or no text", ours(name));
    }
    *out = json_string_value(value);
    return 0;
}

static int aws_read(const json_t *json, struct image_credentials *out, struct err *err)
{
    int r = text_read(json, "awsAccessKeyId", &out->aws_access_key_id, err);

    r = r < 0 ? r : text_read(json, "awsSecretAccessKey", &out->aws_secret_access_key, err);
    r = r < 0 ? r : text_read(json, "awsRegion", &out->aws_region, err);
    if (r == 0 && !is_region(out->aws_region)) {
        r = err_set(err, EINVAL, "fromImageRegistry: awsRegion is no region");
    }
    return r;
}

int image_credentials_parse(const json_t *json, struct image_credentials *out, struct err *err)
{
    const char *type = json_string_value(json_object_get(json, "type"));
    struct image_credentials found = {0};
    int r = -EINVAL;

    if (!json || json_is_null(json)) {
        *out = found;
        return 0;
    }
    if (type && strcmp(type, "registry") == 0) {
        r = text_read(json, "username", &found.username, err);
        r = r < 0 ? r : text_read(json, "password", &found.password, err);
    } else if (type && strcmp(type, "aws") == 0) {
        r = aws_read(json, &found, err);
    } else if (type && strcmp(type, "gcp") == 0) {
        r = text_read(json, "serviceAccountJson", &found.gcp_service_account_json, err);
    } else {
        r = err_set(err, EINVAL, "fromImageRegistry: type is not registry, aws or gcp");
    }
    if (r == 0) {
        *out = found;
    }
    return r;
}
