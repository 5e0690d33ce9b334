#include "keeper/travel/seal.h"

#include <endian.h>
#include <errno.h>
#include <sodium.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "lib/base/alloc.h"
#include "lib/base/encode.h"

#define MAGIC "ATOLLSAV"

enum { LEVEL = 1, LEN_BYTES = 4, SEALED_BYTES_MAX = SEAL_CHUNK_BYTES + SEAL_ADDED_BYTES };

_Static_assert(SEAL_NONCE_BYTES == crypto_secretstream_xchacha20poly1305_HEADERBYTES, "format");
_Static_assert(SEAL_ADDED_BYTES == crypto_secretstream_xchacha20poly1305_ABYTES, "format");
_Static_assert(EXPORT_KEY_BYTES == crypto_secretstream_xchacha20poly1305_KEYBYTES, "format");

int seal_key_of(const char *hex, struct seal_key *out, struct err *err)
{
    static const unsigned char what[] = "atoll export key";
    unsigned char hash[crypto_generichash_BYTES];
    size_t n = 0;

    if (sodium_init() < 0) {
        return err_set(err, EIO, "libsodium does not start");
    }
    if (sodium_hex2bin(out->bytes, sizeof(out->bytes), hex, strlen(hex), NULL, &n, NULL) < 0 ||
        n != sizeof(out->bytes)) {
        return err_set(err, EINVAL, "the export key is not one");
    }
    (void)crypto_generichash(hash, sizeof(hash), what, sizeof(what), out->bytes,
                             sizeof(out->bytes));
    memcpy(out->id, hash, sizeof(out->id));
    return 0;
}

/* The part of the head that the first chunk authenticates. */
static void head_make(const struct seal_key *key, unsigned char head[SEAL_PLAIN_HEAD_BYTES])
{
    const uint32_t version = htole32(SEAL_VERSION);

    memcpy(head, MAGIC, SEAL_MAGIC_BYTES);
    memcpy(head + SEAL_MAGIC_BYTES, &version, sizeof(version));
    memcpy(head + SEAL_MAGIC_BYTES + sizeof(version), key->id, SEAL_ID_BYTES);
}

/* ---- writing ---- */

struct seal_out {
    seal_sink *sink;
    void *ctx;
    crypto_secretstream_xchacha20poly1305_state state;
    ZSTD_CCtx *zstd;
    unsigned char head[SEAL_PLAIN_HEAD_BYTES];
    bool began; /* a chunk was written */
    size_t used;
    unsigned char chunk[SEAL_CHUNK_BYTES];
    unsigned char sealed[LEN_BYTES + SEALED_BYTES_MAX];
};

int seal_out_new(const struct seal_key *key, seal_sink *sink, void *ctx, struct seal_out **out,
                 struct err *err)
{
    unsigned char nonce[SEAL_NONCE_BYTES];
    struct seal_out *made = xnew(struct seal_out);

    made->sink = sink;
    made->ctx = ctx;
    made->zstd = ZSTD_createCCtx();
    head_make(key, made->head);
    (void)crypto_secretstream_xchacha20poly1305_init_push(&made->state, nonce, key->bytes);
    int r = made->zstd ? 0 : err_set(err, ENOMEM, "zstd does not start");
    if (r == 0) {
        (void)ZSTD_CCtx_setParameter(made->zstd, ZSTD_c_compressionLevel, LEVEL);
        r = sink(ctx, made->head, sizeof(made->head), err);
    }
    r = r < 0 ? r : sink(ctx, nonce, sizeof(nonce), err);
    if (r < 0) {
        seal_out_free(made);
        return r;
    }
    *out = made;
    return 0;
}

static int chunk_write(struct seal_out *out, bool last, struct err *err)
{
    const unsigned char tag = last ? crypto_secretstream_xchacha20poly1305_TAG_FINAL
                                   : crypto_secretstream_xchacha20poly1305_TAG_MESSAGE;
    const uint32_t len = htole32((uint32_t)(out->used + SEAL_ADDED_BYTES));

    memcpy(out->sealed, &len, sizeof(len));
    (void)crypto_secretstream_xchacha20poly1305_push(
        &out->state, out->sealed + LEN_BYTES, NULL, out->chunk, out->used,
        out->began ? NULL : out->head, out->began ? 0 : sizeof(out->head), tag);
    int r = out->sink(out->ctx, out->sealed, LEN_BYTES + out->used + SEAL_ADDED_BYTES, err);
    out->began = true;
    out->used = 0;
    return r;
}

static int compress(struct seal_out *out, struct str bytes, ZSTD_EndDirective how, struct err *err)
{
    ZSTD_inBuffer from = {bytes.at, bytes.len, 0};

    for (;;) {
        ZSTD_outBuffer to = {out->chunk, sizeof(out->chunk), out->used};
        const size_t left = ZSTD_compressStream2(out->zstd, &to, &from, how);

        if (ZSTD_isError(left)) {
            return err_set(err, EIO, "zstd: %s", ZSTD_getErrorName(left));
        }
        out->used = to.pos;
        if (out->used == sizeof(out->chunk)) {
            int r = chunk_write(out, false, err);
            if (r < 0) {
                return r;
            }
        } else if (from.pos == from.size && (how == ZSTD_e_continue || left == 0)) {
            return 0;
        }
    }
}

int seal_out_write(struct seal_out *out, struct str bytes, struct err *err)
{
    return compress(out, bytes, ZSTD_e_continue, err);
}

int seal_out_end(struct seal_out *out, struct err *err)
{
    int r = compress(out, (struct str){NULL, 0}, ZSTD_e_end, err);

    return r < 0 ? r : chunk_write(out, true, err);
}

void seal_out_free(struct seal_out *out)
{
    if (!out) {
        return;
    }
    (void)ZSTD_freeCCtx(out->zstd);
    sodium_memzero(out, sizeof(*out));
    free(out);
}

/* ---- reading ---- */

struct seal_in {
    struct seal_key key;
    seal_source *source;
    void *ctx;
    crypto_secretstream_xchacha20poly1305_state state;
    ZSTD_DCtx *zstd;
    unsigned char head[SEAL_HEAD_BYTES];
    bool began;  /* the head was read */
    bool opened; /* a chunk was opened */
    bool final;  /* the last one was */
    bool frame_over;
    size_t at, n; /* what is left of the chunk */
    unsigned char chunk[SEAL_CHUNK_BYTES];
    unsigned char sealed[SEALED_BYTES_MAX];
};

struct seal_in *seal_in_new(const struct seal_key *key, seal_source *source, void *ctx)
{
    struct seal_in *in = xnew(struct seal_in);

    in->key = *key;
    in->source = source;
    in->ctx = ctx;
    in->zstd = ZSTD_createDCtx();
    return in;
}

/* Reads exactly n bytes. 0: there were none at all, which is the end; 1: they are there. */
static int exactly(struct seal_in *in, void *at, size_t n, struct err *err)
{
    size_t got = 0;

    while (got < n) {
        ssize_t more = in->source(in->ctx, (char *)at + got, n - got, err);
        if (more < 0) {
            return (int)more;
        }
        if (more == 0) {
            return got == 0 ? 0
                            : err_set(err, EBADMSG, "the file is cut short: its end is missing");
        }
        got += (size_t)more;
    }
    return 1;
}

static int other_key(const struct seal_in *in, struct err *err)
{
    char theirs[2 * SEAL_ID_BYTES + 1], own[2 * SEAL_ID_BYTES + 1];

    hex_encode(theirs, in->head + SEAL_MAGIC_BYTES + LEN_BYTES, SEAL_ID_BYTES);
    hex_encode(own, in->key.id, SEAL_ID_BYTES);
    return err_set(err, EKEYREJECTED,
                   "the file was sealed with another key (%s) than this machine's (%s): give both "
                   "machines the same one with `atoll export-key set`",
                   theirs, own);
}

static int head_read(struct seal_in *in, struct err *err)
{
    unsigned char want[SEAL_PLAIN_HEAD_BYTES];
    uint32_t version;

    int r = exactly(in, in->head, sizeof(in->head), err);
    if (r == 0 || (r > 0 && memcmp(in->head, MAGIC, SEAL_MAGIC_BYTES) != 0)) {
        return err_set(err, EBADMSG, "the file is no export of a sandbox");
    }
    if (r < 0) {
        return r;
    }
    memcpy(&version, in->head + SEAL_MAGIC_BYTES, sizeof(version));
    version = le32toh(version);
    if (version != SEAL_VERSION) {
        return err_set(err, EPROTONOSUPPORT,
                       "the file has version %u, and this release reads version %d", version,
                       SEAL_VERSION);
    }
    head_make(&in->key, want);
    if (memcmp(in->head, want, sizeof(want)) != 0) {
        return other_key(in, err);
    }
    (void)crypto_secretstream_xchacha20poly1305_init_pull(
        &in->state, in->head + SEAL_PLAIN_HEAD_BYTES, in->key.bytes);
    in->began = true;
    return 0;
}

static int chunk_len(struct seal_in *in, size_t *out, struct err *err)
{
    uint32_t len;
    int r = exactly(in, &len, sizeof(len), err);

    if (r <= 0) {
        return r < 0 ? r : err_set(err, EBADMSG, "the file is cut short: its end is missing");
    }
    *out = le32toh(len);
    return *out >= SEAL_ADDED_BYTES && *out <= SEALED_BYTES_MAX
               ? 0
               : err_set(err, EBADMSG, "the file is damaged: a chunk has no valid length");
}

static int chunk_open(struct seal_in *in, struct err *err)
{
    unsigned long long n = 0;
    unsigned char tag = 0;
    size_t len = 0;
    int r = chunk_len(in, &len, err);

    if (r == 0) {
        r = exactly(in, in->sealed, len, err);
        r = r == 0 ? err_set(err, EBADMSG, "the file is cut short: its end is missing") : r;
    }
    if (r < 0) {
        return r;
    }
    if (crypto_secretstream_xchacha20poly1305_pull(&in->state, in->chunk, &n, &tag, in->sealed, len,
                                                   in->opened ? NULL : in->head,
                                                   in->opened ? 0 : SEAL_PLAIN_HEAD_BYTES) != 0) {
        return err_set(err, EBADMSG, "the file is damaged: a chunk is not as it was sealed");
    }
    in->opened = true;
    in->at = 0;
    in->n = (size_t)n;
    in->final = tag == crypto_secretstream_xchacha20poly1305_TAG_FINAL;
    return 0;
}

static int over(struct seal_in *in, struct err *err)
{
    char byte;

    if (!in->frame_over) {
        return err_set(err, EBADMSG, "the file is damaged: its content has no end");
    }
    int r = exactly(in, &byte, 1, err);
    return r > 0 ? err_set(err, EBADMSG, "the file is damaged: bytes follow its end") : r;
}

static int decompress(struct seal_in *in, struct buf *out, struct err *err)
{
    ZSTD_inBuffer from = {in->chunk, in->n, in->at};
    char *at = NULL;

    if (in->frame_over) {
        return err_set(err, EBADMSG, "the file is damaged: its content goes on behind its end");
    }
    int r = buf_reserve(out, SEAL_PIECE_BYTES, &at);
    if (r < 0) {
        return err_set(err, ENOBUFS, "a record of the file is too long");
    }
    ZSTD_outBuffer to = {at, SEAL_PIECE_BYTES, 0};
    const size_t left = ZSTD_decompressStream(in->zstd, &to, &from);
    if (ZSTD_isError(left)) {
        return err_set(err, EBADMSG, "the file is damaged: zstd: %s", ZSTD_getErrorName(left));
    }
    buf_commit(out, to.pos);
    in->at = from.pos;
    in->frame_over = left == 0;
    return 1;
}

int seal_in_read(struct seal_in *in, struct buf *out, struct err *err)
{
    int r = in->began ? 0 : head_read(in, err);

    /* A whole piece may be left in zstd's own memory, without input that is left. */
    while (r == 0 && in->at == in->n && !in->final) {
        r = chunk_open(in, err);
    }
    if (r < 0) {
        return r;
    }
    if (in->at == in->n && (in->frame_over || !in->opened)) {
        return over(in, err);
    }
    const size_t before = in->at, had = buf_len(out);
    r = decompress(in, out, err);
    if (r > 0 && in->final && in->at == in->n && in->at == before && buf_len(out) == had &&
        !in->frame_over) {
        return over(in, err); /* no progress: there is nothing more */
    }
    return r;
}

void seal_in_free(struct seal_in *in)
{
    if (!in) {
        return;
    }
    (void)ZSTD_freeDCtx(in->zstd);
    sodium_memzero(in, sizeof(*in));
    free(in);
}
