// W3C Trace Context: the header `traceparent`, with which a caller says which trace its work belongs to
// (https://www.w3.org/TR/trace-context/). `tracestate` is not kept.

export interface TraceContext {
  /** 32 hexadecimal digits. */
  readonly traceId: string;
  /** 16 hexadecimal digits. */
  readonly spanId: string;
  /** The caller records the trace, so its parts are to be recorded, too. */
  readonly sampled: boolean;
}

const FORM = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;
const ZEROS = /^0+$/;

/** The trace context of a header. Undefined: it has none that is valid, and counts as absent. */
export function parseTraceparent(text: string | undefined): TraceContext | undefined {
  const [, version, traceId = "", spanId = "", flags = "", more] = FORM.exec(text ?? "") ?? [];
  if (version === undefined || version === "ff" || ZEROS.test(traceId) || ZEROS.test(spanId)) return undefined;
  // Later versions may have further members; this one has none.
  if (version === "00" && more !== undefined) return undefined;
  return { traceId, spanId, sampled: (Number.parseInt(flags, 16) & 1) === 1 };
}

export function traceparentOf({ traceId, spanId, sampled }: TraceContext): string {
  return `00-${traceId}-${spanId}-${sampled ? "01" : "00"}`;
}
