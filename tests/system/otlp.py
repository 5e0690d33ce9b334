"""A collector: takes OTLP over HTTP as JSON and reads it with OpenTelemetry's own messages, so that what is sent is what
they define. It can be told to hang, or to answer with an error."""

import base64
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from google.protobuf import json_format
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

REQUESTS = {"/v1/traces": ExportTraceServiceRequest, "/v1/metrics": ExportMetricsServiceRequest, "/v1/logs": ExportLogsServiceRequest}
HEX = ("traceId", "spanId", "parentSpanId")  # OTLP has them in hex, unlike protobuf's own JSON


def from_hex(value):
    if isinstance(value, list):
        return [from_hex(each) for each in value]
    if isinstance(value, dict):
        return {
            name: base64.b64encode(bytes.fromhex(each)).decode() if name in HEX and isinstance(each, str) else from_hex(each)
            for name, each in value.items()
        }
    return value


def plain(attributes):
    """Attributes as a dictionary."""
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in attributes}


class Span:
    def __init__(self, span, resource):
        self.name, self.kind, self.state = span.name, span.kind, span.trace_state
        self.trace, self.id, self.parent = span.trace_id.hex(), span.span_id.hex(), span.parent_span_id.hex()
        self.begun, self.ended = span.start_time_unix_nano, span.end_time_unix_nano
        self.attributes, self.resource = plain(span.attributes), resource
        self.failed = span.status.code == 2


class Collector:
    def __init__(self):
        self.spans, self.logs, self.metrics = [], [], []  # logs and metrics: (resource, message)
        self.headers, self.posts, self.faults = [], 0, []
        self.status, self.hangs = 200, threading.Event()
        self.hangs.set()  # clear: it hangs
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                collector.posts += 1
                body = self.rfile.read(int(self.headers["content-length"]))
                if not collector.hangs.wait(60):
                    return
                if collector.status == 200:
                    collector.headers.append(dict(self.headers))
                    try:
                        collector.take(self.path, body)
                    except Exception as error:  # noqa: BLE001: a test looks at it
                        collector.faults.append(f"{self.path}: {error}")
                self.send_response(collector.status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *args):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def take(self, path, body):
        request = json_format.ParseDict(from_hex(json.loads(body)), REQUESTS[path]())
        for group in getattr(request, "resource_spans", []):
            self.spans += [Span(span, plain(group.resource.attributes)) for scope in group.scope_spans for span in scope.spans]
        for group in getattr(request, "resource_metrics", []):
            self.metrics += [(plain(group.resource.attributes), each) for scope in group.scope_metrics for each in scope.metrics]
        for group in getattr(request, "resource_logs", []):
            self.logs += [(plain(group.resource.attributes), each) for scope in group.scope_logs for each in scope.log_records]

    def of_trace(self, trace):
        return [span for span in self.spans if span.trace == trace]

    def close(self):
        self.hangs.set()
        self.server.shutdown()
        self.server.server_close()
