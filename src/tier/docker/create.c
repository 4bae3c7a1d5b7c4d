/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A container's settings: it can only run programs of its image on its own files. All are explicit,
 * because an engine's defaults are configurable.
 */
#include <stdio.h>
#include <string.h>

#include "base/fd.h"
#include "base/str.h"
#include "guest/pid1/container.h"
#include "guest/spec.h"
#include "tier/docker/docker.h"

enum {
    COPIES_IN_RESERVE = 66, /* sleeping copies of the interpreter, up to one per snapshot */
    UNHELD = 2,             /* not counted below: pid 1, and an ending process */
    RUNTIME_THREADS = 10,   /* of the program that starts the container */
    /* ... the relay, and an ending process */
    OWN_PROCESSES = SNP_OWN_PROCESSES + RUNTIME_THREADS + 2,
    RESERVE = 64 << 20, /* memory for our processes inside, and for copies */
    FILES_STORE = SNP_COPIES_BYTES_MAX,
    SMALL = 4096,
    MOUNT_POINTS = 16,         /* our mount points, if the image has a volume above them */
    PROGRAM_DATA = 32 << 20,   /* per interpreter; mostly unused stacks */
    PROGRAM_SPACE = 128 << 20, /* ..., mapped files */
    OWN_FILES = 64,            /* descriptors of pid 1, before the code's limit applies */
    PODMAN_PROCESSES = 32768,  /* of all containers together, which share a user */
    GVISOR_THREADS = 1024,     /* it needs several for each of ours */
    GVISOR_MEMORY = 128 << 20,
};

static uint64_t limit_of(const struct snp_sandbox *s, enum snp_limit limit)
{
    return s->spec.limits.value[limit];
}

/* A tmpfs that the code may write to, unless its mode denies it. */
struct tmpfs {
    const char *path;
    const char *flags;
    unsigned mode;
    uint64_t bytes;
    uint64_t files;
};

/*
 * Podman supports no owner for a tmpfs, so its mode is 01777 there (only the code has access), and
 * no limit on its files.
 */
static void add_tmpfs(const struct snp_sandbox *s, json_t *tmpfs, const struct tmpfs *t)
{
    const unsigned mode = (t->mode & 0200U) == 0 ? t->mode : 01777;
    const unsigned long long bytes = t->bytes;
    const int owner = (t->mode & 0200U) == 0 ? 0 : SNP_DOCKER_USER;

    (void)json_object_set_new(
        tmpfs, t->path,
        snp_docker_engine(s)->is_podman
            ? json_sprintf("rw,nosuid,nodev,%s,size=%llu,mode=%o,notmpcopyup",
                           strstr(t->flags, "noexec") != NULL ? "noexec" : "exec", bytes, mode)
            : json_sprintf("rw,nosuid,nodev,%s,size=%llu,nr_inodes=%llu,mode=%o,uid=%d,gid=%d",
                           t->flags, bytes, (unsigned long long)t->files, t->mode, owner, owner));
}

/*
 * All writable folders. Volumes of the image are included, because they would be writable without a
 * limit.
 */
static json_t *make_tmpfs(const struct snp_sandbox *s)
{
    const json_t *volumes =
        json_object_get(json_object_get(snp_docker_sandbox_of(s)->image, "Config"), "Volumes");
    uint64_t tmp = limit_of(s, SNP_LIMIT_TMP);
    json_t *tmpfs = json_object();
    uint64_t room;
    const char *path;
    json_t *ignored;

    (void)snp_sandbox_room(s, &room);
    json_object_foreach((json_t *)(uintptr_t)volumes, path, ignored)
    {
        add_tmpfs(s, tmpfs, &(const struct tmpfs){path, "noexec", 0555, SMALL, MOUNT_POINTS});
    }
    const struct tmpfs own[] = {
        {"/tmp", "noexec", 01777, tmp, tmp / 4096 + 64},
        {"/workspace", "exec,strictatime", 0755, room, limit_of(s, SNP_LIMIT_INODES) + 1},
        {SNP_CONTAINER_COPIES, "noexec", 0700, FILES_STORE, SNP_COPIES_FILES_MAX + 1},
    };
    for (size_t i = 0; i < SNP_ARRAY_LEN(own); i++) {
        add_tmpfs(s, tmpfs, &own[i]);
    }
    return tmpfs;
}

static json_t *make_ulimits(const struct snp_sandbox *s)
{
    const struct {
        const char *name;
        uint64_t value;
    } rows[] = {
        {"core", 1},
        {"fsize", limit_of(s, SNP_LIMIT_FILE)},
        {"memlock", 64 << 10},
        /* without a value, podman requests more than root may have */
        {"nproc", snp_docker_engine(s)->is_podman ? PODMAN_PROCESSES : 0},
        {"msgqueue", 0},
        {"nofile", limit_of(s, SNP_LIMIT_OPEN_FILES) + OWN_FILES},
        {"sigpending", 1024},
        {"stack", 8 << 20},
    };
    json_t *list = json_array();

    for (size_t i = 0; i < SNP_ARRAY_LEN(rows); i++) {
        if (snp_streq(rows[i].name, "nproc") && rows[i].value == 0) {
            continue;
        }
        (void)json_array_append_new(list, json_pack("{s:s,s:I,s:I}", "Name", rows[i].name, "Soft",
                                                    (json_int_t)rows[i].value, "Hard",
                                                    (json_int_t)rows[i].value));
    }
    return list;
}

static void add_mount(json_t *list, json_t *source, json_t *target)
{
    (void)json_array_append_new(list, json_pack("{s:s,s:o,s:o,s:b,s:{s:s}}", "Type", "bind",
                                                "Source", source, "Target", target, "ReadOnly", 1,
                                                "BindOptions", "Propagation", "rprivate"));
}

/* Our programs and the line's folder, read-only. */
static json_t *make_mounts(const struct snp_sandbox *s)
{
    static const char *const shown[] = {"guest", "snp-init", "snp-files"};
    const char *ours = snp_docker_engine(s)->ours;
    json_t *list = json_array();

    for (size_t i = 0; i < SNP_ARRAY_LEN(shown); i++) {
        add_mount(list, json_sprintf("%s/%s", ours, shown[i]),
                  json_sprintf(SNP_CONTAINER_OURS "/%s", shown[i]));
    }
    add_mount(list, json_string(snp_docker_sandbox_of(s)->line.folder),
              json_string(SNP_CONTAINER_LINE));
    return list;
}

uint64_t snp_docker_memory(const struct snp_sandbox *s)
{
    uint64_t memory = limit_of(s, SNP_LIMIT_MEMORY);

    return memory + memory / 4 + RESERVE + (snp_docker_is_gvisor(s) ? GVISOR_MEMORY : 0);
}

uint64_t snp_docker_pids(const struct snp_sandbox *s)
{
    return limit_of(s, SNP_LIMIT_PROCESSES) + OWN_PROCESSES +
           (s->spec.is_lasting ? COPIES_IN_RESERVE : 0) +
           (snp_docker_is_gvisor(s) ? GVISOR_THREADS : 0);
}

/*
 * Paths of /proc and /sys that reveal the host: all but those that programs need, as in native. The
 * list is complete, because it replaces the engine's; paths that a kernel lacks are ignored.
 */
static const char hidden[] =
    "mask=/proc/acpi:/proc/asound:/proc/bootconfig:/proc/buddyinfo:/proc/bus:/proc/cgroups:"
    "/proc/cmdline:/proc/config.gz:/proc/consoles:/proc/crypto:/proc/devices:/proc/diskstats:"
    "/proc/dma:/proc/driver:/proc/dynamic_debug:/proc/execdomains:/proc/fb:/proc/fs:"
    "/proc/interrupts:/proc/iomem:/proc/ioports:/proc/irq:/proc/kallsyms:/proc/kcore:"
    "/proc/key-users:/proc/keys:/proc/kmsg:/proc/kpagecgroup:/proc/kpagecount:"
    "/proc/kpageflags:/proc/latency_stats:/proc/locks:/proc/mdstat:/proc/misc:/proc/modules:"
    "/proc/mtrr:/proc/pagetypeinfo:/proc/partitions:/proc/pressure:/proc/sched_debug:"
    "/proc/schedstat:/proc/scsi:/proc/slabinfo:/proc/softirqs:/proc/swaps:"
    "/proc/sysrq-trigger:/proc/sysvipc:/proc/timer_list:/proc/timer_stats:/proc/tty:"
    "/proc/vmallocinfo:/proc/vmstat:/proc/zoneinfo:/sys/firmware:"
    "/sys/devices/virtual/powercap";

/* Podman takes them as an option. */
static void hide_paths(const struct snp_sandbox *s, json_t *host)
{
    json_t *list = json_array();

    for (const char *at = strchr(hidden, '/'); *at != '\0'; at += *at == ':' ? 1 : 0) {
        size_t n = strcspn(at, ":");

        (void)json_array_append_new(list, json_stringn(at, n));
        at += n;
    }
    (void)json_object_set_new(host, "MaskedPaths", list);
    if (snp_docker_engine(s)->is_podman) {
        (void)json_array_append_new(json_object_get(host, "SecurityOpt"), json_string(hidden));
    }
}

static void bound_sockets(const struct snp_sandbox *s, json_t *host)
{
    static const char *const rows[][2] = {
        {"net.ipv4.tcp_rmem", SNP_TCP_BUFFERS},
        {"net.ipv4.tcp_wmem", SNP_TCP_BUFFERS},
        {"net.ipv4.udp_rmem_min", SNP_UDP_BUFFERS},
        {"net.ipv4.udp_wmem_min", SNP_UDP_BUFFERS},
    };
    json_t *settings = json_object();

    for (size_t i = 0; i < SNP_ARRAY_LEN(rows); i++) {
        (void)json_object_set_new(settings, rows[i][0], json_string(rows[i][1]));
    }
    if (s->spec.has_network || snp_docker_is_gvisor(s)) { /* gVisor counts its buffers */
        (void)json_object_clear(settings);
    }
    (void)json_object_set_new(host, "Sysctls", settings);
}

static json_t *make_host(const struct snp_sandbox *s)
{
    json_int_t bytes = (json_int_t)snp_docker_memory(s);
    json_t *host =
        json_pack("{s:s,s:b,s:b,s:b,s:[s],s:[s,o],s:s,s:s}", "NetworkMode",
                  s->spec.has_network ? "default" : "none", "ReadonlyRootfs", 1, "AutoRemove", 1,
                  "Privileged", 0, "CapDrop", "ALL", "SecurityOpt", "no-new-privileges:true",
                  json_sprintf("seccomp=%s", json_string_value(snp_docker_engine(s)->filter)),
                  "IpcMode", "private", "CgroupnsMode", "private");

    if (snp_docker_runtime(s)[0] != '\0') {
        (void)json_object_set_new(host, "Runtime", json_string(snp_docker_runtime(s)));
    }
    (void)json_object_update_new(
        host,
        json_pack("{s:I,s:I,s:I,s:I,s:I,s:o,s:o,s:o,s:{s:s,s:{}}}", "Memory", bytes, "MemorySwap",
                  bytes, "NanoCpus", (json_int_t)limit_of(s, SNP_LIMIT_CPUS) * 1000000, "PidsLimit",
                  (json_int_t)snp_docker_pids(s), "ShmSize", (json_int_t)limit_of(s, SNP_LIMIT_TMP),
                  "Ulimits", make_ulimits(s), "Tmpfs", make_tmpfs(s), "Mounts", make_mounts(s),
                  "LogConfig", "Type", "none", "Config"));
    bound_sockets(s, host);
    hide_paths(s, host);
    return host;
}

int snp_docker_suit_podman(struct snp_docker *docker, const char *state_dir)
{
    const char *text = json_string_value(docker->filter);
    json_t *path = json_sprintf("%s/seccomp.json", state_dir);
    struct snp_err err;

    docker->is_podman = true;
    if (path == NULL ||
        snp_file_write_atomic(json_string_value(path), text, strlen(text), 0600, &err) < 0) {
        json_decref(path);
        return -1;
    }
    json_decref(docker->filter);
    docker->filter = path;
    return 0;
}

/* All variables, 0 = none: an image may set the same names. */
static json_t *make_env(const struct snp_sandbox *s)
{
    const bool is_gvisor = snp_docker_is_gvisor(s); /* its pids count other processes */
    const uint64_t memory = limit_of(s, SNP_LIMIT_MEMORY);
    const struct {
        const char *name;
        uint64_t value;
    } rows[] = {
        {SNP_CONTAINER_DATA, memory + PROGRAM_DATA},
        {SNP_CONTAINER_SPACE, is_gvisor ? memory + PROGRAM_SPACE : 0},
        {SNP_CONTAINER_FILES, limit_of(s, SNP_LIMIT_OPEN_FILES)},
        {SNP_CONTAINER_ROOM,
         is_gvisor ? 0 : snp_docker_pids(s) - limit_of(s, SNP_LIMIT_PROCESSES) - UNHELD},
    };
    json_t *list = json_array();

    for (size_t i = 0; i < SNP_ARRAY_LEN(rows); i++) {
        (void)json_array_append_new(
            list, json_sprintf("%s=%llu", rows[i].name, (unsigned long long)rows[i].value));
    }
    return list;
}

json_t *snp_docker_create_body(const struct snp_sandbox *s)
{
    const struct snp_docker *docker = snp_docker_engine(s);

    return json_pack(
        "{s:s,s:[s],s:s,s:[],s:o,s:s,s:s,s:b,s:b,s:b,s:b,s:b,s:b,s:b,s:{s:[s]},"
        "s:{s:s,s:s,s:s},s:o}",
        "Image", s->spec.python.rootfs, "Entrypoint", SNP_CONTAINER_OURS "/snp-init", "StopSignal",
        "SIGKILL", "Cmd", "Env", make_env(s), "User", "65534:65534", "WorkingDir", "/", "OpenStdin",
        1, "StdinOnce", 1, "AttachStdin", 1, "AttachStdout", 1, "AttachStderr", 1, "Tty", 0,
        "NetworkDisabled", !s->spec.has_network, "Healthcheck", "Test", "NONE", "Labels",
        "snipara-sandbox.session", s->is_pooled ? "" : s->spec.id, "snipara-sandbox.state",
        s->supervisor->state_dir, "snipara-sandbox.mark", docker->mark, "HostConfig", make_host(s));
}
