/* manifest.h - reads manifests, indexes and configurations: OCI's formats and Docker's schema 2.
 * Pure. */
#ifndef IMAGE_MANIFEST_H
#define IMAGE_MANIFEST_H

#include <jansson.h>
#include <stdint.h>

#include "lib/base/compiler.h"
#include "lib/base/err.h"
#include "lib/base/str.h"
#include "serve/template/image/reference.h"

/* The formats that we read, for the header Accept. */
#define MANIFEST_ACCEPT                                                                            \
    "application/vnd.oci.image.index.v1+json, application/vnd.oci.image.manifest.v1+json, "        \
    "application/vnd.docker.distribution.manifest.list.v2+json, "                                  \
    "application/vnd.docker.distribution.manifest.v2+json"

struct manifest_blob {
    char digest[REFERENCE_DIGEST_BYTES];
    uint64_t size;
};

struct manifest {
    struct manifest_blob config;
    uint32_t layers_n;
    struct manifest_blob layers[IMAGE_LAYERS_MAX];
};

/* 1: `text` is an index, and *pick is the manifest of this machine's architecture in it; 0: it is a
 * manifest, in *out. -EINVAL with a sentence. `tag` picks among images of an index that names them
 * (a layout directory); "": any. */
must_check int manifest_parse(struct str text, struct str tag, struct manifest *out,
                              struct manifest_blob *pick, struct err *err);

/* This machine's architecture, as images name it: "amd64". */
const char *manifest_architecture(void);

/* An image's configuration: an object {"env": {}, "user": "", "workdir": "", "entrypoint": [],
 * "cmd": []}, and the digests of the layers' plain archives. The number must be the manifest's. */
must_check int manifest_config_parse(struct str text, const struct manifest *manifest,
                                     json_t **config,
                                     char diff_ids[IMAGE_LAYERS_MAX][REFERENCE_DIGEST_BYTES],
                                     struct err *err);

#endif
