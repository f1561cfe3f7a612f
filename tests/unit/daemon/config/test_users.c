/* Users files: which hashes are accepted, the reasons of the others, finding users. */
#include "common/macros.h"
#include "daemon/config/internal.h"
#include "tests/test.h"

#include <crypt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BCRYPT "$2y$04$QFnPyGF6.q2nlp3nVbzOEeeToKzCbUix/PFAa7buIQwbXDh1Aaij2"
#define SHA256 "$5$dD8YeXtIU8mGvbn7$rnNFDsBqL6or4htTyWweiHoeySwQl/jVIapfrWeEQf7"
#define SHA512_HASH                                                                                \
    "$e/fqQxOCwy5MSJTMsIsPI.R.VtpnkTRiNIEBhlT9flMTZJ4WdTSThnSOoBXvCVO4k1voeAEYbEnL17SKPwpqo1"
#define SHA512 "$6$rounds=1000$bKss4EGV6XhdxUmJ" SHA512_HASH

static char path[] = "/tmp/test-users-XXXXXX";
static char *errors;

/* Loads a file with TEXT; errors has the messages, without the path. */
static int load_mode(const char *text, mode_t mode, struct config_users *users)
{
    const struct config_place place = {.source = "here"};
    struct config_report report = {.errors = 0};
    FILE *file = fopen(path, "w");
    size_t length;
    char *found;
    int failed;

    free(errors);
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, mode), 0);
    report.out = open_memstream(&errors, &length);
    assert_non_null(report.out);
    failed = config_users_load(path, users, &place, &report);
    assert_int_equal(fclose(report.out), 0);
    assert_int_equal(failed, report.errors > 0 ? -1 : 0);
    while ((found = strstr(errors, path)) != NULL)
        memmove(found, found + strlen(path), strlen(found + strlen(path)) + 1);
    return failed;
}

static int load(const char *text, struct config_users *users)
{
    return load_mode(text, 0600, users);
}

TEST(hashes_of_htpasswd_are_verified_by_crypt)
{
    static const char *const hashes[] = {BCRYPT, SHA256, SHA512};
    struct config_users users;
    char line[256];

    for (size_t i = 0; i < ARRAY_LENGTH(hashes); i++) {
        snprintf(line, sizeof(line), "\xef\xbb\xbf%sann:%s\r\n", i > 0 ? "# comment\n\n" : "",
                 hashes[i]);
        assert_int_equal(load(line, &users), 0);
        assert_int_equal(users.count, 1);
        assert_string_equal(users.item[0].name, "ann");
        assert_string_equal(users.item[0].hash, hashes[i]);
        assert_string_equal(crypt("pass word", users.item[0].hash), hashes[i]);
        assert_string_not_equal(crypt("pass wore", users.item[0].hash), hashes[i]);
        config_users_free(&users);
    }
}

static const struct {
    const char *line, *expected;
} refused[] = {
    {"a:$apr1$V0loDipR$8g5AmGTaF1ErBMYW1edY0.", "user 'a': MD5 hashes are too weak"},
    {"a:$1$V0loDipR$8g5AmGTaF1ErBMYW1edY0.", "user 'a': MD5 hashes are too weak"},
    {"a:{SHA}2oguq15ANCGsJCWKX31fllwpyEk=", "user 'a': SHA-1 hashes without salt are too weak"},
    {"a:DOKiF3Z66d.GY", "user 'a': DES hashes are too weak"},
    {"a:secret", "user 'a': passwords in plain text are not supported"},
    {"a:", "user 'a': the password is empty"},
    {"a:{SSHA}abc", "user 'a': this kind of hash is not supported"},
    {"a:$y$j9T$abc$def", "user 'a': this kind of hash is not supported"},
    {"a:$2y$04$short", "user 'a': the bcrypt hash is malformed"},
    {"a:" BCRYPT "x", "user 'a': the bcrypt hash is malformed"},
    {"a:$2y$03$QFnPyGF6.q2nlp3nVbzOEeeToKzCbUix/PFAa7buIQwbXDh1Aaij2",
     "user 'a': the cost of bcrypt is out of range (4-17)"},
    {"a:$2y$18$QFnPyGF6.q2nlp3nVbzOEeeToKzCbUix/PFAa7buIQwbXDh1Aaij2",
     "user 'a': the cost of bcrypt is out of range (4-17)"},
    {"a:$2y$+4$QFnPyGF6.q2nlp3nVbzOEeeToKzCbUix/PFAa7buIQwbXDh1Aaij2",
     "user 'a': the bcrypt hash is malformed"},
    {"a:$6$salt$short", "user 'a': the SHA crypt hash is malformed"},
    {"a:$5$salt", "user 'a': the SHA crypt hash is malformed"},
    {"a:$6$12345678901234567" SHA512_HASH, "user 'a': the SHA crypt hash is malformed"},
    {"a:$6$rounds=999$s" SHA512_HASH,
     "user 'a': the rounds of SHA crypt are out of range (1000-5000000)"},
    {"a:$6$rounds=5000001$s" SHA512_HASH,
     "user 'a': the rounds of SHA crypt are out of range (1000-5000000)"},
    {"a:$6$rounds=$s" SHA512_HASH, "user 'a': the rounds of SHA crypt are malformed"},
    {"just words", "the line has no ':'"},
    {":" BCRYPT, "the name is not valid"},
    {"a\tb:" BCRYPT, "the name is not valid"},
};

/* No message has a hash or a password. */
TEST(other_lines_are_refused_with_a_reason)
{
    struct config_users users;
    char text[256], expected[256];

    for (size_t i = 0; i < ARRAY_LENGTH(refused); i++) {
        const char *hash = strchr(refused[i].line, ':');

        snprintf(text, sizeof(text), "good:" BCRYPT "\n%s\n", refused[i].line);
        snprintf(expected, sizeof(expected), ":2:1: error: %s\n", refused[i].expected);
        assert_int_equal(load(text, &users), -1);
        assert_int_equal(users.count, 0);
        if (strncmp(errors, expected, strlen(expected)) != 0)
            fail_msg("%s: %s", refused[i].line, errors);
        if (hash != NULL && hash[1] != '\0')
            assert_null(strstr(errors, hash + 1));
    }
}

TEST(files_are_refused_with_a_reason)
{
    struct config_users users;

    assert_int_equal(load("# nobody\n", &users), -1);
    assert_non_null(strstr(errors, "the file has no users"));
    assert_int_equal(load("b:" BCRYPT "\na:" BCRYPT "\nb:" SHA256 "\n", &users), -1);
    assert_non_null(strstr(errors, ":3:1: error: user 'b': is in the file twice"));
    assert_int_equal(load_mode("a:" BCRYPT "\n", 0644, &users), -1);
    assert_non_null(strstr(errors, "other users may read or change the file"));
    assert_int_equal(load_mode("a:" BCRYPT "\n", 0660, &users), -1);
    assert_int_equal(load_mode("a:" BCRYPT "\n", 0640, &users), 0);
    config_users_free(&users);
}

TEST(users_are_found_by_their_whole_name)
{
    static const char *const names[] = {"zoe", "an", "ann", "anna", "B", "\xc3\xa9ve"};
    static const char *const others[] = {"", "a", "annab", "b", "zo", "zoee", "\xc3"};
    struct config_users users;
    char text[1024] = "";

    for (size_t i = 0; i < ARRAY_LENGTH(names); i++)
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s:" BCRYPT ":rest\n",
                 names[i]);
    assert_int_equal(load(text, &users), 0);
    for (size_t i = 0; i < ARRAY_LENGTH(names); i++) {
        const struct config_user *user = config_users_find(&users, span_of(names[i]));

        assert_non_null(user);
        assert_string_equal(user->name, names[i]);
    }
    for (size_t i = 0; i < ARRAY_LENGTH(others); i++)
        assert_null(config_users_find(&users, span_of(others[i])));
    config_users_free(&users);
}

static int set_up(void **state)
{
    int fd = mkstemp(path);

    (void)state;
    return fd >= 0 ? close(fd) : -1;
}

static int tear_down(void **state)
{
    (void)state;
    free(errors);
    return unlink(path);
}

const struct test_fixture test_group_fixture = {set_up, tear_down};
