/*
 * The values of [log] access and error:
 *
 *   /path, path      a file, appended to
 *   -                standard output (access) or standard error (error)
 *   off              nowhere (access only)
 *   syslog:          one datagram per line to /dev/log (RFC 3164, the local form without a host);
 *                    also syslog:FACILITY, syslog:@SOCKET and syslog:FACILITY@SOCKET
 *   journald         fields to journald's native socket; also journald:@SOCKET
 *
 * Any thread.
 */
#ifndef DAEMON_LOG_TARGET_H
#define DAEMON_LOG_TARGET_H

#include <stdbool.h>

enum log_target_kind {
    LOG_TARGET_OFF,
    LOG_TARGET_FILE, /* or a standard stream */
    LOG_TARGET_SYSLOG,
    LOG_TARGET_JOURNALD
};

struct log_target {
    enum log_target_kind kind;
    int facility;     /* of syslog, as in <syslog.h> */
    const char *path; /* of the file or the socket; points into the text, or to a constant */
};

/* Parses TEXT. Returns NULL, or the error message. */
const char *log_target_parse(const char *text, struct log_target *target);

/* True if TEXT is not a path and must not be joined to a directory. */
bool log_target_is_word(const char *text);

#endif
