// The action that a Task's resource becomes: an ARN says who does the work, and here a worker registers it under a name. What the integration
// itself does with its parameters is the worker's business.
import { idOf } from "../names.js";
import { NoEquivalent } from "../report.js";

export interface ActionName {
  readonly action: string;
  /** An integration answers with an object; a function or an activity may answer with any value. */
  readonly answersObject: boolean;
  /** What the worker has to do beside its work. */
  readonly duty: string;
}

const part = (text: string) => idOf(text).replaceAll(".", "_");

/** Of CloudFormation, which may have colons itself. */
const PLACEHOLDER = /\$\{([^}]*)\}/g;

/** Throws NoEquivalent for a task token, which a worker cannot answer. */
export function actionOf(resource: string): ActionName {
  const [arn, partition, service = "", , , kind = "", ...rest] = resource
    .replace(PLACEHOLDER, (_, name: string) => name.replace(/[^A-Za-z0-9]+/g, "_"))
    .split(":");
  const own = { answersObject: false, duty: "" };
  if (arn !== "arn" || partition === undefined)
    return { ...own, action: `task.${part(resource)}`, duty: "named by a placeholder in the source" };
  if (service === "lambda" && kind === "function") return { ...own, action: `lambda.${part(rest[0] ?? "function")}` };
  if (service === "states" && kind === "activity") return { ...own, action: `activity.${part(rest.join("_"))}` };
  if (service !== "states")
    return {
      ...own,
      action: `${part(service || "task")}.${part([kind, ...rest].filter(Boolean).join("_") || "call")}`,
    };
  const path = [kind, ...rest];
  const called = path.join(":");
  if (called.endsWith(".waitForTaskToken"))
    throw new NoEquivalent(
      "a task token (.waitForTaskToken)",
      "its answer is sent to the token, and a run is answered by a signal",
    );
  const [target = "call", ...pattern] = (path.at(-1) === "2" ? path.slice(0, -1) : path).at(-1)?.split(".") ?? [];
  const services = (path.at(-1) === "2" ? path.slice(0, -2) : path.slice(0, -1)).map(part).join(".");
  const waits = pattern.includes("sync");
  return {
    action: `${services || "aws"}.${part(target)}${waits ? "_sync" : ""}`,
    answersObject: true,
    duty: waits
      ? "it gets the parameters of the integration, waits for the end of the job, and answers as the integration does"
      : "it gets the parameters of the integration, and answers as the integration does",
  };
}
