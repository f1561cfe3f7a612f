/*
 * What an ACME authority answers: JSON of the directory, account, orders and renewal information, and PEM of
 * certificates. The input is a list of answers, separated by 0x1e; the first byte of each selects its status. They are
 * given to the requests of one order, in their order, and to each reader by itself.
 */
#include "daemon/acme/internal.h"
#include "daemon/acme/state.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/daemon/acme/fake_curl.h"

#include <errno.h>
#include <openssl/ec.h>
#include <string.h>

enum { SEPARATOR = 0x1e, NOW_S = 1800000000 };

/* The rest of the input. */
static const char *at, *end;

/* The next answer with a NUL, which the caller frees; NULL: there is none. */
static char *next_answer(void)
{
    const char *stop;
    char *text;

    if (at >= end)
        return NULL;
    stop = memchr(at, SEPARATOR, (size_t)(end - at));
    stop = stop != NULL ? stop : end;
    text = malloc((size_t)(stop - at) + 1);
    MUST(text != NULL);
    memcpy(text, at, (size_t)(stop - at));
    text[stop - at] = '\0';
    at = stop < end ? stop + 1 : end;
    return text;
}

static void answer_request(const struct fake_request *request, struct fake_answer *answer)
{
    static char *text; /* valid until the next one */
    char kind;

    MUST(strlen(request->url) < 2 * AUTHORITY_URL_MAX);
    free(text);
    text = next_answer();
    kind = text != NULL ? text[0] : '-';
    if (kind == '-')
        return; /* no answer */
    *answer = (struct fake_answer){.status = kind == '4'   ? 400
                                             : kind == '9' ? 429
                                             : kind == '5' ? 500
                                                           : 200,
                                   .body = text + (kind != '\0'),
                                   .nonce = kind == '0' ? NULL : "nonce",
                                   .location = kind == '1' ? "https://ca/1" : NULL,
                                   .retry_s = kind == '9' ? 60 : 0};
}

/* Instead of link.c and state.c: the master does all that is requested, and the directory is empty. */

bool link_pulse(struct link *link)
{
    (void)link;
    return true;
}

bool link_wait(struct link *link, uint32_t ms)
{
    (void)link;
    MUST(ms <= 10 * 1000);
    return true;
}

void link_log(struct link *link, enum level level, const char *format, ...)
{
    (void)link, (void)level, (void)format;
}

int link_run_record(struct link *link, const struct message_acme_record *record, char *why,
                    size_t size)
{
    (void)link, (void)record;
    snprintf(why, size, "there is no program");
    return -1;
}

int link_publish(struct link *link, const struct message_acme_challenge *challenge)
{
    static const char allowed[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

    (void)link;
    MUST(challenge->kind < CHALLENGE_KINDS);
    MUST(strspn(challenge->token, allowed) == strlen(challenge->token));
    return 0;
}

char *state_read(int directory, const char *file)
{
    (void)directory, (void)file;
    errno = ENOENT;
    return NULL;
}

json_t *state_read_json(int directory, const char *file)
{
    (void)directory, (void)file;
    return NULL;
}

int state_write(int directory, const char *file, const char *text)
{
    (void)directory, (void)file, (void)text;
    return 0;
}

int state_write_json(int directory, const char *file, json_t *json)
{
    (void)directory, (void)file;
    json_decref(json);
    return 0;
}

int state_rename(int directory, const char *file, const char *to)
{
    (void)directory, (void)file, (void)to;
    return 0;
}

int state_remove(int directory, const char *file)
{
    (void)directory, (void)file;
    return 0;
}

/* Each reader by itself */

static void check_pem(const char *text)
{
    char why[160], id[CREDENTIALS_ID_BYTES];
    struct credentials_validity validity, again;
    bool good = credentials_check(text, NULL, "a.example", NOW_S, &validity, why, sizeof(why)) == 0;
    char *clean = credentials_clean(text);

    credentials_id(text, id);
    MUST(strlen(id) < sizeof(id));
    EVP_PKEY_free(credentials_key_read(text));
    if (good) {
        MUST(clean != NULL && strncmp(clean, "-----BEGIN CERTIFICATE-----\n", 28) == 0);
        MUST(validity.not_after_s > NOW_S);
        MUST(credentials_check(clean, NULL, "a.example", NOW_S, &again, why, sizeof(why)) == 0);
        MUST(again.not_after_s == validity.not_after_s);
    }
    free(clean);
}

static void check_json(const char *text)
{
    json_t *json = json_loads(text, 0, NULL);
    char problem[60];
    struct renewal_window window = {0};

    authority_problem(json, problem, sizeof(problem));
    MUST(strlen(problem) < sizeof(problem));
    if (renewal_info_read(json, &window) == 0)
        MUST(window.start_s > 0 && window.start_s < window.end_s);
    json_decref(json);
}

/* One order */

static void run_order(EVP_PKEY *key)
{
    struct acme acme = {.settings = {.email = "a@b.c",
                                     .state_dir = "",
                                     .eab_kid = "",
                                     .challenge = {CHALLENGE_HTTP_01, CHALLENGE_TLS_ALPN_01},
                                     .challenge_count = 2}};
    struct certificate certificate = {.names = "a.example", .name = "a.example", .id = "AAAA.BBBB"};
    struct authority *authority = &acme.authority;
    struct renewal_window window = {0};
    char *chain = NULL;
    int failed;

    MUST(authority_init(authority, "https://ca/directory", "") == 0);
    MUST(EVP_PKEY_up_ref(key) == 1);
    authority->key = key;
    failed = account_open(&acme);
    if (failed == 0) {
        chain = order_obtain(&acme, &certificate, "AAAA");
        failed = chain == NULL;
    }
    if (chain != NULL)
        check_pem(chain);
    free(chain);
    if (failed == 0)
        failed = account_change_key(&acme);
    if (failed == 0 && authority->renewal_info[0] != '\0')
        failed = renewal_info_fetch(authority, "AAAA.BBBB", &window);
    MUST(strlen(authority->why) < sizeof(authority->why));
    MUST(failed == 0 || authority->why[0] != '\0');
    account_free(&acme);
    authority_free(authority);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static EVP_PKEY *key;
    char *answer;

    if (key == NULL)
        key = EVP_EC_gen("P-256");
    at = (const char *)data;
    end = at + size;
    while ((answer = next_answer()) != NULL) {
        const char *body = answer[0] != '\0' ? answer + 1 : answer;

        check_pem(body);
        check_json(body);
        free(answer);
    }
    at = (const char *)data;
    run_order(key);
    return 0;
}
