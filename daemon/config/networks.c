#include "daemon/config/internal.h"

#include "daemon/base/memory_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SEPARATORS " \t\r,"

enum { NETWORKS_FILE_MAX = 8 * 1024 * 1024 };

/* A list while it is read. */
struct network_reading {
    struct network_set set;
    size_t room, words;
    bool alone; /* a word that stands alone has been read */
    FILE *text; /* the list as it is printed */
    const char *base;
    const struct config_faults *faults;
    struct span word; /* of the value; a file is one word */
    size_t offset;    /* of word */
};

static int fault_here(const struct network_reading *reading, const char *advice,
                      const char *problem)
{
    return config_fault_report(reading->faults, reading->offset, reading->word.length, advice,
                               "'%.*s' %s", CONFIG_QUOTED(reading->word), problem);
}

static int add_network(struct network_reading *reading, const struct network *network)
{
    if (reading->set.count == reading->room) {
        size_t room = 2 * reading->room + 16;
        struct network *more = realloc(reading->set.item, room * sizeof(*more));

        if (more == NULL)
            return config_fault_memory(reading->faults);
        reading->set.item = more;
        reading->room = room;
    }
    reading->set.item[reading->set.count++] = *network;
    return 0;
}

/* Parses WORD. Returns NULL, or the problem with *ADVICE. */
static const char *parse_network(struct span word, struct network *network, const char **advice)
{
    char text[NETWORK_TEXT_MAX];
    enum network_fault fault = NETWORK_NO_ADDRESS;

    if (word.length < sizeof(text)) {
        snprintf(text, sizeof(text), "%.*s", (int)word.length, word.start);
        fault = network_parse(text, network);
    }
    switch (fault) {
    case NETWORK_GOOD:
        return NULL;
    case NETWORK_NO_ADDRESS:
        *advice = "write 10.0.0.0/8, 192.0.2.7, 2001:db8::/32, ::1, unix:, any, none or @FILE";
        return "is not an address or network";
    case NETWORK_BAD_PREFIX:
        *advice = "the prefix length is at most /32 for IPv4, /128 for IPv6";
        return "has an invalid prefix length";
    case NETWORK_HOST_BITS:
        break;
    }
    *advice = "write the first address of the network, or remove the '/'";
    return "has bits set after its prefix";
}

/* The networks of LINE number NUMBER of FILE; '#' and ';' begin comments. */
static int read_networks_line(struct network_reading *reading, const char *file, size_t number,
                              char *line)
{
    line[strcspn(line, "#;")] = '\0';
    for (line += strspn(line, SEPARATORS); *line != '\0'; line += strspn(line, SEPARATORS)) {
        struct span word = {line, strcspn(line, SEPARATORS)};
        const char *advice, *problem;
        struct network network;

        problem = parse_network(word, &network, &advice);
        if (problem != NULL)
            return config_fault_report(reading->faults, reading->offset, reading->word.length,
                                       advice, "%s:%zu: '%.*s' %s", file, number,
                                       CONFIG_QUOTED(word), problem);
        if (add_network(reading, &network) != 0)
            return -1;
        line += word.length;
    }
    return 0;
}

static int read_networks_file(struct network_reading *reading, const char *file)
{
    int fd = open(file, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK), failed = 0;
    size_t length, number = 0;
    char *text = fd >= 0 ? config_text_read(fd, NETWORKS_FILE_MAX, &length) : NULL, *rest, *line;

    if (text == NULL)
        failed = config_fault_report(
            reading->faults, reading->offset, reading->word.length,
            "name a file with networks, one a line; comments begin with '#'", "%s: %s", file,
            errno == EFBIG ? "the file is larger than 8 MiB" : strerror(errno));
    rest = text != NULL ? (char *)config_skip_mark((struct span){text, length}).start : NULL;
    while (failed == 0 && (line = strsep(&rest, "\n")) != NULL)
        failed = read_networks_line(reading, file, ++number, line);
    free(text);
    if (fd >= 0)
        close(fd);
    return failed;
}

/* "@FILE" */
static int add_networks_of_file(struct network_reading *reading)
{
    char *name = strndup(reading->word.start + 1, reading->word.length - 1), *file = NULL;
    int failed;

    if (name != NULL)
        file = name[0] == '/' ? strdup(name) : config_path_join(reading->base, name);
    if (file == NULL)
        failed = config_fault_memory(reading->faults);
    else if (name[0] == '\0')
        failed = fault_here(reading, "write @FILE", "names no file");
    else
        failed = read_networks_file(reading, file);
    if (failed == 0)
        fprintf(reading->text, "@%s", file);
    free(name);
    free(file);
    return failed;
}

static int add_any_network(struct network_reading *reading)
{
    static const char *const all[] = {"0.0.0.0/0", "::/0", "unix:"};

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        struct network network;

        network_parse(all[i], &network);
        if (add_network(reading, &network) != 0)
            return -1;
    }
    return 0;
}

static int read_network_word(struct network_reading *reading)
{
    bool any = span_is(reading->word, SPAN("any")), none = span_is(reading->word, SPAN("none"));
    const char *advice, *problem;
    char text[NETWORK_TEXT_MAX];
    struct network network;

    reading->alone |= any || none;
    if (reading->words++ > 0) {
        if (reading->alone)
            return fault_here(reading, "write any or none alone, or a list", "is too much");
        fputc(' ', reading->text);
    }
    if (reading->word.start[0] == '@')
        return add_networks_of_file(reading);
    if (any || none) {
        fputs(any ? "any" : "none", reading->text);
        return any ? add_any_network(reading) : 0;
    }
    problem = parse_network(reading->word, &network, &advice);
    if (problem != NULL)
        return fault_here(reading, advice, problem);
    network_text(&network, text);
    fputs(text, reading->text);
    return add_network(reading, &network);
}

int config_networks_parse(const char *text, const char *base, struct config_networks *networks,
                          const struct config_faults *faults)
{
    struct network_reading reading = {.base = base, .faults = faults};
    struct config_networks found = {.text = NULL};
    int failed = 0;
    size_t length;

    reading.text = open_memstream(&found.text, &length);
    if (reading.text == NULL)
        return config_fault_memory(faults);
    for (const char *at = text + strspn(text, SEPARATORS); *at != '\0';
         at += strspn(at, SEPARATORS)) {
        reading.word = (struct span){at, strcspn(at, SEPARATORS)};
        reading.offset = (size_t)(at - text);
        if (read_network_word(&reading) != 0)
            failed = -1;
        at += reading.word.length;
    }
    if (memstream_close(reading.text, &found.text) != 0)
        failed = config_fault_memory(faults);
    network_set_complete(&reading.set);
    found.set = reading.set;
    if (failed == 0)
        *networks = found;
    else
        config_networks_free(&found);
    return failed;
}

void config_networks_free(struct config_networks *networks)
{
    free(networks->set.item);
    free(networks->text);
    *networks = (struct config_networks){.text = NULL};
}
