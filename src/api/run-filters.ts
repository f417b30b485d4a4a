// The filters of runs: the query parameters that choose runs, for the list, its counts and bulk jobs, and what they mean to the store.
import type { Static } from "typebox";
import * as Type from "typebox";
import { PAUSED_REASONS, RUN_STATES } from "../../machines/index.js";
import type { RunFilter } from "../store/lists/matching-runs.js";
import { EachNamed, Flag, Id, ListOf, query, RunIdText, Text, Time, Uuid, Version } from "./http/parameters.js";

export const MAX_LABEL = 256;

export const RUN_FILTERS = {
  workflow_id: Id,
  version: Version,
  state: ListOf(...RUN_STATES),
  tenant_id: Uuid,
  trigger_id: Uuid,
  parent_run_id: RunIdText,
  root_only: Flag,
  business_key: Text({ max: 256 }),
  requires_manual_review: Flag,
  awaited_signal: Text({ max: 256 }),
  current_step: Id,
  paused_reason: ListOf(...PAUSED_REASONS),
  incident: Flag,
  incident_in: Type.Array(Uuid),
  error_code: Text({ max: 256 }),
  bulk_id: Uuid,
  forked_from: RunIdText,
  started_after: Time,
  started_before: Time,
  "label.{name}": EachNamed(Text({ max: MAX_LABEL })),
  q: Text({ min: 0, max: 256 }),
};
const filters = query(RUN_FILTERS);

export function filterOf(query: Static<typeof filters>): RunFilter {
  return {
    workflowId: query.workflow_id,
    version: query.version,
    states: query.state,
    tenantId: query.tenant_id,
    triggerId: query.trigger_id,
    parentRunId: query.parent_run_id,
    rootOnly: query.root_only,
    businessKey: query.business_key,
    requiresManualReview: query.requires_manual_review,
    awaitedSignal: query.awaited_signal,
    currentStep: query.current_step,
    pausedReasons: query.paused_reason,
    incident: query.incident,
    incidentIn: query.incident_in,
    errorCode: query.error_code,
    bulkId: query.bulk_id,
    forkedFrom: query.forked_from,
    startedAfter: query.started_after,
    startedBefore: query.started_before,
    labels: query["label.{name}"],
    q: query.q || undefined,
  };
}
