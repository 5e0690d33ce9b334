/* catalogue.h - the MCP servers that are known by a name: package, arguments, variables.
 *
 * Owns:     the parsed file.
 * Blocks:   while it is read.
 * Threads:  any, after that.
 *
 * The file is an object with a member per server:
 *
 *   "redis": {
 *     "about": "one line",
 *     "npm" or "pypi": the package, or "repository": where its source is, for one that is neither,
 *     "command": the program that such a repository makes, for templates that have it,
 *     "with": one more package, of a version that it needs and does not ask for itself,
 *     "run": its program, when it has several or one of another name,
 *     "prefix": of its tools, when it is not the server's name,
 *     "ahead": true when the template brings the package,
 *     "asks": what the server needs besides its package to be of use: "key", "host",
 *     "fields": {"host": "string", "port": "integer?"},   the configuration's; '?' is optional
 *     "args": ["--host={host}", ["--port", "{port}"]],
 *     "env": {"REDIS_HOST": "{host}"}
 *   }
 *
 * "{host}" becomes the field's text. An argument, a group of arguments or a variable that names a
 * missing or empty field is left out. An argument that is a field of several strings and nothing
 * else becomes as many arguments.
 */
#ifndef GATEWAY_CATALOGUE_H
#define GATEWAY_CATALOGUE_H

#include <jansson.h>

#include "lib/base/compiler.h"
#include "lib/base/err.h"

struct catalogue {
    json_t *servers;
};

must_check int catalogue_read(const char *path, struct catalogue *out, struct err *err);
void catalogue_fini(struct catalogue *catalogue);
#define scoped_catalogue scoped(catalogue_fini) struct catalogue

/* The entry of a server; NULL: it is not in the catalogue. Borrowed. */
const json_t *catalogue_find(const struct catalogue *catalogue, const char *name);

/* Whether the fields are those that the entry names, of their types and all that it needs. `name`
 * is the server's, for the sentence. */
must_check int catalogue_check(const json_t *entry, const char *name, json_t *fields,
                               struct err *err);

/* Arguments and variables with the fields filled in: new references. */
json_t *catalogue_args(const json_t *entry, const json_t *fields);
json_t *catalogue_env(const json_t *entry, const json_t *fields);

#endif
