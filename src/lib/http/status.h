/* status.h - the one table of HTTP statuses for errno values.
 *
 * Each surface has a column, because some answers are fixed by the clients that compare them: a
 * full disk is 507 to whoever uploads a file and 503 to whoever creates a sandbox. Pure.
 */
#ifndef HTTP_STATUS_H
#define HTTP_STATUS_H

enum status_surface {
    STATUS_API,         /* the control plane */
    STATUS_TOOLS,       /* the tools over plain HTTP */
    STATUS_FILES,       /* files and volumes inside a sandbox */
    STATUS_INTERPRETER, /* the code interpreter inside a sandbox */
    STATUS_LOGIN,       /* who the caller of the control plane is */
    STATUS_SIGNAL,      /* a signal to a process inside a sandbox */
    STATUS_SHELL,       /* an API shell: requests from inside a sandbox that it forwards */
    STATUS_SURFACES
};

/* The status for an errno, of either sign. */
int status_of_errno(enum status_surface surface, int error);

/* The negative errno whose status it is: the first row with that status. -EIO: there is none. */
int status_to_errno(enum status_surface surface, int status);

#endif
