/* HTTP dates. A parsed date, written and parsed again, is the same date. The first 8 bytes are also
 * used as a time to write. */
#include "daemon/http/date.h"
#include "tests/fuzz/fuzz.h"

#include <string.h>

static const int64_t now = INT64_C(1767225600); /* 2026-01-01 */

static void check_written(int64_t seconds)
{
    char text[HTTP_DATE_BYTES];
    int64_t again;

    http_date_write(seconds, text);
    MUST(http_date_read((struct span){text, sizeof(text)}, now, &again) == 0);
    MUST(again == seconds || seconds < INT64_C(-62167219200) || seconds > INT64_C(253402300799));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int64_t seconds;

    if (http_date_read((struct span){(const char *)data, size}, now, &seconds) == 0)
        check_written(seconds);
    if (size < sizeof(seconds))
        return 0;
    memcpy(&seconds, data, sizeof(seconds));
    check_written(seconds);
    return 0;
}
