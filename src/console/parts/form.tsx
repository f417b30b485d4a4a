// A form for a value: drawn from its JSON Schema, or a text of JSON where there is none. It asks for the value and says where it does
// not fit; what becomes of the value is for the page.
import { type FormEvent, lazy, Suspense, useState } from "react";
import type { Problem } from "../browser/resources.js";
import { type SchemaFormProps, Submit, submitted } from "./form-submit.js";
import { JsonValue } from "./json-value.js";
import { Loading } from "./notes.js";
import "./form.css";

/** The form library is as large as all pages together. */
const DrawnForm = lazy(() => import("./form-drawn.js"));

/** A person may always write the JSON instead: a schema can say more than a form can draw. */
export function SchemaForm(props: SchemaFormProps) {
  const { schema, problems = [] } = props;
  const [value, setValue] = useState(props.value);
  const [isText, setText] = useState(false);
  const drawn = isDrawable(schema) ? schema : undefined;
  return (
    <div className="schema-form">
      <Problems of={problems} />
      {drawn && !isText ? (
        <Suspense fallback={<Loading />}>
          <DrawnForm {...props} schema={drawn} value={value} onChange={setValue} />
        </Suspense>
      ) : (
        <TextForm {...props} value={value} onChange={setValue} />
      )}
      {drawn && (
        <button type="button" className="as-text" onClick={() => setText(!isText)}>
          {isText ? "Edit as a form" : "Edit as JSON"}
        </button>
      )}
    </div>
  );
}

/** Whether a form from it would ask for anything. */
function isDrawable(schema: object | undefined): schema is object {
  if (schema === undefined || Object.keys(schema).length === 0) return false;
  const { type, properties, ...others } = schema as { type?: unknown; properties?: object };
  if (properties && Object.keys(properties).length > 0) return true;
  return ["oneOf", "anyOf", "allOf", "$ref", "enum", "if"].some((key) => key in others) || isValueType(type);
}

const isValueType = (type: unknown) => typeof type === "string" && type !== "object" && type !== "null";

/** Shown beside the fields too, but a field may be folded, or not be drawn at all. */
function Problems({ of }: { of: readonly Problem[] }) {
  if (of.length === 0) return null;
  return (
    <ul className="refused" role="alert" aria-label="What does not fit">
      {of.map(({ path, message }) => (
        <li key={`${path} ${message}`}>
          <code>{path}</code> {message}
        </li>
      ))}
    </ul>
  );
}

function TextForm(props: SchemaFormProps & { onChange: (value: unknown) => void }) {
  const submit = (event: FormEvent) => {
    event.preventDefault();
    submitted(props, event, props.value ?? {});
  };
  return (
    <form onSubmit={submit}>
      <JsonValue label={props.label ?? "JSON"} value={props.value ?? {}} onChange={props.onChange} />
      <Submit {...props} />
    </form>
  );
}
