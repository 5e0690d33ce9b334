#include "inside/agent/multipart.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>

#include "lib/base/encode.h"

/* Order of a body: PREAMBLE, then per part AFTER_DELIMITER .. DATA, then EPILOGUE. */
enum state {
    PREAMBLE, /* dropped; the body's start counts as the CRLF before a delimiter */
    AFTER_DELIMITER,
    AFTER_DASH,
    PADDING,
    DELIMITER_LF,
    HEADER,
    HEADER_LF,
    DATA,
    EPILOGUE, /* dropped */
};

enum {
    PARAM_NAME_MAX = 32,
};

static bool is_token(char c)
{
    return c > ' ' && c < 0x7f && !strchr("()<>@,;:\\\"/[]?=", c);
}

/* Takes a quoted string off *rest. A backslash escapes only what would need it: file names of
 * Windows clients come with bare backslashes. */
static int quoted_take(struct str *rest, struct buf *out)
{
    struct str s = str_skip(*rest, 1);

    while (s.len && s.at[0] != '"') {
        if (s.at[0] == '\\' && s.len > 1 && !is_token(s.at[1]) && s.at[1] > ' ') {
            s = str_skip(s, 1);
        }
        if (buf_append(out, s.at, 1) < 0) {
            return -ENOBUFS;
        }
        s = str_skip(s, 1);
    }
    if (s.len == 0) {
        return -EINVAL;
    }
    *rest = str_skip(s, 1);
    return 0;
}

static struct str token_take(struct str *rest)
{
    size_t n = 0;

    while (n < rest->len && is_token(rest->at[n])) {
        n++;
    }
    struct str token = {rest->at, n};
    *rest = str_skip(*rest, n);
    return token;
}

/* Takes "; name=value" off *rest. 1 taken, 0 the header has ended. */
static int param_take(struct str *rest, struct str *name, struct buf *value)
{
    *rest = str_trim(*rest);
    if (rest->len == 0) {
        return 0;
    }
    if (rest->at[0] != ';') {
        return -EINVAL;
    }
    *rest = str_trim(str_skip(*rest, 1));
    if (rest->len == 0) {
        return 0; /* a trailing semicolon */
    }
    *name = token_take(rest);
    if (name->len == 0 || rest->len == 0 || rest->at[0] != '=') {
        return -EINVAL;
    }
    *rest = str_skip(*rest, 1);
    if (rest->len && rest->at[0] == '"') {
        int r = quoted_take(rest, value);
        return r < 0 ? r : 1;
    }
    struct str token = token_take(rest);
    return token.len == 0 ? -EINVAL : buf_append(value, token.at, token.len) < 0 ? -ENOBUFS : 1;
}

/* UTF-8'language'percent-encoded */
static int extended_decode(struct str text, struct buf *out)
{
    struct str charset, language;

    if (!str_split(&text, '\'', &charset) || !str_split(&text, '\'', &language) || !text.at ||
        !str_ieq(charset, STR("utf-8"))) {
        return -EINVAL;
    }
    buf_clear(out);
    return percent_decode(out, text, false);
}

int header_param(struct str header, const char *name, struct buf *out)
{
    struct str rest = str_skip(header, str_find(header, ';'));
    char extended[PARAM_NAME_MAX];
    bool found = false;
    scoped_buf(value, out->max);
    struct str got;
    int r;

    (void)snprintf(extended, sizeof(extended), "%s*", name);
    while ((r = param_take(&rest, &got, &value)) > 0) {
        if (str_ieq(got, str_of(extended))) {
            r = extended_decode(buf_str(&value), out);
            return r < 0 ? r : 1;
        }
        if (str_ieq(got, str_of(name))) {
            if (found) {
                return -EINVAL; /* two of them: which one is meant cannot be known */
            }
            found = true;
            r = buf_append(out, buf_at(&value), buf_len(&value));
            if (r < 0) {
                return r;
            }
        }
        buf_clear(&value);
    }
    return r < 0 ? r : found;
}

static bool boundary_valid(struct str boundary)
{
    if (boundary.len == 0 || boundary.len > MULTIPART_BOUNDARY_MAX) {
        return false;
    }
    for (size_t i = 0; i < boundary.len; i++) {
        if (boundary.at[i] < ' ' || boundary.at[i] > '~') {
            return false;
        }
    }
    return boundary.at[boundary.len - 1] != ' ';
}

int multipart_init(struct multipart *m, struct str content_type,
                   const struct multipart_handler *handler, void *ctx, struct err *err)
{
    struct str prefix = STR("multipart/");
    scoped_buf(boundary, MULTIPART_HEADER_BYTES_MAX);

    if (content_type.len < prefix.len ||
        !str_ieq((struct str){content_type.at, prefix.len}, prefix)) {
        return err_set(err, EINVAL, "the content type is not multipart");
    }
    if (header_param(content_type, "boundary", &boundary) != 1 ||
        !boundary_valid(buf_str(&boundary))) {
        return err_set(err, EINVAL, "the multipart content type has no valid boundary");
    }
    *m = (struct multipart){.handler = handler, .ctx = ctx, .state = PREAMBLE, .matched = 2};
    memcpy(m->delimiter, "\r\n--", 4);
    memcpy(m->delimiter + 4, buf_at(&boundary), buf_len(&boundary));
    m->delimiter_len = 4 + buf_len(&boundary);
    buf_init(&m->header, MULTIPART_HEADER_BYTES_MAX);
    return 0;
}

void multipart_fini(struct multipart *m)
{
    buf_fini(&m->header);
}

static int emit(struct multipart *m, const char *data, size_t len, struct err *err)
{
    if (len == 0 || m->state == PREAMBLE) {
        return 0;
    }
    return m->handler->part_data(m->ctx, data, len, err);
}

/* The delimiter is complete: the part before it has ended. */
static int delimiter_seen(struct multipart *m, struct err *err)
{
    int r = m->state == DATA ? m->handler->part_end(m->ctx, err) : 0;

    m->matched = 0;
    m->state = AFTER_DELIMITER;
    return r;
}

/* Returns how many bytes of `in` are surely data: those before the delimiter, or before a beginning
 * of it at the very end of `in`. CR stands in the delimiter only as its first byte, so only the
 * last CR can begin one that is not complete yet. */
static size_t data_len(const struct multipart *m, struct str in)
{
    const char *whole = memmem(in.at, in.len, m->delimiter, m->delimiter_len);

    if (whole) {
        return (size_t)(whole - in.at);
    }
    size_t tail = in.len < m->delimiter_len ? in.len : m->delimiter_len - 1;
    const char *cr = memrchr(in.at + in.len - tail, '\r', tail);
    size_t rest = cr ? (size_t)(in.at + in.len - cr) : 0;
    return rest > 0 && memcmp(cr, m->delimiter, rest) == 0 ? in.len - rest : in.len;
}

/* Takes data (or the preamble) up to the delimiter. A match that was begun and breaks can start
 * anew at the byte that broke it, and nowhere before. */
static int data_take(struct multipart *m, struct str *in, struct err *err)
{
    int r = 0;

    if (m->matched == 0) {
        size_t plain = data_len(m, *in);
        r = emit(m, in->at, plain, err);
        *in = str_skip(*in, plain);
    }
    while (r == 0 && in->len && m->matched < m->delimiter_len &&
           in->at[0] == m->delimiter[m->matched]) {
        m->matched++;
        *in = str_skip(*in, 1);
    }
    if (r < 0) {
        return r;
    }
    if (m->matched == m->delimiter_len) {
        return delimiter_seen(m, err);
    }
    if (in->len && m->matched > 0) {
        size_t held = m->matched;
        m->matched = 0;
        return emit(m, m->delimiter, held, err);
    }
    return 0;
}

/* Only two lines matter: what the part is, and an encoding that would change its data. */
static int header_line(struct str line, struct str *disposition, struct err *err)
{
    size_t colon = str_find(line, ':');
    struct str name = {line.at, colon};
    struct str value = str_trim(str_skip(line, colon + 1));

    if (colon == line.len || colon == 0) {
        return err_set(err, EINVAL, "a line of a part's header is not 'name: value'");
    }
    if (str_ieq(name, STR("content-disposition"))) {
        *disposition = value;
    } else if (str_ieq(name, STR("content-transfer-encoding")) && !str_ieq(value, STR("binary")) &&
               !str_ieq(value, STR("8bit")) && !str_ieq(value, STR("7bit"))) {
        return err_set(err, EINVAL, "a part has the content transfer encoding '%.*s'; send binary",
                       (int)value.len, value.at);
    }
    return 0;
}

static int header_parse(struct multipart *m, struct err *err)
{
    struct str rest = buf_str(&m->header), disposition = {0}, line;
    scoped_buf(name, MULTIPART_HEADER_BYTES_MAX);
    scoped_buf(filename, MULTIPART_HEADER_BYTES_MAX);
    int r = 0;

    while (r == 0 && rest.len && str_split(&rest, '\n', &line)) {
        r = header_line(line, &disposition, err);
    }
    if (r < 0) {
        return r;
    }
    if (!disposition.at || header_param(disposition, "name", &name) != 1) {
        return err_set(err, EINVAL, "a part has no Content-Disposition with a name");
    }
    r = header_param(disposition, "filename", &filename);
    if (r < 0) {
        return err_set(err, EINVAL, "a part has a malformed file name");
    }
    struct str file = r == 0 ? (struct str){NULL, 0} : buf_str(&filename);
    if (r == 1 && !file.at) {
        file = STR(""); /* named, and empty: not the same as not named */
    }
    return m->handler->part_begin(m->ctx, buf_str(&name), file, err);
}

static int header_too_long(struct err *err)
{
    return err_set(err, EINVAL, "a part's header is over %d bytes", MULTIPART_HEADER_BYTES_MAX);
}

/* Gathers lines, each closed by a single LF in the buffer, up to the empty line. */
static int header_lf(struct multipart *m, char c, struct err *err)
{
    struct str so_far = buf_str(&m->header);

    if (c != '\n') {
        return err_set(err, EINVAL, "a line of a part's header does not end in CR LF");
    }
    if (so_far.len > 0 && !str_ends(so_far, STR("\n"))) {
        m->state = HEADER;
        return buf_append(&m->header, "\n", 1) == 0 ? 0 : header_too_long(err);
    }
    int r = header_parse(m, err);
    buf_clear(&m->header);
    m->state = DATA;
    return r;
}

static int header_take(struct multipart *m, struct str *in, struct err *err)
{
    size_t n = str_find(*in, '\r');

    if (memchr(in->at, '\n', n) || memchr(in->at, '\0', n)) {
        return err_set(err, EINVAL, "a part's header has a bare line feed or a NUL byte");
    }
    if (buf_append(&m->header, in->at, n) < 0) {
        return header_too_long(err);
    }
    *in = str_skip(*in, n);
    if (in->len) {
        *in = str_skip(*in, 1);
        m->state = HEADER_LF;
    }
    return 0;
}

/* A delimiter is followed by "--" at the end, or by padding and CRLF before another part. */
static int delimiter_line(struct multipart *m, char c, struct err *err)
{
    if (m->state == AFTER_DELIMITER && c == '-') {
        m->state = AFTER_DASH;
    } else if (m->state == AFTER_DASH && c == '-') {
        m->state = EPILOGUE;
    } else if ((m->state == AFTER_DELIMITER || m->state == PADDING) && (c == ' ' || c == '\t')) {
        m->state = PADDING;
    } else if ((m->state == AFTER_DELIMITER || m->state == PADDING) && c == '\r') {
        m->state = DELIMITER_LF;
    } else if (m->state == DELIMITER_LF && c == '\n') {
        if (++m->parts > MULTIPART_PARTS_MAX) {
            return err_set(err, EINVAL, "the form has over %d parts", MULTIPART_PARTS_MAX);
        }
        m->state = HEADER;
    } else {
        return err_set(err, EINVAL, "a multipart delimiter is followed by something else");
    }
    return 0;
}

int multipart_feed(struct multipart *m, const void *data, size_t len, struct err *err)
{
    struct str in = {data, len};
    int r = 0;

    while (r == 0 && in.len) {
        char c = in.at[0];
        switch ((enum state)m->state) {
        case PREAMBLE:
        case DATA:
            r = data_take(m, &in, err);
            break;
        case HEADER:
            r = header_take(m, &in, err);
            break;
        case HEADER_LF:
            in = str_skip(in, 1);
            r = header_lf(m, c, err);
            break;
        case AFTER_DELIMITER:
        case AFTER_DASH:
        case PADDING:
        case DELIMITER_LF:
            in = str_skip(in, 1);
            r = delimiter_line(m, c, err);
            break;
        case EPILOGUE:
            return 0;
        }
    }
    return r;
}

int multipart_finish(const struct multipart *m, struct err *err)
{
    if (m->state != EPILOGUE) {
        return err_set(err, EINVAL, "the form ends before its closing delimiter");
    }
    return 0;
}
