/* dockerfile_stages.h - the stages before the last one of a Dockerfile: built as templates of their
 * own, asked for files, and removed.
 *
 * Owns:     the templates and the sandboxes of the stages, until stages_remove().
 * Needs:    tar in a stage that files are taken from.
 * Blocks:   for the daemon.
 *
 * The last steps of a stage pack the files that later stages take from it; a sandbox of the stage
 * serves the archives:
 *
 *   stage 0 ──► steps, and `tar` of each source ──► sandbox ──► COPY of stage 1
 */
#ifndef CLI_DOCKERFILE_STAGES_H
#define CLI_DOCKERFILE_STAGES_H

#include "cli/template.h"

/* Builds all stages that another one needs. `job` is the last stage's: a base that is a stage
 * becomes that stage's template. */
must_check int stages_build(struct build_job *job, struct err *err);

/* Uploads the files that the job's steps take from stages, for a template that is to be built. */
must_check int stages_take(const struct build_job *job, const char *template_id, struct err *err);

void stages_remove(const struct build_job *job);

#endif
