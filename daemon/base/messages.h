/*
 * The messages between the master and its children, on channels (daemon/base/channel.h). All run
 * the same binary, so the structs need no version. messages.def lists all kinds.
 *
 * On the command channel the master sends the wanted state, and the worker reports the actual
 * state. On the connection channel each message is one connection with its descriptor: from the
 * master to a worker, or back from a worker that exits or gives some to other workers. The logger
 * has one channel and receives the descriptors of the logs. So has the ACME process. The keys
 * process has one to the master and one to each serving thread of each worker. Messages of one
 * channel keep their order; there is no order between the channels.
 */
#ifndef DAEMON_MESSAGES_H
#define DAEMON_MESSAGES_H

#include "common/client_address.h"
#include "common/segment.h"

#include <stddef.h>
#include <stdint.h>

/* Who sends a message on which channel. Each pair of routes is one channel. */
enum message_route {
    ROUTE_COMMANDS,      /* master to worker, command channel */
    ROUTE_REPORTS,       /* worker to master, command channel */
    ROUTE_DISPATCH,      /* master to worker, connection channel */
    ROUTE_RETURNS,       /* worker to master, connection channel */
    ROUTE_LOGGING,       /* master to logger */
    ROUTE_LOG_REPORTS,   /* logger to master */
    ROUTE_KEYS_ORDERS,   /* master to keys process */
    ROUTE_KEYS_REPORTS,  /* keys process to master */
    ROUTE_SIGN_REQUESTS, /* thread of a worker to keys process */
    ROUTE_SIGNATURES,    /* keys process to thread of a worker */
    ROUTE_ACME_REPORTS,  /* ACME process to master */
    ROUTE_ACME_ORDERS,   /* master to ACME process */
};

/* What comes before HTTP on a connection, in this order; bits. */
enum opening {
    OPENING_PROXY = 1 << 0, /* a header of the PROXY protocol */
    OPENING_TLS = 1 << 1,   /* a TLS handshake */
    OPENING_ALL = OPENING_PROXY | OPENING_TLS,
};

enum message_kind {
#define MESSAGE(kind, ...) MESSAGE_##kind,
#include "daemon/base/messages.def"
#undef MESSAGE
    MESSAGE_COUNT
};

struct message_threads {
    uint32_t count;
};

struct message_threads_running {
    uint32_t count;
};

struct message_offload {
    uint32_t min, max;
};

struct message_queue {
    uint32_t order, full; /* enum queue_order, queue_full */
    uint32_t places;
};

struct message_balance {
    uint32_t on; /* 0 or 1 */
};

struct message_give {
    uint32_t active, idle; /* number of connections of each kind; fewer if not enough can go */
    uint32_t resized;      /* 1: workers were added; 0: others have less to do */
};

struct message_listen_socket {
    uint32_t id;      /* unique while the master lives */
    uint32_t row;     /* the sockets of a row, one per address, belong to one thread */
    uint32_t opening; /* of its connections: enum opening */
};

/* All commands change the worker's cache. */
enum worker_command {
    COMMAND_CACHE_FLUSH,
    COMMAND_CACHE_PURGE,  /* path: one entry, or, ending in '/' or '*', all with that prefix */
    COMMAND_CACHE_SIZE,   /* value: bytes */
    COMMAND_CACHE_POLICY, /* value: enum config_policy */
    COMMAND_LAST = COMMAND_CACHE_POLICY
};

struct message_command {
    uint64_t number;
    uint64_t value;
    uint64_t what; /* enum worker_command */
    char path[];   /* at most CONTROL_LINE_MAX bytes, the last one a NUL */
};

struct message_command_done {
    uint64_t number;
    uint64_t affected; /* cache entries removed */
};

struct message_shed {
    uint32_t connections; /* to close at most */
    uint32_t descriptors; /* 1: because the worker has none left; 0: connections.max is reached */
};

/* What the limit of the control group leaves. */
enum memory_level {
    MEMORY_ENOUGH,
    MEMORY_SHORT,     /* free the cache, then close idle connections */
    MEMORY_EXHAUSTED, /* and accept no new ones */
};

struct message_memory {
    uint64_t cache_bytes; /* that the cache may add until the next such message */
    uint64_t level;       /* enum memory_level */
};

enum { TICKET_KEYS = 3, TICKET_NAME_BYTES = 16, TICKET_SECRET_BYTES = 32 };

struct ticket_key {
    uint8_t name[TICKET_NAME_BYTES];
    uint8_t cipher[TICKET_SECRET_BYTES];
    uint8_t mac[TICKET_SECRET_BYTES];
};

/* The keys of TLS session tickets. */
struct message_ticket_keys {
    uint32_t count;                     /* at least 1 */
    struct ticket_key key[TICKET_KEYS]; /* the newest first */
};

/* A client connection between two requests. */
struct message_connection {
    uint8_t address[CLIENT_ADDRESS_BYTES]; /* of the client */
    uint32_t requests;                     /* served so far */
    uint32_t length;                       /* unread bytes that follow */
    uint32_t admitted;                     /* 1: already admitted by a worker, else 0... */
    uint32_t idle;                         /* ...1: and not active there */
    uint32_t opening;                      /* enum opening: what has not begun yet */
    uint32_t proxied; /* 1: the address is that of a PROXY header; 0: of the peer */
    char bytes[];
};

enum log_kind { LOG_ACCESS, LOG_ERROR, LOG_KINDS };
enum { LOG_HOST_FILES_MAX = SEGMENT_HOSTS_MAX };

struct message_log {
    uint32_t log;    /* enum log_kind, or LOG_KINDS + n: the file n of [host] sections */
    uint32_t number; /* of the request to open the logs */
};

struct message_log_finish {
    uint32_t wait_ms; /* for a log that takes no lines */
    uint32_t last;    /* 1: then report the lines that are left; 0: another logger writes them */
};

/* Of TLS handshakes. A set has the private keys of one struct certificate_set, in its order. */

struct message_keys_link {
    uint32_t thread; /* of the worker, from 0 */
    uint32_t set;    /* of keys, for which signatures are requested there */
};

struct message_certificates {
    uint32_t number; /* that of the set; and of their keys */
    uint32_t count;  /* of certificates in the file that is sent with it */
};

struct message_certificates_done {
    uint32_t number;
    uint32_t done; /* 1: they are in use; 0: out of memory */
};

struct message_keys_set {
    uint32_t set;
    uint32_t count; /* of keys in the file that is sent with it */
    uint32_t tls12; /* 1: handshakes of TLS 1.2 are signed, too */
};

struct message_keys_client {
    uint32_t set;
    uint32_t worker; /* slot */
    int32_t pid;
};

enum { SIGNED_BYTES_MAX = 512, SIGNATURE_BYTES_MAX = 2048 };

struct message_sign {
    uint64_t number; /* of the request, repeated in its answer */
    uint32_t key;    /* number of the key in the set */
    uint32_t scheme; /* SignatureScheme of RFC 8446 */
    uint8_t bytes[];
};

struct message_signature {
    uint64_t number;
    uint8_t bytes[]; /* none: it could not be made */
};

enum {
    ACME_TOKEN_BYTES = 128,
    ACME_THUMBPRINT_BYTES = 48,
    ACME_EVENT_BYTES = 1400,
    ACME_ERROR_BYTES = 1024
};

struct message_acme_event {
    uint32_t level; /* enum level */
    char text[];    /* at most ACME_EVENT_BYTES with its NUL */
};

struct message_acme_plan {
    uint32_t name;                /* its number in the configuration */
    uint32_t failures;            /* since the last success */
    uint32_t attempted;           /* 1: an attempt has ended; 0: the process has started */
    uint32_t renewal;             /* the last ACME_RENEW for this name that has ended; 0: none */
    int64_t next_s;               /* wall clock */
    int64_t refused_until_s;      /* the authority requested no attempt before then; 0: nothing */
    char error[ACME_ERROR_BYTES]; /* of the last attempt, with its NUL; empty: none */
};

struct message_acme_renew {
    uint32_t name;    /* its number in the configuration */
    uint32_t renewal; /* from 1; each has another number */
};

struct message_acme_change_key {
    uint32_t change; /* from 1; each has another number */
};

struct message_acme_key_changed {
    uint32_t change;
    char error[ACME_ERROR_BYTES]; /* with its NUL; empty: none */
};

struct message_acme_certificate {
    uint32_t name; /* the number of the certificate in the configuration, as in all of these */
};

/* A challenge; each text has only letters, digits, '-' and '_', and a NUL. */
struct message_acme_challenge {
    uint32_t name;
    uint32_t part;                /* number of the name in the certificate, from 0 */
    uint32_t kind;                /* enum challenge_kind, not dns-01 */
    char token[ACME_TOKEN_BYTES]; /* empty: none is pending */
    char thumbprint[ACME_THUMBPRINT_BYTES];
};

/* A DNS record to make or remove. */
struct message_acme_record {
    uint32_t name, part;               /* as in struct message_acme_challenge */
    uint32_t remove;                   /* 0: make it */
    uint32_t remaining;                /* names of this certificate whose records follow */
    char value[ACME_THUMBPRINT_BYTES]; /* base64url, and a NUL */
};

struct message_acme_record_done {
    uint32_t good;
    char error[ACME_ERROR_BYTES]; /* with its NUL; empty: none */
};

/* A connection with more unread bytes than this is not handed over. */
enum { PASSED_BYTES_MAX = 48 * 1024 };

/*
 * Returns NULL if the message may arrive on ROUTE with this content and number of descriptors, else
 * what its sender did: "sent a message of unknown kind". DATA is aligned for any struct. Pure.
 */
const char *message_fault(enum message_route route, int64_t kind, const void *data, size_t length,
                          size_t descriptors);

/* The route of the opposite direction on the same channel. */
enum message_route message_route_back(enum message_route route);

#endif
