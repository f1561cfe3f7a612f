/* The account's key and URL in the state directory, with an authority whose answers the test sets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/macros.h"
#include "daemon/acme/account.h"
#include "daemon/acme/credentials.h"
#include "daemon/acme/state.h"
#include "tests/unit/own_directory.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define KEY  "account.key"
#define NEXT "account.key.next"

static char email[] = "a@b.example";
static const struct acme_settings settings = {.email = email, .state_dir = own_directory};

static struct {
    struct authority authority;
    struct account account;
    char calls[128]; /* of the functions of the authority */
    char events[1024];
    const char *silent;     /* the call that gets no answer; NULL: none */
    bool no_key_change;     /* the directory has no keyChange */
    bool refuses_account;   /* it registers none */
    bool refuses_change;    /* of the key */
    bool unknown;           /* the authority does not know the account with the old key */
    bool no_memory;         /* for the text of a key */
    const char *next_is_of; /* the account of the next key; NULL: none */
} scene;

/* Replaced by the linker: see wrap() in tests/unit/CMakeLists.txt. */
/* NOLINTBEGIN(clang-diagnostic-reserved-identifier): names of the linker */
void __wrap_link_log(struct link *link, enum level level, const char *format, ...)
    PRINTF_LIKE(3, 4);
int __wrap_authority_open(struct authority *authority);
int __wrap_authority_register(struct authority *authority, const char *address);
int __wrap_authority_find_account(struct authority *authority, EVP_PKEY *key,
                                  char url[AUTHORITY_URL_MAX]);
int __wrap_authority_change_key(struct authority *authority, EVP_PKEY *key);
char *__real_credentials_key_text(EVP_PKEY *key);
char *__wrap_credentials_key_text(EVP_PKEY *key);
/* NOLINTEND(clang-diagnostic-reserved-identifier) */

void __wrap_link_log(struct link *link, enum level level, const char *format, ...)
{
    size_t used = strlen(scene.events);
    va_list arguments;

    (void)link, (void)level;
    va_start(arguments, format);
    vsnprintf(scene.events + used, sizeof(scene.events) - used, format, arguments);
    va_end(arguments);
}

/* Returns 0, or -1: there is no answer. */
static int call(struct authority *authority, const char *name)
{
    strcat(scene.calls, name);
    return scene.silent != NULL && strcmp(name, scene.silent) == 0
               ? authority_fail(authority, "no response")
               : 0;
}

int __wrap_authority_open(struct authority *authority)
{
    authority->account_unknown = false;
    strcpy(authority->key_change, scene.no_key_change ? "" : "change");
    return call(authority, "open ");
}

int __wrap_authority_register(struct authority *authority, const char *address)
{
    assert_string_equal(address, email);
    strcat(scene.calls, "register ");
    if (scene.refuses_account)
        return authority_fail(authority, "no account");
    strcpy(authority->account, "new");
    return 0;
}

int __wrap_authority_find_account(struct authority *authority, EVP_PKEY *key,
                                  char url[AUTHORITY_URL_MAX])
{
    assert_ptr_equal(key, scene.account.next);
    if (call(authority, "find ") != 0)
        return -1;
    authority->account_unknown = scene.next_is_of == NULL;
    if (scene.next_is_of == NULL)
        return authority_fail(authority, "no such account");
    strcpy(url, scene.next_is_of);
    return 0;
}

char *__wrap_credentials_key_text(EVP_PKEY *key)
{
    return scene.no_memory ? NULL : __real_credentials_key_text(key);
}

static bool exists(const char *name)
{
    return faccessat(scene.account.directory, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* The key in file NAME; NULL: none. */
static EVP_PKEY *key_of(const char *name)
{
    char *text = state_read(scene.account.directory, name);
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

int __wrap_authority_change_key(struct authority *authority, EVP_PKEY *key)
{
    strcat(scene.calls, "change ");
    assert_true(file_has(NEXT, key)); /* before the authority receives it */
    authority->account_unknown = scene.unknown;
    return scene.refuses_change ? authority_fail(authority, "refused") : 0;
}

static int set_up(void **state)
{
    (void)state;
    memset(&scene, 0, sizeof(scene));
    own_directory_make();
    scene.authority.directory = "https://authority";
    scene.account =
        (struct account){.settings = &settings,
                         .directory = open(own_directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC),
                         .authority = &scene.authority};
    return scene.account.directory >= 0 ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    account_free(&scene.account);
    close(scene.account.directory);
    return own_directory_remove();
}

static void put(const char *name, const char *text)
{
    assert_int_equal(state_write(scene.account.directory, name, text), 0);
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
    unlinkat(scene.account.directory, name, 0);
    assert_int_equal(mkdirat(scene.account.directory, name, 0700), 0);
}

/* The log contains EXPECTED; "": nothing was logged. */
static void assert_event(const char *expected)
{
    if (expected[0] == '\0')
        assert_string_equal(scene.events, "");
    else
        assert_non_null(strstr(scene.events, expected));
    scene.events[0] = '\0';
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

    assert_ptr_equal(scene.account.key, key);
    assert_ptr_equal(scene.authority.key, key);
    assert_true(file_has(KEY, key));
    assert_int_equal(jws_thumbprint(scene.account.key, thumbprint), 0);
    assert_string_equal(scene.account.thumbprint, thumbprint);
}

/* Files */

static void load(void)
{
    assert_int_equal(account_load(&scene.account), 0);
}

static void key_is_made_once(void **state)
{
    char thumbprint[JWS_THUMBPRINT_BYTES];

    (void)state;
    load();
    assert_key(scene.account.key);
    assert_null(scene.account.next);
    assert_string_equal(scene.authority.account, "");
    memcpy(thumbprint, scene.account.thumbprint, sizeof(thumbprint));
    load();
    assert_key(scene.account.key);
    assert_string_equal(scene.account.thumbprint, thumbprint);
    assert_event("");
}

static void key_that_cannot_be_stored_is_not_used(void **state)
{
    (void)state;
    block(KEY ".new");
    assert_int_equal(account_load(&scene.account), -1);
    assert_event("/" KEY ": Is a directory");
    assert_null(scene.account.key);
    assert_null(scene.authority.key);
}

static void key_without_memory_for_its_file_is_not_used(void **state)
{
    (void)state;
    scene.no_memory = true;
    assert_int_equal(account_load(&scene.account), -1);
    assert_event("/" KEY ": Cannot allocate memory");
    assert_false(exists(KEY));
}

static void key_that_cannot_be_read_is_not_replaced(void **state)
{
    (void)state;
    block(KEY);
    assert_int_equal(account_load(&scene.account), -1);
    assert_event("/" KEY ": Is a directory");
}

static void key_of_another_kind_is_not_replaced(void **state)
{
    char *text;

    (void)state;
    put(KEY, "no key");
    assert_int_equal(account_load(&scene.account), -1);
    assert_event("/" KEY " is no private key of kind p256");
    text = state_read(scene.account.directory, KEY);
    assert_string_equal(text, "no key");
    free(text);
    put_key(KEY, ACME_KEY_RSA2048);
    assert_int_equal(account_load(&scene.account), -1);
    assert_event("/" KEY " is no private key of kind p256");
}

static void key_of_an_unfinished_change_is_read(void **state)
{
    (void)state;
    put_key(NEXT, ACME_KEY_P256);
    load();
    assert_event("");
    assert_non_null(scene.account.next);
    assert_true(file_has(NEXT, scene.account.next));
}

static void next_key_of_another_kind_is_removed(void **state)
{
    (void)state;
    put(NEXT, "no key");
    load();
    assert_event("/" NEXT " is no private key of kind p256: removing it");
    assert_false(exists(NEXT));
    put_key(NEXT, ACME_KEY_RSA2048);
    load();
    assert_event("/" NEXT " is no private key of kind p256: removing it");
    assert_false(exists(NEXT));
    assert_null(scene.account.next);
}

static void url_is_that_at_the_same_authority(void **state)
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

    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        scene.authority.account[0] = '\0';
        put("account.json", cases[i].json);
        load();
        assert_string_equal(scene.authority.account, cases[i].url);
    }
}

/* Opening */

static void unknown_account_is_registered_and_its_url_stored(void **state)
{
    (void)state;
    load();
    assert_int_equal(account_open(&scene.account), 0);
    assert_calls("open register ");
    assert_event("account new");
    scene.authority.account[0] = '\0';
    load();
    assert_string_equal(scene.authority.account, "new");
    assert_int_equal(account_open(&scene.account), 0);
    assert_calls("open ");
    assert_event("");
}

static void url_that_cannot_be_stored_is_used_all_the_same(void **state)
{
    (void)state;
    load();
    block("account.json");
    assert_int_equal(account_open(&scene.account), 0);
    assert_event("cannot store the URL of the account: Is a directory");
    assert_string_equal(scene.authority.account, "new");
}

static void refused_account_is_not_stored(void **state)
{
    (void)state;
    load();
    scene.refuses_account = true;
    assert_int_equal(account_open(&scene.account), -1);
    assert_string_equal(scene.authority.why, "no account");
    assert_false(exists("account.json"));
    assert_event("");
}

static void without_a_directory_nothing_is_registered(void **state)
{
    (void)state;
    load();
    scene.silent = "open ";
    assert_int_equal(account_open(&scene.account), -1);
    assert_string_equal(scene.authority.why, "no response");
    assert_calls("open ");
}

/* Loads the account with URL, and the key of a change that has not ended. Returns that key. */
static const EVP_PKEY *load_both(const char *url)
{
    put_key(NEXT, ACME_KEY_P256);
    load();
    strcpy(scene.authority.account, url);
    return scene.account.next;
}

static void next_key_that_is_the_accounts_replaces_it(void **state)
{
    static const char *const urls[] = {"me", ""}; /* known, and not known */

    (void)state;
    scene.next_is_of = "me";
    for (size_t i = 0; i < ARRAY_LENGTH(urls); i++) {
        const EVP_PKEY *next = load_both(urls[i]);

        assert_int_equal(account_open(&scene.account), 0);
        assert_calls("open find ");
        assert_event("the key of the account is replaced: me");
        assert_key(next);
        assert_null(scene.account.next);
        assert_false(exists(NEXT));
        assert_string_equal(scene.authority.account, "me");
    }
}

static void next_key_that_is_not_the_accounts_is_removed(void **state)
{
    static const char *const accounts[] = {"other", NULL};

    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(accounts); i++) {
        const EVP_PKEY *key;

        load_both("me");
        key = scene.account.key;
        scene.next_is_of = accounts[i];
        assert_int_equal(account_open(&scene.account), 0);
        assert_calls("open find ");
        assert_event("the account keeps its key: me");
        assert_key(key);
        assert_null(scene.account.next);
        assert_false(exists(NEXT));
        assert_string_equal(scene.authority.account, "me");
        assert_false(scene.authority.account_unknown); /* that of the old key is known */
    }
}

static void next_key_stays_until_the_authority_answers(void **state)
{
    const EVP_PKEY *key, *next = load_both("me");

    (void)state;
    key = scene.account.key;
    scene.silent = "find ";
    assert_int_equal(account_open(&scene.account), -1);
    assert_calls("open find ");
    assert_ptr_equal(scene.account.next, next);
    assert_true(file_has(NEXT, next));
    assert_key(key);
    assert_event("");
}

static void next_key_that_cannot_be_removed_is_reported(void **state)
{
    (void)state;
    load_both("me");
    block(NEXT);
    assert_int_equal(account_open(&scene.account), 0);
    assert_event("cannot remove ");
    assert_null(scene.account.next);
}

static void next_key_that_cannot_be_renamed_is_tried_again(void **state)
{
    const EVP_PKEY *next = load_both("me");

    (void)state;
    scene.next_is_of = "me";
    block(KEY);
    assert_int_equal(account_open(&scene.account), -1);
    assert_non_null(strstr(scene.authority.why, "cannot rename "));
    assert_event("");
    assert_int_equal(unlinkat(scene.account.directory, KEY, AT_REMOVEDIR), 0);
    assert_int_equal(account_open(&scene.account), 0);
    assert_key(next);
}

/* The change of the key */

static const EVP_PKEY *load_registered(void)
{
    load();
    strcpy(scene.authority.account, "me");
    return scene.account.key;
}

static void key_is_replaced_when_the_authority_has_accepted(void **state)
{
    char before[JWS_THUMBPRINT_BYTES];

    (void)state;
    load_registered();
    memcpy(before, scene.account.thumbprint, sizeof(before));
    assert_int_equal(account_change_key(&scene.account), 0);
    assert_calls("open change ");
    assert_event("the key of the account is replaced: me");
    assert_key(scene.account.key);
    assert_string_not_equal(scene.account.thumbprint, before);
    assert_null(scene.account.next);
    assert_false(exists(NEXT));
}

static void change_that_is_impossible_leaves_no_next_key(void **state)
{
    const EVP_PKEY *key = load_registered();

    (void)state;
    scene.silent = "open ";
    assert_int_equal(account_change_key(&scene.account), -1);
    assert_string_equal(scene.authority.why, "no response");
    scene.silent = NULL;
    scene.no_key_change = true;
    assert_int_equal(account_change_key(&scene.account), -1);
    assert_string_equal(scene.authority.why, "https://authority: the directory has no keyChange");
    scene.no_key_change = false;
    block(NEXT ".new");
    assert_int_equal(account_change_key(&scene.account), -1);
    assert_non_null(strstr(scene.authority.why, "/" NEXT ": Is a directory"));
    assert_calls("open open open ");
    assert_null(scene.account.next);
    assert_false(exists(NEXT));
    assert_key(key);
}

static void refused_change_keeps_the_key(void **state)
{
    const EVP_PKEY *key = load_registered();

    (void)state;
    scene.refuses_change = true;
    assert_int_equal(account_change_key(&scene.account), -1);
    assert_calls("open change open find ");
    assert_string_equal(scene.authority.why, "refused");
    assert_key(key);
    assert_null(scene.account.next);
    assert_false(exists(NEXT));
    assert_string_equal(scene.authority.account, "me");
}

/* The answer to the change was lost, for example. */
static void change_that_is_accepted_in_spite_of_a_failure_succeeds(void **state)
{
    const EVP_PKEY *key = load_registered();

    (void)state;
    scene.refuses_change = true;
    scene.next_is_of = "me";
    assert_int_equal(account_change_key(&scene.account), 0);
    assert_ptr_not_equal(scene.account.key, key);
    assert_key(scene.account.key);
    assert_event("the key of the account is replaced: me");
}

static void change_of_unknown_outcome_keeps_both_keys(void **state)
{
    const EVP_PKEY *key = load_registered();

    (void)state;
    scene.refuses_change = true;
    scene.silent = "find ";
    assert_int_equal(account_change_key(&scene.account), -1);
    assert_string_equal(scene.authority.why,
                        "refused; the authority may have accepted the new key");
    assert_key(key);
    assert_non_null(scene.account.next);
    assert_true(file_has(NEXT, scene.account.next));
}

static void next_request_registers_an_account_that_is_unknown(void **state)
{
    (void)state;
    load_registered();
    scene.refuses_change = scene.unknown = true;
    assert_int_equal(account_change_key(&scene.account), -1);
    assert_string_equal(scene.authority.why, "refused");
    assert_string_equal(scene.authority.account, "");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(key_is_made_once),
        TEST(key_that_cannot_be_stored_is_not_used),
        TEST(key_without_memory_for_its_file_is_not_used),
        TEST(key_that_cannot_be_read_is_not_replaced),
        TEST(key_of_another_kind_is_not_replaced),
        TEST(key_of_an_unfinished_change_is_read),
        TEST(next_key_of_another_kind_is_removed),
        TEST(url_is_that_at_the_same_authority),
        TEST(unknown_account_is_registered_and_its_url_stored),
        TEST(url_that_cannot_be_stored_is_used_all_the_same),
        TEST(refused_account_is_not_stored),
        TEST(without_a_directory_nothing_is_registered),
        TEST(next_key_that_is_the_accounts_replaces_it),
        TEST(next_key_that_is_not_the_accounts_is_removed),
        TEST(next_key_stays_until_the_authority_answers),
        TEST(next_key_that_cannot_be_removed_is_reported),
        TEST(next_key_that_cannot_be_renamed_is_tried_again),
        TEST(key_is_replaced_when_the_authority_has_accepted),
        TEST(change_that_is_impossible_leaves_no_next_key),
        TEST(refused_change_keeps_the_key),
        TEST(change_that_is_accepted_in_spite_of_a_failure_succeeds),
        TEST(change_of_unknown_outcome_keeps_both_keys),
        TEST(next_request_registers_an_account_that_is_unknown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
