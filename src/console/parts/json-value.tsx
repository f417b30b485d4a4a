// A field for any JSON value, above the field for its text. It knows no schema.
import { useEffect, useRef, useState } from "react";
import { JsonField } from "./json-field.js";
import { type Parsed, parseJson } from "./json-text.js";

interface JsonValueProps {
  readonly label: string;
  /** What the field begins with. */
  readonly value: unknown;
  /** Called with each value that can be parsed; undefined if the field is empty. */
  readonly onChange: (value: unknown) => void;
}

/** A form around it cannot be submitted while the text is no JSON. */
export function JsonValue({ label, value, onChange }: JsonValueProps) {
  const field = useRef<HTMLTextAreaElement>(null);
  const [text, setText] = useState(() => JSON.stringify(value, null, 2));
  const { fault } = parsed(text);
  useEffect(() => field.current?.setCustomValidity(fault ?? ""), [fault]);
  const change = (next: string) => {
    setText(next);
    const { value, fault } = parsed(next);
    if (fault === undefined) onChange(value);
  };
  return <JsonField ref={field} label={label} text={text} fault={fault} rows={8} onChange={change} />;
}

const parsed = (text: string): Parsed => (text.trim() === "" ? {} : parseJson(text));
