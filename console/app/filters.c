#include "console/app/filters.h"

#include "console/data/user_files.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { NAME_MAX_BYTES = 40 };

static bool find_file(char *path, char *why, size_t size)
{
    if (user_files_path("XDG_CONFIG_HOME", ".config", "filters", path, PATH_MAX))
        return true;
    snprintf(why, size, "neither XDG_CONFIG_HOME nor HOME is set");
    return false;
}

static bool is_name(const char *name)
{
    size_t length = 0;

    while (isalnum((unsigned char)name[length]) || name[length] == '-' || name[length] == '_')
        length++;
    return length > 0 && length < NAME_MAX_BYTES && name[length] == '\0';
}

int filters_save(const char *name, const char *text, char *why, size_t size)
{
    char path[PATH_MAX];
    FILE *file;

    if (!is_name(name)) {
        snprintf(why, size, "invalid name '%.40s' (letters, digits, '-', '_')", name);
        return -1;
    }
    if (!find_file(path, why, size))
        return -1;
    file = user_files_make_parents(path) == 0 ? fopen(path, "ae") : NULL;
    if (file != NULL) {
        bool written = fprintf(file, "%s %s\n", name, text) > 0;

        if (fclose(file) == 0 && written)
            return 0;
    }
    snprintf(why, size, "cannot write %.150s: %s", path, strerror(errno));
    return -1;
}

int filters_find(const char *name, char *text, char *why, size_t size)
{
    char path[PATH_MAX], line[FILTER_BYTES + NAME_MAX_BYTES + 2];
    size_t length = strlen(name);
    FILE *file;

    text[0] = '\0';
    if (!find_file(path, why, size))
        return -1;
    file = fopen(path, "re");
    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        if (strncmp(line, name, length) == 0 && line[length] == ' ')
            snprintf(text, FILTER_BYTES, "%s", line + length + 1);
    }
    if (file != NULL)
        fclose(file);
    if (text[0] != '\0')
        return 0;
    snprintf(why, size, "no filter is saved as '%.40s'; :save-filter NAME saves the one in force",
             name);
    return -1;
}
