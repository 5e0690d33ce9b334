#include "lib/base/utf8.h"

/* Bytes that a sequence with this first byte has, or 0. */
static size_t lead_len(unsigned char lead)
{
    return lead < 0x80                    ? 1
           : lead >= 0xc2 && lead <= 0xdf ? 2
           : lead >= 0xe0 && lead <= 0xef ? 3
           : lead >= 0xf0 && lead <= 0xf4 ? 4
                                          : 0;
}

/* Bytes of the well-formed sequence at the start (Unicode, table 3-7), or 0. */
static size_t sequence_len(struct str s)
{
    const unsigned char *p = (const unsigned char *)s.at;
    unsigned char low = 0x80, high = 0xbf; /* what the second byte may be */
    size_t n = lead_len(p[0]);

    if (n == 0 || n > s.len) {
        return 0;
    }
    if (p[0] == 0xe0) {
        low = 0xa0;
    } else if (p[0] == 0xed) {
        high = 0x9f; /* no surrogates */
    } else if (p[0] == 0xf0) {
        low = 0x90;
    } else if (p[0] == 0xf4) {
        high = 0x8f;
    }
    for (size_t i = 1; i < n; i++) {
        if (p[i] < low || p[i] > high) {
            return 0;
        }
        low = 0x80;
        high = 0xbf;
    }
    return n;
}

bool utf8_valid(struct str text)
{
    while (text.len) {
        size_t n = sequence_len(text);
        if (n == 0) {
            return false;
        }
        text = str_skip(text, n);
    }
    return true;
}

size_t utf8_repair(struct str text, char *out)
{
    size_t len = 0;

    while (text.len) {
        size_t n = sequence_len(text);
        if (n == 0) {
            memcpy(out + len, "\xef\xbf\xbd", UTF8_REPLACEMENT_BYTES);
            len += UTF8_REPLACEMENT_BYTES;
            n = 1;
        } else {
            memcpy(out + len, text.at, n);
            len += n;
        }
        text = str_skip(text, n);
    }
    out[len] = '\0';
    return len;
}

size_t utf8_characters(struct str text)
{
    size_t n = 0;

    for (size_t i = 0; i < text.len; i++) {
        n += ((unsigned char)text.at[i] & 0xc0) != 0x80; /* those that continue one do not count */
    }
    return n;
}

size_t utf8_unfinished(struct str text)
{
    size_t most = text.len < 3 ? text.len : 3;

    for (size_t back = 1; back <= most; back++) {
        unsigned char c = (unsigned char)text.at[text.len - back];
        if ((c & 0xc0) != 0x80) {
            return lead_len(c) > back ? back : 0;
        }
    }
    return 0;
}
