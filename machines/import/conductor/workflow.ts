// A workflow of Conductor as one of this service: each task becomes a step or a few, and its output is the variable of its reference name. What has
// no equivalent is reported, and a step that does nothing or a null is put in its place.
import { isObject, type Json, type JsonObject } from "../../values/json.js";
import type { FieldPath } from "../../values/json-path.js";
import { LONGEST_WAIT_MS } from "../../values/time.js";
import { template } from "../cel.js";
import { Ids, idOf } from "../names.js";
import { NoEquivalent, type Report } from "../report.js";
import { isNothing } from "./policy.js";
import { celOfValue, type Names, templatesOf } from "./reference.js";
import { scriptOf } from "./script.js";
import { SIMPLE_STEPS, type TaskWriter } from "./tasks.js";

/** Fields that say nothing of how a workflow runs. */
const DESCRIBING = [
  ...[
    "name",
    "description",
    "version",
    "tasks",
    "inputParameters",
    "outputParameters",
    "schemaVersion",
    "restartable",
    "ownerEmail",
  ],
  ...[
    "ownerApp",
    "createTime",
    "updateTime",
    "createdBy",
    "updatedBy",
    "timeoutPolicy",
    "timeoutSeconds",
    "variables",
    "metadata",
  ],
  ...["accessPolicy", "inputSchema", "outputSchema", "tags", "overwriteTags", "onlineMigrationEnabled"],
];

const WHY: Readonly<Record<string, string>> = {
  failureWorkflow: "a run that fails undoes its steps itself: give the steps compensations",
  inputTemplate: "its defaults would have to be merged into the inputs: give them where the inputs are read",
  workflowStatusListenerEnabled: "a listener is a class of the server: use webhooks or events",
  rateLimitConfig: "use the concurrency or the rate_limit of the workflow, whose key is computed from the inputs alone",
  enforceSchema: "schemas of Conductor are registered beside the workflow",
};

/** Where a sequence of tasks is. */
export interface Place {
  /** In a branch of a fork: it is a run of its own. */
  readonly branch: boolean;
  /** Behind it the run ends, and its output is that of its last task. */
  readonly last: boolean;
}

export class WorkflowImport implements TaskWriter, Names {
  readonly ids = new Ids();
  private readonly variables = new Ids();
  private readonly types = new Map<string, string>();
  private readonly inputsRead = new Set<string>();
  private readonly steps: JsonObject[] = [];

  constructor(
    private readonly source: JsonObject,
    readonly report: Report,
  ) {
    for (const own of ["variables", "response", "spawned"]) this.variables.for(`#${own}`, own);
    for (const [task] of tasksIn(source.tasks, ["tasks"])) {
      const reference = String(task.taskReferenceName);
      this.types.set(reference, String(task.type ?? "SIMPLE"));
      this.variables.for(reference, reference);
    }
    for (const [, reference = ""] of JSON.stringify(source).matchAll(/\$\{([^.{}]+)\.input[.}[]/g))
      this.inputsRead.add(reference);
  }

  workflow(id: string, name: string): JsonObject {
    const { description, outputParameters, timeoutSeconds, timeoutPolicy, variables, tasks } = this.source;
    for (const [field, value] of Object.entries(this.source))
      if (!DESCRIBING.includes(field) && !isNothing(value))
        this.report.refuse([field], field, WHY[field] ?? "a workflow has nothing like it");
    const start = this.ids.for("#variables", "variables");
    const given = isObject(outputParameters) && Object.keys(outputParameters).length > 0;
    const end = given
      ? this.end("end", templatesOf(outputParameters, this, ["outputParameters"], this.report))
      : undefined;
    const list = Array.isArray(tasks) ? tasks.filter(isObject) : [];
    const first = this.sequence(list, ["tasks"], end, { branch: false, last: !given });
    const begun = { variables: { variables: isObject(variables) ? variables : {} } };
    return {
      ...{ id, name },
      ...(typeof description === "string" && description !== "" && { description }),
      ...(typeof timeoutSeconds === "number" &&
        timeoutSeconds > 0 &&
        timeoutPolicy !== "ALERT_ONLY" && { timeout_ms: Math.min(timeoutSeconds * 1_000, LONGEST_WAIT_MS) }),
      start,
      steps: [{ id: start, type: "set_var", ...begun, next: first ?? this.end("end", null) }, ...this.steps.reverse()],
    };
  }

  output(reference: string): string | undefined {
    const type = this.types.get(reference);
    return type === undefined || NO_OUTPUT.includes(type) ? undefined : this.variables.for(reference, reference);
  }

  input(reference: string): string | undefined {
    const type = this.types.get(reference);
    return type === undefined || !SIMPLE_STEPS.has(type)
      ? undefined
      : this.variables.for(`${reference}#input`, `${reference}_input`);
  }

  readsInputOf(reference: string): boolean {
    return this.inputsRead.has(reference);
  }

  /** Steps are made from the end on, because each names the one behind it. */
  add(step: JsonObject): string {
    this.steps.push(Object.fromEntries(Object.entries(step).filter(([, value]) => value !== undefined)) as JsonObject);
    return String(step.id);
  }

  end(suffix: string, output: Json): string {
    return this.add({ id: this.ids.for(`#end ${suffix}`, suffix), type: "end", output });
  }

  templates(value: Json, path: FieldPath): Json {
    return templatesOf(value, this, path, this.report);
  }

  /** Gives the first step, or what is behind the tasks if there are none. */
  sequence(tasks: readonly JsonObject[], path: FieldPath, next: string | undefined, place: Place): string | undefined {
    let behind = next;
    for (let index = tasks.length - 1; index >= 0; index--) {
      const [task, before] = [tasks[index] as JsonObject, tasks[index - 1]];
      const at = [...path, index];
      const last = place.last && index === tasks.length - 1;
      const reference = String(task.taskReferenceName);
      const variable = this.output(reference);
      if (last && task.type !== "SWITCH" && task.type !== "DECISION" && task.type !== "TERMINATE")
        behind = this.end(
          `${idOf(reference)}.end`,
          variable === undefined ? null : template(`vars[${JSON.stringify(variable)}]`),
        );
      const forked = before && FORKS.includes(String(before.type));
      if (task.type === "JOIN" && forked) {
        behind = this.fork(before, task, [...path, index - 1], at, behind);
        index--;
      } else behind = this.task(task, at, behind, { ...place, last });
    }
    return behind;
  }

  private task(task: JsonObject, path: FieldPath, next: string | undefined, place: Place): string | undefined {
    const type = String(task.type ?? "SIMPLE");
    const reference = String(task.taskReferenceName);
    this.checkFields(task, path);
    const id = this.ids.for(reference, reference);
    const write = SIMPLE_STEPS.get(type);
    const about = { task, path, id, variable: this.variables.for(reference, reference), next, place };
    if (write) return write(about, this);
    if (type === "SWITCH" || type === "DECISION") return this.decision(task, path, id, next, place);
    if (type === "DO_WHILE") return this.loop(task, path, id, next, place);
    const why = REFUSED[type] ?? "it is a task of a server with this type";
    this.report.refuse([...path, "type"], type, why, "a step that does nothing");
    return this.add({ id, type: "noop", ...(next !== undefined && { next }) });
  }

  private checkFields(task: JsonObject, path: FieldPath): void {
    for (const [field, value] of Object.entries(task)) {
      if (isNothing(value) || FIELDS.includes(field)) continue;
      this.report.refuse([...path, field], field, TASK_WHY[field] ?? "a step has nothing like it");
    }
    if (task.asyncComplete === true)
      this.report.refuse(
        [...path, "asyncComplete"],
        "asyncComplete",
        "a step that waits for something from outside is a wait_for_signal of its own",
      );
  }

  /** The CEL of a script over the task's inputs. Null if it has none: that is reported. */
  script(
    text: Json | undefined,
    inputs: JsonObject,
    path: FieldPath,
    own?: string,
  ): { cel: string; truth: string } | null {
    try {
      const script = scriptOf(String(text), (name) => {
        if (Object.hasOwn(inputs, name)) return celOfValue(inputs[name] ?? null, this);
        const variable = name === own ? this.variables.for(name, name) : this.output(name);
        if (variable === undefined)
          throw new NoEquivalent(`$.${name} of a script`, "no input of the task has this name");
        return `vars[${JSON.stringify(variable)}]`;
      });
      if (script.loose)
        this.report.note(
          path,
          "a comparison in a script",
          "JavaScript converts its operands",
          "one without conversion: values of two types are not equal, and have no order",
        );
      return script;
    } catch (error) {
      if (!(error instanceof NoEquivalent)) throw error;
      this.report.refuse(path, error.what, error.why, "null");
      return null;
    }
  }

  private decision(task: JsonObject, path: FieldPath, id: string, next: string | undefined, place: Place): string {
    const inputs = isObject(task.inputParameters) ? task.inputParameters : {};
    const byName = task.evaluatorType === "value-param" || (task.type === "DECISION" && isNothing(task.caseExpression));
    const name = String(task.type === "DECISION" ? task.caseValueParam : task.expression);
    const cel = byName
      ? this.valueOf(inputs[name] ?? null, [...path, "inputParameters", name])
      : this.script(task.caseExpression ?? task.expression, inputs, [...path, "expression"])?.cel;
    const way = (tasks: Json | undefined, at: FieldPath) => {
      const list = Array.isArray(tasks) ? tasks.filter(isObject) : [];
      const first = this.sequence(list, at, next, place);
      return (
        first ??
        (place.last
          ? this.endOfDecision(id, path)
          : this.add({ id: this.ids.for(`${at.join("/")}#none`, `${id}.none`), type: "noop" }))
      );
    };
    const cases = Object.entries(isObject(task.decisionCases) ? task.decisionCases : {}).map(([key, tasks]) => ({
      when: `cel.bind(v, ${cel ?? "null"}, type(v) in [string, double, int, bool] && string(v) == ${JSON.stringify(key)})`,
      next: way(tasks, [...path, "decisionCases", key]),
    }));
    const otherwise = way(task.defaultCase, [...path, "defaultCase"]);
    // A workflow may have a case for nothing at all.
    if (cases.length === 0) return this.add({ id, type: "noop", next: otherwise });
    return this.add({ id, type: "switch", cases, default: otherwise });
  }

  private endOfDecision(id: string, path: FieldPath): string {
    this.report.note(
      path,
      "a decision as the last task",
      "its own output is what it has decided",
      "an empty output on its ways without tasks",
    );
    return this.end(`${id}.end`, {});
  }

  private valueOf(value: Json, path: FieldPath): string | undefined {
    try {
      return celOfValue(value, this);
    } catch (error) {
      if (!(error instanceof NoEquivalent)) throw error;
      this.report.refuse(path, error.what, error.why, "null");
      return undefined;
    }
  }

  /** The rounds are those of a while whose condition is asked after the first one. Its output has the outputs of each round, by its number. */
  private loop(task: JsonObject, path: FieldPath, id: string, next: string | undefined, place: Place): string {
    const inputs = isObject(task.inputParameters) ? task.inputParameters : {};
    const reference = String(task.taskReferenceName);
    const variable = this.variables.for(reference, reference);
    if (inputs.keepLastN !== undefined)
      this.report.refuse([...path, "inputParameters", "keepLastN"], "keepLastN", "all rounds are kept");
    const tasks = Array.isArray(task.loopOver) ? task.loopOver.filter(isObject) : [];
    const given = tasksIn(tasks, []).map(([each]) => String(each.taskReferenceName));
    const outputs = given.flatMap((each) => {
      const name = this.output(each);
      return name === undefined ? [] : [`?${JSON.stringify(each)}: vars[?${JSON.stringify(name)}]`];
    });
    const own = `vars[${JSON.stringify(variable)}]`;
    const round = this.add({
      id: this.ids.for(`${reference}#round`, `${id}.round`),
      ...{ type: "merge", sources: [own, `{string(${own}.iteration): {${outputs.join(", ")}}}`], save_as: variable },
    });
    const body = this.sequence(tasks, [...path, "loopOver"], round, { ...place, last: false }) ?? round;
    const begin = this.add({
      id: this.ids.for(`${reference}#begin`, `${id}.begin`),
      ...{ type: "merge", sources: [own, '{"iteration": iteration + 1}'], save_as: variable, next: body },
    });
    const condition = this.script(task.loopCondition, inputs, [...path, "loopCondition"], reference)?.truth ?? "false";
    const repeat = this.add({
      id: this.ids.for(`${reference}#loop`, `${id}.loop`),
      ...{
        type: "while",
        condition: `iteration == 0 || ${condition}`,
        body: begin,
        max_iterations: 10_000,
        keep_last: 0,
        save_as: null,
      },
      ...(next !== undefined && { next }),
    });
    return this.add({ id, type: "set_var", variables: { [variable]: {} }, next: repeat });
  }

  /** What the tasks of a branch give is set again behind the join, because a branch is a run of its own. */
  private fork(
    fork: JsonObject,
    join: JsonObject,
    path: FieldPath,
    joinPath: FieldPath,
    next: string | undefined,
  ): string {
    const [reference, joined] = [String(fork.taskReferenceName), String(join.taskReferenceName)];
    const id = this.ids.for(reference, reference);
    if (fork.type !== "FORK_JOIN") {
      this.report.refuse(
        [...path, "type"],
        String(fork.type),
        "which tasks it has is known in a run only, and a foreach has one body",
        "a step that does nothing",
      );
      return this.add({ id, type: "noop", ...(next !== undefined && { next }) });
    }
    for (const [task, at] of [
      [fork, path],
      [join, joinPath],
    ] as const)
      this.checkFields(task, at);
    const branches = (Array.isArray(fork.forkTasks) ? fork.forkTasks : []).map((branch) =>
      Array.isArray(branch) ? branch.filter(isObject) : [],
    );
    this.checkJoin(join, branches, joinPath);
    const joinId = this.ids.for(joined, joined);
    const result = this.variables.for(`${joined}#branches`, `${joinId}_branches`);
    const names = branches.map((branch) => tasksIn(branch, []).map(([task]) => String(task.taskReferenceName)));
    const whole = `vars[${JSON.stringify(result)}]`;
    const variables: Record<string, Json> = {};
    const outputs: string[] = [];
    const on = Array.isArray(join.joinOn) ? join.joinOn.map(String) : [];
    names.forEach((list, index) => {
      for (const each of list) {
        const name = this.output(each);
        if (name === undefined) continue;
        const cel = `${whole}.branch${index}[?${JSON.stringify(name)}]`;
        variables[name] = template(cel);
        if (on.includes(each)) outputs.push(`?${JSON.stringify(each)}: ${cel}`);
      }
    });
    variables[this.variables.for(joined, joined)] = template(`{${outputs.join(", ")}}`);
    const gathered = this.add({
      id: this.ids.for(`${joined}#gathered`, `${joinId}.gathered`),
      type: "set_var",
      variables,
      ...(next !== undefined && { next }),
    });
    this.add({ id: joinId, type: "join", save_as: result, next: gathered });
    const begun = branches.map((branch, index) => {
      const end = this.end(`${id}.branch${index}.end`, "${vars}");
      return [
        `branch${index}`,
        { next: this.sequence(branch, [...path, "forkTasks", index], end, { branch: true, last: false }) ?? end },
      ];
    });
    return this.add({ id, type: "parallel", branches: Object.fromEntries(begun) as JsonObject, next: joinId });
  }

  private checkJoin(join: JsonObject, branches: readonly (readonly JsonObject[])[], path: FieldPath): void {
    const on = Array.isArray(join.joinOn) ? join.joinOn.map(String) : [];
    const lasts = branches.map((branch) => String(branch.at(-1)?.taskReferenceName));
    const missing = lasts.filter((last) => !on.includes(last));
    if (missing.length > 0)
      this.report.refuse(
        [...path, "joinOn"],
        `a join that does not wait for ${missing.join(", ")}`,
        "a branch that no join waits for is cancelled when the run ends",
        "a join of all branches",
      );
  }
}

/** All tasks, those inside of others too, with their places. */
export function tasksIn(
  tasks: Json | undefined | readonly JsonObject[],
  path: FieldPath,
): readonly (readonly [JsonObject, FieldPath])[] {
  const list = Array.isArray(tasks) ? (tasks as readonly Json[]) : [];
  return list.flatMap((task, index) => {
    const at = [...path, index];
    if (Array.isArray(task)) return tasksIn(task, at);
    if (!isObject(task)) return [];
    const inner = ["loopOver", "defaultCase", "forkTasks"].flatMap((field) => tasksIn(task[field], [...at, field]));
    const cases = Object.entries(isObject(task.decisionCases) ? task.decisionCases : {});
    return [
      [task, at] as const,
      ...inner,
      ...cases.flatMap(([key, each]) => tasksIn(each, [...at, "decisionCases", key])),
    ];
  });
}

const FORKS = ["FORK_JOIN", "FORK", "FORK_JOIN_DYNAMIC"];
/** Types whose output is not kept, or that have none. */
const NO_OUTPUT = ["SWITCH", "DECISION", "FORK_JOIN", "FORK_JOIN_DYNAMIC", "TERMINATE", "NOOP", "WAIT_FOR_WEBHOOK"];

const FIELDS = [
  ...[
    "name",
    "taskReferenceName",
    "type",
    "description",
    "inputParameters",
    "decisionCases",
    "defaultCase",
    "evaluatorType",
    "expression",
  ],
  ...[
    "caseValueParam",
    "caseExpression",
    "joinOn",
    "forkTasks",
    "loopOver",
    "loopCondition",
    "taskDefinition",
    "optional",
    "permissive",
  ],
  ...[
    "startDelay",
    "subWorkflowParam",
    "sink",
    "dynamicTaskNameParam",
    "retryCount",
    "asyncComplete",
    "callbackFromWorker",
    "scriptExpression",
  ],
  ...["dynamicForkTasksParam", "dynamicForkTasksInputParamName", "joinMode"],
];

const TASK_WHY: Readonly<Record<string, string>> = {
  defaultExclusiveJoinTask: "only the branch that was taken goes on, so there is nothing to join",
  onStateChange: "its events are sent by no step: put an emit_event behind the task",
  cacheConfig: "the output of a step is not kept for other runs",
  rateLimited: "the limit is one of the task definition: give the action a concurrency or a rate_limit",
  items: "use a foreach",
};

const LLM = "it calls a model: let an action of your own do it";
const REFUSED: Readonly<Record<string, string>> = {
  JOIN: "there is no fork in front of it",
  EXCLUSIVE_JOIN: "only the branch that was taken goes on, so there is nothing to join",
  FORK_JOIN: "there is no join behind it",
  FORK_JOIN_DYNAMIC: "which tasks it has is known in a run only, and a foreach has one body",
  KAFKA_PUBLISH: "a step publishes to RabbitMQ and to runs, not to Kafka: let an action do it",
  HTTP_POLL: "write a while with an http_request and a delay",
  USER_DEFINED: "it is a task of a server with this type",
  LLM_CHAT_COMPLETE: LLM,
  LLM_TEXT_COMPLETE: LLM,
  LLM_INDEX_TEXT: LLM,
  LLM_SEARCH_INDEX: LLM,
  LLM_GENERATE_EMBEDDINGS: LLM,
  AGENT: LLM,
  CALL_MCP_TOOL: LLM,
  LIST_MCP_TOOLS: LLM,
};
