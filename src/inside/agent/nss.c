/* nss.c - the name-service calls that libuv's helpers make, which the agent never calls.
 *
 * A static program cannot load NSS modules, and the linker warns about each such call, which fails
 * the build. Defined here they mean "there is no such user": users are looked up in users.c.
 */
#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stddef.h>

int getpwuid_r(uid_t uid, struct passwd *pwd, char *buf, size_t size, struct passwd **result)
{
    (void)uid, (void)pwd, (void)buf, (void)size;
    *result = NULL;
    return ENOENT;
}

int getgrgid_r(gid_t gid, struct group *grp, char *buf, size_t size, struct group **result)
{
    (void)gid, (void)grp, (void)buf, (void)size;
    *result = NULL;
    return ENOENT;
}
