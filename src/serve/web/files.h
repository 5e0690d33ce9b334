/* files.h - the files of the dashboard, as tools/embed-web puts them into the program.
 *
 * Without a dashboard the table has one page, which says so. The table is sorted by path.
 */
#ifndef WEB_FILES_H
#define WEB_FILES_H

#include <stdbool.h>
#include <stddef.h>

struct web_file {
    const char *path; /* "/" is index.html */
    const char *type; /* Content-Type */
    const char *etag; /* with its quotes: a part of the SHA-256 of the plain content */
    const void *gzip;
    size_t gzip_bytes;
    const void *brotli; /* NULL: none */
    size_t brotli_bytes;
    size_t plain_bytes;
    bool immutable; /* its name has a hash of its content */
};

extern const struct web_file web_files[];
extern const size_t web_files_n;

#endif
