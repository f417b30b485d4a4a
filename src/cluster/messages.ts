// What the primary and its nodes say to each other over the channel of node:cluster: no run data, no secrets, and whoever waits
// for an answer has a deadline. The frames of src/bus use the same channel, and are not known here (they have no `type`).
import type { MetricObjectWithValues, MetricValue } from "prom-client";

export type NodeMetrics = readonly MetricObjectWithValues<MetricValue<string>>[];

export interface MetricsPage {
  readonly contentType: string;
  readonly text: string;
}

export type ToPrimary =
  /** Once: it serves on these ports. */
  | { readonly type: "ready"; readonly nodeId: string; readonly http: number; readonly grpc: number }
  /** Each second: its event loop turns. */
  | { readonly type: "pulse" }
  /** Somebody asks this node for the metrics of all. */
  | { readonly type: "page.ask"; readonly id: number }
  | { readonly type: "metrics"; readonly id: number; readonly metrics: NodeMetrics };

export type ToNode =
  | { readonly type: "stop" }
  | { readonly type: "metrics.ask"; readonly id: number }
  /** Without a page: it could not be made. */
  | { readonly type: "page"; readonly id: number; readonly page?: MetricsPage };

/** Others use the channel, too: what is not ours is passed over. */
export function isMessage(value: unknown): value is { readonly type: string } {
  return typeof value === "object" && value !== null && typeof (value as { type?: unknown }).type === "string";
}
