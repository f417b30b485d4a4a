// The names of the operations in the OpenAPI document. Generated clients have them as the names of their methods, so they must never change.

const SAGA = "/api/v1/sagas/{id}";
const OF_RUN = "/api/v1/sagas/{run_id}";
const WORKFLOW = "/api/v1/workflows/{wf_id}";
const RULE = "/api/v1/rules/{rule_id}";
const VERSION = "versions/{version}";

const OPERATION_IDS: Readonly<Record<string, string>> = {
  "GET /healthz": "isAlive",
  "GET /livez": "isAliveAtLivez",
  "GET /health": "isAliveAtHealth",
  "GET /health/live": "isAliveAtHealthLive",
  "GET /readyz": "isReady",
  "GET /health/ready": "isReadyAtHealthReady",
  "GET /metrics": "getMetrics",
  "GET /inspect/{run_id}": "getInspectorPage",

  "POST /api/v1/sagas/start": "startSaga",
  "POST /api/v1/sagas/signal_with_start": "signalWithStart",
  "GET /api/v1/sagas": "listSagas",
  "GET /api/v1/sagas/counts": "countSagas",
  [`GET ${SAGA}`]: "getSaga",
  [`GET ${SAGA}/events`]: "listSagaEvents",
  [`GET ${SAGA}/signals`]: "listSagaSignals",
  [`GET ${SAGA}/undo`]: "listSagaUndo",
  [`GET ${SAGA}/user_tasks`]: "listSagaUserTasks",
  [`GET ${SAGA}/children`]: "listSagaChildren",
  [`GET ${SAGA}/children/counts`]: "countSagaChildren",
  [`GET ${SAGA}/explain`]: "explainSaga",
  [`POST ${SAGA}/query`]: "querySaga",
  [`GET ${SAGA}/stream`]: "streamSaga",
  [`GET ${SAGA}/inspect`]: "inspectSaga",
  [`POST ${SAGA}/cancel`]: "cancelSaga",
  [`POST ${OF_RUN}/signal/{name}`]: "signalSaga",
  [`POST ${OF_RUN}/user_task/{task_id}/submit`]: "submitUserTask",
  [`POST ${OF_RUN}/actions/{step_id}/result`]: "reportActionResult",
  [`POST ${OF_RUN}/actions/{step_id}/heartbeat`]: "reportActionHeartbeat",

  [`POST ${SAGA}/pause`]: "pauseSaga",
  [`POST ${SAGA}/resume`]: "resumeSaga",
  [`POST ${SAGA}/retry_step`]: "retrySagaStep",
  [`POST ${SAGA}/skip_step`]: "skipSagaStep",
  [`POST ${SAGA}/fail`]: "failSaga",
  [`POST ${SAGA}/compensations/retry`]: "retrySagaCompensation",
  [`POST ${SAGA}/compensations/skip`]: "skipSagaCompensation",
  [`POST ${SAGA}/terminate`]: "terminateSaga",
  [`POST ${SAGA}/release`]: "releaseSaga",
  [`POST ${SAGA}/rerun`]: "rerunSaga",
  [`POST ${SAGA}/fork`]: "forkSaga",
  [`DELETE ${SAGA}`]: "eraseSaga",
  [`POST ${SAGA}/migrate`]: "migrateSaga",
  "POST /api/v1/bulk": "createBulkJob",
  "GET /api/v1/bulk": "listBulkJobs",
  "GET /api/v1/bulk/{id}": "getBulkJob",
  "POST /api/v1/bulk/{id}/stop": "stopBulkJob",
  "POST /api/v1/bulk/{id}/resume": "resumeBulkJob",

  "GET /api/v1/user_tasks": "listUserTasks",
  "POST /api/v1/events": "publishEvent",
  "POST /api/v1/triggers": "createTrigger",
  "GET /api/v1/triggers": "listTriggers",
  "GET /api/v1/triggers/{id}": "getTrigger",
  "PATCH /api/v1/triggers/{id}": "changeTrigger",
  "DELETE /api/v1/triggers/{id}": "deleteTrigger",
  "POST /api/v1/triggers/{id}/fire": "fireTrigger",
  "POST /api/v1/triggers/{id}/backfill": "backfillTrigger",
  "GET /api/v1/triggers/{id}/fires": "listTriggerFires",
  "GET /api/v1/triggers/{id}/next": "listTriggerTicks",

  "POST /api/v1/workflows": "createWorkflow",
  "GET /api/v1/workflows": "listWorkflows",
  "POST /api/v1/workflows/validate": "validateWorkflow",
  [`GET ${WORKFLOW}`]: "getWorkflow",
  [`GET ${WORKFLOW}/versions`]: "listWorkflowVersions",
  [`POST ${WORKFLOW}/${VERSION}/publish`]: "publishWorkflow",
  [`POST ${WORKFLOW}/${VERSION}/unpublish`]: "unpublishWorkflow",
  [`GET ${WORKFLOW}/machine`]: "getWorkflowMachine",
  [`GET ${WORKFLOW}/stats`]: "getWorkflowStats",
  [`GET ${WORKFLOW}/performance`]: "getWorkflowPerformance",
  [`POST ${WORKFLOW}/test`]: "rehearseWorkflow",
  [`POST ${WORKFLOW}/migrations/check`]: "checkWorkflowMigration",
  "POST /api/v1/rules": "createRule",
  "GET /api/v1/rules": "listRules",
  [`GET ${RULE}`]: "getRule",
  [`GET ${RULE}/versions`]: "listRuleVersions",
  [`POST ${RULE}/${VERSION}/publish`]: "publishRule",
  [`POST ${RULE}/${VERSION}/unpublish`]: "unpublishRule",
  [`POST ${RULE}/evaluate`]: "evaluateRule",

  "POST /api/v1/registry/register": "registerActions",
  "GET /api/v1/registry/actions": "listActions",
  "GET /api/v1/workers": "listWorkers",
  "GET /api/v1/cluster": "getCluster",

  "POST /api/v1/api_keys": "createApiKey",
  "GET /api/v1/api_keys": "listApiKeys",
  "DELETE /api/v1/api_keys/{id}": "revokeApiKey",
  "GET /api/v1/data_keys/{tenant_id}": "getDataKeys",
  "DELETE /api/v1/data_keys/{tenant_id}": "destroyDataKeys",
  "POST /auth/session": "openSession",
  "GET /auth/session": "getSession",
  "POST /auth/logout": "closeSession",
  "GET /auth/login": "beginLogin",
  "GET /auth/callback": "finishLogin",
};

export function nameOperations(paths: Readonly<Record<string, object>>): void {
  for (const [path, operations] of Object.entries(paths))
    for (const [method, operation] of Object.entries(operations as Record<string, { operationId?: string }>))
      operation.operationId = OPERATION_IDS[`${method.toUpperCase()} ${path}`];
}
