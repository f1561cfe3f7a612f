/* The keys process between a master and workers, which are both this process: its signatures, and what it refuses. */
#include "daemon/keys/keys.h"

#include "common/macros.h"
#include "common/segment_writer.h"
#include "daemon/base/channel.h"
#include "daemon/base/service.h"
#include "daemon/sandbox/sandbox.h"
#include "daemon/tls/remote_key.h"
#include "tests/unit/open_descriptors.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <assert.h>
#include <openssl/evp.h>
#include <openssl/rsa.h>
#include <openssl/x509.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SET = 7, WORKER = 3, PID = 4711, LOCK_FD = 1 };
enum { EC, RSA_1024, ED25519, KEYS }; /* numbers of the keys in a set */
enum { EXIT_OPEN_FILES = 10, EXIT_SIGNALS, EXIT_SEGMENT, EXIT_MEMORY }; /* of the keys process */

static EVP_PKEY *key[KEYS];
static bool forgot_segment, sandbox_fails;

/* Replaced by the linker: see wrap() in tests/unit/CMakeLists.txt. */
/* NOLINTBEGIN(clang-diagnostic-reserved-identifier): names of the linker */
int __wrap_sandbox_enter(const struct sandbox_setup *setup);
void __wrap_segment_forget(struct segment *segment);
/* NOLINTEND(clang-diagnostic-reserved-identifier) */

/* Fails unless the process has protected its memory before. */
int __wrap_sandbox_enter(const struct sandbox_setup *setup)
{
    struct rlimit core;

    return !sandbox_fails && setup->role == SANDBOX_KEYS && setup->keep_count == 2 &&
                   setup->keep[1] == LOCK_FD && getrlimit(RLIMIT_CORE, &core) == 0 &&
                   core.rlim_max == 0 && prctl(PR_GET_DUMPABLE) == 0
               ? 0
               : -1;
}

void __wrap_segment_forget(struct segment *segment)
{
    (void)segment;
    forgot_segment = true;
}

/* The linker replaces these, too; the labels are its names for them. */
void *real_calloc(size_t count, size_t size) __asm__("__real_calloc");
void *wrapped_calloc(size_t count, size_t size) __asm__("__wrap_calloc");
void real_free(void *memory) __asm__("__real_free");
void wrapped_free(void *memory) __asm__("__wrap_free");

static void *held[16]; /* from calloc(), and not freed */

static size_t find_held(const void *memory)
{
    size_t i = 0;

    while (i < ARRAY_LENGTH(held) && held[i] != memory)
        i++;
    return i;
}

void *wrapped_calloc(size_t count, size_t size)
{
    size_t place = find_held(NULL);

    assert(place < ARRAY_LENGTH(held));
    held[place] = real_calloc(count, size);
    return held[place];
}

void wrapped_free(void *memory)
{
    size_t place = find_held(memory);

    if (place < ARRAY_LENGTH(held))
        held[place] = NULL;
    real_free(memory);
}

static bool holds_nothing(void)
{
    for (size_t i = 0; i < ARRAY_LENGTH(held); i++)
        if (held[i] != NULL)
            return false;
    return true;
}

/* The keys process */

static int run(int command_fd)
{
    static struct segment segment;
    const struct keys_setup setup = {
        .segment = &segment, .command_fd = command_fd, .lock_fd = LOCK_FD};
    int before = open_descriptors();
    struct sigaction action;
    int status = keys_run(&setup);

    prctl(PR_SET_DUMPABLE, 1, 0, 0, 0); /* for /proc, and the search for leaks */
    sigaction(signals_handled[0], NULL, &action);
    if (action.sa_handler != SIG_IGN)
        return EXIT_SIGNALS;
    if (!forgot_segment)
        return EXIT_SEGMENT;
    if (!holds_nothing())
        return EXIT_MEMORY;
    return status == EXIT_SUCCESS && open_descriptors() != before - 1 ? EXIT_OPEN_FILES : status;
}

struct process {
    pid_t pid;
    int fd; /* the master's end */
};

static int start(void **state)
{
    static struct process process;
    int fds[2];

    if (channel_pair(fds) != 0)
        return -1;
    process = (struct process){fork(), fds[0]};
    if (process.pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(fds[0]);
        exit(run(fds[1]));
    }
    close(fds[1]);
    *state = &process;
    return process.pid > 0 ? 0 : -1;
}

static int await_status(const struct process *process)
{
    int status = -1;

    waitpid(process->pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* The end of the master ends the process, which leaves nothing open. */
static int stop(void **state)
{
    const struct process *process = *state;

    close(process->fd);
    return await_status(process);
}

/* Messages */

struct packet {
    int64_t kind;
    union {
        struct message_keys_set set;
        struct message_keys_client client;
        struct message_sign sign;
        struct message_signature signature;
        uint8_t bytes[sizeof(struct message_signature) + SIGNATURE_BYTES_MAX];
    };
};

/* Sends LENGTH bytes after the kind, with a copy of PASSED unless it is -1. */
static void send_packet(int fd, const struct packet *packet, size_t length, int passed)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control = {0};
    struct iovec body = {(void *)(uintptr_t)packet, offsetof(struct packet, bytes) + length};
    struct msghdr header = {.msg_iov = &body, .msg_iovlen = 1};

    if (passed >= 0) {
        struct cmsghdr *rights = &control.align;

        header.msg_control = control.bytes;
        header.msg_controllen = sizeof(control.bytes);
        rights->cmsg_level = SOL_SOCKET;
        rights->cmsg_type = SCM_RIGHTS;
        rights->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(rights), &passed, sizeof(int));
    }
    assert_int_equal(sendmsg(fd, &header, MSG_NOSIGNAL), body.iov_len);
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

/* Sends the set NUMBER of COUNT keys, although the file contains only those from FIRST on. */
static void send_set(const struct process *process, uint32_t number, int first, uint32_t count)
{
    const struct packet packet = {MESSAGE_KEYS_SET, .set = {number, count}};
    int file = memfd_create("keys", MFD_CLOEXEC);

    for (int i = first; i < KEYS; i++) {
        unsigned char *bytes = NULL;
        uint32_t length = (uint32_t)i2d_PrivateKey(key[i], &bytes);

        assert_int_equal(write(file, &length, sizeof(length)), sizeof(length));
        assert_int_equal(write(file, bytes, length), length);
        OPENSSL_free(bytes);
    }
    send_packet(process->fd, &packet, sizeof(packet.set), file);
    close(file);
}

/* Returns the worker's end. */
static int add_client(const struct process *process, uint32_t set)
{
    const struct packet packet = {MESSAGE_KEYS_CLIENT, .client = {set, WORKER, PID}};
    int fds[2];

    assert_int_equal(channel_pair(fds), 0);
    send_packet(process->fd, &packet, sizeof(packet.client), fds[1]);
    close(fds[1]);
    return fds[0];
}

/* What a server signs in TLS 1.3. */
static const char context[] = "                                                                "
                              "TLS 1.3, server CertificateVerify";
enum { SIGNED_BYTES = sizeof(context) + 32 };

static void request(int fd, uint32_t number, uint32_t scheme, char first)
{
    struct packet packet = {MESSAGE_SIGN, .sign = {1000 + number, number, scheme}};

    memcpy(packet.sign.bytes, context, sizeof(context));
    memset(packet.sign.bytes + sizeof(context), 0xab, SIGNED_BYTES - sizeof(context));
    packet.sign.bytes[0] = (uint8_t)first;
    send_packet(fd, &packet, sizeof(packet.sign) + SIGNED_BYTES, -1);
}

static bool is_valid(EVP_PKEY *signer, uint32_t code, const uint8_t *signature, size_t length)
{
    const struct signature_scheme *scheme = signature_scheme_get(code);
    EVP_MD_CTX *digest = EVP_MD_CTX_new();
    uint8_t bytes[SIGNED_BYTES];
    EVP_PKEY_CTX *options;
    bool valid;

    memcpy(bytes, context, sizeof(context));
    memset(bytes + sizeof(context), 0xab, SIGNED_BYTES - sizeof(context));
    assert_int_equal(
        EVP_DigestVerifyInit_ex(digest, &options, scheme->digest, NULL, NULL, signer, NULL), 1);
    if (scheme->pss) {
        assert_int_equal(EVP_PKEY_CTX_set_rsa_padding(options, RSA_PKCS1_PSS_PADDING), 1);
        assert_int_equal(EVP_PKEY_CTX_set_rsa_pss_saltlen(options, RSA_PSS_SALTLEN_DIGEST), 1);
    }
    valid = EVP_DigestVerify(digest, signature, length, bytes, sizeof(bytes)) == 1;
    EVP_MD_CTX_free(digest);
    return valid;
}

/* The key NUMBER of the set is SIGNER. */
static void check_signature(int fd, uint32_t number, EVP_PKEY *signer, uint32_t scheme)
{
    struct packet packet;
    size_t length;

    request(fd, number, scheme, ' ');
    length = receive_packet(fd, &packet, MESSAGE_SIGNATURE) - sizeof(packet.signature);
    assert_int_equal(packet.signature.number, 1000 + number);
    assert_true(is_valid(signer, scheme, packet.signature.bytes, length));
}

/* Tests */

static void each_kind_of_key_signs(void **state)
{
    const struct process *process = *state;
    struct packet packet;
    int fd;

    send_set(process, SET, EC, KEYS);
    fd = add_client(process, SET);
    check_signature(fd, EC, key[EC], 0x0403);
    check_signature(fd, RSA_1024, key[RSA_1024], 0x0804);
    check_signature(fd, RSA_1024, key[RSA_1024], 0x0401);
    check_signature(fd, ED25519, key[ED25519], 0x0807);
    request(fd, RSA_1024, 0x0806, ' '); /* too long for the key: answered without a signature */
    assert_int_equal(receive_packet(fd, &packet, MESSAGE_SIGNATURE), sizeof(packet.signature));
    check_signature(fd, EC, key[EC], 0x0503);
    close(fd);
}

static void request_that_no_handshake_needs_is_reported_as_a_fault(void **state)
{
    static const struct {
        uint32_t key, scheme;
        char first;
    } bad[] = {{KEYS, 0x0403, ' '}, {EC, 0x0203, ' '}, {EC, 0x0804, ' '}, {EC, 0x0403, 'x'}};
    const struct process *process = *state;
    struct packet packet;
    int good;

    send_set(process, SET, EC, KEYS);
    good = add_client(process, SET);
    for (size_t i = 0; i < ARRAY_LENGTH(bad); i++) {
        int fd = add_client(process, SET);

        request(fd, bad[i].key, bad[i].scheme, bad[i].first);
        assert_int_equal(receive_packet(process->fd, &packet, MESSAGE_KEYS_FAULT),
                         sizeof(packet.client));
        assert_int_equal(packet.client.set, SET);
        assert_int_equal(packet.client.worker, WORKER);
        assert_int_equal(packet.client.pid, PID);
        await_close(fd);
        check_signature(good, EC, key[EC], 0x0403);
    }
    close(good);
}

static void client_of_a_set_that_is_missing_is_closed(void **state)
{
    const struct process *process = *state;

    await_close(add_client(process, SET));
    send_set(process, SET, RSA_1024, KEYS); /* the file has one key less */
    await_close(add_client(process, SET));
}

static void set_stays_until_its_last_client_ends(void **state)
{
    const struct process *process = *state;
    int fds[3];

    send_set(process, SET, EC, KEYS);
    send_set(process, SET + 1, RSA_1024, KEYS - 1);
    for (int i = 0; i < 2; i++) {
        fds[i] = add_client(process, SET);
        send_set(process, SET, ED25519, 1); /* not new, so ignored */
    }
    fds[2] = add_client(process, SET + 1);
    shutdown(fds[0], SHUT_WR);
    await_close(fds[0]);
    check_signature(fds[1], EC, key[EC], 0x0403);
    check_signature(fds[2], 0, key[RSA_1024], 0x0804);
    shutdown(fds[1], SHUT_WR);
    await_close(fds[1]);
    await_close(add_client(process, SET));
    send_set(process, SET, ED25519, 1);
    fds[0] = add_client(process, SET);
    check_signature(fds[0], 0, key[ED25519], 0x0807);
    check_signature(fds[2], 0, key[RSA_1024], 0x0804);
    close(fds[0]);
    close(fds[2]);
}

static void ping_is_answered(void **state)
{
    const struct process *process = *state;
    struct packet packet = {.kind = MESSAGE_KEYS_PING};

    send_packet(process->fd, &packet, 0, -1);
    assert_int_equal(receive_packet(process->fd, &packet, MESSAGE_KEYS_PONG), 0);
}

static void end_of_the_master_ends_all_clients(void **state)
{
    struct process *process = *state;
    int fds[2];

    send_set(process, SET, EC, KEYS);
    send_set(process, SET + 1, EC, KEYS);
    for (int i = 0; i < 2; i++) {
        fds[i] = add_client(process, SET);
        check_signature(fds[i], EC, key[EC], 0x0403);
    }
    shutdown(process->fd, SHUT_WR);
    for (int i = 0; i < 2; i++)
        await_close(fds[i]);
}

static void fault_of_the_master_ends_the_process(void **state)
{
    const struct process *process = *state;
    const struct packet packet = {.kind = MESSAGE_COUNT};
    struct pollfd closed = {.fd = process->fd};

    send_packet(process->fd, &packet, 0, -1);
    assert_int_equal(poll(&closed, 1, -1), 1);
}

static void no_sandbox_is_a_failure(void **state)
{
    struct process *process;

    sandbox_fails = true;
    assert_int_equal(start(state), 0);
    sandbox_fails = false;
    process = *state;
    assert_int_equal(await_status(process), EXIT_FAILURE);
    close(process->fd);
}

static int make_keys(void **state)
{
    (void)state;
    key[EC] = EVP_EC_gen("P-256");
    key[RSA_1024] = EVP_RSA_gen(1024);
    key[ED25519] = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
    return key[EC] != NULL && key[RSA_1024] != NULL && key[ED25519] != NULL ? 0 : -1;
}

static int free_keys(void **state)
{
    (void)state;
    for (int i = 0; i < KEYS; i++)
        EVP_PKEY_free(key[i]);
    return 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(each_kind_of_key_signs),
        TEST(request_that_no_handshake_needs_is_reported_as_a_fault),
        TEST(client_of_a_set_that_is_missing_is_closed),
        TEST(set_stays_until_its_last_client_ends),
        TEST(ping_is_answered),
        TEST(end_of_the_master_ends_all_clients),
        TEST(fault_of_the_master_ends_the_process),
        cmocka_unit_test(no_sandbox_is_a_failure),
    };

    return cmocka_run_group_tests(tests, make_keys, free_keys);
}
