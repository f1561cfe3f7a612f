/*
 * Where a log goes: [log] access and error.
 *
 *   /path, path      a file, appended to
 *   -                standard output (access) or standard error (error)
 *   off              nowhere (access only)
 *   syslog:          a datagram a line to /dev/log (RFC 3164, the local form without a host), also
 *                    syslog:FACILITY, syslog:@SOCKET and syslog:FACILITY@SOCKET
 *   journald         fields to journald's own socket; journald:@SOCKET
 *
 * One thread: the logger's, and the master's before it starts one.
 */
#ifndef DAEMON_LOG_SINK_H
#define DAEMON_LOG_SINK_H

#include "common/tables.h"
#include "daemon/config/config.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum log_sink_kind { LOG_SINK_OFF, LOG_SINK_FILE, LOG_SINK_SYSLOG, LOG_SINK_JOURNALD };

struct log_target {
    enum log_sink_kind kind;
    int facility;     /* of syslog, as in <syslog.h> */
    const char *path; /* of the file or the socket; points into the text, or to a constant */
};

/* Reads TEXT. Returns NULL, or what is wrong with it, in words. */
const char *log_target_parse(const char *text, struct log_target *target);

/* True when TEXT names no file, so is not relative to a folder. */
bool log_target_is_word(const char *text);

struct log_sink {
    enum log_sink_kind kind;
    int fd;           /* -1: not open */
    int facility;     /* of syslog */
    const char *name; /* of the instance, for journald; borrowed */
};

/*
 * Opens what TEXT names, with FALLBACK for "-". NAME is the instance's. Returns 0, or -1 with errno
 * and a sink that is not open; "off" is open and takes all.
 */
int log_sink_open(struct log_sink *sink, const char *text, int fallback, const char *name);
void log_sink_close(struct log_sink *sink);

/*
 * Writes whole lines, each with its newline. Returns how many bytes are out: LENGTH, or fewer with
 * errno when it failed. A file may then end within a line, a socket has had whole lines only. Waits
 * while the reader of a pipe or socket is busy.
 */
size_t log_sink_write(struct log_sink *sink, enum level level, const char *lines, size_t length);

/*
 * Opens and closes both logs of CONFIG: better refused now than missed later. Returns 0, or -1 with
 * WHY. The master.
 */
int log_sink_check(const struct config *config, char *why, size_t size);

#endif
