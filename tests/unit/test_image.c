/* What names, registries and manifests say, friendly and hostile. */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "check.h"
#include "lib/base/compiler.h"
#include "serve/template/image/challenge.h"
#include "serve/template/image/feed.h"
#include "serve/template/image/manifest.h"
#include "serve/template/image/reference.h"
#include "serve/template/image/tar.h"
#include "tcp_pair.h"

#define HEX64 "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

/* ---- names ---- */

static void names_mean_what_docker_means(void)
{
    static const struct {
        const char *text, *host, *repository, *tag, *digest;
    } rows[] = {
        {"ubuntu", "docker.io", "library/ubuntu", "latest", ""},
        {"ubuntu:22.04", "docker.io", "library/ubuntu", "22.04", ""},
        {"e2bdev/base", "docker.io", "e2bdev/base", "latest", ""},
        {"docker.io/library/node:22", "docker.io", "library/node", "22", ""},
        {"index.docker.io/node", "docker.io", "library/node", "latest", ""},
        {"localhost/x", "localhost", "x", "latest", ""},
        {"localhost:5000/a/b/c:V_1.2-3", "localhost:5000", "a/b/c", "V_1.2-3", ""},
        {"[::1]:5000/a", "[::1]:5000", "a", "latest", ""},
        {"ghcr.io/o/r@sha256:" HEX64, "ghcr.io", "o/r", "", "sha256:" HEX64},
        {"r:1@sha256:" HEX64, "docker.io", "library/r", "1", "sha256:" HEX64},
    };
    struct reference ref;
    struct err err;

    for (size_t i = 0; i < countof(rows); i++) {
        CHECK_INT(reference_parse(str_of(rows[i].text), &ref, &err), 0);
        CHECK_STR(ref.host, rows[i].host);
        CHECK_STR(ref.repository, rows[i].repository);
        CHECK_STR(ref.tag, rows[i].tag);
        CHECK_STR(ref.digest, rows[i].digest);
    }
}

static void what_names_no_image_is_refused(void)
{
    static const char *const texts[] = {
        "",
        "Ubuntu",
        "a b",
        "a/",
        "/a",
        "a//b",
        "a:",
        "a:b c",
        "a:-x",
        "a@sha256:12",
        ("a@md5:" HEX64),
        "../etc",
        "a/../b",
        "host:80/",
        "a?b=c",
        "a#b",
        "a%2fb",
        "x.y/a\r\n",
        "u@host/a",
        "x.y:1/a@",
        "oci:",
        "debootstrap:bookworm",
        "docker-archive::x",
        "_a",
        "a-",
        "h\n.y/a",
    };
    struct reference ref;
    struct err err;

    for (size_t i = 0; i < countof(texts); i++) {
        CHECK_THAT(reference_parse(str_of(texts[i]), &ref, &err) == -EINVAL, "'%s' was taken",
                   texts[i]);
    }
}

static void paths_of_this_machine_are_names_too(void)
{
    struct reference ref;
    struct err err;

    CHECK_INT(reference_parse(STR("oci:/srv/images/a:t"), &ref, &err), 0);
    CHECK_INT(ref.kind, REFERENCE_OCI);
    CHECK_STR(ref.repository, "/srv/images/a");
    CHECK_STR(ref.tag, "t");
    CHECK_INT(reference_parse(STR("docker-archive:x.tar:a/b:c"), &ref, &err), 0);
    CHECK_INT(ref.kind, REFERENCE_DOCKER_ARCHIVE);
    CHECK_STR(ref.repository, "x.tar");
    CHECK_STR(ref.tag, "a/b:c");
}

static const char *mapped(const char *map, const char *name)
{
    static char out[128];
    struct str value;

    if (!reference_map(str_of(map), str_of(name), &value) || !str_copy(out, sizeof(out), value)) {
        return "nothing";
    }
    return out;
}

static void the_map_takes_the_first_pattern_that_fits(void)
{
    CHECK_STR(mapped(IMAGE_MAP_DEFAULT, "ubuntu"), "nothing");
    CHECK_STR(mapped(IMAGE_MAP_OFFLINE, "ubuntu"), "base");
    CHECK_STR(mapped(IMAGE_MAP_OFFLINE, "docker.io/library/ubuntu:22.04"), "base");
    CHECK_STR(mapped(IMAGE_MAP_OFFLINE, "python:3.12"), "nothing");
    CHECK_STR(mapped(IMAGE_MAP_DEFAULT, "docker.io/library/python:3.13-slim"), "base");
    CHECK_STR(mapped(IMAGE_MAP_DEFAULT, "python"), "base");
    CHECK_STR(mapped(IMAGE_MAP_DEFAULT, "debian:stable-slim"), "base");
    CHECK_STR(mapped(IMAGE_MAP_DEFAULT, "node:22-slim"), "base+node");
    CHECK_STR(mapped(IMAGE_MAP_DEFAULT, "e2bdev/base"), "base");
    CHECK_STR(mapped(IMAGE_MAP_DEFAULT, "e2bdev/code-interpreter:latest"), "code-interpreter-v1");
    CHECK_STR(mapped(IMAGE_MAP_DEFAULT, "ghcr.io/ubuntu:22.04"), "nothing");
    CHECK_STR(mapped(IMAGE_MAP_DEFAULT, "alpine"), "nothing");
    CHECK_STR(mapped(IMAGE_MAP_DEFAULT, "debootstrap:trixie"), "base");
    CHECK_STR(mapped(IMAGE_MAP_DEFAULT, "debootstrap:bookworm"), "nothing");
    CHECK_STR(mapped("node:22=a, node:*=b", "node:22"), "a");
    CHECK_STR(mapped("node:22=a, node:*=b", "node:20"), "b");
    CHECK_STR(mapped("*a*b*=x", "zzazzbzz:1"), "x");
    CHECK_STR(mapped("*a*b*c=x", "zzazzbzz:1"), "nothing");
    CHECK_STR(mapped("", "node"), "nothing");
}

/* A stand-in of another version would be taken for the image. */
static void another_version_has_no_stand_in(void)
{
    static const char *const names[] = {
        "python:3.12-slim", "python:3.12", "python:3.13.1", "python:2",       "python:3.13-alpine",
        "python:3.1",       "debian:12",   "ubuntu:22.04",  "ubuntu:24.04",   "debian:bookworm",
        "node:22-alpine",   "debian:130",  "python:3.130",  "node:20-buster", "python:3-bullseye",
    };

    for (size_t i = 0; i < countof(names); i++) {
        CHECK_THAT(strcmp(mapped(IMAGE_MAP_DEFAULT, names[i]), "nothing") == 0, "%s", names[i]);
    }
}

static void a_map_that_cannot_be_read_is_refused(void)
{
    struct err err;

    CHECK_INT(reference_map_check(STR(IMAGE_MAP_DEFAULT), &err), 0);
    CHECK_INT(reference_map_check(STR(""), &err), 0);
    CHECK_INT(reference_map_check(STR("a"), &err), -EINVAL);
    CHECK_INT(reference_map_check(STR("a=b,=c"), &err), -EINVAL);
}

/* ---- WWW-Authenticate ---- */

static void challenges_are_read(void)
{
    struct challenge c;
    struct err err;

    CHECK_INT(challenge_parse(STR("Bearer realm=\"https://a/t\",service=\"s\",scope=\"r:x:pull\""),
                              &c, &err),
              0);
    CHECK_INT(c.kind, CHALLENGE_BEARER);
    CHECK_STR(c.realm, "https://a/t");
    CHECK_STR(c.service, "s");
    CHECK_STR(c.scope, "r:x:pull");
    CHECK_INT(challenge_parse(STR("basic realm=\"Registry \\\"Realm\\\"\""), &c, &err), 0);
    CHECK_INT(c.kind, CHALLENGE_BASIC);
    CHECK_STR(c.realm, "Registry \"Realm\"");
    CHECK_INT(challenge_parse(STR("Negotiate, Digest realm=x, bearer realm=y"), &c, &err), 0);
    CHECK_INT(c.kind, CHALLENGE_BEARER);
    CHECK_STR(c.realm, "y");
}

static void challenges_that_make_no_sense_are_refused(void)
{
    static const char *const texts[] = {
        "",
        "Negotiate",
        "Bearer",
        "Bearer realm=\"x",
        "Bearer realm=",
        "Digest realm=\"x\"",
        "=",
        "\"",
        "Bearer realm=\"a\nb\"",
    };
    struct challenge c;
    struct err err;

    for (size_t i = 0; i < countof(texts); i++) {
        CHECK_THAT(challenge_parse(str_of(texts[i]), &c, &err) == -EINVAL, "'%s' was taken",
                   texts[i]);
    }
}

/* ---- manifests ---- */

#define BLOB(size) "{\"digest\":\"sha256:" HEX64 "\",\"size\":" size "}"

static int parse(const char *text, struct manifest *out, struct manifest_blob *pick)
{
    struct err err;

    return manifest_parse(str_of(text), (struct str){NULL, 0}, out, pick, &err);
}

static void manifests_are_read(void)
{
    struct manifest m;
    struct manifest_blob pick;

    CHECK_INT(parse("{\"schemaVersion\":2,\"config\":" BLOB("7") ",\"layers\":[" BLOB("8") "," BLOB(
                        "9") "]}",
                    &m, &pick),
              0);
    CHECK_INT(m.layers_n, 2);
    CHECK_INT(m.config.size, 7);
    CHECK_INT(m.layers[1].size, 9);
    CHECK_STR(m.layers[0].digest, "sha256:" HEX64);
}

static void an_index_gives_what_is_for_this_machine(void)
{
    char text[1024];
    struct manifest m;
    struct manifest_blob pick;

    (void)snprintf(text, sizeof(text),
                   "{\"schemaVersion\":2,\"manifests\":["
                   "{\"digest\":\"sha256:" HEX64 "\",\"size\":1,\"platform\":{\"os\":\"linux\","
                   "\"architecture\":\"s390x\"}},"
                   "{\"digest\":\"sha256:" HEX64 "\",\"size\":2,\"platform\":{\"os\":\"linux\","
                   "\"architecture\":\"%s\"}}]}",
                   manifest_architecture());
    CHECK_INT(parse(text, &m, &pick), 1);
    CHECK_INT(pick.size, 2);
    CHECK_INT(parse("{\"manifests\":[{\"digest\":\"sha256:" HEX64
                    "\",\"size\":1,\"platform\":{\"os\":\"linux\",\"architecture\":\"s390x\"}}]}",
                    &m, &pick),
              -ENOENT);
}

static void manifests_that_make_no_sense_are_refused(void)
{
    static const char *const texts[] = {
        "",
        "<html></html>",
        "[]",
        "{}",
        "{\"schemaVersion\":1}",
        "{\"schemaVersion\":2}",
        "{\"schemaVersion\":2,\"config\":" BLOB("1") "}",
        "{\"schemaVersion\":2,\"config\":" BLOB("-1") ",\"layers\":[]}",
        "{\"schemaVersion\":2,\"config\":" BLOB("1.5") ",\"layers\":[]}",
        "{\"schemaVersion\":2,\"config\":" BLOB("99999999") ",\"layers\":[]}",
        "{\"schemaVersion\":2,\"config\":" BLOB("1") ",\"layers\":[" BLOB("99999999999999") "]}",
        "{\"schemaVersion\":2,\"config\":" BLOB("1") ",\"layers\":[{\"digest\":\"sha256:../x\"}]}",
        "{\"schemaVersion\":2,\"config\":" BLOB("1") ",\"layers\":[7]}",
    };
    struct manifest m;
    struct manifest_blob pick;

    for (size_t i = 0; i < countof(texts); i++) {
        CHECK_THAT(parse(texts[i], &m, &pick) < 0, "'%s' was taken", texts[i]);
    }
}

static void a_configuration_is_read(void)
{
    static char ids[IMAGE_LAYERS_MAX][REFERENCE_DIGEST_BYTES];
    struct manifest m = {.layers_n = 1};
    json_t *config = NULL;
    struct err err;

    CHECK_INT(manifest_config_parse(
                  STR("{\"config\":{\"Env\":[\"A=b=c\",\"bad\",7],\"User\":\"u\",\"Cmd\":[\"sh\"]},"
                      "\"rootfs\":{\"diff_ids\":[\"sha256:" HEX64 "\"]}}"),
                  &m, &config, ids, &err),
              0);
    CHECK_STR(json_string_value(json_object_get(json_object_get(config, "env"), "A")), "b=c");
    CHECK_INT(json_object_size(json_object_get(config, "env")), 1);
    CHECK_STR(json_string_value(json_object_get(config, "user")), "u");
    CHECK_STR(json_string_value(json_object_get(config, "workdir")), "");
    CHECK_INT(json_array_size(json_object_get(config, "cmd")), 1);
    json_decref(config);
    m.layers_n = 2;
    CHECK_INT(manifest_config_parse(STR("{\"rootfs\":{\"diff_ids\":[]}}"), &m, &config, ids, &err),
              -EINVAL);
}

/* ---- credentials ---- */

static int credentials(const char *text, struct image_credentials *out)
{
    static json_t *json;
    struct err err;

    json_decref(json);
    json = json_loads(text, JSON_DECODE_ANY, NULL);
    return image_credentials_parse(json, out, &err);
}

static void credentials_are_those_of_the_sdk(void)
{
    struct image_credentials c;

    CHECK_INT(credentials("null", &c), 0);
    CHECK(!c.username && !c.aws_region);
    CHECK_INT(credentials("{\"type\":\"registry\",\"username\":\"u\",\"password\":\"p\"}", &c), 0);
    CHECK_STR(c.username, "u");
    CHECK_INT(credentials("{\"type\":\"aws\",\"awsAccessKeyId\":\"k\",\"awsSecretAccessKey\":\"s\","
                          "\"awsRegion\":\"eu-west-1\"}",
                          &c),
              0);
    CHECK_STR(c.aws_region, "eu-west-1");
    CHECK_INT(credentials("{\"type\":\"gcp\",\"serviceAccountJson\":\"{}\"}", &c), 0);
    CHECK_STR(c.gcp_service_account_json, "{}");
}

static void credentials_that_lack_something_are_refused(void)
{
    static const char *const texts[] = {
        "{}",
        "7",
        "{\"type\":\"registry\",\"username\":\"u\"}",
        "{\"type\":\"registry\",\"username\":1,\"password\":\"p\"}",
        "{\"type\":\"ldap\"}",
        ("{\"type\":\"aws\",\"awsAccessKeyId\":\"k\",\"awsSecretAccessKey\":\"s\","
         "\"awsRegion\":\"evil.example/\"}"),
        "{\"type\":\"gcp\"}",
    };
    struct image_credentials c;

    for (size_t i = 0; i < countof(texts); i++) {
        CHECK_THAT(credentials(texts[i], &c) == -EINVAL, "'%s' was taken", texts[i]);
    }
}

/* ---- a tar ---- */

static void tar_put(int fd, const char *name, char type, const char *link, const char *data)
{
    char block[512] = {0};

    (void)snprintf(block, 100, "%s", name);
    (void)snprintf(block + 124, 12, "%011o", (unsigned)(strlen(data) & 0777));
    block[156] = type;
    (void)snprintf(block + 157, 100, "%s", link);
    (void)!write(fd, block, sizeof(block));
    memset(block, 0, sizeof(block));
    memcpy(block, data, strlen(data));
    (void)!write(fd, block, strlen(data) ? sizeof(block) : 0);
}

static void a_file_is_found_in_a_tar(void)
{
    int fd = open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    struct tar_file found;
    struct err err;

    CHECK(fd >= 0);
    tar_put(fd, "a/", '5', "", "");
    tar_put(fd, "a/one", '0', "", "first");
    tar_put(fd, "./two", '0', "", "second");
    tar_put(fd, "b/link", '2', "../a/one", "");
    tar_put(fd, "loop", '2', "loop", "");
    CHECK_INT(tar_find(fd, "two", &found, &err), 0);
    CHECK_INT(found.length, 6);
    CHECK_INT(found.offset, 512 * 4);
    CHECK_INT(tar_find(fd, "b/link", &found, &err), 0);
    CHECK_INT(found.length, 5);
    CHECK_INT(tar_find(fd, "loop", &found, &err), -ENOENT);
    CHECK_INT(tar_find(fd, "three", &found, &err), -ENOENT);
    (void)close(fd);
}

/* ---- feeding an unpacker ---- */

struct talker {
    int fd;
    uint64_t told;
    char why[512];
};

static void on_fed(void *ctx, const struct feed_end *end)
{
    struct talker *talker = ctx;

    (void)snprintf(talker->why, sizeof(talker->why), "%s",
                   end->err ? end->err->msg : "all is well");
}

/* Every word renews its patience: so the unpacker says the next one. */
static void on_progress(void *ctx, uint64_t bytes, uint64_t entries)
{
    struct talker *talker = ctx;

    (void)bytes, (void)entries;
    talker->told++;
    (void)!write(talker->fd, "at 1 1\n", 7);
}

static void an_unpacker_that_speaks_for_ever_is_left(void)
{
    int pair[2];
    uv_loop_t loop;
    struct talker talker = {0};

    tcp_pair(pair);
    talker.fd = pair[1];
    CHECK_INT(uv_loop_init(&loop), 0);
    const struct feed_plan plan = {.socket_fd = pair[0],
                                   .file_fd = open("/dev/null", O_RDONLY | O_CLOEXEC),
                                   .length = -1,
                                   .limit_ms = 200,
                                   .options = "mode copy\n"};
    CHECK(feed_start(&loop, &plan, on_progress, on_fed, &talker) != NULL);
    on_progress(&talker, 0, 0);
    (void)uv_run(&loop, UV_RUN_DEFAULT); /* until nothing of it is left */
    CHECK(talker.told > 1);
    CHECK_STR(talker.why, "the unpacker took too long");
    CHECK_INT(uv_loop_close(&loop), 0);
    (void)close(pair[1]);
}

int main(void)
{
    static const struct check_test tests[] = {
        {"an unpacker that speaks for ever is left", an_unpacker_that_speaks_for_ever_is_left},
        {"names mean what Docker means", names_mean_what_docker_means},
        {"what names no image is refused", what_names_no_image_is_refused},
        {"paths of this machine are names too", paths_of_this_machine_are_names_too},
        {"the map takes the first pattern that fits", the_map_takes_the_first_pattern_that_fits},
        {"another version has no stand-in", another_version_has_no_stand_in},
        {"a map that cannot be read is refused", a_map_that_cannot_be_read_is_refused},
        {"challenges are read", challenges_are_read},
        {"challenges that make no sense are refused", challenges_that_make_no_sense_are_refused},
        {"manifests are read", manifests_are_read},
        {"an index gives what is for this machine", an_index_gives_what_is_for_this_machine},
        {"manifests that make no sense are refused", manifests_that_make_no_sense_are_refused},
        {"a configuration is read", a_configuration_is_read},
        {"credentials are those of the SDK", credentials_are_those_of_the_sdk},
        {"credentials that lack something are refused",
         credentials_that_lack_something_are_refused},
        {"a file is found in a tar", a_file_is_found_in_a_tar},
    };
    return check_run(tests, countof(tests));
}
