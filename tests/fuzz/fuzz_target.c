/*
 * The canonical form of a request target. A returned path is canonical, and the same path with every
 * byte percent-encoded has the same canonical form.
 */
#include "daemon/http/target.h"
#include "tests/fuzz/fuzz.h"

#include <string.h>

static void check_path(const struct target *target)
{
    const char *path = target->path;

    MUST(target->length >= 1 && target->length < TARGET_PATH_MAX);
    MUST(path[0] == '/' && strlen(path) == target->length);
    MUST(target->directory == (path[target->length - 1] == '/'));
    MUST(strstr(path, "//") == NULL && strstr(path, "/./") == NULL && strstr(path, "/../") == NULL);
    MUST(target->length < 2 || strcmp(path + target->length - 2, "/.") != 0);
    MUST(target->length < 3 || strcmp(path + target->length - 3, "/..") != 0);
    for (size_t i = 0; i < target->length; i++)
        MUST((unsigned char)path[i] >= 0x20 && path[i] != 0x7f && path[i] != '\\');
}

static void check_again(const struct target *target)
{
    static char text[3 * TARGET_PATH_MAX];
    static struct target again;
    size_t length = 0;

    for (size_t i = 0; i < target->length; i++) {
        if (target->path[i] == '/')
            text[length++] = '/';
        else
            length += (size_t)sprintf(text + length, "%%%02X", (unsigned char)target->path[i]);
    }
    MUST(target_canonical((struct span){text, length}, &again) == 0);
    MUST(strcmp(again.path, target->path) == 0 && again.query.start == NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct target target;
    const char *text = (const char *)data;
    int status;

    memset(&target, 0xa5, sizeof(target));
    status = target_canonical((struct span){text, size}, &target);
    MUST(status == 0 || status == 400 || status == 404);
    if (status != 0)
        return 0;
    check_path(&target);
    check_again(&target);
    if (target.query.start != NULL) {
        MUST(target.query.start > text && target.query.start[-1] == '?');
        MUST(target.query.start + target.query.length == text + size);
    }
    return 0;
}
