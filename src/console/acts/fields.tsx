// The fields of an act, drawn. They keep texts; `values.ts` reads them.
import { JsonField } from "../parts/json-field.js";
import type { Field } from "./acts.js";
import type { Read, Texts } from "./values.js";
import "./acts.css";

interface FieldsProps {
  readonly fields: readonly Field[];
  readonly texts: Texts;
  readonly faults: Read["faults"];
  readonly onChange: (texts: Texts) => void;
}

export const ActFields = ({ fields, texts, faults, onChange }: FieldsProps) => (
  <>
    {fields.map((field) => (
      <ActField
        key={field.name}
        field={field}
        text={texts[field.name] ?? ""}
        fault={faults[field.name]}
        onChange={(text) => onChange({ ...texts, [field.name]: text })}
      />
    ))}
  </>
);

interface FieldProps {
  readonly field: Field;
  readonly text: string;
  readonly fault: string | undefined;
  readonly onChange: (text: string) => void;
}

function ActField({ field, text, fault, onChange }: FieldProps) {
  const { kind, label, hint } = field;
  if (kind === "json" || kind === "object") return <JsonField {...{ label, text, fault, hint, onChange }} rows={4} />;
  if (kind === "check") return <Check label={label} isOn={text === "true"} onChange={onChange} />;
  return <Line field={{ ...field, kind }} text={text} onChange={onChange} />;
}

type LineProps = Pick<FieldProps, "text" | "onChange"> & { readonly field: Field & { kind: "text" | "number" } };

const Line = ({ field: { kind, label, hint, required }, text, onChange }: LineProps) => (
  <div className="act-field">
    <label>
      {label}
      <input
        type={kind}
        value={text}
        required={required}
        min={kind === "number" ? 1 : undefined}
        onChange={({ target }) => onChange(target.value)}
      />
    </label>
    {hint !== undefined && <p className="quiet">{hint}</p>}
  </div>
);

const Check = ({ label, isOn, onChange }: { label: string; isOn: boolean; onChange: (text: string) => void }) => (
  <p>
    <label className="check">
      <input type="checkbox" checked={isOn} onChange={({ target }) => onChange(target.checked ? "true" : "")} /> {label}
    </label>
  </p>
);
