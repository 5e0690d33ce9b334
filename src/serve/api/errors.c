#include <errno.h>

#include "serve/api/internal.h"

static const struct {
    int error;
    int status;
} table[] = {
    {EINVAL, 400},    {EACCES, 403},  {ENOENT, 404},     {EEXIST, 409},
    {EMSGSIZE, 413},  {ENOBUFS, 413}, {EBUSY, 503},      {EAGAIN, 503}, /* the keeper is away */
    {EALREADY, 409},  {ESTALE, 409},  {EOPNOTSUPP, 422}, /* its state; its contents */
    {ENOTCONN, 503},  {ENOSPC, 503},                     /* this machine is full */
    {EUSERS, 429},                                       /* a quota */
    {ETIMEDOUT, 504}, {EDQUOT, 507},                     /* the disk under the store is full */
};

int status_of(int error)
{
    for (size_t i = 0; i < countof(table); i++) {
        if (table[i].error == -error) {
            return table[i].status;
        }
    }
    return 500;
}
