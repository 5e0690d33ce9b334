/* Secrets: what is taken, how it lies on the disk, and that it comes back. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uv.h>

#include "check.h"
#include "lib/base/encode.h"
#include "lib/base/fd.h"
#include "serve/secrets/identity.h"
#include "serve/secrets/key.h"
#include "serve/secrets/seal.h"
#include "serve/secrets/secret.h"

#define TEAM "11111111-1111-4111-8111-111111111111"
#define OTHER "22222222-2222-4222-8222-222222222222"

static const uint8_t key[SECRET_KEY_BYTES] = "a key of thirty-two bytes, or so";

/* ---- sealing ---- */

static void a_sealed_value_opens_for_its_owner_alone(void)
{
    scoped_buf(sealed, SEAL_TEXT_BYTES_MAX);
    scoped_buf(out, SEAL_VALUE_BYTES_MAX);
    uint8_t other[SECRET_KEY_BYTES] = {1};

    CHECK_INT(seal(key, "one", STR("the value"), &sealed), 0);
    CHECK(!memmem(buf_at(&sealed), buf_len(&sealed), "value", 5));
    CHECK_INT(unseal(key, "one", buf_at(&sealed), &out), 0);
    CHECK(str_eq(buf_str(&out), STR("the value")));
    CHECK_INT(unseal(key, "two", buf_at(&sealed), &out), -EBADMSG);
    CHECK_INT(unseal(other, "one", buf_at(&sealed), &out), -EBADMSG);
    CHECK_INT(unseal(key, "one", "", &out), -EBADMSG);
    CHECK_INT(unseal(key, "one", "no base64!", &out), -EBADMSG);
    buf_at(&sealed)[20] = (char)(buf_at(&sealed)[20] == 'A' ? 'B' : 'A');
    CHECK_INT(unseal(key, "one", buf_at(&sealed), &out), -EBADMSG);
    CHECK(str_eq(buf_str(&out), STR("the value"))); /* a failure adds nothing */
}

static void two_seals_of_one_value_differ(void)
{
    scoped_buf(a, SEAL_TEXT_BYTES_MAX);
    scoped_buf(b, SEAL_TEXT_BYTES_MAX);

    CHECK_INT(seal(key, "one", STR("the value"), &a), 0);
    CHECK_INT(seal(key, "one", STR("the value"), &b), 0);
    CHECK(!str_eq(buf_str(&a), buf_str(&b)));
}

/* ---- the key's file ---- */

static void the_key_s_file_is_made_once_and_must_be_ours_alone(void)
{
    char path[64] = "/tmp/test-secret-XXXXXX", file[96];
    uint8_t first[SECRET_KEY_BYTES], again[SECRET_KEY_BYTES];
    struct stat st;
    struct err err;

    CHECK(mkdtemp(path));
    (void)snprintf(file, sizeof(file), "%s/key", path);
    CHECK_INT(key_load(file, first, &err), 0);
    CHECK_INT(key_load(file, again, &err), 0);
    CHECK(memcmp(first, again, sizeof(first)) == 0);
    CHECK_INT(stat(file, &st), 0);
    CHECK_INT(st.st_mode & 0777, 0600);
    CHECK_INT(chmod(file, 0640), 0);
    CHECK_INT(key_load(file, again, &err), -EPERM);
    CHECK_INT(chmod(file, 0600), 0);
    CHECK_INT(truncate(file, 31), 0);
    CHECK_INT(key_load(file, again, &err), -EINVAL);
    (void)unlink(file);
    (void)rmdir(path);
}

/* ---- what may be given ---- */

static void names_are_checked_and_lowered(void)
{
    static const char *const bad[] = {"", "a b", "a.b", "a/b", "a}", "sec_x", "SEC_x", "\xc3\xa4"};
    char name[SECRET_NAME_BYTES_MAX + 1], longest[SECRET_NAME_BYTES_MAX + 2];
    struct err err;

    CHECK_INT(secret_name_check("My-Key_1", name, &err), 0);
    CHECK_STR(name, "my-key_1");
    for (size_t i = 0; i < countof(bad); i++) {
        CHECK_THAT(secret_name_check(bad[i], name, &err) == -EINVAL, "'%s' was taken", bad[i]);
    }
    memset(longest, 'a', sizeof(longest));
    longest[SECRET_NAME_BYTES_MAX + 1] = '\0';
    CHECK_INT(secret_name_check(longest, name, &err), -EINVAL);
    longest[SECRET_NAME_BYTES_MAX] = '\0';
    CHECK_INT(secret_name_check(longest, name, &err), 0);
}

static void values_fit_a_header(void)
{
    static const char *const bad[] = {"", "a\r\nx: y", "a\nb", "a\x01", "a\x7f"};
    struct err err;

    CHECK_INT(secret_value_check("Basic dXNlcjpwYXNz \xc3\xa4\t!", &err), 0);
    for (size_t i = 0; i < countof(bad); i++) {
        CHECK_INT(secret_value_check(bad[i], &err), -EINVAL);
    }
}

static void metadata_has_its_limits(void)
{
    json_t *many = json_object(), *good = json_pack("{s:s}", "a", "b"),
           *number = json_pack("{s:i}", "a", 1);
    char name[16];
    struct err err;

    for (int i = 0; i <= SECRET_METADATA_MAX; i++) {
        (void)snprintf(name, sizeof(name), "n%d", i);
        (void)json_object_set_new(many, name, json_string("x"));
    }
    CHECK_INT(secret_metadata_check(good, &err), 0);
    CHECK_INT(secret_metadata_check(number, &err), -EINVAL);
    CHECK_INT(secret_metadata_check(many, &err), -EINVAL);
    json_decref(many);
    json_decref(good);
    json_decref(number);
}

/* ---- the table ---- */

struct fixture {
    uv_loop_t loop;
    char path[64], file[96];
    struct store *store;
    struct secrets *secrets;
    bool done;
    int error;
    char id[SECRET_ID_BYTES];
    int64_t version;
};

static void on_done(void *ctx, int error, const struct err *err)
{
    struct fixture *f = ctx;

    (void)err;
    f->done = true;
    f->error = error;
}

static void on_saved(void *ctx, const struct secret *secret, int error, const struct err *err)
{
    struct fixture *f = ctx;

    on_done(ctx, error, err);
    if (secret) {
        (void)snprintf(f->id, sizeof(f->id), "%s", secret->id);
        f->version = secret->version;
    }
}

static int wait_done(struct fixture *f)
{
    while (!f->done) {
        (void)uv_run(&f->loop, UV_RUN_ONCE);
    }
    f->done = false;
    return f->error;
}

static bool fixture_open(struct fixture *f)
{
    struct err err;

    (void)uv_loop_init(&f->loop);
    return store_open(&f->loop, f->file, &f->store, &err) == 0 &&
           secrets_new(f->store, key, &f->secrets, &err) == 0;
}

static void fixture_close(struct fixture *f)
{
    store_close(f->store);
    secrets_free(f->secrets);
    (void)uv_run(&f->loop, UV_RUN_DEFAULT);
    (void)uv_loop_close(&f->loop);
}

static bool fixture_start(struct fixture *f)
{
    *f = (struct fixture){.path = "/tmp/test-secret-XXXXXX"};
    if (!mkdtemp(f->path)) {
        return false;
    }
    (void)snprintf(f->file, sizeof(f->file), "%s/db", f->path);
    if (!fixture_open(f)) {
        return false;
    }
    for (int i = 0; i < 2; i++) {
        const struct team_row row = {.id = i ? OTHER : TEAM, .name = i ? "b" : "a"};
        store_team_save(f->store, &row, on_done, f);
        if (wait_done(f) < 0) {
            return false;
        }
    }
    return true;
}

static void fixture_end(struct fixture *f)
{
    fixture_close(f);
    for (int i = 0; i < 3; i++) {
        static const char *const endings[] = {"", "-wal", "-shm"};
        char name[112];
        (void)snprintf(name, sizeof(name), "%s%s", f->file, endings[i]);
        (void)unlink(name);
    }
    (void)rmdir(f->path);
}

/* The value as text, or the sentence of the failure. */
static const char *value_of(struct fixture *f, const char *team, const char *name)
{
    static char text[256];
    struct err err;
    scoped_buf(out, sizeof(text) - 1);

    int r = secret_value(f->secrets, team, str_of(name), &out, &err);
    (void)snprintf(text, sizeof(text), "%.*s", r < 0 ? 252 : (int)buf_len(&out),
                   r < 0 ? err.msg : buf_at(&out));
    return text;
}

/* What others seal is opened after a restart, for whom it was sealed and nobody else. */
static void what_others_keep_is_sealed_for_its_owner(void)
{
    struct fixture f;
    struct buf sealed, value;

    CHECK(fixture_start(&f));
    buf_init(&sealed, SEAL_TEXT_BYTES_MAX);
    buf_init(&value, SEAL_VALUE_BYTES_MAX);
    int made = secrets_seal(f.secrets, "mine", STR("the value"), &sealed);
    fixture_close(&f);
    bool open = fixture_open(&f);
    int stranger = secrets_unseal(f.secrets, "theirs", buf_at(&sealed), &value);
    int owner = secrets_unseal(f.secrets, "mine", buf_at(&sealed), &value);
    bool same = str_eq(buf_str(&value), STR("the value"));
    buf_fini(&sealed);
    buf_fini(&value);
    fixture_end(&f);
    CHECK(open && same);
    CHECK_INT(made, 0);
    CHECK_INT(stranger, -EBADMSG);
    CHECK_INT(owner, 0);
}

static void a_secret_lives_changes_and_ends(void)
{
    struct fixture f;

    CHECK(fixture_start(&f));
    secret_create(f.secrets, TEAM, "name", "first", NULL, on_saved, &f);
    CHECK_INT(wait_done(&f), 0);
    CHECK(strncmp(f.id, "sec_", 4) == 0);
    CHECK_STR(value_of(&f, TEAM, "NAME"), "first");
    CHECK_STR(value_of(&f, TEAM, f.id), "first");
    CHECK_STR(value_of(&f, OTHER, "name"), "there is no secret \"name\"");

    secret_create(f.secrets, TEAM, "name", "x", NULL, on_saved, &f);
    CHECK_INT(wait_done(&f), -EEXIST);
    secret_create(f.secrets, OTHER, "name", "theirs", NULL, on_saved, &f);
    CHECK_INT(wait_done(&f), 0);
    for (int i = 2; i < 15; i++) {
        secret_update(f.secrets, secrets_find(f.secrets, TEAM, "name"), "later", NULL, on_saved,
                      &f);
        CHECK_INT(wait_done(&f), 0);
        CHECK_INT(f.version, i);
    }

    /* Another daemon on the same store. */
    fixture_close(&f);
    CHECK(fixture_open(&f));
    CHECK_STR(value_of(&f, TEAM, "name"), "later");
    CHECK_STR(value_of(&f, OTHER, "name"), "theirs");
    CHECK_INT(secrets_find(f.secrets, TEAM, "name")->version, 14);
    secret_delete(f.secrets, secrets_find(f.secrets, TEAM, "name"), on_done, &f);
    CHECK(!secrets_find(f.secrets, TEAM, "name"));
    CHECK_INT(wait_done(&f), 0);
    fixture_close(&f);
    CHECK(fixture_open(&f));
    CHECK(!secrets_find(f.secrets, TEAM, "name"));
    CHECK_STR(value_of(&f, OTHER, "name"), "theirs");
    fixture_end(&f);
}

/* ---- identity ---- */

static void a_token_has_three_parts_and_its_claims(void)
{
    struct identity *identity = identity_new(key);
    const struct identity_subject subject = {"isandbox", TEAM, "template", "sts.example.com"};
    scoped_buf(token, IDENTITY_TOKEN_BYTES_MAX);
    scoped_buf(claims, IDENTITY_TOKEN_BYTES_MAX);
    struct str rest, part;

    identity_name(identity, "https://api.example.com:8443");
    CHECK_INT(identity_token(identity, &subject, &token), 0);
    rest = buf_str(&token);
    CHECK(str_split(&rest, '.', &part) && str_split(&rest, '.', &part));
    CHECK_INT(base64_decode(&claims, part), 0);
    json_t *said = json_loadb(buf_at(&claims), buf_len(&claims), 0, NULL);
    CHECK_STR(json_string_value(json_object_get(said, "sub")),
              "spiffe://api.example.com/team/" TEAM "/sandbox/isandbox");
    CHECK_STR(json_string_value(json_object_get(said, "aud")), "sts.example.com");
    CHECK_INT(json_integer_value(json_object_get(said, "exp")) -
                  json_integer_value(json_object_get(said, "iat")),
              IDENTITY_TOKEN_S);
    json_decref(said);
    CHECK_INT(rest.len, 86); /* 64 bytes */
    identity_free(identity);
}

static void the_published_key_is_the_same_after_a_restart(void)
{
    struct identity *one = identity_new(key), *two = identity_new(key);
    char *a = identity_keys(one), *b = identity_keys(two);

    CHECK_STR(a, b);
    free(a);
    free(b);
    identity_free(one);
    identity_free(two);
}

int main(void)
{
    static const struct check_test tests[] = {
        {"a sealed value opens for its owner alone", a_sealed_value_opens_for_its_owner_alone},
        {"two seals of one value differ", two_seals_of_one_value_differ},
        {"the key s file is made once and must be ours alone",
         the_key_s_file_is_made_once_and_must_be_ours_alone},
        {"names are checked and lowered", names_are_checked_and_lowered},
        {"values fit a header", values_fit_a_header},
        {"metadata has its limits", metadata_has_its_limits},
        {"what others keep is sealed for its owner", what_others_keep_is_sealed_for_its_owner},
        {"a secret lives changes and ends", a_secret_lives_changes_and_ends},
        {"a token has three parts and its claims", a_token_has_three_parts_and_its_claims},
        {"the published key is the same after a restart",
         the_published_key_is_the_same_after_a_restart},
    };
    return check_run(tests, countof(tests));
}
