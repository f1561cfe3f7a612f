#!/usr/bin/env python3
"""Python's http.server on the console: wsboard.h as a shared library, called by ctypes.

    cc -shared -fPIC -DWSBOARD_IMPLEMENTATION -x c -I../../include -o libwsboard.so ../../include/wsboard.h -pthread
    python3 board.py PORT DIRECTORY [NAME]
"""
import ctypes
import functools
import http.server
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
board = ctypes.CDLL(os.environ.get("WSBOARD_LIBRARY", os.path.join(HERE, "libwsboard.so")))
board.board_end.argtypes = [ctypes.c_int, ctypes.c_uint64]
board.board_begin.argtypes = [ctypes.c_char_p, ctypes.c_size_t]


class Handler(http.server.SimpleHTTPRequestHandler):
    def parse_request(self):
        line = self.raw_requestline
        board.board_begin(line, len(line))
        return super().parse_request()

    def log_request(self, code="-", size="-"):
        board.board_end(int(code), 0)

    def setup(self):
        board.board_connection(1)
        super().setup()

    def finish(self):
        super().finish()
        board.board_connection(-1)


def main():
    port, directory = int(sys.argv[1]), sys.argv[2]
    name = sys.argv[3] if len(sys.argv) > 3 else "python"
    if board.board_open(name.encode(), port) != 0:
        print("board.py: no board", file=sys.stderr)
    handler = functools.partial(Handler, directory=directory)
    http.server.ThreadingHTTPServer(("127.0.0.1", port), handler).serve_forever()


if __name__ == "__main__":
    main()
