#include "loadgen/plan/target.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

static int fail_url(const char *url, const char *reason, char *why, size_t size)
{
    snprintf(why, size, "invalid URL '%s': %s", url, reason);
    return -1;
}

/* A part of the URL, or NULL. Release with curl_free(). */
static char *parsed_part(const struct target *target, CURLUPart which, unsigned flags)
{
    char *text = NULL;

    if (curl_url_get(target->url, which, &text, flags) != CURLUE_OK)
        return NULL;
    return text;
}

static bool has_web_scheme(struct target *target)
{
    char *scheme = parsed_part(target, CURLUPART_SCHEME, 0);
    bool good = scheme != NULL && (strcmp(scheme, "http") == 0 || strcmp(scheme, "https") == 0);

    target->tls = good && strcmp(scheme, "https") == 0;
    curl_free(scheme);
    return good;
}

/* Rejected, because credentials in the URL would appear in every report. */
static bool has_credentials(const struct target *target)
{
    char *name = parsed_part(target, CURLUPART_USER, 0),
         *password = parsed_part(target, CURLUPART_PASSWORD, 0);
    bool has = name != NULL || password != NULL;

    curl_free(name);
    curl_free(password);
    return has;
}

/* libcurl keeps the brackets around an IPv6 address; getaddrinfo() wants none. */
static char *host_without_brackets(const struct target *target)
{
    char *host = parsed_part(target, CURLUPART_HOST, 0);
    size_t length = host != NULL ? strlen(host) : 0;

    if (length > 2 && host[0] == '[' && host[length - 1] == ']') {
        memmove(host, host + 1, length - 2);
        host[length - 2] = '\0';
    }
    return host;
}

/*
 * DNS, Host and :authority have names of other characters than ASCII as A-labels (RFC 5890 section
 * 2.3.2.1). libcurl sends them so, but shows the URL as it was given. It takes the characters for
 * those of the locale. Returns false if there is no A-label.
 */
static bool encode_host(const struct target *target)
{
    char *given = parsed_part(target, CURLUPART_HOST, 0), *encoded = NULL;
    bool good = given == NULL || /* which is reported later */
                curl_url_get(target->url, CURLUPART_HOST, &encoded, CURLU_PUNYCODE) == CURLUE_OK;

    if (encoded != NULL && strcmp(given, encoded) != 0)
        good = curl_url_set(target->url, CURLUPART_HOST, encoded, 0) == CURLUE_OK;
    curl_free(given);
    curl_free(encoded);
    return good;
}

/*
 * A copy of URL with the bytes of other characters than ASCII in path and query percent-encoded
 * (RFC 3986 section 2.5); NULL: out of memory. IS_PATH: a relative URL.
 */
static char *encode_characters(const char *url, bool is_path)
{
    const char *scheme = strstr(url, "://"), *from = scheme != NULL ? scheme + 3 : url;
    char *encoded = malloc(3 * strlen(url) + 1), *to = encoded;

    if (encoded == NULL)
        return NULL;
    if (!is_path || scheme != NULL)
        from += strcspn(from, "/?#");
    for (const char *at = url; *at != '\0'; at++)
        if (at >= from && (unsigned char)*at >= 0x80)
            to += sprintf(to, "%%%02X", (unsigned char)*at);
        else
            *to++ = *at;
    *to = '\0';
    return encoded;
}

int target_parse(struct target *target, const struct target *base, const char *url, char *why,
                 size_t size)
{
    CURLUcode code = CURLUE_OUT_OF_MEMORY;
    char *port, *encoded;

    *target = (struct target){.url = base != NULL ? curl_url_dup(base->url) : curl_url()};
    if (target->url == NULL)
        return fail_url(url, "out of memory", why, size);
    if (url[0] != '\0' &&
        strspn(url, "0123456789") == strlen(url)) /* libcurl would parse it as an IPv4 address */
        return fail_url(url, "a port needs a host: http://127.0.0.1:PORT/", why, size);
    encoded = encode_characters(url, base != NULL);
    if (encoded != NULL)
        code = curl_url_set(target->url, CURLUPART_URL, encoded, CURLU_GUESS_SCHEME);
    free(encoded);
    if (code == CURLUE_UNSUPPORTED_SCHEME || (code == CURLUE_OK && !has_web_scheme(target)))
        return fail_url(url, "only http:// and https:// are supported", why, size);
    if (code != CURLUE_OK)
        return fail_url(url, curl_url_strerror(code), why, size);
    if (!encode_host(target))
        return fail_url(url, "the host name is not valid in this locale (try LC_ALL=C.UTF-8)", why,
                        size);
    if (has_credentials(target))
        return fail_url(url, "use -u NAME:PASS for credentials", why, size);
    curl_url_set(target->url, CURLUPART_FRAGMENT, NULL, 0);
    target->text = parsed_part(target, CURLUPART_URL, 0);
    target->host = host_without_brackets(target);
    port = parsed_part(target, CURLUPART_PORT, CURLU_DEFAULT_PORT);
    if (target->text == NULL || target->host == NULL || port == NULL) {
        curl_free(port);
        return fail_url(url, "no host", why, size);
    }
    target->port = (uint16_t)strtoul(port, NULL, 10);
    curl_free(port);
    return 0;
}

/* As a relative URL, "//a/b" would be path "/b" on host a. */
int target_parse_path(struct target *target, const struct target *base, const char *path, char *why,
                      size_t size)
{
    size_t origin_length = strcspn(base->text, ":") + strlen("://");
    char *url;
    int result;

    *target = (struct target){0};
    if (path[0] != '/')
        return fail_url(path, "a path begins with /", why, size);
    origin_length += strcspn(base->text + origin_length, "/?");
    if (asprintf(&url, "%.*s%s", (int)origin_length, base->text, path) < 0)
        return fail_url(path, "out of memory", why, size);
    result = target_parse(target, NULL, url, why, size);
    free(url);
    return result;
}

bool target_same_origin(const struct target *one, const struct target *other)
{
    return one->port == other->port && one->tls == other->tls &&
           strcasecmp(one->host, other->host) == 0;
}

static bool is_address(const char *host, int family)
{
    struct in6_addr address;

    return (family != AF_INET6 && inet_pton(AF_INET, host, &address) == 1) ||
           (family != AF_INET && inet_pton(AF_INET6, host, &address) == 1);
}

/* "HOST:PORT:ADDRESS,[ADDRESS]…", for CURLOPT_RESOLVE. */
static char *format_addresses(const struct target *target, const struct addrinfo *found)
{
    char *text = NULL, address[INET6_ADDRSTRLEN];
    size_t size;
    FILE *out = open_memstream(&text, &size);
    const char *separator = "";

    if (out == NULL)
        return NULL;
    fprintf(out, "%s:%u:", target->host, target->port);
    for (; found != NULL; found = found->ai_next) {
        if (getnameinfo(found->ai_addr, found->ai_addrlen, address, sizeof(address), NULL, 0,
                        NI_NUMERICHOST) != 0)
            continue;
        fprintf(out, found->ai_family == AF_INET6 ? "%s[%s]" : "%s%s", separator, address);
        separator = ",";
    }
    fclose(out);
    return text;
}

int target_resolve(struct target *target, int family, char *why, size_t size)
{
    struct addrinfo hints = {.ai_family = family, .ai_socktype = SOCK_STREAM}, *found;
    char *list;
    int error;

    if (is_address(target->host, family))
        return 0;
    error = getaddrinfo(target->host, NULL, &hints, &found);
    if (error != 0) {
        snprintf(why, size, "cannot resolve host '%s': %s", target->host, gai_strerror(error));
        return -1;
    }
    list = format_addresses(target, found);
    freeaddrinfo(found);
    if (list != NULL)
        target->addresses = curl_slist_append(NULL, list);
    free(list);
    if (target->addresses == NULL) {
        snprintf(why, size, "out of memory");
        return -1;
    }
    return 0;
}

void target_free(struct target *target)
{
    curl_slist_free_all(target->addresses);
    curl_free(target->host);
    curl_free(target->text);
    curl_url_cleanup(target->url);
    *target = (struct target){0};
}
