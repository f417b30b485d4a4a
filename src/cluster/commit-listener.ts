// What a node tells its own parts after each commit: the feed of events, and the metrics of workflows.
import type { CommitListener } from "../run/ports.js";
import { WorkflowMetrics } from "../run/workflow-metrics.js";
import type { Foundations } from "./foundations.js";

export function commitListener({ feed, metrics, log }: Foundations): CommitListener {
  const workflowMetrics = new WorkflowMetrics(metrics, log);
  return (runId, events, after) => {
    feed.onCommit(runId, events, after);
    workflowMetrics.onCommit(runId, events);
  };
}
