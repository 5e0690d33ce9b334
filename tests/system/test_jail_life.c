/* How jails fail, end and outlive their keeper, and the keeper's own end. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "rig.h"

static struct rig rig;
static struct rig_jail one; /* stays for all tests */

/* ---- failing and ending ---- */

static void failing_create_leaves_nothing(const char *id, const char *layer, int status,
                                          const char *part)
{
    struct keeper_request req = rig_create_request(id, 5, layer);
    struct keeper_answer answer = rig_ask(&rig, &req, NULL);

    CHECK_INT(answer.status, status);
    CHECK_THAT(strstr(answer.err.msg, part), "it says '%s'", answer.err.msg);
    CHECK(!rig_trace_left(&rig, id));
}

static void a_missing_layer_is_named(void)
{
    failing_create_leaves_nothing("nolayer", "nosuch", -ENOENT, "no layer nosuch");
}

static void links_in_a_template_are_refused(void)
{
    static const char *const names[] = {"dev", "proc", "sys", "run"};

    for (size_t i = 0; i < countof(names); i++) {
        char layer[32], path[128], want[96];
        (void)snprintf(layer, sizeof(layer), "link-%s", names[i]);
        rig_layer(&rig, layer);
        rig_layer_path(&rig, layer, names[i], path);
        CHECK_INT(rmdir(path), 0);
        CHECK_INT(symlink("/tmp", path), 0);
        (void)snprintf(want, sizeof(want),
                       "/%s of the template is, or lies behind, a symbolic link", names[i]);
        failing_create_leaves_nothing("linked", layer, -ELOOP, want);
    }
}

static void links_below_dev_are_hidden(void)
{
    char path[128];
    struct rig_jail jail;

    rig_layer(&rig, "devnull");
    rig_layer_path(&rig, "devnull", "dev/null", path);
    CHECK_INT(symlink("/proc/sys/kernel/core_pattern", path), 0);
    rig_layer_path(&rig, "devnull", "dev/pts", path);
    CHECK_INT(symlink("/proc", path), 0);
    struct keeper_request req = rig_create_request("devnull", 5, "devnull");
    CHECK_INT(rig_create(&rig, &req, &jail).status, 0);
    CHECK(rig_says(&jail, "stat /dev/null", " 1:3"));
    CHECK(rig_says(&jail, "stat /dev/pts/ptmx", " 5:2"));
    CHECK_INT(rig_destroy(&rig, "devnull").status, 0);
    rig_jail_close(&jail);
}

static void a_name_within_a_name_is_not_one(void)
{
    struct rig_jail jail;
    struct keeper_request req = rig_create_request("host", 5, "base");

    (void)snprintf(req.plan.hostname, sizeof(req.plan.hostname), "%s",
                   "local"); /* the template's file has localhost */
    CHECK_INT(rig_create(&rig, &req, &jail).status, 0);
    CHECK_STR(rig_probe(&jail, "read /etc/hosts"), "127.0.0.1 localhost\n127.0.1.1\tlocal\n");
    CHECK_INT(rig_destroy(&rig, "host").status, 0);
    rig_jail_close(&jail);
}

static void a_bare_template_works(void)
{
    char path[128];
    struct rig_jail jail;

    rig_layer_path(&rig, "bare", "", path);
    CHECK_INT(mkdir(path, 0755), 0);
    struct keeper_request req = rig_create_request("bare", 5, "bare");
    CHECK_INT(rig_create(&rig, &req, &jail).status, 0);
    CHECK(rig_says(&jail, "list /", "proc\n"));
    CHECK_INT(rig_destroy(&rig, "bare").status, 0);
    rig_jail_close(&jail);
}

static void bad_fields_are_answered(void)
{
    struct keeper_request req = rig_create_request("x", 0, "../../etc");
    struct keeper_answer answer = rig_ask(&rig, &req, NULL);

    CHECK_INT(answer.status, -EINVAL);
    CHECK_STR(answer.err.msg, "layers has a character that is not allowed in it");
}

static void destroy_is_complete_and_repeatable(void)
{
    struct rig_jail jail;
    struct keeper_request req = rig_create_request("gone", 6, "base");

    CHECK_INT(rig_create(&rig, &req, &jail).status, 0);
    CHECK(rig_trace_left(&rig, "gone"));
    CHECK_STR(rig_probe(&jail, "write /root/x y"), "ok");
    CHECK_INT(rig_destroy(&rig, "gone").status, 0);
    CHECK(!rig_trace_left(&rig, "gone"));
    struct pollfd ended = {.fd = jail.pidfd, .events = POLLIN};
    CHECK_INT(poll(&ended, 1, 10 * 1000), 1);
    CHECK_STR(rig_probe(&jail, "stat /"), "no answer");
    CHECK_INT(rig_destroy(&rig, "gone").status, 0);
    CHECK_INT(rig_destroy(&rig, "neverwas").status, 0);
    rig_jail_close(&jail);
}

static void a_jail_that_ends_itself_is_seen(void)
{
    struct rig_jail jail;
    struct keeper_request req = rig_create_request("quits", 6, "base");

    CHECK_INT(rig_create(&rig, &req, &jail).status, 0);
    CHECK_STR(rig_probe(&jail, "exit"), "no answer");
    struct pollfd ended = {.fd = jail.pidfd, .events = POLLIN};
    CHECK_INT(poll(&ended, 1, 10 * 1000), 1);
    CHECK(rig_trace_left(&rig, "quits")); /* until it is destroyed */
    CHECK_INT(rig_destroy(&rig, "quits").status, 0);
    CHECK(!rig_trace_left(&rig, "quits"));
    rig_jail_close(&jail);
}

/* ---- the keeper's own death ---- */

static struct keeper_answer attach(const char *id, struct keeper_jail name, int fds[KEEPER_FDS_MAX])
{
    struct keeper_request req = {.op = KEEPER_ATTACH, .jail = name};

    (void)snprintf(req.id, sizeof(req.id), "%s", id);
    return rig_ask(&rig, &req, fds);
}

static void fds_close(int fds[KEEPER_FDS_MAX], int from)
{
    for (int i = from; i < KEEPER_FDS_MAX; i++) {
        if (fds[i] >= 0) {
            (void)close(fds[i]);
        }
    }
}

static void jails_outlive_the_keeper(void)
{
    int fds[KEEPER_FDS_MAX];
    struct keeper_request hello = {.op = KEEPER_HELLO};
    struct keeper_request list = {.op = KEEPER_LIST};

    rig_keeper_kill(&rig);
    CHECK(rig_says(&one, "read /proc/self/status", "Uid:")); /* also while there is none */
    rig_keeper_start(&rig);

    CHECK_INT(rig_ask(&rig, &hello, NULL).state.jails, 1);
    CHECK_STR(rig_ask(&rig, &list, NULL).id, "one");
    strcpy(list.id, "one");
    CHECK_INT(rig_ask(&rig, &list, NULL).status, -ENOENT);

    (void)close(one.channel); /* the probe serves one connection at a time */
    CHECK_INT(attach("one", one.name, fds).status, 0);
    (void)close(fds[KEEPER_FD_PIDFD]);
    fds_close(fds, KEEPER_FD_SOCKET);
    one.channel = fds[KEEPER_FD_CHANNEL];
    (void)fcntl(one.channel, F_SETFL, 0);
    CHECK(rig_says(&one, "read /proc/self/status", "Uid:\t0"));
}

/* The network namespace that a socket lives in. */
static ino_t socket_namespace(int fd)
{
    struct stat st = {0};
    int ns = ioctl(fd, SIOCGSKNS);

    if (ns >= 0) {
        (void)fstat(ns, &st);
        (void)close(ns);
    }
    return st.st_ino;
}

static void the_ends_of_its_network_come_with_a_jail(void)
{
    struct keeper_request req = rig_create_request("net", 4, "base"), again = {0};
    int fds[KEEPER_FDS_MAX], fresh[KEEPER_FDS_MAX];
    char path[64];
    struct stat st;

    req.plan.network = 1;
    struct keeper_answer answer = rig_ask(&rig, &req, fds);
    CHECK_INT(answer.status, 0);
    (void)snprintf(path, sizeof(path), "/proc/%d/ns/net", answer.jail.pid);
    CHECK_INT(stat(path, &st), 0);
    for (int i = KEEPER_FD_SOCKET; i < KEEPER_FDS_JAIL; i++) {
        CHECK_INT(socket_namespace(fds[i]), st.st_ino);
    }
    (void)close(fds[KEEPER_FD_CHANNEL]);

    /* While one daemon has them there are no others, and that is no reason to refuse a jail. */
    again =
        (struct keeper_request){.op = KEEPER_ATTACH, .jail = answer.jail, .plan = {.network = 1}};
    (void)snprintf(again.id, sizeof(again.id), "net");
    CHECK_INT(rig_ask(&rig, &again, fresh).status, 0);
    CHECK_INT(fresh[KEEPER_FD_GATE], -1);
    fds_close(fresh, 0);
    fds_close(fds, KEEPER_FD_SOCKET);
    CHECK_INT(rig_ask(&rig, &again, fresh).status, 0);
    CHECK_INT(socket_namespace(fresh[KEEPER_FD_GATE]), st.st_ino);
    CHECK_INT(socket_namespace(fresh[KEEPER_FD_DNS_UDP]), st.st_ino);
    fds_close(fresh, 0);
    (void)close(fds[KEEPER_FD_PIDFD]);
    CHECK_INT(rig_destroy(&rig, "net").status, 0);
}

/* Whether a connection from there reaches what listens inside, and nothing of the host's. */
static void sockets_are_in_the_jails_network(void)
{
    struct keeper_request req = {.op = KEEPER_SOCKETS, .jail = one.name, .sockets_n = 3};
    int fds[KEEPER_FDS_MAX];
    char path[64];
    struct stat st;

    (void)snprintf(req.id, sizeof(req.id), "one");
    (void)snprintf(path, sizeof(path), "/proc/%d/ns/net", one.name.pid);
    CHECK_INT(stat(path, &st), 0);
    CHECK_INT(rig_ask(&rig, &req, fds).status, 0);
    for (int i = 0; i < KEEPER_FDS_MAX; i++) {
        CHECK_INT(fds[i] >= 0, i < 3);
        CHECK(i >= 3 || socket_namespace(fds[i]) == st.st_ino);
        CHECK(i >= 3 || fcntl(fds[i], F_GETFL) & O_NONBLOCK);
    }
    fds_close(fds, 0);

    req.jail.start_ticks++;
    CHECK_INT(rig_ask(&rig, &req, fds).status, -ESRCH);
    CHECK_INT(fds[0], -1);
    req.jail = (struct keeper_jail){.pid = getpid(), .start_ticks = 1}; /* of the host */
    CHECK_INT(rig_ask(&rig, &req, fds).status, -ESRCH);
}

static void attach_takes_only_that_process(void)
{
    struct keeper_jail name = one.name;

    CHECK_INT(attach("two", name, NULL).status, -ESRCH);
    name.start_ticks++;
    CHECK_INT(attach("one", name, NULL).status, -ESRCH);
    name = one.name;
    name.pid = getpid();
    CHECK_INT(attach("one", name, NULL).status, -ESRCH);
    name.pid = 0x7ffffff0;
    CHECK_INT(attach("one", name, NULL).status, -ESRCH);
}

static void a_second_keeper_is_refused(void)
{
    struct rig second = rig;
    int status;

    (void)fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        const struct keeper_options options = {.socket_path = second.socket,
                                               .pool_path = second.pool,
                                               .agent_path = second.agent,
                                               .instance = second.instance};
        _exit(keeper_main(&options));
    }
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 1);
    CHECK(rig_says(&one, "read /proc/self/status", "Uid:"));
    CHECK_INT(access(rig.socket, F_OK), 0);
}

static int keeper_connect(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", rig.socket);
    return connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0 ? fd : -1;
}

static void a_message_of_the_wrong_size_ends_only_its_sender(void)
{
    struct keeper_request hello = {.version = KEEPER_VERSION, .op = KEEPER_HELLO};
    char byte;

    int fd = keeper_connect();
    CHECK(fd >= 0);
    CHECK(send(fd, &hello, 5, MSG_NOSIGNAL) == 5);
    struct pollfd closed = {.fd = fd, .events = POLLIN};
    CHECK_INT(poll(&closed, 1, 10 * 1000), 1);
    CHECK_INT(recv(fd, &byte, 1, 0), 0);
    (void)close(fd);
    CHECK_INT(rig_ask(&rig, &hello, NULL).status, 0);
}

static void a_client_that_does_not_read_stops_nobody(void)
{
    struct keeper_request usage = {.version = KEEPER_VERSION, .op = KEEPER_USAGE, .id = "one"};
    struct keeper_request hello = {.op = KEEPER_HELLO};
    int fd = keeper_connect();

    CHECK(fd >= 0);
    for (int i = 0; i < 10000; i++) {
        if (send(fd, &usage, sizeof(usage), MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
            break; /* both directions are full */
        }
    }
    CHECK_INT(rig_ask(&rig, &hello, NULL).status, 0);
    (void)close(fd);
    CHECK_INT(rig_ask(&rig, &hello, NULL).status, 0);
}

static int entries_in(const char *path)
{
    int n = 0;
    DIR *dir = opendir(path);

    while (dir && readdir(dir)) {
        n++;
    }
    return dir ? closedir(dir), n : -1;
}

static void the_keeper_keeps_nothing(void)
{
    struct keeper_request hello = {.op = KEEPER_HELLO};
    char fds[64], mounts[8192];
    struct rig_jail jail;

    CHECK_INT(rig_ask(&rig, &hello, NULL).status, 0);
    (void)snprintf(fds, sizeof(fds), "/proc/%d/fd", rig.keeper);
    (void)snprintf(mounts, sizeof(mounts), "%s", rig_host_read_proc(rig.keeper, "mountinfo"));
    int before = entries_in(fds);

    for (int i = 0; i < 20; i++) {
        struct keeper_request good = rig_create_request("again", 7, "base");
        struct keeper_request bad = rig_create_request("bad", 8, i % 2 ? "nosuch" : "link-dev");
        CHECK_INT(rig_create(&rig, &good, &jail).status, 0);
        CHECK(rig_ask(&rig, &bad, NULL).status < 0);
        CHECK_INT(rig_destroy(&rig, "again").status, 0);
        rig_jail_close(&jail);
    }
    CHECK_INT(rig_ask(&rig, &hello, NULL).status, 0); /* it is through with the last one */
    CHECK_INT(entries_in(fds), before);
    CHECK_STR(rig_host_read_proc(rig.keeper, "mountinfo"), mounts);
}

static bool one_create(void)
{
    struct keeper_request req = rig_create_request("one", 0, "base");

    return rig_create(&rig, &req, &one).status == 0;
}

int main(int argc, char **argv)
{
    static const struct check_test tests[] = {
        {"a missing layer is named", a_missing_layer_is_named},
        {"links in a template are refused", links_in_a_template_are_refused},
        {"links below dev are hidden", links_below_dev_are_hidden},
        {"a name within a name is not one", a_name_within_a_name_is_not_one},
        {"a bare template works", a_bare_template_works},
        {"bad fields are answered", bad_fields_are_answered},
        {"destroy is complete and repeatable", destroy_is_complete_and_repeatable},
        {"a jail that ends itself is seen", a_jail_that_ends_itself_is_seen},
        {"jails outlive the keeper", jails_outlive_the_keeper},
        {"the ends of its network come with a jail", the_ends_of_its_network_come_with_a_jail},
        {"sockets are in the jail's network", sockets_are_in_the_jails_network},
        {"attach takes only that process", attach_takes_only_that_process},
        {"a second keeper is refused", a_second_keeper_is_refused},
        {"a message of the wrong size ends only its sender",
         a_message_of_the_wrong_size_ends_only_its_sender},
        {"a client that does not read stops nobody", a_client_that_does_not_read_stops_nobody},
        {"the keeper keeps nothing", the_keeper_keeps_nothing},
    };

    return rig_main(&rig, argc, argv, one_create, tests, countof(tests));
}
