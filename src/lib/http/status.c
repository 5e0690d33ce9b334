#include "lib/http/status.h"

#include <errno.h>
#include <stdlib.h>

#include "lib/base/compiler.h"

/* 0: the surface has no status of its own for it; its default is used. ESTALE stands before EEXIST,
 * and EMSGSIZE before ENOBUFS, because status_to_errno() takes the first. */
/* clang-format off */
static const struct {
    int error;
    int status[STATUS_SURFACES];
} table[] = {
    /*               API  TOOLS FILES INTERP. LOGIN SIGNAL SHELL */
    {EINVAL,       { 400,  400,  400,    0,      0,     0,   400 }},
    {EISDIR,       {   0,    0,  400,    0,      0,     0,     0 }},
    {ENOTDIR,      {   0,    0,  400,    0,      0,     0,     0 }},
    {ENAMETOOLONG, {   0,    0,  400,    0,      0,     0,     0 }},
    {ELOOP,        {   0,    0,  400,    0,      0,     0,     0 }},
    {EACCES,       { 403,  401,  403,    0,      0,     0,     0 }},
    {EPERM,        {   0,  403,  403,    0,    403,   403,   403 }},
    {EROFS,        {   0,    0,  403,    0,      0,     0,     0 }},
    {ENOENT,       { 404,  404,  404,    0,      0,     0,   404 }},
    {ENODATA,      { 404,    0,    0,    0,      0,     0,     0 }}, /* nothing is built under that name */
    {ESRCH,        {   0,    0,    0,  404,      0,   404,     0 }},
    {ESTALE,       { 409,  409,    0,    0,      0,     0,     0 }}, /* its state forbids the call */
    {EALREADY,     { 409,    0,    0,    0,      0,     0,     0 }},
    {EEXIST,       { 409,  409,  409,    0,      0,     0,     0 }},
    {EMSGSIZE,     { 413,  413,    0,  413,      0,     0,     0 }},
    {ENOBUFS,      { 413,  413,    0,    0,      0,     0,     0 }},
    {EOPNOTSUPP,   { 422,  422,    0,    0,      0,     0,     0 }}, /* its contents forbid the call */
    {EUSERS,       { 429,    0,    0,    0,      0,     0,     0 }}, /* a quota is used up */
    {EBUSY,        { 503,  429,    0,    0,      0,     0,     0 }},
    {EAGAIN,       { 503,  503,    0,  429,      0,     0,     0 }}, /* the keeper is away; the queue is full */
    {ENOTCONN,     { 503,    0,    0,    0,      0,     0,     0 }},
    {ENOSPC,       { 503,    0,  507,    0,      0,     0,     0 }}, /* this machine is full */
    {EIO,          {   0,  502,    0,    0,      0,     0,     0 }}, /* the sandbox failed, not the daemon */
    {ETIMEDOUT,    { 504,  504,    0,    0,      0,     0,     0 }},
    {EDQUOT,       { 507,  507,  507,    0,      0,     0,     0 }}, /* the disk under the store is full */
};
/* clang-format on */

static const int defaults[STATUS_SURFACES] = {
    [STATUS_API] = 500,   [STATUS_TOOLS] = 500,  [STATUS_FILES] = 500, [STATUS_INTERPRETER] = 400,
    [STATUS_LOGIN] = 401, [STATUS_SIGNAL] = 400, [STATUS_SHELL] = 502};

int status_of_errno(enum status_surface surface, int error)
{
    for (size_t i = 0; i < countof(table); i++) {
        if (table[i].error == abs(error) && table[i].status[surface]) {
            return table[i].status[surface];
        }
    }
    return defaults[surface];
}

int status_to_errno(enum status_surface surface, int status)
{
    for (size_t i = 0; i < countof(table); i++) {
        if (table[i].status[surface] == status) {
            return -table[i].error;
        }
    }
    return -EIO;
}
