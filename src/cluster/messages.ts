// The messages between the primary and its nodes over the channel of node:cluster. They carry no run data and no secrets, and
// every wait for an answer has a deadline. The bus uses the same channel; its frames have no `type`.
// During a rolling restart the primary is older than its nodes: members may be added, never changed.
import type { Families, MetricsPage, PageFormat } from "../metrics/page.js";

export type NodeMetrics = Families;

export type ToPrimary =
  /** Sent once: the node serves on these ports. */
  | { readonly type: "ready"; readonly nodeId: string; readonly http: number; readonly grpc: number }
  /** Every second: the event loop of the node turns. */
  | { readonly type: "pulse" }
  /** A client asked this node for the metrics of all nodes, as text if no format is said. */
  | { readonly type: "page.ask"; readonly id: number; readonly format?: PageFormat }
  | { readonly type: "metrics"; readonly id: number; readonly metrics: NodeMetrics };

export type ToNode =
  | { readonly type: "stop" }
  /** A node died while it decided on this: a run id, or the key of a start. */
  | { readonly type: "suspect"; readonly key: string }
  /** The files of the certificate have changed: the node reads them again. */
  | { readonly type: "certificate" }
  | { readonly type: "metrics.ask"; readonly id: number }
  /** Without `page`: the page could not be made. */
  | { readonly type: "page"; readonly id: number; readonly page?: MetricsPage };

/** Anything else on the channel is ignored. */
export function isMessage(value: unknown): value is { readonly type: string } {
  return typeof value === "object" && value !== null && typeof (value as { type?: unknown }).type === "string";
}

/** The open file in which a node says its last words, and the argument that tells it of the file. */
export const LAST_WORDS = { file: 4, argument: "--last-words" } as const;
