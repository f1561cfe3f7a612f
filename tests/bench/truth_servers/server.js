// A server of Node.js that counts its answers: HTTP/1 on PORT, HTTP/2 on HTTP2_PORT, HTTP/2 or HTTP/1
// over TLS on TLS_PORT.
//
//     node server.js MODE PORT HTTP2_PORT TLS_PORT CERTIFICATE KEY LOG
//
// MODE: plain; limit: 20 requests per connection (HTTP/1: Connection: close; HTTP/2: GOAWAY); idle:
// connections are closed after they were idle for 50 ms; reset: each 50th request is reset.
'use strict';
const fs = require('fs'), http = require('http'), http2 = require('http2');
const [mode, port, http2Port, tlsPort, certificate, key, log] = process.argv.slice(2);
const LIMIT = 20, EVERY_RESET = 50, IDLE_MS = 50;
const file = fs.openSync(log, 'a');
let counted = 0;

function note(text) {
  fs.writeSync(file, text + '\n');
}

function answer(request, response) {
  counted++;
  if (mode === 'reset' && counted % EVERY_RESET === 0) {
    note('reset');
    if (request.httpVersionMajor === 1) request.socket.resetAndDestroy();
    else response.stream.close(http2.constants.NGHTTP2_INTERNAL_ERROR);
    return;
  }
  note('200');
  response.setHeader('Content-Type', 'text/plain');
  response.end('answer\n');
}

const plain = http.createServer(answer);
const prior = http2.createServer(answer);
const secure = http2.createSecureServer(
  {cert: fs.readFileSync(certificate), key: fs.readFileSync(key), allowHTTP1: true}, answer);
if (mode === 'limit') {
  plain.maxRequestsPerSocket = LIMIT;
  for (const server of [prior, secure])
    server.on('session', (session) => {
      let streams = 0;
      session.on('stream', () => {
        if (++streams === LIMIT) session.close();
      });
    });
}
if (mode === 'idle') {
  plain.keepAliveTimeout = IDLE_MS;
  plain.keepAliveTimeoutBuffer = 0;
  for (const server of [prior, secure]) server.on('session', (session) => session.setTimeout(IDLE_MS, () => session.close()));
}
plain.listen(port, '127.0.0.1');
prior.listen(http2Port, '127.0.0.1');
secure.listen(tlsPort, '127.0.0.1');
