#include "daemon/config/internal.h"

#include <crypt.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    FILE_BYTES_MAX = 8 * 1024 * 1024,
    NAME_BYTES_MAX = 128,
    BCRYPT_BYTES = 60,
    BCRYPT_COST_MAX = 17,     /* 10 seconds */
    SHA_ROUNDS_MAX = 5000000, /* a few seconds */
    SALT_MAX = 16,
};

#define MAKE_BETTER "make the line with htpasswd -B (bcrypt)"
#define SALT_BYTES  "./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

/* Kinds of hashes */

static bool hash_begins(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

static const char *fault_of_bcrypt(const char *hash)
{
    char *end;
    long cost = strtol(hash + 4, &end, 10);

    if (!isdigit((unsigned char)hash[4]) || end != hash + 6 || *end != '$' ||
        strlen(hash) != BCRYPT_BYTES || strspn(hash + 7, SALT_BYTES) != BCRYPT_BYTES - 7)
        return "the bcrypt hash is malformed";
    return cost < 4 || cost > BCRYPT_COST_MAX ? "the cost of bcrypt is out of range (4-17)" : NULL;
}

static const char *fault_of_sha_crypt(const char *hash, size_t length)
{
    static const char rounds[] = "rounds=";
    const char *salt = hash + 3, *end;
    char *after;

    if (hash_begins(salt, rounds)) {
        const char *number = salt + strlen(rounds);
        unsigned long count = strtoul(number, &after, 10);

        if (!isdigit((unsigned char)*number) || *after != '$')
            return "the rounds of SHA crypt are malformed";
        if (count < 1000 || count > SHA_ROUNDS_MAX)
            return "the rounds of SHA crypt are out of range (1000-5000000)";
        salt = after + 1;
    }
    end = strchr(salt, '$');
    if (end == NULL || end - salt > SALT_MAX || strspn(end + 1, SALT_BYTES) != length ||
        strlen(end + 1) != length)
        return "the SHA crypt hash is malformed";
    return NULL;
}

/* NULL, or why HASH is refused. */
static const char *fault_of_hash(const char *hash)
{
    const char *fault = NULL;
    int verdict;

    if (hash_begins(hash, "$2y$") || hash_begins(hash, "$2b$") || hash_begins(hash, "$2a$"))
        fault = fault_of_bcrypt(hash);
    else if (hash_begins(hash, "$5$"))
        fault = fault_of_sha_crypt(hash, 43);
    else if (hash_begins(hash, "$6$"))
        fault = fault_of_sha_crypt(hash, 86);
    else if (hash_begins(hash, "$apr1$") || hash_begins(hash, "$1$"))
        return "MD5 hashes are too weak";
    else if (hash_begins(hash, "{SHA}"))
        return "SHA-1 hashes without salt are too weak";
    else if (hash[0] == '$' || hash[0] == '{')
        return "this kind of hash is not supported";
    else if (strlen(hash) == 13 && strspn(hash, SALT_BYTES) == 13)
        return "DES hashes are too weak";
    else
        return hash[0] == '\0' ? "the password is empty"
                               : "passwords in plain text are not supported";
    if (fault != NULL)
        return fault;
    verdict = crypt_checksalt(hash); /* a kind that the system advises against is still supported */
    return verdict != CRYPT_SALT_INVALID && verdict != CRYPT_SALT_METHOD_DISABLED
               ? NULL
               : "crypt(3) of this system does not support this kind of hash";
}

/* Lines */

struct reading {
    struct config_users *users;
    size_t capacity;
    struct config_place place;
    struct config_report *report;
};

static void report_line(const struct reading *reading, const char *advice, const char *name,
                        const char *problem)
{
    if (name == NULL)
        config_report_error(reading->report, &reading->place, advice, "%s", problem);
    else
        config_report_error(reading->report, &reading->place, advice, "user '%.*s': %s",
                            CONFIG_QUOTED_MAX, name, problem);
}

static bool is_user_name(const char *name)
{
    size_t length = strlen(name);

    for (size_t i = 0; i < length; i++)
        if (iscntrl((unsigned char)name[i]))
            return false;
    return length > 0 && length <= NAME_BYTES_MAX;
}

static int add_user(struct reading *reading, const char *name, const char *hash)
{
    struct config_users *users = reading->users;
    struct config_user user;

    if (users->count == reading->capacity) {
        size_t capacity = 2 * reading->capacity + 16;
        struct config_user *more = realloc(users->item, capacity * sizeof(*more));

        if (more == NULL)
            return -1;
        users->item = more;
        reading->capacity = capacity;
    }
    user = (struct config_user){strdup(name), strdup(hash), reading->place.line};
    users->item[users->count++] = user;
    return user.name != NULL && user.hash != NULL ? 0 : -1;
}

/* "name:hash", perhaps with more after another ':'. Returns 0, or -1: out of memory. */
static int read_user_line(struct reading *reading, char *line)
{
    char *name, *hash;
    const char *fault;

    line[strcspn(line, "\r")] = '\0';
    line += strspn(line, " \t");
    if (line[0] == '\0' || line[0] == '#')
        return 0;
    name = strsep(&line, ":");
    hash = strsep(&line, ":");
    if (hash == NULL || !is_user_name(name)) {
        report_line(reading, "write name:hash, with a name of 1 to 128 bytes", NULL,
                    hash == NULL ? "the line has no ':'" : "the name is not valid");
        return 0;
    }
    fault = fault_of_hash(hash);
    if (fault == NULL)
        return add_user(reading, name, hash);
    report_line(reading, MAKE_BETTER, name, fault);
    return 0;
}

static int by_user_name(const void *one, const void *other)
{
    const struct config_user *a = one, *b = other;
    int order = strcmp(a->name, b->name);

    return order != 0 ? order : (a->file_line > b->file_line) - (a->file_line < b->file_line);
}

static void sort_users(struct reading *reading)
{
    const struct config_user *user = reading->users->item;

    qsort(reading->users->item, reading->users->count, sizeof(struct config_user), by_user_name);
    for (size_t i = 1; i < reading->users->count; i++)
        if (strcmp(user[i - 1].name, user[i].name) == 0) {
            reading->place.line = user[i].file_line;
            report_line(reading, "remove one of the lines", user[i].name, "is in the file twice");
        }
}

static void read_lines(struct reading *reading, char *text)
{
    size_t errors = reading->report->errors;
    char *line;

    text += config_skip_mark(span_of(text)).start - text;
    while ((line = strsep(&text, "\n")) != NULL) {
        reading->place.line++;
        if (read_user_line(reading, line) != 0) {
            report_line(reading, "", NULL, "out of memory");
            return;
        }
    }
    if (reading->users->count > 0)
        sort_users(reading);
    else if (reading->report->errors == errors) {
        reading->place.line = 0;
        report_line(reading, "add one with htpasswd -B", NULL, "the file has no users");
    }
}

/* The file */

/* Why the file FD cannot be used, with advice; NULL: it can. */
static const char *fault_of_file(int fd, const char **advice)
{
    struct stat status;

    *advice = "name a file made by htpasswd -B";
    if (fd < 0 || fstat(fd, &status) != 0)
        return strerror(errno);
    if (!S_ISREG(status.st_mode))
        return "not a regular file";
    if (status.st_size > FILE_BYTES_MAX)
        return "the file is larger than 8 MiB";
    *advice = "remove the permissions of others: chmod 0640";
    return (status.st_mode & (S_IRWXO | S_IWGRP)) != 0 ? "other users may read or change the file"
                                                       : NULL;
}

int config_users_load(const char *file, struct config_users *users,
                      const struct config_place *place, struct config_report *report)
{
    struct reading reading = {.users = users, .place = {.source = file}, .report = report};
    size_t errors = report->errors;
    int fd = open(file, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    const char *advice, *fault;
    size_t length = 0;
    char *text = NULL;

    *users = (struct config_users){.file = strdup(file)};
    fault = fault_of_file(fd, &advice);
    if (fault == NULL && (text = config_text_read(fd, FILE_BYTES_MAX, &length)) == NULL)
        fault = strerror(errno);
    if (text != NULL && strlen(text) < length)
        fault = strerror(EILSEQ);
    if (fault != NULL)
        config_report_error(report, place, advice, "%s: %s", file, fault);
    else if (text != NULL)
        read_lines(&reading, text);
    if (text != NULL)
        explicit_bzero(text, length);
    free(text);
    if (fd >= 0)
        close(fd);
    if (report->errors == errors && users->file != NULL)
        return 0;
    config_users_free(users);
    return -1;
}

void config_users_free(struct config_users *users)
{
    for (size_t i = 0; i < users->count; i++) {
        free(users->item[i].name);
        free(users->item[i].hash);
    }
    free(users->item);
    free(users->file);
    *users = (struct config_users){.count = 0};
}

bool config_users_are_equal(const struct config_users *one, const struct config_users *other)
{
    if (one->count != other->count || (one->file == NULL) != (other->file == NULL) ||
        (one->file != NULL && strcmp(one->file, other->file) != 0))
        return false;
    for (size_t i = 0; i < one->count; i++)
        if (strcmp(one->item[i].name, other->item[i].name) != 0 ||
            strcmp(one->item[i].hash, other->item[i].hash) != 0)
            return false;
    return true;
}

const struct config_user *config_users_find(const struct config_users *users, struct span name)
{
    size_t from = 0, to = users->count;

    while (from < to) {
        size_t middle = (from + to) / 2;
        const struct config_user *user = &users->item[middle];
        size_t length = strlen(user->name);
        int order = memcmp(user->name, name.start, length < name.length ? length : name.length);

        if (order == 0 && length == name.length)
            return user;
        if (order < 0 || (order == 0 && length < name.length))
            from = middle + 1;
        else
            to = middle;
    }
    return NULL;
}
