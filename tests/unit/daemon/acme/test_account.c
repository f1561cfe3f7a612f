/*
 * The account: its key and URL in the state directory, and its requests to an authority that the
 * test is.
 */
#include "common/macros.h"
#include "daemon/acme/internal.h"
#include "daemon/acme/state.h"
#include "tests/test.h"
#include "tests/unit/daemon/acme/fake_curl.h"
#include "tests/unit/daemon/acme/fake_master.h"
#include "tests/unit/daemon/acme/signed_request.h"
#include "tests/unit/own_directory.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define KEY  "account.key"
#define NEXT "account.key.next"
#define URN  "urn:ietf:params:acme:error:"

static struct acme acme;

static struct {
    char calls[128];        /* requests: "open find register change " */
    const char *silent;     /* the one that gets no answer; NULL: none */
    bool no_key_change;     /* the directory has no keyChange */
    bool refuses_account;   /* it registers none */
    bool no_url;            /* it does not say the URL of the one that it registers */
    bool refuses_change;    /* of the key */
    bool unknown;           /* the authority does not know the account with the old key */
    const char *next_is_of; /* the account of the next key; NULL: none */
} scene;

static bool exists(const char *name)
{
    return faccessat(acme.directory, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* The key in file NAME; NULL: none. */
static EVP_PKEY *key_of(const char *name)
{
    char *text = state_read(acme.directory, name);
    EVP_PKEY *key = text != NULL ? credentials_key_read(text) : NULL;

    free(text);
    return key;
}

static bool file_has(const char *name, const EVP_PKEY *key)
{
    EVP_PKEY *own = key_of(name);
    bool equal = own != NULL && EVP_PKEY_eq(own, key) == 1;

    EVP_PKEY_free(own);
    return equal;
}

/* Whether member NAME of JSON is the public part of KEY. */
static bool is_key(const json_t *json, const char *name, EVP_PKEY *key)
{
    json_t *expected = jws_public_key(key);
    bool equal = json_equal(json_object_get(json, name), expected);

    json_decref(expected);
    return equal;
}

/* The key of the account signs that of the next one, which is stored by then. */
static void check_key_change(const json_t *header, const json_t *payload)
{
    json_t *inner = signed_request_member(payload, "payload");
    json_t *inner_header = signed_request_member(payload, "protected");

    assert_string_equal(authority_text(header, "kid"), "me");
    assert_string_equal(authority_text(inner_header, "url"), "change");
    assert_null(json_object_get(inner_header, "nonce"));
    assert_string_equal(authority_text(inner, "account"), "me");
    assert_true(is_key(inner_header, "jwk", acme.next_key));
    assert_true(is_key(inner, "oldKey", acme.authority.key));
    assert_true(file_has(NEXT, acme.next_key));
    json_decref(inner);
    json_decref(inner_header);
}

static void check_registration(const json_t *payload)
{
    const json_t *contact = json_object_get(payload, "contact");

    assert_true(json_is_true(json_object_get(payload, "termsOfServiceAgreed")));
    assert_int_equal(json_array_size(contact), acme.settings.email[0] != '\0' ? 1 : 0);
    if (contact != NULL)
        assert_string_equal(json_string_value(json_array_get(contact, 0)), "mailto:a@b.example");
}

static const char *answer_account(const json_t *header, const json_t *payload,
                                  struct fake_answer *answer)
{
    if (!json_is_true(json_object_get(payload, "onlyReturnExisting"))) {
        check_registration(payload);
        answer->location = scene.no_url ? NULL : "new";
        if (scene.refuses_account) {
            answer->status = 400;
            answer->body = "{\"detail\":\"no account\"}";
        }
        return "register ";
    }
    assert_true(is_key(header, "jwk", acme.next_key));
    answer->location = scene.next_is_of;
    if (scene.next_is_of == NULL) {
        answer->status = 400;
        answer->body = "{\"type\":\"" URN "accountDoesNotExist\"}";
    }
    return "find ";
}

static void answer_request(const struct fake_request *request, struct fake_answer *answer)
{
    static const char directory[] = "{\"newNonce\":\"nonce\",\"newAccount\":\"account\","
                                    "\"newOrder\":\"order\",\"keyChange\":\"change\"}";
    static const char without[] =
        "{\"newNonce\":\"nonce\",\"newAccount\":\"account\",\"newOrder\":\"order\"}";
    json_t *jws = json_loads(request->body != NULL ? request->body : "{}", 0, NULL);
    json_t *header = signed_request_member(jws, "protected");
    json_t *payload = signed_request_member(jws, "payload");
    const char *call = "open ";

    *answer = (struct fake_answer){.status = 200, .body = "{}", .nonce = "nonce"};
    if (strcmp(request->url, "https://authority") == 0) {
        answer->body = scene.no_key_change ? without : directory;
    } else if (strcmp(request->url, "account") == 0) {
        call = answer_account(header, payload, answer);
    } else {
        assert_string_equal(request->url, "change");
        check_key_change(header, payload);
        call = "change ";
        if (scene.refuses_change) {
            answer->status = 400;
            answer->body = scene.unknown ? "{\"type\":\"" URN "accountDoesNotExist\"}"
                                         : "{\"detail\":\"refused\"}";
        }
    }
    strcat(scene.calls, call);
    if (scene.silent != NULL && strcmp(call, scene.silent) == 0)
        answer->status = 0;
    json_decref(jws);
    json_decref(header);
    json_decref(payload);
}

static int set_up(void **state)
{
    (void)state;
    memset(&scene, 0, sizeof(scene));
    own_directory_make();
    fake_master_start();
    acme = (struct acme){
        .settings = {.email = "a@b.example", .state_dir = own_directory, .eab_kid = ""},
        .directory = open(own_directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC),
        .link = master.link,
    };
    assert_true(acme.directory >= 0);
    assert_int_equal(authority_init(&acme.authority, "https://authority", ""), 0);
    acme.authority.link = master.link;
    strcpy(acme.authority.nonce, "nonce");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    account_free(&acme);
    authority_free(&acme.authority);
    fake_master_free();
    close(acme.directory);
    return own_directory_remove();
}

const struct test_fixture test_fixture = {set_up, tear_down};

static void put(const char *name, const char *text)
{
    assert_int_equal(state_write(acme.directory, name, text), 0);
}

static void put_key(const char *name, enum config_acme_key kind)
{
    EVP_PKEY *key = credentials_new_key(kind);
    char *text = credentials_key_text(key);

    put(name, text);
    free(text);
    EVP_PKEY_free(key);
}

/* Nothing can be written to, renamed to or removed as NAME from now on. */
static void block(const char *name)
{
    unlinkat(acme.directory, name, 0);
    assert_int_equal(mkdirat(acme.directory, name, 0700), 0);
}

/* The log contains EXPECTED; "": nothing was logged. */
static void assert_event(const char *expected)
{
    fake_master_read();
    if (expected[0] == '\0')
        assert_string_equal(master.events, "");
    else
        assert_non_null(strstr(master.events, expected));
    master.events[0] = '\0';
}

static void assert_calls(const char *expected)
{
    assert_string_equal(scene.calls, expected);
    scene.calls[0] = '\0';
}

/* The account's key is KEY, in memory, in its file and for requests. */
static void assert_key(const EVP_PKEY *key)
{
    char thumbprint[JWS_THUMBPRINT_BYTES];

    assert_ptr_equal(acme.authority.key, key);
    assert_true(file_has(KEY, key));
    assert_int_equal(jws_thumbprint(acme.authority.key, thumbprint), 0);
    assert_string_equal(acme.thumbprint, thumbprint);
}

/* Files */

static void load(void)
{
    assert_int_equal(account_load(&acme), 0);
}

TEST(key_is_made_once)
{
    char thumbprint[JWS_THUMBPRINT_BYTES];

    load();
    assert_key(acme.authority.key);
    assert_null(acme.next_key);
    assert_string_equal(acme.authority.account, "");
    memcpy(thumbprint, acme.thumbprint, sizeof(thumbprint));
    load();
    assert_key(acme.authority.key);
    assert_string_equal(acme.thumbprint, thumbprint);
    assert_event("");
}

TEST(key_that_cannot_be_stored_is_not_used)
{
    block(KEY ".new");
    assert_int_equal(account_load(&acme), -1);
    assert_event("/" KEY ": Is a directory");
    assert_null(acme.authority.key);
}

TEST(key_that_cannot_be_read_is_not_replaced)
{
    block(KEY);
    assert_int_equal(account_load(&acme), -1);
    assert_event("/" KEY ": Is a directory");
}

TEST(key_of_another_kind_is_not_replaced)
{
    char *text;

    put(KEY, "no key");
    assert_int_equal(account_load(&acme), -1);
    assert_event("/" KEY " is no private key of kind p256");
    text = state_read(acme.directory, KEY);
    assert_string_equal(text, "no key");
    free(text);
    put_key(KEY, ACME_KEY_RSA2048);
    assert_int_equal(account_load(&acme), -1);
    assert_event("/" KEY " is no private key of kind p256");
}

TEST(key_of_an_unfinished_change_is_read)
{
    put_key(NEXT, ACME_KEY_P256);
    load();
    assert_event("");
    assert_non_null(acme.next_key);
    assert_true(file_has(NEXT, acme.next_key));
}

TEST(next_key_of_another_kind_is_removed)
{
    put(NEXT, "no key");
    load();
    assert_event("/" NEXT " is no private key of kind p256: removing it");
    assert_false(exists(NEXT));
    put_key(NEXT, ACME_KEY_RSA2048);
    load();
    assert_event("/" NEXT " is no private key of kind p256: removing it");
    assert_false(exists(NEXT));
    assert_null(acme.next_key);
}

TEST(url_is_that_at_the_same_authority)
{
    static const struct {
        const char *json, *url;
    } cases[] = {
        {"{\"directory\":\"https://authority\",\"url\":\"me\"}", "me"},
        {"{\"directory\":\"https://other\",\"url\":\"me\"}", ""},
        {"{\"directory\":\"https://authority\"}", ""},
        {"{}", ""},
        {"no JSON", ""},
    };

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        acme.authority.account[0] = '\0';
        put("account.json", cases[i].json);
        load();
        assert_string_equal(acme.authority.account, cases[i].url);
    }
}

/* Opening */

TEST(unknown_account_is_registered_and_its_url_stored)
{
    load();
    assert_int_equal(account_open(&acme), 0);
    assert_calls("open register ");
    assert_event("account new");
    acme.authority.account[0] = '\0';
    load();
    assert_string_equal(acme.authority.account, "new");
    assert_int_equal(account_open(&acme), 0);
    assert_calls("open ");
    assert_event("");
}

TEST(url_that_cannot_be_stored_is_used_all_the_same)
{
    load();
    block("account.json");
    assert_int_equal(account_open(&acme), 0);
    assert_event("cannot store the URL of the account: Is a directory");
    assert_string_equal(acme.authority.account, "new");
}

TEST(refused_account_is_not_stored)
{
    load();
    scene.refuses_account = true;
    assert_int_equal(account_open(&acme), -1);
    assert_string_equal(acme.authority.why, "account answers 400: no account");
    assert_false(exists("account.json"));
    assert_event("");
}

TEST(account_without_url_is_not_used)
{
    load();
    scene.no_url = true;
    acme.settings.email = "";
    assert_int_equal(account_open(&acme), -1);
    assert_string_equal(acme.authority.why, "account answers without the URL of the account");
    assert_string_equal(acme.authority.account, "");
    assert_false(exists("account.json"));
}

TEST(without_a_directory_nothing_is_registered)
{
    load();
    scene.silent = "open ";
    assert_int_equal(account_open(&acme), -1);
    assert_string_equal(acme.authority.why, "GET https://authority: no response");
    assert_calls("open ");
}

/* Loads the account with URL, and the key of a change that has not ended. Returns that key. */
static const EVP_PKEY *load_both(const char *url)
{
    put_key(NEXT, ACME_KEY_P256);
    load();
    strcpy(acme.authority.account, url);
    return acme.next_key;
}

TEST(next_key_that_is_the_accounts_replaces_it)
{
    static const char *const urls[] = {"me", ""}; /* known, and not known */

    scene.next_is_of = "me";
    for (size_t i = 0; i < ARRAY_LENGTH(urls); i++) {
        const EVP_PKEY *next = load_both(urls[i]);

        assert_int_equal(account_open(&acme), 0);
        assert_calls("open find ");
        assert_event("the key of the account is replaced: me");
        assert_key(next);
        assert_null(acme.next_key);
        assert_false(exists(NEXT));
        assert_string_equal(acme.authority.account, "me");
    }
}

TEST(next_key_that_is_not_the_accounts_is_removed)
{
    static const char *const accounts[] = {"other", NULL};

    for (size_t i = 0; i < ARRAY_LENGTH(accounts); i++) {
        const EVP_PKEY *key;

        load_both("me");
        key = acme.authority.key;
        scene.next_is_of = accounts[i];
        assert_int_equal(account_open(&acme), 0);
        assert_calls("open find ");
        assert_event("the account keeps its key: me");
        assert_key(key);
        assert_null(acme.next_key);
        assert_false(exists(NEXT));
        assert_string_equal(acme.authority.account, "me");
        assert_false(acme.authority.account_unknown); /* that of the old key is known */
    }
}

TEST(next_key_stays_until_the_authority_answers)
{
    const EVP_PKEY *key, *next = load_both("me");

    key = acme.authority.key;
    scene.silent = "find ";
    assert_int_equal(account_open(&acme), -1);
    assert_calls("open find ");
    assert_ptr_equal(acme.next_key, next);
    assert_true(file_has(NEXT, next));
    assert_key(key);
    assert_event("");
}

TEST(next_key_that_cannot_be_removed_is_reported)
{
    load_both("me");
    block(NEXT);
    assert_int_equal(account_open(&acme), 0);
    assert_event("cannot remove ");
    assert_null(acme.next_key);
}

TEST(next_key_that_cannot_be_renamed_is_tried_again)
{
    const EVP_PKEY *next = load_both("me");

    scene.next_is_of = "me";
    block(KEY);
    assert_int_equal(account_open(&acme), -1);
    assert_non_null(strstr(acme.authority.why, "cannot rename "));
    assert_event("");
    assert_int_equal(unlinkat(acme.directory, KEY, AT_REMOVEDIR), 0);
    assert_int_equal(account_open(&acme), 0);
    assert_key(next);
}

/* The change of the key */

static const EVP_PKEY *load_registered(void)
{
    load();
    strcpy(acme.authority.account, "me");
    return acme.authority.key;
}

TEST(key_is_replaced_when_the_authority_has_accepted)
{
    char before[JWS_THUMBPRINT_BYTES];

    load_registered();
    memcpy(before, acme.thumbprint, sizeof(before));
    assert_int_equal(account_change_key(&acme), 0);
    assert_calls("open change ");
    assert_event("the key of the account is replaced: me");
    assert_key(acme.authority.key);
    assert_string_not_equal(acme.thumbprint, before);
    assert_null(acme.next_key);
    assert_false(exists(NEXT));
}

TEST(change_that_is_impossible_leaves_no_next_key)
{
    const EVP_PKEY *key = load_registered();

    scene.silent = "open ";
    assert_int_equal(account_change_key(&acme), -1);
    assert_string_equal(acme.authority.why, "GET https://authority: no response");
    scene.silent = NULL;
    scene.no_key_change = true;
    assert_int_equal(account_change_key(&acme), -1);
    assert_string_equal(acme.authority.why, "https://authority: the directory has no keyChange");
    scene.no_key_change = false;
    block(NEXT ".new");
    assert_int_equal(account_change_key(&acme), -1);
    assert_non_null(strstr(acme.authority.why, "/" NEXT ": Is a directory"));
    assert_calls("open open open ");
    assert_null(acme.next_key);
    assert_false(exists(NEXT));
    assert_key(key);
}

TEST(refused_change_keeps_the_key)
{
    const EVP_PKEY *key = load_registered();

    scene.refuses_change = true;
    assert_int_equal(account_change_key(&acme), -1);
    assert_calls("open change open find ");
    assert_string_equal(acme.authority.why, "change answers 400: refused");
    assert_key(key);
    assert_null(acme.next_key);
    assert_false(exists(NEXT));
    assert_string_equal(acme.authority.account, "me");
}

/* The answer to the change was lost, for example. */
TEST(change_that_is_accepted_in_spite_of_a_failure_succeeds)
{
    const EVP_PKEY *key = load_registered();

    scene.refuses_change = true;
    scene.next_is_of = "me";
    assert_int_equal(account_change_key(&acme), 0);
    assert_ptr_not_equal(acme.authority.key, key);
    assert_key(acme.authority.key);
    assert_event("the key of the account is replaced: me");
}

TEST(change_of_unknown_outcome_keeps_both_keys)
{
    const EVP_PKEY *key = load_registered();

    scene.refuses_change = true;
    scene.silent = "find ";
    assert_int_equal(account_change_key(&acme), -1);
    assert_string_equal(acme.authority.why,
                        "change answers 400: refused; the authority may have accepted the new key");
    assert_key(key);
    assert_non_null(acme.next_key);
    assert_true(file_has(NEXT, acme.next_key));
}

TEST(next_request_registers_an_account_that_is_unknown)
{
    load_registered();
    scene.refuses_change = scene.unknown = true;
    assert_int_equal(account_change_key(&acme), -1);
    assert_string_equal(acme.authority.why,
                        "change answers 400: no detail is given (accountDoesNotExist)");
    assert_string_equal(acme.authority.account, "");
}
