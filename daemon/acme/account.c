#include "daemon/acme/account.h"

#include "daemon/acme/credentials.h"
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
static int store_key(const struct account *account, const char *file, EVP_PKEY *key)
{
    char *text = key != NULL ? credentials_key_text(key) : NULL;
    int failed;

    errno = ENOMEM;
    failed = text != NULL ? state_write(account->directory, file, text) : -1;
    free_secret(text);
    return failed;
}

/* Uses KEY, which it takes over. Returns 0, or -1: it is NULL or of another kind. */
static int use_key(struct account *account, EVP_PKEY *key)
{
    EVP_PKEY_free(account->key);
    account->key = account->authority->key = key;
    return key != NULL ? jws_thumbprint(key, account->thumbprint) : -1;
}

/* Reads the key, or makes one. Returns 0, or -1 after an event. */
static int load_key(struct account *account)
{
    const char *directory = account->settings->state_dir;
    char *text = state_read(account->directory, key_file);
    EVP_PKEY *key = text != NULL ? credentials_key_read(text) : NULL;
    int failed = text == NULL && errno != ENOENT ? -1 : 0;

    if (text == NULL && failed == 0) {
        key = credentials_new_key(ACME_KEY_P256);
        failed = store_key(account, key_file, key);
    }
    free_secret(text);
    if (failed != 0) {
        link_log(account->link, LEVEL_ERROR, "%s/%s: %s", directory, key_file, strerror(errno));
        EVP_PKEY_free(key);
        return -1;
    }
    if (use_key(account, key) == 0)
        return 0;
    link_log(account->link, LEVEL_ERROR,
             "%s/%s is no private key of kind p256: remove it to make another account", directory,
             key_file);
    return -1;
}

static void discard_next(struct account *account)
{
    EVP_PKEY_free(account->next);
    account->next = NULL;
    if (state_remove(account->directory, next_file) != 0)
        link_log(account->link, LEVEL_WARN, "cannot remove %s/%s: %s", account->settings->state_dir,
                 next_file, strerror(errno));
}

/* Reads the key of a change that has not ended. */
static void load_next(struct account *account)
{
    char *text = state_read(account->directory, next_file), thumbprint[JWS_THUMBPRINT_BYTES];

    if (text == NULL)
        return;
    account->next = credentials_key_read(text);
    free_secret(text);
    if (account->next != NULL && jws_thumbprint(account->next, thumbprint) == 0)
        return;
    link_log(account->link, LEVEL_WARN, "%s/%s is no private key of kind p256: removing it",
             account->settings->state_dir, next_file);
    discard_next(account);
}

/* The account's URL, if it is at this authority and not only the key's. */
static void load_url(const struct account *account)
{
    struct authority *authority = account->authority;
    json_t *json = state_read_json(account->directory, "account.json");

    if (json != NULL && strcmp(authority_text(json, "directory"), authority->directory) == 0)
        snprintf(authority->account, sizeof(authority->account), "%s", authority_text(json, "url"));
    json_decref(json);
}

int account_load(struct account *account)
{
    if (load_key(account) != 0)
        return -1;
    load_next(account);
    load_url(account);
    return 0;
}

void account_free(struct account *account)
{
    EVP_PKEY_free(account->key);
    EVP_PKEY_free(account->next);
}

/* The authority */

/* The authority has accepted the next key. If the file cannot be renamed, the next account_open() does it. */
static int adopt_next(struct account *account)
{
    if (state_rename(account->directory, next_file, key_file) != 0)
        return authority_fail(account->authority, "cannot rename %s/%s: %s",
                              account->settings->state_dir, next_file, strerror(errno));
    use_key(account, account->next);
    account->next = NULL;
    link_log(account->link, LEVEL_INFO, "the key of the account is replaced: %s",
             account->authority->account);
    return 0;
}

/* Asks the authority which key is the account's. */
static int decide(struct account *account)
{
    struct authority *authority = account->authority;
    char url[AUTHORITY_URL_MAX];
    bool found = authority_find_account(authority, account->next, url) == 0;

    if (!found && !authority->account_unknown)
        return -1;
    authority->account_unknown = false;
    if (found && authority->account[0] == '\0')
        memcpy(authority->account, url, sizeof(url));
    if (found && strcmp(url, authority->account) == 0)
        return adopt_next(account);
    link_log(account->link, LEVEL_INFO, "the account keeps its key: %s", authority->account);
    discard_next(account);
    return 0;
}

static int register_account(const struct account *account)
{
    struct authority *authority = account->authority;

    if (authority_register(authority, account->settings->email) != 0)
        return -1;
    if (state_write_json(account->directory, "account.json",
                         json_pack("{s:s, s:s}", "directory", authority->directory, "url",
                                   authority->account)) != 0)
        link_log(account->link, LEVEL_WARN, "cannot store the URL of the account: %s",
                 strerror(errno));
    link_log(account->link, LEVEL_INFO, "account %s", authority->account);
    return 0;
}

int account_open(struct account *account)
{
    if (authority_open(account->authority) != 0 || (account->next != NULL && decide(account) != 0))
        return -1;
    return account->authority->account[0] != '\0' ? 0 : register_account(account);
}

/* After a failure: asks the authority whether it has accepted the next key all the same. Returns 0 if it has. */
static int find_out(struct account *account)
{
    struct authority *authority = account->authority;
    const EVP_PKEY *next = account->next;
    bool account_unknown = authority->account_unknown;
    char why[AUTHORITY_WHY];

    memcpy(why, authority->why, sizeof(why));
    if (account_open(account) == 0 && account->key == next)
        return 0;
    if (account_unknown) /* the next request registers another one */
        authority->account[0] = '\0';
    return authority_fail(authority, "%s%s", why,
                          account->next != NULL ? "; the authority may have accepted the new key"
                                                : "");
}

int account_change_key(struct account *account)
{
    struct authority *authority = account->authority;

    if (account_open(account) != 0)
        return -1;
    if (authority->key_change[0] == '\0')
        return authority_fail(authority, "%s: the directory has no keyChange",
                              authority->directory);
    account->next = credentials_new_key(ACME_KEY_P256);
    if (store_key(account, next_file, account->next) != 0) {
        EVP_PKEY_free(account->next);
        account->next = NULL;
        return authority_fail(authority, "cannot write %s/%s: %s", account->settings->state_dir,
                              next_file, strerror(errno));
    }
    return authority_change_key(authority, account->next) == 0 ? adopt_next(account)
                                                               : find_out(account);
}
