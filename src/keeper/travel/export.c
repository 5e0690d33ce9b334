#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include "keeper/checkpoint/manifest.h"
#include "keeper/disk/saved.h"
#include "keeper/travel/layer.h"
#include "keeper/travel/link.h"
#include "keeper/travel/lower_links.h"
#include "keeper/travel/send.h"
#include "keeper/travel/travel.h"
#include "lib/base/fd.h"
#include "lib/base/small_file.h"

struct leaving {
    struct jail_shared *shared;
    const struct keeper_travel *what;
    struct link link;
    int saved_fd, disk_fd, memory_fd; /* -1: it has no memory */
    struct seal_key key;
    struct seal_out *out;
    struct send send;
    char about[RECORD_ABOUT_BYTES_MAX + 1];
    char digests[KEEPER_LAYERS_MAX][SHA256_HEX_LEN + 1];
};

static int sink(void *ctx, const void *bytes, size_t len, struct err *err)
{
    struct leaving *leaving = ctx;

    return link_send(leaving->link.socket, TRAVEL_BYTES, bytes, len, err);
}

static int part_open(const struct leaving *leaving, const char *name)
{
    return openat(leaving->saved_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
}

static int about_read(struct leaving *leaving, struct err *err)
{
    struct utsname host;

    if (leaving->memory_fd >= 0) {
        ssize_t n = small_file_read(leaving->memory_fd, MANIFEST_FILE, leaving->about,
                                    sizeof(leaving->about));
        return n < 0 ? err_sys(err, "read what the images are") : 0;
    }
    (void)uname(&host);
    (void)snprintf(leaving->about, sizeof(leaving->about), "machine %s\nrelease %s\n", host.machine,
                   host.release);
    return 0;
}

static int saved_look(struct leaving *leaving, struct err *err)
{
    leaving->saved_fd = saved_open(leaving->shared->pool, leaving->what->name, err);
    if (leaving->saved_fd < 0) {
        return leaving->saved_fd;
    }
    leaving->disk_fd = part_open(leaving, SAVED_DISK);
    if (leaving->disk_fd < 0) {
        return err_sys(err, "open the disk of %s", leaving->what->name);
    }
    leaving->memory_fd = part_open(leaving, SAVED_MEMORY);
    if (leaving->memory_fd < 0 && errno != ENOENT) {
        return err_sys(err, "open the memory of %s", leaving->what->name);
    }
    return about_read(leaving, err);
}

static int layers_look(struct leaving *leaving, struct err *err)
{
    int r = 0;

    for (uint32_t i = 0; r == 0 && i < leaving->what->layers_n; i++) {
        scoped_fd fd = layer_open(leaving->shared->pool, leaving->what->layers[i], err);
        r = fd < 0 ? fd : layer_digest(fd, leaving->digests[i], err);
    }
    return r;
}

static int key_read(struct leaving *leaving, struct err *err)
{
    char hex[EXPORT_KEY_HEX_LEN + 1];
    int r = export_key_read_or_make(leaving->shared->data_fd, hex, err);

    r = r < 0 ? r : seal_key_of(hex, &leaving->key, err);
    explicit_bzero(hex, sizeof(hex));
    return r;
}

static int head_send(struct leaving *leaving, struct err *err)
{
    struct send *send = &leaving->send;
    const struct str meta = {leaving->link.body, leaving->link.n};
    int r = send_flush(send, record_put_bytes(&send->record, RECORD_ABOUT, str_of(leaving->about)),
                       err);

    r = r < 0 ? r : send_flush(send, record_put_bytes(&send->record, RECORD_META, meta), err);
    for (uint32_t i = 0; r == 0 && i < leaving->what->layers_n; i++) {
        r = send_flush(
            send, record_put_layer(&send->record, leaving->what->layers[i], leaving->digests[i]),
            err);
    }
    return r;
}

static int memory_send(struct leaving *leaving, struct err *err)
{
    struct send *send = &leaving->send;

    if (leaving->memory_fd < 0) {
        return 0;
    }
    int r = send_flush(send, record_put_part(&send->record, RECORD_PART_MEMORY), err);
    return r < 0 ? r : send_memory(send, leaving->memory_fd, err);
}

static int disk_send(struct leaving *leaving, struct err *err)
{
    struct send *send = &leaving->send;
    scoped_fd upper =
        openat(leaving->disk_fd, POOL_UPPER, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    int r = upper < 0 ? err_sys(err, "open the files of %s", leaving->what->name)
                      : send_flush(send, record_put_part(&send->record, RECORD_PART_DISK), err);

    r = r < 0 ? r : send_tree(send, upper, err);
    return r < 0 ? r
                 : lower_links_send(send, leaving->shared->pool, leaving->disk_fd, leaving->what,
                                    err);
}

static int all_send(struct leaving *leaving, struct err *err)
{
    struct send *send = &leaving->send;
    int r = seal_out_new(&leaving->key, sink, leaving, &leaving->out, err);

    if (r < 0) {
        return r;
    }
    send_init(send, leaving->out);
    r = head_send(leaving, err);
    r = r < 0 ? r : memory_send(leaving, err);
    r = r < 0 ? r : disk_send(leaving, err);
    r = r < 0 ? r
              : send_flush(send, record_put_end(&send->record, send->entries, send->bytes), err);
    r = r < 0 ? r : seal_out_end(leaving->out, err);
    send_fini(send);
    seal_out_free(leaving->out);
    return r;
}

static int meta_receive(struct leaving *leaving, struct err *err)
{
    int r = link_receive(&leaving->link, err);

    if (r == 0 && (leaving->link.kind != TRAVEL_META || leaving->link.n > TRAVEL_META_BYTES_MAX ||
                   (leaving->link.n > 0 && memchr(leaving->link.body, '\0', leaving->link.n)))) {
        return err_set(err, EPROTO, "the server does not say what the snapshot is");
    }
    return r;
}

int travel_export(struct jail_shared *shared, const struct keeper_travel *what, int socket,
                  struct err *err)
{
    static struct leaving leaving;
    struct travel_end end = {0};

    leaving = (struct leaving){.shared = shared, .what = what};
    leaving.link.socket = socket;
    leaving.saved_fd = leaving.disk_fd = leaving.memory_fd = -1;
    int r = meta_receive(&leaving, err);
    r = r < 0 ? r : saved_look(&leaving, err);
    r = r < 0 ? r : layers_look(&leaving, err);
    r = r < 0 ? r : key_read(&leaving, err);
    r = r < 0 ? r : all_send(&leaving, err);
    explicit_bzero(&leaving.key, sizeof(leaving.key));
    fd_closep(&leaving.saved_fd);
    fd_closep(&leaving.disk_fd);
    fd_closep(&leaving.memory_fd);
    r = r < 0 ? err_wrap(err, "export") : 0;
    link_end(socket, &end, r, err);
    return r;
}
