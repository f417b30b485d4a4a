// The form of an open task: that of its `form_schema`, and for an approval the choice between yes and no. It sends nothing.
import type { ReactNode } from "react";
import type { Problem, UserTask } from "../browser/resources.js";
import { SchemaForm } from "../parts/form.js";

interface TaskFormProps {
  readonly task: UserTask;
  readonly isApproval: boolean;
  readonly onSubmit: (result: unknown) => void;
  readonly problems: readonly Problem[];
  readonly isBusy: boolean;
  readonly children: ReactNode;
}

export function TaskForm({ task, isApproval, onSubmit, ...rest }: TaskFormProps) {
  const common = { ...rest, at: "$.result", label: "Result" };
  if (!isApproval)
    return <SchemaForm {...common} schema={task.form_schema} submitLabel="Submit the task" onSubmit={onSubmit} />;
  const decide = (approved: boolean) => (value: unknown) => onSubmit({ ...(value as object | undefined), approved });
  return (
    <SchemaForm
      {...common}
      schema={withoutDecision(task.form_schema)}
      submitLabel="Approve"
      onSubmit={decide(true)}
      other={{ label: "Reject", isDangerous: true, onSubmit: decide(false) }}
    />
  );
}

/** An approval without a form may still be explained. */
const REASON = { type: "object", properties: { comment: { type: "string", title: "Comment" } } };

/** The two buttons say `approved`. */
function withoutDecision(schema: UserTask["form_schema"]): object {
  const { properties, required, ...others } = (schema ?? REASON) as {
    properties?: Record<string, unknown>;
    required?: readonly string[];
  };
  const { approved: _, ...asked } = properties ?? {};
  return {
    ...others,
    properties: asked,
    ...(required && { required: required.filter((name) => name !== "approved") }),
  };
}
