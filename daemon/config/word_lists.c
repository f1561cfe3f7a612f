#include "daemon/config/word_lists.h"

#include "daemon/config/path.h"
#include "daemon/config/report.h"

#include <stdlib.h>
#include <string.h>

#define SEPARATORS ", \t"

/* The words of a value, one after the other. */
struct words {
    const char *text;
    size_t offset; /* of the present word */
    size_t length;
    size_t count; /* so far, the present one included */
};

static bool next_word(struct words *words)
{
    words->offset += words->length;
    words->offset += strspn(words->text + words->offset, SEPARATORS);
    words->length = strcspn(words->text + words->offset, SEPARATORS);
    words->count++;
    return words->length > 0;
}

static struct span word_of(const struct words *words)
{
    return (struct span){words->text + words->offset, words->length};
}

static int check_count(const struct words *words, const struct config_faults *faults)
{
    if (words->count <= CONFIG_LIST_MAX)
        return 0;
    return config_fault_tell(faults, words->offset, words->length, "give fewer",
                             "there are more than %d words", CONFIG_LIST_MAX);
}

/* An empty list has no memory. */
static void *room_for(const char *text, size_t size)
{
    return text[strspn(text, SEPARATORS)] == '\0' ? NULL : calloc(CONFIG_LIST_MAX, size);
}

/* Paths. */

static int add_path(struct config_paths *paths, const struct words *words, const char *base,
                    const struct config_faults *faults)
{
    struct span word = word_of(words);
    char *path = strndup(word.start, word.length), *joined;

    if (path == NULL)
        return config_fault_memory(faults);
    if (path[0] != '/') {
        joined = config_path_join(base, path);
        free(path);
        path = joined;
    }
    if (path == NULL)
        return config_fault_memory(faults);
    paths->item[paths->count++] = path;
    return 0;
}

int config_paths_parse(const char *text, const char *base, struct config_paths *paths,
                       const struct config_faults *faults)
{
    struct config_paths found = {.item = room_for(text, sizeof(char *))};
    struct words words = {.text = text};

    while (next_word(&words)) {
        if (found.item == NULL)
            return config_fault_memory(faults);
        if (check_count(&words, faults) != 0 || add_path(&found, &words, base, faults) != 0) {
            config_paths_free(&found);
            return -1;
        }
    }
    *paths = found;
    return 0;
}

void config_paths_free(struct config_paths *paths)
{
    for (size_t i = 0; i < paths->count; i++)
        free(paths->item[i]);
    free(paths->item);
    *paths = (struct config_paths){.count = 0};
}

char *config_paths_text(const struct config_paths *paths)
{
    char *text = NULL;
    size_t length;
    FILE *memory = open_memstream(&text, &length);

    if (memory == NULL)
        return NULL;
    for (size_t i = 0; i < paths->count; i++)
        fprintf(memory, "%s%s", i > 0 ? " " : "", paths->item[i]);
    fclose(memory);
    return text;
}

/* Networks. */

static int fault_network(const struct words *words, enum network_fault fault,
                         const struct config_faults *faults)
{
    struct span word = word_of(words);

    switch (fault) {
    case NETWORK_GOOD:
        return 0;
    case NETWORK_NO_ADDRESS:
        return config_fault_tell(faults, words->offset, words->length,
                                 "write 10.0.0.0/8, 192.0.2.7, 2001:db8::/32 or ::1",
                                 "'%.*s' is not an address or network", CONFIG_QUOTED(word));
    case NETWORK_BAD_PREFIX:
        return config_fault_tell(
            faults, words->offset, words->length,
            "write at most /32 behind an IPv4 address, /128 behind an IPv6 one",
            "'%.*s' has no good length behind the '/'", CONFIG_QUOTED(word));
    case NETWORK_HOST_BITS:
        break;
    }
    return config_fault_tell(faults, words->offset, words->length,
                             "write the network's first address, or take the '/' away",
                             "'%.*s' has bits behind its prefix", CONFIG_QUOTED(word));
}

static int add_network(struct config_networks *networks, const struct words *words,
                       const struct config_faults *faults)
{
    struct span word = word_of(words);
    struct network *network = &networks->item[networks->count];
    char text[NETWORK_TEXT_MAX];
    enum network_fault fault = NETWORK_NO_ADDRESS;

    if (word.length < sizeof(text)) {
        snprintf(text, sizeof(text), "%.*s", (int)word.length, word.start);
        fault = network_parse(text, network);
    }
    networks->count += fault == NETWORK_GOOD;
    return fault_network(words, fault, faults);
}

int config_networks_parse(const char *text, struct config_networks *networks,
                          const struct config_faults *faults)
{
    struct config_networks found = {.item = room_for(text, sizeof(struct network))};
    struct words words = {.text = text};
    bool faulty = false;

    while (next_word(&words)) {
        if (found.item == NULL)
            return config_fault_memory(faults);
        if (check_count(&words, faults) != 0 || add_network(&found, &words, faults) != 0)
            faulty = true;
        if (words.count > CONFIG_LIST_MAX)
            break;
    }
    if (faulty) {
        config_networks_free(&found);
        return -1;
    }
    *networks = found;
    return 0;
}

void config_networks_free(struct config_networks *networks)
{
    free(networks->item);
    *networks = (struct config_networks){.count = 0};
}

char *config_networks_text(const struct config_networks *networks)
{
    char *text = NULL, one[NETWORK_TEXT_MAX];
    size_t length;
    FILE *memory = open_memstream(&text, &length);

    if (memory == NULL)
        return NULL;
    for (size_t i = 0; i < networks->count; i++) {
        network_text(&networks->item[i], one);
        fprintf(memory, "%s%s", i > 0 ? " " : "", one);
    }
    fclose(memory);
    return text;
}
