/* edge_house.h - the edge between a real client and a real service, both played by the test with
 * blocking sockets; the edge runs on its own thread's loop. Of the sandboxes only the doors are
 * stood in for: one sandbox exists, and a dial connects to the service's listener. */
#ifndef EDGE_HOUSE_H
#define EDGE_HOUSE_H

#include <netinet/in.h>
#include <unistd.h>

#include "check.h"
#include "serve/sandbox/sandbox.h"

#define ID "isv6ril5xadwn1k9t2jye"
#define TOKEN "0tQG31xiMp0IOQfaz9dcwi72L1CPo8e0"
#define HEADERS "Host: 127.0.0.1\r\nE2b-Sandbox-Id: " ID "\r\nE2b-Sandbox-Port: "

struct sandbox {
    struct sandbox_watch *watches;
    json_t *options;
    const char *token; /* NULL: not secure */
    bool gone;
    bool paused, pausing, returns;
    int wakes;
    int refusals; /* dials to refuse before one is let through */
    int dials;
    struct sockaddr_in service;
};
extern struct sandbox only; /* the one that exists */
extern uint32_t held_max;   /* of the edge, before start() */

void start(void);
void finish(void);

/* Runs it on the edge's thread, and waits for that. */
void on_loop(void (*what)(void));
/* For on_loop(). */
void kill_sandbox(void);
void pause_sandbox(void);  /* the pause begins */
void cut_off(void);        /* its time to end requests is up */
void call_off(void);       /* it has failed */
void have_paused(void);    /* it is done */
void resume_sandbox(void); /* it runs again */

int client(void);  /* a connection to the edge */
int service(void); /* the next one that the edge makes; -1: none came */
void say(int fd, const char *text);

/* Reads until the text ends with `until`, or the peer does. */
const char *hear(int fd, const char *until);

/* 0: the peer ended well; -errno: it did not; 1: it said more. */
int how_it_ends(int fd);

#endif
