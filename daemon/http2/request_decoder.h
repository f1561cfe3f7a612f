/*
 * Decodes a header block to a request: HPACK by nghttp2, then the rules of RFC 9113 sections 8.2
 * and 8.3. The fields become field lines, as all modules above the protocols expect them.
 * request_decoder.c lists what it rejects. Any thread, with its own inflater.
 */
#ifndef DAEMON_HTTP2_REQUEST_DECODER_H
#define DAEMON_HTTP2_REQUEST_DECODER_H

#include "daemon/http/request.h"

#include <nghttp2/nghttp2.h>

/*
 * Bytes that a decoded block needs within limits of HEADER_BYTES: the fields and the request
 * line.
 */
#define DECODED_BYTES_MAX(header_bytes) (2 * (header_bytes) + 256)

struct decoder_limits {
    size_t line_bytes;   /* method and target */
    size_t header_bytes; /* limits all fields, each counted with 32 bytes more (section 6.5.2) */
    size_t field_count;
};

enum decoded {
    DECODED_REQUEST,   /* well-formed; its status is 0, or what to reject it with */
    DECODED_MALFORMED, /* a stream error PROTOCOL_ERROR */
    DECODED_FAILED,    /* a connection error COMPRESSION_ERROR */
};

struct decoded_request {
    struct request request; /* spans into the space */
    int status;
    bool has_content_length;
    struct span priority; /* length 0: no such field */
};

/*
 * Decodes BLOCK to SPACE, which has DECODED_BYTES_MAX bytes. ENDS_STREAM: the request has no body.
 * request.line is the last that is decoded to SPACE; it is empty if the limits made it drop the
 * method or the path.
 */
enum decoded request_decode(nghttp2_hd_inflater *inflater, struct span block, bool ends_stream,
                            const struct decoder_limits *limits, char *space,
                            struct decoded_request *decoded);

/*
 * Decodes the BLOCK of trailers or of a request that is not served. Trailers are malformed if they
 * contain what they must not (section 8.1).
 */
enum decoded request_decode_trailers(nghttp2_hd_inflater *inflater, struct span block);

#endif
