#include <errno.h>

#include "check.h"
#include "lib/base/compiler.h"
#include "lib/http/status.h"

static void surfaces_answer_in_their_own_way(void)
{
    CHECK_INT(status_of_errno(STATUS_API, -ENOSPC), 503);
    CHECK_INT(status_of_errno(STATUS_FILES, -ENOSPC), 507);
    CHECK_INT(status_of_errno(STATUS_API, -EACCES), 403);
    CHECK_INT(status_of_errno(STATUS_TOOLS, -EACCES), 401);
    CHECK_INT(status_of_errno(STATUS_API, -EAGAIN), 503);
    CHECK_INT(status_of_errno(STATUS_INTERPRETER, -EAGAIN), 429);
    CHECK_INT(status_of_errno(STATUS_LOGIN, -EPERM), 403);
    CHECK_INT(status_of_errno(STATUS_SIGNAL, -EPERM), 403);
    CHECK_INT(status_of_errno(STATUS_SIGNAL, -ESRCH), 404);
    CHECK_INT(status_of_errno(STATUS_SHELL, -ENOENT), 404);
}

static void an_error_without_a_row_has_the_default(void)
{
    CHECK_INT(status_of_errno(STATUS_API, -EPROTO), 500);
    CHECK_INT(status_of_errno(STATUS_API, -ENAMETOOLONG), 500);
    CHECK_INT(status_of_errno(STATUS_INTERPRETER, -EINVAL), 400);
    CHECK_INT(status_of_errno(STATUS_LOGIN, -EACCES), 401);
    CHECK_INT(status_of_errno(STATUS_LOGIN, -ENOENT), 401);
    CHECK_INT(status_of_errno(STATUS_SHELL, -ECONNREFUSED), 502);
}

static void the_sign_of_an_error_does_not_matter(void)
{
    CHECK_INT(status_of_errno(STATUS_FILES, ENOENT), 404);
    CHECK_INT(status_of_errno(STATUS_FILES, -ENOENT), 404);
}

static void a_status_leads_back_to_the_first_of_its_errors(void)
{
    CHECK_INT(status_to_errno(STATUS_TOOLS, 409), -ESTALE);
    CHECK_INT(status_to_errno(STATUS_TOOLS, 413), -EMSGSIZE);
    CHECK_INT(status_to_errno(STATUS_TOOLS, 418), -EIO);
}

int main(void)
{
    static const struct check_test tests[] = {
        {"surfaces answer in their own way", surfaces_answer_in_their_own_way},
        {"an error without a row has the default", an_error_without_a_row_has_the_default},
        {"the sign of an error does not matter", the_sign_of_an_error_does_not_matter},
        {"a status leads back to the first of its errors",
         a_status_leads_back_to_the_first_of_its_errors},
    };

    return check_run(tests, countof(tests));
}
