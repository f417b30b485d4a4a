// The form of an open task: that of its `form_schema`, and for an approval the choice between yes and no. It sends nothing.
import { type ReactNode, useCallback } from "react";
import type { Problem, UserTask } from "../browser/resources.js";
import { SchemaForm } from "../parts/form.js";
import { approvalMisfits, withoutDecision } from "./approval.js";

interface TaskFormProps {
  readonly task: UserTask;
  readonly isApproval: boolean;
  readonly onSubmit: (result: unknown) => void;
  readonly problems: readonly Problem[];
  readonly isBusy: boolean;
  readonly children: ReactNode;
}

export function TaskForm({ task, isApproval, onSubmit, ...rest }: TaskFormProps) {
  const { form_schema: schema } = task;
  const judge = useCallback((value: unknown) => approvalMisfits(schema, value), [schema]);
  const common = { ...rest, at: "$.result", label: "Result" };
  if (!isApproval)
    return <SchemaForm {...common} schema={task.form_schema} submitLabel="Submit the task" onSubmit={onSubmit} />;
  const decide = (approved: boolean) => (value: unknown) => onSubmit({ ...(value as object | undefined), approved });
  return (
    <SchemaForm
      {...common}
      schema={withoutDecision(task.form_schema)}
      judge={judge}
      submitLabel="Approve"
      onSubmit={decide(true)}
      other={{ label: "Reject", isDangerous: true, onSubmit: decide(false) }}
    />
  );
}
