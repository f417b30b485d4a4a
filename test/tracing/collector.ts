// A collector of OpenTelemetry: it takes spans over OTLP/HTTP as protobuf, as opentelemetry-proto describes them, and keeps them.
import { createServer, type IncomingMessage, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { gunzipSync } from "node:zlib";
import protobuf from "protobufjs";

/** The part of opentelemetry-proto that spans are read with: its numbers and types. */
const { root } = protobuf.parse(
  `
syntax = "proto3";
message Request { repeated ResourceSpans resource_spans = 1; }
message ResourceSpans { Resource resource = 1; repeated ScopeSpans scope_spans = 2; }
message Resource { repeated KeyValue attributes = 1; }
message ScopeSpans { Scope scope = 1; repeated Span spans = 2; }
message Scope { string name = 1; }
message Span {
  bytes trace_id = 1;
  bytes span_id = 2;
  bytes parent_span_id = 4;
  string name = 5;
  int32 kind = 6;
  fixed64 start_time_unix_nano = 7;
  fixed64 end_time_unix_nano = 8;
  repeated KeyValue attributes = 9;
  repeated Event events = 11;
  repeated Link links = 13;
  Status status = 15;
}
message Event { string name = 2; repeated KeyValue attributes = 3; }
message Link { bytes trace_id = 1; bytes span_id = 2; }
message Status { string message = 2; int32 code = 3; }
message KeyValue { string key = 1; Value value = 2; }
message Value { oneof value { string string_value = 1; bool bool_value = 2; int64 int_value = 3; double double_value = 4; } }
`,
  { keepCase: true },
);
const REQUEST = root.lookupType("Request");

export interface Received {
  readonly name: string;
  /** As OTLP numbers them: 1 internal, 2 server, 3 client, 4 producer, 5 consumer. */
  readonly kind: number;
  readonly trace: string;
  readonly span: string;
  /** Empty: it is a root. */
  readonly parent: string;
  /** Epoch milliseconds. */
  readonly from: number;
  readonly to: number;
  /** 2: an error. */
  readonly status: number;
  readonly attributes: Readonly<Record<string, unknown>>;
  readonly links: readonly string[];
  /** Of the process that made it. */
  readonly resource: Readonly<Record<string, unknown>>;
}

export class Collector {
  readonly spans: Received[] = [];
  /** Headers of the requests. */
  readonly headers: IncomingMessage["headers"][] = [];
  /** All bytes that have arrived, unpacked. */
  readonly bodies: Buffer[] = [];
  /** The status that it answers with. */
  status = 200;
  /** Its answer, an ExportTraceServiceResponse. Empty: it has taken all. */
  answer = Buffer.alloc(0);
  private readonly server: Server;

  private constructor() {
    this.server = createServer(async (request, response) => {
      const chunks: Buffer[] = [];
      for await (const chunk of request) chunks.push(chunk as Buffer);
      const body = Buffer.concat(chunks);
      const unpacked = request.headers["content-encoding"] === "gzip" ? gunzipSync(body) : body;
      this.headers.push(request.headers);
      if (this.status === 200 && request.url === "/v1/traces") this.take(unpacked);
      response.writeHead(this.status, { "content-type": "application/x-protobuf" }).end(this.answer);
    });
  }

  static async open(): Promise<Collector> {
    const collector = new Collector();
    await new Promise<void>((resolve) => collector.server.listen(0, "127.0.0.1", resolve));
    return collector;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}`;
  }

  /** The spans with this name, in the order of their begins. */
  named(name: string): Received[] {
    return this.spans.filter((span) => span.name === name).sort((left, right) => left.from - right.from);
  }

  async close(): Promise<void> {
    this.server.closeAllConnections();
    await new Promise((resolve) => this.server.close(resolve));
  }

  private take(body: Buffer): void {
    this.bodies.push(body);
    const { resource_spans: all = [] } = REQUEST.toObject(REQUEST.decode(body), { longs: Number }) as Request;
    for (const { resource, scope_spans: scopes = [] } of all)
      for (const { spans = [] } of scopes)
        for (const span of spans) this.spans.push(received(span, recordOf(resource?.attributes)));
  }
}

interface KeyValue {
  readonly key: string;
  readonly value?: Readonly<Record<string, unknown>>;
}

interface Ids {
  readonly trace_id: Buffer;
  readonly span_id: Buffer;
}

interface Span extends Ids {
  readonly parent_span_id?: Buffer;
  readonly name: string;
  readonly kind: number;
  readonly start_time_unix_nano: number;
  readonly end_time_unix_nano: number;
  readonly attributes?: readonly KeyValue[];
  readonly links?: readonly Ids[];
  readonly status?: { readonly code?: number };
}

interface Request {
  readonly resource_spans?: readonly {
    readonly resource?: { readonly attributes?: readonly KeyValue[] };
    readonly scope_spans?: readonly { readonly spans?: readonly Span[] }[];
  }[];
}

const hex = (bytes: Uint8Array | undefined) => Buffer.from(bytes ?? []).toString("hex");
const recordOf = (pairs: readonly KeyValue[] = []) =>
  Object.fromEntries(pairs.map(({ key, value }) => [key, Object.values(value ?? {})[0]]));

function received(span: Span, resource: Received["resource"]): Received {
  return {
    ...{ name: span.name, kind: span.kind, resource },
    ...{ trace: hex(span.trace_id), span: hex(span.span_id), parent: hex(span.parent_span_id) },
    ...{ from: span.start_time_unix_nano / 1e6, to: span.end_time_unix_nano / 1e6 },
    status: span.status?.code ?? 0,
    attributes: recordOf(span.attributes),
    links: (span.links ?? []).map((link) => `${hex(link.trace_id)}-${hex(link.span_id)}`),
  };
}

/** A span as a link names it. */
export const asLink = ({ trace, span }: Pick<Received, "trace" | "span">): string => `${trace}-${span}`;
