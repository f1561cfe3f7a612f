/* The ACME process's side of its channel to the master: signs of life, events, challenges. */
#ifndef DAEMON_ACME_LINK_H
#define DAEMON_ACME_LINK_H

#include "common/macros.h"
#include "common/tables.h"
#include "daemon/base/messages.h"

#include <stdbool.h>
#include <stdint.h>

struct link;

/* FD, which it takes over, leads to the master. NULL: out of memory. */
struct link *link_new(int fd);
void link_free(struct link *link);

/* Sends a sign of life if it is time for one. Returns false if the process must end. */
bool link_pulse(struct link *link);

/* The same while it waits for MS. */
bool link_wait(struct link *link, uint32_t ms);

/* The same, until the master requests something. */
bool link_wait_for_request(struct link *link, uint32_t ms);

/*
 * The number of the last renewal that the master has requested for NAME, its number in the
 * configuration; 0: none.
 */
uint32_t link_renewal(const struct link *link, uint32_t name);

/* The number of the last change of the account's key that the master has requested; 0: none. */
uint32_t link_key_change(const struct link *link);

/* Sends an event to log. */
void link_log(struct link *link, enum level level, const char *format, ...) PRINTF_LIKE(3, 4);

/*
 * Has the workers answer CHALLENGE (empty token: none). Returns 0 when they do, or -1 if the
 * process must end.
 */
int link_publish(struct link *link, const struct message_acme_challenge *challenge);

/*
 * Has the master run the program for RECORD. Returns 0, or -1 with WHY: it has failed, or the
 * process must end.
 */
int link_run_record(struct link *link, const struct message_acme_record *record, char *why,
                    size_t size);

/* Sends a message that needs no answer: MESSAGE_ACME_PLAN, _KEY_CHANGED or _CERTIFICATE. */
void link_report(struct link *link, enum message_kind kind, const void *data, size_t length);

#endif
