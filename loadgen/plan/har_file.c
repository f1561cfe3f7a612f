#include "loadgen/plan/internal.h"

#include "common/clock.h"
#include "common/macros.h"

#include "loadgen/plan/input.h"
#include "loadgen/plan/message.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct har_reader {
    struct request_plan *request_plan;
    const char *file;
    char *first_host;
    bool times;
    double last_end_s;   /* when the last added request ended; NAN: none */
    size_t entry_number; /* from 1 */
    char *why;
    size_t size;
    /* With --page-loads. */
    const json_t *page_list; /* log.pages */
    const char *page;        /* the reference of the current page; NULL: it has none */
    /* Of the current page: the entries of its URLs, and those that redirect to a URL. */
    json_t *seen, *redirecting;
    double *ends_s; /* when the response to each entry of the plan was complete; NAN: unknown */
};

/* An entry of the file. */
struct recorded {
    const json_t *entry;
    size_t number;
    double begun_unix_s; /* NAN: unknown */
    double order;        /* of the entries of a page */
    size_t page;         /* with --page-loads: its place in the order of the pages; else 0 */
};

enum { SKIP = 1 };

PRINTF_LIKE(2, 3) static int fail_entry(const struct har_reader *reader, const char *format, ...)
{
    va_list arguments;
    int used =
        snprintf(reader->why, reader->size, "%s: entry %zu: ", reader->file, reader->entry_number);

    va_start(arguments, format);
    if (used >= 0 && (size_t)used < reader->size)
        vsnprintf(reader->why + used, reader->size - (size_t)used, format, arguments);
    va_end(arguments);
    return -1;
}

/* The member NAME of OBJECT; NULL if it is not a string or contains NUL. */
static const char *string_member(const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);
    const char *text = json_string_value(value);

    return text != NULL && strlen(text) == json_string_length(value) ? text : NULL;
}

/* ---- Header fields ---- */

/*
 * Whether NAME is a header field that depends on the connection or that wsload sets, or a
 * pseudo-field of HTTP/2.
 */
static bool is_connection_field(const char *name)
{
    static const char *const names[] = {
        "Host",   "Content-Length",   "Transfer-Encoding",   "Connection", "Keep-Alive",
        "TE",     "Proxy-Connection", "Proxy-Authorization", "Upgrade",    "HTTP2-Settings",
        "Expect", "Trailer"};

    for (size_t i = 0; i < ARRAY_LENGTH(names); i++)
        if (strcasecmp(name, names[i]) == 0)
            return true;
    return name[0] == ':';
}

/* Returns false if out of memory. */
static bool append_recorded_field(struct curl_slist **fields, const char *name, const char *value)
{
    char *line;
    bool good;

    if (asprintf(&line, "%s: %s", name, value) < 0)
        return false;
    good = string_list_append(fields, line);
    free(line);
    return good;
}

/*
 * Appends Content-Type: TYPE unless FIELDS has that field, or TYPE is NULL, empty or invalid.
 * Returns false if out of memory.
 */
static bool append_content_type(struct curl_slist **fields, const char *type)
{
    if (type == NULL || type[0] == '\0' || !message_is_value(type))
        return true;
    for (const struct curl_slist *field = *fields; field != NULL; field = field->next)
        if (strncasecmp(field->data, "Content-Type:", strlen("Content-Type:")) == 0)
            return true;
    return append_recorded_field(fields, "Content-Type", type);
}

static int read_har_field(const struct har_reader *reader, const json_t *field,
                          struct curl_slist **list)
{
    const char *name = string_member(field, "name"), *value = string_member(field, "value");

    if (name == NULL || value == NULL)
        return fail_entry(reader, "a header needs the strings name and value");
    if (is_connection_field(name))
        return 0;
    if (!message_is_token(name) || !message_is_value(value))
        return fail_entry(reader, "invalid header field '%s'", name);
    return append_recorded_field(list, name, value) ? 0 : fail_entry(reader, "out of memory");
}

static int read_har_fields(const struct har_reader *reader, const json_t *request,
                           struct curl_slist **list)
{
    const json_t *headers = json_object_get(request, "headers"), *field;
    size_t i;

    json_array_foreach(headers, i, field) if (read_har_field(reader, field, list) != 0) return -1;
    return 0;
}

/* ---- Bodies ---- */

/*
 * A body that is recorded in another form than text cannot be sent. Returns 0, SKIP, or -1 with
 * WHY.
 */
static int read_har_body(const struct har_reader *reader, const json_t *request,
                         struct request_parts *parts, struct curl_slist **fields)
{
    const json_t *data = json_object_get(request, "postData");
    const json_t *text = json_object_get(data, "text");

    if (json_object_get(data, "encoding") != NULL)
        return SKIP;
    if (json_string_length(text) == 0)
        return json_array_size(json_object_get(data, "params")) > 0 ? SKIP : 0;
    parts->body = json_string_value(text);
    parts->body_length = json_string_length(text);
    return append_content_type(fields, string_member(data, "mimeType"))
               ? 0
               : fail_entry(reader, "out of memory");
}

/* ---- URLs ---- */

/* Returns a part of URL, to be released with curl_free(); or NULL. */
static char *url_part(CURLU *url, CURLUPart which)
{
    char *text = NULL;

    return curl_url_get(url, which, &text, 0) == CURLUE_OK ? text : NULL;
}

/* Whether the host is that of the first request, which it sets. */
static bool take_host(struct har_reader *reader, const char *host)
{
    if (reader->first_host == NULL)
        reader->first_host = strdup(host);
    return reader->first_host != NULL && strcasecmp(reader->first_host, host) == 0;
}

/* The path and query of TEXT, owned by the caller; NULL if it is not a URL of the recorded site. */
static char *read_path(struct har_reader *reader, const char *text)
{
    CURLU *url = curl_url();
    char *scheme = NULL, *host = NULL, *path = NULL, *query = NULL, *joined = NULL;

    if (url != NULL && curl_url_set(url, CURLUPART_URL, text, 0) == CURLUE_OK) {
        scheme = url_part(url, CURLUPART_SCHEME);
        host = url_part(url, CURLUPART_HOST);
        path = url_part(url, CURLUPART_PATH);
        query = url_part(url, CURLUPART_QUERY);
    }
    if (scheme != NULL && strncmp(scheme, "http", 4) == 0 && host != NULL && path != NULL &&
        take_host(reader, host) &&
        asprintf(&joined, "%s%s%s", path, query != NULL ? "?" : "", query != NULL ? query : "") < 0)
        joined = NULL;
    curl_free(scheme);
    curl_free(host);
    curl_free(path);
    curl_free(query);
    curl_url_cleanup(url);
    return joined;
}

/* ---- Entries ---- */

/* When the response was complete; NAN: unknown. */
static double recorded_end_s(const struct recorded *recorded)
{
    double time_ms = json_number_value(json_object_get(recorded->entry, "time"));

    return recorded->begun_unix_s + (time_ms > 0 ? time_ms / 1000 : 0);
}

/* The think time of the previous request ends with the begin of RECORDED. */
static int take_times(struct har_reader *reader, const struct recorded *recorded)
{
    struct request_plan *request_plan = reader->request_plan;
    double wait_s = recorded->begun_unix_s - reader->last_end_s;

    if (isnan(recorded->begun_unix_s))
        return fail_entry(reader,
                          "no valid startedDateTime, which --think recorded needs (example: "
                          "2026-11-21T06:18:30.123Z)");
    if (wait_s > 0 && request_plan->entry_count > 0)
        request_plan->entries[request_plan->entry_count - 1].think_ns =
            (uint64_t)(wait_s / request_plan->plan->replay_speed * 1e9);
    reader->last_end_s = recorded_end_s(recorded);
    return 0;
}

/* ---- Pages ---- */

/* Makes LINK, which may be relative to URL, absolute and without a fragment. NULL: it is invalid. */
static char *resolve(const char *url, const char *link)
{
    CURLU *parsed = curl_url();
    char *text = NULL, *copy = NULL;

    if (parsed != NULL && curl_url_set(parsed, CURLUPART_URL, url, 0) == CURLUE_OK &&
        curl_url_set(parsed, CURLUPART_URL, link, 0) == CURLUE_OK &&
        curl_url_set(parsed, CURLUPART_FRAGMENT, NULL, 0) == CURLUE_OK)
        text = url_part(parsed, CURLUPART_URL);
    if (text != NULL)
        copy = strdup(text);
    curl_free(text);
    curl_url_cleanup(parsed);
    return copy;
}

/* The URL that caused a request, as browsers with the engine of Chromium record it; or NULL. */
static const char *initiator_of(const json_t *entry)
{
    const json_t *initiator = json_object_get(entry, "_initiator");
    const char *url = string_member(initiator, "url");

    for (const json_t *stack = json_object_get(initiator, "stack"); url == NULL && stack != NULL;
         stack = json_object_get(stack, "parent")) {
        const json_t *frame;
        size_t i;

        json_array_foreach(json_object_get(stack, "callFrames"), i, frame)
        {
            const char *at = string_member(frame, "url");

            if (url == NULL && at != NULL && at[0] != '\0')
                url = at;
        }
    }
    return url;
}

/* Records in ENTRIES that NUMBER is the one of LINK, which may be relative to URL. */
static bool remember(json_t *entries, const char *url, const char *link, size_t number)
{
    char *absolute = resolve(url, link);
    bool good = absolute == NULL ||
                json_object_set_new(entries, absolute, json_integer((json_int_t)number)) == 0;

    free(absolute);
    return good;
}

/* The one of ENTRIES with LINK, or OTHERWISE. */
static uint32_t recall(const json_t *entries, const char *url, const char *link, uint32_t otherwise)
{
    char *absolute = link != NULL ? resolve(url, link) : NULL;
    const json_t *number = absolute != NULL ? json_object_get(entries, absolute) : NULL;

    free(absolute);
    return number != NULL ? (uint32_t)json_integer_value(number) : otherwise;
}

/* Titles of Chromium are URLs. */
static const char *page_name(const struct har_reader *reader, const char *url)
{
    const json_t *page;
    size_t i;

    json_array_foreach(reader->page_list, i, page)
    {
        const char *id = string_member(page, "id"), *title = string_member(page, "title");

        if (id != NULL && reader->page != NULL && strcmp(id, reader->page) == 0 && title != NULL &&
            title[0] != '\0')
            return title;
    }
    return url;
}

static bool begin_page(struct har_reader *reader, const char *url, size_t first)
{
    struct request_plan *plan = reader->request_plan;
    struct page *grown = realloc(plan->pages, (plan->page_count + 1) * sizeof(*grown));

    json_decref(reader->seen);
    json_decref(reader->redirecting);
    reader->seen = json_object();
    reader->redirecting = json_object();
    if (grown != NULL)
        plan->pages = grown;
    if (grown == NULL || reader->seen == NULL || reader->redirecting == NULL)
        return false;
    plan->pages[plan->page_count] =
        (struct page){.name = strdup(page_name(reader, url)), .first = first};
    return plan->pages[plan->page_count++].name != NULL;
}

/*
 * Notes what caused the last entry of the plan: the entry that redirects to it, else its initiator,
 * else the first one of the page. A recording has no position in the response, but it shows whether
 * the entry began before the response was complete. Returns false if out of memory.
 */
static bool note_cause(struct har_reader *reader, const struct recorded *recorded)
{
    struct request_plan *plan = reader->request_plan;
    const json_t *request = json_object_get(recorded->entry, "request");
    const json_t *response = json_object_get(recorded->entry, "response");
    const char *url = string_member(request, "url");
    const char *page = string_member(recorded->entry, "pageref");
    const char *target = string_member(response, "redirectURL");
    size_t number = plan->entry_count - 1;
    struct cause *grown = realloc(plan->causes, plan->entry_count * sizeof(*grown));
    double *ends_s = realloc(reader->ends_s, plan->entry_count * sizeof(*ends_s));
    bool same = page == reader->page ||
                (page != NULL && reader->page != NULL && strcmp(page, reader->page) == 0);
    struct page *current;
    uint32_t cause;

    if (grown != NULL)
        plan->causes = grown;
    if (ends_s != NULL)
        reader->ends_s = ends_s;
    if (grown == NULL || ends_s == NULL)
        return false;
    ends_s[number] = recorded_end_s(recorded);
    reader->page = page;
    if ((number == 0 || !same) && !begin_page(reader, url, number))
        return false;
    current = &plan->pages[plan->page_count - 1];
    cause = recall(reader->seen, url, initiator_of(recorded->entry), (uint32_t)current->first);
    cause = recall(reader->redirecting, url, url, cause);
    plan->causes[number] = current->count++ == 0
                               ? (struct cause){REQUEST_PLAN_NO_CAUSE, false}
                               : (struct cause){cause, recorded->begun_unix_s < ends_s[cause]};
    return remember(reader->seen, url, url, number) &&
           (target == NULL || target[0] == '\0' ||
            remember(reader->redirecting, url, target, number));
}

static int add_request(struct har_reader *reader, const struct recorded *recorded,
                       const struct request_parts *parts)
{
    const struct request_entry entry = {.file_line = (uint32_t)recorded->number};
    char why[256];
    int result;

    if (reader->times && take_times(reader, recorded) != 0)
        return -1;
    result = request_plan_add(reader->request_plan, parts, entry, why, sizeof(why));
    if (result == 0 && reader->request_plan->plan->page_loads && !note_cause(reader, recorded))
        return fail_entry(reader, "out of memory");
    return result < 0 ? fail_entry(reader, "%s", why) : result;
}

/* Returns 0, SKIP, or -1 with WHY. */
static int read_request(struct har_reader *reader, const struct recorded *recorded)
{
    const json_t *request = json_object_get(recorded->entry, "request");
    struct request_parts parts = {.method = string_member(request, "method")};
    const char *url = string_member(request, "url");
    struct curl_slist *fields = NULL;
    char *path;
    int result;

    if (parts.method == NULL || !message_is_token(parts.method))
        return fail_entry(reader, "no valid request.method (example: GET)");
    if (url == NULL)
        return fail_entry(reader, "no request.url (example: https://example.org/)");
    path = read_path(reader, url);
    parts.path = path;
    result = path == NULL || strcmp(parts.method, "CONNECT") == 0
                 ? SKIP
                 : read_har_fields(reader, request, &fields);
    if (result == 0)
        result = read_har_body(reader, request, &parts, &fields);
    parts.fields = fields;
    if (result == 0)
        result = add_request(reader, recorded, &parts);
    curl_slist_free_all(fields);
    free(path);
    return result;
}

static int compare_recorded(const void *one, const void *other)
{
    const struct recorded *a = one, *b = other;

    if (a->page != b->page)
        return a->page < b->page ? -1 : 1;
    if (a->order != b->order)
        return a->order < b->order ? -1 : 1;
    return a->number < b->number ? -1 : a->number > b->number;
}

/* Lists the entries in the order of their times, if all have one; else in that of the file. */
static struct recorded *sort_entries(const json_t *entries)
{
    struct recorded *list = calloc(json_array_size(entries) + 1, sizeof(*list));
    const json_t *entry;
    bool timed = true;
    size_t i;

    if (list == NULL)
        return NULL;
    json_array_foreach(entries, i, entry)
    {
        const char *begun = string_member(entry, "startedDateTime");

        list[i] = (struct recorded){
            .entry = entry,
            .number = i + 1,
            .begun_unix_s = begun != NULL ? timestamp_read_iso(begun) : NAN,
        };
        list[i].order = list[i].begun_unix_s;
        timed = timed && !isnan(list[i].begun_unix_s);
    }
    if (timed)
        qsort(list, i, sizeof(*list), compare_recorded);
    return list;
}

/* Brings the entries of each page together: pages are in the order of their first entries. */
static bool group_pages(struct recorded *list, size_t count)
{
    json_t *pages = json_object();

    for (size_t i = 0; pages != NULL && i < count; i++) {
        const char *page = string_member(list[i].entry, "pageref");
        const json_t *number;

        page = page != NULL ? page : "";
        number = json_object_get(pages, page);
        list[i].page =
            number != NULL ? (size_t)json_integer_value(number) : json_object_size(pages);
        if (number == NULL)
            json_object_set_new(pages, page, json_integer((json_int_t)list[i].page));
        list[i].order = (double)i; /* the order so far */
    }
    json_decref(pages);
    qsort(list, count, sizeof(*list), compare_recorded);
    return pages != NULL;
}

static int read_entries(struct har_reader *reader, const json_t *entries)
{
    struct recorded *list = sort_entries(entries);
    int result = 0;

    if (list == NULL ||
        (reader->request_plan->plan->page_loads && !group_pages(list, json_array_size(entries)))) {
        free(list);
        return fail_entry(reader, "out of memory");
    }
    for (size_t i = 0; result == 0 && i < json_array_size(entries); i++) {
        reader->entry_number = list[i].number;
        result = read_request(reader, &list[i]);
        if (result == SKIP) {
            reader->request_plan->skipped++;
            result = 0;
        }
    }
    free(list);
    return result;
}

/* ---- The file ---- */

static int read_log(struct har_reader *reader, const json_t *recording)
{
    const json_t *log = json_object_get(recording, "log");
    const json_t *entries = json_object_get(log, "entries"), *version;

    if (!json_is_array(entries)) {
        snprintf(reader->why, reader->size, "%s: not a HAR recording: no array log.entries",
                 reader->file);
        return -1;
    }
    reader->page_list = json_object_get(log, "pages");
    version = json_object_get(log, "version");
    if (version != NULL && (!json_is_string(version) ||
                            strncmp(json_string_value(version), "1.", strlen("1.")) != 0)) {
        snprintf(reader->why, reader->size, "%s: unknown version of HAR (1.1, 1.2)", reader->file);
        return -1;
    }
    return read_entries(reader, entries);
}

static json_t *load_recording(const char *file, char *why, size_t size)
{
    FILE *in = fopen(file, "re");
    char mark[3];
    json_error_t error;
    json_t *recording;

    if (in == NULL) {
        snprintf(why, size, "cannot read '%s': %s", file, strerror(errno));
        return NULL;
    }
    if (fread(mark, 1, sizeof(mark), in) != sizeof(mark) || memcmp(mark, "\xef\xbb\xbf", 3) != 0)
        rewind(in); /* no byte order mark */
    recording = json_loadf(in, JSON_ALLOW_NUL, &error);
    fclose(in);
    if (recording == NULL)
        snprintf(why, size, "%s:%d: not a HAR recording: %s", file, error.line, error.text);
    return recording;
}

int har_file_read(struct request_plan *request_plan, const char *file, bool times, char *why,
                  size_t size)
{
    struct har_reader reader = {.request_plan = request_plan,
                                .file = file,
                                .times = times,
                                .last_end_s = NAN,
                                .why = why,
                                .size = size};
    json_t *recording = load_recording(file, why, size);
    int result = recording != NULL ? read_log(&reader, recording) : -1;

    json_decref(recording);
    json_decref(reader.seen);
    json_decref(reader.redirecting);
    free(reader.ends_s);
    free(reader.first_host);
    return result;
}
