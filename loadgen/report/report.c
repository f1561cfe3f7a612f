#include "loadgen/report/report.h"

#include "loadgen/report/checks.h"
#include "loadgen/report/csv.h"
#include "loadgen/report/hdr.h"
#include "loadgen/report/html.h"
#include "loadgen/report/json.h"
#include "loadgen/report/result_document.h"
#include "loadgen/report/text.h"

#include <errno.h>

int report_write_document(FILE *out, struct document *document, enum plan_format format,
                          bool colour)
{
    int result, error;

    if (document == NULL)
        return -1;
    if (format == PLAN_FORMAT_HTML)
        result = document_write_html(out, document);
    else
        result = document_write_text(out, document, colour);
    error = errno;
    document_free(document);
    errno = error;
    return result;
}

int report_write(FILE *out, const struct result *result, bool colour)
{
    enum plan_format format = result->plan->format;

    if (format == PLAN_FORMAT_JSON)
        return result_write_json(out, result);
    if (format == PLAN_FORMAT_CSV)
        return result_write_csv(out, result);
    if (format == PLAN_FORMAT_HDR)
        return result_write_hdr(out, result);
    if (format == PLAN_FORMAT_JUNIT)
        return result_write_junit(out, result);
    return report_write_document(out, result_document(result), format, colour);
}
