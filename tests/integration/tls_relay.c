#include "tls_relay.h"

#include "tests/test.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <unistd.h>

static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
static const unsigned char alpn_http2[] = "\x02h2", alpn_http1[] = "\x08http/1.1";

struct tls_relay {
    uint16_t port, server_port;
    int listener;
    SSL_CTX *context;
    pthread_t acceptor;
    pthread_mutex_t lock;
    pthread_cond_t ended;
    TAILQ_HEAD(, pair) pairs; /* under the lock */
    SSL_SESSION *session;     /* the latest, to resume; under the lock */
};

struct pair {
    TAILQ_ENTRY(pair) link;
    struct tls_relay *relay;
    int client, server;
    SSL *ssl;
};

static struct sockaddr_in loopback(uint16_t port)
{
    return (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
}

/* OpenSSL has a new session. Returns 1, which keeps the reference. */
static int keep_session(SSL *ssl, SSL_SESSION *session)
{
    struct tls_relay *relay = SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));
    SSL_SESSION *before;

    pthread_mutex_lock(&relay->lock);
    before = relay->session;
    relay->session = session;
    pthread_mutex_unlock(&relay->lock);
    SSL_SESSION_free(before);
    return 1;
}

/* A resumed session costs less than a new one. */
static bool resume(struct tls_relay *relay, SSL *ssl)
{
    bool resumes;

    pthread_mutex_lock(&relay->lock);
    resumes = relay->session == NULL || SSL_set_session(ssl, relay->session) == 1;
    pthread_mutex_unlock(&relay->lock);
    return resumes;
}

/* Waits for the first bytes, which decide. */
static bool begins_http2(int client)
{
    char bytes[sizeof(preface) - 1];

    return recv(client, bytes, sizeof(bytes), MSG_PEEK) == (ssize_t)sizeof(bytes) &&
           memcmp(bytes, preface, sizeof(bytes)) == 0;
}

static bool connect_pair(struct pair *pair)
{
    struct sockaddr_in address = loopback(pair->relay->server_port);
    bool http2 = begins_http2(pair->client);
    int on = 1;

    pair->server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(pair->server, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    pair->ssl = SSL_new(pair->relay->context);
    return pair->ssl != NULL && resume(pair->relay, pair->ssl) &&
           connect(pair->server, (struct sockaddr *)&address, sizeof(address)) == 0 &&
           SSL_set_fd(pair->ssl, pair->server) == 1 &&
           SSL_set_alpn_protos(
               pair->ssl, http2 ? alpn_http2 : alpn_http1,
               (unsigned int)strlen((const char *)(http2 ? alpn_http2 : alpn_http1))) == 0 &&
           SSL_connect(pair->ssl) == 1 && fcntl(pair->server, F_SETFL, O_NONBLOCK) == 0;
}

/* Returns false if the server has closed the connection. */
static bool pass_to_server(struct pair *pair, const char *bytes, size_t length)
{
    struct pollfd writable = {pair->server, POLLOUT, 0};
    size_t sent;

    while (SSL_write_ex(pair->ssl, bytes, length, &sent) != 1) {
        if (SSL_get_error(pair->ssl, 0) != SSL_ERROR_WANT_WRITE)
            return false;
        poll(&writable, 1, -1);
    }
    return true;
}

/* Passes on what has arrived. Returns false at the end. */
static bool pass_to_client(struct pair *pair)
{
    char bytes[16 * 1024];
    size_t length;

    while (SSL_read_ex(pair->ssl, bytes, sizeof(bytes), &length) == 1)
        for (size_t at = 0; at < length;) {
            ssize_t sent = send(pair->client, bytes + at, length - at, MSG_NOSIGNAL);

            if (sent < 0 && errno != EINTR)
                break; /* the client has gone: reads on to the server's end */
            at += sent > 0 ? (size_t)sent : 0;
        }
    return SSL_get_error(pair->ssl, 0) == SSL_ERROR_WANT_READ;
}

static void pass_all(struct pair *pair)
{
    struct pollfd sources[2] = {{pair->server, POLLIN, 0}, {pair->client, POLLIN, 0}};
    char bytes[16 * 1024];

    do {
        ssize_t got;

        poll(sources, 2, -1);
        if (sources[1].fd < 0 || sources[1].revents == 0)
            continue;
        got = recv(pair->client, bytes, sizeof(bytes), 0);
        if (got > 0 ? !pass_to_server(pair, bytes, (size_t)got) : SSL_shutdown(pair->ssl) < 0)
            sources[1].fd = -1;
        if (got <= 0)
            sources[1].fd = -1;
        ERR_clear_error();
    } while (pass_to_client(pair));
}

static void *run_pair(void *argument)
{
    struct pair *pair = argument;
    struct tls_relay *relay = pair->relay;
    char rest[1024];

    if (connect_pair(pair))
        pass_all(pair);
    shutdown(pair->client, SHUT_WR);
    while (recv(pair->client, rest, sizeof(rest), 0) > 0)
        continue; /* a close now would reset the connection before the client has read all */
    SSL_free(pair->ssl);
    close(pair->server);
    pthread_mutex_lock(&relay->lock);
    TAILQ_REMOVE(&relay->pairs, pair, link);
    close(pair->client);
    free(pair);
    pthread_cond_signal(&relay->ended);
    pthread_mutex_unlock(&relay->lock);
    return NULL;
}

static void *accept_all(void *argument)
{
    struct tls_relay *relay = argument;
    int client;

    while ((client = accept4(relay->listener, NULL, NULL, SOCK_CLOEXEC)) >= 0 || errno == EINTR) {
        struct pair *pair = client >= 0 ? calloc(1, sizeof(*pair)) : NULL;
        pthread_t thread;

        if (pair == NULL)
            continue;
        *pair = (struct pair){.relay = relay, .client = client, .server = -1};
        pthread_mutex_lock(&relay->lock);
        TAILQ_INSERT_TAIL(&relay->pairs, pair, link);
        pthread_mutex_unlock(&relay->lock);
        if (pthread_create(&thread, NULL, run_pair, pair) != 0)
            abort();
        pthread_detach(thread);
    }
    return NULL;
}

struct tls_relay *tls_relay_start(uint16_t port)
{
    struct tls_relay *relay = calloc(1, sizeof(*relay));
    struct sockaddr_in address = loopback(0);
    socklen_t length = sizeof(address);

    assert_non_null(relay);
    relay->server_port = port;
    relay->context = SSL_CTX_new(TLS_client_method());
    relay->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_non_null(relay->context);
    SSL_CTX_set_app_data(relay->context, relay);
    SSL_CTX_set_session_cache_mode(relay->context,
                                   SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
    SSL_CTX_sess_set_new_cb(relay->context, keep_session);
    assert_int_equal(bind(relay->listener, (struct sockaddr *)&address, length), 0);
    assert_int_equal(listen(relay->listener, 128), 0);
    assert_int_equal(getsockname(relay->listener, (struct sockaddr *)&address, &length), 0);
    relay->port = ntohs(address.sin_port);
    TAILQ_INIT(&relay->pairs);
    pthread_mutex_init(&relay->lock, NULL);
    pthread_cond_init(&relay->ended, NULL);
    assert_int_equal(pthread_create(&relay->acceptor, NULL, accept_all, relay), 0);
    return relay;
}

uint16_t tls_relay_port(const struct tls_relay *relay)
{
    return relay->port;
}

void tls_relay_stop(struct tls_relay *relay)
{
    struct pair *pair;

    shutdown(relay->listener, SHUT_RDWR); /* accept4() fails */
    pthread_join(relay->acceptor, NULL);
    pthread_mutex_lock(&relay->lock);
    TAILQ_FOREACH(pair, &relay->pairs, link)
    shutdown(pair->client, SHUT_RDWR);
    while (!TAILQ_EMPTY(&relay->pairs))
        pthread_cond_wait(&relay->ended, &relay->lock);
    pthread_mutex_unlock(&relay->lock);
    close(relay->listener);
    SSL_SESSION_free(relay->session);
    SSL_CTX_free(relay->context);
    pthread_cond_destroy(&relay->ended);
    pthread_mutex_destroy(&relay->lock);
    free(relay);
}
