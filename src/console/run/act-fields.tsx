// The fields of an act, and what their texts say. What a value means is for the service to check.

import type { Run } from "../browser/resources.js";
import { JsonField } from "../parts/json-field.js";
import { parseJson, parseObject } from "../parts/json-text.js";
import type { ActForm, Field, Values } from "./act-forms.js";

export type Texts = Readonly<Record<string, string>>;

/** What is known already: the signal that is awaited, and nothing else, so that nothing is sent by accident. */
export function initialTexts({ name }: ActForm, { awaited_signal }: Run): Texts {
  return name === "signal" && awaited_signal !== undefined ? { signal_name: awaited_signal } : {};
}

interface Read {
  readonly values: Values;
  readonly faults: Readonly<Record<string, string>>;
}

export function valuesOf({ fields }: ActForm, texts: Texts): Read {
  const values: Record<string, unknown> = {};
  const faults: Record<string, string> = {};
  for (const field of fields) {
    const text = (texts[field.name] ?? "").trim();
    if (text === "") continue;
    const { value, fault } = read(field, text);
    if (fault === undefined) values[field.name] = value;
    else faults[field.name] = fault;
  }
  return { values, faults };
}

function read({ kind }: Field, text: string): { readonly value?: unknown; readonly fault?: string } {
  switch (kind) {
    case "number":
      return { value: Number(text) };
    case "check":
      return { value: text === "true" };
    case "json":
      return parseJson(text);
    case "object":
      return parseObject(text);
    default:
      return { value: text };
  }
}

interface FieldProps {
  readonly field: Field;
  readonly texts: Texts;
  readonly fault: string | undefined;
  readonly onChange: (texts: Texts) => void;
}

export function ActField({ field, texts, fault, onChange }: FieldProps) {
  const { name, kind, label, hint, required } = field;
  const text = texts[name] ?? "";
  const change = (changed: string) => onChange({ ...texts, [name]: changed });
  if (kind === "json" || kind === "object")
    return <JsonField label={label} text={text} onChange={change} fault={fault} hint={hint} rows={4} />;
  if (kind === "check") return <Check label={label} isOn={text === "true"} onChange={change} />;
  return (
    <div className="act-field">
      <label>
        {label}
        <input
          type={kind}
          value={text}
          required={required}
          min={kind === "number" ? 1 : undefined}
          onChange={({ target }) => change(target.value)}
        />
      </label>
      {hint !== undefined && <p className="quiet">{hint}</p>}
    </div>
  );
}

const Check = ({ label, isOn, onChange }: { label: string; isOn: boolean; onChange: (text: string) => void }) => (
  <p>
    <label className="check">
      <input type="checkbox" checked={isOn} onChange={({ target }) => onChange(target.checked ? "true" : "")} /> {label}
    </label>
  </p>
);
