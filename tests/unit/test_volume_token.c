/* What lets a client at a volume's content, and what does not. */
#include <errno.h>
#include <string.h>

#include "check.h"
#include "lib/base/compiler.h"
#include "lib/base/encode.h"
#include "serve/volume/volume.h"

enum { NOW_S = 1800000000 };

static const struct volume volume = {
    .id = "7a3f0f2e-0000-4000-8000-000000000001",
    .team_id = "7a3f0f2e-0000-4000-8000-000000000002",
    .name = "v",
    .secret = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f",
};

static void its_own_token_opens_it_until_it_expires(void)
{
    char token[VOLUME_TOKEN_BYTES_MAX];
    struct err err;

    volume_token(&volume, NOW_S, token);
    CHECK_INT(volume_token_check(&volume, str_of(token), NOW_S, &err), 0);
    CHECK_INT(volume_token_check(&volume, str_of(token), NOW_S + VOLUME_TOKEN_S - 1, &err), 0);
    CHECK_INT(volume_token_check(&volume, str_of(token), NOW_S + VOLUME_TOKEN_S, &err), -EACCES);
    CHECK_STR(err.msg, "the volume token has expired");
}

static void another_volumes_token_does_not(void)
{
    char token[VOLUME_TOKEN_BYTES_MAX];
    struct volume other = volume;
    struct err err;

    other.secret[0] = 'f';
    volume_token(&other, NOW_S, token);
    CHECK_INT(volume_token_check(&volume, str_of(token), NOW_S, &err), -EACCES);
}

static void no_changed_byte_goes_unnoticed(void)
{
    char token[VOLUME_TOKEN_BYTES_MAX];
    struct err err;

    volume_token(&volume, NOW_S, token);
    for (size_t i = 0; i < strlen(token); i++) {
        char kept = token[i];
        token[i] = kept == 'A' ? 'B' : 'A';
        CHECK_INT(volume_token_check(&volume, str_of(token), NOW_S, &err), -EACCES);
        token[i] = kept;
    }
    for (size_t len = 0; len < strlen(token); len++) {
        CHECK_INT(volume_token_check(&volume, (struct str){token, len}, NOW_S, &err), -EACCES);
    }
}

static void what_is_no_token_is_refused(void)
{
    static const char *const bad[] = {"", ".", "..", "...", "a.b.c", "e30.e30.", "null"};
    struct err err;

    for (size_t i = 0; i < countof(bad); i++) {
        CHECK_INT(volume_token_check(&volume, str_of(bad[i]), NOW_S, &err), -EACCES);
    }
}

static void names_are_of_letters_digits_and_two_signs(void)
{
    CHECK(volume_name_ok("a") && volume_name_ok("A-b_9") && volume_name_ok("-"));
    CHECK(!volume_name_ok("") && !volume_name_ok("a b") && !volume_name_ok("a/b"));
    CHECK(!volume_name_ok("..") && !volume_name_ok("\xc3\xa4"));
}

int main(void)
{
    static const struct check_test tests[] = {
        {"its own token opens it until it expires", its_own_token_opens_it_until_it_expires},
        {"another volume's token does not", another_volumes_token_does_not},
        {"no changed byte goes unnoticed", no_changed_byte_goes_unnoticed},
        {"what is no token is refused", what_is_no_token_is_refused},
        {"names are of letters, digits and two signs", names_are_of_letters_digits_and_two_signs},
    };
    return check_run(tests, countof(tests));
}
