/* Every form is fed whole and then again at every possible cut: where a chunk ends must not show.
 */
#include "inside/agent/multipart.h"

#include <errno.h>

#include "check.h"
#include "lib/base/compiler.h"

static const char type[] = "multipart/form-data; boundary=XyZ";

/* What the parser said, as one text: "[name|filename]data;" per part. */
struct heard {
    char text[4096];
    size_t len;
    size_t parts_ended;
    size_t pieces; /* calls with data */
};

static int heard_add(struct heard *h, const void *data, size_t len)
{
    if (len > sizeof(h->text) - 1 - h->len) {
        return -ENOBUFS;
    }
    memcpy(h->text + h->len, data, len);
    h->len += len;
    h->text[h->len] = '\0';
    return 0;
}

static int on_begin(void *ctx, struct str name, struct str filename, struct err *err)
{
    char line[1024];
    int n = snprintf(line, sizeof(line), "[%.*s|%.*s]", (int)name.len, name.at ? name.at : "",
                     filename.at ? (int)filename.len : 4, filename.at ? filename.at : "none");

    (void)err;
    return heard_add(ctx, line, (size_t)n);
}

static int on_data(void *ctx, const void *data, size_t len, struct err *err)
{
    struct heard *h = ctx;

    (void)err;
    h->pieces++;
    return heard_add(ctx, data, len);
}

static int on_part_end(void *ctx, struct err *err)
{
    struct heard *h = ctx;

    (void)err;
    h->parts_ended++;
    return heard_add(h, ";", 1);
}

static const struct multipart_handler handler = {on_begin, on_data, on_part_end};

/* Feeds `body` in two pieces, cut at `cut`. */
static int parse(struct str body, size_t cut, struct heard *h, struct err *err)
{
    scoped(multipart_fini) struct multipart m = {0};
    int r;

    *h = (struct heard){0};
    *err = (struct err){0};
    r = multipart_init(&m, str_of(type), &handler, h, err);
    if (r == 0) {
        r = multipart_feed(&m, body.at, cut, err);
    }
    if (r == 0) {
        r = multipart_feed(&m, body.at + cut, body.len - cut, err);
    }
    return r == 0 ? multipart_finish(&m, err) : r;
}

#define FILE_PART(filename, data)                                                                  \
    "--XyZ\r\nContent-Disposition: form-data; name=\"file\"; filename=\"" filename "\"\r\n"        \
    "Content-Type: application/octet-stream\r\n\r\n" data "\r\n"

static void forms_are_read_at_any_cut(void)
{
    static const struct {
        struct str body;
        const char *heard;
    } cases[] = {
        {STR(FILE_PART("a.txt", "hello") "--XyZ--\r\n"), "[file|a.txt]hello;"},
        {STR(FILE_PART("/x/y z", "") "--XyZ--"), "[file|/x/y z];"},
        {STR(FILE_PART("1", "one") FILE_PART("2", "two") "--XyZ--\r\nepilogue"),
         "[file|1]one;[file|2]two;"},
        {STR("preamble\r\n" FILE_PART("a", "x") "--XyZ--\r\n"), "[file|a]x;"},
        /* What only looks like a delimiter is data. */
        {STR(FILE_PART("a", "\r\n--Xy\r\n--XyQ\r\r\n\r\n-") "--XyZ--\r\n"),
         "[file|a]\r\n--Xy\r\n--XyQ\r\r\n\r\n-;"},
        {STR("--XyZ \t\r\ncontent-disposition:form-data;name=file\r\n\r\nv\r\n--XyZ--\r\n"),
         "[file|none]v;"},
        {STR("--XyZ--\r\n"), ""},
    };

    for (size_t i = 0; i < countof(cases); i++) {
        for (size_t cut = 0; cut <= cases[i].body.len; cut++) {
            struct heard h;
            struct err err;
            CHECK_THAT(parse(cases[i].body, cut, &h, &err) == 0, "case %zu cut %zu: %s", i, cut,
                       err.msg);
            CHECK_STR(h.text, cases[i].heard);
        }
    }
}

/* Each piece becomes a write to the disk: random data has a CR in every 256 bytes. */
static void data_is_passed_on_in_large_pieces(void)
{
    static const struct str body =
        STR(FILE_PART("a", "one\rtwo\r\nthree\r\n--four\r\n--Xy\rfive") "--XyZ--\r\n");
    struct heard h;
    struct err err;

    CHECK_INT(parse(body, body.len, &h, &err), 0);
    CHECK_STR(h.text, "[file|a]one\rtwo\r\nthree\r\n--four\r\n--Xy\rfive;");
    CHECK_INT((int)h.pieces, 1);
}

/* ---- many parts ---- */

struct tally {
    struct buf bytes; /* of all parts, each followed by its number */
    unsigned parts;
};

static int tally_begin(void *ctx, struct str name, struct str filename, struct err *err)
{
    (void)ctx, (void)name, (void)filename, (void)err;
    return 0;
}

static int tally_data(void *ctx, const void *data, size_t len, struct err *err)
{
    struct tally *tally = ctx;

    (void)err;
    return buf_append(&tally->bytes, data, len);
}

static int tally_end(void *ctx, struct err *err)
{
    struct tally *tally = ctx;

    (void)err;
    return buf_printf(&tally->bytes, "<%u>", tally->parts++);
}

/* Appends data that begins the delimiter again and again, and never completes it. */
static int teasing_put(struct buf *out, const char *boundary, unsigned seed)
{
    int r = 0;

    for (unsigned i = 0; i < seed % 7 && r == 0; i++) {
        size_t len = (seed * 31 + i * 17) % strlen(boundary);
        r = buf_printf(out, "\r\n--%.*s%c\r", (int)len, boundary, 0);
        r = r < 0 ? r : buf_append(out, i % 2 ? "\r\n-" : "\n\0-", 3);
    }
    return r;
}

static void many_parts_are_read_in_tiny_pieces(void)
{
    static const struct multipart_handler counting = {tally_begin, tally_data, tally_end};
    static const char *const boundaries[] = {
        "x",          "--",
        "----",       "'()+_,-./:=?",
        "aaaaaaaaab", "a b",
        "\"",         "0123456789012345678901234567890123456789012345678901234567890123456789"};
    static const size_t steps[] = {1, 2, 3, 7, 64, 1000, 100000000};
    enum { PARTS = 500, BYTES_MAX = 4 * 1024 * 1024 };

    for (size_t b = 0; b < countof(boundaries); b++) {
        bool quote = boundaries[b][0] == '"';
        char header[256];
        scoped_buf(form, BYTES_MAX);
        scoped_buf(want, BYTES_MAX);
        (void)snprintf(header, sizeof(header), "multipart/form-data; boundary=\"%s%s\"",
                       quote ? "\\" : "", boundaries[b]);
        for (unsigned i = 0; i < PARTS; i++) {
            CHECK_INT(buf_printf(&form, "--%s\r\nContent-Disposition: form-data; name=f\r\n\r\n",
                                 boundaries[b]),
                      0);
            CHECK_INT(teasing_put(&form, boundaries[b], i), 0);
            CHECK_INT(buf_append(&form, "\r\n", 2), 0);
            CHECK_INT(teasing_put(&want, boundaries[b], i), 0);
            CHECK_INT(buf_printf(&want, "<%u>", i), 0);
        }
        CHECK_INT(buf_printf(&form, "--%s--\r\n", boundaries[b]), 0);
        for (size_t s = 0; s < countof(steps); s++) {
            scoped(multipart_fini) struct multipart m = {0};
            struct tally tally = {.bytes = {.max = BYTES_MAX}};
            struct str rest = buf_str(&form);
            struct err err = {0};
            CHECK_INT(multipart_init(&m, str_of(header), &counting, &tally, &err), 0);
            while (rest.len > 0) {
                size_t n = steps[s] < rest.len ? steps[s] : rest.len;
                CHECK_INT(multipart_feed(&m, rest.at, n, &err), 0);
                rest = str_skip(rest, n);
            }
            CHECK_INT(multipart_finish(&m, &err), 0);
            CHECK_THAT(str_eq(buf_str(&tally.bytes), buf_str(&want)), "boundary %zu, step %zu", b,
                       steps[s]);
            buf_fini(&tally.bytes);
        }
    }
}

static void broken_forms_are_refused_at_any_cut(void)
{
    static const struct str cases[] = {
        STR(""),
        STR("no delimiter"),
        STR(FILE_PART("a", "cut short")),
        STR(FILE_PART("a", "x") "--XyZ"),
        STR(FILE_PART("a", "x") "--XyZ-"),
        STR(FILE_PART("a", "x") "--XyZ-x\r\n"),
        STR(FILE_PART("a", "x") "--XyZQ\r\n"),
        STR("--XyZ\n\nbare line feeds\n--XyZ--\n"),
        STR("--XyZ\r\n\r\nno disposition\r\n--XyZ--\r\n"),
        STR("--XyZ\r\nContent-Disposition: form-data\r\n\r\nno name\r\n--XyZ--\r\n"),
        STR("--XyZ\r\nContent-Disposition: form-data; name=\"a\r\n\r\nquote\r\n--XyZ--\r\n"),
        STR("--XyZ\r\nno colon\r\n\r\nx\r\n--XyZ--\r\n"),
        STR("--XyZ\r\nContent-Disposition: form-data; name=a; name=b\r\n\r\nx\r\n--XyZ--\r\n"),
        STR("--XyZ\r\nContent-Disposition: form-data; name=a\r\n"
            "Content-Transfer-Encoding: base64\r\n\r\nx\r\n--XyZ--\r\n"),
        STR("--XyZ\r\nContent-Disposition: form-data; name=\"\0\"\r\n\r\nx\r\n--XyZ--\r\n"),
    };

    for (size_t i = 0; i < countof(cases); i++) {
        for (size_t cut = 0; cut <= cases[i].len; cut++) {
            struct heard h;
            struct err err;
            CHECK_THAT(parse(cases[i], cut, &h, &err) == -EINVAL, "case %zu cut %zu", i, cut);
            CHECK(err.msg[0] != '\0');
        }
    }
}

static void a_header_has_an_end(void)
{
    static char body[MULTIPART_HEADER_BYTES_MAX + 64];
    struct heard h;
    struct err err;

    memset(body, 'a', sizeof(body));
    memcpy(body, "--XyZ\r\n", 7);
    CHECK_INT(parse((struct str){body, sizeof(body)}, 0, &h, &err), -EINVAL);
}

static void boundaries_are_checked(void)
{
    static const char *const bad[] = {
        "multipart/form-data",
        "multipart/form-data; boundary=",
        "multipart/form-data; boundary=\"\"",
        "text/plain; boundary=x",
        ("multipart/form-data; boundary=01234567890123456789012345678901234567890123456789"
         "012345678901234567890"),
        "multipart/form-data; boundary=\"ends in a space \"",
    };
    struct multipart m;
    struct err err;

    for (size_t i = 0; i < countof(bad); i++) {
        CHECK_INT(multipart_init(&m, str_of(bad[i]), &handler, NULL, &err), -EINVAL);
    }
    CHECK_INT(multipart_init(&m, STR("Multipart/Mixed; charset=x; Boundary=\"a b\""), &handler,
                             NULL, &err),
              0);
    CHECK_INT((long long)m.delimiter_len, 7);
    multipart_fini(&m);
}

static void parameters_are_taken_apart(void)
{
    static const struct {
        const char *header;
        int found;
        const char *value;
    } cases[] = {
        {"form-data; name=\"file\"; filename=\"a\"", 1, "a"},
        {"form-data; filename=\"a \\\"b\\\" c\"", 1, "a \"b\" c"},
        {"form-data; filename=\"C:\\dir\\new\"", 1, "C:\\dir\\new"},
        {"form-data; filename=\"caf\xc3\xa9\"", 1, "caf\xc3\xa9"},
        {"form-data; filename=\"plain\"; filename*=UTF-8''caf%C3%A9", 1, "caf\xc3\xa9"},
        {"form-data; FileName=bare;", 1, "bare"},
        {"form-data; filename=\"\"", 1, ""},
        {"form-data; name=x", 0, ""},
        {"form-data", 0, ""},
        {"form-data; filename", -EINVAL, ""},
        {"form-data; filename=", -EINVAL, ""},
        {"form-data; filename=\"open", -EINVAL, ""},
        {"form-data; filename*=latin1''x", -EINVAL, ""},
        {"form-data; filename*=UTF-8''%zz", -EINVAL, ""},
    };

    for (size_t i = 0; i < countof(cases); i++) {
        scoped_buf(out, 1024);
        CHECK_THAT(header_param(str_of(cases[i].header), "filename", &out) == cases[i].found,
                   "case %zu", i);
        if (cases[i].found == 1) {
            CHECK(str_eq(buf_str(&out), str_of(cases[i].value)));
        }
    }
}

int main(void)
{
    static const struct check_test tests[] = {
        {"forms are read at any cut", forms_are_read_at_any_cut},
        {"data is passed on in large pieces", data_is_passed_on_in_large_pieces},
        {"many parts are read in tiny pieces", many_parts_are_read_in_tiny_pieces},
        {"broken forms are refused at any cut", broken_forms_are_refused_at_any_cut},
        {"a header has an end", a_header_has_an_end},
        {"boundaries are checked", boundaries_are_checked},
        {"parameters are taken apart", parameters_are_taken_apart},
    };
    return check_run(tests, countof(tests));
}
