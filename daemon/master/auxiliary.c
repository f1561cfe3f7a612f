/*
 * The processes that serve no connection, except that of ACME: logger, keys process, metrics
 * process.
 */
#include "daemon/master/internal.h"

#include "common/clock.h"
#include "common/segment_writer.h"
#include "daemon/base/events.h"
#include "daemon/tls/certificate_set.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* The listen sockets of the metrics process */

enum { BACKLOG = 64 };

static int find_text(const struct metrics_sockets *sockets, const char *text)
{
    for (size_t i = 0; i < sockets->count; i++)
        if (strcmp(sockets->address[i].text, text) == 0)
            return (int)i;
    return -1;
}

/* The inherited socket of this address; NULL: none. */
static struct inherited_socket *find_inherited(const struct inheritance *inheritance,
                                               const char *text)
{
    for (size_t i = 0; inheritance != NULL && i < inheritance->count; i++) {
        struct inherited_socket *socket = &inheritance->socket[i];

        if (socket->metrics && socket->fd >= 0 && strcmp(socket->text, text) == 0)
            return socket;
    }
    return NULL;
}

/* "*:9180" may replace "127.0.0.1:9180", and a probe would fail. */
static bool metrics_port_is_ours(const struct metrics_sockets *sockets, in_port_t port)
{
    for (size_t i = 0; i < sockets->count; i++)
        if (listen_socket_port(&sockets->address[i]) == port)
            return true;
    return false;
}

static int open_new(struct config_address *address, const struct metrics_sockets *current,
                    char *why, size_t size)
{
    int fd;

    if (!metrics_port_is_ours(current, listen_socket_port(address)) &&
        listen_socket_check(address, "metrics.listen", why, size) != 0)
        return -1;
    fd = listen_socket_open(address, BACKLOG, false);
    if (fd < 0)
        snprintf(why, size, "cannot listen on %s: %s", address->text, strerror(errno));
    return fd;
}

static bool is_loopback(const struct config_address *address)
{
    const struct sockaddr_in *four = (const struct sockaddr_in *)&address->address;
    const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)&address->address;

    if (address->address.ss_family == AF_INET)
        return ntohl(four->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
    return IN6_IS_ADDR_LOOPBACK(&six->sin6_addr);
}

static void report(const struct config_address *address, bool has_users)
{
    char text[sizeof(address->text) + 8];

    listen_socket_describe(address, text, sizeof(text));
    event_log(LEVEL_INFO, "metrics on http://%s/metrics", text);
    if (!is_loopback(address))
        event_log(LEVEL_WARN,
                  "other machines may reach the metrics on %s: %s; limit who can connect, %sor set "
                  "metrics.listen to a loopback address",
                  text,
                  has_users ? "passwords cross the network in clear text" : "they need no password",
                  has_users ? "" : "set metrics.users, ");
}

/* Returns the socket of ADDRESS, whose port it stores; or -1 with WHY. */
static int open_one(struct config_address *address, bool has_users,
                    const struct metrics_sockets *current, struct inheritance *inheritance,
                    char *why, size_t size)
{
    int at = find_text(current, address->text), fd;
    struct inherited_socket *inherited = find_inherited(inheritance, address->text);

    if (at >= 0) {
        address->address = current->address[at].address;
        fd = fcntl(current->fd[at], F_DUPFD_CLOEXEC, 0);
        if (fd < 0)
            snprintf(why, size, "cannot listen on %s: %s", address->text, strerror(errno));
        return fd;
    }
    if (inherited != NULL) {
        fd = inherited->fd;
        inherited->fd = -1;
        getsockname(fd, (struct sockaddr *)&address->address, &address->length);
    } else {
        fd = open_new(address, current, why, size);
    }
    if (fd >= 0)
        report(address, has_users);
    return fd;
}

int metrics_sockets_open(struct metrics_sockets *sockets, const struct config *config,
                         const struct metrics_sockets *current, struct inheritance *inheritance,
                         char *why, size_t size)
{
    sockets->count = 0;
    for (size_t i = 0; i < config->metrics_listen.count; i++) {
        struct config_address *address = &sockets->address[i];

        *address = config->metrics_listen.item[i];
        sockets->fd[i] =
            open_one(address, config->metrics_logins.count > 0, current, inheritance, why, size);
        if (sockets->fd[i] < 0) {
            metrics_sockets_close(sockets);
            return -1;
        }
        sockets->count++;
    }
    return 0;
}

void metrics_sockets_close(struct metrics_sockets *sockets)
{
    while (sockets->count > 0)
        close(sockets->fd[--sockets->count]);
}

static bool have_same_addresses(const struct metrics_sockets *one,
                                const struct metrics_sockets *other)
{
    for (size_t i = 0; i < one->count; i++)
        if (i >= other->count || strcmp(one->address[i].text, other->address[i].text) != 0)
            return false;
    return one->count == other->count;
}

bool metrics_sockets_replace(struct metrics_sockets *sockets, struct metrics_sockets *next)
{
    bool differ = !have_same_addresses(sockets, next);

    metrics_sockets_close(sockets);
    *sockets = *next;
    next->count = 0;
    return differ;
}

size_t metrics_sockets_export(const struct metrics_sockets *sockets,
                              struct inherited_socket *exported)
{
    for (size_t i = 0; i < sockets->count; i++) {
        exported[i] = (struct inherited_socket){.fd = sockets->fd[i], .metrics = true};
        memcpy(exported[i].text, sockets->address[i].text, sizeof(exported[i].text));
    }
    return sockets->count;
}

/* Starting and ending */

static const uint64_t REPLACE_PAUSE_NS = 1 * NS_PER_S;

/*
 * The keys process reports that the worker in SLOT with process PID, which may have ended, sent it
 * an invalid request, and has closed the link. It may have been taken over itself and accuse honest
 * workers: so the worker is replaced, which loses no connection, and only one at a time.
 */
static void on_keys_fault(void *context, uint32_t slot, pid_t pid)
{
    struct master *master = context;
    const struct workers *workers = &master->workers;
    uint64_t now_ns = clock_monotonic_ns();

    if (slot >= workers->count || workers->worker[slot].pid != pid || workers->stopping ||
        workers_count(workers, worker_is_leaving) > 0 || !workers_are_renewed(master) ||
        now_ns < master->auxiliary.accused_ns + REPLACE_PAUSE_NS)
        return;
    master->auxiliary.accused_ns = now_ns;
    metric_add(segment_master(&master->segment)->metrics, METRIC_protocol_errors, 1);
    event_log(LEVEL_ERROR,
              "worker %u (pid %d) sent the keys process an invalid request: replacing it", slot,
              pid);
    supervisor_replace(master, slot);
}

int auxiliary_init(struct master *master)
{
    struct auxiliary *auxiliary = &master->auxiliary;
    struct segment *segment = &master->segment;

    auxiliary->keys = (struct keys_process){
        .child = {.name = "keys process",
                  .shown_pid = &segment_master(segment)->keys_pid,
                  .deaths = &segment_master(segment)->metrics[METRIC_processes_died]},
        .base = master->base,
        .segment = segment,
        .fault = on_keys_fault,
        .context = master};
    auxiliary->metrics = (struct metrics_process){
        .child = {.name = "metrics process",
                  .shown_pid = &segment_master(segment)->metrics_pid,
                  .deaths = &segment_master(segment)->metrics[METRIC_processes_died]},
        .fd = -1,
        .segment = segment};
    auxiliary->doorbell = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (auxiliary->doorbell < 0 || pipe2(auxiliary->alive, O_NONBLOCK | O_CLOEXEC) != 0)
        return -1;
    return logger_process_init(&auxiliary->logger, master->base, segment, &auxiliary->logs,
                               &auxiliary->salvage);
}

void auxiliary_free(struct auxiliary *auxiliary)
{
    if (auxiliary->keys.segment == NULL)
        return;
    logger_process_free(&auxiliary->logger);
    child_free(&auxiliary->keys.child);
    metrics_process_free(&auxiliary->metrics);
}

static void start_logger(struct master *master)
{
    const struct auxiliary *auxiliary = &master->auxiliary;
    struct logger_setup setup = {.config = auxiliary->logs.config,
                                 .segment = &master->segment,
                                 .doorbell = auxiliary->doorbell,
                                 .alive_fd = auxiliary->alive[0]};
    pid_t before = auxiliary->logger.child.pid;

    logger_process_start(&master->auxiliary.logger, &setup, master_after_fork, master);
    if (auxiliary->logger.child.pid != before)
        totals_remember_logger(master);
}

/* True while a worker without its own keys lives or will start. */
static bool wants_keys(const struct master *master)
{
    const struct workers *workers = &master->workers;

    if (!workers->stopping && certificate_set_is_remote(master->certificates.set))
        return true;
    for (uint32_t i = 0; i < workers->count; i++)
        if (certificate_set_is_remote(workers->worker[i].certificates))
            return true;
    return false;
}

static void reconcile_keys(struct master *master)
{
    struct keys_setup setup = {.config = master->config, .segment = &master->segment};

    if (!wants_keys(master))
        child_stop(&master->auxiliary.keys.child);
    else if (keys_process_start(&master->auxiliary.keys, &setup, master_after_fork, master))
        for (uint32_t i = 0; i < master->workers.count; i++)
            master->workers.worker[i].keys_links = 0;
}

static void reconcile_metrics(struct master *master)
{
    struct auxiliary *auxiliary = &master->auxiliary;
    struct metrics_setup setup = {.config = master->config,
                                  .segment = &master->segment,
                                  .listen_fd = auxiliary->metrics_sockets.fd,
                                  .listen_count = auxiliary->metrics_sockets.count};

    if (auxiliary->metrics_wanted && auxiliary->metrics_sockets.count > 0)
        metrics_process_start(&auxiliary->metrics, &setup, master_after_fork, master);
    else
        metrics_process_release(&auxiliary->metrics);
}

void auxiliary_reconcile(struct master *master)
{
    start_logger(master);
    reconcile_keys(master);
    reconcile_metrics(master);
}

void auxiliary_send_links(struct master *master)
{
    for (uint32_t i = 0; i < master->workers.count; i++)
        if (master->workers.worker[i].state != WORKER_NONE &&
            worker_process_send_links(&master->workers.worker[i]) != 0 && errno != EPIPE)
            event_log(LEVEL_ERROR, "cannot link worker %u with the keys process: %s", i,
                      strerror(errno));
}

uint64_t auxiliary_retry_ns(const struct auxiliary *auxiliary, uint64_t now_ns)
{
    const struct child *children[] = {&auxiliary->logger.child, &auxiliary->keys.child,
                                      &auxiliary->metrics.child};
    uint64_t when = UINT64_MAX;

    for (size_t i = 0; i < ARRAY_LENGTH(children); i++) {
        uint64_t retry = child_retry_ns(children[i], now_ns);

        when = retry < when ? retry : when;
    }
    return when;
}

bool auxiliary_ended(struct master *master, pid_t pid, int status, const char *how)
{
    struct auxiliary *auxiliary = &master->auxiliary;

    if (pid == auxiliary->logger.child.pid) {
        totals_limit_logger(master, clock_monotonic_ns());
        logger_process_ended(&auxiliary->logger, how, status != 0);
    } else if (pid == auxiliary->keys.child.pid) {
        keys_process_ended(&auxiliary->keys, how);
    } else if (metrics_process_ended(&auxiliary->metrics, pid, how)) {
        upgrade_pass_metrics(master);
    } else {
        return false;
    }
    return true;
}

void auxiliary_check(struct master *master, uint64_t now_ns)
{
    struct auxiliary *auxiliary = &master->auxiliary;
    uint64_t timeout_ms = master->config->workers_heartbeat_timeout;
    uint64_t resumed_ns = master->monitor.resumed_ns;

    logger_process_check(&auxiliary->logger, timeout_ms, resumed_ns, now_ns);
    keys_process_check(&auxiliary->keys, timeout_ms, resumed_ns, now_ns);
    metrics_process_check(&auxiliary->metrics, timeout_ms, resumed_ns, now_ns);
    child_check_threads(&auxiliary->logger.child);
    child_check_threads(&auxiliary->keys.child);
    child_check_threads(&auxiliary->metrics.child);
}

/* The logger */

void auxiliary_stop_logger(struct master *master, uint32_t wait_ms)
{
    struct logger_process *logger = &master->auxiliary.logger;

    logger->child.backoff = (struct backoff){0}; /* no delay any more, as lines may be left */
    logger_process_stop(logger, wait_ms);
    start_logger(master);
}

bool auxiliary_logger_has_finished(const struct auxiliary *auxiliary)
{
    return auxiliary->logger.finished && auxiliary->logger.child.pid == 0;
}

int auxiliary_reopen_logs(struct master *master, uint32_t *number, char *why, size_t size)
{
    struct segment_master *block = segment_master(&master->segment);
    struct auxiliary *auxiliary = &master->auxiliary;

    if (log_files_reopen(&auxiliary->logs, why, size) != 0)
        return -1;
    *number = auxiliary->logger.number + 1;
    atomic_store_explicit(&block->logs_wanted, *number, memory_order_relaxed);
    logger_process_send_files(&auxiliary->logger, *number);
    inheritance_report_reopened(&master->upgrade.inheritance);
    return 0;
}

void auxiliary_replace_logs(struct auxiliary *auxiliary, const struct log_files *logs)
{
    salvage_renumber(&auxiliary->salvage, &auxiliary->logs.targets, &logs->targets);
    log_files_close(&auxiliary->logs);
    auxiliary->logs = *logs;
    logger_process_restart(&auxiliary->logger);
}

/* The metrics process */

void auxiliary_start_metrics(struct master *master)
{
    master->auxiliary.metrics_wanted = true;
    reconcile_metrics(master);
}

void auxiliary_renew_metrics(struct master *master)
{
    metrics_process_release(&master->auxiliary.metrics);
    reconcile_metrics(master);
}

void auxiliary_release_metrics(struct auxiliary *auxiliary)
{
    auxiliary->metrics_wanted = false;
    metrics_process_release(&auxiliary->metrics);
    metrics_sockets_close(&auxiliary->metrics_sockets);
}

void auxiliary_end_metrics(struct auxiliary *auxiliary)
{
    auxiliary_release_metrics(auxiliary);
    metrics_process_kill(&auxiliary->metrics);
}
