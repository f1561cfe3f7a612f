/*
 * Signatures by the keys process, whose end of the link the test is: which there are, keys of
 * OpenSSL without the private part, and handshakes that wait. SSL_do_handshake() is replaced by
 * what a handshake does with its key.
 */
#include "daemon/tls/remote_key.h"

#include "common/macros.h"
#include "daemon/base/channel.h"
#include "daemon/tls/signer.h"
#include "tests/test.h"

#include <stdbool.h>

#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <openssl/rsa.h>
#include <pthread.h>
#include <string.h>

enum { NUMBER = 7, SIGNATURE_MAX = 512, HELD_MAX = 600, SENT_MAX = 512 };

static const char text[] = "what is signed", made[] = "a signature";

/* A serving thread, and the keys process. */
struct scene {
    struct event_base *base;
    struct signer *signer;
    struct channel *keys;
    uint32_t set;            /* of keys, of its link */
    bool holds, fails;       /* the keys process answers nothing, or without a signature */
    uint32_t number, code;   /* of the last request; 0: none */
    uint64_t held[HELD_MAX]; /* numbers of requests without an answer */
    size_t held_count;
};

/* What a handshake does. */
struct job {
    struct signer_handshake handshake;
    struct scene *scene;
    void (*run)(struct job *job);
    bool returned;
    int result;
    /* Its argument and result. */
    EVP_PKEY *key;
    const struct way *way;
    bool at_once;
    unsigned char signature[SIGNATURE_MAX];
    size_t length;
    int steps, step; /* signatures to make, and made */
};

/* Replaced by the linker: see wrap() in tests/unit/CMakeLists.txt. */
/* NOLINTBEGIN(clang-diagnostic-reserved-identifier): name of the linker */
int __wrap_SSL_do_handshake(SSL *ssl);
/* NOLINTEND(clang-diagnostic-reserved-identifier) */

int __wrap_SSL_do_handshake(SSL *ssl)
{
    struct job *job = (struct job *)ssl;

    job->run(job);
    return 1;
}

static void continue_job(struct job *job, uint64_t now_ns)
{
    job->returned =
        signer_run(job->scene->signer, &job->handshake, (SSL *)job, job, now_ns, &job->result);
    if (job->returned)
        assert_int_equal(job->result, 1);
}

static void on_resume(void *owner)
{
    continue_job(owner, 0);
}

static void answer_request(const struct scene *scene, uint64_t number)
{
    _Alignas(struct message_signature) char space[sizeof(struct message_signature) + sizeof(made)];
    struct message_signature *message = (struct message_signature *)space;

    message->number = number;
    memcpy(message->bytes, made, sizeof(made));
    assert_int_equal(channel_send(scene->keys, MESSAGE_SIGNATURE, message,
                                  sizeof(*message) + (scene->fails ? 0 : sizeof(made)), -1, false),
                     0);
}

static void on_request(void *owner, int kind, const void *data, size_t length, int fd)
{
    struct scene *scene = owner;
    const struct message_sign *request = data;

    (void)fd;
    assert_int_equal(kind, MESSAGE_SIGN);
    assert_int_equal(length, sizeof(*request) + sizeof(text));
    assert_memory_equal(request->bytes, text, sizeof(text));
    scene->number = request->key;
    scene->code = request->scheme;
    if (scene->holds)
        scene->held[scene->held_count++] = request->number;
    else
        answer_request(scene, request->number);
}

static void on_closed(void *owner)
{
    (void)owner;
}

static void on_fault(void *owner, const char *what)
{
    (void)owner;
    fail_msg("the signer %s", what);
}

/* Another keys process. */
static void connect_keys(struct scene *scene)
{
    const struct channel_owner owner = {
        .message = on_request, .closed = on_closed, .fault = on_fault, .owner = scene};
    int fds[2];

    channel_close(scene->keys);
    assert_int_equal(channel_pair(fds), 0);
    scene->keys = channel_open(scene->base, fds[1], ROUTE_SIGN_REQUESTS, &owner);
    assert_non_null(scene->keys);
    scene->held_count = 0;
    signer_connect(scene->signer, scene->set, fds[0]);
}

static void open_scene(struct scene *scene)
{
    *scene = (struct scene){.base = event_base_new()};
    assert_non_null(scene->base);
    scene->signer = signer_new(scene->base, on_resume);
    assert_non_null(scene->signer);
}

static void close_scene(struct scene *scene)
{
    signer_free(scene->signer);
    channel_close(scene->keys);
    event_base_free(scene->base);
}

/* Delivers all messages. */
static void settle(const struct scene *scene)
{
    for (int i = 0; i < 4; i++)
        event_base_loop(scene->base, EVLOOP_NONBLOCK);
}

static void finish_job(struct job *job)
{
    continue_job(job, 0);
    while (!job->returned)
        assert_int_equal(event_base_loop(job->scene->base, EVLOOP_ONCE), 0);
}

/* The keys of the test, by type */

enum { KEY_RSA, KEY_EC, KEY_ED25519, KEY_X25519, KEY_COUNT };

static EVP_PKEY *own[KEY_COUNT];

static int make_keys(void **state)
{
    (void)state;
    own[KEY_RSA] = EVP_RSA_gen(2048);
    own[KEY_EC] = EVP_EC_gen("P-256");
    own[KEY_ED25519] = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
    own[KEY_X25519] = EVP_PKEY_Q_keygen(NULL, NULL, "X25519");
    return own[KEY_RSA] != NULL && own[KEY_EC] != NULL && own[KEY_ED25519] != NULL &&
                   own[KEY_X25519] != NULL
               ? 0
               : -1;
}

static int free_keys(void **state)
{
    (void)state;
    for (size_t i = 0; i < KEY_COUNT; i++)
        EVP_PKEY_free(own[i]);
    return 0;
}

const struct test_fixture test_group_fixture = {make_keys, free_keys};

static EVP_PKEY *make_remote(size_t type)
{
    EVP_PKEY *key = remote_key_new(own[type], NUMBER);

    assert_non_null(key);
    return key;
}

/* How a signature is made. PADDING 0: the default. */
struct way {
    size_t type;
    const char *digest;
    int padding;
    uint32_t code; /* as TLS names it; 0: the server makes none */
};

/* Begins a signature; the padding is set as a parameter at once, or as a number afterwards. */
static bool begin(EVP_MD_CTX *context, EVP_PKEY *key, const struct way *way, bool at_once)
{
    char name[] = OSSL_PKEY_RSA_PAD_MODE_PKCSV15;
    const OSSL_PARAM parameters[] = {
        OSSL_PARAM_construct_utf8_string(OSSL_SIGNATURE_PARAM_PAD_MODE, name, 0),
        OSSL_PARAM_construct_end()};
    EVP_PKEY_CTX *settings = NULL;

    if (way->padding == RSA_PKCS1_PSS_PADDING)
        strcpy(name, OSSL_PKEY_RSA_PAD_MODE_PSS);
    at_once = at_once && way->padding != 0;
    if (EVP_DigestSignInit_ex(context, &settings, way->digest, NULL, NULL, key,
                              at_once ? parameters : NULL) != 1)
        return false;
    return at_once || way->padding == 0 ||
           EVP_PKEY_CTX_set_rsa_padding(settings, way->padding) == 1;
}

/* In a handshake: JOB->length is that of the signature of TEXT, or 0. */
static void sign(struct job *job)
{
    const unsigned char *bytes = (const unsigned char *)text;
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    size_t length = 0, room = SIGNATURE_MAX;

    job->length = 0;
    if (begin(context, job->key, job->way, job->at_once) &&
        EVP_DigestSign(context, NULL, &length, bytes, sizeof(text)) == 1) {
        assert_int_equal(length, EVP_PKEY_get_size(job->key));
        if (EVP_DigestSign(context, job->signature, &room, bytes, sizeof(text)) == 1) {
            assert_true(room > 0);
            job->length = room;
        }
    }
    EVP_MD_CTX_free(context);
}

TEST(key_is_that_of_the_certificate)
{
    for (size_t i = 0; i < KEY_X25519; i++) {
        EVP_PKEY *key = make_remote(i), *second = make_remote(i);
        EVP_PKEY *other = make_remote(i == KEY_RSA ? KEY_EC : KEY_RSA);

        assert_int_equal(EVP_PKEY_get_size(key), EVP_PKEY_get_size(own[i]));
        assert_int_equal(EVP_PKEY_get_bits(key), EVP_PKEY_get_bits(own[i]));
        assert_int_equal(EVP_PKEY_eq(key, second), 1);
        assert_int_not_equal(EVP_PKEY_eq(key, other), 1);
        EVP_PKEY_free(other);
        EVP_PKEY_free(second);
        EVP_PKEY_free(key);
    }
}

TEST(keys_of_one_type_differ)
{
    EVP_PKEY *another = EVP_EC_gen("P-256"), *key = make_remote(KEY_EC);
    EVP_PKEY *other = remote_key_new(another, NUMBER);

    assert_non_null(other);
    assert_int_not_equal(EVP_PKEY_eq(key, other), 1);
    EVP_PKEY_free(other);
    EVP_PKEY_free(key);
    EVP_PKEY_free(another);
}

TEST(key_of_another_type_is_refused)
{
    assert_null(remote_key_new(own[KEY_X25519], NUMBER));
}

/* Numbers of RFC 8446 section 4.2.3. */
TEST(signature_is_requested_by_key_and_scheme)
{
    static const struct way ways[] = {
        {KEY_EC, "SHA256", 0, 0x0403},
        {KEY_EC, "SHA384", 0, 0x0503},
        {KEY_ED25519, NULL, 0, 0x0807},
        {KEY_RSA, "SHA256", 0, 0x0401},
        {KEY_RSA, "SHA512", RSA_PKCS1_PADDING, 0x0601},
        {KEY_RSA, "SHA256", RSA_PKCS1_PSS_PADDING, 0x0804},
        {KEY_RSA, "SHA384", RSA_PKCS1_PSS_PADDING, 0x0805},
        {KEY_RSA, "SHA1", 0, 0},
        {KEY_ED25519, "SHA256", 0, 0},
        {KEY_RSA, "a digest with a name that no signature has", 0, 0},
    };
    struct scene scene;

    open_scene(&scene);
    connect_keys(&scene);
    for (size_t i = 0; i < 2 * ARRAY_LENGTH(ways); i++) {
        const struct way *way = &ways[i / 2];
        struct job job = {.scene = &scene,
                          .run = sign,
                          .key = make_remote(way->type),
                          .way = way,
                          .at_once = i % 2 == 1};

        scene.code = 0;
        finish_job(&job);
        assert_int_equal(scene.code, way->code);
        assert_int_equal(job.length, way->code != 0 ? sizeof(made) : 0);
        if (way->code != 0) {
            assert_int_equal(scene.number, NUMBER);
            assert_memory_equal(job.signature, made, sizeof(made));
        }
        EVP_PKEY_free(job.key);
    }
    close_scene(&scene);
}

static const struct way ec_way = {KEY_EC, "SHA256", 0, 0x0403};

TEST(signature_that_is_not_made_is_an_error)
{
    struct scene scene;
    struct job job = {
        .scene = &scene, .run = sign, .key = make_remote(KEY_EC), .way = &ec_way, .length = 1};

    sign(&job); /* not in a handshake */
    assert_int_equal(job.length, 0);
    open_scene(&scene);
    connect_keys(&scene);
    scene.fails = true;
    finish_job(&job);
    assert_int_equal(job.length, 0);
    assert_int_equal(scene.code, ec_way.code);
    EVP_PKEY_free(job.key);
    close_scene(&scene);
}

/* Handshakes that wait */

/* Its locals must survive the pauses. */
static void sign_several_times(struct job *job)
{
    volatile int steps[64] = {0};

    while (job->step < job->steps) {
        int now = job->step;

        steps[now % 64] = now;
        sign(job);
        assert_int_equal(steps[now % 64], now);
        job->step++;
    }
}

TEST(paused_handshakes_do_not_disturb_each_other)
{
    enum { JOBS = 50, STEPS = 5 };
    EVP_PKEY *key = make_remote(KEY_EC);
    struct job jobs[JOBS];
    struct scene scene;

    open_scene(&scene);
    connect_keys(&scene);
    scene.holds = true;
    for (int i = 0; i < JOBS; i++) {
        jobs[i] = (struct job){
            .scene = &scene, .run = sign_several_times, .key = key, .way = &ec_way, .steps = STEPS};
        continue_job(&jobs[i], 0);
    }
    for (int step = 0; step < STEPS; step++) {
        uint64_t held[JOBS];

        settle(&scene);
        assert_int_equal(scene.held_count, JOBS);
        memcpy(held, scene.held, sizeof(held));
        scene.held_count = 0;
        for (int i = 0; i < JOBS; i++) {
            assert_int_equal(jobs[i].step, step);
            answer_request(&scene, held[(i * 7) % JOBS]); /* in another order */
        }
    }
    settle(&scene);
    for (int i = 0; i < JOBS; i++) {
        assert_true(jobs[i].returned);
        assert_int_equal(jobs[i].step, STEPS);
        assert_int_equal(jobs[i].length, sizeof(made));
    }
    EVP_PKEY_free(key);
    close_scene(&scene);
}

static void *use_signer(void *argument)
{
    paused_handshakes_do_not_disturb_each_other(argument);
    return NULL;
}

TEST(threads_have_their_own_handshakes)
{
    pthread_t thread[4];

    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, use_signer, *state), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(thread[i], NULL);
}

/* Starts COUNT handshakes, each at the time of its number, from 1. */
static void start_jobs(struct job *jobs, size_t count, struct scene *scene, EVP_PKEY *key)
{
    for (size_t i = 0; i < count; i++) {
        jobs[i] = (struct job){.scene = scene, .run = sign, .key = key, .way = &ec_way};
        continue_job(&jobs[i], i + 1);
        assert_false(jobs[i].returned);
    }
    settle(scene);
}

TEST(next_keys_process_gets_all_requests_again)
{
    enum { JOBS = 5 };
    EVP_PKEY *key = make_remote(KEY_EC);
    struct job jobs[JOBS];
    struct scene scene;

    open_scene(&scene); /* there is none at first */
    scene.holds = true;
    start_jobs(jobs, JOBS, &scene, key);
    for (int i = 0; i < 2; i++) {
        connect_keys(&scene);
        settle(&scene);
        assert_int_equal(scene.held_count, JOBS);
        for (size_t k = 1; k < JOBS; k++)
            assert_true(scene.held[k] > scene.held[k - 1]);
    }
    for (size_t k = 0; k < JOBS; k++)
        answer_request(&scene, scene.held[k]);
    settle(&scene);
    for (size_t k = 0; k < JOBS; k++)
        assert_int_equal(jobs[k].length, sizeof(made));
    EVP_PKEY_free(key);
    close_scene(&scene);
}

static void expect_link(const struct scene *scene, bool open)
{
    settle(scene);
    assert_int_equal(channel_is_broken(scene->keys), !open);
}

/* The renewed certificates have another link; what has begun with the older ones uses theirs. */
TEST(handshakes_of_older_certificates_have_their_link)
{
    enum { PATIENCE_NS = 10 };
    EVP_PKEY *key = make_remote(KEY_EC);
    struct scene older, newer;
    struct job job = {.scene = &older, .run = sign, .key = key, .way = &ec_way};

    open_scene(&older);
    older.set = job.handshake.set = 1;
    connect_keys(&older);
    newer = older;
    newer.keys = NULL;
    newer.set = 2;
    newer.holds = true;
    connect_keys(&newer);
    finish_job(&job);
    assert_int_equal(job.length, sizeof(made));
    assert_int_equal(newer.held_count, 0);
    signer_expire(older.signer, 1, PATIENCE_NS);
    signer_expire(older.signer, 1 + 2 * PATIENCE_NS, PATIENCE_NS);
    expect_link(&older, true);
    signer_expire(older.signer, 2 + 2 * PATIENCE_NS, PATIENCE_NS);
    expect_link(&older, false);
    expect_link(&newer, true);
    channel_close(newer.keys);
    EVP_PKEY_free(key);
    close_scene(&older);
}

/* Without its link a handshake fails at its time limit, and delays no other one. */
TEST(many_renewals_close_the_oldest_links)
{
    enum { LINKS = 4, PATIENCE_NS = 10 };
    EVP_PKEY *key = make_remote(KEY_EC);
    struct scene scene[LINKS + 1];
    struct job jobs[LINKS + 1];

    open_scene(&scene[0]);
    for (uint32_t i = 0; i <= LINKS; i++) {
        scene[i] = scene[0];
        scene[i].keys = NULL;
        scene[i].set = i + 1;
        connect_keys(&scene[i]);
        jobs[i] = (struct job){.scene = &scene[i], .run = sign, .key = key, .way = &ec_way};
        jobs[i].handshake.set = i + 1;
    }
    expect_link(&scene[0], false);
    for (size_t i = 0; i <= LINKS; i++)
        continue_job(&jobs[i], 1);
    settle(&scene[0]);
    for (size_t i = 0; i <= LINKS; i++)
        assert_int_equal(jobs[i].returned, i > 0);
    signer_expire(scene[0].signer, 2 + PATIENCE_NS, PATIENCE_NS);
    assert_true(jobs[0].returned);
    assert_int_equal(jobs[0].length, 0);
    for (size_t i = 1; i <= LINKS; i++)
        channel_close(scene[i].keys);
    EVP_PKEY_free(key);
    close_scene(&scene[0]);
}

TEST(requests_on_the_link_are_bounded)
{
    EVP_PKEY *key = make_remote(KEY_EC);
    static struct job jobs[HELD_MAX];
    static struct scene scene;

    open_scene(&scene);
    connect_keys(&scene);
    scene.holds = true;
    start_jobs(jobs, HELD_MAX, &scene, key);
    assert_int_equal(scene.held_count, SENT_MAX);
    answer_request(&scene, scene.held[0]);
    settle(&scene);
    assert_true(jobs[0].returned);
    assert_int_equal(scene.held_count, SENT_MAX + 1);
    /* Those that have waited for long fail, on the link or not; a late answer is ignored. */
    signer_expire(scene.signer, 10 + HELD_MAX - 1, 10);
    assert_int_equal(jobs[1].length, 0);
    for (size_t i = 1; i < HELD_MAX; i++)
        assert_int_equal(jobs[i].returned, i < HELD_MAX - 2);
    answer_request(&scene, scene.held[1]);
    settle(&scene);
    assert_false(jobs[HELD_MAX - 1].returned);
    for (size_t i = HELD_MAX - 2; i < HELD_MAX; i++)
        answer_request(&scene, i + 1);
    settle(&scene);
    assert_true(jobs[HELD_MAX - 1].returned);
    assert_int_equal(jobs[HELD_MAX - 1].length, sizeof(made));
    EVP_PKEY_free(key);
    close_scene(&scene);
}

/* Signatures of a TLS server */

TEST(schemes_are_those_of_rfc_8446)
{
    static const struct {
        const char *type, *digest;
        bool pss;
        uint32_t code; /* 0: none */
    } examples[] = {
        {"EC", "SHA256", false, 0x0403},   {"EC", "SHA2-256", false, 0x0403},
        {"EC", "sha384", false, 0x0503},   {"EC", "SHA2-512", false, 0x0603},
        {"RSA", "SHA256", true, 0x0804},   {"RSA", "SHA256", false, 0x0401},
        {"RSA", "SHA2-512", true, 0x0806}, {"ED25519", "", false, 0x0807},
        {"ED25519", NULL, false, 0x0807},  {"ED25519", "SHA256", false, 0},
        {"EC", "SHA256", true, 0},         {"EC", "SHA1", false, 0},
        {"RSA", "MD5", false, 0},          {"RSA", "SHA1", true, 0},
        {"RSA", NULL, false, 0},           {"EC", "", false, 0},
        {"DSA", "SHA256", false, 0},       {"RSA", "SHA512-256", false, 0},
        {"RSA", "SHA3-256", false, 0},     {"RSA", "SHA", false, 0},
    };

    for (size_t i = 0; i < ARRAY_LENGTH(examples); i++) {
        const struct signature_scheme *found =
            signature_scheme_find(examples[i].type, examples[i].digest, examples[i].pss);

        if ((found != NULL ? found->code : 0) != examples[i].code)
            fail_msg("%s %s: 0x%04x", examples[i].type,
                     examples[i].digest != NULL ? examples[i].digest : "-",
                     found != NULL ? found->code : 0);
        if (found != NULL)
            assert_ptr_equal(signature_scheme_get(found->code), found);
    }
    assert_null(signature_scheme_get(0));
    assert_null(signature_scheme_get(0x0203)); /* ecdsa_sha1 */
}
