#include "daemon/acme/internal.h"
#include "daemon/acme/state.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char key_file[] = "account.key", next_file[] = "account.key.next";

/* Files */

static void free_secret(char *text)
{
    if (text != NULL)
        OPENSSL_cleanse(text, strlen(text));
    free(text);
}

/* Returns 0, or -1 with errno. */
static int store_key(const struct acme *acme, const char *file, EVP_PKEY *key)
{
    char *text = key != NULL ? credentials_key_text(key) : NULL;
    int failed;

    errno = ENOMEM;
    failed = text != NULL ? state_write(acme->directory, file, text) : -1;
    free_secret(text);
    return failed;
}

/* Uses KEY, which it takes over. Returns 0, or -1: it is NULL or of another kind. */
static int use_key(struct acme *acme, EVP_PKEY *key)
{
    EVP_PKEY_free(acme->authority.key);
    acme->authority.key = key;
    return key != NULL ? jws_thumbprint(key, acme->thumbprint) : -1;
}

/* Reads the key, or makes one. Returns 0, or -1 after an event. */
static int load_key(struct acme *acme)
{
    const char *directory = acme->settings.state_dir;
    char *text = state_read(acme->directory, key_file);
    EVP_PKEY *key = text != NULL ? credentials_key_read(text) : NULL;
    int failed = text == NULL && errno != ENOENT ? -1 : 0;

    if (text == NULL && failed == 0) {
        key = credentials_new_key(ACME_KEY_P256);
        failed = store_key(acme, key_file, key);
    }
    free_secret(text);
    if (failed != 0) {
        link_log(acme->link, LEVEL_ERROR, "%s/%s: %s", directory, key_file, strerror(errno));
        EVP_PKEY_free(key);
        return -1;
    }
    if (use_key(acme, key) == 0)
        return 0;
    link_log(acme->link, LEVEL_ERROR,
             "%s/%s is no private key of kind p256: remove it to make another account", directory,
             key_file);
    return -1;
}

static void discard_next_key(struct acme *acme)
{
    EVP_PKEY_free(acme->next_key);
    acme->next_key = NULL;
    if (state_remove(acme->directory, next_file) != 0)
        link_log(acme->link, LEVEL_WARN, "cannot remove %s/%s: %s", acme->settings.state_dir,
                 next_file, strerror(errno));
}

/* Reads the key of a change that has not ended. */
static void load_next_key(struct acme *acme)
{
    char *text = state_read(acme->directory, next_file), thumbprint[JWS_THUMBPRINT_BYTES];

    if (text == NULL)
        return;
    acme->next_key = credentials_key_read(text);
    free_secret(text);
    if (acme->next_key != NULL && jws_thumbprint(acme->next_key, thumbprint) == 0)
        return;
    link_log(acme->link, LEVEL_WARN, "%s/%s is no private key of kind p256: removing it",
             acme->settings.state_dir, next_file);
    discard_next_key(acme);
}

int account_load(struct acme *acme)
{
    struct authority *authority = &acme->authority;
    json_t *json;

    if (load_key(acme) != 0)
        return -1;
    load_next_key(acme);
    json = state_read_json(acme->directory, "account.json");
    if (json != NULL && strcmp(authority_text(json, "directory"), authority->directory) == 0)
        snprintf(authority->account, sizeof(authority->account), "%s", authority_text(json, "url"));
    json_decref(json);
    return 0;
}

void account_free(struct acme *acme)
{
    EVP_PKEY_free(acme->authority.key);
    EVP_PKEY_free(acme->next_key);
}

/* Registration */

/* Binds the account to that of a customer, if the authority wants it. */
static int add_binding(struct acme *acme, json_t *payload)
{
    const struct acme_settings *settings = &acme->settings;
    struct authority *authority = &acme->authority;
    json_t *binding;

    if (settings->eab_kid[0] == '\0')
        return authority->requires_binding
                   ? authority_fail(authority, "the authority has accounts for its customers only: "
                                               "set [acme] eab_kid and eab_key to what it gave you")
                   : 0;
    binding =
        jws_binding(authority->key, authority->new_account, settings->eab_kid, settings->eab_key);
    if (binding == NULL)
        return authority_fail(authority, "[acme] eab_key is not a key in base64url");
    json_object_set_new(payload, "externalAccountBinding", binding);
    return 0;
}

/* Registers the key, or finds its account. */
static int register_account(struct acme *acme)
{
    struct authority *authority = &acme->authority;
    const char *email = acme->settings.email;
    json_t *payload = json_pack("{s:b}", "termsOfServiceAgreed", 1);
    struct authority_answer answer;
    char *contact = NULL;

    if (payload == NULL)
        return authority_fail(authority, "out of memory");
    if (email[0] != '\0' && asprintf(&contact, "mailto:%s", email) >= 0) {
        json_object_set_new(payload, "contact", json_pack("[s]", contact));
        free(contact);
    }
    if (add_binding(acme, payload) != 0) {
        json_decref(payload);
        return -1;
    }
    if (authority_post(authority, authority->new_account, payload, &answer) != 0)
        return -1;
    memcpy(authority->account, answer.location, sizeof(authority->account));
    authority_answer_free(&answer);
    if (authority->account[0] == '\0')
        return authority_fail(authority, "%.100s answers without the URL of the account",
                              authority->new_account);
    if (state_write_json(acme->directory, "account.json",
                         json_pack("{s:s, s:s}", "directory", authority->directory, "url",
                                   authority->account)) != 0)
        link_log(acme->link, LEVEL_WARN, "cannot store the URL of the account: %s",
                 strerror(errno));
    link_log(acme->link, LEVEL_INFO, "account %s", authority->account);
    return 0;
}

/*
 * Writes the URL of the account with the next key. If there is none, sets account_unknown and
 * fails.
 */
static int find_account_of_next_key(struct acme *acme, char url[AUTHORITY_URL_MAX])
{
    struct authority *authority = &acme->authority;
    EVP_PKEY *key = authority->key;
    json_t *payload = json_pack("{s:b}", "onlyReturnExisting", 1);
    struct authority_answer answer;
    int failed;

    if (payload == NULL)
        return authority_fail(authority, "out of memory");
    authority->key = acme->next_key;
    failed = authority_post(authority, authority->new_account, payload, &answer);
    authority->key = key;
    if (failed != 0)
        return -1;
    memcpy(url, answer.location, sizeof(answer.location));
    authority_answer_free(&answer);
    return 0;
}

/*
 * The authority has accepted the next key. If the file cannot be renamed, the next account_open()
 * does it.
 */
static int adopt_next_key(struct acme *acme)
{
    struct authority *authority = &acme->authority;

    if (state_rename(acme->directory, next_file, key_file) != 0)
        return authority_fail(authority, "cannot rename %s/%s: %s", acme->settings.state_dir,
                              next_file, strerror(errno));
    use_key(acme, acme->next_key);
    acme->next_key = NULL;
    link_log(acme->link, LEVEL_INFO, "the key of the account is replaced: %s", authority->account);
    return 0;
}

/* Asks the authority which key is the account's. */
static int decide_between_keys(struct acme *acme)
{
    struct authority *authority = &acme->authority;
    char url[AUTHORITY_URL_MAX];
    bool found = find_account_of_next_key(acme, url) == 0;

    if (!found && !authority->account_unknown)
        return -1;
    authority->account_unknown = false;
    if (found && authority->account[0] == '\0')
        memcpy(authority->account, url, sizeof(url));
    if (found && strcmp(url, authority->account) == 0)
        return adopt_next_key(acme);
    link_log(acme->link, LEVEL_INFO, "the account keeps its key: %s", authority->account);
    discard_next_key(acme);
    return 0;
}

int account_open(struct acme *acme)
{
    struct authority *authority = &acme->authority;

    if (authority_open(authority) != 0 ||
        (acme->next_key != NULL && decide_between_keys(acme) != 0))
        return -1;
    return authority->account[0] != '\0' ? 0 : register_account(acme);
}

/* The change of the key */

/* The next key signs the change, and the key signs that. NULL: out of memory. */
static json_t *make_key_change(const struct acme *acme)
{
    const struct authority *authority = &acme->authority;
    const struct jws_header header = {.url = authority->key_change};
    json_t *old_key = jws_public_key(authority->key), *change, *payload;
    char *inner;

    if (old_key == NULL)
        return NULL;
    change = json_pack("{s:s, s:o}", "account", authority->account, "oldKey", old_key);
    inner = change != NULL ? jws_sign(acme->next_key, &header, change) : NULL;
    payload = inner != NULL ? json_loads(inner, 0, NULL) : NULL;
    json_decref(change);
    free(inner);
    return payload;
}

/*
 * After a failure the authority may have accepted it: an answer may be lost, and the request then
 * be repeated.
 */
static int send_key_change(struct acme *acme)
{
    struct authority *authority = &acme->authority;
    json_t *payload = make_key_change(acme);
    struct authority_answer answer;

    authority->status = 0;
    if (payload == NULL)
        return authority_fail(authority, "cannot sign a request: out of memory");
    if (authority_post(authority, authority->key_change, payload, &answer) != 0)
        return -1;
    authority_answer_free(&answer);
    return 0;
}

/*
 * After a failure: asks the authority whether it has accepted the next key all the same. Returns 0
 * if it has.
 */
static int find_outcome_of_change(struct acme *acme)
{
    struct authority *authority = &acme->authority;
    const EVP_PKEY *next = acme->next_key;
    bool account_unknown = authority->account_unknown;
    char why[AUTHORITY_WHY];

    memcpy(why, authority->why, sizeof(why));
    if (account_open(acme) == 0 && authority->key == next)
        return 0;
    if (account_unknown) /* the next request registers another one */
        authority->account[0] = '\0';
    return authority_fail(authority, "%s%s", why,
                          acme->next_key != NULL ? "; the authority may have accepted the new key"
                                                 : "");
}

int account_change_key(struct acme *acme)
{
    struct authority *authority = &acme->authority;

    if (account_open(acme) != 0)
        return -1;
    if (authority->key_change[0] == '\0')
        return authority_fail(authority, "%s: the directory has no keyChange",
                              authority->directory);
    acme->next_key = credentials_new_key(ACME_KEY_P256);
    if (store_key(acme, next_file, acme->next_key) != 0) {
        EVP_PKEY_free(acme->next_key);
        acme->next_key = NULL;
        return authority_fail(authority, "cannot write %s/%s: %s", acme->settings.state_dir,
                              next_file, strerror(errno));
    }
    return send_key_change(acme) == 0 ? adopt_next_key(acme) : find_outcome_of_change(acme);
}
