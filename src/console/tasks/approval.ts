// The form of an approval, whose two buttons say `approved`: what is drawn of it, and which values fit it. It draws nothing.
import { type Misfit, misfits } from "../parts/form-validator.js";

/** An approval without a form may still be explained. */
const REASON = { type: "object", properties: { comment: { type: "string", title: "Comment" } } };

/** What the form asks for besides the buttons. */
export function withoutDecision(schema: object = REASON): object {
  const { properties, required, ...others } = schema as {
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

/** What fits under neither decision. What fits under one of them only is for the service to say, which knows the button. */
export function approvalMisfits(schema: object = REASON, value: unknown): Misfit[] {
  const [one = [], other = []] = [true, false].map((approved) =>
    misfits(schema, { ...(value as object | undefined), approved }, { granted: "approved" }),
  );
  const name = ({ place, message }: Misfit) => JSON.stringify([place, message]);
  const others = new Set(other.map(name));
  return one.filter((misfit) => others.has(name(misfit)));
}
