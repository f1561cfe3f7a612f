/*
 * The master and those of its parts that know it. Everything runs in one event loop, so nothing in
 * this directory needs a lock. Parts that need no master have headers of their own.
 */
#ifndef DAEMON_MASTER_INTERNAL_H
#define DAEMON_MASTER_INTERNAL_H

#include "common/segment_reader.h"
#include "daemon/acme/process.h"
#include "daemon/base/service.h"
#include "daemon/config/config.h"
#include "daemon/config/options.h"
#include "daemon/control/socket.h"
#include "daemon/keys/keys.h"
#include "daemon/logger/log_files.h"
#include "daemon/logger/process.h"
#include "daemon/logger/salvage.h"
#include "daemon/master/dispatch.h"
#include "daemon/master/host_table.h"
#include "daemon/master/inheritance.h"
#include "daemon/master/listeners.h"
#include "daemon/master/master.h"
#include "daemon/master/pid_file.h"
#include "daemon/master/rebalance.h"
#include "daemon/master/workers.h"
#include "daemon/metrics/metrics.h"
#include "daemon/transaction/limits.h"

#include <event2/event.h>
#include <jansson.h>

struct cgroup;
struct rlimit;
struct certificate_loading;
struct certificate_set;
struct tls_description;
struct tls_tickets;

/* The life cycle of the master: lifecycle.def */

enum life_state {
#define LIFE_STATE(name, help) LIFE_##name,
#include "daemon/master/lifecycle.def"
    LIFE_STATES
};

enum life_event {
#define LIFE_EVENT(name, help, ...) EVENT_##name,
#include "daemon/master/lifecycle.def"
    LIFE_EVENTS
};

struct lifecycle {
    enum life_state state;
    struct event *timer; /* reports EVENT_timeout */
    bool acting;
    uint32_t deferred; /* events reported during an action, as bits */
    struct event *signal[SIGNALS_HANDLED];
    bool announced; /* it has been announced that all workers serve */
    bool stop_requested;
    bool failed;     /* it could not take over from the old master */
    bool retired;    /* another master serves: wait for requests for metrics */
    bool forced;     /* a second stop came: wait for nothing */
    bool lost_lines; /* the stop is complete, but the access log lacks lines */
};

/*
 * The listen sockets of [metrics] listen. The master keeps them open so that the metrics process
 * can be replaced and a new master can inherit them.
 */
struct metrics_sockets {
    struct config_address address[CONFIG_LIST_MAX]; /* their ports are the bound ones */
    int fd[CONFIG_LIST_MAX];
    size_t count;
};

/* The processes that serve no connection, except that of ACME, and what they are given. */
struct auxiliary {
    struct logger_process logger;
    struct log_files logs;
    struct salvage salvage; /* lines of a killed server with this name */
    int doorbell;           /* eventfd: wakes the logger */
    int alive[2]; /* pipe: the master and all workers have its write end, the logger its read end */
    struct keys_process keys;
    struct metrics_process metrics;
    struct metrics_sockets metrics_sockets;
    bool metrics_wanted;
    uint64_t accused_ns; /* when the keys process last had a worker replaced, monotonic clock */
};

/* What TLS needs, and the process that obtains certificates. Times are of the monotonic clock. */
struct certificates {
    struct certificate_set *set; /* NULL: no listen socket needs it */
    struct tls_tickets *tickets; /* NULL: TLS has not been needed yet */
    uint64_t tickets_ns;         /* when their keys were last rotated */
    struct acme_process process;
    bool process_wanted;   /* after certificates_start(), until certificates_stop() */
    bool pending;          /* of [acme] one is new, and not in use yet */
    bool loading;          /* it has been loaded, which may have failed... */
    bool again;            /* ...and since then another one is new */
    bool sent;             /* renewed ones, of which some workers have not reported the use */
    uint64_t next_load_ns; /* before it, the ACME process causes no other one */

    struct certificate_loading *checks; /* of renewed ones, or for reload.next; NULL: none */
    uint64_t checks_ns;                 /* since when */
    struct event *check_ended;
    struct certificate_set *checked; /* those of reload.next; NULL: none */
};

/* What a reload replaces. */
enum renewal {
    RENEWAL_CONFIG, /* everything */
    RENEWAL_ROOTS,  /* not the configuration, whatever its file says by now */
    RENEWAL_MODEL,  /* the model of the workers, by command, otherwise the same */
    RENEWAL_USERS,  /* the contents of users files, otherwise the same */
};

/* The files of one kind: numbers that differ when one of them is another. */
struct file_watch {
    uint64_t in_use, last; /* last: when looked at; 0: some are missing */
};

/* Of the configuration: the roots of all sites, then the directories of follow_into. */
struct roots {
    size_t count;
    const char **path; /* belong to the configuration */
    int *fd;           /* -1: that of the first site */
    bool *missing;     /* the directory does not exist, which has been reported */
};

/* Looks for other directories in their place. */
struct root_watch {
    int inotify;           /* -1: none */
    struct event *changed; /* inotify is readable */
    struct event *look;
    uint64_t next_ns; /* another generation starts no earlier; monotonic */
};

struct reload {
    struct config *next;                /* while its certificates are checked, else NULL */
    struct config *previous;            /* while the new workers start, else NULL */
    struct log_files new_logs;          /* opened for the new configuration, meanwhile */
    struct metrics_sockets new_metrics; /* the same */
    struct certificate_set *previous_set;
    struct roots previous_roots;
    uint32_t previous_generation;
    bool waiting;          /* another reload has been requested meanwhile */
    enum renewal renewal;  /* of the last attempt */
    uint32_t model_before; /* enum config_model, of the last RENEWAL_MODEL */
    uint32_t threads_before;
    uint64_t started, done; /* numbers of attempts */
    uint64_t last_attempt;  /* 0: the last request was refused */
    char *last_failure;     /* NULL: the last attempt succeeded */
    char *refusal;          /* why the last request was not accepted; NULL: out of memory */
    json_t *changed;        /* names of the keys and sections that the last reload changed */
};

/* The old master of an upgrade, as its counters are copied. */
struct predecessor {
    struct segment_reader reader; /* of its segment; not mapped: there is nothing more to copy */
    struct earlier_host {
        uint32_t from, to; /* entries of HOSTS in its segment and in this one... */
        uint64_t id;       /* ...where the host has this id */
    } * host;
    size_t host_count;
};

/* Binary upgrades: from an old master to this one, and from this one to a new one. */
struct upgrade {
    struct inheritance inheritance;
    struct event *inheritance_readable; /* reads the link to the old master */
    struct predecessor predecessor;
    uint64_t metrics_due_ns; /* the metrics process starts then, or earlier; 0: it need not wait */
    pid_t successor_pid;     /* 0: no upgrade in progress */
    int successor_link;      /* -1: none */
    struct event *link_readable;
    bool queued; /* it starts when the reload has ended */
    bool successor_serves;
    bool stop_sent;           /* to the successor */
    char successor_end[128];  /* for the error log */
    int report;               /* file in which the successor reports errors; -1: none */
    uint64_t requested, done; /* numbers of requests; those up to DONE have their result */
    const char *refusal;      /* of the last request; NULL: it was accepted */
    char *failure;            /* of the last upgrade; NULL: it succeeded */
};

enum { HANDSHAKE_FAILURE_REASONS = 6 };

/* A limit for the lines about failed handshakes of one kind. All zero at first. */
struct handshake_failures {
    uint64_t logged[HANDSHAKE_FAILURE_REASONS]; /* counters at the last line */
    uint64_t last_ns;                           /* when it was logged, monotonic; 0: never */
    uint64_t interval_ns;                       /* until the next line */
};

struct summary {
    struct event *timer;
    uint32_t interval_ms;          /* 0: no summaries */
    uint64_t since_ns;             /* monotonic clock */
    uint64_t before[METRIC_COUNT]; /* sums at the last summary */
    struct histogram_window latency;
};

/* What the master watches, counts and logs, mostly once a second. */
enum { QUESTIONS_REMEMBERED = 16 };

struct monitor {
    struct event *second;
    struct {
        uint64_t number, asked_ns;    /* monotonic clock; 0: not asked yet */
    } question[QUESTIONS_REMEMBERED]; /* the last ones in the segment */
    uint32_t questions;               /* number of the next one */
    uint64_t checked_ns;              /* when supervisor_check() last ran */
    uint64_t resumed_ns;   /* when it last ran late: before that, the master was suspended */
    struct cgroup *cgroup; /* NULL: none */
    struct event *memory_timer;
    struct histogram_window latency, queue_waits; /* since the last sample */
    struct summary summary;
    struct handshake_failures tls_failures, proxy_failures;
    json_t *worker_deaths; /* newest first; NULL: none */
};

struct master {
    const struct options *options;
    struct config *config; /* in force, or being applied by a reload; commands change values */
    struct event_base *base;
    struct segment segment;
    struct pid_file pid_file;
    struct control_socket *control;
    struct lifecycle life;
    struct listeners *listeners; /* NULL once a stop has closed them */
    struct host_table hosts;
    struct workers workers;
    struct dispatch dispatch;
    struct rebalance rebalance;
    struct auxiliary auxiliary;
    struct certificates certificates;
    struct reload reload;
    struct roots roots; /* of the current generation */
    struct root_watch root_watch;
    struct file_watch certificate_files, users_files, config_file;
    struct upgrade upgrade;
    struct monitor monitor;
};

/* --- master.c --- */

/*
 * A process, or a move of connections, has changed: reports what that means for the life cycle, and
 * sends the replies that have waited for it.
 */
void master_changed(struct master *master);

/*
 * The first call of each child, MASTER being a struct master: frees the master's resources, except
 * the configuration and the segment.
 */
void master_after_fork(void *master);

/* Logs each setting that has no effect. */
void master_log_notes(const struct master *master);

/*
 * Sets the number of workers and of threads in each, if there is room for them. Returns 0, or -1
 * with WHY and nothing changed. The change is in force when workers_are_settled().
 */
int master_resize(struct master *master, uint32_t workers, uint32_t threads, char *why,
                  size_t size);

/* --- lifecycle.c --- */

/* Returns 0, or -1: out of memory. */
int lifecycle_init(struct master *master);
void lifecycle_free(struct lifecycle *life);

/*
 * Carries out the action for EVENT: whoever observes an event reports it here, only the table
 * decides what happens. The state changes before the action, whose reports are handled when it has
 * returned; so an action never runs within another one.
 */
void lifecycle_report(struct master *master, enum life_event event);

/* Reports what has changed in the processes, and starts what has waited for it. */
void lifecycle_report_processes(struct master *master);

/* EVENT_stop or EVENT_stop_command; the second call kills the workers. */
void lifecycle_stop(struct master *master, enum life_event event);

/* Reports EVENT_timeout in MS milliseconds, unless the state changes before. */
void lifecycle_set_deadline(struct master *master, uint64_t ms);

/* True from the beginning of a stop or of the retirement after an upgrade. */
bool lifecycle_is_stopping(const struct master *master);

/*
 * The actions: lifecycle.def says what each does. They are in lifecycle.c, reload.c and upgrade.c.
 * Each returns 0, or -1 with nothing changed: the state then remains as it was.
 */
#define LIFE_ACTION(name, next, help) int act_##name(struct master *master);
#include "daemon/master/lifecycle.def"

/* --- reload.c: another configuration --- */

void reload_free(struct reload *reload);

/*
 * Frees the previous configuration if a reload is under way. Only at the end of the master: in a
 * child, which calls reload_free() too, it may be the configuration of the logger.
 */
void reload_free_previous(struct master *master);

/*
 * Checks the file and starts the reload, or queues it after the current change. Returns the number
 * of the attempt; or 0 with nothing changed and the refusal.
 */
uint64_t reload_request(struct master *master);

/* The same with errors logged. BY is who requests it, for the log. */
void reload_request_by(struct master *master, const char *by);

/*
 * Starts a reload of only the roots or the users files. Returns false if another change is under
 * way: then call it again later. Errors are logged.
 */
bool reload_renew(struct master *master, enum renewal renewal);

/* After a RENEWAL_MODEL that failed: the configuration has the model and the threads from before. */
void reload_restore_model(struct master *master);

/* Stores for the metrics whether the last reload, or the start, was GOOD. */
void reload_record(const struct master *master, bool good);

/* True if another change is under way, which a renewal must not cross. */
bool reload_must_wait(const struct master *master);

/* Starts the queued reload, if there is one. Call when no old worker is left. */
void reload_start_waiting(struct master *master);

/* The certificates of reload.next are checked; WHY, if they cannot be used, else NULL. */
void reload_certificates_checked(struct master *master, const char *why);

/*
 * Reports EVENT_new_died if WORKER, which has died, was a new one that never served; HOW describes
 * it. Or because a worker could not be started.
 */
void reload_worker_died(struct master *master, const struct worker_process *worker,
                        const char *how);
void reload_worker_not_started(struct master *master, const char *why);

/* True if that attempt has ended, successfully or not. */
bool reload_is_done(const struct master *master, uint64_t attempt);

/* --- roots.c: the document roots --- */

/* Returns 0, or -1 with WHY and ROOTS empty. */
int roots_open(struct roots *roots, const struct config *config, char *why, size_t size);
void roots_close(struct roots *roots);

/* Watches for changes. Returns 0, or -1: out of memory. */
int root_watch_start(struct master *master);
void root_watch_free(struct root_watch *watch);

/* Once a second: if another directory has the path of a root, starts a generation that serves it. */
void roots_look(struct master *master);

/* Logs which roots differ from those BEFORE, now that the new ones are in use. */
void roots_committed(struct master *master, const struct roots *before);

/* --- file_watch.c: certificates and users files --- */

/* The files of the configuration are about to be read, or have just been. */
void file_watch_begin(struct master *master);

/* Once a second: starts a reload of only those that have changed. */
void file_watch_look(struct master *master);

/* --- upgrade.c: another binary --- */

/*
 * A new master, executed with the command line of this one, takes over the listen sockets. It makes
 * its own segment and control socket with ".new" behind their names; when all its workers serve, it
 * renames them over ours and reports; then this master shuts down gracefully. If it ends before
 * that or takes longer than UPGRADE_S, this master continues unchanged.
 */
enum { UPGRADE_S = 60 };

void upgrade_free(struct upgrade *upgrade);

/*
 * Starts an upgrade, or queues it after the current change. Returns the number of the request; or 0
 * with upgrade.refusal.
 */
uint64_t upgrade_request(struct master *master);

/* True if that request has its result (upgrade.failure), or the server stops. */
bool upgrade_is_done(const struct master *master, uint64_t number);

/*
 * Completes the upgrade from the old master, if there is one. Returns 0; or -1, and this master
 * shuts down.
 */
int upgrade_take_over(struct master *master);

/* Watches the link to the old master. Returns 0, or -1: out of memory. */
int upgrade_watch_old_master(struct master *master);

/*
 * Reports EVENT_successor_ended if PID, a child that has ended, was the new master; HOW describes
 * the end.
 */
void upgrade_child_ended(struct master *master, pid_t pid, const char *how);

/* Reports EVENT_upgrade again if an upgrade is queued. Call when no reload is in progress. */
void upgrade_start_waiting(struct master *master);

/* True if the new master has received upgrade_stop() and has not ended yet. */
bool upgrade_must_end(const struct master *master);

/* Once a second: what upgrade_take_over() has left to do. */
void upgrade_check(struct master *master, uint64_t now_ns);

/* Tells the new master when the metrics process of this one has ended. */
void upgrade_pass_metrics(const struct master *master);

/* Order the new master to stop; to stop at once, after upgrade_stop(); to reload. */
void upgrade_stop(struct master *master);
void upgrade_force(const struct master *master);
void upgrade_pass_reload(const struct master *master);

/* --- predecessor.c: the counters of the old master --- */

/*
 * Adds the totals of the old master to those of this one, if there is one. Call it before readers find
 * the segment, when the hosts have their entries. Returns 0, or -1 with WHY.
 */
int predecessor_attach(struct master *master, char *why, size_t size);
void predecessor_free(struct predecessor *predecessor);

/* Copies the counters of the old master as they are now. */
void predecessor_count(struct master *master);

/* The same once a second, and when the old master has ended. */
void predecessor_check(struct master *master);

/* --- auxiliary.c: the logger, the keys process and the metrics process --- */

/* No process runs yet. Returns 0, or -1: out of memory or descriptors. */
int auxiliary_init(struct master *master);

/* Frees; the processes keep running. */
void auxiliary_free(struct auxiliary *auxiliary);

/* Starts what is needed and ends what is not. */
void auxiliary_reconcile(struct master *master);

/*
 * Links the keys process with the threads of workers that have no link yet. What fails is tried
 * again at the next call.
 */
void auxiliary_send_links(struct master *master);

/* When the earliest of the back-offs ends; UINT64_MAX: none. */
uint64_t auxiliary_retry_ns(const struct auxiliary *auxiliary, uint64_t now_ns);

/*
 * Call when process PID has ended with STATUS, which HOW describes. Returns false if it is none of
 * these.
 */
bool auxiliary_ended(struct master *master, pid_t pid, int status, const char *how);

/* Once a second: kills what hangs. */
void auxiliary_check(struct master *master, uint64_t now_ns);

/*
 * Makes the logger write all remaining lines and exit for good; for at most WAIT_MS it waits for a
 * log that takes none. A logger that dies meanwhile is replaced until it is given up.
 */
void auxiliary_stop_logger(struct master *master, uint32_t wait_ms);
bool auxiliary_logger_has_finished(const struct auxiliary *auxiliary);

/*
 * Opens the logs again. Returns 0 with *NUMBER, the value of segment_logger's logs_done when the
 * logger uses them; or -1 with WHY, and the old ones stay in use.
 */
int auxiliary_reopen_logs(struct master *master, uint32_t *number, char *why, size_t size);

/* Replaces the logger by one that uses LOGS, opened for another configuration. */
void auxiliary_replace_logs(struct auxiliary *auxiliary, const struct log_files *logs);

/*
 * The metrics process runs from auxiliary_start_metrics() on until auxiliary_release_metrics(),
 * which also closes its listen sockets, so that no connection waits in a queue that nobody accepts
 * from. auxiliary_renew_metrics(): the listen sockets have changed. auxiliary_end_metrics(): the
 * last step of a stop.
 */
void auxiliary_start_metrics(struct master *master);
void auxiliary_renew_metrics(struct master *master);
void auxiliary_release_metrics(struct auxiliary *auxiliary);
void auxiliary_end_metrics(struct auxiliary *auxiliary);

/*
 * Opens the sockets that CONFIG lists: copies of those in CURRENT, those of INHERITANCE (NULL:
 * none), which it takes over, and new ones. Warns of an address that other machines can reach.
 * Returns 0, or -1 with WHY and SOCKETS empty.
 */
int metrics_sockets_open(struct metrics_sockets *sockets, const struct config *config,
                         const struct metrics_sockets *current, struct inheritance *inheritance,
                         char *why, size_t size);
void metrics_sockets_close(struct metrics_sockets *sockets);

/* Replaces SOCKETS by NEXT, which is then empty. Returns true if their addresses differ. */
bool metrics_sockets_replace(struct metrics_sockets *sockets, struct metrics_sockets *next);

/* Describes the sockets for a new master; returns their number. */
size_t metrics_sockets_export(const struct metrics_sockets *sockets,
                              struct inherited_socket *exported);

/* --- certificates.c --- */

/*
 * Reads the certificates of the configuration, and those that the ACME process has obtained, if a
 * listen socket needs them. Makes the state directory of [acme]. Returns 0, or -1 with WHY and
 * nothing changed.
 */
int certificates_load(struct master *master, char *why, size_t size);

/*
 * Binary upgrade: the keys of session tickets as a file (tls_tickets_save()), or -1; and from such
 * a file, which it closes; -1: none. Without it, clients have to make full handshakes.
 */
int certificates_save_tickets(const struct certificates *certificates);
void certificates_restore_tickets(struct certificates *certificates, int fd);

/*
 * Makes a new key for session tickets every half of [tls] session_timeout, and sends it to the
 * workers.
 */
void certificates_rotate_tickets(struct master *master, uint64_t now_ns);

/* No ACME process runs yet. */
void certificates_init(struct master *master);

/* Frees; the process ends itself. In a child of the master, too. */
void certificates_free(struct certificates *certificates);

/*
 * Starts the ACME process, now and whenever it has ended, if [acme] is enabled. After an upgrade:
 * once the old master has none.
 */
void certificates_start(struct master *master);
void certificates_stop(struct master *master);

/*
 * Has the running workers use the certificates as their files are now, for new connections. Errors
 * are logged, and change nothing. Returns false if another change is under way: then call it again
 * later.
 */
bool certificates_renew(struct master *master);

/*
 * Starts to check the certificates of CONFIG, if it needs them. At the end calls
 * reload_certificates_checked(); what was checked is then loaded by certificates_load(). Returns
 * false if there is nothing to wait for: then certificates_load() reports the errors.
 */
bool certificates_check_next(struct master *master, const struct config *config);

/*
 * Before a reload, which loads all certificates, or at the end. If the reload fails, they are loaded
 * later.
 */
void certificates_abandon_checks(struct certificates *certificates);

/* True if PID, which has been reaped with STATUS, was checking a certificate. */
bool certificates_reaped(struct certificates *certificates, pid_t pid, int status);

/* A process has changed, or WORKER had no memory for the certificates that it was sent. */
void certificates_settle(struct master *master);
void certificates_refused(struct worker_process *worker);

/* Call when another configuration is in force. */
void certificates_committed(struct master *master);

/*
 * Once a second: starts what waits, ends a process that hangs, publishes the table of certificates.
 */
void certificates_check(struct master *master, uint64_t now_ns);

/*
 * The table of certificates in the segment, while it is written: so many entries, so many that end
 * soon.
 */
struct certificate_table {
    const struct master *master;
    uint32_t count, ending;
};

/* Writes the next entry of the table, if there is room. OWNER is a struct certificate_table. */
void certificates_publish_one(void *owner, const struct tls_description *description);

/* --- address_limits.c: limits of single clients --- */

/* The limit of exactly NETWORK. False: none. */
bool address_limits_get(const struct segment *segment, const struct network *network,
                        struct address_limit *limit);

/*
 * Sets LIMIT, whose id is ignored, instead of that of its network, if there is one. Returns 0, or
 * -1: all SEGMENT_ADDRESS_LIMITS_MAX are in use.
 */
int address_limits_set(const struct segment *segment, const struct address_limit *limit);

/* Removes the limit of exactly NETWORK, if there is one. */
void address_limits_remove(const struct segment *segment, const struct network *network);

/* Removes those whose time is over, and logs it. NOW_NS: monotonic clock. */
void address_limits_expire(const struct segment *segment, uint64_t now_ns);

/*
 * For a binary upgrade: a file in memory with all limits. Returns its descriptor, or -1: there are
 * none, or an error, which is logged. address_limits_restore() sets those of the file and closes
 * it; FD may be -1.
 */
int address_limits_save(const struct segment *segment);
void address_limits_restore(const struct segment *segment, int fd);

/* --- capacity.c: room for workers and threads --- */

/* Raises the limit of descriptors to the maximum allowed for the process. */
void capacity_raise_descriptors(void);

/*
 * Checks that COUNT workers with THREADS threads each, for which the segment has slots, fit the
 * limit of descriptors and /dev/shm; reserves the memory and opens the listen sockets they need.
 * Returns 0, or -1 with WHY and no change in force (reserved memory stays reserved).
 */
int capacity_prepare(struct master *master, uint32_t count, uint32_t threads, char *why,
                     size_t size);

/* Number of sockets that each listen address needs for CONFIG. */
uint32_t capacity_listen_sockets(const struct config *config);

/*
 * Returns how many connections a worker can hold if its process may open LIMIT descriptors: the
 * limit minus the worker's own descriptors. The kernel would discard a descriptor passed beyond it.
 */
uint64_t capacity_of_worker(const struct config *config, const struct rlimit *limit);

/*
 * After WORKER's process has ended: resets gauges and states, empties its table of clients, marks
 * its thread slots as unused.
 */
void capacity_clear_slot(struct segment *segment, uint32_t worker);

/*
 * After WORKER's process has ended: empties its table of cache entries. Reads all pages of the
 * table.
 */
void capacity_clear_cache(const struct segment *segment, uint32_t worker);

/* --- post_mortem.c: what dead workers were doing --- */

enum {
    POST_MORTEM_DEATHS = 8,   /* number of deaths kept */
    POST_MORTEM_REQUESTS = 10 /* per thread */
};

/*
 * Records in *DEATHS that of the worker with PID in SLOT, which is not cleared yet; HOW describes
 * it.
 */
void post_mortem_record(json_t **deaths, const struct segment *segment, uint32_t slot, int pid,
                        const char *how);

/* Returns the newest COUNT deaths, or as many of them as fit a reply. The caller owns the list. */
json_t *post_mortem_list(const json_t *deaths, size_t count);

/* --- monitor.c: what is published and watched --- */

/*
 * Creates the segment for the configuration with the name of the instance; if BESIDE, with the
 * suffix ".new" (segment_promote() renames it). Returns 0, or -1 with WHY.
 */
int publish_segment(struct master *master, bool beside, char *why, size_t size);

/* Writes the configuration in force. Call it after each change; needs the listeners. */
void publish_config(struct master *master);

/* Stores what each process uses, once a second. */
void publish_processes(const struct master *master);

/*
 * Stores a sample in the history, so that a console that starts later can show the past: sums of
 * all metrics, the state of each thread, the latency since the last sample. NOW_NS is the wall
 * clock.
 */
void publish_sample(struct segment *segment, struct monitor *monitor, uint64_t now_ns);

/* Logs nothing until it has an interval. Returns 0, or -1: out of memory. */
int summary_init(struct master *master);
void summary_free(struct summary *summary);

/*
 * Logs requests, response times and cache of each interval of INTERVAL_MS, and the totals since the
 * start; 0: never. The same interval again changes nothing.
 */
void summary_set_interval(struct master *master, uint32_t interval_ms);

/* Logs the period since the last summary, and the totals. */
void summary_log(struct summary *summary, const struct segment *segment);

/* Counts from now on for the next summary. */
void summary_begin(struct master *master);

/*
 * Logs the last summary, unless the interval is 0, and stops the timer: no worker is left, or a new
 * master serves, whose totals have the rest.
 */
void summary_finish(struct master *master);

/* What fails, and its counters: at most HANDSHAKE_FAILURE_REASONS, then one without text. */
struct handshake_kind {
    const char *title;
    struct {
        enum metric metric;
        const char *text;
    } reason[HANDSHAKE_FAILURE_REASONS + 1];
};

extern const struct handshake_kind handshake_of_tls, handshake_of_proxy;

/* Counts from now on: history and lines about handshakes leave out earlier ones. */
void monitor_begin(struct monitor *monitor, const struct segment *segment);

/*
 * Connections that failed before their first request. A line says what the counters of KIND have
 * gained, by reason. The first failure is logged at once; while others follow, there is a line
 * after a minute, then after two, up to one an hour, so that clients cannot fill the log. Once a
 * second.
 */
void handshake_failures_log(struct handshake_failures *failures, const struct handshake_kind *kind,
                            const struct segment *segment, uint64_t now_ns);

/*
 * The line that handshake_failures_log() logs of KIND if the counters are COUNT: returns true with
 * TEXT, or false if none is due. Pure.
 */
bool handshake_failures_text(struct handshake_failures *failures, const struct handshake_kind *kind,
                             const uint64_t count[HANDSHAKE_FAILURE_REASONS], uint64_t now_ns,
                             char *text, size_t size);

/*
 * Watches how much memory the server's control group has left, because at its limit the kernel
 * kills workers instead of failing their allocations. Tells the workers, who free memory in time
 * (daemon/worker/internal.h):
 *
 *   MEMORY_ENOUGH ◀─80 %─▶ 85 %─ MEMORY_SHORT ◀─90 %─▶ 95 %─ MEMORY_EXHAUSTED
 *
 * Without a control group it does nothing. Returns 0, or -1: out of memory.
 */
int memory_watch_start(struct master *master);
void memory_watch_free(struct monitor *monitor);

/* The level after LEVEL when USED thousandths of the limit are in use. */
enum memory_level memory_level_next(enum memory_level level, uint32_t used);

/* --- maintenance.c --- */

/* Ends it, if there is one; WHY is for the log. */
void maintenance_end(const struct master *master, const char *why);

/* Continues that of the old master, to which predecessor_attach() has attached. */
void maintenance_inherit(struct master *master);

/* --- commands.c --- */

/* Runs a command line. The type is control_run: OWNER is the struct master. */
struct control_reply command_run(void *owner, char *line, unsigned uid, int pid);

#endif
