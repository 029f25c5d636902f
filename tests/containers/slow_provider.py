"""A provider in OpenAI's format whose answer takes seconds: ten words, a third of a second apart."""

from __future__ import annotations

import http.server
import json
import sys
import time

WORDS = [f"word{number} " for number in range(10)]
PAUSE = 0.3


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("content-length") or 0))
        if self.headers.get("transfer-encoding") == "chunked":
            while size := int(self.rfile.readline(), 16):
                self.rfile.read(size + 2)
            self.rfile.readline()
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for word in WORDS:
            self._event({"choices": [{"index": 0, "delta": {"content": word}}]})
            time.sleep(PAUSE)
        self._event({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
        self._chunk(b"data: [DONE]\n\n")
        self._chunk(b"")

    def _event(self, data: dict[str, object]) -> None:
        self._chunk(b"data: " + json.dumps({"id": "1", "object": "chat.completion.chunk", **data}).encode() + b"\n\n")

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()


if __name__ == "__main__":
    http.server.ThreadingHTTPServer(("0.0.0.0", int(sys.argv[1])), Handler).serve_forever()
