/* The keys process, which runs, between its master and workers, which are both this process. */
#include "daemon/keys/keys.h"

#include "common/macros.h"
#include "daemon/tls/certificate_set.h"
#include "daemon/tls/managed.h"
#include "daemon/tls/remote_key.h"
#include "tests/unit/event_output.h"
#include "tests/unit/open_descriptors.h"
#include "tests/unit/own_directory.h"
#include "tests/unit/own_segment.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <openssl/x509.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

enum { SET = 7, WORKER = 3, PID = 4711, TIMEOUT_MS = 1000 };
enum { EC, RSA_1024, ED25519, KEYS }; /* numbers of the keys in a set */

static EVP_PKEY *key[KEYS];

static struct {
    struct config config;
    struct segment segment;
    struct event_base *base;
    struct keys_setup setup;
    struct keys_process process;
    _Atomic int32_t shown_pid;
    _Atomic uint64_t deaths;
    size_t faults; /* of workers */
    uint32_t faulty_worker;
    pid_t faulty_pid;
} scene;

/* The process */

static void on_worker_fault(void *context, uint32_t worker, pid_t pid)
{
    assert_ptr_equal(context, &scene);
    scene.faults++;
    scene.faulty_worker = worker;
    scene.faulty_pid = pid;
}

static void after_fork(void *context)
{
    (void)context;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    event_reinit(scene.base); /* which watches for the parent, too */
    child_free(&scene.process.child);
}

static bool start_process(void)
{
    return keys_process_start(&scene.process, &scene.setup, after_fork, NULL);
}

static int open_scene(void **state)
{
    (void)state;
    memset(&scene, 0, sizeof(scene));
    events_forget();
    if (own_segment_create(&scene.segment, (struct segment_plan){0}) != 0)
        return -1;
    scene.base = event_base_new();
    scene.config = (struct config){.server_user = "", .server_group = "", .server_jail = JAIL_OFF};
    scene.setup = (struct keys_setup){.config = &scene.config, .segment = &scene.segment};
    scene.process = (struct keys_process){
        .child = {.name = "test process", .shown_pid = &scene.shown_pid, .deaths = &scene.deaths},
        .base = scene.base,
        .segment = &scene.segment,
        .fault = on_worker_fault,
        .context = &scene};
    return scene.base != NULL ? 0 : -1;
}

static int start(void **state)
{
    return open_scene(state) == 0 && start_process() ? 0 : -1;
}

/* Closes the channel. Returns the wait status of the process. */
static int await_end(void)
{
    int status = -1;

    child_free(&scene.process.child);
    assert_int_equal(waitpid(scene.process.child.pid, &status, 0), scene.process.child.pid);
    child_forget(&scene.process.child);
    return status;
}

static int close_scene(void **state)
{
    (void)state;
    assert_int_equal(scene.process.child.pid, 0);
    segment_destroy(&scene.segment);
    event_base_free(scene.base);
    return 0;
}

/* The end of the master ends the process, which leaves no memory: LeakSanitizer. */
static int stop(void **state)
{
    if (scene.process.child.pid != 0 && await_end() != 0)
        return -1;
    return close_scene(state);
}

const struct test_fixture test_fixture = {start, stop};

static void await_report(uint64_t count)
{
    while (channel_received(scene.process.child.channel) < count)
        assert_int_equal(event_base_loop(scene.base, EVLOOP_ONCE), 0);
}

/* Messages */

struct packet {
    int64_t kind;
    union {
        struct message_sign sign;
        struct message_signature signature;
        uint8_t bytes[sizeof(struct message_signature) + SIGNATURE_BYTES_MAX];
    };
};

/* The last byte of each content that the process has signed, in order. */
static struct {
    _Atomic size_t count;
    uint8_t mark[4096];
} * signatures;

/* NOLINTBEGIN(clang-diagnostic-reserved-identifier): names of the linker */
int __real_EVP_DigestSign(EVP_MD_CTX *context, unsigned char *signature, size_t *length,
                          const unsigned char *bytes, size_t count);
int __wrap_EVP_DigestSign(EVP_MD_CTX *context, unsigned char *signature, size_t *length,
                          const unsigned char *bytes, size_t count);

int __wrap_EVP_DigestSign(EVP_MD_CTX *context, unsigned char *signature, size_t *length,
                          const unsigned char *bytes, size_t count)
{
    signatures->mark[signatures->count++ % sizeof(signatures->mark)] = bytes[count - 1];
    return __real_EVP_DigestSign(context, signature, length, bytes, count);
}
/* NOLINTEND(clang-diagnostic-reserved-identifier) */

/* Sends LENGTH bytes after the kind. */
static void send_packet(int fd, const struct packet *packet, size_t length)
{
    size_t whole = offsetof(struct packet, bytes) + length;

    assert_int_equal(send(fd, packet, whole, MSG_NOSIGNAL), whole);
}

/* Receives a message of KIND. Returns its number of bytes after the kind. */
static size_t receive_packet(int fd, struct packet *packet, enum message_kind kind)
{
    struct pollfd readable = {.fd = fd, .events = POLLIN};
    ssize_t got;

    assert_int_equal(poll(&readable, 1, -1), 1);
    got = recv(fd, packet, sizeof(*packet), 0);
    assert_true(got >= (ssize_t)sizeof(packet->kind));
    assert_int_equal(packet->kind, kind);
    return (size_t)got - offsetof(struct packet, bytes);
}

/* Waits until the other end is closed. */
static void await_close(int fd)
{
    struct pollfd closed = {.fd = fd};

    assert_int_equal(poll(&closed, 1, -1), 1);
    assert_true((closed.revents & POLLHUP) != 0);
    close(fd);
}

/*
 * Sends the set NUMBER of COUNT keys, although the file contains only those from FIRST on. The odd
 * ones are of configurations with TLS 1.2.
 */
static void send_set(uint32_t number, int first, uint32_t count)
{
    const struct message_keys_set set = {number, count, .tls12 = number % 2};
    int file = memfd_create("keys", MFD_CLOEXEC);

    for (int i = first; i < KEYS; i++) {
        unsigned char *bytes = NULL;
        uint32_t length = (uint32_t)i2d_PrivateKey(key[i], &bytes);

        assert_int_equal(write(file, &length, sizeof(length)), sizeof(length));
        assert_int_equal(write(file, bytes, length), length);
        OPENSSL_free(bytes);
    }
    assert_int_equal(
        channel_send(scene.process.child.channel, MESSAGE_KEYS_SET, &set, sizeof(set), file, true),
        0);
}

/* Returns the end of a thread of the worker in SLOT. */
static int add_thread(uint32_t set, uint32_t slot)
{
    const struct message_keys_client client = {set, slot, PID};
    int fds[2];

    assert_int_equal(channel_pair(fds), 0);
    assert_int_equal(channel_send(scene.process.child.channel, MESSAGE_KEYS_CLIENT, &client,
                                  sizeof(client), fds[1], true),
                     0);
    return fds[0];
}

static int add_client(uint32_t set)
{
    return add_thread(set, WORKER);
}

/* What a server signs: in TLS 1.3, or in TLS 1.2 with X25519. */
static const char verify[] = "                                                                "
                             "TLS 1.3, server CertificateVerify";
static const char downgraded[] = "DOWNGRD\x01\x03\x00\x1d\x20";
enum { CONTENT_BYTES = sizeof(verify) + 32, DOWNGRADED = 56, EXCHANGE_BYTES = 100 };

/* That of TLS 1.2 if TLS 1.3 does not allow SCHEME. Returns its length. */
static size_t write_content(uint8_t *bytes, uint32_t scheme)
{
    const struct signature_scheme *found = signature_scheme_get(scheme);

    memset(bytes, 0xab, CONTENT_BYTES);
    if (found == NULL || found->tls13) {
        memcpy(bytes, verify, sizeof(verify));
        return CONTENT_BYTES;
    }
    memcpy(bytes + DOWNGRADED, downgraded, sizeof(downgraded) - 1);
    return EXCHANGE_BYTES;
}

/* The content begins with HEAD instead. */
static void send_request(int fd, uint32_t number, uint32_t scheme, const char *head)
{
    struct packet packet = {MESSAGE_SIGN, .sign = {1000 + number, number, scheme}};
    size_t length = write_content(packet.sign.bytes, scheme);

    memcpy(packet.sign.bytes, head, strlen(head));
    send_packet(fd, &packet, sizeof(packet.sign) + length);
}

static bool is_valid(EVP_PKEY *signer, uint32_t code, const uint8_t *signature, size_t length)
{
    const struct signature_scheme *scheme = signature_scheme_get(code);
    EVP_MD_CTX *digest = EVP_MD_CTX_new();
    uint8_t bytes[CONTENT_BYTES];
    size_t count = write_content(bytes, code);
    EVP_PKEY_CTX *options;
    bool valid;

    assert_int_equal(
        EVP_DigestVerifyInit_ex(digest, &options, scheme->digest, NULL, NULL, signer, NULL), 1);
    if (scheme->pss) {
        assert_int_equal(EVP_PKEY_CTX_set_rsa_padding(options, RSA_PKCS1_PSS_PADDING), 1);
        assert_int_equal(EVP_PKEY_CTX_set_rsa_pss_saltlen(options, RSA_PSS_SALTLEN_DIGEST), 1);
    }
    valid = EVP_DigestVerify(digest, signature, length, bytes, count) == 1;
    EVP_MD_CTX_free(digest);
    return valid;
}

/* The key NUMBER of the set is SIGNER. */
static void check_signature(int fd, uint32_t number, EVP_PKEY *signer, uint32_t scheme)
{
    struct packet packet;
    size_t length;

    send_request(fd, number, scheme, "");
    length = receive_packet(fd, &packet, MESSAGE_SIGNATURE) - sizeof(packet.signature);
    assert_int_equal(packet.signature.number, 1000 + number);
    assert_true(is_valid(signer, scheme, packet.signature.bytes, length));
}

/* Signatures */

TEST(each_kind_of_key_signs)
{
    struct packet packet;
    int fd;

    send_set(SET, EC, KEYS);
    fd = add_client(SET);
    check_signature(fd, EC, key[EC], 0x0403);
    check_signature(fd, RSA_1024, key[RSA_1024], 0x0804);
    check_signature(fd, RSA_1024, key[RSA_1024], 0x0401);
    check_signature(fd, ED25519, key[ED25519], 0x0807);
    /* Answered without a signature: too long for the key; maybe ASN.1, which a client can send. */
    send_request(fd, RSA_1024, 0x0806, "");
    assert_int_equal(receive_packet(fd, &packet, MESSAGE_SIGNATURE), sizeof(packet.signature));
    send_request(fd, RSA_1024, 0x0401, "\x30\x62\x02\x60");
    assert_int_equal(receive_packet(fd, &packet, MESSAGE_SIGNATURE), sizeof(packet.signature));
    check_signature(fd, EC, key[EC], 0x0503);
    close(fd);
}

TEST(request_that_no_handshake_needs_is_reported_as_a_fault)
{
    static const struct {
        uint32_t key, scheme;
        const char *head;
    } bad[] = {{KEYS, 0x0403, ""},
               {EC, 0x0203, ""},
               {EC, 0x0804, ""},
               {EC, 0x0403, "x"},
               {RSA_1024, 0x0804, "x"}};
    int good;

    send_set(SET, EC, KEYS);
    good = add_client(SET);
    for (size_t i = 0; i < ARRAY_LENGTH(bad); i++) {
        int fd = add_client(SET);

        send_request(fd, bad[i].key, bad[i].scheme, bad[i].head);
        while (scene.faults == i)
            assert_int_equal(event_base_loop(scene.base, EVLOOP_ONCE), 0);
        assert_int_equal(scene.faulty_worker, WORKER);
        assert_int_equal(scene.faulty_pid, PID);
        await_close(fd);
        check_signature(good, EC, key[EC], 0x0403);
    }
    close(good);
}

TEST(key_exchange_without_tls12_is_a_fault)
{
    int with, without;

    send_set(SET, EC, KEYS);
    send_set(SET + 1, EC, KEYS);
    with = add_client(SET);
    without = add_client(SET + 1);
    check_signature(with, RSA_1024, key[RSA_1024], 0x0401);
    check_signature(without, RSA_1024, key[RSA_1024], 0x0804);
    send_request(without, RSA_1024, 0x0401, "");
    while (scene.faults == 0)
        assert_int_equal(event_base_loop(scene.base, EVLOOP_ONCE), 0);
    await_close(without);
    close(with);
}

TEST(client_of_a_set_that_is_missing_is_closed)
{
    await_close(add_client(SET));
    send_set(SET, RSA_1024, KEYS); /* the file has one key less */
    await_close(add_client(SET));
}

TEST(set_stays_until_its_last_client_ends)
{
    int fds[3];

    send_set(SET, EC, KEYS);
    send_set(SET + 1, RSA_1024, KEYS - 1);
    for (int i = 0; i < 2; i++) {
        fds[i] = add_client(SET);
        send_set(SET, ED25519, 1); /* not new, so ignored */
    }
    fds[2] = add_client(SET + 1);
    shutdown(fds[0], SHUT_WR);
    await_close(fds[0]);
    check_signature(fds[1], EC, key[EC], 0x0403);
    check_signature(fds[2], 0, key[RSA_1024], 0x0804);
    shutdown(fds[1], SHUT_WR);
    await_close(fds[1]);
    await_close(add_client(SET));
    send_set(SET, ED25519, 1);
    fds[0] = add_client(SET);
    check_signature(fds[0], 0, key[ED25519], 0x0807);
    check_signature(fds[2], 0, key[RSA_1024], 0x0804);
    close(fds[0]);
    close(fds[2]);
}

/* Shares */

enum { FLOOD = 300, HONEST = 10 };

/* Sends COUNT requests whose signatures have MARK. */
static void send_marked(int fd, uint8_t mark, size_t count)
{
    struct packet packet = {MESSAGE_SIGN, .sign = {.key = RSA_1024, .scheme = 0x0804}};
    size_t length = write_content(packet.sign.bytes, packet.sign.scheme);

    packet.sign.bytes[length - 1] = mark;
    for (size_t i = 0; i < count; i++)
        send_packet(fd, &packet, sizeof(packet.sign) + length);
}

static size_t count_marks(uint8_t mark, size_t before)
{
    size_t found = 0;

    for (size_t i = 0; i < before; i++)
        found += signatures->mark[i] == mark;
    return found;
}

/* Number of signatures up to that with the last of COUNT marks. */
static size_t find_last_mark(uint8_t mark, size_t count)
{
    size_t at = 0;

    while (at < signatures->count && count_marks(mark, at) < count)
        at++;
    assert_int_equal(count_marks(mark, at), count);
    return at;
}

/* The process reads nothing until it continues. */
static void suspend(void)
{
    kill(scene.process.child.pid, SIGSTOP);
    assert_int_equal(waitpid(scene.process.child.pid, NULL, WUNTRACED), scene.process.child.pid);
    signatures->count = 0;
}

static void receive_signatures(int fd, size_t count)
{
    struct packet packet;

    while (count-- > 0)
        receive_packet(fd, &packet, MESSAGE_SIGNATURE);
}

/* The first one floods with three threads, the second one with a single thread. */
TEST(workers_are_served_in_turn)
{
    static const uint8_t slots[] = {1, 1, 1, 2, 3};
    int fd[ARRAY_LENGTH(slots)];
    size_t end;

    send_set(SET, EC, KEYS);
    for (size_t i = 0; i < ARRAY_LENGTH(slots); i++) {
        fd[i] = add_thread(SET, slots[i]);
        check_signature(fd[i], EC, key[EC], 0x0403);
    }
    suspend();
    for (size_t i = 0; i < ARRAY_LENGTH(slots); i++)
        send_marked(fd[i], slots[i], slots[i] == 3 ? HONEST : FLOOD);
    kill(scene.process.child.pid, SIGCONT);
    receive_signatures(fd[4], HONEST);
    end = find_last_mark(3, HONEST);
    for (uint8_t slot = 1; slot <= 2; slot++)
        if (count_marks(slot, end) > HONEST + 1)
            fail_msg("worker %d has %zu of %zu signatures", slot, count_marks(slot, end), end);
    for (size_t i = 0; i < 4; i++)
        receive_signatures(fd[i], FLOOD); /* none is lost */
    for (size_t i = 0; i < ARRAY_LENGTH(slots); i++)
        close(fd[i]);
}

TEST(threads_of_a_worker_are_served_in_turn)
{
    int flood, other;
    size_t end;

    send_set(SET, EC, KEYS);
    flood = add_client(SET);
    other = add_client(SET);
    check_signature(flood, EC, key[EC], 0x0403);
    check_signature(other, EC, key[EC], 0x0403);
    suspend();
    send_marked(flood, 1, FLOOD);
    send_marked(other, 2, HONEST);
    kill(scene.process.child.pid, SIGCONT);
    receive_signatures(other, HONEST);
    end = find_last_mark(2, HONEST);
    assert_in_range(count_marks(1, end), 0, HONEST + 1);
    close(flood);
    close(other);
}

TEST(jobs_of_a_worker_that_has_ended_are_dropped)
{
    int flood, honest;

    send_set(SET, EC, KEYS);
    flood = add_thread(SET, 1);
    honest = add_thread(SET, 2);
    check_signature(flood, EC, key[EC], 0x0403);
    check_signature(honest, EC, key[EC], 0x0403);
    suspend();
    send_marked(flood, 1, FLOOD);
    send_marked(honest, 2, 1);
    close(flood);
    kill(scene.process.child.pid, SIGCONT);
    receive_signatures(honest, 1);
    for (int i = 0; i < HONEST; i++)
        check_signature(honest, EC, key[EC], 0x0403);
    assert_in_range(count_marks(1, signatures->count), 0, 2);
    close(honest);
}

/* The master's side */

TEST(end_of_the_master_ends_all_clients)
{
    int fds[2];

    send_set(SET, EC, KEYS);
    send_set(SET + 1, EC, KEYS);
    for (int i = 0; i < 2; i++) {
        fds[i] = add_client(SET);
        check_signature(fds[i], EC, key[EC], 0x0403);
    }
    assert_int_equal(await_end(), 0);
    for (int i = 0; i < 2; i++)
        await_close(fds[i]);
}

TEST(process_leaves_no_core)
{
    char path[64], limits[2048] = "";
    FILE *file;

    keys_process_check(&scene.process, TIMEOUT_MS, 0, 1);
    await_report(1);
    snprintf(path, sizeof(path), "/proc/%d/limits", scene.process.child.pid);
    file = fopen(path, "r");
    assert_true(fread(limits, 1, sizeof(limits) - 1, file) > 0);
    fclose(file);
    assert_non_null(strstr(limits, "Max core file size        0                    0 "));
}

TEST_WITH(process_without_a_sandbox_ends, open_scene, close_scene)
{
    int status;

    scene.config.server_user = "no such user";
    assert_true(start_process());
    assert_int_equal(waitpid(scene.process.child.pid, &status, 0), scene.process.child.pid);
    assert_int_equal(WEXITSTATUS(status), EXIT_FAILURE);
    child_forget(&scene.process.child);
}

/* A certificate with its key, which the caller frees. */
static struct certificate_set *make_set(X509 **certificate)
{
    struct self_signed files;
    char why[512], *path[] = {files.certificate, files.key};
    struct config config = {.tls_certificate = {.item = path, .count = 1},
                            .tls_key = {.item = path + 1, .count = 1},
                            .tls_keys_process = true,
                            .server_user = (char *)"",
                            .server_group = (char *)""};
    struct certificate_set *set;
    FILE *file;

    own_directory_make();
    assert_int_equal(self_signed_write(&files, own_directory, "localhost", why, sizeof(why)), 0);
    set = certificate_set_load(&config, -1, why, sizeof(why));
    assert_non_null(set);
    file = fopen(files.certificate, "r");
    *certificate = PEM_read_X509(file, NULL, NULL, NULL);
    fclose(file);
    assert_int_equal(own_directory_remove(), 0);
    return set;
}

TEST(link_signs_with_the_keys_of_its_set)
{
    X509 *certificate;
    struct certificate_set *set = make_set(&certificate);
    int fd = keys_process_link(&scene.process, set, WORKER, PID), before;

    assert_true(fd >= 0);
    check_signature(fd, 0, X509_get0_pubkey(certificate), 0x0403);
    send_request(fd, 1, 0x0403, ""); /* no such key */
    while (scene.faults == 0)
        assert_int_equal(event_base_loop(scene.base, EVLOOP_ONCE), 0);
    assert_int_equal(scene.faulty_worker, WORKER);
    assert_int_equal(scene.faulty_pid, PID);
    await_close(fd);
    kill(scene.process.child.pid, SIGKILL);
    assert_int_equal(waitpid(scene.process.child.pid, NULL, 0), scene.process.child.pid);
    before = open_descriptors();
    assert_int_equal(keys_process_link(&scene.process, set, WORKER, PID), -1);
    assert_int_equal(open_descriptors(), before);
    child_forget(&scene.process.child);
    X509_free(certificate);
    certificate_set_free(set);
}

TEST(ping_is_answered)
{
    const struct channel *channel = scene.process.child.channel;

    keys_process_check(&scene.process, 0, 0, 2); /* never */
    assert_int_equal(channel_sent(channel), 0);
    keys_process_check(&scene.process, TIMEOUT_MS, 0, 3);
    assert_int_equal(scene.process.pinged_ns, 3);
    keys_process_check(&scene.process, TIMEOUT_MS, 0, 4); /* it has time to answer */
    assert_int_equal(scene.process.pinged_ns, 3);
    assert_int_equal(channel_sent(channel), 1);
    await_report(1);
    assert_int_equal(scene.process.pinged_ns, 0);
    assert_int_equal(segment_master(&scene.segment)->metrics[METRIC_protocol_errors], 0);
}

TEST(answer_without_a_ping_is_a_fault)
{
    int fd, status;

    keys_process_check(&scene.process, TIMEOUT_MS, 0, 3);
    scene.process.pinged_ns = 0;
    send_set(SET, EC, KEYS);
    fd = add_client(SET);
    check_signature(fd, EC, key[EC], 0x0403); /* so it has answered the ping, too */
    suspend();                                /* it must not end when its channel is closed */
    await_report(1);
    close(fd);
    assert_int_equal(segment_master(&scene.segment)->metrics[METRIC_protocol_errors], 1);
    assert_true(channel_is_broken(scene.process.child.channel));
    status = await_end();
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGKILL);
}

static int make_keys(void **state)
{
    (void)state;
    key[EC] = EVP_EC_gen("P-256");
    key[RSA_1024] = EVP_RSA_gen(1024);
    key[ED25519] = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
    signatures =
        mmap(NULL, sizeof(*signatures), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return signatures != MAP_FAILED && key[EC] != NULL && key[RSA_1024] != NULL &&
                   key[ED25519] != NULL
               ? 0
               : -1;
}

static int free_keys(void **state)
{
    (void)state;
    for (int i = 0; i < KEYS; i++)
        EVP_PKEY_free(key[i]);
    return munmap(signatures, sizeof(*signatures));
}

const struct test_fixture test_group_fixture = {make_keys, free_keys};
